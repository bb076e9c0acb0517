"""Intervals for what was counted in a sample. Pure functions; their laws are in ``tests/stream/estimates``.

The units of a sample must be drawn independently of each other: contents, not the pairs of one content, because those
come in lumps. ``effective_units`` says how many independent units a sum over lumps is worth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.evaluation.judging import Proportion

# The probability with which an interval holds the truth, at least, and that of an error at each end.
_CONFIDENCE = 0.95
_TAIL = (1 - _CONFIDENCE) / 2
# Halvings of an interval: more change no digit of a float64 between 0 and 1 that is shown.
_HALVINGS = 40
# Counts so many standard deviations above the mean are as improbable as the rounding of a float64.
_DEVIATIONS = 9
# Of the error at one end of ``recall_of``: what is found, and what could not be seen. An error in either moves a high
# recall little, so nearly all of it is left to what was missed.
_SMALL_PART = 0.1


class Stratum(NamedTuple):
    """A part of a population, and a simple random sample of it: ``units`` of the ``sampled`` ones of ``size`` have the
    property."""

    units: int
    sampled: int
    size: int

    @property
    def estimate(self) -> float:
        """Return how many units the whole part has, by the fraction in the sample."""
        return self.size * self.units / self.sampled if self.sampled else 0.0


def clopper_pearson(found: int, units: int) -> Proportion:
    """Return the fraction ``found`` of ``units`` that were drawn, with an interval that holds the truth at least as
    often as ``_CONFIDENCE`` says; NaN for a sample of nothing.

    It is exact: whatever the truth is, and however few units there are. For a sample without replacement from few units
    it is wider than needed. Source: Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 26, 1934.

    >>> [round(x, 3) for x in clopper_pearson(8, 10)]
    [0.8, 0.444, 0.975]
    """
    if units == 0:
        return Proportion(math.nan, math.nan, math.nan)
    # The fraction at which ``found`` or more is as improbable as ``_TAIL``; the other end is that of what is not found.
    low = 0.0 if found == 0 else _fraction_with_tail(found, units, _TAIL)
    high = 1.0 if found == units else 1 - _fraction_with_tail(units - found, units, _TAIL)
    return Proportion(found / units, low, high)


def _fraction_with_tail(found: int, units: int, tail: float) -> float:
    """The fraction p at which ``found`` or more of ``units`` have the property with probability ``tail``."""
    # It is below found / units, so counts far above ``found`` bring nothing: the time grows with the root of the units.
    counts = np.arange(found, min(units, found + 40 + _DEVIATIONS * math.isqrt(units)) + 1)
    first = math.lgamma(units + 1) - math.lgamma(found + 1) - math.lgamma(units - found + 1)
    choices = first + np.append(0.0, np.cumsum(np.log((units - counts[:-1]) / counts[1:])))
    low, high = 0.0, found / units
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        at_least = np.exp(choices + counts * math.log(p) + (units - counts) * math.log1p(-p)).sum()
        low, high = (p, high) if at_least < tail else (low, p)
    return (low + high) / 2


def count_bounds(stratum: Stratum, tail: float) -> tuple[int, int]:
    """Return the least and the greatest number of units that a part of a population may have.

    They are exact for a sample without replacement: each end is wrong with probability ``tail`` at most, and a part
    that was looked at whole has no error. Source: Buonaccorsi, "A note on confidence intervals for proportions in
    finite populations", The American Statistician 41, 1987.

    >>> count_bounds(Stratum(0, 100, 1_000), 0.025), count_bounds(Stratum(3, 10, 10), 0.025)
    ((0, 34), (3, 3))
    """
    units, sampled, size = stratum
    return size - _greatest(sampled - units, sampled, size, tail), _greatest(units, sampled, size, tail)


def _greatest(units: int, sampled: int, size: int, tail: float) -> int:
    """The greatest number of units of a part for which a sample has ``units`` or fewer more often than ``tail``."""
    low, high = units, size - (sampled - units)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _at_most(units, sampled, size, middle) > tail else (low, middle - 1)
    return low


def _at_most(units: int, sampled: int, size: int, of_size: int) -> float:
    """The probability that a sample has ``units`` or fewer of the ``of_size`` units of a part: hypergeometric."""
    others = size - of_size
    counts = np.arange(units, max(0, sampled - others), -1)
    steps = counts * (others - sampled + counts) / ((of_size - counts + 1) * (sampled - counts + 1))
    first = _choices(of_size, units) + _choices(others, sampled - units) - _choices(size, sampled)
    return float(np.exp(first + np.append(0.0, np.cumsum(np.log(steps)))).sum())


def _choices(of: int, count: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)


def _with_unseen(seen: int, seen_min: float, tail: float) -> int:
    """The greatest number of units of which ``seen`` or fewer are seen more often than ``tail``."""
    chance, unseen = 1 - seen_min, math.floor(seen * (1 / seen_min - 1))
    while chance > 0:
        term, below = 1.0, 0.0  # of the binomial, without its power of ``seen_min``
        for count in range(unseen + 1):
            below += term
            term *= (seen + unseen + 1 - count) / (count + 1) * chance / seen_min
        if 1 - below * seen_min ** (seen + unseen + 1) <= tail:
            break
        unseen += 1
    return seen + unseen


def share_of(stratum: Stratum, seen_min: float = 1.0) -> Proportion:
    """Return the fraction of a part of a population that has a property, with an interval; NaN for a sample of nothing.
    Where the property is, it is seen with a probability of ``seen_min`` at least.

    >>> [round(x, 3) for x in share_of(Stratum(95, 100, 1_000))]
    [0.95, 0.889, 0.982]
    """
    if not stratum.sampled:
        return Proportion(math.nan, math.nan, math.nan)
    low, high = count_bounds(stratum, (1 - _SMALL_PART) * _TAIL)
    most = min(stratum.size, _with_unseen(high, seen_min, _SMALL_PART * _TAIL))
    return Proportion(stratum.units / stratum.sampled, low / stratum.size, most / stratum.size)


def recall_of(found: Stratum, missed: Stratum, seen_min: float = 1.0) -> Proportion:
    """Return which part of what was to be found was ``found``, from samples of that and of what was ``missed``, with an
    interval; NaN if no unit was seen. A missed unit is seen with a probability of ``seen_min`` at least.

    Where duplicates are rare, a sample of all contents has few units. But what a run found is known, and the others can
    be few once those are left out that cannot be units. The error of an end is divided among the numbers that it
    depends on, so the interval holds the truth at least as often as ``_CONFIDENCE`` says (Bonferroni). Source: Wendell,
    Schmee, "Exact inference for proportions from a stratified finite population", JASA 91, 1996.

    >>> [round(x, 3) for x in recall_of(Stratum(300, 300, 900), Stratum(0, 1_000, 2_000))]
    [1.0, 0.994, 1.0]
    """
    if not found.units and not missed.units:
        return Proportion(math.nan, math.nan, math.nan)
    small = _SMALL_PART * _TAIL
    found_least, found_most = count_bounds(found, small)
    missed_least, missed_most = count_bounds(missed, _TAIL - 2 * small)
    low = found_least / max(1, found_least + _with_unseen(missed_most, seen_min, small))
    high = _with_unseen(found_most, seen_min, small)
    value = found.estimate / (found.estimate + missed.estimate)
    return Proportion(value, low, high / max(1, high + missed_least))


def effective_units(weights: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> float:
    """Return how many units of one weight a weighted sum is worth, such as pairs of contents: the square of the sum by
    the sum of the squares. Source: Kish, "Survey Sampling", Wiley, 1965, section 8.2.

    >>> [round(effective_units(np.array(x)), 2) for x in ([1, 1, 1, 1], [100, 1, 1])]
    [4.0, 1.04]
    """
    total, squares = float(weights.sum()), float((weights.astype(np.float64) ** 2).sum())
    return total**2 / squares if squares else 0.0
