"""The k most similar documents of every document of a corpus at rest: the ranking of ``batch --top``.

A document is compared with one row of each content that is paired with its own, and of its own content: the newest row
that is not a version of its id and lies within its window. Nearly always this row is the newest row of the content, or
the newest with another id; both are known for each content. The remaining cases need all rows of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import id_hashes
from neardup.pairs.neighbours.nearest import best
from neardup_workers.running.commands.batch.content_pairs import ContentPairs, Partners, ranges
from neardup_workers.running.commands.batch.rows import RowFiles, Rows, spans

Floats = npt.NDArray[np.float64]


class RankedRows(NamedTuple):
    """Rows from ``first`` up to ``end`` with their neighbours: row (``int64[m]``, ascending), neighbour (``int64[m]``)
    and similarity (``float64[m]``, of one row descending)."""

    first: int
    end: int
    rows: Rows
    others: Rows
    similarity: Floats


class _Newest(NamedTuple):
    """Of the content of each number: where its rows begin in ``by_content`` and how many there are, the newest one, and
    the newest one with another id, -1 for none; ``ids`` are hashes of the ids of all rows."""

    by_content: Rows
    starts: Rows
    counts: Rows
    row: Rows
    other: Rows
    ids: npt.NDArray[np.uint64]


def ranked_rows(
    pairs: ContentPairs, rows: RowFiles, times: npt.NDArray[np.int64], window: int, k: int
) -> Iterator[RankedRows]:
    """Yield the ``k`` best neighbours of all rows, some thousands of rows at a time. The pairs of contents are sealed;
    the window is in microseconds."""
    newest = _newest(pairs.contents, rows)
    for first, end in spans(rows.count):
        at = np.arange(first, end)
        # Which content each row is compared with, and how similar it is.
        distinct, back = np.unique(pairs.contents[at], return_inverse=True)
        partners: Partners = pairs.of(distinct)
        lengths = np.diff(partners.starts)[back]
        each = ranges(partners.starts[back], lengths)
        own = at[newest.counts[pairs.contents[at]] > 1]
        asking = np.concatenate([np.repeat(at, lengths), own])
        contents = np.concatenate([partners.others[each], pairs.contents[own]])
        similarity = np.concatenate([partners.similarity[each], np.ones(len(own))])
        others = np.where(newest.ids[newest.row[contents]] != newest.ids[asking], newest.row[contents],
                          newest.other[contents])  # fmt: skip
        inside = (others >= 0) & (np.abs(times[asking] - times[others]) <= window)
        outside = np.flatnonzero((others >= 0) & ~inside)
        others[outside] = _within(newest, times, window, asking[outside], contents[outside])
        found = np.flatnonzero(others >= 0)
        asking, others, similarity = asking[found], others[found], similarity[found]
        order = best((asking - first).astype(np.int32), similarity, others, k)
        yield RankedRows(first, end, asking[order], others[order], similarity[order])


def _newest(contents: Rows, rows: RowFiles) -> _Newest:
    parts = (rows.between(first, end) for first, end in spans(rows.count))
    hashes = [id_hashes(batch.ids, batch.id_starts) for batch in parts]
    ids = np.concatenate([np.empty(0, np.uint64), *hashes])
    by_content = np.argsort(contents, kind="stable")
    names, begins, sizes = np.unique(contents[by_content], return_index=True, return_counts=True)
    starts, counts, row, other = (np.full(len(contents), value) for value in (0, 0, -1, -1))
    starts[names], counts[names], row[names] = begins, sizes, by_content[begins + sizes - 1]
    if len(names):
        differs = ids[by_content] != ids[np.repeat(row[names], sizes)]
        other[names] = np.maximum.reduceat(np.where(differs, by_content, -1), begins)
    return _Newest(by_content, starts, counts, row, other, ids)


def _within(newest: _Newest, times: npt.NDArray[np.int64], window: int, asking: Rows, contents: Rows) -> Rows:
    """Return the newest row of each content with another id within the window of each row, -1 for none."""
    counts = newest.counts[contents]
    others = newest.by_content[ranges(newest.starts[contents], counts)]
    each = np.repeat(asking, counts)
    fits = (newest.ids[others] != newest.ids[each]) & (np.abs(times[each] - times[others]) <= window)
    found = np.full(len(asking), -1)
    np.maximum.at(found, np.repeat(np.arange(len(asking)), counts), np.where(fits, others, -1))
    return found
