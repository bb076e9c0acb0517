"""Code points -> one-permutation signatures and content hashes in one pass, without an array of shingles.

A block of shingles is hashed, added to the content hash and competes for the rows while it is in the first cache. The
results are those of ``stream.texts.shingles``, ``hash_bags`` and ``stream.signatures.one_permutation`` one after the
other. A text whose shingles all have to compete, because it is short or a row stayed empty, takes that way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import kernel, raw_inner
from stream.kernels.hashing import bag_hash, bag_term
from stream.signatures import INFINITY
from stream.signatures.one_permutation import (
    RowScratch,
    all_filled,
    bound_for,
    compete_below,
    number_of,
    round_of,
    row_scratch,
    sign_short,
    value_of,
)
from stream.texts.kgrams import BLOCK, GramScratch, gram, gram_scratch, kgrams, prefixes
from stream.texts.normalize import CodePoints
from stream.texts.plain_words import WordScratch, WordTables, word_hashes, word_scratch, word_tables


class SignedTexts(NamedTuple):
    """Of n texts: signatures ``uint64[n, rows]``, content hashes ``uint64[n, 2]``, numbers of shingles ``int64[n]``.

    A text without a shingle has infinity in every row.
    """

    signatures: npt.NDArray[np.uint64]
    contents: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]


class _Scratch(NamedTuple):
    """What the kernels write: ``shingles`` and ``tokens`` (``uint64``) have room for the longest text."""

    grams: GramScratch
    rows: RowScratch
    shingles: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.uint64]


class _WordRules(NamedTuple):
    """What splits texts into words."""

    tables: WordTables
    block: WordScratch


def sign_chars(codes: CodePoints, k: int, bits: int, rows: int, seed: int) -> SignedTexts:
    """Sign texts by k consecutive code points; ``bits`` (32 or 64) of the hash of a shingle count."""
    out = _results(codes, rows)
    _sign_chars(codes, k, _mask(bits), np.uint64(seed), _scratch(codes, k, rows), *out)
    return out


def sign_words(codes: CodePoints, k: int, bits: int, rows: int, seed: int) -> SignedTexts:
    """Sign texts by k consecutive words; ``bits`` (32 or 64) of the hash of a shingle count."""
    out = _results(codes, rows)
    rules = _WordRules(word_tables(), word_scratch())
    _sign_words(codes, k, _mask(bits), np.uint64(seed), rules, _scratch(codes, k, rows), *out)
    return out


def _results(codes: CodePoints, rows: int) -> SignedTexts:
    n = len(codes.starts)
    return SignedTexts(np.empty((n, rows), np.uint64), np.empty((n, 2), np.uint64), np.empty(n, np.int64))


def _scratch(codes: CodePoints, k: int, rows: int) -> _Scratch:
    shingles, tokens = np.empty((2, int(codes.lengths.max(initial=0))), np.uint64)
    return _Scratch(gram_scratch(k), row_scratch(rows), shingles, tokens)


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


@kernel
def _sign_chars(codes, k, mask, seed, scratch, signatures, contents, counts):
    for i in range(len(counts)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            text = codes.wide[first:end]
            counts[i] = _sign_units(text, k, mask, seed, scratch, signatures[i], contents[i])
        else:
            plain = codes.narrow[first:end]
            counts[i] = _sign_units(plain, k, mask, seed, scratch, signatures[i], contents[i])


@kernel
def _sign_words(codes, k, mask, seed, rules, scratch, signatures, contents, counts):
    for i in range(len(counts)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            found = word_hashes(codes.wide[first:end], rules.tables, rules.block, scratch.tokens)
        else:
            found = word_hashes(codes.narrow[first:end], rules.tables, rules.block, scratch.tokens)
        counts[i] = _sign_units(scratch.tokens[:found], k, mask, seed, scratch, signatures[i], contents[i])


@raw_inner
def _sign_units(units, k, mask, seed, scratch, row, content):
    """Sign the k-grams of units; returns how many they are."""
    n = np.int64(len(units))
    if n == 0:
        row[:] = INFINITY
        return n
    k = min(k, n)
    count = n - k + 1
    bound = bound_for(count, scratch.rows)
    if bound and _sign_blocks(units, k, mask, seed, bound, scratch, row, content):
        return count
    shingles = scratch.shingles[:count]
    kgrams(units, k, scratch.grams, shingles)
    first, second = np.uint64(0), np.uint64(0)
    for i in range(count):
        shingles[i] &= mask
        first += shingles[i]
        second += bag_term(shingles[i])
    content[0], content[1] = bag_hash(first, second, count)
    sign_short(shingles, seed, scratch.rows, row)
    return count


@raw_inner
def _sign_blocks(units, k, mask, seed, bound, scratch, row, content):
    """Sign a text by the shingles whose values are below ``bound``; returns whether no row stayed empty."""
    row[:] = INFINITY
    first_round = round_of(seed, np.uint64(0))
    rows = np.uint64(len(row))
    count = len(units) - k + 1
    grams, numbers, values = scratch.grams.grams, scratch.rows.numbers, scratch.rows.values
    first, second = np.uint64(0), np.uint64(0)
    for at in range(0, count, BLOCK):
        block = units[at : min(at + BLOCK + k - 1, len(units))]
        prefixes(block, k - 1, scratch.grams)
        last = block[k - 1 :]
        for i in range(len(last)):
            shingle = gram(grams[i], last[i]) & mask
            first += shingle
            second += bag_term(shingle)
            number = number_of(shingle, first_round)
            numbers[i] = number
            values[i] = value_of(number, rows)
        compete_below(len(last), bound, scratch.rows, row)
    content[0], content[1] = bag_hash(first, second, count)
    return all_filled(scratch.rows, row)
