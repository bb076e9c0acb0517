"""Identical texts: one key for a whole text, a 128-bit hash of its code points after normalisation.

Two texts with the same hash are taken to be the same; that texts which differ have the same one happens with a chance
of 2^-128 for each two of them, and no text was made to bring it about. A pair has similarity 1 or 0.

The other form makes the key of little: the length and the code points at fixed random positions, the same for all
texts. A text alone in its bucket is never read whole for it, and what a template puts at the head of all texts does no
harm. What does share the bucket is told apart by the hashes of the whole. Positions are drawn by magnitude first, so
that a short text has some and a long one is not judged by its head; those beyond the end of a text are left out, which
is safe because the length is in the key.

Three code points of 21 bits fill a word, so the hash is the same however the text is stored.

Source: Mining of Massive Datasets, 3.9.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream.hashing import GOLDEN, derive_seed, mix64
from stream.kernels import inlined, kernel
from stream.normalize import CodePoints

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

# Positions lie below 2^20: texts beyond a million characters differ in length, or are compared in full.
_MAGNITUDES = np.uint64(20)
# Told apart from the other uses of a seed.
_POSITION_PURPOSE = np.uint64(2 << 33)
_KEY_PURPOSE = np.uint64(3 << 33)
# Odd, without structure in common: the multipliers of SplitMix64 and of its variant 13.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS, _TWO_BITS = np.uint64(21), np.uint64(42)
_HALF, _THIRD = np.uint64(32), np.uint64(29)
_ONE = np.uint64(1)


def text_hashes(codes: CodePoints) -> Hashes:
    """128-bit hashes of n texts, ``uint64[n, 2]``: of their code points, in order, and their length."""
    out = np.empty((len(codes.starts), 2), np.uint64)
    _text_hashes(codes.narrow, codes.wide, codes.starts, codes.lengths, codes.is_wide, out)
    return out


def random_positions(count: int, seed: int) -> Positions:
    """``count`` positions from 0 to 2^20 - 1, ``int64``: of each magnitude from 2 to 2^20 about equally many below it.

    >>> sorted(random_positions(5, seed=1).tolist())
    [19, 38, 173, 588, 247000]
    """
    out = np.empty(count, np.int64)
    _random_positions(np.uint64(seed), out)
    return out


def position_hashes(codes: CodePoints, positions: Positions) -> Hashes:
    """Hashes ``uint64[n]`` of the lengths of n texts and their code points at the positions."""
    out = np.empty(len(codes.starts), np.uint64)
    _position_hashes(codes.narrow, codes.wide, codes.starts, codes.lengths, codes.is_wide, positions, out)
    return out


def hash_keys(hashes: Hashes, seed: int) -> Hashes:
    """A bucket key for each row of hashes: ``uint64[n, w]`` to ``uint64[n]``."""
    out = np.empty(len(hashes), np.uint64)
    _hash_keys(hashes, np.uint64(seed), out)
    return out


@inlined
def _text_hash(codes):  # type: ignore[no-untyped-def]
    first, second = _FIRST, _SECOND
    length = len(codes)
    whole = length - length % 3
    for at in range(0, whole, 3):
        word = np.uint64(codes[at]) | np.uint64(codes[at + 1]) << _BITS | np.uint64(codes[at + 2]) << _TWO_BITS
        first = (first ^ word) * _FIRST
        first ^= first >> _HALF
        second = (second + word) * _SECOND
        second ^= second >> _THIRD
    for at in range(whole, length):
        first = (first ^ np.uint64(codes[at])) * _FIRST
        first ^= first >> _HALF
        second = (second + np.uint64(codes[at])) * _SECOND
        second ^= second >> _THIRD
    return mix64(first ^ np.uint64(length)), mix64(second + np.uint64(length) * GOLDEN)


@kernel
def _text_hashes(narrow, wide, firsts, lengths, is_wide, out):  # type: ignore[no-untyped-def]
    for i in range(len(firsts)):
        first, end = firsts[i], firsts[i] + lengths[i]
        if is_wide[i]:
            out[i, 0], out[i, 1] = _text_hash(wide[first:end])
        else:
            out[i, 0], out[i, 1] = _text_hash(narrow[first:end])


@kernel
def _random_positions(seed, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        x = derive_seed(seed, _POSITION_PURPOSE + np.uint64(i))
        magnitude = ((x >> _HALF) * _MAGNITUDES) >> _HALF
        out[i] = np.int64(mix64(x) & ((np.uint64(2) << magnitude) - _ONE))


@kernel
def _position_hashes(narrow, wide, firsts, lengths, is_wide, positions, out):  # type: ignore[no-untyped-def]
    for i in range(len(firsts)):
        h = mix64(np.uint64(lengths[i]) + GOLDEN)
        for position in positions:
            if position < lengths[i]:
                at = firsts[i] + position
                code = np.uint64(wide[at]) if is_wide[i] else np.uint64(narrow[at])
                h = mix64(h ^ code) + GOLDEN
        out[i] = h


@kernel
def _hash_keys(hashes, seed, out):  # type: ignore[no-untyped-def]
    key_seed = derive_seed(seed, _KEY_PURPOSE)
    for i in range(len(hashes)):
        key = key_seed
        for j in range(hashes.shape[1]):
            key = mix64(key ^ hashes[i, j])
        out[i] = key
