"""Words of plain letters without the automaton: the same hashes as ``token_hashes``, in less time.

Most words are a run of letters and digits between blanks or punctuation. A code point belongs to one of these groups:

- *hard*: blanks, line ends and most punctuation. Text before a hard code point has no influence on the words after it,
  so the text between two hard code points (a stretch) can be split alone.
- *letter* and *digit*: the plain letters of alphabetic scripts, and digits.
- *bridge*: apostrophe, full stop, comma and the like. It joins two letters, two digits, either or neither, by its kind.
- *other*: marks, ideographs, emoji, and so on.

A bridge between two code points that it joins is a part of their word. Any other bridge is as good as a hard code
point, unless it stands next to an *other* one. So vector code decides by three neighbours whether a code point is a
part of a word, hard or *other*. A run of word parts with hard code points on both sides is one word. The stretches with
an *other* code point go to the automaton.

The hash of a word is a polynomial with base B, which is odd and so has an inverse modulo 2^64. With S(t) = sum of
(code point + 1) B^-p over the positions p before t, the word from position s to e has the hash (S(e) - S(s)) B^(e-1)
modulo 2^64. So vector code makes S and the positions where words begin and end, and no branch depends on the length of
a word. It works in blocks; a block begins with a letter after a hard code point.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.texts.words import (
    DOUBLE_QUOTE,
    HARD_ENTRIES,
    LETTER_BRIDGES,
    NUMBER_BRIDGES,
    PLAIN_DIGIT,
    PLAIN_LETTER,
    token_hashes,
    word_table,
)
from neardup.machine.compile import inlined, inner
from neardup.machine.kernels.hashing import BASE, mix64
from neardup.machine.lanes import LANES, SUM_LANES, changes, running_sums

# Code points of a block: the data of a block stay in the first cache.
_BLOCK = 1024
# The bits of a group, 0 for hard: the bits of a bridge are two positions above those of the code points that it joins,
# and the bit of every bridge is one position above *other*.
_LETTER, _DIGIT, _JOINS_LETTERS, _JOINS_DIGITS, _OTHER, _BRIDGE = (np.uint8(1 << bit) for bit in (0, 1, 2, 3, 5, 6))
_PARTS, _TO_PARTS, _TO_OTHER = np.uint8(_LETTER | _DIGIT), np.uint8(2), np.uint8(1)
# What a code point is in the end, in addition to ``_OTHER``.
_HARD, _WORD = np.uint8(0), np.uint8(1)
_CASE = np.uint8(0x20)
_ONE, _TWO, _LANES = np.uint64(1), np.uint64(2), np.uint64(LANES)


class SplitTables(NamedTuple):
    """The tables of ``word_hashes``: the entry and the group of every code point (``uint8[0x110000]`` each), and the
    powers of the base and of its inverse from 0 on (``uint64[block]`` each). All are read-only."""

    entries: npt.NDArray[np.uint8]
    groups: npt.NDArray[np.uint8]
    powers: npt.NDArray[np.uint64]
    inverses: npt.NDArray[np.uint64]


class WordScratch(NamedTuple):
    """The arrays that ``word_hashes`` writes for a block: ``groups`` and ``kinds`` (``uint8``) begin one position
    before the block; ``sums`` (``uint64``) are the partial sums, ``edges`` (``uint16``) positions."""

    groups: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.uint16]


@functools.cache
def word_tables() -> SplitTables:
    """The tables, built at the first call."""
    groups = np.full(256, _OTHER, np.uint8)
    groups[list(HARD_ENTRIES)] = _HARD
    groups[PLAIN_LETTER] = _LETTER
    groups[PLAIN_DIGIT] = _DIGIT
    groups[[*LETTER_BRIDGES, *NUMBER_BRIDGES, DOUBLE_QUOTE]] = _BRIDGE
    groups[list(LETTER_BRIDGES)] |= _JOINS_LETTERS
    groups[list(NUMBER_BRIDGES)] |= _JOINS_DIGITS
    inverse = pow(int(BASE), -1, 1 << 64)
    tables = SplitTables(word_table(), groups[word_table()], _powers(int(BASE)), _powers(inverse))
    for table in tables:
        table.flags.writeable = False
    return tables


class PlainRules(NamedTuple):
    """How plain texts are signed: by words or by characters, after which steps of normalising, the length and the mask
    of a shingle, the seed, and how many rows; 0 rows: they are not signed so."""

    by_words: bool = False
    case: bool = False
    space: bool = False
    k: int = 0
    mask: np.uint64 = np.uint64(0)
    seed: np.uint64 = np.uint64(0)
    rows: int = 0

    @property
    def tables(self) -> SplitTables:
        """The tables that split texts into words; empty where nothing is split."""
        return word_tables() if self.by_words else _NO_TABLES


_NO_BYTES, _NO_POWERS = np.empty(0, np.uint8), np.empty(0, np.uint64)
_NO_TABLES = SplitTables(_NO_BYTES, _NO_BYTES, _NO_POWERS, _NO_POWERS)


def word_scratch() -> WordScratch:
    """New scratch for one thread."""
    room = _BLOCK + LANES + 2
    groups, kinds = np.empty((2, room), np.uint8)
    return WordScratch(groups, kinds, np.empty(_BLOCK + 1, np.uint64), np.empty(room, np.uint16))


def _powers(base: int) -> npt.NDArray[np.uint64]:
    factors = np.full(_BLOCK, base, np.uint64)
    factors[0] = 1
    return np.asarray(np.multiply.accumulate(factors))


@inner
def word_hashes(codes, tables, scratch, out):
    """Write the hash of each word of one document into ``out``, in order, and return how many there are.

    Arguments and results are as in ``token_hashes``: ``codes`` is ``uint8[n]`` or ``uint32[n]``, ``out`` is
    ``uint64[m]`` with m >= n.
    """
    groups = tables.groups
    n = len(codes)
    count = 0
    first = 0
    while first < n:
        end = min(first + _BLOCK, n)
        while end > first and not _is_end(codes, end, groups):
            end -= 1
        if end == first:  # a block has no end, for example in texts without letters of an alphabet
            end = first + _BLOCK
            while not _is_end(codes, end, groups):
                end += 1
            count += token_hashes(codes[first:end], tables.entries, out[count:])
        else:
            count += _block_hashes(codes[first:end], tables, scratch, out[count:])
        first = end
    return count


@inner
def _is_end(codes, end, groups):
    """Whether a block may end before ``end``: at the end of the text, or between a hard code point and a letter."""
    if end == len(codes):
        return True
    return groups[codes[end]] == _LETTER and groups[codes[end - 1]] == _HARD


@inner
def _block_hashes(codes, tables, scratch, out):
    """As ``word_hashes``, for a block that ends with a hard code point or with the text."""
    groups, kinds, sums, edges = scratch
    n = len(codes)
    groups[0] = _HARD
    for i in range(np.uint64(n + 1), np.uint64(n + 1) + _LANES):
        groups[i] = _HARD
        kinds[i] = _HARD
    _group(codes, tables.groups, groups)
    kinds[0] = _HARD
    all_groups = _decide(groups, np.uint64(n + 1), kinds)
    _sum_up(codes, tables.inverses, sums)
    edge_count = _find_edges(kinds, np.uint64(n), edges)
    if all_groups & _OTHER:
        return _mixed_hashes(codes, tables, scratch, edge_count, out)
    words = edge_count // _TWO
    for word in range(words):
        start = edges[_TWO * word]
        out[word] = _hash_of(start, edges[_TWO * word + _ONE], tables.powers, sums)
    return np.int64(words)


@inner
def _group(codes, groups, out):
    """Write the group of each code point. Comparisons compile to vector code for ASCII, where tables do not."""
    n = np.uint64(len(codes))
    if codes.itemsize > 1:
        for i in range(n):
            out[i + _ONE] = groups[codes[i]]
    elif n < _LANES:
        for i in range(n):
            out[i + _ONE] = _ascii_group(np.uint8(codes[i]))
    else:
        for first in range(np.uint64(0), n, _LANES):
            # The last lanes overlap: vector code needs a constant number.
            begin = first if first + _LANES <= n else n - _LANES
            for i in range(begin, begin + _LANES):
                out[i + _ONE] = _ascii_group(np.uint8(codes[i]))


@inlined
def _ascii_group(c):
    """The group of an ASCII code point."""
    group = _LETTER if np.uint8((c | _CASE) - np.uint8(0x61)) < np.uint8(26) else _HARD
    group = _DIGIT if np.uint8(c - np.uint8(0x30)) < np.uint8(10) else group
    group = _BRIDGE | _JOINS_LETTERS if c == np.uint8(0x3A) else group  # :
    group = _BRIDGE | _JOINS_DIGITS if (c == np.uint8(0x2C)) | (c == np.uint8(0x3B)) else group  # , ;
    group = _BRIDGE | _JOINS_LETTERS | _JOINS_DIGITS if (c == np.uint8(0x27)) | (c == np.uint8(0x2E)) else group  # ' .
    group = _BRIDGE if c == np.uint8(0x22) else group  # "
    return _OTHER if c == np.uint8(0x5F) else group  # _


@inner
def _decide(groups, end, kinds):
    """Write for each position before ``end`` whether it is a part of a word, hard or *other*; return the bits of all.

    Vector code needs a constant number, so up to 63 positions more are written.
    """
    together = np.uint8(0)
    for i in range(_ONE, end):
        together |= groups[i]
    for first in range(_ONE, end, _LANES):
        for i in range(first, first + _LANES):
            group, sides = groups[i], (groups[i - _ONE], groups[i + _ONE])
            parts = group | ((group >> _TO_PARTS) & sides[0] & sides[1])
            other = group | ((group >> _TO_OTHER) & (sides[0] | sides[1]))
            kinds[i] = ((parts | (parts >> np.uint8(1))) & _WORD) | (other & _OTHER)
    return together


@inner
def _sum_up(codes, inverses, sums):
    """Write the partial sums S."""
    n = np.uint64(len(codes))
    total = np.uint64(0)
    sums[0] = total
    whole = n // SUM_LANES * SUM_LANES
    for i in range(np.uint64(0), whole, SUM_LANES):
        total = running_sums(codes, inverses, i, total, sums)
    for i in range(whole, n):
        total += (np.uint64(codes[i]) + _ONE) * inverses[i]
        sums[i + _ONE] = total


@inner
def _find_edges(kinds, n, edges):
    """Write the positions where the kind changes; returns how many there are. The last is followed by hard code
    points."""
    edge_count = np.uint64(0)
    for first in range(np.uint64(0), n + _ONE, _LANES):
        edge_count += changes(kinds, first, edges, edge_count)
    return edge_count


@inner
def _mixed_hashes(codes, tables, scratch, found, out):
    """The hashes of a block with *other* code points."""
    kinds, sums, edges = scratch.kinds, scratch.sums, scratch.edges
    count = 0
    edge = np.uint64(0)
    while edge < found:  # one stretch a turn, which begins with this edge
        start, end = edges[edge], edges[edge + _ONE]
        if kinds[start + _ONE] == _WORD and kinds[end + _ONE] == _HARD:
            out[count] = _hash_of(start, end, tables.powers, sums)
            count += 1
            edge += _TWO
            continue
        while kinds[edges[edge] + _ONE] != _HARD:
            edge += _ONE
        # The hard code point before the stretch belongs to it: a joiner joins it to a word.
        stretch = codes[max(np.int64(start) - 1, 0) : np.int64(edges[edge])]
        count += token_hashes(stretch, tables.entries, out[count:])
        edge += _ONE
    return count


@inlined
def _hash_of(start, end, powers, sums):
    """The hash of the word from position ``start`` to ``end`` of a block."""
    return mix64((sums[end] - sums[start]) * powers[end - _ONE])
