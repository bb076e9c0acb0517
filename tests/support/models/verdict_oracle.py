"""The oracle of verdicts on topics: the model of the rule, applied to committed rows of ``signed`` and their pairs."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from verdict_model import Compared, Decision, Event, VerdictModel

from neardup.documents.document import SIGNALS, Column, Document, Refusal, Verdict
from neardup.pairs.batches import CONTENT_HALF, id_columns, id_hashes
from neardup.pairs.comparing import compared
from neardup.pairs.pair_rule import compares_directly
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import table_limits
from neardup.pairs.signing import Signed
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.decider import Decider
from neardup.stories.verdicts.deciding import verdict_limits
from neardup.stories.verdicts.fields import NOTHING_NEW, verdicts_of
from neardup.stories.verdicts.records import STORY_BYTES
from neardup.stories.verdicts.row_columns import NOTHING_FOUND, VerdictLimits
from neardup.stories.verdicts.rule import DOCUMENT, JUDGED, REFUSAL, REMOVAL, arrival_of
from neardup.stories.verdicts.stories import HOLDS
from neardup_workers.outside.topics.links import SIMILARITY_STEPS, decode_links
from neardup_workers.outside.topics.places import place_name
from neardup_workers.outside.topics.shown import NAMES
from neardup_workers.outside.topics.signed import TOGETHER, SignedRows, decode_signed
from neardup_workers.outside.transport.protocol import Record


class Arrival:
    """A row of ``signed``."""

    def __init__(
        self, place: int, kind: int, id_: str, time: int, content: int, rank: float, size: int, shown: dict[str, str]
    ) -> None:
        self.place, self.kind, self.id, self.time, self.content, self.rank = place, kind, id_, time, content, rank
        self.size, self.shown = size, shown
        self.arrived_ms = -1  # the time of its message


def said_of(column: Column | None, count: int) -> list[dict[str, str]]:
    """What is known of each row, by name."""
    if column is None:
        return [{} for _ in range(count)]
    data, starts = column.data.tobytes(), column.starts.tolist()
    values = [orjson.loads(data[first:end] or b"[]") for first, end in pairwise(starts)]
    return [{name: said for name, said in zip(NAMES, value, strict=False) if said} for value in values]


def arrivals_of(records: Sequence[Record], config: Config) -> list[Arrival]:
    """The committed records of ``signed``, in order."""
    out = []
    for record in records:
        signed = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        if signed.growth is not None:
            continue
        rows = signed.arrivals()
        data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
        ids = [data[a:b].decode() for a, b in pairwise(starts)]
        numbers = rows.times.tolist(), rows.contents.tolist(), rows.ranks.tolist(), rows.sizes.tolist()
        shown = said_of(rows.shown, len(ids))
        columns = rows.places.tolist(), rows.kinds.tolist(), ids, *numbers, shown
        for row in zip(*columns, strict=True):
            out.append(Arrival(*row))
            out[-1].arrived_ms = record.timestamp_ms
    return out


def pairs_of(records: Sequence[Record], arrivals: list[Arrival], config: Config) -> dict[int, list[tuple[int, float]]]:
    """The committed pairs: number of the later arrival -> number of the earlier one, and the similarity.

    A document with a link to a copy has no other pairs.
    """
    number = {arrival.place: i for i, arrival in enumerate(arrivals)}
    out = defaultdict(list)
    for record in records:
        links = decode_links(record.value or b"", config.signing_fingerprint).links
        for later, earlier, _, _, steps in zip(*(column.tolist() for column in links), strict=True):
            assert number[earlier] < number[later], "a pair names the later document first"
            out[number[later]].append((number[earlier], float(np.float32(steps / SIMILARITY_STEPS))))
    for later, pairs in out.items():
        copies = [pair for pair in pairs if arrivals[pair[0]].content == arrivals[later].content]
        out[later] = sorted(copies or pairs)
    return out


def expected_lines(
    arrival_records: Sequence[Record], link_records: Sequence[Record], config: Config
) -> list[tuple[int, dict[str, Any]]]:
    """Place and line of every verdict, in order of arrival."""
    arrivals = arrivals_of(arrival_records, config)
    pairs = pairs_of(link_records, arrivals, config)
    model = model_of(config, compare_of(arrival_records, config))
    out = []
    for i, arrival in enumerate(arrivals):
        decision = Decision("refused", i)
        if arrival.kind != REFUSAL:
            time = arrival.time if arrival.kind == DOCUMENT else None
            name: Any = arrival.id
            decision = model.decide(i, Event(name, arrival.content, time, tuple(pairs[i]), arrival.size))
        is_shown = decision.original is not None and model.is_live(model.rows[decision.original])
        out.append((arrival.place, _line(arrivals, i, decision, is_shown)))
    return out


def limits_of(config: Config) -> VerdictLimits:
    """What verdicts depend on in a deployment."""
    return verdict_limits(config, table_limits(config, SCHEMES[config.scheme]))


def model_of(config: Config, compare: Callable[[int, int], Compared] | None) -> VerdictModel:
    """The model with the limits of a configuration."""
    limits = limits_of(config)
    return VerdictModel(
        limits.window, limits.lateness, limits.by_content, compare, story=limits.story_age,
        bytes_max=limits.story_bytes, rows_max=limits.rows, story_bytes=STORY_BYTES, novel=limits.novel,
        lasting=limits.lasting,
    )  # fmt: skip


def compare_of(records: Sequence[Record], config: Config) -> Callable[[int, int], Compared] | None:
    """How the contents of the committed records of ``signed`` are compared."""
    if not compares_directly(config):
        return None
    known: dict[int, Evidence] = {}
    for record in records:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        for i, content in enumerate(rows.contents[:, CONTENT_HALF].tolist()):
            known.setdefault(content, rows.evidence.select(np.array([i])))

    @functools.cache
    def compare(newer: int, older: int) -> Compared:
        ((similarity, said, new_numbers, signal),) = compared(config, known[newer], known[older]).tolist()
        return Compared(similarity, said, int(new_numbers), int(signal))

    return compare


def one_process(records: Sequence[Record], config: Config) -> tuple[list[Verdict], list[str]]:
    """The verdicts of one process about the committed rows of ``signed``, which are no texts: those of the decider that
    ``Deduplicator.decide`` uses. Verdicts name documents by number; the second list has the place of each."""
    decider = Decider(Matcher(config))
    verdicts: list[Verdict] = []
    places: list[str] = []
    for record in records:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        if rows.growth is not None:
            continue
        apart = np.flatnonzero(np.isin(rows.kinds, (REMOVAL, JUDGED))).tolist()
        for first, end in pairwise([-1, *apart, rows.size]):
            part = rows.select(first + 1, end)
            ids = [part.ids[a:b].tobytes().decode() for a, b in pairwise(part.id_starts.tolist())]
            refused = [Refusal(n, ids[n], "empty") for n in np.flatnonzero(part.kinds == REFUSAL).tolist()]
            verdicts += decider.decide([Document(id_, "") for id_ in ids], Signed(part.documents(), refused, 0, 0))
            places += map(place_name, part.places.tolist())
            if end < rows.size and rows.kinds[end] == JUDGED:
                verdicts.append(_judged(decider, rows.select(end, end + 1)))
                places.append(place_name(int(rows.places[end])))
            elif end < rows.size:
                decider.remove(rows.ids[rows.id_starts[end] : rows.id_starts[end + 1]].tobytes())
    return verdicts, places


def _judged(decider: Decider, row: SignedRows) -> Verdict:
    """The verdict of one process about a document that a person judges; it has no pairs where nothing changes."""
    batch, decisions, matcher = row.documents(), decider.decisions, decider._matcher
    said = row.judged[int(row.places[0])]
    ids = id_hashes(*id_columns([row.ids.tobytes(), said[1:]]))
    joined = decisions.judgement(ids, batch.contents[0, CONTENT_HALF], same=said[:1] == TOGETHER)
    if joined == HOLDS:
        with decider.step:
            offset = decider._offset()
            matcher.remove(batch.ids.tobytes())
            matcher.match(batch, probe=False)
            compare = decider._compare(batch, np.zeros(1, np.int64), offset)
            verdicts = decisions.decide(arrival_of(batch, decider.places), NOTHING_FOUND, compare)
            decider._places += 1
            originals = decider._original_ids(verdicts)
    else:
        place, similarity = None, 0.0
        if joined >= 0:
            place = joined + decider.places - decisions.end
            slots = np.array([joined + decider._offset()])
            similarity = max(0.0, float(matcher.compared(batch, np.zeros(1, np.int64), slots)[0, 0]))
        verdicts = decider.judge(batch, place, similarity).verdicts
        originals = decider._original_ids(verdicts)
    document, place = Document(batch.ids.tobytes().decode(), ""), decider.places - 1
    (verdict,) = verdicts_of([document], place, verdicts, originals, NOTHING_NEW, {}, {}, 1)
    return verdict


def _line(arrivals: list[Arrival], i: int, decision: Decision, is_shown: bool) -> dict[str, Any]:
    arrival = arrivals[i]
    fields: dict[str, Any] = {"offset": arrival.place & (1 << 48) - 1, "status": decision.status, "arrival": i}
    if arrival.id:
        fields["id"] = arrival.id
    if arrival.kind != DOCUMENT:
        assert arrival.kind == REFUSAL or decision.status == "removed"
        return fields
    fields |= arrival.shown
    fields |= {"timestamp": arrival.time / 1e6, "content": f"{arrival.content:016x}"}
    if not math.isnan(arrival.rank):
        fields["rank"] = arrival.rank
    fields["cluster"] = place_name(arrivals[decision.cluster].place)
    if decision.original is not None:
        original = arrivals[decision.original]
        fields["duplicate_of"] = original.id
        if is_shown:
            fields["original"] = place_name(original.place)
    if decision.similarity:
        fields["similarity"] = round(decision.similarity, 4)
    if decision.equal:
        fields["equal"] = True
    if decision.late:
        fields["late"] = True
    if decision.said:
        fields["said"] = round(decision.said, 4)
    if decision.new_numbers:
        fields["new_numbers"] = decision.new_numbers
    if decision.signal:
        fields["signal"] = SIGNALS[decision.signal - 1]
    for name in ("related", "previous", "matched", "against"):
        number = getattr(decision, name)
        if number is not None:
            fields[name] = place_name(arrivals[number].place)
    return fields
