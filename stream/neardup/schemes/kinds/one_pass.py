"""Code points -> one-permutation signatures and content hashes in one pass, without an array of shingles.

A block of shingles is hashed, added to the content hash and competes for the rows while it is in the first cache. The
results are the same as from ``neardup.features.texts.shingles``, ``hash_bags`` and
``neardup.schemes.signatures.one_permutation``, one after the other. If all shingles of a text must compete (the text is
short, or a row stayed empty), the text is signed in these separate steps.
"""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.texts.kgrams import BLOCK, GramScratch, gram_scratch, kgrams
from neardup.features.texts.normalize import CodePoints, NormalForm, fold_narrow
from neardup.features.texts.plain_words import PlainRules, WordScratch, word_hashes, word_scratch, word_tables
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import bag_hash, bag_term
from neardup.machine.memory import bytes_at
from neardup.schemes.signatures import INFINITY
from neardup.schemes.signatures.one_permutation import (
    RowScratch,
    all_filled,
    bound_for,
    compete_below,
    first_survivors,
    number_of,
    round_of,
    row_scratch,
    sign_short,
)

# Room for shingles that is kept for a later call, at least and at most: 64 kB to 1 MB.
_LEAST_SHINGLES, KEPT_SHINGLES = 1 << 12, 1 << 16
_BYTE, _BYTE_BITS = np.uint64(0xFF), np.uint64(8)


class SignedTexts(NamedTuple):
    """Sketches ``uint8[n, width]``, content hashes ``uint64[n, 2]`` and numbers of shingles ``int64[n]`` of n texts;
    the sums of the numbers and of the characters, and the least number (0 for no text).

    A text without a shingle has infinity in every row.
    """

    sketches: npt.NDArray[np.uint8]
    contents: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    shingles: int
    characters: int
    fewest: int


class Scratch(NamedTuple):
    """The arrays that the kernels write: ``row`` is the signature of a text; ``text`` (``uint8``), ``shingles`` and
    ``tokens`` (``uint64``) have room for the longest text; ``words`` is for a block of them."""

    grams: GramScratch
    rows: RowScratch
    row: npt.NDArray[np.uint64]
    text: npt.NDArray[np.uint8]
    shingles: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.uint64]
    words: WordScratch


def sign_chars(codes: CodePoints, k: int, bits: int, rows: int, seed: int, sketch_bits: int) -> SignedTexts:
    """Sign texts by k consecutive code points; a shingle is ``bits`` (32 or 64) of its hash, and a sketch has
    ``sketch_bits`` of each row."""
    out, scratch = _columns(len(codes.starts), rows, sketch_bits), _scratch_of(("chars", k, rows), codes.longest)
    return SignedTexts(*out, *_sign_chars(codes, k, *_numbers(bits, seed), scratch, *out))


def sign_words(codes: CodePoints, k: int, bits: int, rows: int, seed: int, sketch_bits: int) -> SignedTexts:
    """Sign texts by k consecutive words, in the same way."""
    out, scratch = _columns(len(codes.starts), rows, sketch_bits), _scratch_of(("words", k, rows), codes.longest)
    return SignedTexts(*out, *_sign_words(codes, k, *_numbers(bits, seed), word_tables(), scratch, *out))


def plain_rules(unit: str, form: NormalForm, k: int, bits: int, rows: int, seed: int) -> PlainRules:
    """Return how ``sign_plain`` signs ASCII texts as ``sign_chars`` or ``sign_words`` sign their code points."""
    return PlainRules(unit == "words", form.fold_case, form.fold_space, k, *_numbers(bits, seed), rows)


def plain_scratch(rules: PlainRules, longest: int) -> Scratch:
    """Return scratch for texts of so many characters."""
    return _new_scratch("words" if rules.by_words else "chars", rules.k, max(rules.rows, 1), longest)


class _Kept(threading.local):
    """The scratch of a thread, by unit, k and rows; its room for shingles is that of the longest text so far, up to
    ``KEPT_SHINGLES``."""

    def __init__(self) -> None:
        self.scratch: dict[tuple[str, int, int], Scratch] = {}


_kept = _Kept()


def _scratch_of(key: tuple[str, int, int], longest: int) -> Scratch:
    """Return the scratch of this thread for texts of which the longest has so many characters; ``key`` is unit, k and
    rows."""
    scratch = _kept.scratch.get(key)
    if scratch is None or len(scratch.shingles) < longest:
        scratch = _new_scratch(*key, longest)
        if longest <= KEPT_SHINGLES:
            _kept.scratch[key] = scratch
    return scratch


def _new_scratch(unit: str, k: int, rows: int, longest: int) -> Scratch:
    shingles, tokens = np.empty((2, max(longest, _LEAST_SHINGLES)), np.uint64)
    text, row, of_rows = np.empty(len(shingles), np.uint8), np.empty(rows, np.uint64), _survivors(unit, k, rows)
    return Scratch(gram_scratch(k), row_scratch(rows, of_rows), row, text, shingles, tokens, word_scratch())


