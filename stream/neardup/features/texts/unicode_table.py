"""The table of the Unicode normaliser: one entry for each code point, derived from ``unicodedata``.

Normalisation N is a chain of Python's own functions, for example NFKC, case folding, NFKC. Most code points do not
interact with their neighbours under N. The table marks the code points that do, so that a kernel
(``neardup.features.texts.unicode_fold``) needs ``unicodedata`` only for rare cases. A code point has one of these
types:

- *simple*: N maps it to one code point, and it starts a new unit: nothing before it can change the result.
- *expanding*: as simple, but N maps it to several code points ("ß", "…", the Thai sara am).
- *mark*: N keeps it and its canonical combining class is not 0. Adjacent marks may have to be sorted by class.
- *second*: it can compose with a code point before it. It may be a mark (acute accent) or not (vowel signs of Indic
  scripts). N keeps it.
- *general*: all others, such as Hangul vowels and finals, or U+0345. ``unicodedata`` normalises the whole unit around
  such a code point.
- *ignorable*: invisible (a soft hyphen, a joiner, a variation selector), and N removes it. It is no boundary.
- *surrogate*: a text that holds a surrogate is refused.

Simple and expanding code points are boundaries: N(x + y) = N(x) + N(y) if y begins with a boundary. A code point is a
boundary if the first code point of its decomposition is neither a mark nor a second, before and after folding. U+037A
is an exception and counts as general: it decomposes into a blank and a mark that folding turns into a letter, and the
marks after it are sorted before folding.

The table takes about 4.5 MB and a tenth of a second. It is built when the first text that is not ASCII arrives, and
kept next to the compiled kernels (``neardup.machine.stored``).

Source: Unicode Standard Annex #15, "Unicode Normalization Forms", sections 9 (quick check) and 11 (stabilized code
points); Annex #44, Default_Ignorable_Code_Point; The Unicode Standard, 3.11, D108 to D117 (canonical ordering and
composition).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Layout of an entry. The low 21 bits are the mapped code point; for an expanding code point the start and the length of
# its expansion; otherwise the code ``GENERAL``, ``SURROGATE`` or ``IGNORABLE``.
PAYLOAD = np.uint32((1 << 21) - 1)
SPECIAL = np.uint32(1 << 21)  # expanding, general, surrogate or ignorable
MARK = np.uint32(1 << 22)  # a mark, or an expansion that ends in a mark
SECOND = np.uint32(1 << 23)  # can compose with the code point before it
FIRST = np.uint32(1 << 24)  # a second after it may compose with it or reorder into it; the bit above SECOND
EXPANDS = np.uint32(1 << 31)
# Between FIRST and EXPANDS: the rank of the combining class. A simple code point has the rank of the last code point of
# its canonical decomposition. Unicode has 56 classes; ranks of 6 bits keep their order.
RANK_SHIFT = np.uint32(25)
RANK_MASK = np.uint32(63)
EXPANSION_LENGTH_BITS = np.uint32(5)
# The kernel reads so many code points from the start of any expansion on.
EXPANSION_COPIED = 4
GENERAL, SURROGATE, IGNORABLE = 0, 1, 2

# The invisible code points, which Unicode's toNFKC_Casefold removes (Default_Ignorable_Code_Point): ranges, of
# which no later version has taken one away.
IGNORABLES = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

# A noncharacter. It is simple and composes with nothing, so it separates texts that are normalised together.
SEPARATOR = "\uffff"

_CODE_POINTS = 0x110000
# Code points are examined in chunks; most chunks hold no code point that changes.
_CHUNK = 512
# The probe, inserted between two code points: marks of class 1 and 234. A third mark between them breaks their order.
_PROBE = "\u0334\u035d"
# Conjoining vowels and finals compose by arithmetic, so no decomposition names them. U+11A7 precedes the finals.
_JAMO = (*range(0x1161, 0x1176), *range(0x11A7, 0x11C3))
_JAMO_TEXT = "".join(map(chr, _JAMO))
# Slots of the hash table of pairs; Unicode 16 has 964 pairs.
_PAIR_BITS = 12
PAIR_SHIFT = np.uint64(64 - _PAIR_BITS)
# 2^64 divided by the golden ratio: its product spreads the keys over the high bits.
PAIR_MULTIPLIER = 0x9E3779B97F4A7C15


class FoldTable(NamedTuple):
    """The arrays that the kernel reads: ``entries`` (``uint32[0x110000]``), consecutive expansions (``uint32``), and an
    open-addressed hash table of the primary composites: first << 21 | second (``uint64``, 0 is empty) and the composite
    (``uint32``)."""

    entries: npt.NDArray[np.uint32]
    expansions: npt.NDArray[np.uint32]
    pair_keys: npt.NDArray[np.uint64]
    composites: npt.NDArray[np.uint32]


class _Pairs(NamedTuple):
    """Canonical compositions: first << 21 | second to composite; their first code points; their last, with Hangul."""

    composites: dict[int, int]
    firsts: set[str]
    seconds: set[str]


def fold_table(steps: Callable[[str], str], *, composes: bool, fold_space: bool) -> FoldTable:
    """The table of the normalisation that ``steps`` computes for a string, a chain of ``unicodedata.normalize`` and
    ``str.casefold``.

    ``composes``: NFKC is one of the steps, which removes what is invisible; without it no code point interacts with
    another. ``fold_space``: white space (``str.isspace``) becomes a blank.
    """
    chunks = _chunks()
    pairs = _pairs(chunks) if composes else _Pairs({}, set(), set())
    marked = {ord(char) // _CHUNK for char in pairs.firsts | pairs.seconds}
    examined = [
        text
        for number, text in chunks.items()
        if number in marked or steps(text) != text or (composes and not _inert(number, text))
    ]
    # Every code point by default: simple and mapped to itself.
    entries = np.arange(_CODE_POINTS, dtype=np.uint32)
    expansions: list[int] = []
    if examined:
        fill = _fill_composing if composes else _fill
        fill(entries, expansions, "".join(examined), steps, pairs)
    for first, last in IGNORABLES if composes else ():
        entries[first : last + 1] = SPECIAL | np.uint32(IGNORABLE)
    entries[0xD800:0xE000] = SPECIAL | np.uint32(SURROGATE)
    if fold_space:
        entries[_white_space()] = np.uint32(0x20)
    keys, composites = _hash_table(pairs.composites)
    return FoldTable(entries, np.array(expansions + [0] * EXPANSION_COPIED, np.uint32), keys, composites)


def code_points_of(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a string, ``uint32[len(text)]``, lone surrogates included.

    NumPy copies them from the string's own buffer: 0.1 ns each; an encoder to UTF-32 takes 0.3 ns.
    """
    return np.array(text).reshape(1).view(np.uint32) if text else np.empty(0, np.uint32)


