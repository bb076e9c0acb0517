"""The alignment of signers in time: it selects the pending records that may be signed now.

A backlog holds days. If a signer drained one partition of ``documents`` after the other, the event times in ``signed``
would jump by the span of the backlog. Documents that are late by more than ``lateness_seconds`` miss their pairs. So
all signers of a group advance together. This module only decides; it reads no clock and no topic.

Theory of operation. The *clock* of a partition is the record time of its next record to sign, as a running maximum. A
record without a time, or with a time ahead of the wall clock, inherits the maximum before it. There are two kinds of
partitions:

- *Own* partitions have a **lane**: the records that were polled and are not signed, with their times. A lane without
  records is *caught up* if a broker said lately that no committed record follows. Else it is *dry*.
- *Other* partitions are known by the **claims** that their owners commit as metadata of offsets. A claim has the clock,
  whether the partition is caught up, when it was last empty, and a stamp that changes with each commit.

``take`` merges the lanes in order of time and ends at the **horizon**: the clock of the slowest partition that has a
backlog, plus ``span_ms``. Every unsigned record of the group is at or after the clock of its partition. So a signed
record is at most ``span_ms`` ahead of any later record. A partition that is caught up holds back no records, under
these conditions:

- A claim of catch-up counts once the reader has seen it renewed, and then for ``CLAIM_SECONDS``, because the last claim
  of an owner outlives the owner. Until then the claimed clock counts. A partition without a claim holds back all
  records.
- An *old* record (more than ``span_ms`` before now) may have a sibling in that partition, of the same transaction,
  that is not visible there yet, however long it takes; but it is written already. So an old record passes a caught-up
  partition only if it was visible ``SETTLE_SECONDS`` before the partition was *empty*: nothing followed there, not even
  in an open transaction. A live record need not wait: later records of the partition are as new as the live record.
  But it waits as an old one does while an *archive* arrives in the partition: old records, in less than their own time.

The time at which another owner saw its partition empty is derived without comparing clocks. A claim says how long ago
that was. Claim n + 2 is made after commit n + 1, which began when claim n was visible; and the reader knows the time of
a read that did not show claim n.

Conflict: a partition that is revoked loses its lane with all records; its next owner starts at the committed offset.
Crash: this module holds no state beyond the log and the committed claims.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, groupby, islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from neardup_workers.outside.transport.protocol import Committed, LogEnd, Record, record_bytes

# Signers renew their claims this often.
RENEW_SECONDS = 1.0
# A claim counts for this long after a renewal was seen, and an answer of a broker after its request: some may be slow.
CLAIM_SECONDS = 5.0
# An archive has ended if nothing has come of it for so long; what is known of its partition may be half as old.
ARRIVING_SECONDS = 2 * CLAIM_SECONDS
# A producer without transactions writes the records of one time to all partitions within this time.
SETTLE_SECONDS = 1.0
# The fraction of lateness_seconds that alignment uses. The rest is for clocks and for the disorder of the producers.
SPAN_FRACTION = 0.5
# Ends of a log are recorded at this interval, and kept for this long: longer than a claim can be behind.
_MARK_SECONDS = 0.1
_MARKS_MAX = 600
# The clock of an archive gains more milliseconds a second than this; half a second more is the disorder of polls.
_ARCHIVE_MS, _DISORDER_SECONDS = 2_000, 0.5
# The time of records that come before the first record with a time.
_BEFORE_ALL = -1
_PARTITION, _OFFSET, _SIZE = attrgetter("partition"), attrgetter("offset"), itemgetter(2)


class Claim(NamedTuple):
    """What the owner of a partition reports; ``clock_ms`` is ``None`` before the first record. ``texts`` is what it
    signs the constant texts as, empty if that is not known. The partition was empty ``empty_ms`` ago, or never."""

    clock_ms: int | None = None
    is_caught_up: bool = False
    stamp: int = 0
    texts: str = ""
    empty_ms: int | None = None


def encode_claim(claim: Claim) -> str:
    """Encode a claim as metadata of an offset."""
    return json.dumps(dict(zip(("clock_ms", "caught_up", "stamp", "texts", "empty_ms"), claim, strict=True)))


def decode_claim(metadata: str) -> Claim:
    """Decode a claim from the metadata of an offset; any other text is the empty claim."""
    try:
        fields = json.loads(metadata)
        clock, empty = (None if one is None else int(one) for one in (fields["clock_ms"], fields.get("empty_ms")))
        return Claim(clock, fields["caught_up"] is True, int(fields["stamp"]), str(fields.get("texts", "")), empty)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Claim()


@dataclass
class _Lane:
    """An own partition. ``clock_ms`` is the time of the last record taken, ``tail_ms`` of the last record polled. The
    pending records are in order, each with its time and its bytes; the times never decrease."""

    offset: int  # of the next record to sign
    clock_ms: int | None
    tail_ms: int | None = None
    records: list[Record] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    position: int = -1
    is_read: bool = False  # no committed record followed the position lately
    empty_at: float = -math.inf  # no record at all followed at that moment
    moved_at: float = -math.inf  # the last record came then
    archive_at: float = -math.inf  # the last record of an archive came then
    marks: deque[tuple[float, int]] = field(default_factory=deque)  # (time, end of the log at that time)
    is_overdue: bool = False
    held_since: float | None = None  # it has records, and none of them could be taken

    @property
    def is_caught_up(self) -> bool:
        return self.is_read and not self.records

    def next_ms(self) -> int | None:
        return self.times[0] if self.times else self.clock_ms

    def last_ms(self) -> int | None:
        return self.times[-1] if self.times else self.clock_ms

    def waiting_from(self, limits: _Limits) -> int:
        """Return the index of the first record that was appended too recently to pass the caught-up partitions."""
        index = bisect_right(self.times, limits.soft)
        if index < len(self.times):
            settled_end = next((end for when, end in reversed(self.marks) if when <= limits.settled_at), 0)
            index = bisect_left(self.records, settled_end, index, key=_OFFSET)
        return index if index < len(self.times) and self.times[index] < limits.live_ms else len(self.times)

    def drop(self, count: int) -> None:
        """Remove the first records."""
        if count:
            self.clock_ms, self.offset = self.times[count - 1], self.records[count - 1].offset + 1
            del self.records[:count], self.times[:count], self.sizes[:count]


@dataclass
class _Seen:
    """Another owner's partition; ``floor_at``: of a read that did not show the last change; ``before_at``: one more."""

    claim: Claim
    changed_at: float = -math.inf
    floor_at: float = -math.inf
    before_at: float = -math.inf
    archive_at: float = -math.inf
    empty_at: float = -math.inf  # the partition was empty at some moment after this
    is_overdue: bool = False


