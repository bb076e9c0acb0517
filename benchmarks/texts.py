"""Generated texts and the exact truth about them.

Words have the lengths and letters of English, and frequencies by Zipf's law, so that texts share k-grams as real texts
do. Some texts are earlier texts with words replaced, at similarities from near 1 to well below .8. A seed decides all
texts. The texts are in normal form already (ASCII, lower case, single blanks): no contender has to normalise them.

The oracle is an exact join over Python strings and shares no code with the library. A pair with Jaccard similarity t
or more shares one of the rarest (1 - t) n + 1 shingles of both; the oracle compares all such pairs in full.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup import Document

_LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjxqz"))
_LETTER_WEIGHTS = np.array(
    [
        12.7, 9.1, 8.2, 7.5, 7, 6.7, 6.3, 6.1, 6, 4.3, 4, 2.8, 2.8,
        2.4, 2.4, 2.2, 2, 1.9, 1.5, 1, 0.8, 0.8, 0.15, 0.15, 0.1, 0.07,
    ]
)  # fmt: skip
_VOCABULARY_WORDS = 20_000
_WORD_LETTERS_MEAN, _WORD_LETTERS_MAX = 5, 14
_COPY_OF_LAST = 500  # an edited copy is one of a text so many back at most

Ints = npt.NDArray[np.int64]
Shingler = Callable[[str], Iterable[str]]


class Kind(NamedTuple):
    """A kind of texts: words in a text, most characters, punctuation, most words replaced in an edited copy."""

    words: int
    characters: int | None
    punctuation: bool
    replaced_fraction_max: float


KINDS: dict[str, Kind] = {
    "5kb": Kind(words=1000, characters=5000, punctuation=True, replaced_fraction_max=0.14),
    "300w": Kind(words=300, characters=None, punctuation=False, replaced_fraction_max=0.07),
    "20w": Kind(words=20, characters=None, punctuation=False, replaced_fraction_max=0.05),
}


def char_shingles(text: str) -> list[str]:
    """Every 5 consecutive characters."""
    return [text[i : i + 5] for i in range(max(len(text) - 4, 1))]


def word_shingles(text: str) -> list[str]:
    """Every 3 consecutive words."""
    words = text.split()
    return list(map(" ".join, zip(words, words[1:], words[2:], strict=False))) or [text]


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Distinct words, the same in every process."""
    rng = np.random.default_rng(20_000)
    weights = _LETTER_WEIGHTS / _LETTER_WEIGHTS.sum()
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY_WORDS:
        length = min(1 + int(rng.poisson(_WORD_LETTERS_MEAN)), _WORD_LETTERS_MAX)
        words["".join(rng.choice(_LETTERS, length, p=weights))] = None
    return tuple(words)


@functools.cache
def _zipf() -> npt.NDArray[np.float64]:
    weights = 1 / np.arange(1, _VOCABULARY_WORDS + 1)
    return np.asarray(np.cumsum(weights) / weights.sum())


def draw_words(rng: np.random.Generator, count: int, punctuation: bool) -> list[str]:
    """Words by Zipf's law; with punctuation, a comma or a full stop follows one word in seven."""
    known = vocabulary()
    words = [known[i] for i in np.searchsorted(_zipf(), rng.random(count)).tolist()]
    if punctuation:
        for i in np.flatnonzero(rng.random(count) < 1 / 7).tolist():
            words[i] += "," if i % 2 else "."
    return words


def documents(kind: str, count: int, seed: int, edited_fraction: float = 0.25) -> list[Document]:
    """``count`` documents with ids of 20 bytes, ``edited_fraction`` of them edited copies of earlier ones."""
    shape = KINDS[kind]
    rng = np.random.default_rng(seed)
    recent: list[list[str]] = []
    out: list[Document] = []
    for i in range(count):
        if recent and rng.random() < edited_fraction:
            words = list(recent[int(rng.integers(len(recent)))])
            fraction = rng.random() * shape.replaced_fraction_max
            places = rng.choice(len(words), max(1, round(fraction * len(words))), replace=False).tolist()
            for place, word in zip(places, draw_words(rng, len(places), shape.punctuation), strict=True):
                words[place] = word
        else:
            words = draw_words(rng, shape.words, shape.punctuation)
            recent.append(words)
            del recent[:-_COPY_OF_LAST]
        out.append(Document(f"doc-{seed:04d}-{i:011d}", " ".join(words)[: shape.characters].strip()))
    return out


def shingle_sets(texts: Sequence[str], shingler: Shingler) -> list[Ints]:
    """The set of each text as sorted numbers: one number for each distinct shingle."""
    numbers: dict[str, int] = {}
    return [
        np.unique(np.array([numbers.setdefault(shingle, len(numbers)) for shingle in shingler(text)], np.int64))
        for text in texts
    ]


def jaccard(a: npt.NDArray[np.integer], b: npt.NDArray[np.integer]) -> float:
    """Exact Jaccard similarity of two sorted sets without repetitions."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


def rarest_first(sets: Sequence[npt.NDArray[np.integer]]) -> list[Ints]:
    """The same sets with their elements numbered from the rarest to the most frequent, sorted."""
    if not sets:
        return []
    _, flat, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    ends = np.cumsum([len(s) for s in sets])
    return [np.sort(part) for part in np.split(rank[flat], ends[:-1])]


def similar_pairs(sets: Sequence[npt.NDArray[np.integer]], threshold: float) -> dict[tuple[int, int], float]:
    """Every pair (i, j), i < j, with its exact Jaccard similarity, if that is at or above the threshold.

    Empty sets are in no pair.
    """
    ranked, common_of = rarest_first(sets), _compiled()
    seen: dict[int, list[int]] = {}
    found: dict[tuple[int, int], float] = {}
    for j, later in enumerate(ranked):
        prefix = later[: len(later) - math.ceil(threshold * len(later) - 1e-9) + 1].tolist()
        for i in {i for shingle in prefix for i in seen.get(shingle, ())}:
            total = len(ranked[i]) + len(later)
            common = common_of(ranked[i], later, math.ceil(threshold / (1 + threshold) * total - 1e-9))
            if common >= 0:
                found[i, j] = common / (total - common)
        for shingle in prefix:
            seen.setdefault(shingle, []).append(j)
    return found


@functools.cache
def _compiled() -> Callable[[Ints, Ints, int], int]:
    import numba  # here, because tests without a compiler take texts from this module

    compiled: Callable[[Ints, Ints, int], int] = numba.njit(cache=True)(_common)
    return compiled


def _common(a: Ints, b: Ints, least: int) -> int:
    """How many elements two sorted sets share, or -1 as soon as the number cannot reach ``least``."""
    i = j = common = 0
    while i < len(a) and j < len(b):
        if common + min(len(a) - i, len(b) - j) < least:
            return -1
        common += a[i] == b[j]
        step = a[i] <= b[j]
        j += b[j] <= a[i]
        i += step
    return common if common >= least else -1


def all_pairs(sets: Sequence[npt.NDArray[np.integer]], threshold: float) -> dict[tuple[int, int], float]:
    """The pairs that ``similar_pairs`` must find, by comparing all pairs of texts."""
    found = {}
    for j in range(len(sets)):
        for i in range(j):
            if len(sets[i]) and len(sets[j]):
                similarity = jaccard(np.asarray(sets[i], np.int64), np.asarray(sets[j], np.int64))
                if similarity >= threshold - 1e-12:
                    found[i, j] = similarity
    return found