def text_of(codes: npt.NDArray[np.uint32]) -> str:
    """The string of these code points."""
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def _chunks() -> dict[int, str]:
    """All code points except surrogates, by the number of their chunk."""
    numbers = [n for n in range(_CODE_POINTS // _CHUNK) if not 0xD800 <= n * _CHUNK < 0xE000]
    return {n: text_of(np.arange(n * _CHUNK, (n + 1) * _CHUNK, dtype=np.uint32)) for n in numbers}


def _inert(number: int, text: str) -> bool:
    """Whether a chunk has no marks, no compatibility decompositions and no decompositions that hold a mark."""
    if not unicodedata.is_normalized("NFKC", _probed(np.arange(number * _CHUNK, (number + 1) * _CHUNK))):
        return False
    decomposed = unicodedata.normalize("NFD", text)
    return decomposed == text or unicodedata.is_normalized("NFD", _probed(code_points_of(decomposed)))


def _probed(codes: npt.NDArray[np.integer]) -> str:
    """A text of the code points, with the probe before and after each of them."""
    rows = np.empty((len(codes) + 1, 1 + len(_PROBE)), np.uint32)
    rows[:-1, 0] = codes
    rows[-1, 0] = ord(SEPARATOR)
    rows[:, 1:] = code_points_of(_PROBE)
    return text_of(np.concatenate([code_points_of(_PROBE), rows.reshape(-1)]))


def _pairs(chunks: dict[int, str]) -> _Pairs:
    """The canonical compositions of two code points into one."""
    composites: dict[int, int] = {}
    firsts, seconds = set(), set(map(chr, _JAMO))
    for text in chunks.values():
        if unicodedata.is_normalized("NFD", text):
            continue
        for char in text:
            parts = unicodedata.decomposition(char).split()
            if len(parts) == 2 and not parts[0].startswith("<"):
                first, second = (int(part, 16) for part in parts)
                seconds.add(chr(second))
                if unicodedata.normalize("NFC", chr(first) + chr(second)) == char:
                    composites[first << 21 | second] = ord(char)
                    firsts.add(chr(first))
    return _Pairs(composites, firsts, seconds)


def _fill(
    entries: npt.NDArray[np.uint32], expansions: list[int], examined: str, steps: Callable[[str], str], pairs: _Pairs
) -> None:
    """Enter the code points of ``examined`` where no code point interacts with another."""
    del pairs
    chars, separated = _separated(examined)
    for char, result in zip(chars, steps(separated).split(SEPARATOR), strict=True):
        if result != char:
            entries[ord(char)] = _boundary_entry(result, 0, expansions)


def _fill_composing(
    entries: npt.NDArray[np.uint32], expansions: list[int], examined: str, steps: Callable[[str], str], pairs: _Pairs
) -> None:
    """Enter the code points of ``examined`` where they may compose."""
    combining = unicodedata.combining
    chars, separated = _separated(examined)
    folded = steps(separated)
    results = folded.split(SEPARATOR)
    composed = unicodedata.normalize("NFKC", separated)
    befores = unicodedata.normalize("NFKD", composed).split(SEPARATOR)
    afters = unicodedata.normalize("NFD", folded).split(SEPARATOR)
    kinds = list(map(combining, chars))
    ranks = {kind: rank << int(RANK_SHIFT) for rank, kind in enumerate(sorted({0, *kinds}))}
    assert len(ranks) <= int(RANK_MASK) + 1, "more combining classes than ranks"
    inside = pairs.seconds | {char for char, kind in zip(chars, kinds, strict=True) if kind}
    columns = zip(chars, kinds, composed.split(SEPARATOR), results, befores, afters, strict=True)
    for char, kind, middle, result, before, after in columns:
        kept = char == result == after
        first = int(FIRST) if result[-1] in pairs.firsts else 0
        second = int(SECOND) if char in pairs.seconds else 0
        if char in inside and kept and char not in _JAMO_TEXT:
            entry = ord(char) | ranks[kind] | second | (int(MARK) if kind else first)
        elif before[0] in inside or after[0] in inside or (middle[-1] in inside and result[-1] not in inside):
            entry = int(SPECIAL) | GENERAL
        elif kept and not first:
            continue
        else:
            last = combining(after[-1])
            entry = _boundary_entry(result, ranks[last], expansions) | (int(FIRST) if last else first)
        entries[ord(char)] = entry


def _separated(examined: str) -> tuple[list[str], str]:
    """The code points of ``examined``, and a text that holds them with separators between them."""
    chars = list(examined.replace(SEPARATOR, ""))
    return chars, SEPARATOR.join(chars)


def _boundary_entry(result: str, last_rank: int, expansions: list[int]) -> int:
    """The entry of a simple or expanding code point; ``last_rank`` is already shifted."""
    if len(result) == 1:
        return ord(result) | last_rank
    start = len(expansions)
    expansions.extend(map(ord, result))
    payload = start << int(EXPANSION_LENGTH_BITS) | len(result)
    assert len(result) < 1 << int(EXPANSION_LENGTH_BITS), "an expansion is too long for its entry"
    assert payload <= int(PAYLOAD), "the expansions are too many for their entries"
    # unicodedata handles any second after an expansion, so an expansion is always marked as a first.
    marks = int(MARK) if unicodedata.combining(result[-1]) else 0
    return payload | int(SPECIAL | EXPANDS | FIRST) | marks | last_rank


def _white_space() -> npt.NDArray[np.uint32]:
    """Every code point for which ``str.isspace`` is true."""
    every = np.arange(_CODE_POINTS, dtype=np.uint32)
    others = code_points_of("".join(text_of(every).split()))
    space = np.ones(_CODE_POINTS, np.bool_)
    space[others] = False
    return every[space]


def _hash_table(pairs: dict[int, int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """A hash table of the pairs, with linear probing."""
    size = 1 << _PAIR_BITS
    assert len(pairs) <= size // 2, "more compositions than the table has room for"
    keys, composites = np.zeros(size, np.uint64), np.zeros(size, np.uint32)
    for key, composite in pairs.items():
        slot = (key * PAIR_MULTIPLIER & (1 << 64) - 1) >> int(PAIR_SHIFT)
        while keys[slot]:
            slot = (slot + 1) % size
        keys[slot], composites[slot] = key, composite
    return keys, composites
