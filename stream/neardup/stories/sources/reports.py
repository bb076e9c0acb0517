"""What the ledger counts: verdicts with their sources and times, as columns; and its parts as a store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import MICROSECONDS
from neardup.stories.sources.accounts import NO_HOUR
from neardup.stories.verdicts.rule import REFUSED
from neardup.window import NO_TIME

_HOUR = 3600 * MICROSECONDS


class Reports(NamedTuple):
    """n verdicts for the ledger: sources (empty for none), statuses, clusters as in ``Verdicts``, whether late; times
    of arrival and dates in microseconds, ``NO_TIME`` where one is not known."""

    sources: Sequence[str]
    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    late: npt.NDArray[np.bool_]
    arrivals: npt.NDArray[np.int64]
    dates: npt.NDArray[np.int64]


class Kept(NamedTuple):
    """A part of the ledger as a store keeps it: plain values, ``None`` instead of them for one that is forgotten.

    ``kind`` -> key and values: ``account`` -> source, hour; as ``Account.stored``. ``pair`` -> source, source of the
    original; number. ``story`` -> place; its members. ``exceeded`` -> bound; number.
    """

    kind: str
    key: tuple[Any, ...]
    value: tuple[Any, ...] | None


def refusals(sources: Sequence[str], arrival: int) -> Reports:
    """Return reports of refused documents that arrived at a time."""
    count = len(sources)
    times = np.full(count, arrival), np.full(count, NO_TIME)
    statuses = np.full(count, REFUSED, np.uint8)
    return Reports(sources, statuses, np.full(count, -1), np.zeros(count, np.bool_), *times)


def hours_of(reports: Reports) -> npt.NDArray[np.int64]:
    """Return the hours of documents since the epoch: of their arrival, else of their date."""
    times = np.where(reports.arrivals != NO_TIME, reports.arrivals, reports.dates)
    return np.where(times != NO_TIME, times // _HOUR, NO_HOUR)
