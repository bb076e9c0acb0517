"""How stories are kept: the record of each, the id of its original, the evidence of its contents.

A story may outlive its documents in the table. So what a step changed of the stories (``changed``) goes to what keeps
them: the memory of a process (``Holdings``, ``TableHoldings``) and from there a file (``saved``), the store of the
service, or a topic.

Decisions name documents by rows. What outlives the process names them by their *places*. Where every document has a
row, places grow by one with the rows, and one difference leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.schemes.interface import Evidence
from neardup.stories.verdicts.records import (
    CONTENT,
    CONTENT_HASH,
    CONTENT_PLACE,
    CONTENT_ROW,
    CONTENTS,
    HEAD,
    NO_CHANGES,
    OWN,
    PLACE,
    RECORD_FIELDS,
    Changes,
    contents_in,
)
from neardup.stories.verdicts.row_columns import GONE, NONE

_Longs = npt.NDArray[np.int64]
# Return the evidence, and the ids, of rows of the window.
_Evidence = Callable[[_Longs], list[bytes]]
_Ids = Callable[[_Longs], list[str]]


class KeptStories(NamedTuple):
    """Stories with two members or more, or what a step changed of them.

    ``records`` (``int64[n, RECORD_FIELDS]``) are those that live; of a step, those that it changed. ``ids`` are the ids
    of originals by place, ``evidence`` is that of contents by place, the fixed part first; of a step, those that are
    new. ``ended`` are the places of stories that ended, ``dropped`` those of contents that no story has any longer.
    """

    records: _Longs
    ids: Mapping[int, str]
    evidence: Mapping[int, bytes]
    ended: Sequence[int] = ()
    dropped: Sequence[int] = ()


_NOTHING = KeptStories(np.empty((0, RECORD_FIELDS), np.int64), {}, {})


def changed(changes: Changes, evidence: _Evidence, ids: _Ids) -> KeptStories:
    """Return what a step changed; ``evidence`` and ``ids`` return those of rows of the window."""
    if changes is NO_CHANGES:  # so it is for most documents
        return _NOTHING
    named = changes.begun_rows != NONE
    names = dict(zip(changes.begun[named].tolist(), ids(changes.begun_rows[named]), strict=True))
    parts = evidence(changes.added) if len(changes.added) else []
    added = dict(zip(changes.added_places.tolist(), parts, strict=True))
    return KeptStories(changes.records, names, added, changes.ended.tolist(), changes.dropped_places.tolist())


# In memory.


class Holdings:
    """The evidence of contents by row, and the ids of originals by place."""

    def __init__(self) -> None:
        self.evidence: dict[int, bytes] = {}
        self.names: dict[int, str] = {}

    def follow(self, changes: Changes, evidence: Mapping[int, bytes], names: Mapping[int, str]) -> None:
        """Drop what ended with a step, and hold what is new."""
        for row in changes.dropped.tolist():
            self.evidence.pop(row, None)
        for place in changes.ended.tolist():
            self.names.pop(place, None)
        self.names.update(names)
        self.evidence.update(evidence)  # last: ``leave`` does all again for rows without it


class TableHoldings(Holdings):
    """Holdings next to a table: the table has the evidence of a content, and its id, until the row leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0  # the first row that has not left the table

    def leave(self, changes: Changes, rows: _Longs, stories: _Longs, evidence: _Evidence, ids: _Ids) -> None:
        """Follow a step, and copy what leaves the table with it; after an exception it can be called again.

        ``rows`` of contents of stories leave; ``stories`` are the places of those of which each is the first content,
        ``NONE`` for none. ``evidence`` and ``ids`` return those of rows of the table.
        """
        leaves = np.array([row not in self.evidence for row in rows.tolist()], np.bool_)
        rows, stories = rows[leaves], stories[leaves]
        begins = stories != NONE
        parts = dict(zip(rows.tolist(), evidence(rows), strict=True)) if len(rows) else {}
        names = dict(zip(stories[begins].tolist(), ids(rows[begins]), strict=True)) if len(rows) else {}
        self.follow(changes, parts, names)

    def original_ids(self, originals: _Longs, clusters: _Longs, ids: _Ids) -> list[str]:
        """The ids of the originals of the verdicts that name one, in order. ``originals`` are their rows, ``NONE``
        where none is named, ``GONE`` for one that has left; ``clusters`` their places; ``ids`` as for ``leave``."""
        found, rows = ids(originals), originals.tolist()
        if GONE not in rows:
            return found
        here, of = iter(found), zip(rows, clusters.tolist(), strict=True)
        return [self.names[cluster] if number == GONE else next(here) for number, cluster in of if number != NONE]

    def resume(self, evidence: Mapping[int, bytes], names: Mapping[int, str]) -> None:
        """Hold what has left the table."""
        self.evidence.update(evidence)
        self.names.update(names)


