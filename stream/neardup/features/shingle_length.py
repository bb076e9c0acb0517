"""The length of shingles: a shingle of one document should rarely be in another document by chance.

If all strings of k characters were equally likely, an alphabet of a characters would give a^k of them. Some characters
are much likelier than others, so a is the size of the *effective* alphabet: the number of equally likely characters
with the same entropy (the perplexity, 2 to the power of the entropy). English texts with blanks have about 20. A given
shingle then occurs in a document of n characters with probability n / a^k, about. Two lengths follow:

- ``enough``: the probability is at most one in a thousand. For mails that is 5.
- ``safe``: two documents of independent characters share no shingle in 99 cases of a hundred (n^2 / a^k). For research
  articles that is 9.

Characters are not independent: words and phrases repeat, and most pairs of real texts share shingles of the ``safe``
length. So ``measured`` gives the similarities in a sample, and the fraction of its pairs with a common shingle.

Source: Mining of Massive Datasets, 3.2.2; Shannon, "Prediction and entropy of printed English", 1951.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.features.texts.normalize import CodePoints
from neardup.features.texts.shingles import chars
from neardup.features.texts.words import StopList
from neardup.features.tokens.bags import sorted_sets
from neardup.features.tokens.verify import SET_MEASURES

# The probability of a shingle in a document for ``enough``, and the expected number of common shingles for ``safe``.
_ENOUGH, _SAFE = 1e-3, 1e-2
# The longest shingles that the settings allow.
_K_MAX = 100
# Pairs of documents that are measured, and their characters in all: a part of a second for each length.
_PAIRS_MAX, _CHARACTERS_MAX = 100, 500_000


class SampleSummary(NamedTuple):
    """A summary of texts: their number, their median length, and the size of their effective alphabet."""

    documents: int
    characters: float
    alphabet: float


class Similarity(NamedTuple):
    """Similarities of pairs with shingles of k characters: the median, the upper decile, and the fraction of the pairs
    with a common shingle."""

    k: int
    median: float
    upper: float
    sharing: float


def sampled(codes: CodePoints) -> SampleSummary:
    """Summarise normalised texts; empty texts do not count. Raises ``ConfigError`` if all are empty."""
    lengths = codes.lengths[codes.lengths > 0]
    if len(lengths) == 0:
        raise ConfigError("the sample holds no text: name files with documents in them")
    shares = np.bincount(np.concatenate(list(_texts(codes)))) / lengths.sum()
    shares = shares[shares > 0]
    return SampleSummary(len(lengths), float(np.median(lengths)), float(np.exp(-(shares * np.log(shares)).sum())))


def expected(k: int, characters: float, alphabet: float) -> float:
    """The probability that a given shingle of ``k`` characters occurs in a document, at most 1.

    >>> round(expected(5, 14_348_907, 27), 3), expected(1, 1000, 1)
    (0.632, 1.0)
    """
    return -math.expm1(-characters * alphabet**-k)


def enough(characters: float, alphabet: float = 20.0) -> int:
    """The least k (1 to 100) whose shingles occur in a document with a probability of at most one in a thousand.

    >>> enough(2_000)
    5
    """
    return next((k for k in range(1, _K_MAX) if characters * alphabet**-k <= _ENOUGH), _K_MAX)


def safe(characters: float, alphabet: float = 20.0) -> int:
    """The least k (1 to 100) with which one of a hundred pairs shares a shingle, if all characters were independent.

    >>> safe(50_000)
    9
    """
    return next((k for k in range(1, _K_MAX) if characters**2 * alphabet**-k <= _SAFE), _K_MAX)


def measured(codes: CodePoints, lengths: range) -> list[Similarity]:
    """Similarities of up to 100 pairs of texts of a sample, for each k of ``lengths``; none for fewer than two texts.

    Text i is paired with text i + n / 2, which is seldom a near-duplicate.
    """
    some = np.flatnonzero(codes.lengths)
    some = some[np.unique(np.linspace(0, len(some) - 1, min(len(some), 2 * _PAIRS_MAX)).astype(np.int64))]
    within = int((np.cumsum(codes.lengths[some]) <= _CHARACTERS_MAX).sum())
    some = some[: max(within, 2) // 2 * 2]
    if len(some) < 2:
        return []
    chosen = codes._replace(starts=codes.starts[some], lengths=codes.lengths[some], is_wide=codes.is_wide[some])
    out = []
    for k in lengths:
        values, starts = sorted_sets(*chars(chosen, k, StopList()))
        half = len(some) // 2
        scores = SET_MEASURES["jaccard"].similarity(values, starts[: half + 1], values, starts[half:])
        out.append(Similarity(k, float(np.median(scores)), float(np.quantile(scores, 0.9)), float(np.mean(scores > 0))))
    return out


def _texts(codes: CodePoints) -> Iterator[npt.NDArray[np.uint32]]:
    """The code points of each text."""
    for first, length, is_wide in zip(codes.starts, codes.lengths, codes.is_wide, strict=True):
        buffer = codes.wide if is_wide else codes.narrow
        yield buffer[first : first + length].astype(np.uint32)
