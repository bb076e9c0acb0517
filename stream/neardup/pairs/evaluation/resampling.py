"""A bootstrap over units: intervals (95 %) of what follows from sums over rows that may depend on each other.

Rows of one unit stay together: units are drawn again, each a Poisson number of times. So nothing is assumed of the rows
inside a unit. The same input has the same interval in every process.

Source: Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# What is drawn again: single units up to this number, else as many groups of them; how often; and the ends of 95 %.
_GROUPS_MAX = 2_000
RESAMPLES = 1_000
_TAILS = (0.025, 0.975)


def resampled(sums: Floats, units: Ints) -> Floats | None:
    """Return k sums over n rows (``float64[k, n]``) in each resample of their units, ``float64[k, RESAMPLES]``;
    ``None`` with a single unit."""
    drawn = draws(units)
    if drawn is None:
        return None
    groups, times = drawn
    of_group = np.stack([np.bincount(groups, row, len(times)) for row in sums])
    return np.asarray(of_group @ times, np.float64)


def draws(units: Ints) -> tuple[Ints, Floats] | None:
    """Return the group of each of n rows, ``int64[n]``, and how often each group is in each resample,
    ``float64[groups, RESAMPLES]``; ``None`` with a single unit. Arguments are those of ``resampled``."""
    unit_of = np.unique(units, return_inverse=True)[1]
    groups = min(_GROUPS_MAX, int(unit_of.max(initial=-1)) + 1)
    return None if groups < 2 else (unit_of % groups, _poisson(groups, RESAMPLES))


def interval(drawn: Floats) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends, of the values of each measure in resamples, ``float64[m, RESAMPLES]``.

    A resample in which a measure is no number does not count.
    """
    ordered = np.sort(drawn)  # NaN is at the end
    last = np.maximum(0, np.isfinite(ordered).sum(axis=1) - 1)
    low, high = (ordered[np.arange(len(ordered)), np.rint(tail * last).astype(np.int64)].tolist() for tail in _TAILS)
    return low, high


@lru_cache(maxsize=1)
def _poisson(rows: int, columns: int) -> Floats:
    """Poisson numbers of mean 1, ``float64[rows, columns]``: how often each row is drawn in each resample.

    They are the same in every process: splitmix64 of their index.
    """
    numbers = np.arange(1, rows * columns + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ numbers >> np.uint64(shift)) * np.uint64(factor)
    numbers ^= numbers >> np.uint64(31)
    chances = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(20)])
    return np.searchsorted(chances, numbers / 2.0**64, side="right").reshape(rows, columns).astype(np.float64)
