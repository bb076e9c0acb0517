"""The oracle of verdicts on topics: the model of the rule, applied to committed rows of ``signed`` and their pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from verdict_model import Decision, Event, VerdictModel

from neardup.stream.config import Config
from neardup.stream.verdicts.rule import DOCUMENT, REFUSAL
from neardup.workers.topics.links import SIMILARITY_STEPS, decode_links
from neardup.workers.topics.places import place_name
from neardup.workers.topics.signed import decode_signed
from neardup.workers.transport.protocol import Record


class Arrival:
    """A row of ``signed``."""

    def __init__(self, place: int, kind: int, id_: str, time: int, content: int, rank: float) -> None:
        self.place, self.kind, self.id, self.time, self.content, self.rank = place, kind, id_, time, content, rank


def arrivals_of(records: Sequence[Record], config: Config) -> list[Arrival]:
    """The committed records of ``signed``, in order."""
    out = []
    for record in records:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width).arrivals()
        data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
        ids = [data[a:b].decode() for a, b in pairwise(starts)]
        numbers = rows.times.tolist(), rows.contents.tolist(), rows.ranks.tolist()
        out += [Arrival(*row) for row in zip(rows.places.tolist(), rows.kinds.tolist(), ids, *numbers, strict=True)]
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
    window, lateness = (round((seconds or 0) * 1e6) for seconds in (config.window_seconds, config.lateness_seconds))
    model = VerdictModel(window, lateness, beyond=False, tie=lambda number: arrivals[number].place)
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
