"""The contents that came within the window of a stream: one filter for all shards of a reader.

A shard does not know the contents of others. Without this filter it pairs a copy of a document of another shard, as it
paired the first one. The filter says of an item that an eligible copy of it is in the window, in some shard. It says so
only if that is certain; a false yes needs equal fingerprints of 40 bits in one of two lines. An item of which it is not
certain is looked up as if it were new, and the worst result is a repeated pair.

Theory of operation. An entry has 8 bytes: 40 bits of the content, 14 of the id, and the *generation* in which the
content came last. The other half of the content names two *lines* of eight entries. A new content takes a free entry,
or the oldest one. So memory is bounded, and nothing is moved.

A generation is a 300th of the window. It stores its least and greatest time, and where in the stream it began. A copy
is certain if all of its generation is within the horizon of the stream, within the item's own window, and within the
limits of items and bytes; if the ids differ; and if no id of that hash was removed since. Late items are looked up, and
not entered. Each generation sweeps a part of the lines, so that no number of a generation is read twice.

A larger filter begins empty. The older one is read until what it has is out of the window.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel
from neardup.window import NO_TIME, NO_WINDOW, Items, Limits
from neardup.window.chains import CONTENT, COPIED, ID
from neardup.window.views import bytes_of

# Numbers of generations; an entry older than so many is free; parts of the window that are one generation.
_GENERATIONS, _AGE_MAX, _PARTS = 1023, 700, 300
_ENTRIES, _SWEEPS = 8, 256
_CONTENT_MASK, _ID_MASK, _GENERATION_MASK = (np.uint64((1 << bits) - 1) for bits in (40, 14, 10))
_CONTENT_SHIFT, _ID_SHIFT, _HALF = np.uint64(24), np.uint64(10), np.uint64(32)
_FREE = 1 << 40
# Lines of a filter at first: 256 KiB.
LINES_MIN = 1 << 12
_GROWTH = 4
# What a generation stores.
_LEAST, _GREATEST, _FIRST_ITEM, _FIRST_BYTE = range(4)
# Indices of the state.
_TIME, _ITEMS, _BYTES, _EVICTED_BYTES, _GENERATION, _OPENED, _SWEPT, _SWEPT_OLDER, _REPLACED, _HELD = range(10)


class _Filter(NamedTuple):
    lines: Annotated[npt.NDArray[np.uint64], "[,]"]
    older: Annotated[npt.NDArray[np.uint64], "[,]"]
    generations: Annotated[npt.NDArray[np.int64], "[,]"]
    removed: npt.NDArray[np.int64]  # by hash of an id, the generation of its last removal
    state: npt.NDArray[np.int64]


class _Bounds(NamedTuple):
    window: int
    lateness: int
    items: int
    bytes: int
    time_span: int
    items_span: int
    bytes_span: int


class Seen:
    """The filter of one stream, in order of its rows. ``limits`` are those of its tables, ``lines`` a power of two, of
    eight entries each."""

    def __init__(self, limits: Limits, lines: int = LINES_MIN) -> None:
        spans = [max(1, limit // _PARTS) for limit in (limits.items, limits.bytes)]
        time_span = NO_WINDOW if limits.window == NO_WINDOW else max(1, (limits.window + limits.lateness) // _PARTS)
        window = limits.window, limits.lateness, limits.items, limits.bytes
        self._bounds = _Bounds(*map(int, (*window, time_span, *spans)))
        self._lines = lines
        self.begin(int(NO_TIME))

    def begin(self, stream_time: int) -> None:
        """Forget all contents, and go on at a stream time in microseconds."""
        state = np.zeros(_HELD + 1, np.int64)
        state[[_TIME, _EVICTED_BYTES]] = stream_time, np.iinfo(np.int64).min
        self._grown = 0
        self._filter = _Filter(
            _empty(self._lines), _empty(0), np.zeros((_GENERATIONS, 4), np.int64),
            np.full(int(_ID_MASK) + 1, -1, np.int64), state,
        )  # fmt: skip

    def mark(self, items: Items, removals: npt.NDArray[np.bool_], first: int = 0) -> None:
        """Add ``COPIED`` to the kinds of items that are copies for certain, from row ``first`` on, and enter all."""
        state = self._filter.state
        if len(self._filter.older) and state[_GENERATION] - self._grown > _AGE_MAX:
            self._filter = self._filter._replace(older=_empty(0))
        _mark(self._filter, self._bounds, items, removals, first, items.kinds)

    @property
    def is_small(self) -> bool:
        """Whether many contents of the window have lost their entries since the filter grew."""
        return bool(self._filter.state[_REPLACED] > len(self._filter.lines))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the entries."""
        return self._filter.lines.nbytes + self._filter.older.nbytes

    def grow(self, bytes_max: int) -> None:
        """Make the filter several times as large, within ``bytes_max`` with the older one."""
        state, now = self._filter.state, len(self._filter.lines)
        lines = now
        while lines < _GROWTH * now and (2 * lines + now) * _ENTRIES * 8 <= bytes_max:
            lines *= 2
        state[_REPLACED] = 0
        if lines == now:
            return
        state[[_HELD, _SWEPT_OLDER]] = 0, state[_SWEPT]
        state[_SWEPT], self._grown = 0, int(state[_GENERATION])
        self._filter = self._filter._replace(lines=_empty(lines), older=self._filter.lines)


def _empty(lines: int) -> npt.NDArray[np.uint64]:
    return np.zeros((lines, _ENTRIES), np.uint64)


