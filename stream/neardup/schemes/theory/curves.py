"""S-curves: the probability that a pair is a candidate and passes, from the probability that one row agrees.

A row of two items of similarity s agrees with probability a(s), the *agreement law* of its family, which rises to 1.
For MinHash a(s) is s. For sampled bits it is s, too: their similarity is the fraction of equal bits. A row stored as a
hash of ``bits`` bits also agrees by chance: q = a + (1 - a) 2^-bits. ``bits`` = 0 means whole rows. ``bits`` = 1 means
rows of one bit (the side of a hyperplane, a sampled bit), whose law a(s) already includes chance.

Source: Mining of Massive Datasets, 3.4.1-3 and 3.6.3; Li, Koenig, "b-bit minwise hashing", WWW 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.schemes.declared import ROWS_LIMIT

Floats = npt.NDArray[np.float64]
# Similarities (0 to 1, any shape) -> the probability that a whole row agrees.
AgreementLaw = Callable[[Floats], npt.ArrayLike]

# Intervals of Simpson's rule, an even number, for laws without a closed form. The error of areas is less than 1e-6.
_INTERVALS = 512
# Halvings of the interval 0 to 1 down to neighbouring numbers.
_HALVINGS = 60


def row_agreement(s: npt.ArrayLike, bits: int, agreement: AgreementLaw | None = None) -> Floats:
    """The probability that a row agrees as it is stored, at similarities ``s`` (0 to 1, any shape)."""
    s = np.asarray(s, np.float64)
    if agreement is not None:
        s = np.asarray(agreement(s), np.float64)
    return np.asarray(s + (1 - s) * chance(bits))


def similarity_at(q: float, bits: int, agreement: AgreementLaw | None = None) -> float:
    """The least similarity, 0 to 1, at which a row agrees with probability ``q`` (0 to 1); inverts ``row_agreement``.

    It turns the fraction of agreeing rows into an estimate of the similarity.

    >>> similarity_at(0.75, bits=0)
    0.75
    >>> round(similarity_at(0.75, bits=1, agreement=lambda s: 1 - np.degrees(np.arccos(s)) / 180), 6)
    0.707107
    """
    if agreement is None:
        return max((q - chance(bits)) / (1 - chance(bits)), 0.0)
    low, high = 0.0, 1.0
    if float(row_agreement(low, bits, agreement)) >= q:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(row_agreement(middle, bits, agreement)) >= q:
            high = middle
        else:
            low = middle
    return high


def candidate_probability(
    s: npt.ArrayLike, bands: int, rows: int, bits: int = 0, agreement: AgreementLaw | None = None, bands_min: int = 1
) -> Floats:
    """The S-curve 1 - (1 - q^rows)^bands at similarities ``s`` (0 to 1, any shape).

    With ``bands_min`` (1 or more), the probability that all rows agree in at least so many bands: the binomial tail.
    Tiny probabilities keep their digits.

    >>> [round(float(candidate_probability(s, bands=20, rows=5)), 3) for s in (0.3, 0.5, 0.7)]
    [0.047, 0.47, 0.975]
    """
    band = row_agreement(s, bits, agreement) ** rows
    if bands_min > 1:
        return np.asarray(tails(band, bands)[..., min(bands_min, bands + 1)])
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(bands * np.log1p(-band)))


def pass_probability(
    s: npt.ArrayLike,
    agreements_min: npt.ArrayLike,
    rows_total: int,
    bits: int = 0,
    agreement: AgreementLaw | None = None,
) -> Floats:
    """The probability that at least ``agreements_min`` of ``rows_total`` rows agree: the exact binomial tail.

    ``s`` (0 to 1) and ``agreements_min`` (integers; 0 and less always pass, more than ``rows_total`` never)
    are broadcast together. Terms are positive and added from the smallest on, so tiny tails keep their digits.

    >>> float(pass_probability(0.5, 2, 2))
    0.25
    """
    least = np.clip(agreements_min, 0, rows_total + 1)
    q, least = np.broadcast_arrays(row_agreement(s, bits, agreement), least)
    return np.asarray(np.take_along_axis(tails(q, rows_total), least[..., None], -1)[..., 0])


def emission_probability(
    s: npt.ArrayLike,
    bands: int,
    rows: int,
    agreements_min: int,
    bits: int = 0,
    agreement: AgreementLaw | None = None,
    bands_min: int = 1,
) -> Floats:
    """Return the probability to be a candidate and to pass, at similarities ``s`` (0 to 1, any shape).

    Exact for independent rows, and at least the product of the two probabilities. Raises ``ConfigError`` for more than
    1024 rows in total.
    """
    weights = 1 - missed(bands, rows, bands_min)
    weights[: max(agreements_min, 0)] = 0.0
    return np.asarray(_binomials(row_agreement(s, bits, agreement), bands * rows) @ weights)


def threshold_step(bands: int, rows: int) -> float:
    """The similarity at which the S-curve of whole rows is about steepest, (1 / bands)^(1 / rows).

    >>> threshold_step(bands=16, rows=4)
    0.5
    """
    return float((1 / bands) ** (1 / rows))


def half_point(bands: int, rows: int) -> float:
    """The similarity at which the S-curve of whole rows is one half, (1 - (1/2)^(1 / bands))^(1 / rows).

    >>> round(half_point(bands=20, rows=5), 2)
    0.51
    """
    return float((-math.expm1(-math.log(2) / bands)) ** (1 / rows))


def error_areas(
    bands: int, rows: int, threshold: float, bits: int = 0, agreement: AgreementLaw | None = None, bands_min: int = 1
) -> tuple[float, float]:
    """The area under the S-curve below ``threshold`` (0 to 1), and the area over the curve above ``threshold``.

    These are the fractions of false positives and of false negatives among pairs whose similarity is uniform in 0 to 1.
    Without ``agreement`` the areas are exact: they follow from the binomial law, not from a quadrature. Raises
    ``ConfigError`` for more than 1024 rows in total.
    """
    lost = missed(bands, rows, bands_min)
    spans = ((0.0, threshold), (threshold, 1.0))
    below, beyond = (areas(bands * rows, *span, bits, agreement) for span in spans)
    return float(below @ (1 - lost)), float(beyond @ lost)


def chance(bits: int) -> float:
    """The probability that a row of different values agrees in ``bits``; 0 for whole rows and for rows of one bit."""
    return 2.0**-bits if bits > 1 else 0.0


def tails(q: Floats, n: int) -> Floats:
    """Probabilities of at least 0 to n + 1 successes in n trials of probability ``q``: ``float64[..., n + 2]``."""
    chances = _binomials(q, n)
    out = np.zeros((*chances.shape[:-1], n + 2))
    out[..., :-1] = np.minimum(np.cumsum(chances[..., ::-1], axis=-1)[..., ::-1], 1.0)
    out[..., 0] = 1.0
    return out


def missed(bands: int, rows: int, bands_min: int = 1) -> Floats:
    """The probability that fewer than ``bands_min`` bands are full if m of k rows agree: ``float64[k + 1]``, by m.

    A band is full if all its rows agree. All choices of the m rows are equally likely. The coefficients of
    ((1 + x)^rows - x^rows)^bands count the ways to put m rows so that no band is full. For each choice of j full
    bands, the coefficients for the other bands count the ways to put the other m - j rows. Raises ``ConfigError``
    for more than 1024 rows in total.
    """
    total = bands * rows
    if total > ROWS_LIMIT:
        raise ConfigError(
            f"{bands} bands of {rows} rows are {total} rows, above {ROWS_LIMIT}: take fewer bands or rows"
        )
    out = np.zeros(total + 1)
    for full in range(min(bands_min, bands + 1)):
        ways = _none_full(bands - full, rows)
        placed = np.exp(_log_coefficients(total)[full * rows : full * rows + len(ways)])
        out[full * rows : full * rows + len(ways)] += math.comb(bands, full) * (ways / placed)
    return np.minimum(out, 1.0)


def _none_full(bands: int, rows: int) -> Floats:
    """The ways to put 0, 1 and more rows in bands so that no band is full."""
    square = np.array([math.comb(rows, i) for i in range(rows)], np.float64)
    ways = np.ones(1)
    left = bands
    while left:
        if left & 1:
            ways = np.convolve(ways, square)
        left >>= 1
        if left:
            square = np.convolve(square, square)
    return ways


def areas(n: int, low: float, high: float, bits: int, agreement: AgreementLaw | None = None, least: int = 0) -> Floats:
    """Integrate the probabilities of ``least`` to n agreeing rows over ``low`` to ``high``: ``float64[n + 1 - least]``.

    If a row agrees with probability q = s, the integral has a closed form. P(m of n) is the probability of exactly m
    agreeing rows among n. The derivative by q of P(more than m of n + 1) is (n + 1) P(m of n).
    """
    if agreement is not None:
        s, weights = simpson(low, high)
        return np.asarray(weights @ _binomials(row_agreement(s, bits, agreement), n, least))
    ends = tails(row_agreement(np.array([low, high]), bits), n + 1)[:, 1:-1]
    return np.asarray((ends[1] - ends[0])[least:] / ((n + 1) * (1 - chance(bits))))


def simpson(low: float, high: float) -> tuple[Floats, Floats]:
    """Points from ``low`` to ``high``, and weights: the weighted sum of the values there is the area below."""
    weights = np.full(_INTERVALS + 1, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return np.linspace(low, high, _INTERVALS + 1), weights * ((high - low) / (3 * _INTERVALS))


@lru_cache(maxsize=ROWS_LIMIT + 2)
def _log_coefficients(n: int) -> Floats:
    """Logarithms of the binomial coefficients of n, ``float64[n + 1]``."""
    factorials = np.array([math.lgamma(i + 1) for i in range(n + 1)])
    return np.asarray(factorials[n] - factorials - factorials[::-1])


def _binomials(q: Floats, n: int, least: int = 0) -> Floats:
    """Probabilities of ``least`` to n successes in n trials of probability ``q``: ``float64[..., n + 1 - least]``."""
    m = np.arange(least, n + 1)
    q = np.asarray(q)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(m == 0, 0.0, m * np.log(q))
        misses = np.where(m == n, 0.0, (n - m) * np.log1p(-q))
    return np.asarray(np.exp(_log_coefficients(n)[least:] + hits + misses))
