"""What a matcher needs in addition to the records, where its shards begin, and from where on it needs the log."""

from __future__ import annotations

import logging
from typing import NamedTuple

from neardup.pairs.shards import Growth
from neardup.schemes.config import Config
from neardup_workers.doing.stages.growth import growth_at
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.windows import Window, decode_window, encode_window
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.starts import committed_start, start_offset
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.topics.links import NO_LINKS, LinkMessage, encode_links
from neardup_workers.outside.topics.messages import Envelope
from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.signed import PARTITION, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import Committed, Message, OffsetGoneError, Transport, UnreachableError

_log = logging.getLogger(__name__)
# Unused partitions are looked at so often at most.
_WAKE_SECONDS = 1.0


class MatchPlan(NamedTuple):
    """What a matcher needs in addition to the records."""

    config: Config
    topics: Topics
    shards: int  # at the beginning of the stream
    candidate_partitions: int
    envelope: Envelope
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # continue if the beginning of a window is no longer in the log
    link_group: str  # the group of linkers, which read signed too
    step_bytes_max: int = LIMITS.step_bytes_max
    step_pairs_max: int = LIMITS.step_pairs_max
    canaries: bool = False  # look up those of signed
    verdicts: bool = False  # publish links for linkers, and trim nothing before the first linker works
    standbys: int = 0  # other members that keep a table of each shard
    pairs_max: int | None = None  # pairs of a document that each shard publishes


class Restore(NamedTuple):
    """A table that is replayed: from an offset up to a position, which is committed."""

    table: ShardTable
    start: int
    end: int

    @property
    def progress(self) -> tuple[int, int]:
        """Messages that are applied, and all of them."""
        return offset_and_row(self.table.position)[0] - self.start, offset_and_row(self.end)[0] - self.start


def passed_growth(transport: Transport, group: str, topic: str, shards: int) -> dict[int, Growth]:
    """Return how many shards there are at the offsets in ``signed`` that a group of matchers has committed, and at the
    beginning; ``topic`` is that of links."""
    offsets = transport.group_offsets(group, topic).values()
    return {0: Growth(shards)} | {at.offset: decode_window(at.metadata).growth for at in offsets}


