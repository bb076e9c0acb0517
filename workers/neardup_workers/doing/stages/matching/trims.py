"""How a matcher drops the beginning of ``signed``."""

from __future__ import annotations

from collections.abc import Mapping

from neardup_workers.doing.stages.matching.plan import MatchPlan, needed_from
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.transaction import TRIM_SECONDS_MAX
from neardup_workers.outside.topics.signed import PARTITION
from neardup_workers.outside.transport.protocol import AbortedError, Committed


class Trims:
    """The trims of one worker."""

    def __init__(self, member: WorkerMember, plan: MatchPlan) -> None:
        self._member, self._plan = member, plan
        self._trimmed = 0  # first offset of the log after the last trim of this worker
        self._bound = -1  # below which the last trim would have dropped the log

    def trim(self, offsets: Mapping[int, Committed], shards: int) -> None:
        """Drop the log below the windows of all shards; only the owner of shard 0 calls it, with all its offsets.
        There are so many shards where shard 0 is.

        The broker allows any client to delete records. A member that lost its shards while it was suspended must not
        trim: its successor may have a longer window. So its offsets are committed first, and this commit fails for such
        a member. Then the beginnings of all windows are read, and the trim follows at once, below the least of this
        round and the one before. A shard without an offset forbids the trim. Raises the errors of a step.
        """
        member, topics, began = self._member, self._plan.topics, self._member.clock()
        try:
            member.transact([], topics.links, offsets)
        except AbortedError:
            return
        group = member.membership.group
        before, self._bound = self._bound, needed_from(member.transport, self._plan, group, shards)
        least = min(before, self._bound)
        if least > self._trimmed and 0 <= member.clock() - began <= TRIM_SECONDS_MAX:
            member.transport.trim(topics.signed, {PARTITION: least})
            self._trimmed = least
