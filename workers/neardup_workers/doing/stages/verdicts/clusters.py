"""The clusters with at least two members, as records of ``clusters``, a compacted topic keyed by the cluster.

A value has the fields ``cluster`` (the place of the original), ``id`` (of the original), ``collection`` (if it has it),
``members`` (the original and its duplicates), ``earliest`` and ``earliest_timestamp`` (id and time of the member with
the lowest event time; of equal times, the one that arrived first), ``original_removed``, ``representatives`` (the best
members that are not removed, at most four: place, id, rank; a page shows the first one), ``timestamp`` (the newest of
its story: of all versions of its members, in seconds) and ``arrival`` (the number of the verdict that changed it last).

Theory of operation. ``change`` computes the changes of a step without applying them; ``commit`` applies them. A cluster
ends with the step in which stream time exceeds its timestamp by window and lateness: no document can join it then. A
record without a value marks the end. A restart reads the topic, and applies the verdicts of the window that are newer
than a record.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.ids import bare_ids, full_id, split_id
from neardup.schemes.interface import select_ragged
from neardup.stories.sources.representatives import NO_RANK, Member, join, without
from neardup.stories.verdicts.row_columns import VerdictLimits
from neardup.stories.verdicts.rule import DUPLICATE, JUDGED, ORIGINAL, REFUSED, REMOVED, UNCHANGED, UPDATE
from neardup.window import NO_TIME
from neardup_workers.outside.topics.columns import Lines, Spans, number_spans, text_spans, texts_of
from neardup_workers.outside.topics.places import found_at, parse_places
from neardup_workers.outside.topics.verdicts import DecidedRows
from neardup_workers.outside.transport.protocol import Record

_MICROSECONDS = 1e6


class _Cluster(NamedTuple):
    id: str
    members: int
    earliest: str
    earliest_time: int
    removed: bool
    time: int
    arrival: int
    best: tuple[Member, ...]

    def names(self) -> set[str]:
        """Return the ids whose removal changes the cluster."""
        return {self.id, *(member.id for member in self.best)}

    def has(self, id_: str) -> bool:
        """Whether the removal of an id changes the cluster."""
        return (id_ == self.id and not self.removed) or any(member.id == id_ for member in self.best)

    def joined(self, members: int, arrival: int, best: tuple[Member, ...], id_: str, time: int) -> _Cluster:
        """Return the cluster with so many members more; the last one has this id and time."""
        earliest, earliest_time, last = self.earliest, self.earliest_time, self.time
        if time < earliest_time:
            earliest, earliest_time = id_, time
        elif time > last:
            last = time
        return _Cluster(self.id, self.members + members, earliest, earliest_time, self.removed, last, arrival, best)

    def after_removal(self, id_: str, arrival: int) -> _Cluster:
        """Return the cluster after the removal of an id."""
        return self._replace(removed=self.removed or id_ == self.id, best=without(self.best, id_), arrival=arrival)


class Changed(NamedTuple):
    """Clusters after a step, by place; ``None`` for a cluster that ends."""

    clusters: dict[int, _Cluster | None]
    separate: bool = False

    def sizes(self) -> list[int]:
        """Number of members of each changed cluster that does not end."""
        return [cluster.members for cluster in self.clusters.values() if cluster is not None]

    def messages(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Return key and value of each record."""
        left = [cluster for cluster in self.clusters.values() if cluster is not None]
        places = np.fromiter(self.clusters, np.int64, len(self.clusters))
        is_left = np.array([cluster is not None for cluster in self.clusters.values()], np.bool_)
        values, keys = iter(_encode(places[is_left], left, separate=self.separate)), Lines(len(places))
        keys.add_places(b"", places)
        for key, has_value in zip(keys.texts(), is_left.tolist(), strict=True):
            yield key, next(values) if has_value else None