class Step(NamedTuple):
    """Records to sign in one transaction, in order, and their times. ``unaligned``: the number of records that only an
    overdue partition would hold back. ``offsets``: the positions of their partitions before the step."""

    records: list[Record]
    times: list[int]
    unaligned: int
    offsets: dict[int, int]


class _Limits:
    """Record times up to which records may be signed, by partitions with a backlog (``strict``: overdue ones too), and
    by those caught up, which live records pass: those from ``live_ms`` on."""

    def __init__(self, at: float, now_ms: float, live_ms: float) -> None:
        self.hard = self.strict = self.soft = self.settled_at = math.inf
        self.at, self.now_ms, self.live_ms = at, now_ms, live_ms

    def hold(self, until_ms: float, is_overdue: bool) -> None:
        self.strict = min(self.strict, until_ms)
        if not is_overdue:
            self.hard = min(self.hard, until_ms)

    def limit(self, of: _Lane | _Seen, until_ms: float, overdue_ms: float, is_caught_up: bool) -> None:
        """Take in a partition: no later record of it holds back those up to ``until_ms``."""
        of.is_overdue = of.is_overdue or until_ms < overdue_ms
        if of.is_overdue or not is_caught_up:
            self.hold(until_ms, of.is_overdue)
        else:
            self.soft = min(self.soft, until_ms)
            self.settled_at = min(self.settled_at, of.empty_at - SETTLE_SECONDS)
            if until_ms < self.now_ms and self.at - of.archive_at <= ARRIVING_SECONDS:
                self.live_ms = math.inf