class Beginnings:
    """Where shards begin, and the partitions of ``links`` that are assigned and no shard yet (``unused``)."""

    def __init__(self, member: WorkerMember, plan: MatchPlan) -> None:
        self._member, self._plan = member, plan
        self.unused: set[int] = set()
        self._woken = 0.0

    def committed(self, shard: int) -> Committed | None:
        """Return what the group has committed for a shard; without that, the owner of shard 0 commits the requested
        start of all shards at once. ``None`` if the offset is not known yet, or the shard is unused.

        Raises the errors of ``committed_start``.
        """
        committed = self._member.consumer.committed(shard)
        if committed is not None:
            return committed
        plan, growth = self._plan, self.growth(shard)
        if shard >= growth.shards:
            self.unused.add(shard)
            return None

        def metadata(_: int, offset: int) -> str:
            fingerprint = plan.config.matching_fingerprint
            return encode_window(Window(offset, None, fingerprint, growth.until(position_of(offset))))

        return committed_start(
            self._member, plan.topics.links, shard, plan.start, metadata,
            lambda: dict.fromkeys(range(growth.shards), self._member.transport.bounds(plan.topics.signed)[PARTITION]),
        )  # fmt: skip

    def linked(self, shard: int, committed: Committed) -> Committed:
        """Return where a shard begins to publish links, given what the group has committed for it.

        One that worked without ``verdicts`` goes back to the beginning of the window, of all shards together: a linker
        needs the links of all documents that later ones can pair with. Their pairs are not published twice. Its first
        record of links says where it begins.
        """
        plan, member, topic = self._plan, self._member, self._plan.topics.links
        window = decode_window(committed.metadata)
        position = position_of(committed.offset, window.row)
        if not (plan.verdicts and position) or member.transport.bounds(topic)[shard][1]:
            return committed
        growth = window.growth
        born = next((offset_and_row(at)[0] for at, shards in growth.steps if growth.first <= shard < shards), 0)
        others = member.transport.group_offsets(member.membership.group, topic).values()
        windows = [window, *(each for at in others if (each := decode_window(at.metadata)).start >= born)]
        oldest = min(windows, key=lambda each: each.start)
        offset = max(oldest.start, born)  # a window that rarity needs may begin before its shard
        start = position_of(offset)
        if start < position:
            _log.warning(
                "shard %d has worked without verdicts: it matches %s again from offset %d on, for links alone",
                shard, plan.topics.signed, offset,
            )  # fmt: skip
            window = Window(
                oldest.start, oldest.stream_time, window.fingerprint, growth.until(start), published=position,
                counted=window.counted,
            )  # fmt: skip
            committed = Committed(offset, encode_window(window))
        begin = encode_links(LinkMessage(NO_LINKS, start, start), plan.config.signing_fingerprint)
        member.transact([Message(topic, shard, value) for value in begin], topic, {shard: committed})
        return committed

    def growth(self, shard: int = 0) -> Growth:
        """Return how many shards have begun, as a shard without an offset may know it: as many as there are where shard
        0 is, which commits the first offsets of those that are added.

        If no shard has an offset, it is the growth where the group starts. If shard 0 alone has lost its offset, the
        others wait for it, and it goes by what these have passed.
        """
        plan, transport = self._plan, self._member.transport
        offsets = transport.group_offsets(self._member.membership.group, plan.topics.links)
        if not offsets:
            start = start_offset(lambda: transport.bounds(plan.topics.signed), PARTITION, plan.start)
            return growth_at(transport, plan.topics, plan.config, {0: Growth(plan.shards)}, start)
        if 0 not in offsets and shard:
            return Growth(1)
        passed = {n: decode_window(committed.metadata).growth for n, committed in offsets.items()}
        return passed[0] if 0 in passed else max(passed.values(), key=lambda growth: len(growth.steps))

    def wake(self) -> set[int]:
        """Return the unused shards that have begun, which are unused no more; ask once a second."""
        if not self.unused or 0 <= self._member.clock() - self._woken < _WAKE_SECONDS:
            return set()
        self._woken = self._member.clock()
        try:
            shards = self.growth(min(self.unused)).shards
        except UnreachableError:
            return set()
        begun = {shard for shard in self.unused if shard < shards}
        self.unused -= begun
        return begun

    def born(self, table: ShardTable | None) -> dict[int, Committed]:
        """Return the first offsets of the shards that the open step of shard 0 adds, of those that have none."""
        born = {} if table is None else table.born
        member, topic = self._member, self._plan.topics.links
        known = member.transport.group_offsets(member.membership.group, topic) if born else {}
        return {shard: first for shard, first in born.items() if shard not in known}


def needed_from(transport: Transport, plan: MatchPlan, group: str, shards: int) -> int:
    """Return the offset from which on a matcher or a linker needs the log; -1 if that is not known. There are so many
    shards where shard 0 is: it commits the first offsets of those that it adds."""
    offsets = transport.group_offsets(group, plan.topics.links)
    linker = transport.group_offsets(plan.link_group, plan.topics.signed).get(PARTITION)
    if not set(range(shards)) <= offsets.keys() or (linker is None and plan.verdicts):
        return -1
    starts = [decode_window(committed.metadata).start for committed in offsets.values()]
    return min(starts if linker is None else [*starts, linker.offset, decode_signed_metadata(linker).window])


def check_gap(plan: MatchPlan, shard: int, start: int, first: int) -> None:
    """Raise ``OffsetGoneError`` if the window of a shard begins before the log, and no gap is allowed."""
    if start < first and not plan.allow_gap:
        raise OffsetGoneError(
            f"the window of shard {shard} begins at offset {start}, the log of {plan.topics.signed} at {first}: "
            "pairs with the documents between would be missed; restore the log, or accept that with --allow-gap"
        )
