"""Clusters of a run: an original and its duplicates, written when the original has left the window.

After this moment no document can join, so memory follows the window. A later unchanged version of the original
represents the cluster in place of the original, and keeps the cluster open.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stream.json_lines import SIMILARITY_DIGITS
from stream.verdicts.decider import Decided
from stream.verdicts.rule import DUPLICATE, UNCHANGED
from workers.commands.dedup.verdict_lines import encoded

# Clusters that a summary names.
LARGEST = 10
# Maximum number of duplicates in the line of a cluster, the first ones; ``size`` counts all.
MEMBERS_MAX = 10_000


@dataclass
class _Cluster:
    """A cluster that may grow: ``row`` is the number of the document that represents it."""

    place: int
    id: str
    row: int
    size: int = 1
    similarity_min: float = 1.0
    members: list[tuple[int, str, float]] = field(default_factory=list)

    def line(self) -> bytes:
        """The cluster as a line of JSON."""
        members = [
            {"place": place, "id": id_, "similarity": round(similarity, SIMILARITY_DIGITS)}
            for place, id_, similarity in self.members
        ]
        value = {
            "cluster": self.place,
            "id": self.id,
            "size": self.size,
            "similarity_min": round(self.similarity_min, SIMILARITY_DIGITS),
            "members": members,
        }
        return encoded(value) + b"\n"


class Clusters:
    """The clusters of at least two documents. ``write`` receives the lines of complete clusters."""

    def __init__(self, write: Callable[[bytes], None] | None) -> None:
        self._write = write
        self._open: dict[int, _Cluster] = {}
        self._rows: list[tuple[int, int]] = []  # a heap of the rows that represented clusters, and their clusters
        self._largest: list[tuple[int, int, str]] = []  # a heap of sizes, places negated, ids

    def add(self, decided: Decided, accepted: npt.NDArray[np.bool_], ids: Callable[[int], str]) -> None:
        """Count verdicts; ``ids`` returns the id of an arrival by its index."""
        verdicts = decided.verdicts
        for n in np.flatnonzero(verdicts.statuses == UNCHANGED).tolist():
            cluster = self._open.get(int(verdicts.clusters[n]))
            if cluster is not None and not verdicts.similarities[n]:  # it represents the cluster
                cluster.row = decided.first_row + int(np.count_nonzero(accepted[:n]))
        named = np.flatnonzero(verdicts.originals >= 0)
        dropped = verdicts.statuses[named] == DUPLICATE
        originals = [id_ for id_, is_dropped in zip(decided.ids, dropped.tolist(), strict=True) if is_dropped]
        at = named[dropped]
        columns = (verdicts.clusters[at], verdicts.originals[at], verdicts.similarities[at])
        for n, original, place, row, similarity in zip(
            at.tolist(), originals, *(column.tolist() for column in columns), strict=True
        ):
            cluster = self._open.get(place)
            if cluster is None:
                cluster = self._open[place] = _Cluster(place, original, row)
                heapq.heappush(self._rows, (row, place))
            cluster.size += 1
            cluster.similarity_min = min(cluster.similarity_min, similarity)
            if self._write is not None and len(cluster.members) < MEMBERS_MAX:
                cluster.members.append((decided.first_place + n, ids(n), similarity))

    def close(self, first_row: int | None = None) -> None:
        """Write the clusters whose rows are before ``first_row``, the oldest row in use; without it, write all
        clusters."""
        done = []
        while self._rows and (first_row is None or self._rows[0][0] < first_row):
            _, place = heapq.heappop(self._rows)
            cluster = self._open[place]
            if first_row is not None and cluster.row >= first_row:
                heapq.heappush(self._rows, (cluster.row, place))
                continue
            done.append(self._open.pop(place))
        done.sort(key=lambda cluster: cluster.place)
        for cluster in done:
            heapq.heappush(self._largest, (cluster.size, -cluster.place, cluster.id))
            if len(self._largest) > LARGEST:
                heapq.heappop(self._largest)
        if self._write is not None and done:
            self._write(b"".join(cluster.line() for cluster in done))

    def largest(self) -> list[dict[str, object]]:
        """Return the largest written clusters, by size, then by place."""
        return [
            {"id": id_, "size": size, "cluster": -place} for size, place, id_ in sorted(self._largest, reverse=True)
        ]
