"""The linker: arrivals and links in, one final verdict for each document out, one transaction a step.

The group of linkers reads ``arrivals``, which has one partition: one member works, the others stand by. States:

- *waiting*: assigned, without position. The worker reads what the group has committed.
- *restoring*: it reads the verdicts of the window, one stretch at a time between polls.
- *running*: each turn reads arrivals and links, and decides every arrival that all partitions of ``bands`` have
  processed, in the order of ``arrivals``.
- *revoked*: everything is dropped; the next owner restores it.

A step, and the effect of a crash after each part:

1. ``poll`` arrivals, for the membership, and links. *A crash loses nothing: both are read again.*
2. Decide inside an open step. *A crash loses nothing.*
3. ``transact``: verdicts, and offsets of ``arrivals``, ``links`` and ``verdicts``. *Visible together or not at all.*
4. The step of the decisions is committed. *A crash loses memory only; the next owner restores it.*

If the transaction is known to have failed, the step is undone and tried again. If its outcome is unknown, or another
member has taken over, the worker restarts from what is committed.

**Bounds.** A matcher that is down holds back the watermark. ``arrivals`` is not read while ``undecided_max`` documents
wait, nor is a partition of ``links`` that is ahead of the watermark by more, except the slowest for the next document:
so what moves the watermark is always read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from stream.bands_message import WireError
from stream.config import Config
from stream.table import NO_TIME
from stream.verdicts.decisions import VerdictLimits
from stream.verdicts.rule import STATUSES
from workers.settings.kafka import STEP_BYTES_MAX, UNDECIDED_MAX
from workers.stages.signer import start_offset
from workers.stages.transaction import RENEWED, Message, transact
from workers.stages.verdicts.positions import (
    ArrivalsPlace,
    Mark,
    Marks,
    VerdictsPlace,
    decode_arrivals_place,
    decode_verdicts_place,
    encode_place,
)
from workers.stages.verdicts.restore import restored
from workers.stages.verdicts.state import LinkState
from workers.stages.verdicts.watermarks import Watermarks
from workers.telemetry.observer import Observer, stage
from workers.topics.arrivals import decode_arrivals
from workers.topics.links import decode_links
from workers.topics.names import Topics
from workers.topics.places import partitions_of
from workers.topics.verdicts import Decision, encode_runs
from workers.transport.protocol import (
    AbortedError,
    Committed,
    Consumer,
    Membership,
    OffsetGoneError,
    Producer,
    Record,
    Transport,
    UnknownTopicError,
    UnreachableError,
)

_log = logging.getLogger(__name__)

# The one partition of arrivals.
_PARTITION = 0
# Documents of a step at most: a second of the producer.
_STEP_ROWS_MAX = 50_000
# A turn restores for so long before the next poll: the group waits for it.
_RESTORE_SECONDS = 0.5
# From the commit to the trim at most. Within it no other member can have taken over: no session is shorter.
_TRIM_SECONDS_MAX = 1.0
_MICROSECONDS = 1e6


class LinkPlan(NamedTuple):
    """What a linker needs in addition to the records."""

    config: Config
    topics: Topics
    partitions: int  # of bands, and of links
    limits: VerdictLimits
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # go on without verdicts that are gone, and without pairs that no matcher reports
    step_bytes_max: int = STEP_BYTES_MAX
    undecided_max: int = UNDECIDED_MAX


class LinkWorker:
    """The loop of a linker; ``turn`` runs it once. See the module for the states."""

    def __init__(
        self,
        transport: Transport,
        consumer: Consumer,
        producer: Producer,
        plan: LinkPlan,
        observer: Observer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.transport, self.consumer, self.producer = transport, consumer, producer
        self.plan, self.observer, self.clock = plan, observer, clock
        self.reader = transport.reader(plan.topics.links)
        self.verdict_partitions = transport.partitions(plan.topics.verdicts)
        self.joined = False
        self.membership = Membership("", -1, "", None)  # of the last poll
        self.aborted_in_row = 0
        self.waiting: set[int] = set()
        self.running: set[int] = set()
        self.restoring: Iterator[LinkState | None] | None = None
        self.state = LinkState(plan.limits)
        self._watermarks = Watermarks(plan.partitions, allow_gap=plan.allow_gap)
        self._marks = Marks(Mark(0, 0, {}, {}))
        self._position = 0  # behind the last record of arrivals that was read
        self._committed: dict[str, dict[int, Committed]] = {}
        self._trimmed: dict[str, dict[int, int]] = {}
        self._paused = False

    @property
    def ready(self) -> bool:
        """Whether what is assigned is running."""
        return not self.waiting and self.restoring is None

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore a stretch, or read and decide one step; returns the records read.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``WireError``, ``ConfigError``, ``OffsetGoneError``, ``UnknownTopicError`` (stop).
        """
        with stage(self.observer, "poll"):
            timeout = 0.0 if self.restoring is not None else timeout_seconds
            polled = self.consumer.poll(timeout, records_max, self.plan.step_bytes_max)
        self.membership, self.joined = polled.membership, polled.membership.generation >= 0
        if polled.revoked:
            self.waiting, self.running, self.restoring = set(), set(), None
            self.state = LinkState(self.plan.limits)
        if polled.assigned:
            self.waiting = {_PARTITION}
        if self.waiting:
            self._assign(polled.membership)
        if self.restoring is not None:
            with stage(self.observer, "restore"):
                self._restore()
        if not self.running:
            return 0
        with stage(self.observer, "decode"):
            read = self._read(polled.records, records_max)
        if not polled.is_joining:  # else the commit would be refused
            self._step(polled.membership)
        self._hold()
        return read

    def close(self) -> None:
        """Free the reader; never raises."""
        self.reader.close()

    def trim(self) -> None:
        """Note a mark, and drop what no restart reads: arrivals that are decided, links below the committed offsets.

        The offsets are committed first, which is refused to a member that lost its partition in its sleep.
        """
        if not self.running:
            return
        ends = {partition: end for partition, (_, end) in self.transport.bounds(self.plan.topics.verdicts).items()}
        state = self.state
        self._marks.add(Mark(state.decisions.end, state.arrivals, ends, state.decided_offsets()))
        began = self.clock()
        try:
            self._commit([], self.membership, RENEWED)
        except AbortedError:
            return
        topics = self.plan.topics
        if 0 <= self.clock() - began <= _TRIM_SECONDS_MAX:
            for topic in (topics.arrivals, topics.links):
                trimmed = self._trimmed.setdefault(topic, {})
                places = {partition: committed.offset for partition, committed in self._committed[topic].items()}
                before = {partition: at for partition, at in places.items() if at > trimmed.get(partition, 0)}
                if before:
                    self.transport.trim(topic, before)
                    trimmed.update(before)

    def observe(self) -> None:
        """Report what waits, and how far each partition of ``bands`` has come."""

    def _assign(self, membership: Membership) -> None:
        """Read what the group has committed, and begin to restore; commit the requested start if there is nothing."""
        topics, group = self.plan.topics, membership.group
        try:
            arrivals = self.consumer.committed(_PARTITION)
            if arrivals is None:
                bounds = self.transport.bounds(topics.arrivals)
                start = start_offset(lambda: bounds, _PARTITION, self.plan.start)
                arrivals = Committed(start, encode_place(ArrivalsPlace(0, 0, 0, None)))
                transact(self.producer, [], topics.arrivals, {_PARTITION: arrivals}, membership, self.observer)
            # After the first answer no transaction of a predecessor is pending: the three agree.
            verdicts = self.transport.group_offsets(group, topics.verdicts)
            links = self.transport.group_offsets(group, topics.links)
            if self.consumer.committed(_PARTITION) != arrivals:
                return
            firsts = {partition: first for partition, (first, _) in self.transport.bounds(topics.links).items()}
            ends = {s: end for s, (_, end) in self.transport.bounds(topics.verdicts).items()}
        except (UnreachableError, AbortedError):
            return
        place = decode_arrivals_place(arrivals)
        marks = {s: committed.offset for s, committed in verdicts.items()}
        decided = {s: decode_verdicts_place(committed).marked for s, committed in verdicts.items()}
        self._marks = Marks(Mark(0, place.first, {**ends, **marks}, decided))
        self._committed = {topics.arrivals: {_PARTITION: arrivals}, topics.verdicts: verdicts, topics.links: links}
        self._position, self._trimmed = arrivals.offset, {}
        self._watermarks = Watermarks(self.plan.partitions, allow_gap=self.plan.allow_gap)
        starts = {partition: links[partition].offset if partition in links else at for partition, at in firsts.items()}
        self._check_gaps(starts, firsts)
        self.reader.follow({partition: max(at, firsts[partition]) for partition, at in starts.items()})
        self.restoring = restored(
            self.transport, topics.verdicts, self.plan.limits, arrivals, verdicts, allow_gap=self.plan.allow_gap
        )
        self.waiting.clear()

    def _check_gaps(self, starts: Mapping[int, int], firsts: Mapping[int, int]) -> None:
        gone = [partition for partition, at in starts.items() if at < firsts[partition]]
        if gone and not self.plan.allow_gap:
            raise OffsetGoneError(
                f"the log of partitions {gone} of {self.plan.topics.links} begins behind the committed offsets: pairs "
                "of documents without a verdict are gone; accept that with --allow-gap"
            )

    def _restore(self) -> None:
        """Restore for a while; at the end, begin to read."""
        assert self.restoring is not None, "nothing is restored"
        until = self.clock() + _RESTORE_SECONDS
        while True:
            try:
                state = next(self.restoring)
            except UnreachableError:
                self.waiting, self.restoring = {_PARTITION}, None  # a reader that has failed is at its end
                raise
            if state is not None:
                self.state, self.restoring, self.running = state, None, {_PARTITION}
                self.observer.count("restored_documents", state.decisions.end)
                self.consumer.seek(_PARTITION, self._position)
                self.consumer.resume([_PARTITION])
                self._paused = False
                return
            if self.clock() >= until:
                return

    def _read(self, arrivals: list[Record], records_max: int) -> int:
        """Take in what has come of both topics; returns how many records."""
        fingerprint = self.plan.config.signing_fingerprint
        try:
            for record in arrivals:
                rows = decode_arrivals(_value(record, self.plan.topics.arrivals), fingerprint)
                self._check_partitions(int(partitions_of(rows.places).max(initial=-1)))
                self.state.add_arrivals(record.offset, rows)
                self._position = record.offset + 1
        except UnreachableError:
            self.consumer.seek(_PARTITION, self._position)
            raise
        links = self.reader.poll(0.0, records_max, self.plan.step_bytes_max)
        for record in links:
            message = decode_links(_value(record, self.plan.topics.links), fingerprint)
            self._watermarks.add(record.partition, record.offset, message, self.state.decided)
            self.state.add_pairs(message.links)
        if arrivals or links:
            self._watermarks.settle(self.state.decided)
            self._check_holes()
        self.observer.count("bytes", sum(len(record.value or b"") for record in (*arrivals, *links)))
        return len(arrivals) + len(links)

    def _check_partitions(self, partition: int) -> None:
        """Refuse documents of a partition that has none in ``verdicts``."""
        if partition < self.verdict_partitions:
            return
        topic = self.plan.topics.verdicts
        self.verdict_partitions = self.transport.partitions(topic)
        if partition >= self.verdict_partitions:
            raise UnknownTopicError(
                f"{topic} has {self.verdict_partitions} partitions, but documents come from partition {partition}: "
                f"give it and {self.plan.topics.unique} as many partitions as {self.plan.topics.documents} has"
            )

    def _check_holes(self) -> None:
        holes = self._watermarks.holes(self.state.decided)
        if holes:
            hole = holes[0]
            raise OffsetGoneError(
                f"partition {hole.bands} of {self.plan.topics.bands} was not matched for offsets {hole.first} to "
                f"{hole.end} of partition {hole.partition} of {self.plan.topics.documents}: their verdicts would miss "
                "pairs; accept that with --allow-gap, which marks them as incomplete"
            )

    def _step(self, membership: Membership) -> None:
        """Decide what can be decided, and publish it."""
        state = self.state
        taken = state.take(self._watermarks.watermark(state.decided), _STEP_ROWS_MAX)
        if taken is None:
            return
        with stage(self.observer, "decide"):
            decision = state.decide(taken, self._watermarks.gaps)
            topic = self.plan.topics.verdicts
            runs = [Message(topic, run.partition, run.value, run.key) for run in encode_runs(decision)]
        try:
            self._commit(runs, membership)
        except AbortedError:
            state.undo()
            self.aborted_in_row += 1
            return
        self.aborted_in_row = 0
        state.commit()
        self._watermarks.settle(state.decided)
        self._report(decision)

    def _commit(self, messages: list[Message], membership: Membership, outcome: str = "committed") -> None:
        """Publish with what is new of the offsets; raises what ``transact`` raises."""
        topics, state = self.plan.topics, self.state
        offset, row, arrivals = state.committed_place(self._position)
        mark = self._marks.oldest(state.decisions.first)
        time = state.decisions.stream_time
        place = ArrivalsPlace(row, arrivals, mark.arrivals, None if time == NO_TIME else time)
        now = {
            topics.arrivals: {_PARTITION: Committed(offset, encode_place(place))},
            topics.links: {
                partition: Committed(at, "")
                for partition, at in self._watermarks.starts(self.reader.positions(), state.decided).items()
            },
            topics.verdicts: {
                s: Committed(mark.ends.get(s, 0), encode_place(VerdictsPlace(decided, mark.decided.get(s, -1))))
                for s, decided in state.decided_offsets().items()
            },
        }
        new = {
            topic: {p: at for p, at in places.items() if self._committed[topic].get(p) != at}
            for topic, places in now.items()
        }
        more = {topic: places for topic, places in new.items() if places and topic != topics.arrivals}
        transact(
            self.producer, messages, topics.arrivals, now[topics.arrivals], membership, self.observer, outcome, more
        )
        self._committed = now

    def _hold(self) -> None:
        """Read no more of what is far ahead; see the module."""
        state, limit = self.state, self.plan.undecided_max
        is_full = state.undecided >= limit
        if is_full != self._paused:
            (self.consumer.pause if is_full else self.consumer.resume)([_PARTITION])
            self._paused = is_full
        ahead = self._watermarks.ahead(self._watermarks.watermark(state.decided))
        held = set(np.flatnonzero(ahead > limit).tolist())
        place = state.next_place()
        if held and place is not None:
            held.discard(self._watermarks.slowest(place[0]))
        self.reader.hold(held)

    def _report(self, decision: Decision) -> None:
        """Report a committed step."""
        statuses = np.bincount(decision.verdicts.statuses, minlength=len(STATUSES))
        self.observer.count("documents", len(decision.rows.places))
        for status, count in zip(STATUSES, statuses.tolist(), strict=True):
            self.observer.count("verdicts", count, status)


def _value(record: Record, topic: str) -> bytes:
    if record.value is None:
        raise WireError(
            f"offset {record.offset} of partition {record.partition} of {topic} has no value: no worker wrote it"
        )
    return record.value
