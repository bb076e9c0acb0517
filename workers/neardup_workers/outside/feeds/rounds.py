"""Results of feeds -> the groups that are written at once, with their items in order of time.

Each feed lists weeks of items, and feeds are read one after the other. A window follows the time of the documents, so
an old item of the second feed would come after the window that its copy in the first one was in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from neardup_workers.outside.feeds.watch import FeedPoll
from neardup_workers.outside.readers.entries import Entry

# Bytes of items that wait for those of other feeds, at most.
ROUND_BYTES_MAX = 1 << 28


def rounds(polls: Iterable[FeedPoll], follow: bool) -> Iterator[list[FeedPoll]]:
    """Yield results in groups: each alone if feeds are followed, else all at the end.

    What waits has ``ROUND_BYTES_MAX`` at most, and one result more; then it is a group before the end.
    """
    waiting: list[FeedPoll] = []
    size = 0
    for polled in polls:
        waiting.append(polled)
        size += sum(len(entry.raw or b"") for entry in polled.entries)
        if follow or size > ROUND_BYTES_MAX:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def by_time(polls: Sequence[FeedPoll]) -> list[Entry]:
    """Return the items of several results from the oldest on. Those of one feed stay in its order: an item counts as
    old as the newest one before it, and so does one without a date."""
    timed: list[tuple[float, Entry]] = []
    for polled in polls:
        newest = -math.inf
        for entry in polled.entries:
            time = getattr(entry.found, "timestamp", None)
            newest = newest if time is None else max(newest, time)
            timed.append((newest, entry))
    return [entry for _, entry in sorted(timed, key=lambda one: one[0])]
