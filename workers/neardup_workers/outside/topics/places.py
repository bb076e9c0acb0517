"""Places: the name of one version of one document, its partition and offset in ``documents``, as one number.

A place is an ``int64``: the offset in the lower 48 bits, the partition above it. In text a place is
``partition-offset``.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def parse_places(texts: Sequence[str]) -> _Places:
    """Return the places that texts name, ``int64[n]``; raises ``ValueError`` for any other text.

    >>> parse_places(["3-17", "0-4"]).tolist() == [place_of(3, 17), 4]
    True
    """
    if not texts:
        return np.empty(0, np.int64)
    numbers = "-".join(texts).split("-")
    if len(numbers) != 2 * len(texts):
        raise ValueError(f"of {len(texts)} places with {len(numbers)} numbers, each must be partition-offset")
    columns = np.array(list(map(int, numbers)), np.int64).reshape(-1, 2)
    return places_of(columns[:, 0], columns[:, 1])


def found_at(places: _Places, among: _Places) -> _Places:
    """Return where each place stands among distinct others, ``int64[n]``, -1 for nowhere.

    >>> found_at(np.array([7, 9]), np.array([9, 3])).tolist()
    [-1, 0]
    """
    order = np.append(np.argsort(among, kind="stable"), -1)
    at = np.searchsorted(among, places, sorter=order[:-1])
    known = np.flatnonzero(at < len(among))
    known = known[among[order[at[known]]] == places[known]]
    out = np.full(len(places), -1)
    out[known] = order[at[known]]
    return out
