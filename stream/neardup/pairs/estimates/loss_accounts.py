"""Where limits cost pairs: in which hours, of which sources, and in which clusters.

Of each kind some thousand are remembered; what is forgotten has the least losses, and its number is reported. A cluster
is named by the oldest document that its truncated probes have compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.pairs.estimates.limits import Losses

# The largest clusters that are reported, and what is remembered of a kind.
LARGEST = 10
_KEPT = 1_000
_HOUR = 3_600_000_000
_NO_TIME = np.iinfo(np.int64).min


class LossAccounts:
    """Losses by hour, source and cluster: truncated probes, documents not compared, pairs expected to be missing."""

    def __init__(self) -> None:
        self._hours: dict[int | None, list[float]] = {}
        self._sources: dict[str, list[float]] = {}
        self._clusters: dict[str, list[float]] = {}
        self.forgotten = 0

    def add(
        self, losses: Losses, times: npt.NDArray[np.int64], clusters: Sequence[str], sources: Sequence[str]
    ) -> None:
        """Count the losses of k probes by their ``times`` (microseconds, the least number for none), by the id of the
        oldest document that each compared (``clusters``), and by source, empty for none.

        >>> accounts, one = LossAccounts(), np.array([3], np.int32)
        >>> accounts.add(Losses(one, one, np.array([2.5]), np.array([7])), np.array([0]), ["a"], [""])
        >>> accounts.values()["largest"]
        [{'id': 'a', 'truncated': 1, 'uncompared': 3, 'missed_pairs': 2.5}]
        """
        hours = [None if time == _NO_TIME else time // _HOUR * 3600 for time in times.tolist()]
        for keys, accounts in ((hours, self._hours), (sources, self._sources), (clusters, self._clusters)):
            self._count(accounts, zip(keys, losses.uncompared.tolist(), losses.missed.tolist(), strict=True))

    def values(self, most: int = _KEPT) -> dict[str, Any]:
        """Return the accounts as values of JSON, ``most`` hours and sources: the newest hours in order; sources and
        clusters, the greatest losses first. Any thread may call it."""
        hours = sorted(self._hours.items(), key=lambda one: -1 if one[0] is None else one[0])
        return {
            "hours": [_values("hour", *one) for one in hours[-most:]],
            "sources": [_values("source", *one) for one in _largest(self._sources, most + 1) if one[0]][:most],
            "largest": [_values("id", *one) for one in _largest(self._clusters, LARGEST)],
            "forgotten": self.forgotten,
        }

    def forget(self, id_: str) -> None:
        """Forget the cluster that a document names, which is removed."""
        self._clusters.pop(id_, None)

    def _count(self, accounts: dict[Any, list[float]], found: Iterable[tuple[Hashable, int, float]]) -> None:
        for key, uncompared, missed in found:
            account = accounts.setdefault(key, [0, 0, 0.0])
            account[0] += 1
            account[1] += uncompared
            account[2] += missed
        if len(accounts) > 2 * _KEPT:
            kept = _largest(accounts, _KEPT)
            self.forgotten += len(accounts) - len(kept)
            accounts.clear()
            accounts.update(kept)


def _largest(accounts: dict[Any, list[float]], count: int) -> list[tuple[Any, list[float]]]:
    return sorted(accounts.items(), key=lambda one: -one[1][2])[:count]


def _values(kind: str, key: Hashable, account: list[float]) -> dict[str, Any]:
    truncated, uncompared, missed = account
    return {kind: key, "truncated": truncated, "uncompared": uncompared, "missed_pairs": round(missed, 1)}
