"""The clusters with at least two members, as records of ``clusters``, a compacted topic keyed by the cluster.

A value has the fields ``cluster`` (the place of the original), ``id`` (of the original), ``members`` (the original and
its duplicates), ``earliest`` (the id of the first duplicate), ``original_removed``, ``timestamp`` (the newest of its
members and of their unchanged versions, in seconds) and ``arrival`` (the number of the verdict that changed it last).

Theory of operation. ``change`` computes the changes of a step without applying them; ``commit`` applies them. A cluster
ends when stream time exceeds its timestamp by window and lateness: no document can join it then. A record without a
value marks the end. A restart reads the topic, and applies the verdicts of the window that are newer than a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from stream.table import NO_TIME
from stream.verdicts.decisions import VerdictLimits
from stream.verdicts.rule import DUPLICATE, REMOVED, UNCHANGED
from workers.topics.arrivals import ArrivalRows
from workers.topics.places import parse_place, place_name
from workers.topics.verdicts import DecidedRows, Decision
from workers.transport.protocol import Record

_MICROSECONDS = 1e6


class _Cluster(NamedTuple):
    id: bytes
    members: int
    earliest: bytes
    removed: bool
    time: int
    arrival: int


class _Members(NamedTuple):
    """Decided arrivals: the columns that ``Decision`` and ``DecidedRows`` share."""

    rows: ArrivalRows
    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    original_ids: Sequence[bytes | None]
    original_times: npt.NDArray[np.int64]


class Changed(NamedTuple):
    """Clusters after a step, by place; ``None`` for a cluster that ends."""

    clusters: dict[int, _Cluster | None]

    def sizes(self) -> list[int]:
        """Number of members of each changed cluster that does not end."""
        return [cluster.members for cluster in self.clusters.values() if cluster is not None]

    def messages(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Return key and value of each record."""
        for place, cluster in self.clusters.items():
            name = place_name(place)
            yield name.encode(), None if cluster is None else _encode(name, cluster)


class Clusters:
    """The clusters that a document may still join; see the module."""

    def __init__(self, limits: VerdictLimits) -> None:
        self._limits = limits
        self._clusters: dict[int, _Cluster] = {}  # the least recently changed first
        self._by_id: dict[bytes, list[int]] = {}

    def change(self, decision: Decision, stream_time: int) -> Changed:
        """Return what a step of decisions changes."""
        numbers = np.arange(decision.first, decision.first + len(decision.rows.places))
        changed = self._join(
            _Members(decision.rows, decision.verdicts.statuses, decision.verdicts.clusters, numbers,
                     decision.original_ids, decision.original_times)
        )  # fmt: skip
        for place, cluster in self._clusters.items():
            if stream_time == NO_TIME or cluster.time >= stream_time - self._limits.window - self._limits.lateness:
                break
            if place not in changed:
                changed[place] = None
        return Changed(changed)

    def commit(self, changed: Changed) -> None:
        """Apply what a step changed."""
        for place, cluster in changed.clusters.items():
            before = self._clusters.pop(place, None)
            if cluster is not None:
                self._clusters[place] = cluster
                if before is None:
                    self._by_id.setdefault(cluster.id, []).append(place)
            elif before is not None:
                places = self._by_id[before.id]
                places.remove(place)
                if not places:
                    del self._by_id[before.id]

    def restore(self, records: Iterable[Record], decided: DecidedRows) -> None:
        """Start from the records of the topic, and apply the verdicts that are newer than a record."""
        found: dict[bytes, bytes | None] = {}
        for record in records:
            if record.key is not None:
                found.pop(record.key, None)
                found[record.key] = record.value
        self.commit(Changed({
            parse_place(key.decode()): _decode(orjson.loads(value)) for key, value in found.items() if value is not None
        }))  # fmt: skip
        places, times = decided.rows.places.tolist(), decided.rows.times.tolist()
        time_of = dict(zip(places, times, strict=True))
        originals = np.array([time_of.get(place, NO_TIME) for place in decided.originals.tolist()], np.int64)
        members = _Members(
            decided.rows, decided.statuses, decided.clusters, decided.numbers, decided.original_ids, originals
        )
        self.commit(Changed(self._join(members)))

    def _join(self, members: _Members) -> dict[int, _Cluster | None]:
        """Return the clusters with new members or removed originals. Members that a cluster already counts change
        nothing."""
        changed: dict[int, _Cluster | None] = {}
        rows, statuses, clusters, numbers, original_ids, original_times = members
        for i in np.flatnonzero((statuses == DUPLICATE) | (statuses == UNCHANGED) | (statuses == REMOVED)).tolist():
            id_, arrival = rows.ids[rows.id_starts[i] : rows.id_starts[i + 1]].tobytes(), int(numbers[i])
            if statuses[i] == REMOVED:
                for place in self._by_id.get(id_, ()):
                    known = changed.get(place) or self._clusters[place]
                    if known.arrival < arrival and not known.removed:
                        changed[place] = known._replace(removed=True, arrival=arrival)
                for place, cluster in list(changed.items()):
                    if cluster is not None and cluster.id == id_ and not cluster.removed:
                        changed[place] = cluster._replace(removed=True, arrival=arrival)
                continue
            place, time = int(clusters[i]), max(int(rows.times[i]), int(original_times[i]))
            cluster = changed.get(place) or self._clusters.get(place)
            joins = int(statuses[i] == DUPLICATE)
            if cluster is None and joins:
                changed[place] = _Cluster(original_ids[i] or b"", 2, id_, False, time, arrival)
            elif cluster is not None and cluster.arrival < arrival:
                changed[place] = cluster._replace(
                    members=cluster.members + joins, time=max(cluster.time, time), arrival=arrival
                )
        return changed


def _encode(name: str, cluster: _Cluster) -> bytes:
    return orjson.dumps(
        {
            "cluster": name,
            "id": cluster.id.decode(),
            "members": cluster.members,
            "earliest": cluster.earliest.decode(),
            "original_removed": cluster.removed,
            "timestamp": cluster.time / _MICROSECONDS,
            "arrival": cluster.arrival,
        }
    )


def _decode(fields: dict[str, Any]) -> _Cluster:
    return _Cluster(
        fields["id"].encode(),
        fields["members"],
        fields["earliest"].encode(),
        fields["original_removed"],
        round(fields["timestamp"] * _MICROSECONDS),
        fields["arrival"],
    )
