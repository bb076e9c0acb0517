"""The account of a source in an hour: counts, and the lags behind the originals of other sources."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.stories.verdicts.rule import STATUSES

# What an account counts. ``own`` are duplicates of other ids of the same source; ``first_by_arrival`` and
# ``first_by_date`` are stories that other sources tell as well, in which it was first; ``uncertain`` is how many of
# ``documents`` may belong to sources that were forgotten.
COUNTS = (
    "documents", "originals", "duplicates", "updates", "unchanged", "refused", "late", "own", "first_by_arrival",
    "first_by_date", "uncertain",
)  # fmt: skip
DOCUMENTS, OWN, LATE, FIRST_BY_ARRIVAL, FIRST_BY_DATE, UNCERTAIN = map(
    COUNTS.index, ("documents", "own", "late", "first_by_arrival", "first_by_date", "uncertain")
)
# Status -> its count.
_OF_STATUS = {
    "original": "originals", "duplicate": "duplicates", "unchanged": "unchanged", "refused": "refused",
    "update": "updates",
}  # fmt: skip
# Number of a status -> the index of its count; a removal is no verdict about a document.
STATUS_COUNTS = [COUNTS.index(_OF_STATUS[one]) if one in _OF_STATUS else UNCERTAIN for one in STATUSES]
# A lag falls into a bin of 1/8 of a power of two: a median is within 5 percent, or half a second.
_BINS = 8
_BEGINS = 2.0 ** (np.arange(64 * _BINS) / _BINS)  # of one second plus the lag
LAGS = ("arrival", "date")
LAG_NAMES = [f"lag_seconds_by_{name}" for name in LAGS]
# The hour of documents without a time.
NO_HOUR = -(1 << 62)
# The hour of an account of all.
ALL_HOURS = NO_HOUR - 1
# An account names so many other sources at most.
PARTNERS_MAX = 16


@dataclass(slots=True)
class Account:
    """The counts of a source in an hour or in all, in the order of ``COUNTS``; ``lags`` are numbers by bin, of arrival
    and of date."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    lags: tuple[dict[int, int], ...] = ()  # none until the first lag: most accounts of an hour have none

    def add_lags(self, bins: Sequence[int], no_lag: int) -> None:
        """Count lags of arrival and of date by bins, which are negative if the original came, or is dated, later;
        ``no_lag`` stands for none."""
        for kind, one in enumerate(bins):
            if one != no_lag:
                if not self.lags:
                    self.lags = ({}, {})
                lags = self.lags[kind]
                lags[one] = lags.get(one, 0) + 1

    def values(self) -> dict[str, Any]:
        """Return the account as values of JSON."""
        medians = zip(LAG_NAMES, map(median_of, self.lags or ({}, {})), strict=True)
        return {**dict(zip(COUNTS, self.counts, strict=True)), **dict(medians)}

    def of_hour(self, hour: int) -> dict[str, Any]:
        """Return the account of an hour as values of JSON: its begin, the counts above zero and the lags."""
        fields: dict[str, Any] = {"hour": None if hour == NO_HOUR else hour * 3600}
        fields.update(zip(compress(COUNTS, self.counts), filter(None, self.counts), strict=True))
        for name, one in zip(LAG_NAMES, self.lags, strict=False):
            if one:
                fields[name] = median_of(one)
        return fields

    def stored(self) -> tuple[int | str | None, ...]:
        """Return the counts, then the lags as JSON: values that ``from_stored`` reads."""
        return *self.counts, json.dumps([list(lags.items()) for lags in self.lags]) if self.lags else None

    @classmethod
    def from_stored(cls, values: Sequence[Any]) -> Account:
        """Return the account that ``stored`` gave."""
        *counts, lags = values
        return cls(counts, tuple(map(dict, json.loads(lags))) if lags else ())


def bins_of(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bins of lags.

    >>> bins_of(np.array([0.0, 1.0, -3.0])).tolist()
    [0, 8, -16]
    """
    sizes = np.searchsorted(_BEGINS, 1.0 + np.abs(seconds), "right") - 1
    return np.where(seconds < 0, -sizes, sizes)


def median_of(lags: dict[int, int]) -> float | None:
    """Return the lower median of lags by bin, in seconds: the middle of its bin; ``None`` without one."""
    left = (sum(lags.values()) + 1) // 2
    for one in sorted(lags):
        left -= lags[one]
        if left <= 0:
            middle = 2.0 ** ((abs(one) + 0.5) / _BINS) - 1.0 if one else 0.0
            return round(math.copysign(middle, one), 1)
    return None


def partners(found: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """Return the largest of other sources with negative numbers of documents, as values of JSON."""
    return [{"source": name or None, "documents": -number} for number, name in nsmallest(PARTNERS_MAX, found)]