class Alignment:
    """The lanes of one signer, and its view of the others.

    Times of records are milliseconds since the epoch, as is ``now_ms``, the wall clock. ``at`` is a clock that only
    advances, in seconds. ``span_ms``: how far a record may be ahead of the slowest partition. ``wait_seconds_max``:
    if a lane is held back for longer, the partitions that hold it back are *overdue*: they hold back no records until
    they advance. ``texts`` is part of every claim.
    """

    def __init__(self, span_ms: float, wait_seconds_max: float | None = None, texts: str = "") -> None:
        self.span_ms, self.wait_seconds_max, self._texts = span_ms, wait_seconds_max, texts
        self.lanes: dict[int, _Lane] = {}
        self.partitions: frozenset[int] | None = None  # of the topic; no record is signed before they are known
        self.waiting_since: float | None = None  # records are pending, and none may be signed
        self.looked_at, self._others = -math.inf, dict[int, _Seen]()

    @property
    def is_alone(self) -> bool:
        """Whether this signer owns every partition of the topic."""
        return self.partitions is not None and self.partitions <= self.lanes.keys()

    @property
    def is_holding(self) -> bool:
        """Whether there are pending records."""
        return any(lane.records for lane in self.lanes.values())

    def start(self, partition: int, committed: Committed, at: float) -> None:
        """Open the lane of a partition at its committed offset, with the clock of the last owner's claim."""
        clock = decode_claim(committed.metadata).clock_ms
        self.lanes[partition] = _Lane(committed.offset, clock, clock)
        self._others.pop(partition, None)

    def drop(self, partitions: Iterable[int]) -> None:
        """Drop lanes with their records."""
        for partition in partitions:
            self.lanes.pop(partition, None)
            self._others.pop(partition, None)

    def add(self, records: Iterable[Record], now_ms: float, at: float) -> None:
        """Add polled records to their lanes."""
        for partition, polled in groupby(records, _PARTITION):
            lane, some = self.lanes[partition], list(polled)
            before = _BEFORE_ALL if lane.tail_ms is None else lane.tail_ms
            known = (one.timestamp_ms if one.timestamp_ms <= now_ms else before for one in some)
            lane.times += islice(accumulate(known, max, initial=before), 1, None)
            lane.records += some
            lane.sizes += map(record_bytes, some)
            if lane.times[-1] - before > _ARCHIVE_MS * (at - lane.moved_at + _DISORDER_SECONDS):
                lane.archive_at = at
            lane.tail_ms, lane.is_overdue, lane.moved_at = lane.times[-1], False, at

    def see(self, positions: Mapping[int, int], ends: Mapping[int, LogEnd], at: float) -> None:
        """Update the position of the client and the end of the log of each own partition; call it after each poll."""
        for partition, lane in self.lanes.items():
            lane.position = positions.get(partition, lane.position)
            end = ends.get(partition)
            lane.is_read = end is not None and lane.position >= end.committed and end.age_seconds <= CLAIM_SECONDS
            if end is None:
                continue
            if lane.position == end.written:
                lane.empty_at = max(lane.empty_at, at - end.age_seconds)
            if not lane.marks or (end.committed > lane.marks[-1][1] and at - lane.marks[-1][0] >= _MARK_SECONDS):
                lane.marks.append((at, end.committed))
                if len(lane.marks) > _MARKS_MAX:
                    lane.marks.popleft()

    def look(self, committed: Mapping[int, Committed], at: float) -> None:
        """Update the view of all partitions from the committed offsets of the group, as read at ``at``."""
        for partition in ((self.partitions or frozenset()) | committed.keys()) - self.lanes.keys():
            stored = committed.get(partition)
            claim = Claim() if stored is None else decode_claim(stored.metadata)
            seen = self._others.get(partition)
            if seen is None:
                self._others[partition] = _Seen(claim)
            elif claim.stamp != seen.claim.stamp:
                if claim[:2] != seen.claim[:2]:
                    seen.is_overdue = False
                if claim.empty_ms is not None:
                    seen.empty_at = max(seen.empty_at, seen.before_at - claim.empty_ms / 1e3)
                gained_ms = (claim.clock_ms or 0) - (seen.claim.clock_ms or 0)
                if gained_ms > _ARCHIVE_MS * (at - seen.changed_at + _DISORDER_SECONDS):
                    seen.archive_at = at
                seen.claim, seen.changed_at = claim, at
                seen.before_at, seen.floor_at = seen.floor_at, self.looked_at
        self.looked_at = at

    def take(self, records_max: int, bytes_max: int, now_ms: float, at: float) -> Step:
        """Remove the records of the next step from their lanes, in order of time; none if all have to wait.

        The step ends with the record that reaches ``bytes_max``.
        """
        limits = self._limits(at, now_ms)
        counts = {}
        for partition, lane in self.lanes.items():
            counts[partition] = lane.waiting_from(limits)
            if counts[partition] < len(lane.times):
                limits.hold(lane.times[counts[partition]] + self.span_ms, is_overdue=False)
        merged: list[tuple[int, Record, int]] = []
        for partition, count in counts.items():
            lane = self.lanes[partition]
            part = slice(min(count, records_max, bisect_right(lane.times, limits.hard)))
            merged += zip(lane.times[part], lane.records[part], lane.sizes[part], strict=True)
        merged.sort()  # lanes are sorted already, and no two records compare equal: partition and offset decide
        del merged[records_max:]
        sizes = list(accumulate(map(_SIZE, merged)))
        del merged[bisect_left(sizes, bytes_max) + 1 :]
        return self._taken(merged, limits, at)

    def _taken(self, merged: list[tuple[int, Record, int]], limits: _Limits, at: float) -> Step:
        """Remove these records from their lanes and return them as a step."""
        records, times = [record for _, record, _ in merged], [time for time, _, _ in merged]
        counts = Counter(map(_PARTITION, records))
        offsets = {partition: self.lanes[partition].offset for partition in counts}
        for partition, count in counts.items():
            self.lanes[partition].drop(count)
        for partition, lane in self.lanes.items():
            is_held = bool(lane.records) and partition not in counts
            lane.held_since = (at if lane.held_since is None else lane.held_since) if is_held else None
        if records or not self.is_holding:
            self.waiting_since = None
        elif self.waiting_since is None:
            self.waiting_since = at
        return Step(records, times, len(times) - bisect_right(times, limits.strict), offsets)

    def put_back(self, step: Step) -> None:
        """Undo the ``take`` of an aborted step: the next ``take`` begins with these records."""
        for partition, offset in step.offsets.items():
            lane = self.lanes[partition]
            indices = [i for i, record in enumerate(step.records) if record.partition == partition]
            lane.records[:0] = [step.records[i] for i in indices]
            lane.times[:0] = [step.times[i] for i in indices]
            lane.sizes[:0] = [record_bytes(step.records[i]) for i in indices]
            lane.offset = offset

    def commits(self, stamp: int, at: float) -> dict[int, Committed]:
        """Return offset and claim of every own partition after the last ``take``."""
        commits = {}
        for partition, lane in self.lanes.items():
            empty_ms = None if lane.empty_at == -math.inf else math.ceil((at - lane.empty_at) * 1e3)
            claim = Claim(lane.next_ms(), lane.is_caught_up, stamp, self._texts, empty_ms)
            commits[partition] = Committed(lane.offset, encode_claim(claim))
        return commits

    def held(self) -> dict[int, int]:
        """Return the number of pending records of each own partition that has some."""
        return {partition: len(lane.records) for partition, lane in self.lanes.items() if lane.records}

    def dry(self) -> list[int]:
        """Return the own partitions that are dry: their next record has not arrived yet."""
        return [partition for partition, lane in self.lanes.items() if not lane.records and not lane.is_read]

    def full(self, records_max: int, bytes_max: int) -> set[int]:
        """Return the own partitions with enough pending records: the next poll should return others."""
        lanes = self.lanes.items()
        return {p for p, lane in lanes if len(lane.records) >= records_max or sum(lane.sizes) >= bytes_max}

    @property
    def hand_bytes(self) -> int:
        """Return the bytes of all pending records."""
        return sum(sum(lane.sizes) for lane in self.lanes.values())

    def wait_seconds(self, at: float) -> float:
        """Return for how long records are pending of which none may be signed."""
        return 0.0 if self.waiting_since is None else at - self.waiting_since

    def behind_seconds(self, now_ms: float) -> dict[int, float]:
        """Return the time from the clock of each own partition to now; 0 for a caught-up partition."""
        clocks = {p: -1 if lane.is_caught_up else lane.next_ms() for p, lane in self.lanes.items()}
        return {p: max(0.0, (now_ms - ms) / 1e3) if ms is not None and ms >= 0 else 0.0 for p, ms in clocks.items()}

    def _limits(self, at: float, now_ms: float) -> _Limits:
        longest = math.inf if self.wait_seconds_max is None else self.wait_seconds_max
        held = [lane for lane in self.lanes.values() if lane.held_since is not None and at - lane.held_since > longest]
        # The latest time of a record that was held back for too long, whatever the slower partitions did.
        overdue_ms = max((lane.times[0] for lane in held if lane.times), default=-math.inf)
        limits = _Limits(at, now_ms, now_ms - self.span_ms)
        if self.partitions is None:
            limits.hold(_BEFORE_ALL - 1, is_overdue=False)
            return limits
        for partition in (self.partitions | self._others.keys()) - self.lanes.keys():
            seen = self._others.get(partition)
            if seen is None:
                limits.hold(_BEFORE_ALL - 1, is_overdue=False)
                continue
            is_caught_up = seen.claim.is_caught_up and at - seen.changed_at <= CLAIM_SECONDS
            limits.limit(seen, self._until(seen.claim.clock_ms), overdue_ms, is_caught_up)
        for lane in self.lanes.values():  # later records are not before the last pending one
            limits.limit(lane, self._until(lane.last_ms()), overdue_ms, lane.is_read)
        return limits

    def _until(self, clock_ms: int | None) -> float:
        return _BEFORE_ALL - 1 if clock_ms is None else clock_ms + self.span_ms
