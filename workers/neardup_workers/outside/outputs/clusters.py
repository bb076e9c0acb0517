"""Clusters of a run: an original and its duplicates, written when its story has ended.

After this moment no document can join, so memory follows the window.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.pairs.json_lines import named_collection
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.sources.representatives import FIRST, NO_RANK, Member, join, ranks_of
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.row_columns import NONE
from neardup.stories.verdicts.rule import DUPLICATE, UNCHANGED, UPDATE
from neardup_workers.outside.outputs.verdict_lines import encoded
from neardup_workers.outside.readers.entries import Entry, values_of

# Clusters that a summary names.
LARGEST = 10
# Maximum number of duplicates in the line of a cluster, the first ones; ``size`` counts all.
MEMBERS_MAX = 10_000
_PAGE_ROWS = 4096


@dataclass(slots=True)
class _Cluster:
    """A cluster that may grow."""

    place: int
    id: str
    size: int = 1
    similarity_min: float = 1.0
    members: list[tuple[int, str, float]] = field(default_factory=list)
    best: tuple[Member, ...] = ()  # without ranks, the original is the representative
    collection: str | None = None

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
            **named_collection(self.collection),
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

    def release(self, first: int) -> None:
        """Free the pages with rows before ``first`` alone."""
        for page in [page for page in self._pages if (page + 1) * _PAGE_ROWS <= first]:
            del self._pages[page]


class Clusters:
    """The clusters of at least two documents. ``write`` receives the lines of complete clusters, whose
    ``representative`` is one of ``neardup.stories.sources.representatives``."""

    def __init__(self, write: Callable[[bytes], None] | None, representative: str = FIRST) -> None:
        self._write = write
        self._representative = representative if write is not None else FIRST
        self._open: dict[int, _Cluster] = {}
        self._ranks = _Ranks()
        self._largest: list[tuple[int, int, str, dict[str, str]]] = []  # a heap of sizes, places negated, ids

    def add(self, entries: Sequence[Entry], accepted: npt.NDArray[np.bool_], decided: Decided) -> None:
        """Count the verdicts of n entries; ``accepted`` (``bool[n]``) says which of them are documents."""
        verdicts, ranked = decided.verdicts, self._representative != FIRST
        if ranked:
            found = [entry.found for entry in compress(entries, accepted.tolist())]
            documents = [one for one in found if isinstance(one, Document)]
            self._ranks.put(decided.first_row, ranks_of(documents, self._representative))
        joins = verdicts.statuses == DUPLICATE
        if ranked:
            joins |= (verdicts.statuses == UPDATE) | (verdicts.statuses == UNCHANGED)
        at = np.flatnonzero(joins & ~verdicts.late)
        id_at, collection_at = values_of(entries)
        rows = decided.first_row - 1 + np.cumsum(accepted)[at]
        names = dict(zip(np.flatnonzero(verdicts.originals != NONE).tolist(), decided.ids, strict=True))
        columns = (verdicts.statuses, verdicts.clusters, verdicts.originals, verdicts.similarities)
        for n, row, status, place, original, similarity in zip(
            at.tolist(), rows.tolist(), *(column[at].tolist() for column in columns), strict=True
        ):
            cluster = self._open.get(place)
            if status == DUPLICATE:
                if cluster is None:
                    name = names[n]
                    cluster = self._open[place] = _Cluster(place, name, collection=collection_at(n))
                    if ranked:
                        cluster.best = (Member(place, name, self._ranks.at(original)),)
                cluster.size += 1
                cluster.similarity_min = min(cluster.similarity_min, similarity)
                if self._write is not None and len(cluster.members) < MEMBERS_MAX:
                    cluster.members.append((decided.first_place + n, id_at(n), similarity))
            if cluster is not None and ranked:
                member = Member(decided.first_place + n, id_at(n), self._ranks.at(row))
                cluster.best = join(cluster.best, member)

    def close(self, first_row: int = 0, ended: npt.NDArray[np.int64] | None = None) -> None:
        """Write the clusters of the stories that a step ended, by their places; without ``ended``, write all clusters.
        Documents before ``first_row`` have left the decisions."""
        if ended is None:
            places = sorted(self._open)
        else:
            self._ranks.release(first_row)
            places = [place for place in np.sort(ended).tolist() if place in self._open]
        done = [self._open.pop(place) for place in places]
        for cluster in done:
            named = named_collection(cluster.collection)
            heapq.heappush(self._largest, (cluster.size, -cluster.place, cluster.id, named))
            if len(self._largest) > LARGEST:
                heapq.heappop(self._largest)
        if self._write is not None and done:
            self._write(b"".join(cluster.line() for cluster in done))

    def largest(self) -> list[dict[str, object]]:
        """Return the largest written clusters, by size, then by place."""
        return [
            {"id": id_, "size": size, "cluster": -place, **named}
            for size, place, id_, named in sorted(self._largest, key=lambda one: one[:2], reverse=True)
        ]
