"""The oracle of the topic ``clusters``: the records that follow from the verdicts of all documents, written plainly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from neardup_workers.outside.transport.protocol import Record

BEST = 4


def expected_clusters(lines: Iterable[dict[str, Any]], places: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The last record of each cluster, by its name, as if no cluster ended: from the verdicts in order of arrival, and
    their places.
    """
    found: dict[str, dict[str, Any]] = {}
    known: dict[str, dict[str, Any]] = {}
    newest: dict[str, float] = {}  # of all documents of a story
    for place, line in zip(places, lines, strict=True):
        if line["status"] == "removed" or line.get("judged"):
            for row in found.values():
                _remove(row, line)
        if "cluster" not in line:
            continue
        known[place] = line
        if line.get("late"):  # it joins nothing
            continue
        newest[line["cluster"]] = max(newest.get(line["cluster"], line["timestamp"]), line["timestamp"])
        row = found.get(line["cluster"])
        if row is None and line["status"] == "duplicate":
            gone = {"id": line["duplicate_of"], "timestamp": line["timestamp"]}
            name = line.get("original", line["cluster"])
            original = known[name] if "original" in line else gone
            row = found[line["cluster"]] = {
                "cluster": line["cluster"], "id": original["id"], "members": 1,
                "original_removed": False, "representatives": [_member(name, original)],
                "earliest": original["id"], "earliest_timestamp": original["timestamp"],
            }  # fmt: skip
        if row is not None:
            row["members"] += line["status"] == "duplicate"
            row["timestamp"] = newest[line["cluster"]]
            if line["timestamp"] < row["earliest_timestamp"]:
                row["earliest"], row["earliest_timestamp"] = line["id"], line["timestamp"]
            row["arrival"] = line["arrival"]
            _join(row["representatives"], _member(place, line))
    return found


def _member(place: str, line: dict[str, Any]) -> dict[str, Any]:
    return {"place": place, "id": line["id"], **({"rank": line["rank"]} if "rank" in line else {})}


def _join(best: list[dict[str, Any]], member: dict[str, Any]) -> None:
    same = [one for one in best if one["id"] == member["id"]]
    if same and same[0].get("rank") == member.get("rank"):
        return
    best[:] = [one for one in best if one["id"] != member["id"]] + [member]
    best.sort(key=lambda one: -one.get("rank", -math.inf))  # stable: of equal ranks, the first to join
    del best[BEST:]


def _remove(row: dict[str, Any], line: dict[str, Any]) -> None:
    best = [one for one in row["representatives"] if one["id"] != line["id"]]
    ends = row["id"] == line["id"] and not row["original_removed"]
    if ends or best != row["representatives"]:
        row["arrival"], row["representatives"] = line["arrival"], best
        row["original_removed"] |= row["id"] == line["id"]


def wrong_clusters(
    records: Sequence[Record], expected: dict[str, dict[str, Any]], horizon_seconds: float
) -> list[tuple[str, str]]:
    """The faults of the records of ``clusters``: ``lost``, ``repeated`` or ``wrong``, and what.

    Of one cluster, each record comes from a later verdict than the record before. A cluster ends, with a record without
    a value, only if its timestamp lies before ``horizon_seconds``: no document can join it. Nothing follows the end.
    """
    faults: list[tuple[str, str]] = []
    last: dict[str, dict[str, Any] | None] = {}
    for record in records:
        name = (record.key or b"").decode()
        row = None if record.value is None else orjson.loads(record.value)
        before = last.get(name, {"arrival": -1, "members": 0})
        if before is None:
            faults.append(("repeated", f"cluster {name} goes on after its end: {row}"))
        elif row is not None and (row["arrival"] <= before["arrival"] or row["members"] < before["members"]):
            faults.append(("repeated", f"cluster {name}: {row} after {before}"))
        last[name] = row
    faults += [("lost", f"cluster {name}: {expected[name]}") for name in expected.keys() - last.keys()]
    faults += [("wrong", f"cluster {name}, which has no duplicate") for name in last.keys() - expected.keys()]
    for name in expected.keys() & last.keys():
        if last[name] is None:
            if expected[name]["timestamp"] >= horizon_seconds:
                faults.append(("wrong", f"cluster {name} ended too early: {expected[name]}"))
        elif last[name] != expected[name]:
            faults.append(("wrong", f"cluster {name}: {last[name]}; expected {expected[name]}"))
    return faults
