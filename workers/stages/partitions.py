"""What every member of a group does with its partitions: it begins those that wait, and pauses those that are ahead."""

from __future__ import annotations

from collections.abc import Callable, Collection

from neardup.workers.transport.protocol import AbortedError, Consumer, UnreachableError


def in_turns(waiting: Collection[int], last: int) -> list[int]:
    """Order waiting partitions for requests: partitions after ``last`` come first. ``last`` is the last partition that
    failed."""
    return sorted(waiting, key=lambda partition: (partition <= last, partition))


def begin_in_turns(waiting: set[int], last: int, begin: Callable[[int], bool]) -> int:
    """Begin the partitions whose position is known; the next turn asks again for the others.

    Args:
        waiting: the partitions; those that begin are removed.
        last: the last partition that could not begin.
        begin: begins a partition; returns whether its position is known. It may raise ``UnreachableError`` and
            ``AbortedError``, which mean the same as false.

    Returns:
        The last partition that could not begin.
    """
    for partition in in_turns(waiting, last):
        try:
            is_known = begin(partition)
        except (UnreachableError, AbortedError):
            is_known = False
        if not is_known:
            return partition  # each answer may take seconds, and the group waits for the next poll
        waiting.remove(partition)
    return last


def pause_full(consumer: Consumer, paused: Collection[int], full: set[int], running: Collection[int]) -> set[int]:
    """Pause the partitions that have enough pending records, and resume the running others; returns what is paused."""
    if full - set(paused):
        consumer.pause(sorted(full - set(paused)))
    if resumed := (set(paused) - full) & set(running):
        consumer.resume(sorted(resumed))
    return full
