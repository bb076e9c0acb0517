"""Comparing word sets: which part of a text another one has said, and which numbers and names of it are new.

The two hashes of each word of the one set are marked in a row of 65,536 bits; a word of the other set has been said if
one of its hashes is marked, a name if both are. Numbers are compared as ascending rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.features.said.word_sets import (
    CLASS_BITS,
    CLASSES_A_UNIT,
    CUT_UNIT,
    HEADER_UNITS,
    LETTERS_MAX,
    NAME_CLASSES,
    NUMBER_WEIGHT,
    NUMBERS_UNIT,
    WEIGHTS,
    WORDS_UNIT,
    repeats_of,
)
from neardup.machine.compile import inlined, inner, kernel

_BITS_UNITS = (1 << 16) // 64
_ONE, _SIX, _LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)
_BOTH = 2  # hashes of a word


def numbers_of(sets: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return how many numbers each of m word sets has, ``int64[m]``; 1 more if the text has more than its set holds."""
    units, begins = sets[0], sets[1][:-1]
    return units[begins + NUMBERS_UNIT].astype(np.int64) + (units[begins + CUT_UNIT] & 1)


def said_parts(
    newer: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]],
    older: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compare m word sets with m others.

    Args:
        newer: the units of the sets (and of what follows them), and where each begins.
        older: the same of the others.

    Returns:
        The part of what each says that the other says, by weight, ``float64[m]`` in [0, 1]; 0 for a set without words
        and numbers. And the number of its numbers that the other lacks, ``int64[m]``, with those of its repeats if the
        other has a number that it lacks; 1 more if the text has more than its set holds. And how many of its names the
        other lacks, ``int64[m]``, if it lacks a name of the other or has it less often.
    """
    m = len(newer[1]) - 1
    said, (new, names) = np.empty(m), np.empty((2, m), np.int64)
    _compare(*newer, *older, np.zeros(_BITS_UNITS, np.uint64), said, new, names)
    return said, new, names


@kernel("const u32[], i64[], const u32[], i64[], u64[], f64[], i64[], i64[]", direct=True)
def _compare(newer, newer_starts, older, older_starts, bits, said, new, names):
    for i in range(len(said)):
        a, b = newer_starts[i], older_starts[i]
        words, numbers = np.int64(newer[a + WORDS_UNIT]), np.int64(newer[a + NUMBERS_UNIT])
        older_words, older_numbers = np.int64(older[b + WORDS_UNIT]), np.int64(older[b + NUMBERS_UNIT])
        begin = b + HEADER_UNITS
        for n in range(begin, begin + older_words):
            _mark(bits, older[n])
        total, found, names[i] = np.int64(0), np.int64(0), np.int64(0)
        first = a + HEADER_UNITS
        (repeats, own_names), (older_repeats, _) = repeats_of(newer, a), repeats_of(older, b)
        end = first + words + numbers + repeats
        for n in range(words):
            kind = _class_at(newer, end + own_names, n)
            is_name = kind > LETTERS_MAX
            total += np.int64(WEIGHTS[kind])
            marks = _marks(bits, newer[first + n])
            if marks:
                found += np.int64(WEIGHTS[kind])
            names[i] += is_name and marks < _BOTH
        _clear(bits, older, begin, begin + older_words)
        if names[i] and not _lacks_name(newer, a, older, b, bits):
            names[i] = 0
        own, others = first + words, begin + older_words  # where the numbers begin
        known = _common(newer[own : own + numbers], older[others : others + older_numbers])
        total, found = total + numbers * NUMBER_WEIGHT, found + known * NUMBER_WEIGHT
        said[i] = found / total if total else 0.0
        new[i] = numbers - known + np.int64(newer[a + CUT_UNIT] & 1)
        if repeats and known < older_numbers:
            own, others = own + numbers, others + older_numbers
            new[i] += repeats - _common(newer[own:end], older[others : others + older_repeats])


@inlined
def _class_at(units, begin, n):
    """Return the class of word n, of classes that begin at ``begin``."""
    return units[begin + n // CLASSES_A_UNIT] >> (np.uint32(n % CLASSES_A_UNIT) * CLASS_BITS) & np.uint32(15)


@inlined
def letters_at(units, begin, n):
    """Return how many letters word n has, ``LETTERS_MAX`` at most; the classes begin at ``begin``."""
    kind = np.int64(_class_at(units, begin, n))
    return kind - NAME_CLASSES if kind > LETTERS_MAX else kind


@inner
def _lacks_name(newer, a, older, b, bits):
    """Whether the newer text lacks a name of the older one, or has it less often."""
    words, older_words = np.int64(newer[a + WORDS_UNIT]), np.int64(older[b + WORDS_UNIT])
    (repeats, names), (older_repeats, older_names) = repeats_of(newer, a), repeats_of(older, b)
    first, begin = a + HEADER_UNITS, b + HEADER_UNITS
    end = first + words + np.int64(newer[a + NUMBERS_UNIT]) + repeats
    older_end = begin + older_words + np.int64(older[b + NUMBERS_UNIT]) + older_repeats
    if _common(newer[end : end + names], older[older_end : older_end + older_names]) < older_names:
        return True
    for n in range(first, first + words):
        _mark(bits, newer[n])
    lacks = False
    for n in range(older_words):
        lacks |= _class_at(older, older_end + older_names, n) > LETTERS_MAX and _marks(bits, older[begin + n]) < _BOTH
    _clear(bits, newer, first, first + words)
    return lacks


@inlined
def _clear(bits, words, begin, end):
    for n in range(begin, end):
        bits[(words[n] & np.uint32(0xFFFF)) >> np.uint32(6)] = 0
        bits[words[n] >> np.uint32(22)] = 0


@inlined
def _mark(bits, word):
    for half in (np.uint64(word & np.uint32(0xFFFF)), np.uint64(word >> np.uint32(16))):
        bits[half >> _SIX] |= np.uint64(1) << (half & _LOW_SIX)


@inlined
def _marks(bits, word):
    """Return how many of the two hashes of a word are marked."""
    low, high = np.uint64(word & np.uint32(0xFFFF)), np.uint64(word >> np.uint32(16))
    one, other = bits[low >> _SIX] >> (low & _LOW_SIX), bits[high >> _SIX] >> (high & _LOW_SIX)
    return np.int64(one & _ONE) + np.int64(other & _ONE)


@inlined
def _common(one, other):
    """Return how many numbers two ascending rows have in common."""
    i, j, count = 0, 0, np.int64(0)
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            i, j, count = i + 1, j + 1, count + 1
        elif one[i] < other[j]:
            i += 1
        else:
            j += 1
    return count
