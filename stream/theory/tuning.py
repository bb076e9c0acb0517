"""Tuning: bands, rows and the cut that keep a promise of recall at a threshold, with the least false work.

The rows of a scheme agree as ``curves`` says: with the similarity itself for MinHash and sampled bits, by a function of
it for other families. Two items are candidates if some band agrees whole. What is emitted depends on the score:

- an *estimate*: the score is told from the sketch, so a pair is emitted if it is a candidate and at least
  ``agreements_min`` of all rows agree, which is the cut; the cut lies a margin below the threshold;
- *exact*: the evidence holds the item itself and the score is its true similarity, so the cut is the threshold and
  a candidate at the threshold always passes.

Guarantee: ``recall`` is the candidate probability times the chance to pass the cut, for a pair at the
threshold. It is a lower bound of the share of such pairs that is emitted:

- rows that are independent (MinHash): both events grow with every row that agrees, so by Harris' inequality
  together they are at least as likely as the product; ``emission_probability`` is their exact chance;
- rows of one permutation: the number of agreeing rows spreads less than the binomial, the less the smaller
  the sets, because a round gives a shingle to one row only. The exact law of that scheme (in the tests)
  gives, for 18 bands of 7 at .8, .956 for large sets and .974, .985 and .988 for unions of 500, 150 and 5 to
  10 shingles, where .953 is promised.

So small sets need no correction: simulated with both schemes, for unions of 2 to 5,000 shingles and
thresholds of .3 to .95, no share lay below the promise beyond chance. (A union of one shingle is two equal
sets.) The share is over pairs, or over seeds.

Source: Mining of Massive Datasets, 3.4.1-3; Harris, "A lower bound for the critical probability in a certain
percolation process", 1960; Li, Koenig, "b-bit minwise hashing", WWW 2010.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.errors import ConfigError
from stream.theory.curves import ROWS_LIMIT as ROWS_LIMIT  # the bound of the settings that are given here
from stream.theory.curves import (
    Agreement,
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
from stream.theory.shapes import BIT_ROW as BIT_ROW
from stream.theory.shapes import SKETCH_BITS as SKETCH_BITS
from stream.theory.shapes import rows_least, shapes

# What a false pair costs, in false candidates. A candidate costs one comparison of two sketches; a false pair
# is written, clustered and read. The choice at the default, 18 x 7 at .8, is the same from 1.4 to 35.
FALSE_PAIR_WEIGHT = 10.0
# Unrelated pairs for each pair of any other similarity, where rows agree for unrelated items, too. A stream compares a
# document with a million, of which a few have anything to do with it.
UNRELATED_WEIGHT = 1000.0
# Relative, of sums of rounded numbers; and in rows, far less than one.
_SLACK = 1e-9


class Tuning(NamedTuple):
    """A choice of bands and rows, and what it does to a pair at ``threshold``.

    ``candidate_probability`` times ``pass_probability`` is ``recall``. A pair passes with ``agreements_min``
    equal rows of bands * rows; ``cut`` is the similarity estimated from just as many, and lies ``margin``
    below the threshold. With ``exact_score`` no rows are counted and the cut is compared with the true similarity.
    ``agreement`` is how a whole row agrees, by similarity (None: with the similarity itself). A candidate is a pair of
    which at least ``bands_min`` bands agree.
    """

    bands: int
    rows: int
    sketch_bits: int
    threshold: float
    candidate_probability: float
    pass_probability: float
    recall: float
    agreements_min: int
    cut: float
    margin: float
    exact_score: bool = False
    agreement: Agreement | None = None
    bands_min: int = 1


class _Target(NamedTuple):
    """What a choice must reach, and by which law."""

    threshold: float
    recall: float
    bits: int
    agreement: Agreement | None
    exact_score: bool
    false_pair_weight: float
    unrelated: float
    bands_min: int


def complete(threshold: float) -> Tuning:
    """The tuning of a scheme that misses no pair and scores exactly: no bands, no rows, the cut at the threshold."""
    return Tuning(0, 0, 0, threshold, 1.0, 1.0, 1.0, 0, threshold, 0.0, exact_score=True)


def keyed(threshold: float, min_similarity: float | None = None) -> Tuning:
    """The tuning of a scheme whose candidates do not follow from their similarity: their probability and the recall are
    NaN. The score is exact; the cut is the threshold or, where it is given, ``min_similarity``."""
    cut = threshold if min_similarity is None else min_similarity
    return Tuning(0, 0, 0, threshold, math.nan, 1.0, math.nan, 0, cut, threshold - cut, exact_score=True)


def curve(tuning: Tuning, points: int = 101) -> tuple[Floats, Floats, Floats]:
    """Similarities from 0 to 1, the chance of a candidate, the chance of an emitted pair; for plotting.

    ``float64[points]`` each. Raises ``ConfigError`` for fewer than 2 points.
    """
    if points < 2:
        raise ConfigError(f"a curve of {points} points is none: ask for 2 or more")
    s = np.linspace(0.0, 1.0, points)
    return s, *probabilities(tuning, s)


def probabilities(tuning: Tuning, s: Floats) -> tuple[Floats, Floats]:
    """The chance of a candidate and the chance of an emitted pair at similarities ``s`` (0 to 1, one-dimensional).

    With estimated scores the last is ``emission_probability``, so at the threshold it is ``recall`` or a little more.
    """
    if tuning.bands == 0:
        met = np.full(len(s), tuning.candidate_probability)
        return met, np.where(s >= tuning.cut, met, 0.0)
    shape, law = (tuning.bands, tuning.rows), (tuning.sketch_bits, tuning.agreement)
    met = candidate_probability(s, *shape, *law, tuning.bands_min)
    if tuning.exact_score:
        return met, np.where(s >= tuning.cut, met, 0.0)
    return met, emission_probability(s, *shape, tuning.agreements_min, *law, tuning.bands_min)


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
    agreement: Agreement | None = None,
    exact_score: bool = False,
    unrelated: float = 0.0,
    bands_min: int = 1,
) -> Tuning:
    """Bands, rows and cut that emit a pair at the threshold with at least ``recall``.

    ``threshold`` is above 0 and at most 1, ``recall`` above 0 and below 1. Of all shapes with bands * rows up
    to ``rows_max`` (to 1024) and ``sketch_bits`` (8, 16, 32) * rows of at least 32 that reach ``recall``,
    each with the highest cut that does and is not above the threshold: the one with the least sum of false
    candidates and ``false_pair_weight`` (0 or more) times false pairs emitted, both as areas below the
    threshold; then more rows in total, then the smaller margin. Candidates alone would favour few bands that
    only just reach ``recall``, and leave nothing to the cut; emitted pairs alone, many bands of few rows.

    ``bands`` and ``rows`` fix the one or both. ``min_similarity`` (0 to 1) replaces the cut afterwards:
    ``recall`` is then what results, and if no shape reaches what was asked, the one with the most candidates
    is taken.

    ``agreement`` says how a whole row agrees at a similarity (0 to 1, any shape, rising); it is kept in the result, so
    let it be a function of a module or a tuple with ``__call__``. ``sketch_bits`` of 1 are rows that are one bit. Such
    rows agree for unrelated items too: a thousand pairs of the similarity ``unrelated`` (below the threshold) are then
    counted for each pair of any other similarity. With ``exact_score`` the cut is the threshold and no false pair is
    emitted. With ``bands_min`` a pair is a candidate only if so many bands agree.

    Raises ``ConfigError`` for a value out of range, for shapes that do not fit, and for a recall out of
    reach.

    >>> tuning = choose(threshold=0.8, recall=0.95)
    >>> tuning.bands, tuning.rows, tuning.agreements_min, round(tuning.cut, 3), round(tuning.recall, 3)
    (18, 7, 93, 0.737, 0.953)
    >>> tuning = choose(threshold=0.8, recall=0.95, exact_score=True)
    >>> tuning.bands, tuning.rows, tuning.cut, round(tuning.recall, 3)
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
        best = _with_highest_cut(target, most)
    if min_similarity is None:
        return best
    return _with_cut(target, best, min_similarity)


