"""Tuning: the bands, the rows and the ``score_min`` that reach a recall at a threshold with the least false work.

``curves`` gives the probability that a row agrees: the similarity itself for MinHash and sampled bits, a function of it
for other families. Two items are candidates if all rows of some band agree. A candidate is a pair if its score is at
least ``score_min``:

- an *estimated* score is computed from the sketch. A pair passes if at least ``agreements_min`` of all rows agree;
  ``score_min`` is the estimate from that many rows and lies a margin below the threshold;
- an *exact* score is computed from the item itself, which the evidence holds. ``score_min`` is the threshold, and a
  candidate at the threshold always passes.

Guarantee: ``recall`` is the candidate probability times the probability to pass, for a pair at the threshold. It is a
lower bound of the fraction of such pairs that is emitted:

- independent rows (MinHash): both events grow with every row that agrees. By Harris' inequality their joint
  probability is at least the product; ``emission_probability`` is the exact value;
- rows of one permutation: the number of rows that agree varies less than the binomial, and less for smaller sets,
  because a round gives a shingle to one row only. The exact law of that scheme (in the tests) gives, for 18 bands of 7
  at .8, .956 for large sets and .974, .985 and .988 for unions of 500, 150 and 5 to 10 shingles. The promise is .953.

So small sets need no correction. In simulations of both schemes, for unions of 2 to 5,000 shingles and thresholds of .3
to .95, no fraction was below the promise by more than chance. (A union of one shingle is two equal sets.) The fraction
is over pairs, or over seeds.

Source: Mining of Massive Datasets, 3.4.1-3; Harris, "A lower bound for the critical probability in a certain
percolation process", 1960; Li, Koenig, "b-bit minwise hashing", WWW 2010.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.schemes.declared import ROWS_LIMIT
from neardup.schemes.theory.curves import (
    AgreementLaw,
    Floats,
    areas,
    candidate_probability,
    emission_probability,
    missed,
    pass_probability,
    row_agreement,
    similarity_at,
    simpson,
    tails,
)
from neardup.schemes.theory.shapes import BIT_ROW as BIT_ROW
from neardup.schemes.theory.shapes import SKETCH_BITS as SKETCH_BITS
from neardup.schemes.theory.shapes import rows_least, shapes

Given = ParamSpec("Given")
Found = TypeVar("Found")

# The cost of a false pair, in false candidates. A candidate costs one comparison of two sketches; a false pair is
# written, clustered and read. The choice at the default, 18 x 7 at .8, is the same from 1.4 to 35.
FALSE_PAIR_WEIGHT = 10.0
# Unrelated pairs for each pair of any other similarity, where rows agree for unrelated items, too. A stream compares a
# document with a million others, of which few are related to it.
UNRELATED_WEIGHT = 1000.0
# Relative error of sums of rounded numbers; as a number of rows it is far less than one.
_SLACK = 1e-9


class Tuning(NamedTuple):
    """Bands and rows, and their effect on a pair at ``threshold``.

    ``recall`` is ``candidate_probability`` times ``pass_probability``. A pair passes if ``agreements_min`` of the
    bands * rows rows agree; ``score_min`` is the similarity estimated from that many rows, ``margin`` below the
    threshold. With ``exact_score`` no rows are counted: the true similarity is compared with ``score_min``.
    ``agreement`` is the probability that a row agrees, by similarity (``None``: the similarity itself). Two items are
    candidates if at least ``bands_min`` bands agree.
    """

    bands: int
    rows: int
    sketch_bits: int
    threshold: float
    candidate_probability: float
    pass_probability: float
    recall: float
    agreements_min: int
    score_min: float
    margin: float
    exact_score: bool = False
    agreement: AgreementLaw | None = None
    bands_min: int = 1


class _Target(NamedTuple):
    """The target of a choice, and the law of its rows."""

    threshold: float
    recall: float
    bits: int
    agreement: AgreementLaw | None
    exact_score: bool
    false_pair_weight: float
    unrelated: float
    bands_min: int


def complete(threshold: float) -> Tuning:
    """Return the tuning of a scheme that misses no pair and scores exactly: ``score_min`` is the threshold."""
    return Tuning(0, 0, 0, threshold, 1.0, 1.0, 1.0, 0, threshold, 0.0, exact_score=True)


def keyed(threshold: float, min_similarity: float | None = None) -> Tuning:
    """Return the tuning of a scheme whose candidates do not depend on their similarity.

    Candidate probability and recall are NaN. The score is exact; ``score_min`` is ``min_similarity`` if it is given,
    else the threshold.
    """
    score_min = threshold if min_similarity is None else min_similarity
    return Tuning(0, 0, 0, threshold, math.nan, 1.0, math.nan, 0, score_min, threshold - score_min, exact_score=True)


def curve(tuning: Tuning, points: int = 101) -> tuple[Floats, Floats, Floats]:
    """Return the S-curve for a plot: similarities from 0 to 1, candidate probabilities, emission probabilities.

    Each is ``float64[points]``. Raises ``ConfigError`` for fewer than 2 points.
    """
    if points < 2:
        raise ConfigError(f"a curve needs at least 2 points, not {points}: set points to 2 or more")
    s = np.linspace(0.0, 1.0, points)
    return s, *probabilities(tuning, s)


def probabilities(tuning: Tuning, s: Floats) -> tuple[Floats, Floats]:
    """Return candidate and emission probabilities at similarities ``s`` (``float64[n]``, in [0, 1]).

    With estimated scores the emission probability is ``emission_probability``: at the threshold at least ``recall``.
    """
    if tuning.bands == 0:
        candidate = np.full(len(s), tuning.candidate_probability)
        return candidate, np.where(s >= tuning.score_min, candidate, 0.0)
    shape, law = (tuning.bands, tuning.rows), (tuning.sketch_bits, tuning.agreement)
    candidate = candidate_probability(s, *shape, *law, tuning.bands_min)
    if tuning.exact_score:
        return candidate, np.where(s >= tuning.score_min, candidate, 0.0)
    return candidate, emission_probability(s, *shape, tuning.agreements_min, *law, tuning.bands_min)


def remembered(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Return the function with a memory of its last results: a choice takes up to some tenths of a second, and a
    process makes its configuration several times."""
    return cast("Callable[Given, Found]", lru_cache(maxsize=64)(function))


