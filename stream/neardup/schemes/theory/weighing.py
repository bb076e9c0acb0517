"""Weighing: bands, rows and ``score_min`` by a weight of false pairs against missed ones, instead of by a recall.

With a weight w in 0 to 1, a false pair costs w and a missed pair costs 1 - w. Similarities are assumed uniform in 0 to
1, so errors are areas:

- bands and rows have the least w F + (1 - w) M, where F is the area under the S-curve of candidates below the
  threshold, and M the area above it beyond the threshold. Ties go to more rows;
- ``score_min`` of an estimated score then has the least w F + (1 - w) M of emitted pairs, of that shape. It may lie
  above the threshold. An exact score emits no false pair, and ``score_min`` is the threshold.

The recall follows from the choice.

Source: Mining of Massive Datasets, 3.4.3; Zhu, Nargesian, Pu, Miller, "LSH Ensemble: Internet-scale domain search",
VLDB 2016, for the weighted areas.
"""

from __future__ import annotations

import math

import numpy as np

from neardup.errors import ConfigError
from neardup.schemes.theory.curves import AgreementLaw, Floats, areas, missed, row_agreement, similarity_at, simpson
from neardup.schemes.theory.shapes import shapes
from neardup.schemes.theory.tuning import Tuning, choose, remembered

# Below a count of equal rows, relative, where another formula computes the estimate from it.
_SLACK = 1e-9


@remembered
def weigh(
    false_weight: float,
    threshold: float,
    rows_max: int = 128,
    sketch_bits: int = 8,
    bands: int | None = None,
    rows: int | None = None,
    min_similarity: float | None = None,
    *,
    agreement: AgreementLaw | None = None,
    exact_score: bool = False,
    bands_min: int = 1,
) -> Tuning:
    """Choose bands, rows and ``score_min`` with the least weighted error.

    Args:
        false_weight: cost of a false pair, above 0 and below 1; a missed pair costs 1 minus this.
        threshold: similarity, above 0 and at most 1.
        rows_max, sketch_bits, bands, rows, agreement, exact_score, bands_min: as of
        ``neardup.schemes.theory.tuning.choose``.
        min_similarity: replaces ``score_min``, in [0, 1]; it does not change bands and rows.

    Returns:
        The tuning; its ``recall`` is the result.

    Raises:
        ConfigError: a value is out of range, or no shape fits.

    >>> [(weigh(w, threshold=0.8).bands, weigh(w, threshold=0.8).rows) for w in (0.1, 0.5, 0.9)]
    [(14, 9), (9, 13), (6, 21)]
    """
    if not 0 < false_weight < 1:
        raise ConfigError(f"false_weight is {false_weight}, but must lie between 0 and 1, both excluded, such as 0.5")
    law = sketch_bits, agreement
    fitting = shapes(rows_max, sketch_bits, bands, rows, bands_min)
    below, beyond = _points(0.0, threshold, law), _points(threshold, 1.0, law)
    errors = []
    for shape in fitting:
        false = float(below[1] @ (1 - _lost(below[0], *shape, bands_min)))
        errors.append(
            false_weight * false + (1 - false_weight) * float(beyond[1] @ _lost(beyond[0], *shape, bands_min))
        )
    index = min(range(len(fitting)), key=lambda i: (errors[i], -fitting[i][0] * fitting[i][1]))
    shape = fitting[index]
    if min_similarity is None:
        min_similarity = threshold if exact_score else _score_min(false_weight, threshold, shape, law, bands_min)
    return choose(
        threshold,
        0.5,  # no effect: the shape and the least score are given
        rows_max,
        sketch_bits,
        *shape,
        min_similarity,
        agreement=agreement,
        exact_score=exact_score,
        bands_min=bands_min,
    )


def _points(low: float, high: float, law: tuple[int, AgreementLaw | None]) -> tuple[Floats, Floats]:
    """Probabilities that a row agrees at points from ``low`` to ``high``, and the weights of the points in an area."""
    s, weights = simpson(low, high)
    return row_agreement(s, *law), weights


def _lost(q: Floats, bands: int, rows: int, bands_min: int) -> Floats:
    """The probability that fewer than ``bands_min`` bands agree, if a row agrees with probability ``q`` (any shape)."""
    band = q**rows
    ways = [math.comb(bands, full) * band**full * (1 - band) ** (bands - full) for full in range(bands_min)]
    return np.asarray(sum(ways))


def _score_min(
    false_weight: float, threshold: float, shape: tuple[int, int], law: tuple[int, AgreementLaw | None], bands_min: int
) -> float:
    """The least score of a pair with the least weighted error of emitted pairs; the greatest if several are equal."""
    total = shape[0] * shape[1]
    found = 1 - missed(*shape, bands_min)
    below, beyond = (areas(total, low, high, *law) for low, high in ((0.0, threshold), (threshold, 1.0)))
    # The cost to emit the pairs in which exactly m rows agree, minus the cost to miss them; summed from m on.
    costs = np.cumsum((found * (false_weight * below - (1 - false_weight) * beyond))[::-1])[::-1]
    least = int(np.flatnonzero(costs == costs.min()).max())
    bits, agreement = law
    return similarity_at(least / total if agreement is None else max(least / total - _SLACK, 0.0), bits, agreement)
