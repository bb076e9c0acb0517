"""Exact similarity of pairs of items, from their elements; a sketch only estimates it.

Items are ragged sorted ``uint64`` (``neardup.features.tokens.bags``). Pair i is
``values_a[starts_a[i]:starts_a[i + 1]]`` and the same slice of b. The measures are those of
``neardup_textbook.theory.measures`` for m pairs at once:
``float64[m]``, in [0, 1]. Each is one merge in O(|a| + |b|). A repeated element counts as often as it occurs, so the
caller removes repetitions from sets.

Source: Mining of Massive Datasets, 3.1.1, 3.1.3, and 3.4.3, steps 6 and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel

Elements = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def common_elements(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Counts:
    """Count the common elements of each pair, ``int64[m]``; a repeated element counts with its lesser multiplicity."""
    out = np.empty(len(starts_a) - 1, np.int64)
    _common(values_a, starts_a, values_b, starts_b, out)
    return out


def jaccard(common: Counts, sizes_a: Counts, sizes_b: Counts) -> Floats:
    """Jaccard similarity of sets; of bags the one whose union has the greatest multiplicities. 0 for two empty ones."""
    return _ratio(common, sizes_a + sizes_b - common)


def jaccard_bag_sum(common: Counts, sizes_a: Counts, sizes_b: Counts) -> Floats:
    """Jaccard similarity of bags whose union has the sum of the multiplicities: at most one half."""
    return _ratio(common, sizes_a + sizes_b)


def containment_either(common: Counts, sizes_a: Counts, sizes_b: Counts) -> Floats:
    """The fraction of the smaller item's elements that the larger has: the greater of the two containments."""
    return _ratio(common, np.minimum(sizes_a, sizes_b))


def containment_agreement(s: Floats) -> npt.ArrayLike:
    """The probability that a row agrees for two sets of one size that share a fraction ``s``."""
    return s / (2 - s)


def summed_agreement(s: Floats) -> npt.ArrayLike:
    """The probability that a row agrees for two bags of similarity ``s`` with a summed union."""
    return s / np.maximum(1 - s, s)


def jaccard_share(s: float) -> float:
    """The fraction of its elements that each of two items of a Jaccard similarity ``s`` shares at least: the union is
    not smaller than either."""
    return s


def summed_share(s: float) -> float:
    """The same for bags with a summed union: the other one has at least what is common."""
    return s / (1 - s)


def no_share(_: float) -> float:
    """The same for containment: the larger item may be of any size."""
    return 0.0


class SetMeasure(NamedTuple):
    """A row of ``SET_MEASURES``: the similarity of two sets or bags from the number of common elements and the two
    sizes, the fraction of its elements that each of two such items shares with the other at least, and the probability
    that their rows agree.

    >>> import numpy as np
    >>> a, b = np.array([1, 1, 1, 2], np.uint64), np.array([1, 1, 2, 2, 3], np.uint64)
    >>> SET_MEASURES["jaccard"].similarity(a, np.array([0, 4]), b, np.array([0, 5])).tolist()
    [0.5]
    """

    of_counts: Callable[[Counts, Counts, Counts], Floats]
    share_min: Callable[[float], float]
    of_bags: bool = False  # repetitions count: they are numbered, and so different elements
    agreement: Callable[[Floats], npt.ArrayLike] | None = None  # similarity -> agreement of rows; ``None``: equal
    estimable: bool = True  # whether two sketches suffice to estimate it
    similarity_max: float = 1.0  # the similarity of equal items
    weighted: bool = False  # whether counts of the stream weigh the elements (``rarity``); without them it is as here

    def similarity(self, values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Floats:
        """Return the similarity of each pair; repetitions in sets are removed before."""
        common = common_elements(values_a, starts_a, values_b, starts_b)
        return self.of_counts(common, np.diff(starts_a), np.diff(starts_b))


# ``Config.measure`` of a scheme of sets. A pair has no direction, so containment is that of the smaller set in the
# larger one.
SET_MEASURES: dict[str, SetMeasure] = {
    "jaccard": SetMeasure(jaccard, jaccard_share),
    "jaccard_bag": SetMeasure(jaccard, jaccard_share, of_bags=True),
    "jaccard_bag_sum": SetMeasure(
        jaccard_bag_sum, summed_share, of_bags=True, agreement=summed_agreement, estimable=False,
        similarity_max=0.5,
    ),
    "containment": SetMeasure(
        containment_either, no_share, agreement=containment_agreement, estimable=False
    ),
    "jaccard_idf": SetMeasure(jaccard, no_share, estimable=False, weighted=True),
}  # fmt: skip


def _ratio(common: Counts, whole: Counts) -> Floats:
    return np.asarray(common / np.maximum(whole, 1))


@inner
def merged(a, b):
    """Count the common elements of two items, in ascending order both."""
    i, j, common = 0, 0, 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]  # no branch, because it would be mispredicted half of the time
        common += x == y
        i += x <= y
        j += y <= x
    return common


@kernel("const u64[], i64[], const u64[], i64[], i64[]")
def _common(values_a, starts_a, values_b, starts_b, out):
    for pair in range(len(out)):
        a, b = values_a[starts_a[pair] : starts_a[pair + 1]], values_b[starts_b[pair] : starts_b[pair + 1]]
        out[pair] = merged(a, b)
