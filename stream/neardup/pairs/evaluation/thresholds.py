"""The threshold that judged pairs propose: the one with the fewest errors among them.

A pair from the threshold on that was judged different is a false pair, one below it that was judged the same is missed.
With weight w a false pair costs w and a missed one 1 - w, as in ``neardup.schemes.theory.weighing``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError

# Digits of a threshold, at most: those of a similarity as it is shown.
_DIGITS_MAX = 4


class Proposed(NamedTuple):
    """A threshold, and what it does with judged pairs: ``same`` and ``different`` are how many were judged so,
    ``missed`` those of the first below it, ``false`` those of the second from it on. Each threshold above ``low`` and
    up to ``high`` does the same."""

    threshold: float
    low: float
    high: float
    same: int
    different: int
    missed: int
    false: int


def propose(similarity: npt.NDArray[np.float64], same: npt.NDArray[np.bool_], false_weight: float = 0.5) -> Proposed:
    """Return the threshold with the least weighted errors among n judged pairs.

    Of several that are equal it is the middle of the widest range, with as few digits as lie in the range. Where no
    pair was judged on one side of the range, it is the end next to the judged pairs.

    Args:
        similarity: ``float64[n]``, each in [0, 1].
        same: ``bool[n]``, whether the pair was judged to be one.
        false_weight: cost of a false pair, above 0 and below 1; a missed one costs 1 minus this.

    Raises:
        ConfigError: all pairs were judged alike, or there is none.

    >>> propose(np.array([0.2, 0.45, 0.61, 0.9]), np.array([False, False, True, True]))[:3]
    (0.5, 0.45, 0.61)
    """
    if not 0 < int(same.sum()) < len(same):
        raise ConfigError(
            f"{int(same.sum())} of {len(same)} judged pairs are the same, but a threshold needs pairs judged both "
            "ways: judge more pairs"
        )
    # Between two neighbours every threshold gives the same answer.
    edges = np.unique(np.concatenate([[0.0], similarity, [1.0]]))
    missed = np.searchsorted(np.sort(similarity[same]), edges[1:])
    false = int((~same).sum()) - np.searchsorted(np.sort(similarity[~same]), edges[1:])
    costs = false_weight * false + (1 - false_weight) * missed
    widths = np.diff(edges)
    best = int(np.lexsort((-widths, costs))[0])
    low, high = float(edges[best]), float(edges[best + 1])
    wanted = high if best == 0 else low if best == len(costs) - 1 else (low + high) / 2
    counts = int(same.sum()), int((~same).sum()), int(missed[best]), int(false[best])
    return Proposed(_shortest(wanted, low, high), low, high, *counts)


def _shortest(wanted: float, low: float, high: float) -> float:
    """A threshold with the fewest digits that lies above ``low`` and up to ``high``, near the one that is wanted."""
    rounded = (round(wanted, digits) for digits in range(1, _DIGITS_MAX + 1))
    return next((value for value in rounded if low < value <= high), high)