# A choice takes up to some tenths of a second, and a configuration is made several times on its way into a process.
chosen = lru_cache(maxsize=64)(choose)


def _cheapest(target: _Target, fitting: list[tuple[int, int]]) -> Tuning | None:
    """Of the shapes that reach the recall, the one of least cost; none if none does.

    False candidates alone are the least that a shape can cost. Looked at in their order, the search ends with the
    first shape whose candidates cost more than the best shape in all.
    """
    able = np.array([_candidates(target, *shape) >= target.recall * (1 - _SLACK) for shape in fitting])
    order = []
    for place in np.nonzero(able)[0].tolist():
        area = _false_candidates(target, *fitting[place]) * (1 - _SLACK)
        order.append((area + _unrelated_cost(target, *fitting[place]), place))
    best: tuple[float, int, float, int] | None = None
    chosen = None
    for least, place in sorted(order):
        if best is not None and least > best[0]:
            break
        tuning = _with_highest_cut(target, fitting[place])
        if tuning.recall >= target.recall:
            rank = (_cost(target, tuning), -tuning.bands * tuning.rows, tuning.margin, place)
            if best is None or rank < best:
                best, chosen = rank, tuning
    return chosen


def _candidates(target: _Target, bands: int, rows: int, s: npt.ArrayLike | None = None) -> Floats:
    """The chance of a candidate at similarities, or at the threshold."""
    at = target.threshold if s is None else s
    return candidate_probability(at, bands, rows, target.bits, target.agreement, target.bands_min)


