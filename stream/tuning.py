"""Tuning: bands, rows and the cut for a threshold and a recall; S-curves and the areas of their errors.

A sketch keeps ``bits`` of each of k = bands * rows signature rows. Two sets of similarity s agree in a row
with q = s + (1 - s) 2^-bits, are candidates if some band agrees whole, with 1 - (1 - q^rows)^bands, and are
emitted if they are candidates and at least ``agreements_min`` rows agree (the cut). ``bits`` is 0 for full
rows, which never agree by chance.

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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.errors import ConfigError

Floats = npt.NDArray[np.float64]

# Sketch bits that a row may have, and the bits a band must have: two rows of different shingles agree by
# chance, and with 32 bits a band a pair of nothing in common is a candidate less than once in 10^7, with 128
# bands too.
SKETCH_BITS = (8, 16, 32)
BAND_BITS_MIN = 32
# Rows of a signature. The binomial coefficients of 1024 are the last power of two's that fit a float64.
ROWS_LIMIT = 1024
# What a false pair costs, in false candidates. A candidate costs one comparison of two sketches; a false pair
# is written, clustered and read. The choice at the default, 18 x 7 at .8, is the same from 1.4 to 35.
FALSE_PAIR_WEIGHT = 10.0


class Tuning(NamedTuple):
    """A choice of bands and rows, and what it does to a pair at ``threshold``.

    ``candidate_probability`` times ``pass_probability`` is ``recall``. A pair passes with ``agreements_min``
    equal rows of bands * rows; ``cut`` is the similarity estimated from just as many, and lies ``margin``
    below the threshold.
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


def row_agreement(s: npt.ArrayLike, bits: int) -> Floats:
    """The chance that a row agrees in ``bits`` (0: all), at similarities ``s`` (0 to 1, any shape)."""
    s = np.asarray(s, np.float64)
    return np.asarray(s + (1 - s) * _chance(bits))


