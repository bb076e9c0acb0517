"""How a matcher drops the beginning of ``signed``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from neardup.workers.stages.matching.plan import MatchPlan, needed_from
from neardup.workers.stages.transaction import TRIM_SECONDS_MAX, transact
from neardup.workers.telemetry.observer import Observer
from neardup.workers.topics.signed import PARTITION
from neardup.workers.transport.protocol import AbortedError, Committed, Membership, Producer, Transport


class Trims:
    """The trims of one worker."""

    def __init__(
        self, transport: Transport, producer: Producer, plan: MatchPlan, observer: Observer, clock: Callable[[], float]
    ) -> None:
        self._transport, self._producer, self._plan = transport, producer, plan
        self._observer, self._clock = observer, clock
        self._trimmed = 0  # first offset of the log after the last trim of this worker
        self._bound = -1  # below which the last trim would have dropped the log

    def trim(self, offsets: Mapping[int, Committed], membership: Membership, shards: int) -> None:
        """Drop the log below the windows of all shards; only the owner of shard 0 calls it, with all its offsets.
        There are so many shards where shard 0 is.

        The broker allows any client to delete records. A member that lost its shards while it was suspended must not
        trim: its successor may have a longer window. So its offsets are committed first, and this commit fails for such
        a member. Then the beginnings of all windows are read, and the trim follows at once, below the least of this
        round and the one before. A shard without an offset forbids the trim. Raises the errors of a step.
        """
        topics, began = self._plan.topics, self._clock()
        try:
            transact(self._producer, [], topics.links, offsets, membership, self._observer)
        except AbortedError:
            return
        before, self._bound = self._bound, needed_from(self._transport, self._plan, membership.group, shards)
        least = min(before, self._bound)
        if least > self._trimmed and 0 <= self._clock() - began <= TRIM_SECONDS_MAX:
            self._transport.trim(topics.signed, {PARTITION: least})
            self._trimmed = least
