"""The pairs of a corpus as pairs of contents, on disk: what ranks and decides its documents.

A **content** is named by the first row that has it; where a scheme does not compare copies, each row has a content of
its own. A pair of two contents counts for all their rows. The pairs stand in a file in both directions, by the first
content, so those of a content are read at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup_workers.running.commands.batch.rows import ColumnFiles, RowFiles, Rows, no_room, spans

_LINKS = {"newer": "<i8", "older": "<i8", "similarity": "<f8", "newer_part": "<f8", "older_part": "<f8"}
_ENTRY = np.dtype([("other", "<i8"), ("similarity", "<f8"), ("own", "<f8")])
Floats = npt.NDArray[np.float64]


class Links(NamedTuple):
    """m pairs of rows: the newer and the older one (``int64[m]``), their similarity, and the part of each text that
    stands in the other (``float64[m]``); without known parts, the similarity."""

    newer: Rows
    older: Rows
    similarity: Floats
    newer_part: Floats
    older_part: Floats


class Partners(NamedTuple):
    """The other contents of k contents: those of content i are ``[starts[i], starts[i + 1])``, ascending, each once;
    their similarity, and the part of content i that stands in them."""

    starts: Rows
    others: Rows
    similarity: Floats
    own: Floats


def contents_of(rows: RowFiles, *, by_content: bool) -> Rows:
    """Return the content of each row: the first row that has it, ``int64[n]``."""
    if not by_content:
        return np.arange(rows.count)
    hashes = rows.contents(np.arange(rows.count))
    order = np.lexsort((hashes[:, 0], hashes[:, 1]))
    begins = np.ones(rows.count, np.bool_)
    begins[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
    contents = np.empty(rows.count, np.int64)
    contents[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return contents


def ranges(starts: Rows, lengths: Rows) -> Rows:
    """Return the numbers from each start on, as many as its length, one range after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


class ContentPairs:
    """The pairs of contents in a folder: ``add`` pairs of rows, ``seal``, then ask ``of`` contents. ``contents`` are
    those of all rows."""

    def __init__(self, folder: Path, contents: Rows) -> None:
        self.contents = contents
        self._path = folder / "content_pairs"
        self._links = ColumnFiles(folder / "links", _LINKS)
        self._starts = np.zeros(len(contents) + 1, np.int64)
        self._entries = np.empty(0, _ENTRY)

    def add(self, links: Links) -> None:
        """Add pairs of rows."""
        self._links.append(links._asdict())
        newer, older = self.contents[links.newer], self.contents[links.older]
        for content in (newer, older):
            np.add.at(self._starts[1:], content[newer != older], 1)

    def seal(self) -> None:
        """End the adding. Raises ``Failure`` if the folder takes no more."""
        self._links.seal()
        np.cumsum(self._starts, out=self._starts)
        count = int(self._starts[-1])
        if not count:
            return
        try:
            with self._path.open("wb") as file:  # room that is missing later would end the process
                os.posix_fallocate(file.fileno(), 0, count * _ENTRY.itemsize)
        except OSError as error:
            raise no_room(error) from None
        self._entries, at = np.asarray(np.memmap(self._path, _ENTRY, "r+")), self._starts[:-1].copy()
        for newer, older, similarity, newer_part, older_part in self.links():
            one, other = self.contents[newer], self.contents[older]
            differ = np.flatnonzero(one != other)
            both = np.empty(2 * len(differ), _ENTRY)
            for field, sides in (
                ("other", (other, one)), ("similarity", (similarity, similarity)), ("own", (newer_part, older_part)),
            ):  # fmt: skip
                both[field] = np.concatenate([side[differ] for side in sides])
            owner = np.concatenate([one[differ], other[differ]])
            order = np.argsort(owner, kind="stable")
            owners, lengths = np.unique(owner, return_counts=True)
            self._entries[ranges(at[owners], lengths)] = both[order]
            at[owners] += lengths

    def close(self) -> None:
        """Close files and release the maps, so that the folder can be removed."""
        self._links.close()
        self._entries = np.empty(0, _ENTRY)

    def links(self) -> Iterator[Links]:
        """Yield the pairs of rows as they were added, some thousands at a time."""
        for first, end in spans(len(self._links["newer"])):
            yield Links._make(self._links[name][first:end] for name in _LINKS)

    def of(self, contents: Rows) -> Partners:
        """Return the other contents of contents; several pairs with one of them count as the greatest."""
        lengths = self._starts[contents + 1] - self._starts[contents]
        entries = self._entries[ranges(self._starts[contents], lengths)]
        owner = np.repeat(np.arange(len(contents)), lengths)
        order = np.lexsort((entries["other"], owner))
        owner, entries = owner[order], entries[order]
        begins = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(entries["other"], prepend=-1) != 0))
        starts = np.searchsorted(owner[begins], np.arange(len(contents) + 1))
        similarity, own = (_greatest(entries[name], begins) for name in ("similarity", "own"))
        return Partners(starts, entries["other"][begins], similarity, own)


def _greatest(values: npt.NDArray[Any], begins: Rows) -> Floats:
    return np.maximum.reduceat(values, begins) if len(begins) else np.empty(0)
