"""Calibration: the fraction of true pairs at a score, from a field that is not scored.

The method needs a field that differs less between two records of one entity than between records of two entities:
dates, heights, years. Let its mean difference be h0 for surely true pairs, h1 for random records, and h for the pairs
of some score. If a fraction f of them is true, then h = f h0 + (1 - f) h1, so f = (h1 - h) / (h1 - h0). No label is
needed.

The result is correct if the pairs of a score are a mixture of the two kinds with regard to that field. A field that
decides which records are compared, or that depends on a scored field, gives too high a fraction.

Source: Mining of Massive Datasets, 3.8.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.pairs.evaluation.resampling import RESAMPLES, interval, resampled

# Half of the width of an interval that holds in 95 of 100 cases, in standard errors.
DEVIATIONS = 1.96
_DAY_SECONDS = 86_400.0
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Mean(NamedTuple):
    """A mean difference, its standard error (0 if the caller gave the mean, NaN for a single pair) and its pairs."""

    value: float
    error: float
    pairs: int


class Bin(NamedTuple):
    """Pairs with a similarity, or a size of their cluster, of at least ``low`` and below ``high`` (the last bin
    includes its upper end).

    ``true_share`` estimates how many of them are true, ``least`` and ``most`` are the ends of its interval. All three
    are in [0, 1], and NaN for too few pairs."""

    low: float
    high: float
    pairs: int
    difference: float
    true_share: float
    least: float
    most: float


def true_share(difference: float, matched: float, random: float) -> float:
    """Return (h1 - h) / (h1 - h0), the fraction of true pairs where the mean difference is ``difference``.

    ``matched`` is h0, the mean difference of true pairs; ``random`` is h1, the mean difference of random records. An
    estimate can be below 0 or above 1. Raises ``ConfigError`` unless h1 is greater than h0.

    >>> true_share(difference=17, matched=10, random=45)
    0.8
    """
    if not random > matched:
        raise ConfigError(
            f"records at random differ by {random:g} on average and true pairs by {matched:g}: the field does not "
            "separate them, so use one in which true pairs differ less"
        )
    return (random - difference) / (random - matched)


def mean_difference(differences: npt.ArrayLike, groups: Ints | None = None) -> Mean:
    """Return the mean of ``float[n]`` with its standard error; NaN if n is 0.

    Differences of one group (``int64[n]``) may depend on each other: the error is that of the sums of groups. Without
    groups, each is one of its own.

    >>> mean_difference([0, 0, 4, 4], np.array([7, 7, 8, 8]))
    Mean(value=2.0, error=2.0, pairs=4)
    """
    values = np.asarray(differences, np.float64)
    n = len(values)
    if n == 0:
        return Mean(math.nan, math.nan, 0)
    mean = float(values.mean())
    sums = np.asarray(values - mean, np.float64)
    if groups is not None:
        sums = np.asarray(np.bincount(np.unique(groups, return_inverse=True)[1], sums), np.float64)
    k = len(sums)
    error = math.sqrt(k / (k - 1) * float((sums**2).sum())) / n if k > 1 else math.nan
    return Mean(mean, error, n)


def random_difference(values: npt.ArrayLike, difference_max: float = math.inf) -> Mean:
    """Return the exact mean of |x - y| over all pairs of ``float[n]`` that differ by ``difference_max`` at most.

    The error assumes that the n records are a sample of many. Cost: O(n log n).

    >>> random_difference([1, 2, 4]).value
    2.0
    >>> random_difference([1, 2, 4], difference_max=2).value
    1.5
    """
    x = np.sort(np.asarray(values, np.float64))
    sums = np.concatenate([[0.0], np.cumsum(x)])
    below = np.arange(len(x))
    # For each value: the smaller values before it that are near enough, and the greater values after it.
    first = np.searchsorted(x, x - difference_max, "left")
    end = np.searchsorted(x, x + difference_max, "right")
    before, behind = below - first, end - below - 1
    totals = x * before - (sums[below] - sums[first]) + (sums[end] - sums[below + 1]) - x * behind
    return _mean_of_pairs(totals, before + behind)


def random_disagreement(values: Sequence[str]) -> Mean:
    """Return the exact fraction of unequal pairs among all pairs of n texts; the error assumes a sample of many.

    >>> random_disagreement(["a", "a", "b"]).value == 2 / 3
    True
    """
    _, kind, counts = np.unique(np.array(values, np.str_), return_inverse=True, return_counts=True)
    differ = (len(values) - counts[kind]).astype(np.float64)
    return _mean_of_pairs(differ, np.full(len(values), len(values) - 1))


class Clustered(NamedTuple):
    """n pairs of which those of one cluster may depend on each other: the cluster of each (``int64[n]``), and whether
    it is surely true (``bool[n]``)."""

    clusters: Ints
    sure: npt.NDArray[np.bool_]


def bins(
    similarity: Floats,
    differences: Floats,
    matched: Mean,
    random: Mean,
    edges: Sequence[float],
    clustered: Clustered | None = None,
) -> list[Bin]:
    """Return the fraction of true pairs in each bin of similarity (or of another number), for n pairs.

    ``edges`` ascend; bin i holds similarities from ``edges[i]`` to below ``edges[i + 1]``, and the last bin includes
    its upper edge. Empty bins are left out. The interval of the ratio follows from the errors of three means (delta
    method), which needs about 30 pairs in a bin. For pairs of clusters it is that of a bootstrap over clusters, which
    needs two clusters in a bin.
    """
    bins = np.searchsorted(np.asarray(edges), similarity, "right") - 1
    bins[similarity == edges[-1]] = len(edges) - 2
    out = []
    for at, (low, high) in enumerate(pairwise(edges)):
        inside = bins == at
        here = mean_difference(differences[inside])
        if here.pairs:
            fraction, error = _fraction(here, matched, random)
            least, most = fraction - DEVIATIONS * error, fraction + DEVIATIONS * error
            if clustered is not None:
                least, most = _resampled_fraction(inside, differences, random, clustered)
            out.append(Bin(low, high, here.pairs, here.value, *(_within(part) for part in (fraction, least, most))))
    return out


def number(value: object) -> float | None:
    """Read a finite number, or a text with one; ``None`` for anything else.

    >>> number("1999"), number(2.5), number("old"), number(True)
    (1999.0, 2.5, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def date(value: object) -> float | None:
    """Read a date or time in ISO 8601 as days since 1970 (UTC if it names no zone); ``None`` for anything else.

    >>> date("1970-01-03"), date("19700102"), date("1970-01-01T12:00:00Z"), date(5)
    (2.0, 1.0, 0.5, None)
    """
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() / _DAY_SECONDS
    except (ValueError, OverflowError):
        return None


def text(value: object) -> str | None:
    """Return a text that is not empty, unchanged; ``None`` for anything else."""
    return value if isinstance(value, str) and value else None


class Kind(NamedTuple):
    """One row of ``KINDS``: how a value is read, how two columns differ, and how random values differ."""

    read: Callable[[object], float | str | None]
    differ: Callable[[Sequence[float | str], Sequence[float | str]], Floats]
    at_random: Callable[[Sequence[float | str], float], Mean]


def _distances(a: Sequence[float | str], b: Sequence[float | str]) -> Floats:
    return np.abs(np.array(a, np.float64) - np.array(b, np.float64))


def _unequal(a: Sequence[float | str], b: Sequence[float | str]) -> Floats:
    return np.array([x != y for x, y in zip(a, b, strict=True)], np.float64)


def _random_distances(values: Sequence[float | str], difference_max: float) -> Mean:
    return random_difference(np.array(values, np.float64), difference_max)


def _random_unequal(values: Sequence[float | str], difference_max: float) -> Mean:
    del difference_max  # a difference is 0 or 1
    return random_disagreement([str(value) for value in values])


# The type of a field -> how its values are read and compared. Texts are equal or not.
KINDS: dict[str, Kind] = {
    "number": Kind(number, _distances, _random_distances),
    "date": Kind(date, _distances, _random_distances),
    "text": Kind(text, _unequal, _random_unequal),
}


def _mean_of_pairs(totals: Floats, partners: npt.NDArray[np.int64]) -> Mean:
    """Return the mean over pairs, from the sum of differences and the number of partners of each record.

    Pairs of one record are not independent, so the error is the error of a mean over n records, counted twice.
    """
    pairs, n = int(partners.sum()), len(totals)
    if pairs == 0:
        return Mean(math.nan, math.nan, 0)
    value = float(totals.sum()) / pairs
    residuals = totals - value * partners
    error = 2 * math.sqrt(float((residuals**2).sum())) / pairs if n > 1 else math.nan
    return Mean(value, error, pairs // 2)


def _fraction(here: Mean, matched: Mean, random: Mean) -> tuple[float, float]:
    """Return the fraction of true pairs, and its standard error from the errors of the three means."""
    fraction = true_share(here.value, matched.value, random.value)
    variance = here.error**2 + (fraction * matched.error) ** 2 + ((1 - fraction) * random.error) ** 2
    return fraction, math.sqrt(variance) / (random.value - matched.value)


def _resampled_fraction(
    inside: npt.NDArray[np.bool_], differences: Floats, random: Mean, clustered: Clustered
) -> tuple[float, float]:
    """Return the interval of the fraction of true pairs among those ``inside``, by a bootstrap over all clusters.

    The surely true pairs are drawn with their clusters. The mean at random is that of records: it is drawn from a
    normal distribution with its error.
    """
    rows = np.stack([inside, inside * differences, clustered.sure, clustered.sure * differences])
    drawn = resampled(rows, clustered.clusters)
    if drawn is None or len(np.unique(clustered.clusters[inside])) < 2:
        return math.nan, math.nan
    count, total, sure_count, sure_total = np.where(drawn[[0, 0, 2, 2]] > 0, drawn, np.nan)
    normal = NormalDist()
    deviations = np.array([normal.inv_cdf((i + 0.5) / RESAMPLES) for i in range(RESAMPLES)])
    at_random = random.value + random.error * deviations
    (least,), (most,) = interval(((at_random - total / count) / (at_random - sure_total / sure_count))[None])
    return least, most


def _within(fraction: float) -> float:
    return fraction if math.isnan(fraction) else min(max(fraction, 0.0), 1.0)
