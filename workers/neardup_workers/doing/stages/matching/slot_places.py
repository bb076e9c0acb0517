"""The places of the documents in a table, by slot: eight bytes a slot, in pages that follow the window.

Slots are numbered in order of arrival and never move, so this column needs no undo: after an undone step,
the next step overwrites its places.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.window.pages import Pages, grow

_PAGE_BITS = 12


class SlotPlaces:
    """A column of places next to a table. Slots are set in order; slots before the window are released."""

    def __init__(self) -> None:
        self._pages = Pages(_PAGE_BITS)
        self._places: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def put(self, first: int, places: npt.NDArray[np.int64]) -> None:
        """Set the places of slots from ``first`` on."""
        self._pages.extend(first + len(places))
        grow(self._places, self._pages.physical_pages << _PAGE_BITS)
        self._places[self._pages.at(np.arange(first, first + len(places)))] = places

    def of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of slots that are not released, ``int64[m]``."""
        return self._places[self._pages.at(slots)]

    def release(self, oldest: int) -> None:
        """Free the pages of slots below ``oldest``."""
        self._pages.release(oldest)

    @property
    def allocated_bytes(self) -> int:
        """Memory of the column."""
        return self._places.nbytes
