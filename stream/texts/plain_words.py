"""Words of plain letters without the automaton: the same hashes as ``token_hashes``, in less time.

Most words are a run of plain letters between blanks or punctuation. A code point belongs to one of four groups:

- *hard*: blanks, line ends and most punctuation. Text before a hard code point has no influence on the words after it,
  so the text between two hard code points (a stretch) can be split alone.
- *letter*: the plain letters of alphabetic scripts.
- *bridge*: apostrophe, full stop, comma and the like. It is part of a word only between two letters or two digits.
- *other*: digits, marks, ideographs, emoji, and so on.

A stretch of letters, with bridges before or after it, is one word. All other stretches go to the automaton.

The hash of a word is a polynomial with base B, which is odd and so has an inverse modulo 2^64. With S(t) = sum of
(code point + 1) B^-p over the places p before t, the word from place s to e has the hash (S(e) - S(s)) B^(e-1) modulo
2^64. So one pass without a branch makes S and the places where the group changes. It works in blocks; a block begins
with a letter after a hard code point.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import inlined, raw_inner
from stream.kernels.hashing import BASE, mix64
from stream.texts.words import BRIDGES, HARD_ENTRIES, PLAIN_LETTER, token_hashes, word_table

# Code points of a block: the data of a block stay in the first cache.
_BLOCK = 1024
_HARD, _LETTER, _BRIDGE, _OTHER = range(4)
_GROUP_BITS, _GROUP = 2, 3
_ONE = np.uint64(1)


class WordTables(NamedTuple):
    """The tables of ``word_hashes``: the entry and the group of every code point (``uint8[0x110000]`` each), and the
    powers of the base and of its inverse from 0 on (``uint64[block]`` each). All are read-only."""

    entries: npt.NDArray[np.uint8]
    groups: npt.NDArray[np.uint8]
    powers: npt.NDArray[np.uint64]
    inverses: npt.NDArray[np.uint64]


class WordScratch(NamedTuple):
    """The arrays that ``word_hashes`` writes: partial sums (``uint64``) and places (``int64``) of one block."""

    sums: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.int64]


@functools.cache
def word_tables() -> WordTables:
    """The tables, built at the first call."""
    kinds = np.full(256, _OTHER, np.uint8)
    kinds[list(HARD_ENTRIES)] = _HARD
    kinds[list(BRIDGES)] = _BRIDGE
    kinds[PLAIN_LETTER] = _LETTER
    inverse = pow(int(BASE), -1, 1 << 64)
    tables = WordTables(word_table(), kinds[word_table()], _powers(int(BASE)), _powers(inverse))
    for table in tables:
        table.flags.writeable = False
    return tables


def word_scratch() -> WordScratch:
    """New scratch for one thread."""
    return WordScratch(np.empty(_BLOCK + 1, np.uint64), np.empty(_BLOCK + 1, np.int64))


def _powers(base: int) -> npt.NDArray[np.uint64]:
    factors = np.full(_BLOCK, base, np.uint64)
    factors[0] = 1
    return np.asarray(np.multiply.accumulate(factors))


@raw_inner
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


@raw_inner
def _is_end(codes, end, groups):
    """Whether a block may end before ``end``: at the end of the text, or between a hard code point and a letter."""
    if end == len(codes):
        return True
    return groups[codes[end]] == _LETTER and groups[codes[end - 1]] == _HARD


@raw_inner
def _block_hashes(codes, tables, scratch, out):
    """As ``word_hashes``, for a block that ends with a hard code point or with the text."""
    sums, edges = scratch.sums, scratch.edges
    runs = _scan(codes, tables.groups, tables.inverses, sums, edges)
    count = 0
    run = 0
    if runs and edges[0] & _GROUP == _HARD:
        run = 1
    while run < runs:  # one stretch a turn, which begins with this run; the end of the text is a hard run
        if edges[run] & _GROUP == _LETTER and edges[run + 1] & _GROUP == _HARD:  # most words: the turns do not wait
            out[count] = _hash_of(edges[run] >> _GROUP_BITS, edges[run + 1] >> _GROUP_BITS, tables, sums)
            count += 1
            run += 2
            continue
        word = run + (edges[run] & _GROUP == _BRIDGE)
        if edges[word] & _GROUP == _HARD:
            run = word + 1
            continue
        after = word + 1
        after += edges[after] & _GROUP == _BRIDGE
        if edges[word] & _GROUP == _LETTER and edges[after] & _GROUP == _HARD:
            out[count] = _hash_of(edges[word] >> _GROUP_BITS, edges[word + 1] >> _GROUP_BITS, tables, sums)
            count += 1
        else:
            while edges[after] & _GROUP != _HARD:
                after += 1
            # The hard run before the stretch belongs to it: a joiner joins the code point before it to a word.
            stretch = codes[edges[max(run - 1, 0)] >> _GROUP_BITS : edges[after] >> _GROUP_BITS]
            count += token_hashes(stretch, tables.entries, out[count:])
        run = after + 1
    return count


@inlined
def _hash_of(start, end, tables, sums):
    """The hash of the word from place ``start`` to ``end`` of a block."""
    return mix64((sums[end] - sums[start]) * tables.powers[end - 1])


@raw_inner
def _scan(codes, groups, inverses, sums, edges):
    """Write the partial sums, and an edge for each run of one group: its place << 2 | the group. The last is hard.

    Returns how many runs.
    """
    runs = 0
    before = np.uint8(255)
    total = np.uint64(0)
    sums[0] = total
    for i in range(len(codes)):
        group = groups[codes[i]]
        edges[runs] = i << _GROUP_BITS | np.int64(group)
        runs += group != before
        before = group
        total += (np.uint64(codes[i]) + _ONE) * inverses[i]
        sums[i + 1] = total
    edges[runs] = len(codes) << _GROUP_BITS | _HARD
    return runs
