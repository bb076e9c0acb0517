"""Places: the name of one version of one document, its partition and offset in ``documents``, as one number.

A place is an ``int64``: the offset in the lower 48 bits, the partition above it. In text a place is
``partition-offset``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# 2.8 * 10^14 offsets, and 2^15 partitions.
OFFSET_BITS = 48
_OFFSET_MASK = (1 << OFFSET_BITS) - 1

_Places = npt.NDArray[np.int64]


def place_of(partition: int, offset: int) -> int:
    """Return the place of an offset of a partition."""
    return partition << OFFSET_BITS | offset


def places_of(partitions: _Places, offsets: _Places) -> _Places:
    """Return the places of n offsets, ``int64[n]``."""
    return partitions << OFFSET_BITS | offsets


def partitions_of(places: _Places) -> _Places:
    """Return the partitions of places, ``int64[n]``."""
    return places >> OFFSET_BITS


def offsets_of(places: _Places) -> _Places:
    """Return the offsets of places, ``int64[n]``."""
    return places & _OFFSET_MASK


def place_name(place: int) -> str:
    """Return a place as text.

    >>> place_name(place_of(3, 17))
    '3-17'
    """
    return f"{place >> OFFSET_BITS}-{place & _OFFSET_MASK}"


def parse_place(text: str) -> int:
    """Return the place that a text names; raises ``ValueError`` for any other text.

    >>> parse_place("3-17") == place_of(3, 17)
    True
    """
    partition, offset = text.split("-")
    return place_of(int(partition), int(offset))