def candidate_probability(s: npt.ArrayLike, bands: int, rows: int, bits: int = 0) -> Floats:
    """The S-curve 1 - (1 - q^rows)^bands at similarities ``s`` (0 to 1, any shape).

    Chances keep their digits where they are tiny.

    >>> [round(float(candidate_probability(s, bands=20, rows=5)), 3) for s in (0.3, 0.5, 0.7)]
    [0.047, 0.47, 0.975]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(bands * np.log1p(-(row_agreement(s, bits) ** rows))))


def pass_probability(s: npt.ArrayLike, agreements_min: npt.ArrayLike, rows_total: int, bits: int = 0) -> Floats:
    """The chance that at least ``agreements_min`` of ``rows_total`` rows agree: the exact binomial tail.

    ``s`` (0 to 1) and ``agreements_min`` (integers; 0 and less always pass, more than ``rows_total`` never)
    are broadcast together. Terms are positive and added from the least, so tiny tails keep their digits.

    >>> float(pass_probability(0.5, 2, 2))
    0.25
    """
    q, least = np.broadcast_arrays(row_agreement(s, bits), np.clip(agreements_min, 0, rows_total + 1))
    return np.asarray(np.take_along_axis(_tails(q, rows_total), least[..., None], -1)[..., 0])


def emission_probability(s: npt.ArrayLike, bands: int, rows: int, agreements_min: int, bits: int = 0) -> Floats:
    """The chance to be a candidate and to pass the cut, at similarities ``s`` (0 to 1, any shape).

    Exact for independent rows, and at least the product of the two chances. Raises ``ConfigError`` for more
    than 1024 rows in total.
    """
    weights = 1 - _missed(bands, rows)
    weights[: max(agreements_min, 0)] = 0.0
    return np.asarray(_binomials(row_agreement(s, bits), bands * rows) @ weights)


def threshold_step(bands: int, rows: int) -> float:
    """About where the S-curve of full rows is steepest, (1 / bands)^(1 / rows).

    >>> threshold_step(bands=16, rows=4)
    0.5
    """
    return float((1 / bands) ** (1 / rows))


def half_point(bands: int, rows: int) -> float:
    """Where the S-curve of full rows is one half, (1 - (1/2)^(1 / bands))^(1 / rows).

    >>> round(half_point(bands=20, rows=5), 2)
    0.51
    """
    return float((-math.expm1(-math.log(2) / bands)) ** (1 / rows))


def error_areas(bands: int, rows: int, threshold: float, bits: int = 0) -> tuple[float, float]:
    """The area under the S-curve below ``threshold`` (0 to 1), and the area above the curve beyond it.

    They are the shares of false positives and of false negatives among pairs whose similarity is uniform in 0
    to 1. Exact, from the binomial law rather than a quadrature. Raises ``ConfigError`` for more than 1024
    rows in total.
    """
    missed = _missed(bands, rows)
    below, beyond = (_areas(bands * rows, *span, bits) for span in ((0.0, threshold), (threshold, 1.0)))
    return float(below @ (1 - missed)), float(beyond @ missed)


def curve(tuning: Tuning, points: int = 101) -> tuple[Floats, Floats, Floats]:
    """Similarities from 0 to 1, the chance of a candidate, the chance of an emitted pair; for plotting.

    ``float64[points]`` each. The last is ``emission_probability``, so at the threshold it is ``recall`` or a
    little more. Raises ``ConfigError`` for fewer than 2 points.
    """
    if points < 2:
        raise ConfigError(f"a curve of {points} points is none: ask for 2 or more")
    bands, rows, bits = tuning.bands, tuning.rows, tuning.sketch_bits
    s = np.linspace(0.0, 1.0, points)
    emitted = emission_probability(s, bands, rows, tuning.agreements_min, bits)
    return s, candidate_probability(s, bands, rows, bits), emitted


def choose(
    threshold: float,
    recall: float,
    rows_max: int = 128,
    sketch_bits: int = 8,
    bands: int | None = None,
    rows: int | None = None,
    min_similarity: float | None = None,
    false_pair_weight: float = FALSE_PAIR_WEIGHT,
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

    Raises ``ConfigError`` for a value out of range, for shapes that do not fit, and for a recall out of
    reach.

    >>> tuning = choose(threshold=0.8, recall=0.95)
    >>> tuning.bands, tuning.rows, tuning.agreements_min, round(tuning.cut, 3), round(tuning.recall, 3)
    (18, 7, 93, 0.737, 0.953)
    """
    _check(threshold, recall, rows_max, sketch_bits, min_similarity, false_pair_weight)
    threshold = float(threshold)
    shapes = _shapes(rows_max, sketch_bits, bands, rows)
    tunings = [_with_highest_cut(shape, sketch_bits, threshold, recall) for shape in shapes]
    reaching = [tuning for tuning in tunings if tuning.recall >= recall]
    most = max(tunings, key=lambda tuning: tuning.candidate_probability)
    if reaching:
        best = min(reaching, key=lambda t: (_cost(t, false_pair_weight), -t.bands * t.rows, t.margin))
    elif min_similarity is None:
        raise ConfigError(_out_of_reach(most, recall, rows_max, bands, rows))
    else:
        best = most
    if min_similarity is None:
        return best
    total, chance = best.bands * best.rows, _chance(sketch_bits)
    # A hair below the whole number, lest rounding refuse an estimate equal to min_similarity.
    least = 0 if min_similarity == 0 else math.ceil(total * (chance + (1 - chance) * min_similarity) - 1e-9)
    return _tuning((best.bands, best.rows), sketch_bits, threshold, least)


def _chance(bits: int) -> float:
    """How likely a row of different shingles agrees in ``bits``."""
    return 2.0**-bits if bits else 0.0