@remembered
def choose(
    threshold: float,
    recall: float,
    rows_max: int = 128,
    sketch_bits: int = 8,
    bands: int | None = None,
    rows: int | None = None,
    min_similarity: float | None = None,
    false_pair_weight: float = FALSE_PAIR_WEIGHT,
    *,
    agreement: AgreementLaw | None = None,
    exact_score: bool = False,
    unrelated: float = 0.0,
    bands_min: int = 1,
) -> Tuning:
    """Choose bands, rows and ``score_min`` that emit a pair at the threshold with probability ``recall`` or more.

    Of all shapes that reach ``recall``, each with the highest ``score_min`` that does, the choice has the least cost:
    false candidates plus ``false_pair_weight`` times false pairs, both as areas under the curve below the threshold.
    Ties go to more rows, then to the smaller margin.

    Args:
        threshold: similarity, above 0 and at most 1.
        recall: probability, above 0 and below 1.
        rows_max: bands * rows at most, up to 1024. Rows of a band must have at least 32 bits together.
        sketch_bits: bits of a row: 8, 16 or 32; or 1 for families whose row is one bit.
        bands, rows: fixed values, if given.
        min_similarity: replaces ``score_min`` afterwards, in [0, 1], and decides the recall. If no shape reaches the
            recall, the shape with the most candidates is chosen.
        false_pair_weight: cost of a false pair in false candidates, 0 or more.
        agreement: probability that a row agrees, by similarity (arrays of any shape); rising. It must be a module-level
            function or a tuple with ``__call__``, because the result keeps it.
        exact_score: the score is the true similarity: ``score_min`` is the threshold, and there is no false pair.
        unrelated: similarity of unrelated items whose rows agree; such pairs count ``UNRELATED_WEIGHT`` times.
        bands_min: bands that must agree before a pair is a candidate, at least 1.

    Raises:
        ConfigError: a value is out of range, no shape fits, or the recall is out of reach.

    >>> tuning = choose(threshold=0.8, recall=0.95)
    >>> tuning.bands, tuning.rows, tuning.agreements_min, round(tuning.score_min, 3), round(tuning.recall, 3)
    (18, 7, 93, 0.737, 0.953)
    >>> tuning = choose(threshold=0.8, recall=0.95, exact_score=True)
    >>> tuning.bands, tuning.rows, tuning.score_min, round(tuning.recall, 3)
    (13, 7, 0.8, 0.954)
    """
    _check(threshold, recall, rows_max, sketch_bits, min_similarity, false_pair_weight)
    law = agreement, exact_score, false_pair_weight, unrelated, bands_min
    target = _Target(float(threshold), recall, sketch_bits, *law)
    _check_law(target, min_similarity)
    fitting = shapes(rows_max, sketch_bits, bands, rows, bands_min)
    best = _cheapest(target, fitting)
    if best is None:
        most = max(fitting, key=lambda shape: float(_candidates(target, *shape)))
        if min_similarity is None:
            raise ConfigError(_out_of_reach(target, most, rows_max, bands, rows))
        best = _highest(target, most)
    if min_similarity is None:
        return best
    return _with_score_min(target, best, min_similarity)


