"""Hashing: the mixing function, the polynomial over shingles, and the hash of many values into one.

Signatures are a format. Every constant in this file decides bucket keys, so a change of any of them makes a new
generation; known-answer tests notice it. Nothing here uses Python's ``hash``.

Source of ``mix64``: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the
constants of Stafford's variant 13. It is a bijection of the 64-bit integers.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined, kernel

# 2^64 / golden ratio, odd: steps a counter into well separated seeds (SplitMix64).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Base of the polynomial hash modulo 2^64: the largest prime that is 5 modulo 8 and below 2^64 times the fractional part
# of the square root of three. So it shares no structure with GOLDEN. It is odd, so no character vanishes in the
# product; its powers have the longest possible period, 2^62.
BASE = np.uint64(0xBB67AE8584CAA605)

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S29 = np.uint64(29)


@inlined
def mix64(x):
    """A bijection of ``uint64``; every output bit depends on every input bit (SplitMix64's finaliser)."""
    x ^= x >> _S30
    x *= _M1
    x ^= x >> _S27
    x *= _M2
    x ^= x >> _S31
    return x


@inlined
def derive_seed(seed, purpose):
    """Derive the seed of one purpose (a round, a band, a function) from a configured seed; ``uint64`` in and out."""
    return mix64(seed + (purpose + np.uint64(1)) * GOLDEN)


@kernel("i64, i64", "u64, u64")
def seed_of(seed, purpose):
    """``derive_seed`` for Python."""
    return derive_seed(seed, purpose)


@kernel("const u8[], const i64[], u64, u64[]")
def hash_strings(data, starts, seed, out):
    """64-bit hashes of n byte strings, ``data[starts[i]:starts[i + 1]]`` of ``uint8``, into ``out``, ``uint64[n]``."""
    for i in range(len(out)):
        out[i] = string_hash(data, starts[i], starts[i + 1], seed)


@inlined
def string_hash(data, first, end, seed):
    """The 64-bit hash of the bytes ``data[first:end]`` (``uint8``)."""
    h = seed
    for j in range(first, end):
        h = h * BASE + (np.uint64(data[j]) + np.uint64(1))
    return mix64(h)


@inlined
def bag_term(value):
    """The term of a hashed value in the second sum of the hash of a bag; in the first sum the value is its own term."""
    return value ^ (value >> _S29)


@inlined
def bag_hash(first, second, count):
    """The 128-bit hash of a bag of ``count`` values, from its two sums."""
    return mix64(first + np.uint64(count)), mix64(second * GOLDEN ^ np.uint64(count))


@kernel("u64[], i64[], u64[,]")
def hash_bags(values, starts, out):
    """128-bit hashes of n bags of hashed values, ``values[starts[i]:starts[i + 1]]``, into ``out``, ``uint64[n, 2]``.

    The order of a bag makes no difference; repetitions do. The hash is two sums modulo 2^64 of well-mixed hashes.
    """
    for i in range(len(out)):
        first, second = np.uint64(0), np.uint64(0)
        bag = values[starts[i] : starts[i + 1]]
        for j in range(len(bag)):
            first += bag[j]
            second += bag_term(bag[j])
        out[i, 0], out[i, 1] = bag_hash(first, second, len(bag))