class Clusters:
    """The clusters that a document may still join; see the module."""

    def __init__(self, limits: VerdictLimits, *, separate: bool = False) -> None:
        self._limits, self._separate = limits, separate  # ids are full ids
        self._clusters: dict[int, _Cluster] = {}
        # id -> the clusters that its removal changes; from the first removal on, which few streams have.
        self._by_id: dict[str, tuple[int, ...]] | None = None
        self._times: list[tuple[int, int]] = []  # a heap: a time of each cluster, not after its own, and its place
        self._popped: list[tuple[int, int]] = []  # by the last ``change``, until ``commit``

    def change(self, decided: DecidedRows, stream_time: int) -> Changed:
        """Return what a step of decisions changes."""
        changed: dict[int, _Cluster | None] = dict(self._join(decided, decided.verdicts.late))
        for entry in self._popped:  # by a step that was undone
            heapq.heappush(self._times, entry)
        self._popped = []
        horizon = self._horizon(stream_time)
        while self._times and self._times[0][0] < horizon:
            self._popped.append(heapq.heappop(self._times))
        for place in (*changed, *(place for _, place in self._popped)):
            if (changed.get(place) or self._clusters[place]).time < horizon:
                changed[place] = None
        return Changed(changed, self._separate)

    def commit(self, changed: Changed) -> None:
        """Apply what a step changed."""
        for place, cluster in changed.clusters.items():
            before = self._clusters.get(place)
            if cluster is not None:
                self._clusters[place] = cluster
                if before is None:
                    heapq.heappush(self._times, (cluster.time, place))
            elif before is not None:
                del self._clusters[place]
            if self._by_id is None or (before is not None and cluster is not None and before.best == cluster.best):
                continue
            old, new = (set() if one is None else one.names() for one in (before, cluster))
            for name in new - old:
                self._by_id[name] = (*self._by_id.get(name, ()), place)
            for name in old - new:
                left = tuple(other for other in self._by_id.pop(name) if other != place)
                if left:
                    self._by_id[name] = left
        for _, place in self._popped:
            if place in self._clusters:
                heapq.heappush(self._times, (self._clusters[place].time, place))
        self._popped = []

    def restore(self, records: Iterable[Record], decided: DecidedRows, stream_time: int) -> None:
        """Start from the records of the topic, and apply the verdicts that are newer than a record. ``stream_time`` is
        that of the last step: every cluster before its horizon has ended, whether its record is visible or not."""
        values: dict[bytes, bytes | None] = {}
        for record in records:
            if record.key is not None:
                values.pop(record.key, None)
                values[record.key] = record.value
        known = {key: value for key, value in values.items() if value is not None}
        places = parse_places([key.decode() for key in known])
        clusters = _decode(known.values(), separate=self._separate)
        self._clusters = dict(zip(places.tolist(), clusters, strict=True))
        at = found_at(decided.verdicts.originals, decided.rows.places)
        is_known = at >= 0
        decided = decided._replace(
            original_times=np.where(is_known, decided.rows.times[at], NO_TIME),
            original_ranks=np.where(is_known, decided.rows.ranks[at], NO_RANK),
        )
        last = np.array([*(one.arrival for one in clusters), -1], np.int64)
        last = last[found_at(decided.verdicts.clusters, places)]
        is_late = decided.verdicts.late | (last >= decided.numbers)  # what the record counts already joins nothing
        self._clusters.update(self._join(decided, is_late))
        horizon = self._horizon(stream_time)
        self._clusters = {place: cluster for place, cluster in self._clusters.items() if cluster.time >= horizon}
        self._times = sorted((cluster.time, place) for place, cluster in self._clusters.items())
        self._by_id = None

    def _named(self) -> dict[str, tuple[int, ...]]:
        """Return which clusters the removal of an id changes."""
        by_id: dict[str, tuple[int, ...]] = {}
        for place, cluster in self._clusters.items():
            for name in cluster.names():
                by_id[name] = (*by_id.get(name, ()), place)
        return by_id

    def _horizon(self, stream_time: int) -> int:
        """Return the time from which on a cluster may get another member."""
        return int(NO_TIME) if stream_time == NO_TIME else stream_time - self._limits.window - self._limits.lateness

    def _join(self, decided: DecidedRows, late: npt.NDArray[np.bool_]) -> dict[int, _Cluster]:
        """Return the clusters with new members or removed originals. Members that a cluster already counts, and those
        that are ``late``, change nothing."""
        changed: dict[int, _Cluster] = {}
        named: dict[str, set[int]] = {}  # as ``_by_id``, of the changed clusters
        rows, verdicts = decided.rows, decided.verdicts
        statuses = np.where(late, np.uint8(REFUSED), verdicts.statuses)
        judged = rows.kinds == JUDGED
        at = np.flatnonzero(np.isin(statuses, (DUPLICATE, UPDATE, UNCHANGED, REMOVED)) | (judged & ~late))
        removes = bool((judged | (statuses == REMOVED))[at].any())
        if removes and self._by_id is None:
            self._by_id = self._named()
        by_id = self._by_id or {}

        def put(place: int, cluster: _Cluster) -> None:
            changed[place] = cluster
            for name in cluster.names() if removes else ():
                named.setdefault(name, set()).add(place)

        columns = (
            rows.places, rows.times, rows.ranks, statuses, verdicts.clusters, decided.numbers, verdicts.originals,
            decided.original_times, decided.story_times, decided.original_ranks, judged,
        )  # fmt: skip
        ids = texts_of(*select_ragged(rows.ids, rows.id_starts, at))
        names = [decided.original_ids[i] for i in at.tolist()]
        for id_, of, own, time, rank, status, place, arrival, newest, its_time, story_time, its_rank, is_judged in zip(
            ids, names, *(column[at].tolist() for column in columns), strict=True
        ):
            left = set[int]()  # by this row, which may join one of them again
            if status == REMOVED or is_judged:
                for removed in sorted({*by_id.get(id_, ()), *named.get(id_, ())}):
                    known = changed.get(removed) or self._clusters[removed]
                    if known.arrival < arrival and known.has(id_):
                        put(removed, known.after_removal(id_, arrival))
                        left.add(removed)
            if status in (REMOVED, ORIGINAL):
                continue
            cluster = changed.get(place) or self._clusters.get(place)
            member = _member(own, id_, rank)
            joins = int(status == DUPLICATE)
            if cluster is None and joins:
                name = (of or b"").decode()
                is_known = newest >= 0  # else its versions have left, and the first one stands for it
                original = _member(newest if is_known else place, name, its_rank)
                first = time if its_time == NO_TIME else its_time
                best = join((original,), member)
                begun = _Cluster(name, 1, name, first, False, max(first, story_time), arrival, best)
                put(place, begun.joined(1, arrival, best, id_, time))
            elif cluster is not None and (cluster.arrival < arrival or place in left):
                put(place, cluster.joined(joins, arrival, join(cluster.best, member), id_, time))
        return changed


