"""The account of a source in an hour: counts, and the lags behind the originals of other sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neardup.stream.verdicts.rule import STATUSES

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
STATUS_COUNTS = np.array([COUNTS.index(_OF_STATUS[one]) if one in _OF_STATUS else -1 for one in STATUSES])
# A lag falls into a bin of 1/8 of a power of two: a median is within 5 percent, or half a second.
_BINS = 8
LAGS = ("arrival", "date")


@dataclass
class Account:
    """The counts of a source in an hour or in all, in the order of ``COUNTS``; ``lags`` are numbers by bin, of arrival
    and of date."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    lags: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))

    def add_lag(self, kind: int, seconds: float) -> None:
        """Count a lag, which is negative if the original came, or is dated, later."""
        lags, one = self.lags[kind], bin_of(seconds)
        lags[one] = lags.get(one, 0) + 1

    def values(self) -> dict[str, Any]:
        """Return the account as values of JSON."""
        medians = {f"lag_seconds_by_{name}": median_of(self.lags[kind]) for kind, name in enumerate(LAGS)}
        return dict(zip(COUNTS, self.counts, strict=True)) | medians

    def stored(self) -> list[Any]:
        """Return the account as values that ``from_stored`` reads."""
        return [self.counts, *(list(lags.items()) for lags in self.lags)]

    @classmethod
    def from_stored(cls, values: Sequence[Any]) -> Account:
        """Return the account that ``stored`` gave."""
        counts, by_arrival, by_date = values
        return cls(list(counts), (dict(map(tuple, by_arrival)), dict(map(tuple, by_date))))


def bin_of(seconds: float) -> int:
    """Return the bin of a lag."""
    size = int(_BINS * math.log2(1.0 + abs(seconds)))
    return -size if seconds < 0 else size


def median_of(lags: dict[int, int]) -> float | None:
    """Return the lower median of lags by bin, in seconds: the middle of its bin; ``None`` without one."""
    left = (sum(lags.values()) + 1) // 2
    for one in sorted(lags):
        left -= lags[one]
        if left <= 0:
            middle = 2.0 ** ((abs(one) + 0.5) / _BINS) - 1.0 if one else 0.0
            return round(math.copysign(middle, one), 1)
    return None
