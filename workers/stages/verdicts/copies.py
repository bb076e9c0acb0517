"""Pairs that also count for copies of the documents that they name.

A matcher links a copy to the copy before it, in the order of its own log, and pairs only the newest copy with other
contents. Suppose that the arrivals are y, x1, x2, where x1 and x2 are copies, and that the log is x2, y, x1. Then the
pair is (x2, y), and no pair names x1 and y. But a pair is a pair of contents, so (x2, y) counts for x1 as well.

A pair counts for a copy that arrived before one of its two documents, if the matcher found the pair before it passed
the copy. So a verdict depends only on the logs. It does not depend on how far they are read, or on the division into
steps.

Only the first document of a content in a step usually needs such pairs: a later one is a duplicate by its content (rule
2 of ``stream.verdicts.rule``). So the caller names the documents that need them (``need``): at first the first ones
(``firsts``), then those that their content did not decide (``missed``). A flood of copies takes linear time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.decisions import Decisions, Found, Verdicts
from neardup.workers.stages.verdicts.columns import RowsByPlace
from neardup.workers.stages.verdicts.watermarks import Watermarks
from neardup.workers.topics.arrivals import ArrivalRows
from neardup.workers.topics.links import SIMILARITY_STEPS, Links, join_links
from neardup.workers.topics.places import offsets_of, partitions_of

_Longs = npt.NDArray[np.int64]


class Pool(NamedTuple):
    """m waiting pairs, each with the partition and the offset of its record in ``links`` (``int64[m]``)."""

    links: Links
    bands: _Longs
    offsets: _Longs

    def at(self, rows: npt.NDArray[np.generic]) -> Pool:
        """Return a selection of pairs, by index or by mask."""
        return Pool(self.links.at(rows), self.bands[rows], self.offsets[rows])


def join_pools(parts: list[Pool]) -> Pool:
    """Concatenate the pairs of at least one part."""
    if len(parts) == 1:
        return parts[0]
    links, bands, offsets = zip(*parts, strict=True)
    return Pool(join_links(list(links)), np.concatenate(bands), np.concatenate(offsets))


def join_found(one: Found, other: Found) -> Found:
    """Return the pairs of both, in order of the arrivals."""
    if not len(other.rows):
        return one
    rows = np.concatenate([one.rows, other.rows])
    order = np.argsort(rows, kind="stable")
    numbers = np.concatenate([one.numbers, other.numbers])
    similarities = np.concatenate([one.similarities, other.similarities])
    return Found(rows[order], numbers[order], similarities[order])


def found_by_copies(
    pool: Pool,
    rows: ArrivalRows,
    numbers: _Longs,
    by_place: RowsByPlace,
    decisions: Decisions,
    watermarks: Watermarks,
    need: npt.NDArray[np.bool_],
) -> Found:
    """Find the pairs of a step that name a copy of one of the documents that need them.

    Args:
        pool: the pairs that waited before the step.
        rows: the arrivals of the step.
        numbers: ``int64[n]``, the row number of each arrival, -1 if it is not a document.
        by_place: the rows by place, including the rows of the step.
        decisions: what was decided before the step.
        watermarks: where each partition of ``bands`` has passed the documents of the step.
        need: ``bool[n]``, the arrivals to find pairs for.

    Returns:
        The pairs. Each has the number of the named document if it was decided before, else the number of the newest row
        decided before that has the other content.
    """
    documents = by_content(rows, numbers)
    copies = documents[need[documents]]
    times = np.where(numbers >= 0, rows.times, NO_TIME)
    lasting = documents[~decisions.are_late(times)[documents]]  # a late document has no effect on later ones
    contents = rows.contents[lasting]
    copied = rows.contents[copies]
    out: list[tuple[int, int, float]] = []
    links = pool.links
    for place, content, other, other_content in (
        (links.ones, links.one_contents, links.others, links.other_contents),
        (links.others, links.other_contents, links.ones, links.one_contents),
    ):
        first, end = np.searchsorted(copied, content, "left"), np.searchsorted(copied, content, "right")
        waiting = np.flatnonzero((end > first) & (content != other_content))
        named = by_place.find(place[waiting])
        # Most pairs name the only document that needs pairs of their content.
        has_copies = (end - first)[waiting] > np.isin(named, numbers[copies])
        waiting, named = waiting[has_copies], named[has_copies]
        others = by_place.find(other[waiting])
        for i, number, other_number in zip(waiting.tolist(), named.tolist(), others.tolist(), strict=True):
            for row in copies[first[i] : end[i]].tolist():
                copy = int(numbers[row])
                if copy == number or (min(number, other_number) >= 0 and copy > max(number, other_number)):
                    continue
                if not _is_passed_later(watermarks, pool, i, int(rows.places[row])):
                    continue
                near = other_number
                if not 0 <= near < copy:
                    near = _newest(other_content[i], row, numbers, contents, lasting, decisions)
                if near >= 0:
                    out.append((row, near, int(links.similarities[i]) / SIMILARITY_STEPS))
    out.sort()
    found = np.array(out, np.float64).reshape(-1, 3)
    return Found(found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2].astype(np.float32))


def by_content(rows: ArrivalRows, numbers: _Longs) -> _Longs:
    """Return the documents of a step, those of one content one after the other, in order of arrival."""
    documents = np.flatnonzero(numbers >= 0)
    return documents[np.argsort(rows.contents[documents], kind="stable")]


def firsts(rows: ArrivalRows, numbers: _Longs) -> npt.NDArray[np.bool_]:
    """Return which arrivals are the first documents of their contents in the step, ``bool[n]``."""
    documents = by_content(rows, numbers)
    out = np.zeros(len(numbers), np.bool_)
    out[documents[np.unique(rows.contents[documents], return_index=True)[1]]] = True
    return out


def missed(rows: ArrivalRows, numbers: _Longs, verdicts: Verdicts) -> npt.NDArray[np.bool_]:
    """Return which documents are in another cluster than the document before them with the same content, ``bool[n]``:
    its original was removed, or is not in their window."""
    documents = by_content(rows, numbers)
    before, later = documents[:-1], documents[1:]
    is_copy = rows.contents[later] == rows.contents[before]
    out = np.zeros(len(numbers), np.bool_)
    out[later[is_copy & (verdicts.clusters[later] != verdicts.clusters[before])]] = True
    return out


def _is_passed_later(watermarks: Watermarks, pool: Pool, i: int, place: int) -> bool:
    """Whether the matcher found pair ``i`` before it passed a document."""
    places = np.array([place])
    record = watermarks.passed_at(int(pool.bands[i]), int(partitions_of(places)[0]), int(offsets_of(places)[0]))
    return record >= int(pool.offsets[i])


def _newest(
    content: np.uint64,
    row: int,
    numbers: _Longs,
    contents: npt.NDArray[np.uint64],
    documents: _Longs,
    decisions: Decisions,
) -> int:
    """Return the newest row of a content that was decided before a row of the step, -1 if there is none."""
    first, end = np.searchsorted(contents, content, "left"), np.searchsorted(contents, content, "right")
    before = documents[first:end][documents[first:end] < row]
    if len(before):
        return int(numbers[before[-1]])
    return int(decisions.newest(np.array([content]))[0])
