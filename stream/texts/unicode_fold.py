"""Normalisation of code points by table (``stream.texts.unicode_table``), compiled.

A text is read in blocks. In a block without interactions each code point takes one table look-up, in vector code. Until
a text shows a code point that can interact with others, interactions are not examined. Other blocks are read code point
by code point:

- an expanding code point is replaced by its expansion;
- a run of marks and seconds after a simple code point is sorted by combining class and composed here;
- all other code points (Hangul vowels and finals, U+0345, a mark that sorts into a composed letter) lie in a *general
  stretch*, from the boundary before them to the next boundary. The kernel reports the stretch and leaves it out. The
  caller normalises all stretches of a batch together and inserts them (``splice``).
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import raw_inner, raw_kernel
from stream.texts.unicode_table import (
    EXPANDS,
    EXPANSION_LENGTH_BITS,
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

# The result of ``fold_texts`` if ``out`` or ``stretches`` is too small.
NO_ROOM = -1
# Columns of a stretch: number of the text, first and last (exclusive) place in the raw text, place in the output.
STRETCH_COLUMNS = 4

_REFUSED = -2
# Code points of a block: few, so that one "ß" makes little text slow.
_BLOCK = 128
# Longer runs of marks go to ``unicodedata``: sorting by insertion takes quadratic time.
_RUN_MAX = 32
_ONE = np.uint32(1)
# Counters that are passed to other kernels begin as a number of this type: a plain 0 has another type, and each kernel
# would be compiled twice.
_ZERO = np.int64(0)
_NOTHING = np.uint32(0)
_SECOND_BITS = np.uint64(21)
_MULTIPLIER = np.uint64(PAIR_MULTIPLIER)
_SEPARATOR = np.uint32(ord(SEPARATOR))
_SURROGATE = np.uint32(SURROGATE)
_LENGTH_MASK = np.uint32((1 << int(EXPANSION_LENGTH_BITS)) - 1)
_RANK = RANK_MASK << RANK_SHIFT
_INTERACTS = SPECIAL | MARK | SECOND


@raw_kernel
def fold_texts(raw, starts, lengths, table, out, stretches, surrogates):
    """Normalise n texts except their general stretches.

    Text i is ``raw[starts[i]:starts[i] + lengths[i]]`` (``uint32``). Its result is written to ``out`` (``uint32``), one
    text after the other; ``starts`` and ``lengths`` (``int64[n]``) then describe the results. ``surrogates``
    (``bool[n]``) marks texts that hold a surrogate; their length becomes 0. ``table`` is a ``FoldTable``. General
    stretches go to ``stretches`` (``int64[m, 4]``).

    Returns the number of stretches, or ``NO_ROOM``; then the contents of ``starts`` and ``lengths`` are undefined.
    """
    count, at = _ZERO, _ZERO
    for i in range(len(starts)):
        codes = raw[starts[i] : starts[i] + lengths[i]]
        length, found = _fold_text(codes, table, out[at:], stretches, count, i)
        if length == NO_ROOM:
            return NO_ROOM
        starts[i] = at
        if length == _REFUSED:
            surrogates[i] = True
            lengths[i] = 0
        else:
            count = found
            lengths[i] = length
            at += length
    return count


@raw_kernel
def gather_stretches(raw, starts, stretches, count, out):
    """Write the raw code points of the stretches to ``out``, each with a separator after it; returns how many.

    ``starts`` are the starts of the raw texts.
    """
    at = 0
    for s in range(count):
        first = starts[stretches[s, 0]]
        for p in range(first + stretches[s, 1], first + stretches[s, 2]):
            out[at] = raw[p]
            at += 1
        out[at] = _SEPARATOR
        at += 1
    return at


@raw_kernel
def splice(folded, starts, lengths, stretches, count, results, entries, out):
    """Write ``folded`` to ``out``, with the results of the stretches in their places, each with a separator after it.

    ``starts`` and ``lengths`` describe the texts in ``folded``; the call overwrites them to describe the texts in
    ``out``. The table decides what white space in a result becomes.
    """
    at = 0
    s = 0
    r = 0
    for i in range(len(starts)):
        first = at
        place = 0
        while s < count and stretches[s, 0] == i:
            at = _copy(folded[starts[i] + place : starts[i] + stretches[s, 3]], out, at)
            place = stretches[s, 3]
            while results[r] != _SEPARATOR:
                entry = entries[results[r]]
                out[at] = results[r] if entry & _INTERACTS else entry & PAYLOAD
                at += 1
                r += 1
            r += 1
            s += 1
        at = _copy(folded[starts[i] + place : starts[i] + lengths[i]], out, at)
        starts[i] = first
        lengths[i] = at - first


@raw_inner
def _copy(codes, out, at):
    for p in range(len(codes)):
        out[at + p] = codes[p]
    return at + len(codes)


@raw_inner
def _fold_text(codes, table, out, stretches, count, text):
    """Normalise one text; returns its length and the new number of stretches."""
    n = np.int64(len(codes))
    entries = table.entries
    before = _NOTHING  # the entry of the last code point of the output
    plain = True  # until a block can interact; most scripts have no code point that can, the others have many
    i, j = _ZERO, _ZERO
    while i < n:
        end = min(i + _BLOCK, n)
        if j + n - i > len(out):
            return NO_ROOM, count
        block, into = codes[i:end], out[j : j + end - i]
        plain = plain and _fold_plain(block, entries, into)
        if plain or _fold_block(block, before, entries, into):
            before = entries[codes[end - 1]]
            i, j = end, j + end - i
            continue
        while i < end:
            entry = entries[codes[i]]
            if not _interacts(before, entry):
                out[j] = entry & PAYLOAD
                i, j = i + 1, j + 1
            elif entry & EXPANDS:
                if j + _length(entry) + n - i > len(out):
                    return NO_ROOM, count
                j += _expand(entry, table.expansions, out[j:])
                i += 1
            elif entry == SPECIAL | _SURROGATE:
                return _REFUSED, count
            elif not entry & (SECOND | SPECIAL) and _insert(codes[i], entry, entries, out, j):
                i, j = i + 1, j + 1
                entry = before  # the mark of the highest class is last
            else:
                i, j, count = _fold_run(codes, i, table, out, j, stretches, count, text)
                if j == NO_ROOM:
                    return NO_ROOM, count
                entry = _NOTHING  # a boundary follows
            before = entry
    return j, count


@raw_inner
def _interacts(before, entry):
    """Whether a code point needs more than a look-up: a second after a first or a mark, a mark after one of a higher
    class, or a special code point. Not 0 if so."""
    after_mark = before & MARK
    disorder = np.uint32((before & _RANK) > (entry & _RANK))
    return entry & (SPECIAL | (before >> _ONE | after_mark << _ONE) & SECOND | after_mark * disorder)


@raw_inner
def _fold_plain(codes, entries, out):
    """Map a block with vector code; returns whether nothing in it can interact, whatever precedes it.

    If it returns false, ``out`` is undefined.
    """
    found = _NOTHING
    for p in range(len(codes)):
        entry = entries[codes[p]]
        found |= entry
        out[p] = entry & PAYLOAD
    return found & _INTERACTS == _NOTHING


@raw_inner
def _fold_block(codes, before, entries, out):
    """Map a block, not empty; returns whether nothing in it interacts. All loops compile to vector code."""
    n = len(codes)
    for p in range(n):
        out[p] = entries[codes[p]]
    found = _interacts(before, out[0])
    here, further = out[: n - 1], out[1:n]
    for p in range(n - 1):
        found |= _interacts(here[p], further[p])
    for p in range(n):
        out[p] &= PAYLOAD
    return found == _NOTHING


@raw_inner
def _length(entry):
    """Code points of an expansion."""
    return np.int64(entry & _LENGTH_MASK)


@raw_inner
def _expand(entry, expansions, out):
    """Write an expansion; returns its length."""
    first = np.int64((entry & PAYLOAD) >> EXPANSION_LENGTH_BITS)
    for p in range(_length(entry)):
        out[p] = expansions[first + p]
    return _length(entry)


@raw_inner
def _insert(mark, entry, entries, out, j):
    """Insert a mark that never composes among the marks before ``out[j]``; returns whether its place is near."""
    at = j
    while at > 0 and at > j - _RUN_MAX:
        other = entries[out[at - 1]]
        if not other & MARK or _rank(other) <= _rank(entry):
            out[at] = mark
            return True
        out[at] = out[at - 1]
        at -= 1
    return False


@raw_inner
def _is_boundary(entry):
    return entry & _INTERACTS == _NOTHING or entry & EXPANDS != _NOTHING or entry == SPECIAL | _SURROGATE


@raw_inner
def _fold_run(codes, i, table, out, j, stretches, count, text):
    """Normalise the unit around place ``i``: from the boundary before it to the next one.

    Returns the end of the unit, the new length of ``out`` (or ``NO_ROOM``) and the new number of stretches. Each code
    point between the boundary and ``i`` has exactly one code point of output.
    """
    entries = table.entries
    n = len(codes)
    start = i - 1
    while start >= 0 and not _is_boundary(entries[codes[start]]):
        start -= 1
    j -= i - 1 - start
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


@raw_inner
def _rank(entry):
    return (entry >> RANK_SHIFT) & RANK_MASK


@raw_inner
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


@raw_inner
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
