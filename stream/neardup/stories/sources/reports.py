"""What the ledger counts: verdicts with their sources and times, as columns; and its parts as a store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.pairs.batches import MICROSECONDS
from neardup.stories.sources.accounts import NO_HOUR, STATUS_COUNTS
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REFUSED, UPDATE
from neardup.window import NO_TIME

_HOUR = 3600 * MICROSECONDS
LATE_KINDS = len(STATUS_COUNTS)


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
    original; number. ``story`` -> place; its members. ``exceeded`` -> bound; number. ``stories`` -> nothing; many
    stories, each with its place first.
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


class Read(NamedTuple):
    """What reports say of n documents: the hours since the epoch, of their arrival, else of their date; their statuses,
    those of late ones ``LATE_KINDS`` more; and which of them begin and which join a story."""

    hours: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    begins: npt.NDArray[np.bool_]
    joins: npt.NDArray[np.bool_]


def read(reports: Reports) -> Read:
    """Return what reports say."""
    n = len(reports.statuses)
    columns = Read(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_), np.empty(n, np.bool_))
    _read(reports.statuses, reports.late, reports.arrivals, reports.dates, *columns)
    return columns


def hour_of(arrival: int, date: int) -> int:
    """Return the hour since the epoch of an arrival, else of a date, in microseconds; ``NO_HOUR`` for neither."""
    time = date if arrival == NO_TIME else arrival
    return NO_HOUR if time == NO_TIME else time // _HOUR


_hour_of = inner(hour_of)


@kernel("const u8[], const bool[], const i64[], const i64[], i64[], i64[], bool[], bool[]", direct=True)
def _read(statuses, late, arrivals, dates, hours, kinds, begins, joins):
    for i in range(len(statuses)):
        status = np.int64(statuses[i])
        hours[i] = _hour_of(arrivals[i], dates[i])
        kinds[i] = status + LATE_KINDS if late[i] else status
        begins[i] = status == ORIGINAL and not late[i]
        joins[i] = status in (DUPLICATE, UPDATE) and not late[i]
