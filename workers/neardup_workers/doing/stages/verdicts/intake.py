"""What a running linker reads: ``signed`` and ``links``, both without its group.

``take`` adds the records to the state and to the watermarks. ``hold`` pauses partitions that are far ahead of the
watermark; ``linker`` describes the bounds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from neardup.pairs.shards import Growth
from neardup.pairs.window_message import WireError
from neardup.schemes.config import Config
from neardup.stories.sources.ledger import SOURCES_MAX
from neardup.stories.verdicts.row_columns import VerdictLimits
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.doing.stages.verdicts.watermarks import Hole, Watermarks
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.topics.links import Links, decode_links
from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.places import partitions_of
from neardup_workers.outside.topics.signed import PARTITION, ROW_BYTES_MIN, decode_signed, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import (
    FencedError,
    OffsetGoneError,
    Record,
    UnknownTopicError,
    UnreachableError,
)

_log = logging.getLogger(__name__)
_Read = TypeVar("_Read")
# A message that is read again comes within this time; of what follows it little is read.
_READ_SECONDS, _READ_BYTES = 10, 1 << 16


class LinkPlan(NamedTuple):
    """What a linker needs in addition to the records."""

    config: Config
    topics: Topics
    shards: int  # at the beginning of the stream
    cluster_partitions: int
    limits: VerdictLimits
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # continue without deleted verdicts, and without pairs that no matcher reports
    match_group: str  # the group of matchers, which know how many shards there are
    step_bytes_max: int = LIMITS.step_bytes_max
    undecided_max: int = LIMITS.undecided_max
    messages_bytes_max: int = LIMITS.messages_bytes_max
    sources_max: int = SOURCES_MAX
    standbys: int = 0  # other members that keep the state of the linker


class Intake:
    """The readers of a restored linker; see the module."""

    def __init__(self, member: WorkerMember, plan: LinkPlan) -> None:
        self.member, self.plan, self.observer = member, plan, member.observer
        self.reader, self._signed = (
            member.transport.reader(topic) for topic in (plan.topics.links, plan.topics.signed)
        )
        self._messages = member.transport.reader(plan.topics.signed, _READ_BYTES)
        self.growth = Growth(plan.shards)  # up to the position
        self.watermarks = Watermarks(plan.shards, 0, allow_gap=plan.allow_gap)
        self.position = 0  # the offset up to which records of signed are in the state
        self._verdict_partitions = member.transport.partitions(plan.topics.verdicts)
        self._named: set[Hole] = set()  # accepted holes that the log names
        self._hand: deque[Record] = deque()  # polled records of signed for which there is no room yet

    def follow(self, starts: Mapping[int, int], position: int, row: int, growth: Growth) -> None:
        """Begin to read ``links`` at these offsets, and ``signed`` at ``position``, of whose message ``row`` rows are
        decided; ``growth`` says how many shards there are."""
        self.forget()
        self.growth = growth
        self.watermarks = Watermarks(growth.shards, position_of(position, row), allow_gap=self.plan.allow_gap)
        self.position = position
        self._hand.clear()
        self.reader.follow(starts)
        self._signed.follow({PARTITION: position})

    def take(self, state: LinkState, timeout_seconds: float, records_max: int) -> int:
        """Wait for rows unless there is no room for them, else for links; add both to the state. Returns the number of
        records.

        Raises ``FencedError`` if another member has decided and trimmed the next records; ``OffsetGoneError`` if pairs
        are missing that no matcher will report; ``WireError``, ``UnknownTopicError``.
        """
        fingerprint, width = self.plan.config.signing_fingerprint, self.plan.config.plan.width
        signed: list[Record] = []
        left = self.plan.undecided_max - state.undecided
        if left > 0 and not self._hand:
            room, timeout, timeout_seconds = min(left * ROW_BYTES_MIN, self.plan.step_bytes_max), timeout_seconds, 0.0
            signed = self.unless_fenced(lambda: self._signed.poll(timeout, records_max, room))
        try:
            self._hand += signed
            while self._hand:
                record = self._hand[0]
                value = _value(record, self.plan.topics.signed)
                signed_rows = decode_signed(value, fingerprint, width)
                if signed_rows.growth is not None:
                    self._grow(record.offset + 1, *signed_rows.growth)
                    self._hand.popleft()
                    continue
                rows = signed_rows.arrivals()
                if state.waiting and state.undecided + len(rows.places) > self.plan.undecided_max:
                    break
                self._check_partitions(int(partitions_of(rows.places).max(initial=-1)))
                state.add_arrivals(record.offset, rows, record.timestamp_ms)
                state.compared.keep(record.offset, signed_rows.evidence, len(value))
                self.position = record.offset + 1
                self._hand.popleft()
        except UnreachableError:
            self._hand.clear()
            self._signed.follow({PARTITION: self.position})
            raise
        if not self._hand:
            self.position = max(self.position, self._signed.positions()[PARTITION])  # it has passed markers, too
        return len(signed) + self.take_links(state.add_pairs, timeout_seconds, records_max, signed)

    def take_links(
        self, add: Callable[[Links], None], timeout_seconds: float, records_max: int, signed: Sequence[Record] = ()
    ) -> int:
        """Read links, and ``add`` their pairs; returns the number of records. Raises as ``take``. The metrics count
        the bytes of ``signed``, too."""
        fingerprint = self.plan.config.signing_fingerprint
        links = self.unless_fenced(lambda: self.reader.poll(timeout_seconds, records_max, self.plan.step_bytes_max))
        for record in links:
            message = decode_links(_value(record, self.plan.topics.links), fingerprint)
            pairs = len(message.links.later)
            self.watermarks.add(record.partition, record.offset, pairs, message.first, message.end)
            add(message.links)
        if links:
            self._check_holes()
        self.observer.count("bytes", sum(len(record.value or b"") for record in (*signed, *links)))
        return len(links)

    def lag(self) -> int:
        """Return the messages of ``signed`` that are not read, as far as the reader knows."""
        return max(0, self._signed.ends().get(PARTITION, 0) - self.position)

    def compared(self) -> Compared:
        """Return the evidence of a new state."""
        return Compared(self.plan.config, self.read_again, self.plan.messages_bytes_max, self.observer)

    def close(self) -> None:
        """Free the readers; never raises."""
        self.reader.close()
        self._signed.close()
        self._messages.close()

    def read_again(self, offset: int) -> bytes:
        """Read a message of ``signed`` again."""
        topic = self.plan.topics.signed
        self._messages.follow({PARTITION: offset})
        for _ in range(_READ_SECONDS):
            for record in self._messages.poll(1.0, 1, 1):
                if record.offset != offset:
                    raise OffsetGoneError(f"offset {offset} of {topic} is no record: the log goes on behind it")
                return _value(record, topic)
        raise UnreachableError(f"offset {offset} of {topic} was not read in {_READ_SECONDS} seconds; it is tried again")

    def _grow(self, position: int, before: int, after: int) -> None:
        """Pass a control row, behind which ``signed`` is read at ``position``: the rows from there on wait for more
        shards. Raises ``UnreachableError`` while the broker does not know their partitions."""
        growth = self.growth.grown(position_of(position), before, after)
        if growth != self.growth:
            topic = self.plan.topics.links
            firsts = {shard: first for shard, (first, _) in self.member.transport.bounds(topic).items()}
            if len(firsts) < growth.shards:
                raise UnreachableError(
                    f"{topic} has {len(firsts)} partitions, and {self.plan.topics.signed} tells of {growth.shards} "
                    "shards: if this broker does not learn of them, see whether links was made again"
                )
            added = {shard: firsts[shard] for shard in range(self.growth.shards, growth.shards)}
            self.reader.follow({**self.reader.positions(), **added})
            self.watermarks.grow(growth.shards, position_of(position))
            self.growth = growth
        self.position = position

    def hold(self, state: LinkState) -> None:
        """Release what is decided, and pause the partitions that are far ahead of the watermark."""
        self.watermarks.settle(state.decided_position(self.position))
        self.reader.hold(self.watermarks.ahead(self.plan.undecided_max, position_of(self.position)))

    def starts(self, state: LinkState) -> dict[int, int]:
        """Return where a restart reads each partition of ``links``."""
        return self.watermarks.starts(self.reader.positions(), state.decided_position(self.position))

    def observe(self, state: LinkState, now_seconds: float) -> None:
        """Report the waiting records, and how long the next verdict has waited for each shard."""
        self.observer.set("undecided", state.undecided)
        position, waits = state.decided_position(self.position), 0.0
        if state.waiting:
            waits = max(0.0, now_seconds - state.waiting[0].timestamp_ms / 1e3)
        for shard in range(self.growth.shards):
            behind = bool(state.waiting) and not self.watermarks.has_passed(shard, position)
            self.observer.set("watermark_lag_seconds", waits if behind else 0.0, str(shard))

    def forget(self) -> None:
        """Stop reporting shards: another member reports them."""
        for shard in range(self.growth.shards):
            self.observer.forget(str(shard))

    def unless_fenced(self, read: Callable[[], _Read]) -> _Read:
        """Read; raises ``FencedError`` if records are missing because another member has decided and trimmed them.

        A member that was suspended for longer than its session continues to read until it learns that its partition has
        moved.
        """
        try:
            return read()
        except OffsetGoneError as gone:
            transport, group = self.member.transport, self.member.membership.group
            signed = transport.group_offsets(group, self.plan.topics.signed).get(PARTITION)
            links = transport.group_offsets(group, self.plan.topics.links)
            positions = self.reader.positions()
            is_behind = signed is not None and signed.offset > self.position
            if is_behind or any(links[shard].offset > at for shard, at in positions.items() if shard in links):
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
        self._verdict_partitions = self.member.transport.partitions(topic)
        if partition >= self._verdict_partitions:
            raise UnknownTopicError(
                f"{topic} has {self._verdict_partitions} partitions, but documents come from partition {partition}: "
                f"neardup topics create --grow adds as many as {self.plan.topics.documents} has (documents_partitions)"
            )

    def _check_holes(self) -> None:
        """Name the accepted holes, and raise for others."""
        for hole in self.watermarks.holes:
            raise OffsetGoneError(f"{self._sentence(hole)}; accept that with --allow-gap")
        for hole in self.watermarks.gaps:
            if hole not in self._named:
                _log.warning("%s (allow_gap)", self._sentence(hole))
                self._named.add(hole)

    def _sentence(self, hole: Hole) -> str:
        """Say which rows were not matched, and what becomes of them."""
        first, end = (offset_and_row(position) for position in hole[1:])
        return (
            f"{self.plan.topics.signed} from offset {first[0]}, row {first[1]}, to offset {end[0]}, row {end[1]}, was "
            f"not matched by shard {hole.shard}: the verdicts of these documents miss pairs, and are marked as "
            "incomplete"
        )


def _value(record: Record, topic: str) -> bytes:
    if record.value is None:
        raise WireError(
            f"offset {record.offset} of partition {record.partition} of {topic} has no value: no worker wrote it"
        )
    return record.value
