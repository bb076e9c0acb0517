"""Normalisation of code points by table (``neardup.features.texts.unicode_table``), compiled.

A text is read in blocks. In a plain block, which most scripts have only, each code point takes one table look-up, in
vector code. Other blocks are mapped in the same way, 64 code points at a time. Then vector code marks the code points
that interact, and only these are examined one by one:

- an ignorable code point, which is invisible, is left out;
- an expanding code point is replaced by its expansion;
- a mark moves before marks of higher classes;
- a second composes with the simple code point before it;
- a longer run of marks and seconds after a simple code point is sorted by combining class and composed;
- all other code points (Hangul vowels and finals, U+0345, a mark that sorts into a composed letter) lie in a *general
  stretch*, from the boundary before them to the next boundary. The kernel reports the stretch and leaves it out. The
  caller normalises all stretches of a batch together and inserts them (``neardup.features.texts.fold_stretches``).

When the result becomes longer or shorter than the text, the 64 code points that follow are written again in their new
position. This takes four instructions each for reading, masking and writing, and no branch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.texts.raw_texts import copy_codes
from neardup.features.texts.unicode_table import (
    EXPANDS,
    EXPANSION_COPIED,
    EXPANSION_LENGTH_BITS,
    IGNORABLE,
    MARK,
    PAIR_MULTIPLIER,
    PAIR_SHIFT,
    PAYLOAD,
    RANK_MASK,
    RANK_SHIFT,
    SECOND,
    SEPARATOR,
    SPECIAL,
    SURROGATE,
)
from neardup.machine.bits import MASK_BITS, lowest_bit, mask_below
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.strings import shorten_runs
from neardup.machine.lanes import copy_bits

# The result of ``fold_texts`` if ``out`` or ``stretches`` is too small.
NO_ROOM = -1
# Columns of a stretch: number of the text, first and last (exclusive) position in the raw text, position in the output.
STRETCH_COLUMNS = 4

_REFUSED = -2
# Code points of a block: their entries stay in the first cache.
_BLOCK = 256
# Code points that may be written behind the end of a result, most of them by ``_put``.
_SPARE = 2 * MASK_BITS
# Longer runs of marks go to ``unicodedata``: sorting by insertion takes quadratic time.
_RUN_MAX = 32
_ONE = np.uint32(1)
# Counters that are passed to other kernels begin as a number of this type: a plain 0 has another type, and each kernel
# would be compiled twice.
_ZERO = np.int64(0)
_NOTHING = np.uint32(0)
_NO_BIT, _ONE_BIT = np.uint64(0), np.uint64(1)
_SECOND_BITS = np.uint64(21)
_MULTIPLIER = np.uint64(PAIR_MULTIPLIER)
_SEPARATOR = np.uint32(ord(SEPARATOR))
_SURROGATE = np.uint32(SURROGATE)
_IGNORED = SPECIAL | np.uint32(IGNORABLE)
_LENGTH_MASK = np.uint32((1 << int(EXPANSION_LENGTH_BITS)) - 1)
_RANK = RANK_MASK << RANK_SHIFT
INTERACTS = SPECIAL | MARK | SECOND
BLANK = np.uint32(0x20)


class FoldScratch(NamedTuple):
    """The arrays that ``fold_texts`` writes: the entries of a block, what interacts in a group of 64 of them, and the
    code points of a text (``uint32``)."""

    entries: npt.NDArray[np.uint32]
    found: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint32]


def fold_scratch(length_max: int) -> FoldScratch:
    """New scratch for one thread and texts of so many code points at most."""
    return FoldScratch(*(np.empty(size, np.uint32) for size in (_BLOCK + _SPARE, MASK_BITS, length_max)))


@kernel("RawTexts, const FoldTable, FoldScratch, bool, u32[], i64[], i64[], i64[,], bool[]")
def fold_texts(texts, table, scratch, fold_space, out, starts, lengths, stretches, surrogates):
    """Normalise the texts that are not ASCII, except their general stretches.

    ``texts`` are ``RawTexts``. Results are written to ``out`` (``uint32``), one text after the other; ``starts`` and
    ``lengths`` (``int64[n]``) describe them. ``surrogates`` (``bool[n]``) marks texts that hold a surrogate; their
    length becomes 0. ``table`` is a ``FoldTable``, ``scratch`` from ``fold_scratch``. General stretches go to
    ``stretches`` (``int64[m, 4]``). With ``fold_space``, runs of blanks become short in texts without a stretch.

    Returns the number of stretches, or ``NO_ROOM``; then the contents of ``starts`` and ``lengths`` are undefined.
    """
    count, at = _ZERO, _ZERO
    for i in range(len(starts)):
        if texts.widths[i] == 0:
            continue
        size = copy_codes(texts, i, _ZERO, texts.lengths[i], scratch.codes)
        length, found = _fold_text(scratch.codes[:size], table, scratch, out[at:], stretches, count, i)
        if length == NO_ROOM:
            return NO_ROOM
        if length == _REFUSED:
            surrogates[i] = True
            length, found = _ZERO, count
        elif fold_space and found == count:
            length = shorten_runs(out[at : at + length], BLANK)
        starts[i], lengths[i] = at, length
        count, at = found, at + length
    return count


@inner
def _fold_text(codes, table, scratch, out, stretches, count, text):
    """Normalise one text; returns its length and the new number of stretches."""
    n = np.int64(len(codes))
    before = _NOTHING  # the entry of the last code point of the output
    plain = True  # whether the block before was plain, so that this one is likely to be
    i, j = _ZERO, _ZERO
    while i < n:
        first, end = i, min(i + _BLOCK, n)
        if j + n - i + _SPARE > len(out):
            return NO_ROOM, count
        if plain and _fold_plain(codes[i:end], table.entries, out[j : j + end - i]):
            before = table.entries[codes[end - 1]]
            i, j = end, j + end - i
            continue
        plain = _look_up(codes[i : min(end + 1, n)], table.entries, scratch.entries)
        while i < end:
            group, to = scratch.entries[i - first :], min(i + MASK_BITS, end)
            i, j, before, count = _fold_group(
                codes, i, to, before, group, table, scratch.found, out, j, stretches, count, text
            )
            if j < 0:
                return j, count
    return j, count


@inlined
def _fold_plain(codes, entries, out):
    """Map a block with vector code; returns whether nothing in it can interact, whatever precedes it.

    If it returns false, ``out`` is undefined.
    """
    found = _NOTHING
    for p in range(len(codes)):
        entry = entries[codes[p]]
        found |= entry
        out[p] = entry & PAYLOAD
    return found & INTERACTS == _NOTHING


@inlined
def _look_up(codes, entries, held):
    """Write the entries of a block, from position 1 on, and a harmless one; returns whether it is plain."""
    n = len(codes)
    further = held[1:]
    found = _NOTHING
    for p in range(n):
        entry = entries[codes[p]]
        found |= entry
        further[p] = entry
    further[n] = _NOTHING
    return found & INTERACTS == _NOTHING


@inlined
def _fold_group(codes, i, end, before, held, table, found, out, j, stretches, count, text):
    """Normalise the code points from ``i`` to ``end``, at most 64: all as if none interacted, then those that do.

    ``before`` is the entry of the code point before them, ``held`` are their entries from position 1 on. Returns the
    position after the last code point that is done, the length of ``out`` (or ``NO_ROOM`` or ``_REFUSED``), the entry
    of the last code point, and the number of stretches.
    """
    n = len(codes)
    first = i
    copy_bits(held, 1, PAYLOAD, out, j)
    left = _interacting(before, held, found) & ~_NO_BIT >> np.uint64(MASK_BITS - (end - i))
    while left:
        p = np.int64(lowest_bit(left))
        if first + p > i:
            before = held[p]
        i, j = first + p, j + first + p - i
        entry = held[p + 1]
        if entry & EXPANDS:
            if j + _length(entry) + n - i + _SPARE > len(out):
                return i, NO_ROOM, before, count
            j += _expand(entry, table.expansions, out[j:])
            i, before = i + 1, entry
            copy_bits(held, p + 2, PAYLOAD, out, j)
        elif entry == _IGNORED:
            i += 1  # ``before`` is last, and what follows may interact with it
            copy_bits(held, p + 2, PAYLOAD, out, j)
            left |= np.uint64(_interacts(before, held[p + 2]) != _NOTHING) << np.uint64(i - first)
        elif entry == SPECIAL | _SURROGATE:
            return i, _REFUSED, before, count
        elif _composes_alone(before, entry, held[p + 2]):
            composite = _composite(out[j - 1], codes[i], table)
            i += 1
            if composite:
                out[j - 1] = composite
                before = _NOTHING
                copy_bits(held, p + 2, PAYLOAD, out, j)
            else:
                j, before = j + 1, entry
        elif not entry & (SECOND | SPECIAL) and _insert(codes[i], entry, table.entries, out, j):
            i, j = i + 1, j + 1  # the mark of the highest class, ``before``, is last
            left |= np.uint64(_interacts(before, held[p + 2]) != _NOTHING) << np.uint64(i - first)
        else:
            i, j, count = _fold_run(codes, i, table, out, j, stretches, count, text)
            before = _NOTHING  # a boundary follows
            if j == NO_ROOM or i >= end:
                return i, j, before, count
            copy_bits(held, i - first + 1, PAYLOAD, out, j)
        if i == end:
            return i, j, before, count
        left &= ~_NO_BIT << np.uint64(i - first)
    return end, j + end - i, held[end - first], count


@inlined
def _interacting(before, held, found):
    """Bits: which of the 64 code points with the entries ``held``, from position 1 on, interact."""
    if held[0] != before:
        held[0] = before
    here, further = held[:MASK_BITS], held[1 : MASK_BITS + 1]
    for p in range(MASK_BITS):
        found[p] = _interacts(here[p], further[p])
    return ~mask_below(found, np.uint64(0), _ONE)


@inlined
def _interacts(before, entry):
    """Whether a code point needs more than a look-up: a second after a first or a mark, a mark after one of a higher
    class, or a special code point. Not 0 if so."""
    after_mark = before & MARK
    disorder = np.uint32((before & _RANK) > (entry & _RANK))
    return entry & (SPECIAL | (before >> _ONE | after_mark << _ONE) & SECOND | after_mark * disorder)


@inlined
def _composes_alone(before, entry, after):
    """Whether a second follows a simple code point, sorts behind its decomposition, and a boundary follows."""
    if entry & (SECOND | SPECIAL) != SECOND or before & INTERACTS or _NOTHING < _rank(entry) < _rank(before):
        return False
    return _is_boundary(after)


@inlined
def _length(entry):
    """Code points of an expansion."""
    return np.int64(entry & _LENGTH_MASK)


@inlined
def _expand(entry, expansions, out):
    """Write an expansion, and up to three code points after it; returns its length."""
    source, length = expansions[np.int64((entry & PAYLOAD) >> EXPANSION_LENGTH_BITS) :], _length(entry)
    for p in range(EXPANSION_COPIED):  # a constant number, mostly enough: no branch to mispredict
        out[p] = source[p]
    for p in range(EXPANSION_COPIED, length):
        out[p] = source[p]
    return length


@inlined
def _insert(mark, entry, entries, out, j):
    """Insert a mark that never composes among the marks before ``out[j]``; returns whether its position is near."""
    at = j
    while at > 0 and at > j - _RUN_MAX:
        other = entries[out[at - 1]]
        if not other & MARK or _rank(other) <= _rank(entry):
            out[at] = mark
            return True
        out[at] = out[at - 1]
        at -= 1
    return False


@inlined
def _is_boundary(entry):
    return entry & INTERACTS == _NOTHING or entry & EXPANDS != _NOTHING or entry == SPECIAL | _SURROGATE


@inner
def _fold_run(codes, i, table, out, j, stretches, count, text):
    """Normalise the unit around position ``i``: from the boundary before it to the next one.

    Returns the end of the unit, the new length of ``out`` (or ``NO_ROOM``) and the new number of stretches. Each code
    point between the boundary and ``i`` has exactly one code point of output, and an ignorable one has none.
    """
    entries = table.entries
    n = len(codes)
    start = i - 1
    while start >= 0 and not _is_boundary(entries[codes[start]]):
        j -= entries[codes[start]] != _IGNORED
        start -= 1
    composable = start >= 0 and entries[codes[start]] & EXPANDS == _NOTHING
    if start >= 0:
        j -= 1 if composable else _length(entries[codes[start]])
    end = i
    while end < n and not _is_boundary(entries[codes[end]]):
        end += 1
    for p in range(start + 1, end):
        composable &= entries[codes[p]] & SPECIAL == _NOTHING
    if composable and end - start <= _RUN_MAX:
        length = _compose(codes[start:end], table, out[j:])
        if length:
            return end, j + length, count
    if start < 0 or codes[start] == _SEPARATOR:  # no stretch holds a separator, and nothing composes with it
        j += start >= 0
        start += 1
    if count and stretches[count - 1, 0] == text and stretches[count - 1, 2] == start:
        stretches[count - 1, 2] = end
        return end, j, count
    if count == len(stretches):
        return end, NO_ROOM, count
    stretches[count, 0], stretches[count, 1], stretches[count, 2], stretches[count, 3] = text, start, end, j
    return end, j, count + 1


@inlined
def _rank(entry):
    return (entry >> RANK_SHIFT) & RANK_MASK


@inner
def _compose(codes, table, out):
    """Sort and compose a simple code point and the marks and seconds after it; returns the number of code points.

    Returns 0 if a second sorts into the decomposition of the simple code point: ``unicodedata`` handles this case.
    """
    entries = table.entries
    n = len(codes)
    first = entries[codes[0]]
    out[0] = first & PAYLOAD
    for i in range(1, n):
        entry = entries[codes[i]]
        rank = _rank(entry)
        if entry & SECOND and _NOTHING < rank < _rank(first):
            return 0
        at = i
        while at > 1 and rank and _rank(entries[out[at - 1]]) > rank:
            out[at] = out[at - 1]
            at -= 1
        out[at] = codes[i]
    starter = 0
    length = 1
    last = _NOTHING  # the rank of the previous mark, if it did not compose
    for i in range(1, n):
        entry = entries[out[i]]
        rank = _rank(entry)
        composite = _NOTHING
        if entry & SECOND and (last == _NOTHING or last < rank):
            composite = _composite(out[starter], out[i], table)
        if composite:
            out[starter] = composite
            continue
        out[length] = out[i]
        last = rank
        if rank == _NOTHING:
            starter = length
        length += 1
    return length


@inlined
def _composite(first, second, table):
    """The primary composite of two code points, or 0."""
    keys = table.pair_keys
    key = np.uint64(first) << _SECOND_BITS | np.uint64(second)
    slot = np.int64(key * _MULTIPLIER >> PAIR_SHIFT)
    while keys[slot]:
        if keys[slot] == key:
            return table.composites[slot]
        slot = (slot + 1) % len(keys)
    return _NOTHING