def _cheapest(target: _Target, fitting: list[tuple[int, int]]) -> Tuning | None:
    """Return the shape of least cost among those that reach the recall, or ``None``.

    A shape costs at least its false candidates. The search visits shapes in order of that bound and ends at the first
    whose bound exceeds the best cost.
    """
    able = np.array([_candidates(target, *shape) >= target.recall * (1 - _SLACK) for shape in fitting])
    order = []
    for index in np.nonzero(able)[0].tolist():
        area = _false_candidates(target, *fitting[index]) * (1 - _SLACK)
        order.append((area + _unrelated_cost(target, *fitting[index]), index))
    best: tuple[float, int, float, int] | None = None
    chosen = None
    for least, index in sorted(order):
        if best is not None and least > best[0]:
            break
        tuning = _highest(target, fitting[index])
        if tuning.recall >= target.recall:
            rank = (_cost(target, tuning), -tuning.bands * tuning.rows, tuning.margin, index)
            if best is None or rank < best:
                best, chosen = rank, tuning
    return chosen


def _candidates(target: _Target, bands: int, rows: int, s: npt.ArrayLike | None = None) -> Floats:
    """Return the candidate probability at similarities ``s``, or at the threshold."""
    at = target.threshold if s is None else s
    return candidate_probability(at, bands, rows, target.bits, target.agreement, target.bands_min)


def _false_candidates(target: _Target, bands: int, rows: int) -> float:
    """Return the area under the S-curve below the threshold, by Simpson's rule."""
    s, weights = simpson(0.0, target.threshold)
    return float(weights @ _candidates(target, bands, rows, s))


def _unrelated_cost(target: _Target, bands: int, rows: int) -> float:
    """Return the cost of unrelated pairs; 0 for hashed rows, which never agree for unrelated items."""
    if target.agreement is None and target.bits != BIT_ROW:
        return 0.0
    return UNRELATED_WEIGHT * float(_candidates(target, bands, rows, target.unrelated))


def _cost(target: _Target, tuning: Tuning) -> float:
    """Return false candidates plus weighted false pairs, as areas below the threshold, plus unrelated candidates."""
    total, least = tuning.bands * tuning.rows, tuning.agreements_min
    found, law = 1 - missed(tuning.bands, tuning.rows, target.bands_min), (target.bits, target.agreement)
    if target.agreement is None:
        each = found * areas(total, 0.0, target.threshold, *law)
        candidates, emitted = float(each.sum()), float(each[least:].sum())
    else:
        candidates = _false_candidates(target, tuning.bands, tuning.rows)
        emitted = float(found[least:] @ areas(total, 0.0, target.threshold, *law, least))
    paid = candidates + (0.0 if target.exact_score else target.false_pair_weight * emitted)
    return paid + _unrelated_cost(target, tuning.bands, tuning.rows)


def _tuning(target: _Target, shape: tuple[int, int], agreements_min: int, passed: float | None = None) -> Tuning:
    """Return the tuning of a shape whose pairs pass with ``agreements_min`` equal rows, with probability ``passed``."""
    bands, rows = shape
    law = (target.bits, target.agreement)
    candidate = float(_candidates(target, bands, rows))
    if passed is None:
        passed = float(pass_probability(target.threshold, agreements_min, bands * rows, *law))
    fraction = agreements_min / (bands * rows)
    # A little below the count where another formula computes the estimate, so that rounding refuses no such pair.
    score_min = similarity_at(fraction if target.agreement is None else max(fraction - _SLACK, 0.0), *law)
    if target.exact_score:
        score_min = target.threshold
    return Tuning(
        bands,
        rows,
        target.bits,
        target.threshold,
        candidate,
        passed,
        candidate * passed,
        agreements_min,
        score_min,
        target.threshold - score_min,
        target.exact_score,
        target.agreement,
        target.bands_min,
    )


