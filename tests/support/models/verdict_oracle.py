"""The oracle of verdicts on topics: the model of the rule, applied to committed arrivals and committed pairs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from verdict_model import Decision, Event, VerdictModel

from neardup.stream.config import Config
from neardup.stream.verdicts.rule import DOCUMENT, REFUSAL
from neardup.workers.topics.arrivals import decode_arrivals
from neardup.workers.topics.links import SIMILARITY_STEPS, decode_links
from neardup.workers.topics.places import place_name
from neardup.workers.transport.protocol import Record


class Arrival:
    """A row of ``arrivals``."""

    def __init__(self, place: int, kind: int, id_: str, time: int, content: int, rank: float) -> None:
        self.place, self.kind, self.id, self.time, self.content, self.rank = place, kind, id_, time, content, rank


def arrivals_of(records: Sequence[Record], config: Config) -> list[Arrival]:
    """The committed records of ``arrivals``, in order."""
    out = []
    for record in records:
        rows = decode_arrivals(record.value or b"", config.signing_fingerprint)
        data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
        ids = [data[a:b].decode() for a, b in pairwise(starts)]
        numbers = rows.times.tolist(), rows.contents.tolist(), rows.ranks.tolist()
        out += [Arrival(*row) for row in zip(rows.places.tolist(), rows.kinds.tolist(), ids, *numbers, strict=True)]
    return out


def pairs_of(records: Sequence[Record], arrivals: list[Arrival], config: Config) -> dict[int, list[tuple[int, float]]]:
    """The committed pairs: number of the later arrival -> number of the earlier one, and the similarity.

    A pair joins two contents: it counts for all copies of its documents that the matcher had not processed before.
    """
    number = {arrival.place: i for i, arrival in enumerate(arrivals)}
    of_content = defaultdict(list)
    late, stream = set(), -math.inf
    slack = math.inf if config.window_seconds is None else (config.window_seconds + config.lateness_seconds) * 1e6
    for i, arrival in enumerate(arrivals):
        if arrival.kind == DOCUMENT:
            stream = max(stream, arrival.time)
            if arrival.time < stream - slack:
                late.add(i)
    for i, arrival in enumerate(arrivals):
        if arrival.kind == DOCUMENT:
            of_content[arrival.content].append(i)
    messages = [(r.partition, r.offset, *decode_links(r.value or b"", config.signing_fingerprint)) for r in records]
    passed = defaultdict(list)
    for bands, offset, _, progress in messages:
        for partition, _, end in progress.tolist():
            passed[bands, partition].append((end, offset))

    def passed_at(bands: int, place: int) -> int:
        found = passed[bands, place >> 48]
        return found[bisect_right(found, place & (1 << 48) - 1, key=lambda one: one[0])][1]

    out = defaultdict(list)
    for bands, offset, links, _ in messages:
        for one, other, _, _, steps in zip(*(column.tolist() for column in links), strict=True):
            similarity = float(np.float32(steps / SIMILARITY_STEPS))
            earlier, later = sorted((number[one], number[other]))
            out[later].append((earlier, similarity))
            for x, y in ((number[one], number[other]), (number[other], number[one])):
                if arrivals[x].content == arrivals[y].content:
                    continue
                for copy in of_content[arrivals[x].content]:
                    # A pair counts only until the step that decides both documents.
                    if copy == x or copy > later or passed_at(bands, arrivals[copy].place) < offset:
                        continue
                    known = [i for i in of_content[arrivals[y].content] if i < copy and i not in late]
                    if known:
                        out[copy].append((y if y < copy else known[-1], similarity))
    return out


def expected_lines(
    arrival_records: Sequence[Record], link_records: Sequence[Record], config: Config
) -> list[tuple[int, dict[str, Any]]]:
    """Place and line of every verdict, in order of arrival."""
    arrivals = arrivals_of(arrival_records, config)
    pairs = pairs_of(link_records, arrivals, config)
    window, lateness = (round((seconds or 0) * 1e6) for seconds in (config.window_seconds, config.lateness_seconds))
    model = VerdictModel(window, lateness, beyond=False)
    out = []
    for i, arrival in enumerate(arrivals):
        decision = Decision("refused", i)
        if arrival.kind != REFUSAL:
            time = arrival.time if arrival.kind == DOCUMENT else None
            name: Any = arrival.id
            decision = model.decide(i, Event(name, arrival.content, time, tuple(pairs[i])))
        out.append((arrival.place, _line(arrivals, i, decision)))
    return out


def _line(arrivals: list[Arrival], i: int, decision: Decision) -> dict[str, Any]:
    arrival = arrivals[i]
    fields: dict[str, Any] = {"offset": arrival.place & (1 << 48) - 1, "status": decision.status, "arrival": i}
    if arrival.id:
        fields["id"] = arrival.id
    if arrival.kind != DOCUMENT:
        assert arrival.kind == REFUSAL or decision.status == "removed"
        return fields
    fields |= {"timestamp": arrival.time / 1e6, "content": f"{arrival.content:016x}"}
    if not math.isnan(arrival.rank):
        fields["rank"] = arrival.rank
    fields["cluster"] = place_name(arrivals[decision.cluster].place)
    if decision.original is not None:
        original = arrivals[decision.original]
        fields |= {"duplicate_of": original.id, "original": place_name(original.place)}
    if decision.similarity:
        fields["similarity"] = round(decision.similarity, 4)
    if decision.equal:
        fields["equal"] = True
    if decision.late:
        fields["late"] = True
    places = ("related", decision.related), ("previous", decision.previous), ("matched", decision.matched)
    for name, number in places:
        if number is not None:
            fields[name] = place_name(arrivals[number].place)
    return fields
