"""Pages: room for increasing numbers, in arrays that are never copied whole.

Theory of operation. Slots, postings and id bytes are numbered 0, 1, 2, ... without end. A number has an element in a
page of ``2**page_bits`` elements. ``map`` gives the physical page of a logical page: a ring of ``int32``, indexed by
the low bits of the logical page. A page is allocated when the numbers reach it (from the free list, or by growing the
arrays by a chunk) and freed when every number in it has left the window. So memory follows the window. Growing copies
nothing: the allocator extends arrays in place; on Linux it remaps large blocks.

Only ``extend`` and ``release`` change the state. Undoing a step needs neither: pages that the step allocated stay
allocated, and pages are freed only when a step is committed.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel

# Arrays grow by at least one page and at most an eighth, so that the allocated room stays near the used room.
_GROWTH_DIVISOR = 8
# Pages of 2 MB are asked for behind so many bytes: they would double the memory of a small window.
_SMALL_BYTES = 4 << 20
_NO_RESERVE = 0x4000  # of ``mmap``: addresses alone count for no limit of memory
_ADDRESSES = 1 << 36  # bytes: more than the heads of all postings that a table can number
# So many numbers at once: a kernel that keeps the interpreter lock takes 0.1 ms for them.
_AT_ONCE = 1 << 16


class Pages:
    """The page map of one numbering, and the arrays that are indexed by it (first axis: physical index / ``per``)."""

    def __init__(self, page_bits: int) -> None:
        self.page_bits = page_bits
        self.map = np.zeros(8, np.int32)
        self._free: list[int] = []
        self._physical = 0
        self._first = 0
        self._next = 0

    @property
    def physical_pages(self) -> int:
        """How many pages the arrays must hold."""
        return self._physical

    @property
    def end(self) -> int:
        """The first number that is not mapped."""
        return self._next << self.page_bits

    @property
    def free_pages(self) -> int:
        """How many physical pages are free."""
        return len(self._free)

    def extend(self, numbers_end: int) -> bool:
        """Map every number below ``numbers_end``. Return whether the arrays must grow to ``physical_pages``, or the map
        is another one."""
        wanted = -(-numbers_end >> self.page_bits)
        if wanted <= self._next:
            return False
        before = self._physical, len(self.map)
        while self._next < wanted:
            if self._next - self._first == len(self.map):
                pages, old = np.zeros(2 * len(self.map), np.int32), self.map
                for page in range(self._first, self._next):
                    pages[page % len(pages)] = old[page % len(old)]
                self.map = pages
            if not self._free:
                first = self._physical
                self._physical += max(1, first // _GROWTH_DIVISOR)
                self._free.extend(range(self._physical - 1, first - 1, -1))
            self.map[self._next % len(self.map)] = self._free.pop()
            self._next += 1
        return before != (self._physical, len(self.map))

    def release(self, numbers_first: int) -> None:
        """Free the pages whose numbers are all below ``numbers_first``."""
        first = min(numbers_first >> self.page_bits, self._next)
        while self._first < first:
            page = int(self.map[self._first % len(self.map)])
            self._first += 1  # an exception between these lines leaves a page unused; one used twice would be worse
            self._free.append(page)

    def at(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the indices of mapped numbers in the arrays, ``int64[m]``."""
        if len(numbers) > _AT_ONCE:
            return np.concatenate([self.at(numbers[at : at + _AT_ONCE]) for at in range(0, len(numbers), _AT_ONCE)])
        out = np.empty(len(numbers), np.int64)
        _at(self.map, self.page_bits, np.ascontiguousarray(numbers, np.int64), out)
        return out


@functools.cache
def _dtypes(kind: type) -> dict[str, Any]:
    arrays = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is np.ndarray}
    return {name: get_args(get_args(hint)[1])[0] for name, hint in arrays.items()}


def empty_arrays(kind: type) -> dict[str, Any]:
    """Return an empty array for each field of a class that is declared as one, by name."""
    return {name: np.empty(0, dtype) for name, dtype in _dtypes(kind).items()}


def spread(length: int) -> npt.NDArray[np.uint64]:
    """Return zeros that are read at random, and that ``longer`` extends in place.

    A read of a page of 4 KB often waits for the tables of pages, too, so pages of 2 MB are asked for. A block that
    moved would be divided again. So it has addresses for all that it may need, and takes what is used.
    """
    block = reserved(_ADDRESSES)
    if block is None:
        array = np.empty(0, np.uint64)
        grow(array, length)
        return array
    return np.frombuffer(block, np.uint64)[:length]


def reserved(size: int) -> mmap.mmap | None:
    """Return so many bytes of addresses, in large pages where the system has them; ``None`` if it refuses."""
    try:
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, ValueError, MemoryError):  # addresses are limited
        return None
    with contextlib.suppress(OSError):  # a system without large pages
        block.madvise(mmap.MADV_HUGEPAGE, _SMALL_BYTES)
    return block


def longer(array: npt.NDArray[np.uint64], length: int) -> npt.NDArray[np.uint64]:
    """Return an array of ``spread`` with more elements, which are zero; do not use the shorter one any more."""
    whole = array.base
    if whole is None:  # it has memory of its own
        grow(array, length)
        return array
    assert length <= len(whole), "a table numbers fewer postings"
    return np.asarray(whole[:length])


def grow(array: npt.NDArray[np.generic], length: int) -> None:
    """Extend an array along its first axis in place, if it is shorter; the new elements are zero."""
    if len(array) < length:
        array.resize((length, *array.shape[1:]), refcheck=False)


@kernel("const i32[], i64, const i64[], i64[]", locked=True, direct=True)
def _at(pages, bits, numbers, out):
    for i in range(len(out)):
        out[i] = index_at(pages, bits, numbers[i])


@inlined
def index_at(pages, bits, number):
    """The index of a number in the arrays; ``pages`` is the map, whose length is a power of two."""
    page = pages[(number >> bits) & (len(pages) - 1)]
    return (np.int64(page) << bits) | (number & ((1 << bits) - 1))