@lru_cache(maxsize=ROWS_LIMIT + 2)
def _log_coefficients(n: int) -> Floats:
    """Logarithms of the binomial coefficients of n, ``float64[n + 1]``."""
    factorials = np.array([math.lgamma(i + 1) for i in range(n + 1)])
    return np.asarray(factorials[n] - factorials - factorials[::-1])


def _binomials(q: Floats, n: int) -> Floats:
    """Chances of 0 to n successes at chance ``q`` each: ``float64[..., n + 1]``."""
    m = np.arange(n + 1)
    q = np.asarray(q)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(m == 0, 0.0, m * np.log(q))
        misses = np.where(m == n, 0.0, (n - m) * np.log1p(-q))
    return np.asarray(np.exp(_log_coefficients(n) + hits + misses))


def _tails(q: Floats, n: int) -> Floats:
    """Chances of at least 0 to n + 1 successes: ``float64[..., n + 2]``, from 1 to 0."""
    chances = _binomials(q, n)
    tails = np.zeros((*chances.shape[:-1], n + 2))
    tails[..., :-1] = np.minimum(np.cumsum(chances[..., ::-1], axis=-1)[..., ::-1], 1.0)
    tails[..., 0] = 1.0
    return tails


def _missed(bands: int, rows: int) -> Floats:
    """The chance that no band agrees whole when m rows agree, for m of 0 to k: ``float64[k + 1]``.

    Their places are equally likely. The ways to place m in the bands with no band full are the coefficients
    of ((1 + x)^rows - x^rows)^bands.
    """
    total = bands * rows
    if total > ROWS_LIMIT:
        raise ConfigError(
            f"{bands} bands of {rows} rows are {total} rows, above {ROWS_LIMIT}: take fewer bands or rows"
        )
    square = np.array([math.comb(rows, i) for i in range(rows)], np.float64)
    ways = np.ones(1)
    left = bands
    while left:
        if left & 1:
            ways = np.convolve(ways, square)
        left >>= 1
        if left:
            square = np.convolve(square, square)
    missed = np.zeros(total + 1)
    missed[: len(ways)] = ways / np.exp(_log_coefficients(total)[: len(ways)])
    return np.minimum(missed, 1.0)


def _areas(n: int, low: float, high: float, bits: int) -> Floats:
    """The areas under the chances of 0 to n agreeing rows from ``low`` to ``high``: ``float64[n + 1]``.

    The derivative by q of the chance of more than m among n + 1 is n + 1 times that of just m among n.
    """
    ends = _tails(row_agreement(np.array([low, high]), bits), n + 1)[:, 1:-1]
    return np.asarray((ends[1] - ends[0]) / ((n + 1) * (1 - _chance(bits))))


def _cost(tuning: Tuning, false_pair_weight: float) -> float:
    """Expected false candidates and weighted false pairs, as areas below the threshold."""
    met = 1 - _missed(tuning.bands, tuning.rows)
    areas = met * _areas(tuning.bands * tuning.rows, 0.0, tuning.threshold, tuning.sketch_bits)
    return float(areas.sum() + false_pair_weight * areas[tuning.agreements_min :].sum())


def _tuning(shape: tuple[int, int], bits: int, threshold: float, agreements_min: int) -> Tuning:
    bands, rows = shape
    candidate = float(candidate_probability(threshold, bands, rows, bits))
    passed = float(pass_probability(threshold, agreements_min, bands * rows, bits))
    chance = _chance(bits)
    cut = max((agreements_min / (bands * rows) - chance) / (1 - chance), 0.0)
    recall = candidate * passed
    return Tuning(bands, rows, bits, threshold, candidate, passed, recall, agreements_min, cut, threshold - cut)


def _with_highest_cut(shape: tuple[int, int], bits: int, threshold: float, recall: float) -> Tuning:
    """The shape with the highest cut up to the threshold that leaves ``recall``; with 0 if none does."""
    total = shape[0] * shape[1]
    candidate = candidate_probability(threshold, *shape, bits)
    q = row_agreement(threshold, bits)
    reached = np.nonzero(candidate * _tails(q, total) >= recall)[0].max(initial=0)
    return _tuning(shape, bits, threshold, min(int(reached), math.floor(total * float(q) + 1e-9)))


