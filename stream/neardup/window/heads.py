"""The heads: one open-addressed map from bucket key to the newest posting of the bucket.

Theory of operation. The top 9 bits of a key choose one of 512 segments, the next 32 bits are its tag. A segment is a
linear-probing table of 64-bit entries, ``tag << 32 | posting mod 2**32``, with 0 for empty; its entries lie in pages
of 256, which need not be neighbours. So 41 bits of a key are compared. Two keys with equal 41 bits share a chain. Their
evidence separates their items later: a shared chain costs time and never makes a wrong pair.

- A search compares the eight entries of a line, all at once. It begins with the home line of the tag and ends with the
  first line that has a free entry. A new head takes the first entry on the way that is free or has an expired head.
- A line is a cache line. Allocators align to 16 bytes, and most lines would then lie in two cache lines: the match of a
  batch takes a quarter more time. So the array has eight entries more, and its pages begin at the index ``first``.
- Lines are read at random, one for each key, so the array lies in pages of 2 MB where the system has them (``spread``).
- A posting number is stored modulo 2**32 and read back as the number at or after ``base``, the oldest posting of the
  window. A head whose posting has left the window reads back as a future number: the head is expired, and skipped.
- Expiry deletes no head. A segment that is full to ``_LOAD_MAX`` is rebuilt: expired heads are dropped, and the segment
  takes or returns pages to fit the rest. Segments are rebuilt one at a time, so there is no pause; an insertion costs
  about two moves.
- A segment that does not fill up is rebuilt after 2**30 postings (``BandTable._sweep``), long before numbers repeat.
- ``base`` does not change during a step, so that the step can be undone.

Only ``put_at`` and ``rebuild`` change heads, inside a step of the table.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.bits import LINE, lowest_bit, mask_of_line
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.memory import prefetch
from neardup.window.pages import longer, spread

SEGMENT_BITS = 9
SEGMENTS = 1 << SEGMENT_BITS
_PAGE_BITS = 8
PAGE = 1 << _PAGE_BITS
_LINE_BITS = np.uint64(3)  # entries in a cache line of 64 bytes
_PAGE_LINES = np.uint64(_PAGE_BITS) - _LINE_BITS  # bits of the lines of a page
# A segment is rebuilt when it is full to ``_LOAD_MAX``. If live heads alone fill it to ``_LOAD_GROWING``, the window is
# growing, and the segment takes the next size of a series: a page, times 1.5 at each step. Each segment has its own
# shifted series, so that they do not all grow at once. Otherwise the window slides, and the segment takes the fewest
# pages that its live heads fill to at most ``_LOAD_FIT``. So allocated entries stay at about 1.5 times the live heads.
# Steps of 1.25 save 5 % of the bytes of a window that grows, none of one that slides, and take a fifth more time.
_LOAD_MAX = 0.85
_LOAD_GROWING = 0.82
_LOAD_FIT = 0.72
_GROWTH = 1.5
# An item of more keys has those of each segment counted: else one of 200 makes each segment take room for them.
_FEW_KEYS = 32
NONE = np.int64(-1)
_U32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
# The masks of ``mask_of_line``: eight bits for the tag, then for free entries, then for expired heads.
_EIGHT, _FREE, _EXPIRED = np.uint64(0xFF), np.uint64(8), np.uint64(16)
_SEGMENT_SHIFT = np.uint64(64 - SEGMENT_BITS)
_TAG_SHIFT = np.uint64(32 - SEGMENT_BITS)

# Results of ``rebuild``.
DONE, NEEDS_PAGES = 0, 1


class Heads(NamedTuple):
    """The arrays of the map: entries by page, and for each segment its pages, its number of entries and how many are
    used."""

    entries: npt.NDArray[np.uint64]
    first: npt.NDArray[np.int64]  # the index where the pages begin
    pages: Annotated[npt.NDArray[np.int32], "[,]"]
    sizes: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    free: npt.NDArray[np.int32]
    free_count: npt.NDArray[np.int64]
    incoming: npt.NDArray[np.int64]  # how many keys of an item with many go to each segment
    filled: npt.NDArray[np.uint8]  # how many entries each line of the segment that is rebuilt has
    scratch: npt.NDArray[np.uint64]  # holds the live entries of that segment


def empty_heads() -> Heads:
    """An empty map: one page for each segment."""
    entries = spread(SEGMENTS * PAGE + LINE)
    return Heads(
        entries=entries,
        first=np.array([_line_start(entries)]),
        pages=np.arange(SEGMENTS, dtype=np.int32).reshape(SEGMENTS, 1).repeat(2, axis=1),
        sizes=np.full(SEGMENTS, PAGE, np.int64),
        used=np.zeros(SEGMENTS, np.int64),
        free=np.zeros(0, np.int32),
        free_count=np.zeros(1, np.int64),
        incoming=np.zeros(SEGMENTS, np.int64),
        filled=np.empty(2 * PAGE // LINE, np.uint8),
        scratch=np.empty(2 * PAGE, np.uint64),
    )


def add_pages(heads: Heads, segment: int, extra: int) -> Heads:
    """Add free pages and widen the page table, so that ``segment`` can be rebuilt for an item of ``extra`` keys."""
    extra = min(extra, max(_FEW_KEYS, int(heads.incoming[segment])))
    wanted = 2 * (int(heads.sizes[segment]) + 2 * extra) // PAGE + 1
    pages = heads.pages
    if wanted > pages.shape[1]:
        pages = np.zeros((SEGMENTS, 2 * wanted), np.int32)
        pages[:, : heads.pages.shape[1]] = heads.pages
    total = len(heads.entries) // PAGE
    chunk = max(wanted, total // 16)
    free = np.zeros(total + chunk, np.int32)
    count = int(heads.free_count[0])
    free[:count] = heads.free[:count]
    free[count : count + chunk] = np.arange(total + chunk - 1, total - 1, -1)
    scratch = np.empty(pages.shape[1] * PAGE, np.uint64)
    filled = np.empty(len(scratch) // LINE, np.uint8)
    entries = longer(heads.entries, (total + chunk) * PAGE + LINE)  # last: if memory is short, nothing has changed yet
    heads = heads._replace(entries=entries, pages=pages, free=free, filled=filled, scratch=scratch)
    _align(heads, total * PAGE)
    heads.free_count[0] = count + chunk
    return heads


def _align(heads: Heads, count: int) -> None:
    """Move ``count`` entries so that the first one begins a cache line: growing may have moved the array."""
    was, first = int(heads.first[0]), _line_start(heads.entries)
    if first != was:
        here, there = heads.entries[was : was + count], heads.entries[first : first + count]
        # Python runs handlers of signals at calls only. One that raises between these two lines would lose the heads.
        there[:] = here
        heads.first[0] = first


def _line_start(entries: npt.NDArray[np.uint64]) -> int:
    """The first index that begins a cache line."""
    return -entries.ctypes.data // entries.itemsize % LINE


@inlined
def read_back(low, base):
    """The posting number at or after ``base`` that is ``low`` modulo 2**32."""
    return base + np.int64((np.uint64(low) - np.uint64(base)) & _LOW32)


@inlined
def _tag(key):
    tag = (key >> _TAG_SHIFT) & _LOW32
    return tag if tag != np.uint64(0) else np.uint64(1)  # so that no entry is ever 0


@inlined
def _home(tag, size):
    """The position where the search for a tag starts: the first entry of a cache line, so that one line mostly does."""
    return np.int64(_home_line(tag, np.uint64(size) >> _LINE_BITS) << _LINE_BITS)


@inlined
def _home_line(tag, lines):
    """The line of a segment where the search for a tag starts."""
    return (tag * lines) >> _U32


@inlined
def _page_start(heads, page):
    return heads.first[0] + (np.int64(page) << _PAGE_BITS)


@inlined
def _index(heads, segment, position):
    return _page_start(heads, heads.pages[segment, position >> _PAGE_BITS]) + (position & (PAGE - 1))


@inlined
def entry_at(heads, segment, position):
    """The entry at a position of a segment: 0 if it is free, else tag and posting."""
    return heads.entries[_index(heads, segment, position)]


@inlined
def warm(heads, keys):
    """Prefetch the two cache lines where the search for each key starts, so that the misses of many keys overlap."""
    for j in range(len(keys)):
        segment = np.int64(keys[j] >> _SEGMENT_SHIFT)
        index = _index(heads, segment, _home(_tag(keys[j]), heads.sizes[segment]))
        prefetch(heads.entries, index)
        prefetch(heads.entries, index + LINE)


@inlined
def locate(heads, key, base, end):
    """The newest posting of a bucket in ``[base, end)`` or ``NONE``, and the index of its head, also for a new head."""
    segment = np.int64(key >> _SEGMENT_SHIFT)
    tag = _tag(key)
    size = heads.sizes[segment]
    position = _home(tag, size)
    reuse = NONE
    while True:
        line = _index(heads, segment, position)
        masks = mask_of_line(heads.entries, line, tag, np.uint64(base), np.uint64(end - base))
        if masks & _EIGHT:
            index = line + np.int64(lowest_bit(masks))
            posting = read_back(heads.entries[index] & _LOW32, base)
            return (posting if posting < end else NONE), index
        usable = (masks >> _FREE | masks >> _EXPIRED) & _EIGHT
        if reuse == NONE and usable:
            reuse = line + np.int64(lowest_bit(usable))  # the head of this key may still follow
        if masks >> _FREE & _EIGHT:
            return NONE, reuse
        position += LINE
        if position == size:
            position = 0


@inlined
def put_at(heads, key, index, posting, base):
    """Write ``posting`` as the head of a bucket to its entry; ``NONE`` writes an expired head."""
    if heads.entries[index] == np.uint64(0):
        heads.used[np.int64(key >> _SEGMENT_SHIFT)] += 1
    number = base - 1 if posting == NONE else posting
    heads.entries[index] = (_tag(key) << _U32) | (np.uint64(number) & _LOW32)


@inner
def make_room(heads, keys, base, end):
    """Make room for every key of one item; returns ``NONE``, or a segment for which there are too few free pages."""
    count = len(keys)
    if count > _FEW_KEYS:
        heads.incoming[:] = 0
        for j in range(count):
            heads.incoming[np.int64(keys[j] >> _SEGMENT_SHIFT)] += 1
    for j in range(count):
        segment = np.int64(keys[j] >> _SEGMENT_SHIFT)
        # All of a few keys may fall into one segment; many are counted, or each segment would have room for all.
        extra = count if count <= _FEW_KEYS else heads.incoming[segment]
        if heads.used[segment] + extra > np.int64(_LOAD_MAX * heads.sizes[segment]) and (
            rebuild(heads, segment, extra, base, end) == NEEDS_PAGES
        ):
            return segment
    return NONE


def grown(heads: Heads, times: float, base: int, end: int) -> Heads:
    """Return the map with room for so many times the heads that it has: the room of one that has grown to them."""
    extra = int((times - 1) * _LOAD_FIT / _LOAD_GROWING * heads.used.mean())
    heads.incoming[:] = extra
    for segment in range(SEGMENTS):
        while rebuild(heads, segment, extra, base, end) == NEEDS_PAGES:
            heads = add_pages(heads, segment, extra)
    return heads


@inlined
def pages_for(segment, have, heads_count):
    """How many pages a segment of ``have`` pages takes for so many heads; see ``_LOAD_MAX``."""
    if heads_count <= _LOAD_GROWING * (have << _PAGE_BITS):
        return np.int64(heads_count / (_LOAD_FIT * PAGE)) + 1
    size = _GROWTH ** (segment / SEGMENTS)
    while heads_count > _LOAD_FIT * (np.int64(size + 0.5) << _PAGE_BITS):
        size *= _GROWTH
    return np.int64(size + 0.5)


@kernel("Heads, i64, i64, i64, i64")
def rebuild(heads, segment, extra, base, end):
    """Drop the expired heads of a segment and fit its pages to the rest; on ``NEEDS_PAGES`` nothing has changed."""
    entries, pages = heads.entries, heads.pages[segment]
    have = heads.sizes[segment] >> _PAGE_BITS
    live = heads.scratch
    count = np.int64(0)
    alive = np.uint64(end - base)
    low_base = np.uint64(base)
    for page in range(have):
        first = _page_start(heads, pages[page])
        room = live[count : count + PAGE]
        kept = np.uint64(0)
        for entry in entries[first : first + PAGE]:
            room[kept] = entry  # without a branch: which entries are live is hard to predict
            kept += np.uint64(entry != np.uint64(0)) & np.uint64(((entry - low_base) & _LOW32) < alive)
        count += np.int64(kept)
    want = pages_for(segment, have, count + extra)
    if want > have + heads.free_count[0] or want > heads.pages.shape[1]:
        return NEEDS_PAGES
    for page in range(have, want):
        heads.free_count[0] -= 1
        heads.pages[segment, page] = heads.free[heads.free_count[0]]
    for page in range(want, have):
        heads.free[heads.free_count[0]] = heads.pages[segment, page]
        heads.free_count[0] += 1
    heads.sizes[segment] = want * PAGE
    heads.used[segment] = count
    for page in range(want):
        first = _page_start(heads, pages[page])
        for index in range(first, first + PAGE):
            entries[index] = np.uint64(0)
    # A search for free entries would wait at each line for what has just been written to it.
    lines, filled = np.uint64(want) << _PAGE_LINES, heads.filled
    filled[:lines] = 0
    for entry in live[:count]:
        line = _home_line(entry >> _U32, lines)
        while filled[line] == LINE:
            line = line + np.uint64(1) if line + np.uint64(1) < lines else np.uint64(0)
        index = _page_start(heads, pages[line >> _PAGE_LINES]) + np.int64((line << _LINE_BITS) & np.uint64(PAGE - 1))
        entries[index + np.int64(filled[line])] = entry
        filled[line] += np.uint8(1)
    return DONE
