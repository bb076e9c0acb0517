"""Probabilities by exact counting, in fractions and whole numbers: the reference for the curves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt


def fractions_of(s: float, bits: int) -> Fraction:
    chance = Fraction(1, 2**bits) if bits else Fraction(0)
    return Fraction(s) + (1 - Fraction(s)) * chance


def tail(q: Fraction, least: int, n: int) -> Fraction:
    terms = (math.comb(n, m) * q**m * (1 - q) ** (n - m) for m in range(max(least, 0), n + 1))
    return sum(terms, Fraction(0))


def binomial(n: int, q: float) -> npt.NDArray[np.float64]:
    return np.array([math.comb(n, m) * q**m * (1 - q) ** (n - m) for m in range(n + 1)])


def emitted_if(bands: int, rows: int, agreements_min: int) -> npt.NDArray[np.float64]:
    """The probability that a pair with exactly m agreeing rows is emitted; by exact counting of their places."""
    total, ways = bands * rows, np.array([1], object)
    for _ in range(bands):
        ways = np.convolve(ways, np.array([math.comb(rows, i) for i in range(rows)], object))
    ways = [*ways, *[0] * (total + 1 - len(ways))]
    chances = [float(1 - Fraction(way, math.comb(total, m))) for m, way in enumerate(ways)]
    return np.array([chance if m >= agreements_min else 0.0 for m, chance in enumerate(chances)])