def _false_candidates(target: _Target, bands: int, rows: int) -> float:
    """The area under the S-curve below the threshold, by Simpson's rule."""
    s, weights = simpson(0.0, target.threshold)
    return float(weights @ _candidates(target, bands, rows, s))


def _unrelated_cost(target: _Target, bands: int, rows: int) -> float:
    """What unrelated pairs cost as candidates; hashed rows that agree with the similarity never meet for them."""
    if target.agreement is None and target.bits != BIT_ROW:
        return 0.0
    return UNRELATED_WEIGHT * float(_candidates(target, bands, rows, target.unrelated))


def _cost(target: _Target, tuning: Tuning) -> float:
    """Expected false candidates and weighted false pairs, as areas below the threshold, and unrelated candidates."""
    total, least = tuning.bands * tuning.rows, tuning.agreements_min
    met, law = 1 - missed(tuning.bands, tuning.rows, target.bands_min), (target.bits, target.agreement)
    if target.agreement is None:
        each = met * areas(total, 0.0, target.threshold, *law)
        candidates, emitted = float(each.sum()), float(each[least:].sum())
    else:
        candidates = _false_candidates(target, tuning.bands, tuning.rows)
        emitted = float(met[least:] @ areas(total, 0.0, target.threshold, *law, least))
    paid = candidates + (0.0 if target.exact_score else target.false_pair_weight * emitted)
    return paid + _unrelated_cost(target, tuning.bands, tuning.rows)


def _tuning(target: _Target, shape: tuple[int, int], agreements_min: int) -> Tuning:
    """The figures of a shape whose pairs pass with ``agreements_min`` equal rows."""
    bands, rows = shape
    law = (target.bits, target.agreement)
    candidate = float(_candidates(target, bands, rows))
    passed = float(pass_probability(target.threshold, agreements_min, bands * rows, *law))
    share = agreements_min / (bands * rows)
    # A hair below the count where the estimate is told by another formula than the one here.
    cut = similarity_at(share if target.agreement is None else max(share - _SLACK, 0.0), *law)
    if target.exact_score:
        cut = target.threshold
    return Tuning(
        bands,
        rows,
        target.bits,
        target.threshold,
        candidate,
        passed,
        candidate * passed,
        agreements_min,
        cut,
        target.threshold - cut,
        target.exact_score,
        target.agreement,
        target.bands_min,
    )


def _with_highest_cut(target: _Target, shape: tuple[int, int]) -> Tuning:
    """The shape with the highest cut up to the threshold that leaves ``recall``; with 0 if none does."""
    if target.exact_score:
        return _tuning(target, shape, 0)
    total = shape[0] * shape[1]
    candidate = _candidates(target, *shape)
    q = row_agreement(target.threshold, target.bits, target.agreement)
    reached = np.nonzero(candidate * tails(q, total) >= target.recall)[0].max(initial=0)
    return _tuning(target, shape, min(int(reached), math.floor(total * float(q) + _SLACK)))


def _with_cut(target: _Target, best: Tuning, min_similarity: float) -> Tuning:
    """The shape of a choice with another cut."""
    if target.exact_score:
        return best._replace(cut=min_similarity, margin=target.threshold - min_similarity)
    total = best.bands * best.rows
    # A hair below the whole number, lest rounding refuse an estimate equal to min_similarity.
    q = float(row_agreement(min_similarity, target.bits, target.agreement))
    least = 0 if min_similarity == 0 else math.ceil(total * q - _SLACK)
    return _tuning(target, (best.bands, best.rows), least)


def _out_of_reach(target: _Target, most: tuple[int, int], rows_max: int, bands: int | None, rows: int | None) -> str:
    """The message for a recall that no shape reaches: what is reachable, and what would do."""
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
    threshold: float,
    recall: float,
    rows_max: int,
    bits: int,
    min_similarity: float | None,
    false_pair_weight: float,
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