def _member(place: int, id_: str, rank: float) -> Member:
    return Member(place, id_, NO_RANK if math.isnan(rank) else rank)


def _encode(places: npt.NDArray[np.int64], clusters: list[_Cluster], *, separate: bool) -> list[bytes]:
    """Return the values of clusters: an object in JSON each, by columns."""
    lines, ids = Lines(len(clusters)), [one.id for one in clusters]
    lines.add_places(b'{"cluster":"', places, b'"')
    lines.add(b',"id":', text_spans(bare_ids(ids) if separate else ids))
    if separate:
        collections = [split_id(id_)[0] for id_ in ids]
        named = np.array([at for at, name in enumerate(collections) if name], np.int64)
        lines.add(b',"collection":', text_spans([name for name in collections if name]), b"", named)
    lines.add(b',"members":', number_spans(np.array([one.members for one in clusters], np.int64)))
    earliest = [one.earliest for one in clusters]
    lines.add(b',"earliest":', text_spans(bare_ids(earliest) if separate else earliest))
    first, last = (np.array([getattr(one, at) for one in clusters], np.int64) for at in ("earliest_time", "time"))
    lines.add(b',"earliest_timestamp":', number_spans(first / _MICROSECONDS))
    removed = np.array([one.removed for one in clusters], np.bool_)
    for text, rows in ((b"true", removed), (b"false", ~removed)):
        lines.add_text(b',"original_removed":' + text, np.flatnonzero(rows))
    lines.add(b',"representatives":[', _encode_members([one.best for one in clusters], separate=separate), b"]")
    lines.add(b',"timestamp":', number_spans(last / _MICROSECONDS))
    lines.add(b',"arrival":', number_spans(np.array([one.arrival for one in clusters], np.int64)), b"}")
    return lines.texts()


def _encode_members(best: list[tuple[Member, ...]], *, separate: bool) -> Spans:
    """Return the best members of each cluster: objects in JSON, with commas between them."""
    members = [member for of_one in best for member in of_one]
    ids, ends = [member.id for member in members], np.cumsum([0, *map(len, best)])
    lines = Lines(len(members))
    lines.add_places(b'{"place":"', np.array([member.place for member in members], np.int64), b'"')
    lines.add(b',"id":', text_spans(bare_ids(ids) if separate else ids))
    ranks = np.array([member.rank for member in members], np.float64)
    ranked = np.flatnonzero(~np.isnan(ranks))
    lines.add(b',"rank":', number_spans(ranks[ranked]), b"", ranked)
    lines.add_text(b"}")
    lasts = ends[1:][np.diff(ends) > 0] - 1
    lines.add_text(b",", np.delete(np.arange(len(members)), lasts))
    data, starts = lines.joined(np.arange(len(members)))
    return Spans(np.frombuffer(data, np.uint8), starts[ends[:-1]], starts[ends[1:]])


def _decode(values: Iterable[bytes], *, separate: bool) -> list[_Cluster]:
    every = orjson.loads(b"[%b]" % b",".join(values))
    named = parse_places([one["place"] for fields in every for one in fields["representatives"]])
    places = iter(named.tolist())

    def whole(fields: dict[str, Any], id_: str) -> str:
        return full_id(id_, fields.get("collection")) if separate else id_

    return [
        _Cluster(
            whole(fields, fields["id"]),
            fields["members"],
            whole(fields, fields["earliest"]),
            round(fields["earliest_timestamp"] * _MICROSECONDS),
            fields["original_removed"],
            round(fields["timestamp"] * _MICROSECONDS),
            fields["arrival"],
            tuple(
                [
                    Member(next(places), whole(fields, one["id"]), one.get("rank", NO_RANK))
                    for one in fields["representatives"]
                ]
            ),
        )
        for fields in every
    ]