@kernel("_Filter, _Bounds, const Items, const bool[], i64, u8[]")
def _mark(seen, bounds, items, removals, first, kinds):
    state = seen.state
    for i in range(first, len(kinds)):
        id_ = items.keys[items.key_starts[i] + ID] & _ID_MASK
        if removals[i]:
            seen.removed[id_] = state[_GENERATION]
            continue
        time, size = items.times[i], bytes_of(items, i)
        if time > state[_TIME]:  # ``NO_TIME`` is less than each time
            state[_TIME] = time
        state[_EVICTED_BYTES] = max(state[_EVICTED_BYTES], state[_BYTES] + size - bounds.bytes)
        now = state[_TIME]
        if time == NO_TIME:
            time = now
        if bounds.window == NO_WINDOW:
            now = time = np.int64(0)
        if now != NO_TIME:
            open_generation(seen, bounds, now)
            content = items.contents[i] & _CONTENT_MASK
            if enter(seen, bounds, items.keys[items.key_starts[i] + CONTENT], content, id_, now, time):
                kinds[i] |= COPIED
        state[_ITEMS] += 1
        state[_BYTES] += size


@inlined
def open_generation(seen, bounds, now):
    """Open a generation if the last one is long enough."""
    state = seen.state
    last = seen.generations[state[_GENERATION] % _GENERATIONS]
    if state[_GENERATION] and (
        now - state[_OPENED] < bounds.time_span
        and state[_ITEMS] - last[_FIRST_ITEM] < bounds.items_span
        and state[_BYTES] - last[_FIRST_BYTE] < bounds.bytes_span
    ):
        return
    state[_GENERATION] += 1
    state[_OPENED] = now
    opened = seen.generations[state[_GENERATION] % _GENERATIONS]
    opened[_LEAST], opened[_GREATEST] = NO_WINDOW, NO_TIME
    opened[_FIRST_ITEM], opened[_FIRST_BYTE] = state[_ITEMS], state[_BYTES]
    state[_HELD] -= sweep(seen.lines, state, _SWEPT)
    sweep(seen.older, state, _SWEPT_OLDER)


@inlined
def sweep(lines, state, at):
    """Free the old entries of the next lines; returns how many."""
    freed = 0
    if len(lines):
        for _ in range(len(lines) // _SWEEPS + 1):
            line = state[at]
            for k in range(_ENTRIES):
                if lines[line, k] and age_of(lines[line, k], state) > _AGE_MAX:
                    lines[line, k] = 0
                    freed += 1
            state[at] = (line + 1) % len(lines)
    return freed


@inlined
def age_of(entry, state):
    """The generations between that of an entry and the last one."""
    return (state[_GENERATION] + 1 - np.int64(entry & _GENERATION_MASK)) % _GENERATIONS


@inlined
def is_copy(seen, bounds, entry, id_, now, time):
    """Whether what an entry stands for is an eligible copy for certain."""
    state = seen.state
    age = age_of(entry, state)
    generation, hashed = state[_GENERATION] - age, (entry >> _ID_SHIFT) & _ID_MASK
    of = seen.generations[generation % _GENERATIONS]
    if age > _AGE_MAX or hashed == id_ or generation <= seen.removed[hashed]:
        return False
    if state[_ITEMS] - of[_FIRST_ITEM] >= bounds.items or of[_FIRST_BYTE] < state[_EVICTED_BYTES]:
        return False
    return bounds.window == NO_WINDOW or (
        of[_LEAST] >= max(now - bounds.window - bounds.lateness, time - bounds.window)
        and of[_GREATEST] <= time + bounds.window
    )


@inlined
def enter(seen, bounds, key, content, id_, now, time):
    """Look an item up, and enter it unless it is late; returns whether it is a copy for certain."""
    state, lines = seen.state, seen.lines
    is_known = False
    if len(seen.older):
        mask = np.uint64(len(seen.older) - 1)
        for line in (np.int64((key >> _HALF) & mask), np.int64(key & mask)):
            for k in range(_ENTRIES):
                entry = seen.older[line, k]
                if entry and entry >> _CONTENT_SHIFT == content:
                    is_known |= is_copy(seen, bounds, entry, id_, now, time)
                    if time >= now - bounds.lateness:
                        seen.older[line, k] = 0
    mask = np.uint64(len(lines) - 1)
    to_line, to_k, best, found = np.int64(0), 0, np.int64(-1), False
    for line in (np.int64((key >> _HALF) & mask), np.int64(key & mask)):
        free, oldest, oldest_k = 0, np.int64(-1), 0
        for k in range(_ENTRIES):
            entry = lines[line, k]
            age = age_of(entry, state) if entry else np.int64(_FREE)
            free += entry == 0
            if age > oldest:
                oldest, oldest_k = age, k
            if entry and entry >> _CONTENT_SHIFT == content and not found:
                is_known |= is_copy(seen, bounds, entry, id_, now, time)
                to_line, to_k, found = line, k, True
        if not found and oldest + free * _FREE > best:
            to_line, to_k, best = line, oldest_k, oldest + free * _FREE
    if time >= now - bounds.lateness:
        of = seen.generations[state[_GENERATION] % _GENERATIONS]
        of[_LEAST], of[_GREATEST] = min(of[_LEAST], time), max(of[_GREATEST], time)
        state[_HELD] += best >= _FREE and not found
        state[_REPLACED] += not found and best <= _AGE_MAX
        stored = np.uint64(state[_GENERATION] % _GENERATIONS + 1)
        lines[to_line, to_k] = content << _CONTENT_SHIFT | id_ << _ID_SHIFT | stored
    return is_known
