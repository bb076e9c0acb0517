"""Cascades: how AND and OR of many functions change the probability that one function agrees.

- AND of r: agree if all r functions agree; p becomes p^r. The rows of a band.
- OR of b: agree if at least one of b agrees; p becomes 1 - (1 - p)^b. The bands.
- a *cascade*: several constructions in a row, of functions drawn independently. Each multiplies their number.

A cascade of both kinds is an S-curve: it lowers probabilities below a fixed point and raises those above it.

Source: Mining of Massive Datasets, 3.6.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError

Floats = npt.NDArray[np.float64]

# Where fixed points and slopes are searched: probabilities from e^-36 to 1 - e^-36, evenly in log(p / (1 - p)).
_LOGIT_MAX, _POINTS = 36.0, 14_401
# Bisections between two points, and golden sections of two intervals, that reach the precision of a float64.
_HALVINGS, _CUTS = 60, 80
# Largest number of functions of a proposed cascade: far more than a stream can afford.
MEMBERS_LIMIT = 1 << 16
# Relative rounding error of a probability that is reached exactly.
_SLACK = 1e-12
# If -log p is less, p is so near to 1 that no allowed number of functions lowers it.
_NOTHING = 1e-30
# The kinds of the last construction and of the construction before it; bands of rows come first.
_ORDERS = (("or", "and"), ("and", "or"))


class Step(NamedTuple):
    """One construction: ``kind`` is a key of ``STEPS``, "and" or "or", of ``ways`` members (1 or more)."""

    kind: str
    ways: int


Cascade = tuple[Step, ...]


def amplify(p: npt.ArrayLike, cascade: Cascade) -> Floats:
    """Return the probabilities after a cascade, from ``p`` (0 to 1, any shape); tiny ones keep their precision.

    >>> round(float(amplify(0.8, (Step("and", 4), Step("or", 4)))), 4)
    0.8785
    """
    p = np.asarray(p, np.float64)
    return _both(p, 1 - p, cascade)[0]


def members(cascade: Cascade) -> int:
    """Return how many functions one function of the last family consists of.

    >>> members((Step("and", 4), Step("or", 4), Step("or", 4), Step("and", 4)))
    256
    """
    return math.prod(step.ways for step in cascade)


def fixed_points(cascade: Cascade) -> list[float]:
    """Return the fixed points of a cascade strictly between 0 and 1, ascending; none if it has only one kind.

    >>> [round(p, 4) for p in fixed_points((Step("and", 4), Step("or", 4)))]
    [0.7245]
    """
    if len({step.kind for step in cascade if step.ways > 1}) < 2:
        return []
    logits = np.linspace(-_LOGIT_MAX, _LOGIT_MAX, _POINTS)
    lowers = _moved(logits, cascade) < 0
    out = []
    for i in np.nonzero(lowers[:-1] != lowers[1:])[0].tolist():
        low, high = logits[i], logits[i + 1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if bool(_moved(middle, cascade) < 0) == lowers[i]:
                low = middle
            else:
                high = middle
        out.append(float(_chances(high)[0]))
    return out


def slope(p: npt.ArrayLike, cascade: Cascade) -> Floats:
    """Return the derivative of a cascade at ``p`` (0 to 1, any shape)."""
    p = np.asarray(p, np.float64)
    return _slope(p, 1 - p, cascade)


def steepest(cascade: Cascade) -> tuple[float, float]:
    """Return the probability at which a cascade is steepest, and its slope there.

    >>> [round(x, 3) for x in steepest((Step("and", 4), Step("or", 4)))]
    [0.669, 2.45]
    """
    logits = np.linspace(-_LOGIT_MAX, _LOGIT_MAX, _POINTS)
    best = int(_slope(*_chances(logits), cascade).argmax())
    low, high = logits[max(best - 1, 0)], logits[min(best + 1, _POINTS - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_CUTS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _slope(*_chances(left), cascade) < _slope(*_chances(right), cascade):
            low = left
        else:
            high = right
    p, q = _chances((low + high) / 2)
    return float(p), float(_slope(p, q, cascade))


def cheapest(
    p1: float,
    p2: float,
    p1_min: float,
    p2_max: float,
    members_max: int = MEMBERS_LIMIT,
    *,
    banded: bool = False,
) -> Cascade:
    """Return the cascade with the fewest functions that raises p1 to at least ``p1_min`` and p2 to at most ``p2_max``.

    A cascade has up to three constructions; with ``banded`` only AND and then OR, like bands of rows; with one function
    it has none. Among cascades with equally many functions, fewer constructions win, then the larger gap between both
    probabilities. Probabilities are strictly between 0 and 1, p2 below p1 and p2_max below p1_min. Raises
    ``ConfigError`` for other probabilities, and if ``members_max`` functions are not enough.

    >>> cheapest(0.8, 0.4, 0.87, 0.1)
    (Step(kind='and', ways=4), Step(kind='or', ways=4))
    """
    for high, low, names in ((p1, p2, "p1 and p2 of the family"), (p1_min, p2_max, "the p1 and p2 asked for")):
        if not 0 < low < high < 1:
            raise ConfigError(f"{names} are {high:g} and {low:g}, but must lie between 0 and 1, p2 below p1")
    given, asked = (p1, p2), (p1_min, p2_max)
    most, best = members_max, None
    for kinds in _ORDERS[:1] if banded else _ORDERS:
        first = 1
        while first == 1 or (4 * first <= most and not banded):
            for cascade in _shortest(kinds, first, given, asked, most):
                near, far = amplify(given, cascade).tolist()
                rank = (members(cascade), len(cascade), far - near, cascade)
                best = rank if best is None else min(best, rank)
                most = best[0]
            first += 1
    if best is None:
        raise ConfigError(
            f"no cascade of {members_max} functions makes chances of {p1:g} and {p2:g} into {p1_min:g} and "
            f"{p2_max:g}: ask for less, or for distances further apart"
        )
    return best[-1]


def _shortest(
    kinds: tuple[str, str], first: int, given: tuple[float, float], asked: tuple[float, float], most: int
) -> list[Cascade]:
    """Return the smallest cascades that reach the goal with at most ``most`` functions.

    Each has ``first`` ways of one kind, any number of the other kind, and the fewest sufficient ways of the first kind.
    """
    last, other = kinds
    middle = np.arange(1 if first == 1 else 2, most // first + 1)
    near_far = np.array(given)[:, None]
    p, q = _both(near_far, 1 - near_far, (Step(last, first),))
    p, q, _ = STEPS[other](p, q, middle)
    ways = _least_ways(last, p, q, asked)
    total = first * middle * ways
    fewest = total.min(initial=np.inf)
    if fewest > most:
        return []
    cascades = []
    for at in np.nonzero(total == fewest)[0].tolist():
        steps = Step(last, first), Step(other, int(middle[at])), Step(last, int(ways[at]))
        cascades.append(tuple(step for step in steps if step.ways > 1))
    return cascades


def _least_ways(kind: str, p: Floats, q: Floats, asked: tuple[float, float]) -> Floats:
    """Return the fewest ways of a last construction that reach the goal from probabilities [near and far, n], or
    infinity.

    AND must lower the far probability and must not lower the near one too much. OR is the same for 1 - p.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if kind == "and":
            (near, far), (least, most) = _log(p, q), np.log(asked)
        else:
            (far, near), (most, least) = _log(q, p), np.log1p(-np.array(asked))
        ways = np.where(far < -_NOTHING, np.maximum(np.ceil(most / far * (1 - _SLACK)), 1.0), np.inf)
        return np.where(ways * near >= least * (1 + _SLACK), ways, np.inf)


