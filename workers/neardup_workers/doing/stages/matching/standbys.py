"""Standbys of a matcher: tables of shards that other members own, kept close behind what their owners have committed.

Theory of operation. The group says which shards a member stands by for. For each of them, the member applies the rows
of ``signed`` up to the *committed* position of the shard, never beyond, and publishes nothing. So the table is one that
its owner had at some commit, and a takeover replays only the rows behind it, instead of a window. No decision of the
group depends on a standby: if its table is of no use at a takeover, it is dropped, and the window is restored.

- *Rows* come from the cursor of the running shards, which keeps in a trail what a standby has not passed: no message is
  read twice. A standby that the trail does not reach, or a member without running shards, reads through a cursor of its
  own.
- *Committed positions* are read twice a second. An open transaction does not count. A table that is ahead of the
  committed position waits: the offset of a transaction becomes visible a moment after its commit.
- *Trims* do not wait for a standby. If the log begins behind its table, it begins again at the window of its shard.

Crash: a standby is memory only.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from neardup.pairs.shards import Shard
from neardup_workers.doing.stages.matching.cursors import Cursor
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.topics.signed import PARTITION, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, UnreachableError

_log = logging.getLogger(__name__)

# Committed positions are at most this old.
_REFRESH_SECONDS = 0.5
# Messages that a turn reads for standbys alone, in bytes: the running shards wait meanwhile.
_READ_BYTES = 2 << 20


@dataclass
class _Standby:
    table: ShardTable
    start: int = 0  # the offset where it began
    bound: int = -1  # the committed position, when it was last read
    is_ready: bool = False  # it has been at the committed position
    ahead: deque[tuple[float, int]] = field(default_factory=deque)  # bounds that it has not reached, and since when

    @property
    def is_behind(self) -> bool:
        """Whether rows before the committed position are not in the table."""
        return self.table.position < self.bound


class Standbys:
    """The standby tables of one member; see the module."""

    def __init__(self, member: WorkerMember, plan: MatchPlan, running: Cursor) -> None:
        self._member, self._plan, self._running = member, plan, running
        self._own = Cursor(member.transport.reader(plan.topics.signed), plan.config) if plan.standbys else None
        self.shards: frozenset[int] = frozenset()  # that the member stands by for
        self._standbys: dict[int, _Standby] = {}
        self._read_at = 0.0  # when the committed positions were read
        self._reported: frozenset[int] = frozenset()

    @property
    def tables(self) -> dict[int, ShardTable]:
        """The tables, by shard."""
        return {shard: one.table for shard, one in self._standbys.items()}

    @property
    def ready(self) -> frozenset[int]:
        """The shards whose tables are good for a takeover."""
        return frozenset(shard for shard, one in self._standbys.items() if one.is_ready)

    @property
    def is_busy(self) -> bool:
        """Whether a standby has rows to read through the cursor of its own."""
        return bool(self._late())

    def lag(self) -> dict[int, tuple[int, float]]:
        """Return for each standby the messages of ``signed`` and the seconds that it is behind the committed
        position."""
        now, out = self._member.clock(), {}
        for shard, one in self._standbys.items():
            messages = max(0, offset_and_row(one.bound)[0] - offset_and_row(one.table.position)[0])
            out[shard] = (messages, max(0.0, now - one.ahead[0][0]) if one.ahead else 0.0)
        return out

    def progress(self) -> tuple[int, int]:
        """Return the messages that tables which are not ready have passed, and all that they must pass."""
        made = [one for one in self._standbys.values() if not one.is_ready]
        ends = (offset_and_row(one.table.position)[0] - one.start for one in made)
        return sum(ends), sum(max(0, offset_and_row(one.bound)[0] - one.start) for one in made)

    def follow(self, shards: Collection[int], kept: Mapping[int, ShardTable]) -> None:
        """Stand by for these shards from now on; ``kept`` are tables that this member had of some of them."""
        if self._plan.standbys and (frozenset(shards) != self.shards or kept):
            self.shards = frozenset(shards)
            self._standbys = {shard: one for shard, one in self._standbys.items() if shard in self.shards}
            self._standbys |= {shard: _Standby(table) for shard, table in kept.items() if shard in self.shards}
            self._read_at = 0.0

    def take(self, shards: Collection[int]) -> dict[int, ShardTable]:
        """Return the tables, of these shards, that this member owns from now on."""
        taken = {shard: self._standbys.pop(shard).table for shard in shards if shard in self._standbys}
        for table in taken.values():
            table.increments()  # drop the counts of the replay
        return taken

    def turn(self, records_max: int) -> None:
        """Apply what the owners have committed since the last turn; read at most ``records_max`` messages.

        A broker that does not answer is left to the running shards.
        """
        positions = [one.table.position for one in self._standbys.values()]
        self._running.release(min(positions, default=self._running.passed))
        if self._own is None or not self.shards:
            return
        try:
            if not 0 <= self._member.clock() - self._read_at < _REFRESH_SECONDS:
                # Read the committed positions, and make the tables that are missing.
                member, now = self._member, self._member.clock()
                offsets = member.transport.group_offsets(member.membership.group, self._plan.topics.links)
                self._read_at = now
                for shard in sorted(self.shards & offsets.keys()):
                    self._bind(shard, offsets[shard], now)
            for one in self._standbys.values():
                if self._running.covers(one.table.position):
                    self._apply(one, self._running)
            self._catch_up(self._own, records_max)
        except UnreachableError as error:
            _log.debug("standbys wait: %s", error)

    def close(self) -> None:
        """Free the reader; never raises."""
        if self._own is not None:
            self._own.reader.close()

    def observe(self) -> None:
        """Report how far each standby is behind, and its memory."""
        observer, lag = self._member.observer, self.lag()
        for shard in self._reported - lag.keys():
            for name in ("standby_lag_records", "standby_lag_seconds", "standby_table_bytes"):
                observer.forget(str(shard), name)
        for shard, (messages, seconds) in lag.items():
            observer.set("standby_lag_records", messages, str(shard))
            observer.set("standby_lag_seconds", seconds, str(shard))
            observer.set("standby_table_bytes", self._standbys[shard].table.memory_bytes(), str(shard))
        self._reported = frozenset(lag)

    def _bind(self, shard: int, committed: Committed, now: float) -> None:
        """Set the committed position of a shard; drop a table that cannot get there, and begin again."""
        plan, window = self._plan, decode_window(committed.metadata)
        bound = position_of(committed.offset, window.row)
        one = self._standbys.get(shard)
        if one is not None and not one.table.settle(committed) and one.table.position <= bound:
            del self._standbys[shard]
            one = None
        if window.fingerprint != plan.config.matching_fingerprint:
            return  # its owner has other settings, and the next one with these restores the window
        if one is None:
            one = self._standbys[shard] = _Standby(
                ShardTable(plan.config, Shard(shard, plan.shards), window), window.start
            )
        if bound > max(one.bound, one.table.position):
            one.ahead.append((now, bound))
        one.bound = bound
        self._note(one)

    def _note(self, one: _Standby) -> None:
        """Note which committed positions a standby has reached."""
        while one.ahead and one.ahead[0][1] <= one.table.position:
            one.ahead.popleft()
        one.is_ready = one.is_ready or one.table.position == one.bound

    def _apply(self, one: _Standby, cursor: Cursor) -> None:
        """Apply what a cursor has at hand, up to the committed position."""
        if one.is_behind:
            documents = one.table.replay(cursor.kept(one.table.position), one.bound, cursor.offset)
            self._member.observer.count("standby_documents", documents)
            self._note(one)

    def _late(self) -> list[_Standby]:
        """Return the standbys that are behind, and that the running cursor does not serve."""
        return [
            one for one in self._standbys.values() if one.is_behind and not self._running.covers(one.table.position)
        ]

    def _catch_up(self, cursor: Cursor, records_max: int) -> None:
        """Read for the standbys that the running cursor does not serve."""
        behind = self._late()
        if not behind:
            return
        least = min(one.table.position for one in behind)
        if not cursor.covers(least):
            cursor.follow(least)
        try:
            cursor.read(0.0, records_max, min(_READ_BYTES, self._plan.step_bytes_max))
        except OffsetGoneError:
            # Drop the tables whose next messages are gone; the next turn begins at the window of their shard.
            first = self._member.transport.bounds(self._plan.topics.signed)[PARTITION][0]
            gone = [shard for shard, one in self._standbys.items() if offset_and_row(one.table.position)[0] < first]
            for shard in gone:
                del self._standbys[shard]
            cursor.pass_by(())
            self._read_at = 0.0
            return
        for one in behind:
            self._apply(one, cursor)
        cursor.pass_by(one.table.position for one in behind)
