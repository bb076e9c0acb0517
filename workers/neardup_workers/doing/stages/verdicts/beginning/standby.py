"""The standby of a linker: what its owner holds, kept close behind what the owner has committed.

Theory of operation. The group says who stands by, as for matchers. The member reads ``signed`` and ``links`` without
the group, decides the rows that the *committed* offset of the group has passed, never others, and publishes nothing.
Verdicts follow from the two logs, so it holds what the owner held at that commit. A takeover decides up to the last
commit, then publishes. No decision of the group depends on a standby: one that is of no use is dropped, and the window
is restored.

- *Committed offsets* are read twice a second. An open transaction does not count.
- *Links* stay in the log until the second trim after their documents were decided (``LinkWorker.trim``), so a standby
  that keeps up loses none. One that a trim has passed begins again.
- *The ledger of sources* stops at the arrivals that the owner has written, and takes what changed before as written: a
  takeover writes the rest.

Crash: a standby is memory only.
"""

from __future__ import annotations

import logging

from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.beginning.first import disagreement
from neardup_workers.doing.stages.verdicts.beginning.restore import Offsets, RecordsLostError
from neardup_workers.doing.stages.verdicts.held import Held
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.topics.signed import PARTITION, position_of
from neardup_workers.outside.transport.protocol import Committed, FencedError, OffsetGoneError, UnreachableError

_log = logging.getLogger(__name__)
# Committed offsets are at most this old.
_REFRESH_SECONDS = 0.5
# After an error that another attempt may not help, the next one waits: it reads the whole window.
_AGAIN_SECONDS = 30.0


class Standby:
    """What one member holds for its owner; see the module."""

    def __init__(self, member: WorkerMember, plan: LinkPlan, held: Held) -> None:
        self._member, self._plan, self._held = member, plan, held
        self.is_on = False
        self._committed: Committed | None = None  # when it was last read
        self._counted = -1  # arrivals that the owner has counted in sources, when this was last passed
        self._read_at = self._again_at = 0.0
        self._behind_since: float | None = None

    def follow(self, *, is_on: bool) -> None:
        """Stand by from now on, or no more."""
        if is_on != self.is_on:
            self.is_on, self._read_at = is_on, 0.0
            self._committed = self._behind_since = None

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Restore a stretch, or decide what the owner has committed; returns the records read. What goes wrong costs
        the standby what it holds, no more. Raises ``WireError``, ``UnknownTopicError``."""
        held, now = self._held, self._member.clock()
        try:
            if not 0 <= now - self._read_at < _REFRESH_SECONDS:
                self._committed, self._read_at = self._signed(), now
            if self._committed is None:
                return 0
            if held.is_empty:
                self._begin(now)
            elif held.is_restoring:
                held.restore(records_max)
            else:
                return self.catch_up(self._committed, timeout_seconds, records_max)
        except UnreachableError as error:
            _log.debug("the standby of the linker waits: %s", error)
            if held.is_restoring:
                held.forget()  # a reader that has failed returns no more
        except (FencedError, OffsetGoneError, RecordsLostError) as error:
            self.drop(str(error))
        return 0

    def catch_up(self, signed: Committed, timeout_seconds: float, records_max: int) -> int:
        """Read, and decide one step of what this commit has decided; returns the records read.

        Raises ``FencedError`` and ``OffsetGoneError`` if the log goes on behind it, ``UnreachableError``.
        """
        held, metadata = self._held, decode_signed_metadata(signed)
        if held.state.arrivals > metadata.arrivals:
            raise FencedError("it is ahead of what is committed: brokers have lost a committed offset")
        read = held.intake.take(held.state, timeout_seconds if held.reached(signed) else 0.0, records_max)
        before = held.state.arrivals
        left = metadata.sources - before
        step = held.decide(position_of(signed.offset, metadata.row), left if left > 0 else None)
        if step is not None:
            held.commit(step)
            self._member.observer.count("standby_documents", held.state.arrivals - before)
        if held.state.arrivals == metadata.sources != self._counted:
            held.sources.pass_by(held.state.decisions.first)
            self._counted = metadata.sources
        held.intake.hold(held.state)
        self._note(signed)
        return read

    def drop(self, why: str) -> None:
        """Hold nothing more; begin again after a while."""
        _log.warning("the standby of the linker begins again: %s", why)
        self._held.forget()
        self._counted = -1
        self._again_at = self._member.clock() + _AGAIN_SECONDS

    def check(self) -> None:
        """Drop what is held if shards were matched with other settings: the owner restores, too, when that ends."""
        if not self._held.is_empty and (why := disagreement(self._member.transport, self._plan)):
            self.drop(f"it waits for {why}")

    def lag(self) -> dict[int, tuple[int, float]]:
        """Return the messages of ``signed`` and the seconds that the standby is behind the committed offset."""
        if self._committed is None or self._held.is_empty or self._held.is_restoring:
            return {}
        held, since = self._held, self._behind_since
        messages = max(0, self._committed.offset - held.state.committed_position(held.intake.position)[0])
        return {PARTITION: (messages, 0.0 if since is None else max(0.0, self._member.clock() - since))}

    def progress(self) -> tuple[int, int]:
        """Return the rows that a restore has read, of about so many; none of none without one."""
        return self._held.progress if self.is_on and self._held.is_restoring else (0, 0)

    def observe(self) -> None:
        """Report how far the standby is behind."""
        observer, lag = self._member.observer, self.lag()
        for name in ("standby_lag_records", "standby_lag_seconds") if not lag else ():
            observer.forget(str(PARTITION), name)
        for messages, seconds in lag.values():
            observer.set("standby_lag_records", messages, str(PARTITION))
            observer.set("standby_lag_seconds", seconds, str(PARTITION))

    def _note(self, signed: Committed) -> None:
        if self._held.reached(signed):
            self._held.is_level, self._behind_since = True, None
        elif self._behind_since is None:
            self._behind_since = self._member.clock()

    def _begin(self, now: float) -> None:
        """Begin to restore, unless shards were matched with other settings."""
        if 0 <= self._again_at - now <= _AGAIN_SECONDS or disagreement(self._member.transport, self._plan):
            return
        if (offsets := self._offsets()) is not None:
            self._held.follow_owner(offsets, self._offsets)

    def _signed(self) -> Committed | None:
        member = self._member
        return member.transport.group_offsets(member.membership.group, self._plan.topics.signed).get(PARTITION)

    def _offsets(self) -> Offsets | None:
        """Read what is committed by one transaction; ``None`` if another one ends meanwhile."""
        transport, group, topics = self._member.transport, self._member.membership.group, self._plan.topics
        if (signed := self._signed()) is None:
            return None
        verdicts, links = (transport.group_offsets(group, topic) for topic in (topics.verdicts, topics.links))
        shards = range(decode_signed_metadata(signed).growth.shards)
        if self._signed() != signed or not set(shards) <= links.keys():
            return None
        return Offsets(signed, verdicts, {shard: links[shard] for shard in shards})
