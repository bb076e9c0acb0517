"""The threshold that judged pairs propose: the one with the fewest errors among them.

A pair from the threshold on that was judged different is a false pair, one below it that was judged the same is missed.
With weight w a false pair costs w and a missed one 1 - w, as in ``neardup.schemes.theory.weighing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.pairs.evaluation.resampling import RESAMPLES, draws, interval

# Digits of a threshold, at most: those of a similarity as it is shown.
_DIGITS_MAX = 4
# Numbers of pairs in resamples that are in memory at once.
_CELLS = 1 << 22


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


class Calibrated(NamedTuple):
    """A threshold with the ends of its interval, and what it does with judged pairs, as ``Proposed``; ``None`` where
    too few were judged, or all alike."""

    threshold: float | None
    low: float | None
    high: float | None
    same: int
    different: int
    missed: int | None
    false: int | None


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


def interval_of(
    similarity: npt.NDArray[np.float64], same: npt.NDArray[np.bool_], false_weight: float = 0.5
) -> tuple[float, float]:
    """Return the ends of the ranges of the best thresholds in 95 of 100 resamples of n judged pairs, of both kinds; the
    parameters are those of ``propose``.

    >>> similarity = np.arange(100) / 100
    >>> low, high = interval_of(similarity, similarity >= 0.6)
    >>> 0.5 < low < 0.6 <= high < 0.7
    True
    """
    order = np.argsort(similarity, kind="stable")
    similarity, same = similarity[order], same[order]
    found = draws(np.arange(len(same)))
    assert found is not None, "pairs of both kinds are two"
    groups, times = found
    edges = np.unique(np.concatenate([[0.0], similarity, [1.0]]))
    below, widths = np.searchsorted(similarity, edges[1:]), np.diff(edges)
    ends, columns = np.empty((2, RESAMPLES)), max(1, _CELLS // len(same))
    for begin in range(0, RESAMPLES, columns):
        part = slice(begin, begin + columns)
        drawn = times[groups, part]
        sums = [
            np.vstack([np.zeros(drawn.shape[1]), np.cumsum(drawn * kind[:, None], axis=0)]) for kind in (same, ~same)
        ]
        missed, false = sums[0][below], sums[1][-1] - sums[1][below]
        # Of equal ones the widest.
        costs = false_weight * false + (1 - false_weight) * missed - 1e-9 * widths[:, None]
        best = np.argmin(costs, axis=0)
        has_both = (sums[0][-1] > 0) & (sums[1][-1] > 0)
        ends[:, part] = np.where(has_both, np.stack([edges[best], edges[best + 1]]), np.nan)
    lows, highs = interval(ends)
    return lows[0], highs[1]


def calibrated(
    by_signal: Mapping[str, npt.NDArray[np.float64]],
    same: npt.NDArray[np.bool_],
    false_weight: float = 0.5,
    pairs_min: int = 2,
) -> dict[str, Calibrated]:
    """Return the threshold of each signal by the judged pairs of which both sides have it: the others are NaN. A signal
    of fewer than ``pairs_min`` has none. The other parameters are those of ``propose``.

    >>> found = calibrated({"text": np.array([0.3, 0.9]), "title": np.array([0.5, np.nan])}, np.array([False, True]))
    >>> found["text"][:3], found["title"][:3]
    ((0.6, 0.3, 0.9), (None, None, None))
    """
    out = {}
    for name, similarity in by_signal.items():
        known = ~np.isnan(similarity)
        values, answers = np.clip(similarity[known], 0.0, 1.0), same[known]
        counts = int(answers.sum()), int((~answers).sum())
        out[name] = Calibrated(None, None, None, *counts, None, None)
        if min(counts) > 0 and sum(counts) >= pairs_min:
            found, ends = propose(values, answers, false_weight), interval_of(values, answers, false_weight)
            low, high = (round(end, _DIGITS_MAX) for end in ends)
            out[name] = Calibrated(found.threshold, low, high, *counts, found.missed, found.false)
    return out


def _shortest(wanted: float, low: float, high: float) -> float:
    """A threshold with the fewest digits that lies above ``low`` and up to ``high``, near the one that is wanted."""
    rounded = (round(wanted, digits) for digits in range(1, _DIGITS_MAX + 1))
    return next((value for value in rounded if low < value <= high), high)