def _highest(target: _Target, shape: tuple[int, int]) -> Tuning:
    """Return the shape with the highest ``score_min``, up to the threshold, that reaches ``recall``; else with 0."""
    if target.exact_score:
        return _tuning(target, shape, 0)
    total = shape[0] * shape[1]
    candidate = _candidates(target, *shape)
    q = row_agreement(target.threshold, target.bits, target.agreement)
    passing = tails(q, total)
    reached = np.nonzero(candidate * passing >= target.recall)[0].max(initial=0)
    least = min(int(reached), math.floor(total * float(q) + _SLACK))
    return _tuning(target, shape, least, float(passing[least]))


def _with_score_min(target: _Target, best: Tuning, min_similarity: float) -> Tuning:
    """Return the shape of a choice with another ``score_min``."""
    if target.exact_score:
        return best._replace(score_min=min_similarity, margin=target.threshold - min_similarity)
    total = best.bands * best.rows
    # A little below the whole number, so that rounding does not refuse an estimate equal to min_similarity.
    q = float(row_agreement(min_similarity, target.bits, target.agreement))
    least = 0 if min_similarity == 0 else math.ceil(total * q - _SLACK)
    return _tuning(target, (best.bands, best.rows), least)


def _out_of_reach(target: _Target, most: tuple[int, int], rows_max: int, bands: int | None, rows: int | None) -> str:
    """Return the message for a recall that no shape reaches: the reachable recall, and the remedies."""
    best = math.floor(float(_candidates(target, *most)) * 1e4) / 1e4
    remedies = [f"ask for a recall of {best:.4f} or less"] if best > 0 else ["ask for a higher threshold"]
    enough = _rows_enough(target, rows)
    if enough is not None:
        steps = ["leave bands out"] if bands else []
        steps += [f"set rows_max to {enough}"] if enough > rows_max else []
        remedies.append(" and ".join(steps))
    for wider in SKETCH_BITS if bands is None and rows is None and target.bits != BIT_ROW else ():
        needed = _rows_enough(target._replace(bits=wider), None)
        if wider > target.bits and needed is not None and needed <= rows_max:
            remedies.append(f"set sketch_bits to {wider}")
            break
    return (
        f"recall {target.recall} at threshold {target.threshold} is out of reach of {rows_max} rows of "
        f"{target.bits} bits: the best is {best:.4f}, with {most[0]} bands of {most[1]} rows; " + ", or ".join(remedies)
    )


def _rows_enough(target: _Target, rows: int | None) -> int | None:
    """The fewest rows in total that reach the recall, in bands of ``rows`` if given, within the limit."""
    totals = []
    for r in [rows] if rows else range(rows_least(target.bits), ROWS_LIMIT // target.bands_min + 1):
        if float(_candidates(target, ROWS_LIMIT, r)) < target.recall:
            break
        counts = range(target.bands_min, ROWS_LIMIT // r + 1)
        enough = bisect_left([float(_candidates(target, bands, r)) for bands in counts], target.recall)
        if enough < len(counts):
            totals.append(counts[enough] * r)
    return min(totals, default=None)


def _check(
    threshold: float, recall: float, rows_max: int, bits: int, min_similarity: float | None, false_pair_weight: float
) -> None:
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold is {threshold}, but must be above 0 and at most 1, such as 0.8")
    if not 0 < recall < 1:
        raise ConfigError(f"recall is {recall}, but must lie between 0 and 1, both excluded, such as 0.95")
    if bits not in (*SKETCH_BITS, BIT_ROW):
        raise ConfigError(
            f"sketch_bits is {bits}, but must be one of {SKETCH_BITS}, or 1 for rows of one bit: set 8, the default"
        )
    if not 1 <= rows_max <= ROWS_LIMIT:
        raise ConfigError(f"rows_max is {rows_max}, but must be 1 to {ROWS_LIMIT}, such as 128")
    if min_similarity is not None and not 0 <= min_similarity <= 1:
        raise ConfigError(f"min_similarity is {min_similarity}, but must be 0 to 1; leave it out to derive it")
    if not 0 <= false_pair_weight < math.inf:
        raise ConfigError(f"false_pair_weight is {false_pair_weight}, but must be 0 or more, such as 10")


def _check_law(target: _Target, min_similarity: float | None) -> None:
    if not 0 <= target.unrelated < target.threshold:
        raise ConfigError(
            f"unrelated is {target.unrelated}, but must be 0 to below the threshold of {target.threshold}"
        )
    if target.exact_score and min_similarity is not None and min_similarity > target.threshold:
        raise ConfigError(
            f"min_similarity is {min_similarity}, above the threshold of {target.threshold}, but this score is no "
            "estimate: raise the threshold, or leave min_similarity out"
        )