def _log(p: Floats, q: Floats) -> Floats:
    """Return log p from (p, 1 - p), precise near 1."""
    return np.where(p > 0.5, np.log1p(-q), np.log(p))


def _and(p: Floats, q: Floats, ways: Any) -> tuple[Floats, Floats, Floats]:
    """Return p, 1 - p and the derivative after AND."""
    with np.errstate(divide="ignore"):
        return p**ways, -np.expm1(ways * np.log1p(-q)), ways * p ** (ways - 1)


def _or(p: Floats, q: Floats, ways: Any) -> tuple[Floats, Floats, Floats]:
    """Return the same after OR: AND with p and 1 - p exchanged."""
    lacking, chance, rise = _and(q, p, ways)
    return chance, lacking, rise


# Kind -> function of p, 1 - p and the ways (a number or an array), which returns p, 1 - p and the derivative after the
# construction. Both p and 1 - p are computed, so that neither end loses precision.
STEPS: dict[str, Callable[[Floats, Floats, Any], tuple[Floats, Floats, Floats]]] = {"and": _and, "or": _or}


def _both(p: Floats, q: Floats, cascade: Cascade) -> tuple[Floats, Floats]:
    """Return p and 1 - p after a cascade."""
    for kind, ways in cascade:
        p, q, _ = STEPS[kind](p, q, ways)
    return np.asarray(p), np.asarray(q)


def _slope(p: Floats, q: Floats, cascade: Cascade) -> Floats:
    out = np.ones_like(p)
    for kind, ways in cascade:
        p, q, rise = STEPS[kind](p, q, ways)
        out = out * rise
    return np.asarray(out)


def _chances(logits: Any) -> tuple[Floats, Floats]:
    """Return p and 1 - p from log(p / (1 - p))."""
    return np.asarray(1 / (1 + np.exp(-logits))), np.asarray(1 / (1 + np.exp(logits)))


def _moved(logits: Any, cascade: Cascade) -> Floats:
    """Return how far a cascade moves log(p / (1 - p)); infinite if p or 1 - p becomes 0."""
    p, q = _both(*_chances(logits), cascade)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log(q) - logits)