def _shapes(rows_max: int, bits: int, bands: int | None, rows: int | None) -> list[tuple[int, int]]:
    """The (bands, rows) that fit; at least one."""
    for name, value in (("bands", bands), ("rows", rows)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}, but must be 1 or more; leave it out to have it chosen")
    rows_least = BAND_BITS_MIN // bits
    if rows is not None and rows < rows_least:
        wider = next(width for width in SKETCH_BITS if width * rows >= BAND_BITS_MIN)
        raise ConfigError(
            f"{rows} rows of {bits} bits make a band of {bits * rows} bits, but it needs {BAND_BITS_MIN}: "
            f"set rows to {rows_least} or more, or sketch_bits to {wider}"
        )
    least, few = rows or rows_least, bands or 1
    if least * few > rows_max:
        raise ConfigError(
            f"{few} bands of {least} rows of {bits} bits are {least * few} rows, but rows_max is {rows_max}: "
            f"take fewer bands or rows, or set rows_max to {least * few} or more"
        )
    widths = [rows] if rows else range(rows_least, rows_max // few + 1)
    return [(b, r) for r in widths for b in ([bands] if bands else range(1, rows_max // r + 1))]


def _out_of_reach(most: Tuning, recall: float, rows_max: int, bands: int | None, rows: int | None) -> str:
    """The message for a recall that no shape reaches: what is reachable, and what would do."""
    bits, threshold = most.sketch_bits, most.threshold
    best = math.floor(most.candidate_probability * 1e4) / 1e4
    remedies = [f"ask for a recall of {best:.4f} or less"]
    enough = _rows_enough(bits, threshold, recall, rows)
    if enough is not None:
        steps = ["leave bands out"] if bands else []
        steps += [f"set rows_max to {enough}"] if enough > rows_max else []
        remedies.append(" and ".join(steps))
    for wider in SKETCH_BITS if bands is None and rows is None else ():
        needed = _rows_enough(wider, threshold, recall, None)
        if wider > bits and needed is not None and needed <= rows_max:
            remedies.append(f"set sketch_bits to {wider}")
            break
    return (
        f"recall {recall} at threshold {threshold} is out of reach of {rows_max} rows of {bits} bits: "
        f"the best is {best:.4f}, with {most.bands} bands of {most.rows} rows; " + ", or ".join(remedies)
    )


def _rows_enough(bits: int, threshold: float, recall: float, rows: int | None) -> int | None:
    """The fewest rows in total that reach ``recall``, in bands of ``rows`` if given, within the limit."""
    totals = []
    for r in [rows] if rows else range(BAND_BITS_MIN // bits, ROWS_LIMIT + 1):
        band_fails = math.log1p(-(float(row_agreement(threshold, bits)) ** r))
        if band_fails * ROWS_LIMIT > math.log1p(-recall):
            break
        totals.append(math.ceil(math.log1p(-recall) / band_fails) * r)
    return min((total for total in totals if total <= ROWS_LIMIT), default=None)


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
    if bits not in SKETCH_BITS:
        raise ConfigError(f"sketch_bits is {bits}, but must be one of {SKETCH_BITS}: set 8, the default")
    if not 1 <= rows_max <= ROWS_LIMIT:
        raise ConfigError(f"rows_max is {rows_max}, but must be 1 to {ROWS_LIMIT}, such as 128")
    if min_similarity is not None and not 0 <= min_similarity <= 1:
        raise ConfigError(f"min_similarity is {min_similarity}, but must be 0 to 1; leave it out to derive it")
    if not 0 <= false_pair_weight < math.inf:
        raise ConfigError(f"false_pair_weight is {false_pair_weight}, but must be 0 or more, such as 10")
