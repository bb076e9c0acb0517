"""``FAMILIES``: locality-sensitive families of functions, one for each distance.

A family is a set of functions. The nearer two items are, the more likely they agree on a random function of the family.
A family is (d1, d2, p1, p2)-sensitive if a random function agrees with probability p1 or more on items at most d1
apart, and with probability p2 or less on items at least d2 apart. The exact probability at every distance is known
here, and it falls as the distance grows; so every d1 < d2 gives such a statement. ``cascades`` drives p1 and p2 apart.

Source: Mining of Massive Datasets, 3.6 and 3.7; Datar, Immorlica, Indyk, Mirrokni, "Locality-sensitive hashing scheme
based on p-stable distributions", SCG 2004; Gionis, Indyk, Motwani, "Similarity search in high dimensions via hashing",
VLDB 1999.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup_textbook.signatures import p_stable
from neardup_textbook.theory.cascades import MEMBERS_LIMIT, Cascade, amplify, cheapest

Floats = npt.NDArray[np.float64]
# Halvings of an interval that reach the precision of a float64.
_HALVINGS = 60


class Family(NamedTuple):
    """A row of ``FAMILIES``: the probability that a function agrees at a distance of a measure."""

    measure: str  # the row of MEASURES that gives the distance
    collision: Callable[[Floats, float], Floats]  # distances, scale -> probabilities
    scale: float | None  # the scale, if the family has only one
    scale_means: str
    functions: str  # the meaning of one function


class Sensitivity(NamedTuple):
    """Up to distance ``d1`` a function agrees with at least ``p1``, from ``d2`` on with at most ``p2``."""

    d1: float
    d2: float
    p1: float
    p2: float


class Probing(NamedTuple):
    """Tables that find a near item among many: see ``probing``."""

    rho: float
    rows: int
    tables: int
    found: float
    items_max: int


def collision(family: str, distance: npt.ArrayLike, scale: float | None = None) -> Floats:
    """The probability that a function of a family agrees, at distances of 0 or more (any shape).

    ``scale_means`` defines ``scale`` (above 0), which must be given if the row has none. Above the greatest possible
    distance the probability is 0. Raises ``ConfigError`` for an unknown family or a scale that does not fit.

    >>> round(float(collision("cosine", 60.0)), 4)
    0.6667
    """
    row, scale = _row(family, scale)
    return row.collision(np.asarray(distance, np.float64), scale)


def distance_at(family: str, chance: float, scale: float | None = None) -> float:
    """The distance at which a function agrees with probability ``chance`` (above 0, up to 1); inverts ``collision``.

    >>> round(distance_at("cosine", 0.75), 9)
    45.0
    """
    row, scale = _row(family, scale)
    low, high = 0.0, scale
    while float(row.collision(np.array(high), scale)) > chance:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(row.collision(np.array(middle), scale)) > chance:
            low = middle
        else:
            high = middle
    return high


def sensitivity(family: str, d1: float, d2: float, scale: float | None = None) -> Sensitivity:
    """The sensitivity of a family at two distances, 0 <= d1 < d2. Raises ``ConfigError`` for other distances.

    >>> sensitivity("minhash", 0.25, 0.5)
    Sensitivity(d1=0.25, d2=0.5, p1=0.75, p2=0.5)
    """
    if not 0 <= d1 < d2 < math.inf:
        raise ConfigError(f"d1 is {d1:g} and d2 is {d2:g}, but d1 must be 0 or more, and d2 above it")
    p1, p2 = collision(family, [d1, d2], scale).tolist()
    return Sensitivity(d1, d2, p1, p2)


def amplified(base: Sensitivity, cascade: Cascade) -> Sensitivity:
    """The sensitivity of the family that a cascade constructs from a family.

    >>> from neardup_textbook.theory.cascades import Step
    >>> amplified(sensitivity("minhash", 0.5, 0.75), (Step("and", 2),))
    Sensitivity(d1=0.5, d2=0.75, p1=0.25, p2=0.0625)
    """
    p1, p2 = amplify([base.p1, base.p2], cascade).tolist()
    return Sensitivity(base.d1, base.d2, p1, p2)


def propose(
    family: str,
    d1: float,
    d2: float,
    p1: float,
    p2: float,
    scale: float | None = None,
    members_max: int = MEMBERS_LIMIT,
    *,
    banded: bool = False,
) -> Cascade:
    """The cascade of up to three steps and fewest functions that makes a family (d1, d2, p1, p2)-sensitive.

    It has no steps if the family is sensitive enough already; with ``banded``, only AND and then OR. Raises
    ``ConfigError`` for distances at which all functions agree or none does, unless 0 < p2 < p1 < 1, and if
    ``members_max`` functions are not enough.

    >>> propose("minhash", 0.2, 0.6, 0.87, 0.1)
    (Step(kind='and', ways=4), Step(kind='or', ways=4))
    """
    base = sensitivity(family, d1, d2, scale)
    if base.p1 == 1 or base.p2 == 0:
        which, value, rest = ("d1", d1, "above 0") if base.p1 == 1 else ("d2", d2, "nearer")
        raise ConfigError(f"at {which} of {value:g} every function says the same of a pair: take a {which} {rest}")
    return cheapest(base.p1, base.p2, p1, p2, members_max, banded=banded)


def probing(documents: int, p1: float, p2: float) -> Probing:
    """Return the tables that find an item within d1 among ``documents``, by a (d1, d2, p1, p2)-sensitive family.

    With k = log n / log(1 / p2) rows, a far item shares a query's bucket in one table with probability 1 / n or less. A
    near item shares it with probability n^-rho or more, where rho = log(1 / p1) / log(1 / p2). So L = n^rho tables find
    a near item with probability ``found``, which is 1 - 1/e or more. With probability 1/2 or more, a probe visits at
    most 2 L far items (``items_max``), and may stop then. ``rows`` is k rounded up, and ``tables`` is L for that many
    rows, rounded up.

    Raises ``ConfigError`` unless 0 < p2 < p1 < 1 and ``documents`` is 2 or more.

    >>> found = probing(1024, 2**-0.5, 0.5)
    >>> found.rows, found.tables, found.items_max, round(found.rho, 6), round(found.found, 4)
    (10, 32, 64, 0.5, 0.6379)
    """
    if documents < 2:
        raise ConfigError(f"documents is {documents}, but must be 2 or more for a probe to have a choice")
    if not 0 < p2 < p1 < 1:
        raise ConfigError(f"p1 is {p1:g} and p2 is {p2:g}, but they must lie between 0 and 1, p2 below p1")
    rows = _whole(math.log(documents) / -math.log(p2))
    collision = p1**rows
    tables = _whole(1 / collision)
    probability = -math.expm1(tables * math.log1p(-collision))
    return Probing(math.log(p1) / math.log(p2), rows, tables, probability, 2 * tables)


def _whole(x: float) -> int:
    """Round up, but not an integer that rounding errors have increased."""
    return math.ceil(x * (1 - 1e-12))


def _row(family: str, scale: float | None) -> tuple[Family, float]:
    """Return the row of a family, and its scale."""
    if family not in FAMILIES:
        raise ConfigError(f"family is {family!r}, but must be one of {', '.join(FAMILIES)}")
    row = FAMILIES[family]
    if row.scale is not None:
        if scale is not None:
            raise ConfigError(f"scale is {scale:g}, but the family {family} has one of its own: leave scale out")
        return row, row.scale
    if scale is None or not 0 < scale < math.inf:
        raise ConfigError(f"scale is {scale}, but the family {family} needs one above 0: the {row.scale_means}")
    return row, scale


def _linear(distance: Floats, scale: float) -> Floats:
    """Return 1 - d / scale."""
    return np.asarray(np.clip(1 - distance / scale, 0.0, 1.0))


def _cauchy(distance: Floats, scale: float) -> Floats:
    """Return the probability of one segment for two points whose projections differ by d times a Cauchy number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = scale / distance
        parted = np.log1p(t * t) / (math.pi * t)
        return np.asarray(np.where(distance == 0, 1.0, 2 * np.arctan(t) / math.pi - parted))


FAMILIES: dict[str, Family] = {
    "minhash": Family(
        "jaccard_distance", _linear, 1.0, "greatest Jaccard distance", "the least of a set in a random order"
    ),
    "hamming": Family("hamming_bits", _linear, None, "bits of an item", "one bit"),
    "cosine": Family("angle", _linear, 180.0, "greatest angle", "the side of a random hyperplane"),
    "euclid": Family(
        "l2", p_stable.agreement, None, "width of a segment", "the segment of a line of normal components"
    ),
    "l1": Family("l1", _cauchy, None, "width of a segment", "the segment of a line of Cauchy components"),
    "l1_unary": Family("l1", _linear, None, "dimensions times the greatest component", "one bit of a unary code"),
}
