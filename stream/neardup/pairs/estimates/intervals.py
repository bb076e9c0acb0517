"""Intervals for what was counted in a sample. Pure functions; their laws are in ``tests/stream/estimates``.

The units of a sample must be drawn independently of each other: contents, not the pairs of one content, because those
come in lumps. ``effective_units`` says how many independent units a sum over lumps is worth.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from neardup.pairs.evaluation.judging import Proportion

# Halvings of an interval: more change no digit of a float64 between 0 and 1 that is shown.
_HALVINGS = 40
# Counts so many standard deviations above the mean are as improbable as the rounding of a float64.
_DEVIATIONS = 9


def clopper_pearson(found: int, units: int, confidence: float = 0.95) -> Proportion:
    """Return a fraction with an interval that holds the truth at least as often as ``confidence`` says.

    It is exact: whatever the truth is, and however few units there are. For a sample without replacement from few
    units it is wider than needed. Source: Clopper, Pearson, "The use of confidence or fiducial limits illustrated in
    the case of the binomial", Biometrika 26, 1934.

    Args:
        found: the units of the sample that have the property.
        units: the units of the sample.
        confidence: the probability with which the interval holds the truth, below 1.

    Returns:
        The fraction and the ends of its interval; NaN for a sample of nothing.

    Example:
        >>> [round(x, 3) for x in clopper_pearson(8, 10)]
        [0.8, 0.444, 0.975]
    """
    if units == 0:
        return Proportion(math.nan, math.nan, math.nan)
    tail = (1 - confidence) / 2
    # The fraction at which ``found`` or more is as improbable as ``tail``; the other end is that of what is not found.
    low = 0.0 if found == 0 else _fraction_with_tail(found, units, tail)
    high = 1.0 if found == units else 1 - _fraction_with_tail(units - found, units, tail)
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


def effective_units(weights: npt.NDArray[np.int64]) -> float:
    """Return how many units of one weight a weighted sum is worth: the square of the sum by the sum of the squares.

    Source: Kish, "Survey Sampling", Wiley, 1965, section 8.2.

    Args:
        weights: ``int64[n]``, how much each sampled unit brings, for example pairs of a content.

    Returns:
        A number of units, from 1 to n; 0 without weights.

    Example:
        >>> [round(effective_units(np.array(x)), 2) for x in ([1, 1, 1, 1], [100, 1, 1])]
        [4.0, 1.04]
    """
    total, squares = float(weights.sum()), float((weights.astype(np.float64) ** 2).sum())
    return total**2 / squares if squares else 0.0
