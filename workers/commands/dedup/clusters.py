"""Clusters of a run: an original and its duplicates, written when the original has left the window.

From then on no document can join, so memory follows the window. A later version of the original that is unchanged
stands for the cluster in its place, and keeps it open.
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
# Duplicates that the line of a cluster lists, the first ones; ``size`` counts all.
MEMBERS_MAX = 10_000


@dataclass
class _Cluster:
    """A cluster that may grow: ``row`` is the number of the document that stands for it."""

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
    """The clusters of two documents or more. ``write`` receives the lines of those that are complete."""

    def __init__(self, write: Callable[[bytes], None] | None) -> None:
        self._write = write
        self._open: dict[int, _Cluster] = {}
        self._rows: list[tuple[int, int]] = []  # a heap of the rows that stood for clusters, and their clusters
        self._largest: list[tuple[int, int, str]] = []  # a heap of sizes, places negated, ids

    def add(self, decided: Decided, accepted: npt.NDArray[np.bool_], ids: Callable[[int], str]) -> None:
        """Count verdicts; ``ids`` gives the id of an arrival by its number among these."""
        verdicts = decided.verdicts
        for n in np.flatnonzero(verdicts.statuses == UNCHANGED).tolist():
            cluster = self._open.get(int(verdicts.clusters[n]))
            if cluster is not None and not verdicts.similarities[n]:  # it stands for the cluster
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
        """Write the clusters whose rows lie before the first row that is still decided with; without one, all."""
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
        """The largest clusters that are written, by size, then by place."""
        return [
            {"id": id_, "size": size, "cluster": -place} for size, place, id_ in sorted(self._largest, reverse=True)
        ]
