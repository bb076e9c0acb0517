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

from neardup.stream.json_lines import SIMILARITY_DIGITS
from neardup.stream.verdicts.decider import Decided
from neardup.stream.verdicts.representatives import NO_RANK, Member, join
from neardup.stream.verdicts.rule import DUPLICATE, UNCHANGED
from neardup.workers.outputs.verdict_lines import encoded

# Clusters that a summary names.
LARGEST = 10
# Maximum number of duplicates in the line of a cluster, the first ones; ``size`` counts all.
MEMBERS_MAX = 10_000
_PAGE_ROWS = 4096


@dataclass
class _Cluster:
    """A cluster that may grow: ``row`` is the number of the document that represents it."""

    place: int
    id: str
    row: int
    size: int = 1
    similarity_min: float = 1.0
    members: list[tuple[int, str, float]] = field(default_factory=list)
    best: tuple[Member, ...] = ()  # without ranks, the original is the representative

    def line(self) -> bytes:
        """The cluster as a line of JSON."""
        members = [
            {"place": place, "id": id_, "similarity": round(similarity, SIMILARITY_DIGITS)}
            for place, id_, similarity in self.members
        ]
        shown = self.best[0] if self.best else Member(self.place, self.id)
        value = {
            "cluster": self.place,
            "id": self.id,
            "size": self.size,
            "similarity_min": round(self.similarity_min, SIMILARITY_DIGITS),
            "representative": {"place": shown.place, "id": shown.id},
            "members": members,
        }
        return encoded(value) + b"\n"


class _Ranks:
    """The ranks of the documents of the window by row, in pages; documents from before this run have none."""

    def __init__(self) -> None:
        self._pages: dict[int, npt.NDArray[np.float64]] = {}

    def put(self, first: int, ranks: npt.NDArray[np.float64]) -> None:
        """Add the ranks of rows from ``first`` on."""
        for row, rank in enumerate(ranks.tolist(), first):
            page = self._pages.get(row // _PAGE_ROWS)
            if page is None:
                page = self._pages[row // _PAGE_ROWS] = np.full(_PAGE_ROWS, NO_RANK)
            page[row % _PAGE_ROWS] = rank

    def at(self, row: int) -> float:
        """Return the rank of a row."""
        page = self._pages.get(row // _PAGE_ROWS)
        return NO_RANK if page is None else float(page[row % _PAGE_ROWS])

    def release(self, first: int | None) -> None:
        """Free the pages with rows before ``first`` alone."""
        for page in [page for page in self._pages if first is not None and (page + 1) * _PAGE_ROWS <= first]:
            del self._pages[page]


class Clusters:
    """The clusters of at least two documents. ``write`` receives the lines of complete clusters."""

    def __init__(self, write: Callable[[bytes], None] | None) -> None:
        self._write = write
        self._open: dict[int, _Cluster] = {}
        self._ranks = _Ranks()
        self._rows: list[tuple[int, int]] = []  # a heap of the rows that represented clusters, and their clusters
        self._largest: list[tuple[int, int, str]] = []  # a heap of sizes, places negated, ids

    def add(
        self,
        decided: Decided,
        accepted: npt.NDArray[np.bool_],
        ids: Callable[[int], str],
        ranks: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Count verdicts.

        Args:
            decided: the verdicts of n arrivals.
            accepted: ``bool[n]``, of each arrival whether it is a document or refused.
            ids: returns the id of an arrival by its index.
            ranks: of the accepted documents, ``float64[m]``; ``None`` if originals are the representatives.
        """
        verdicts = decided.verdicts
        if ranks is not None:
            self._ranks.put(decided.first_row, ranks)
        names = iter(decided.ids)
        at = np.flatnonzero((verdicts.statuses == DUPLICATE) | (verdicts.statuses == UNCHANGED))
        rows = decided.first_row - 1 + np.cumsum(accepted)[at]
        columns = (verdicts.statuses, verdicts.clusters, verdicts.originals, verdicts.similarities)
        for n, row, status, place, original, similarity in zip(
            at.tolist(), rows.tolist(), *(column[at].tolist() for column in columns), strict=True
        ):
            name = next(names) if original >= 0 else ""
            cluster = self._open.get(place)
            if status == DUPLICATE:
                if cluster is None:
                    cluster = self._open[place] = _Cluster(place, name, original)
                    heapq.heappush(self._rows, (original, place))
                    if ranks is not None:
                        cluster.best = (Member(place, name, self._ranks.at(original)),)
                cluster.size += 1
                cluster.similarity_min = min(cluster.similarity_min, similarity)
                if self._write is not None and len(cluster.members) < MEMBERS_MAX:
                    cluster.members.append((decided.first_place + n, ids(n), similarity))
            elif cluster is not None and not similarity:  # it stands for the original
                cluster.row = row
            if cluster is not None and ranks is not None:
                cluster.best = join(cluster.best, Member(decided.first_place + n, ids(n), self._ranks.at(row)))

    def close(self, first_row: int | None = None) -> None:
        """Write the clusters whose rows are before ``first_row``, the oldest row in use; without it, write all
        clusters."""
        self._ranks.release(first_row)
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
