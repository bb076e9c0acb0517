"""Exact similarity of pairs of items from their elements themselves, where a sketch could only estimate it.

Items are ragged sorted ``uint64`` (``stream.tokens.bags``), pair i being ``values_a[starts_a[i]:starts_a[i + 1]]`` and
the same of b; the measures are those of ``stream.theory.measures``, for m pairs at once: ``float64[m]``, in [0, 1].
Each is one merge, O(|a| + |b|). Elements that repeat count as often as they stand there: sets come without repetitions.

Source: Mining of Massive Datasets, 3.1.1, 3.1.3, and 3.4.3, steps 6 and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import kernel

Elements = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def common_elements(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Counts:
    """How many elements each pair has in common, ``int64[m]``; of repeated ones the lesser multiplicity."""
    out = np.empty(len(starts_a) - 1, np.int64)
    _common(values_a, starts_a, values_b, starts_b, out)
    return out


def jaccard(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Floats:
    """Jaccard similarity of sets; of bags the one whose union has the greatest multiplicities. 0 for two empty ones.

    >>> import numpy as np
    >>> a, b = np.array([1, 1, 1, 2], np.uint64), np.array([1, 1, 2, 2, 3], np.uint64)
    >>> jaccard(a, np.array([0, 4]), b, np.array([0, 5])).tolist()
    [0.5]
    """
    common = common_elements(values_a, starts_a, values_b, starts_b)
    return _ratio(common, np.diff(starts_a) + np.diff(starts_b) - common)


def jaccard_bag_sum(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Floats:
    """Jaccard similarity of bags whose union has the sum of the multiplicities: at most one half."""
    common = common_elements(values_a, starts_a, values_b, starts_b)
    return _ratio(common, np.diff(starts_a) + np.diff(starts_b))


def containment(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Floats:
    """The share of a's elements that are in b; 0 for an empty a."""
    return _ratio(common_elements(values_a, starts_a, values_b, starts_b), np.diff(starts_a))


def containment_either(values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts) -> Floats:
    """The share of the smaller one's elements that are in the larger: the greater of the two containments."""
    common = common_elements(values_a, starts_a, values_b, starts_b)
    return _ratio(common, np.minimum(np.diff(starts_a), np.diff(starts_b)))


def containment_agreement(s: Floats) -> npt.ArrayLike:
    """How often rows agree for two sets of one size of which a fraction ``s`` is common: their Jaccard similarity."""
    return s / (2 - s)


def summed_agreement(s: Floats) -> npt.ArrayLike:
    """How often rows agree for two bags whose summed union makes them alike by ``s``: s / (1 - s), and 1 beyond .5."""
    return s / np.maximum(1 - s, s)


class SetMeasure(NamedTuple):
    """A row of ``SET_MEASURES``: how alike two sets or bags are, and how often the rows of their signatures agree."""

    similarity: Callable[[Elements, Starts, Elements, Starts], Floats]
    of_bags: bool = False  # repetitions count: they come numbered, as elements of their own
    agreement: Callable[[Floats], npt.ArrayLike] | None = None  # similarity -> agreement of rows; ``None``: equal
    estimable: bool = True  # whether two sketches suffice to estimate it
    similarity_max: float = 1.0  # the similarity of equal items


# ``Config.measure`` of a scheme of sets. A pair has no direction, so containment is that of the smaller set in the
# larger one.
SET_MEASURES: dict[str, SetMeasure] = {
    "jaccard": SetMeasure(jaccard),
    "jaccard_bag": SetMeasure(jaccard, of_bags=True),
    "jaccard_bag_sum": SetMeasure(
        jaccard_bag_sum, of_bags=True, agreement=summed_agreement, estimable=False, similarity_max=0.5
    ),
    "containment": SetMeasure(containment_either, agreement=containment_agreement, estimable=False),
}


def _ratio(common: Counts, whole: Counts) -> Floats:
    return np.asarray(common / np.maximum(whole, 1))


@kernel
def _common(values_a, starts_a, values_b, starts_b, out):
    for pair in range(len(out)):
        a, b = values_a[starts_a[pair] : starts_a[pair + 1]], values_b[starts_b[pair] : starts_b[pair + 1]]
        i, j, common = 0, 0, 0
        while i < len(a) and j < len(b):
            x, y = a[i], b[j]  # no branch: which of the two is less is a coin toss
            common += x == y
            i += x <= y
            j += y <= x
        out[pair] = common