def _columns(
    n: int, rows: int, sketch_bits: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    return np.empty((n, rows * sketch_bits // 8), np.uint8), np.empty((n, 2), np.uint64), np.empty(n, np.int64)


@functools.cache
def _survivors(unit: str, k: int, rows: int) -> npt.NDArray[np.float64]:
    """``RowScratch.survivors``, kept from batch to batch: texts repeat their shingles about as often as the texts
    before them."""
    del unit, k
    return first_survivors(rows)


@functools.cache
def _numbers(bits: int, seed: int) -> tuple[np.uint64, np.uint64]:
    """The mask of a shingle, and the seed."""
    return np.uint64((1 << bits) - 1), np.uint64(seed)


@kernel("CodePoints, i64, u64, u64, Scratch, u8[,], u64[,], i64[]", direct=True)
def _sign_chars(codes, k, mask, seed, scratch, sketches, contents, counts):
    shingles, fewest = np.int64(0), np.int64(codes.longest)
    for i in range(len(counts)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            counts[i] = _sign_units(codes.wide[first:end], k, mask, seed, scratch, contents[i])
        else:
            counts[i] = _sign_units(codes.narrow[first:end], k, mask, seed, scratch, contents[i])
        _put_sketch(scratch.row, sketches[i])
        shingles += counts[i]
        fewest = min(fewest, counts[i])
    return shingles, codes.characters, fewest


@kernel("CodePoints, i64, u64, u64, const SplitTables, Scratch, u8[,], u64[,], i64[]", direct=True)
def _sign_words(codes, k, mask, seed, tables, scratch, sketches, contents, counts):
    shingles, fewest = np.int64(0), np.int64(codes.longest)
    for i in range(len(counts)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            count = word_hashes(codes.wide[first:end], tables, scratch.words, scratch.tokens)
        else:
            count = word_hashes(codes.narrow[first:end], tables, scratch.words, scratch.tokens)
        counts[i] = _sign_units(scratch.tokens[:count], k, mask, seed, scratch, contents[i])
        _put_sketch(scratch.row, sketches[i])
        shingles += counts[i]
        fewest = min(fewest, counts[i])
    return shingles, codes.characters, fewest


@inlined
def sign_plain(texts, i, rules, tables, scratch, sketch, content):
    """Sign plain text i, where Python has it, to a sketch and a content hash; it is normalised on the way. Return its
    normalised characters, and how many shingles they have."""
    units = bytes_at(texts.addresses[i], texts.lengths[i])
    text = scratch.text[: fold_narrow(units, rules.case, rules.space, scratch.text[: len(units)])]
    if rules.by_words:
        tokens = scratch.tokens[: word_hashes(text, tables, scratch.words, scratch.tokens)]
        count = _sign_units(tokens, rules.k, rules.mask, rules.seed, scratch, content)
    else:
        count = _sign_units(text, rules.k, rules.mask, rules.seed, scratch, content)
    _put_sketch(scratch.row, sketch)
    return len(text), count


@inner
def _sign_units(units, k, mask, seed, scratch, content):
    """Sign the k-grams of units, to ``scratch.row``; returns how many there are.

    Only ``kgrams`` depends on the type of units: the rest is compiled once.
    """
    row = scratch.row
    row[:] = INFINITY
    content[:] = 0
    n = np.int64(len(units))
    if n == 0:
        return n
    k = min(k, n)
    count = n - k + 1
    shingles, bound = scratch.shingles, bound_for(count, scratch.rows)
    if bound:
        for at in range(0, count, BLOCK):
            size = kgrams(units[at : min(at + BLOCK + k - 1, n)], k, scratch.grams, scratch.grams.other)
            _take_block(scratch.grams.other[:size], mask, seed, bound, scratch.rows, row, content)
    if not bound or not all_filled(scratch.rows, row):
        kgrams(units, k, scratch.grams, shingles)
        _take_all(shingles[:count], mask, seed, scratch.rows, row, content)
    content[0], content[1] = bag_hash(content[0], content[1], count)
    return count


@inner
def _take_block(shingles, mask, seed, bound, scratch, row, sums):
    """Let the shingles of a block with values below ``bound`` compete; add all to the sums of the content."""
    first_round = round_of(seed, np.uint64(0))
    numbers = scratch.numbers
    first, second = np.uint64(0), np.uint64(0)
    for i in range(len(shingles)):
        shingle = shingles[i] & mask
        first += shingle
        second += bag_term(shingle)
        numbers[i] = number_of(shingle, first_round)
    sums[0] += first
    sums[1] += second
    compete_below(len(shingles), bound, scratch, row)


@inner
def _take_all(shingles, mask, seed, scratch, row, sums):
    """Sign a text by all of its shingles, in every round, and sum them up."""
    first, second = np.uint64(0), np.uint64(0)
    for i in range(len(shingles)):
        shingles[i] &= mask
        first += shingles[i]
        second += bag_term(shingles[i])
    sums[0], sums[1] = first, second
    sign_short(shingles, seed, scratch, row)


@inner
def _put_sketch(row, out):
    """Write the low bits of each number of a row, the lowest byte first."""
    size = len(out) // len(row)
    if size == 2:  # the default: vector code
        for r in range(len(row)):
            out[2 * r], out[2 * r + 1] = row[r] & _BYTE, (row[r] >> _BYTE_BITS) & _BYTE
        return
    for r in range(len(row)):
        for byte in range(size):
            out[r * size + byte] = (row[r] >> (_BYTE_BITS * np.uint64(byte))) & _BYTE
