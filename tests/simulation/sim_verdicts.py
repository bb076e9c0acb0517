"""The oracle of verdicts: the model of the rule, applied to the committed order of arrivals and the committed pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from verdict_model import Decision, Event, VerdictModel

from stream.verdicts.rule import DOCUMENT, REFUSAL
from workers.topics.arrivals import decode_arrivals
from workers.topics.links import SIMILARITY_STEPS, decode_links
from workers.topics.places import place_name
from workers.topics.verdicts import parse_run

if TYPE_CHECKING:
    from sim_checks import Outcome
    from sim_cluster import Cluster


class Arrival:
    """A row of ``arrivals``."""

    def __init__(self, place: int, kind: int, id_: str, time: int, content: int) -> None:
        self.place, self.kind, self.id, self.time, self.content = place, kind, id_, time, content


def arrivals_of(cluster: Cluster) -> list[Arrival]:
    """What is committed in ``arrivals``, in order."""
    out = []
    for record in cluster.arrivals[0]:
        rows = decode_arrivals(record.value or b"", cluster.config.signing_fingerprint)
        data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
        ids = [data[a:b].decode() for a, b in pairwise(starts)]
        columns = rows.places.tolist(), rows.kinds.tolist(), ids, rows.times.tolist(), rows.contents.tolist()
        out += [Arrival(*row) for row in zip(*columns, strict=True)]
    return out


def pairs_of(cluster: Cluster, arrivals: list[Arrival]) -> dict[int, list[tuple[int, float]]]:
    """The committed pairs: number of the later arrival -> number of the earlier one, and the similarity."""
    number = {arrival.place: i for i, arrival in enumerate(arrivals)}
    out = defaultdict(list)
    for records in cluster.links.values():
        for record in records:
            links, _ = decode_links(record.value or b"", cluster.config.signing_fingerprint)
            for one, other, steps in zip(*(column.tolist() for column in links), strict=True):
                earlier, later = sorted((number[one], number[other]))
                out[later].append((earlier, float(np.float32(steps / SIMILARITY_STEPS))))
    return out


def expected_lines(cluster: Cluster) -> list[tuple[int, dict[str, Any]]]:
    """Place and line of every verdict, in order of arrival."""
    arrivals = arrivals_of(cluster)
    pairs = pairs_of(cluster, arrivals)
    plan = cluster.link_plan
    model = VerdictModel(plan.limits.window, plan.limits.lateness)
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
    fields["cluster"] = place_name(arrivals[decision.cluster].place)
    if decision.original is not None:
        original = arrivals[decision.original]
        fields |= {"duplicate_of": original.id, "original": place_name(original.place)}
    if decision.similarity:
        fields["similarity"] = round(decision.similarity, 4)
    for name, number in (("related", decision.related), ("previous", decision.previous)):
        if number is not None:
            fields[name] = place_name(arrivals[number].place)
    return fields


def check_verdicts(outcome: Outcome) -> None:
    """Each record of ``documents`` has one verdict, in the order of its partition, equal to the model's."""
    cluster = outcome.cluster
    expected = defaultdict(list)
    for place, line in expected_lines(cluster):
        expected[place >> 48].append(line)
    found = defaultdict(list)
    for record in cluster.memory.records(cluster.topics.verdicts):
        lines = parse_run(record.value)
        assert record.key == f"{lines[0]['offset']}-{lines[-1]['offset'] + 1}".encode()
        found[record.partition] += lines
    sent = defaultdict(list)
    for truth in outcome.truths:
        sent[truth.partition].append(truth.offset)
    assert {s: [line["offset"] for line in lines] for s, lines in found.items()} == dict(sent)
    assert found == expected
    outcome.verdicts = Counter(line["status"] for lines in found.values() for line in lines)


def check_clusters(outcome: Outcome) -> None:
    """The last record of each cluster says how many duplicates were decided, the first of them, and whether the
    original was removed since; only a cluster that no document can join has ended."""
    cluster = outcome.cluster
    lines = [line for _, line in expected_lines(cluster)]
    expected: dict[str, dict[str, Any]] = {}
    known: dict[str, dict[str, Any]] = {}
    times: dict[str, float] = {}
    for line in lines:
        if line["status"] == "removed":
            for row in expected.values():
                row["original_removed"] |= row["id"] == line["id"]
        if "cluster" not in line:
            continue
        name = line["cluster"]
        known.setdefault(name, line)
        times[name] = max(times.get(name, 0.0), line["timestamp"])
        if line["status"] == "duplicate":
            row = expected.setdefault(
                name, {"id": known[name]["id"], "members": 1, "earliest": line["id"], "original_removed": False}
            )
            row["members"] += 1
    found: dict[str, Any] = {}
    for record in cluster.memory.records(cluster.topics.clusters):
        found[(record.key or b"").decode()] = None if record.value is None else orjson.loads(record.value)
    assert found.keys() == expected.keys()
    stream = max((line["timestamp"] for line in lines if "timestamp" in line), default=0.0)
    limits = cluster.link_plan.limits
    for name, row in found.items():
        if row is None:
            assert times[name] < stream - (limits.window + limits.lateness) / 1e6, name
        else:
            assert {key: row[key] for key in expected[name]} == expected[name]


def check_unique(outcome: Outcome) -> None:
    """``documents.unique`` holds the documents that are kept and the tombstones, byte for byte, in order."""
    cluster = outcome.cluster
    kept = {*cluster.scenario.forward, "removed"}
    statuses = {
        (record.partition, line["offset"]): line["status"]
        for record in cluster.memory.records(cluster.topics.verdicts)
        for line in parse_run(record.value)
    }
    expected = [
        record[:1] + record[2:]
        for record in cluster.memory.records(cluster.topics.documents)
        if statuses[record.partition, record.offset] in kept
    ]
    assert [record[:1] + record[2:] for record in cluster.memory.records(cluster.topics.unique)] == expected
    outcome.forwarded = len(expected)
