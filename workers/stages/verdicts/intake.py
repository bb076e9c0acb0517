"""What a running linker reads: ``arrivals`` as a member of its group, and ``links`` by assignment.

``take`` adds the records to the state and to the watermarks. ``hold`` pauses partitions that are far ahead of the
watermark; ``linker`` describes the bounds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from neardup.stream.bands_message import WireError
from neardup.stream.config import Config
from neardup.stream.verdicts.decisions import VerdictLimits
from neardup.workers.settings.kafka import STEP_BYTES_MAX, UNDECIDED_MAX
from neardup.workers.stages.verdicts.state import LinkState
from neardup.workers.stages.verdicts.watermarks import Hole, Watermarks
from neardup.workers.telemetry.observer import Observer
from neardup.workers.topics.arrivals import ROW_BYTES_MIN, decode_arrivals
from neardup.workers.topics.links import decode_links
from neardup.workers.topics.names import Topics
from neardup.workers.topics.places import partitions_of
from neardup.workers.transport.protocol import (
    Consumer,
    FencedError,
    OffsetGoneError,
    Polled,
    Record,
    Transport,
    UnknownTopicError,
    UnreachableError,
)

_log = logging.getLogger(__name__)
_Read = TypeVar("_Read")
# The one partition of arrivals.
PARTITION = 0


class LinkPlan(NamedTuple):
    """What a linker needs in addition to the records."""

    config: Config
    topics: Topics
    partitions: int  # of bands, and of links
    cluster_partitions: int
    limits: VerdictLimits
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # continue without deleted verdicts, and without pairs that no matcher reports
    step_bytes_max: int = STEP_BYTES_MAX
    undecided_max: int = UNDECIDED_MAX


class Intake:
    """The readers of a restored linker; see the module."""

    def __init__(self, transport: Transport, consumer: Consumer, plan: LinkPlan, observer: Observer) -> None:
        self.transport, self.consumer, self.plan, self.observer = transport, consumer, plan, observer
        self.reader = transport.reader(plan.topics.links)
        self.watermarks = Watermarks(plan.partitions, allow_gap=plan.allow_gap)
        self.position = 0  # the offset after the last record of arrivals that was read
        self._verdict_partitions = transport.partitions(plan.topics.verdicts)
        self._paused = False
        self._named: dict[Hole, str] = {}  # accepted holes, and what the log said of them
        self._hand: deque[Record] = deque()  # polled arrivals for which there is no room yet

    def follow(self, starts: Mapping[int, int], position: int) -> None:
        """Begin to read ``links`` at these offsets, and ``arrivals`` at ``position``."""
        self.watermarks = Watermarks(self.plan.partitions, allow_gap=self.plan.allow_gap)
        self.position = position
        self._hand.clear()
        self.reader.follow(starts)

    def resume(self) -> None:
        """Read arrivals."""
        self.consumer.seek(PARTITION, self.position)
        self.consumer.resume([PARTITION])
        self._paused = False

    def poll(self, timeout_seconds: float, records_max: int, group: str, undecided: int) -> Polled:
        """Poll arrivals, for the membership; ``undecided`` documents wait. Raises as ``take``."""
        room = max(1, (self.plan.undecided_max - undecided) * ROW_BYTES_MIN)
        bytes_max = min(room, self.plan.step_bytes_max)
        return self._unless_fenced(group, lambda: self.consumer.poll(timeout_seconds, records_max, bytes_max))

    def take(self, state: LinkState, arrivals: list[Record], records_max: int, group: str) -> int:
        """Add polled arrivals and available links to the state; returns the number of records.

        Raises ``FencedError`` if another member has decided and trimmed the next records; ``OffsetGoneError`` if pairs
        are missing that no matcher will report; ``WireError``, ``UnknownTopicError``.
        """
        fingerprint, position = self.plan.config.signing_fingerprint, self.position
        try:
            self._hand += arrivals
            while self._hand:
                record = self._hand[0]
                rows = decode_arrivals(_value(record, self.plan.topics.arrivals), fingerprint)
                if state.waiting and state.undecided + len(rows.places) > self.plan.undecided_max:
                    break
                self._check_partitions(int(partitions_of(rows.places).max(initial=-1)))
                state.add_arrivals(record.offset, rows, record.timestamp_ms)
                self.position = record.offset + 1
                self._hand.popleft()
        except UnreachableError:
            self._hand.clear()
            self.consumer.seek(PARTITION, self.position)
            raise
        links = self._unless_fenced(
            group, lambda: self.reader.poll(0.0, records_max, self.plan.step_bytes_max)
        )  # fmt: skip
        for record in links:
            message = decode_links(_value(record, self.plan.topics.links), fingerprint)
            self.watermarks.add(record.partition, record.offset, message, state.decided)
            state.add_pairs(record.partition, record.offset, message.links)
        if self.position > position or links:
            self.watermarks.settle(state.decided)
            self._check_holes(state)
        self.observer.count("bytes", sum(len(record.value or b"") for record in (*arrivals, *links)))
        return len(arrivals) + len(links)

    def hold(self, state: LinkState) -> None:
        """Pause the partitions that are far ahead of the watermark."""
        limit = self.plan.undecided_max
        is_full = bool(self._hand) or state.undecided >= limit
        if is_full != self._paused:
            (self.consumer.pause if is_full else self.consumer.resume)([PARTITION])
            self._paused = is_full
        ahead = self.watermarks.ahead(self.watermarks.watermark(state.decided))
        held = set(np.flatnonzero(ahead > limit).tolist())
        place = state.next_place()
        if held and place is not None:
            held.discard(self.watermarks.slowest(place[0]))
        self.reader.hold(held)

    def starts(self, state: LinkState) -> dict[int, int]:
        """Return where a restart reads each partition of ``links``."""
        return self.watermarks.starts(self.reader.positions(), state.decided)

    def observe(self, state: LinkState, now_seconds: float) -> None:
        """Report the waiting records, and how long the next verdict has waited for each partition of ``bands``."""
        self.observer.set("undecided", state.undecided)
        place, waits = state.next_place(), 0.0
        if place is not None:
            waits = max(0.0, now_seconds - state.waiting[0].timestamp_ms / 1e3)
        for bands in range(self.plan.partitions):
            behind = place is not None and not self.watermarks.has_passed(bands, place, state.decided)
            self.observer.set("watermark_lag_seconds", waits if behind else 0.0, str(bands))

    def forget(self) -> None:
        """Stop reporting partitions: another member reports them."""
        for bands in range(self.plan.partitions):
            self.observer.forget(str(bands))

    def _unless_fenced(self, group: str, read: Callable[[], _Read]) -> _Read:
        """Read; raises ``FencedError`` if records are missing because another member has decided and trimmed them.

        A member that was suspended for longer than its session continues to read until it learns that its partition has
        moved.
        """
        try:
            return read()
        except OffsetGoneError as gone:
            arrivals = self.transport.group_offsets(group, self.plan.topics.arrivals).get(PARTITION)
            links = self.transport.group_offsets(group, self.plan.topics.links)
            positions = self.reader.positions()
            is_behind = arrivals is not None and arrivals.offset > self.position
            if is_behind or any(links[bands].offset > at for bands, at in positions.items() if bands in links):
                raise FencedError(
                    f"another member of {group} has decided what this member would read next: restart from the "
                    "committed offsets"
                ) from gone
            if self.plan.allow_gap:
                raise FencedError(f"{gone}; restart behind the gap (allow_gap)") from gone
            raise

    def _check_partitions(self, partition: int) -> None:
        """Raise if a partition of ``documents`` has no partition in ``verdicts``."""
        if partition < self._verdict_partitions:
            return
        topic = self.plan.topics.verdicts
        self._verdict_partitions = self.transport.partitions(topic)
        if partition >= self._verdict_partitions:
            raise UnknownTopicError(
                f"{topic} has {self._verdict_partitions} partitions, but documents come from partition {partition}: "
                f"give it and {self.plan.topics.unique} as many partitions as {self.plan.topics.documents} has"
            )

    def _check_holes(self, state: LinkState) -> None:
        """Name the accepted holes, and raise for others. The arrivals of a hole are read first: they say what it is."""
        for hole in self.watermarks.gaps:
            sentence = "" if hole in self._named else self._sentence(hole, state)
            if sentence:
                if sentence not in self._named.values():
                    _log.warning("%s (allow_gap)", sentence)
                self._named[hole] = sentence
        for hole in self.watermarks.holes(state.decided):
            sentence = self._sentence(hole, state)
            if sentence:
                raise OffsetGoneError(f"{sentence}; accept that with --allow-gap")

    def _sentence(self, hole: Hole, state: LinkState) -> str:
        """Say which documents were not matched, and what becomes of them; empty if that is not known yet."""
        topics, is_signed = self.plan.topics, state.is_signed(hole)
        where = f"offsets {hole.first} to {hole.end} of partition {hole.partition} of {topics.documents}"
        if is_signed is None:
            return ""
        if not is_signed:
            return (
                f"{where} have no arrivals, so they were signed while verdicts was off: they get no verdict, and no "
                "filter forwards them; send them again"
            )
        return (
            f"{where} were not matched in partition {hole.bands} of {topics.bands}: their verdicts miss pairs, and are "
            "marked as incomplete"
        )


def _value(record: Record, topic: str) -> bytes:
    if record.value is None:
        raise WireError(
            f"offset {record.offset} of partition {record.partition} of {topic} has no value: no worker wrote it"
        )
    return record.value