def parts_of(evidence: Evidence) -> list[bytes]:
    """Return the evidence of each document, the fixed part before the ragged one."""
    width, starts = evidence.fixed.shape[1], evidence.starts.tolist()
    fixed, ragged = evidence.fixed.tobytes(), evidence.ragged.tobytes()
    return [fixed[n * width : (n + 1) * width] + ragged[a:b] for n, (a, b) in enumerate(pairwise(starts))]


def joined_parts(parts: Sequence[bytes], width: int) -> Evidence:
    """Return the evidence of documents from that of each, the fixed part of ``width`` bytes before the ragged one."""
    fixed = np.frombuffer(b"".join(part[:width] for part in parts), np.uint8).reshape(len(parts), width)
    return Evidence(fixed, *joined_bytes([part[width:] for part in parts]))


def joined_bytes(parts: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], _Longs]:
    """Return bytes one after the other, and where each begins (``int64[n + 1]``)."""
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return np.frombuffer(b"".join(parts), np.uint8), starts


# Rows and places.

_ROWS, _PLACES = (slice(HEAD + field, RECORD_FIELDS, CONTENT) for field in (CONTENT_ROW, CONTENT_PLACE))


def with_places(records: _Longs, first: int, offset: int) -> _Longs:
    """Return records that name documents by places; row ``n`` has the place ``n + offset``, and rows begin at
    ``first``."""
    if not len(records):
        return records
    out = records.copy()
    out[:, OWN] = np.where(records[:, OWN] >= first, records[:, OWN] + offset, NONE)
    out[:, _ROWS] = records[:, _PLACES]
    return out


def with_rows(records: _Longs, offset: int) -> _Longs:
    """Return records that name documents by rows, those before the first row by negative numbers; row ``n`` has the
    place ``n + offset``."""
    out = records.copy()
    out[:, OWN] = np.where(records[:, OWN] >= offset, records[:, OWN] - offset, GONE)
    out[:, _ROWS] = records[:, _PLACES] - offset
    return out


def complete(kept: KeptStories) -> KeptStories:
    """Return the stories whose contents all have evidence, and whose originals have names."""
    records = [record for record in kept.records if _contents(record) and kept.evidence.keys() >= _contents(record)]
    records = [record for record in records if int(record[PLACE]) in kept.ids]
    places = set().union(*map(_contents, records))
    stories = {int(record[PLACE]) for record in records}
    return kept._replace(
        records=np.array(records, np.int64).reshape(-1, RECORD_FIELDS),
        ids={place: id_ for place, id_ in kept.ids.items() if place in stories},
        evidence={place: evidence for place, evidence in kept.evidence.items() if place in places},
    )


def in_table(records: _Longs, contents: npt.NDArray[np.uint64]) -> set[int]:
    """Return the places of the contents of records (by row) that the table has: it needs no other copy of them.
    ``contents`` are the hashes of its rows, from 0 on; a salvaged row may have another content."""
    parts, has = contents_in(records)
    rows, hashes = parts[has, CONTENT_ROW], parts[has, CONTENT_HASH].astype(np.uint64)
    there = (rows >= 0) & (rows < len(contents))
    there[there] = contents[rows[there]] == hashes[there]
    return set(parts[has, CONTENT_PLACE][there].tolist())


def _contents(record: _Longs) -> set[int]:
    """Return the places of the contents of a record."""
    return set(record[_PLACES][: record[CONTENTS]].tolist())


def stories_of(clusters: _Longs, begins: npt.NDArray[np.bool_], kept: KeptStories) -> _Longs:
    """Return the record of each row, ``int64[n]``: ``NONE`` for an original that is alone in its story, ``GONE`` where
    the story has ended. ``clusters`` are the places of the originals of the rows, ``begins`` says which are originals.
    Stories that ended before the row of their original has left are among the kept ones."""
    out = np.where(begins & ~np.isin(clusters, kept.ended), NONE, GONE)
    order = np.argsort(kept.records[:, PLACE])
    places = kept.records[order, PLACE]
    at = np.searchsorted(places, clusters)
    found = np.flatnonzero(at < len(places))
    found = found[places[at[found]] == clusters[found]]
    out[found] = order[at[found]]
    return out
