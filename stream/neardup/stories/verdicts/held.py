"""What stories hold beyond the window: the evidence of their contents, and the ids of their originals.

A story may outlive its documents in the table. So the evidence of its contents, and the id that began it, are copied
when the row of a content leaves the table. ``Holdings`` follows the changes of each step (``records.Changes``).

A log outlives the process, so the records in a log (``KeptStories``) name documents by their places instead of their
rows. Every row has a place, and places grow by one with the rows, so one difference leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.schemes.interface import Evidence
from neardup.stories.verdicts.records import (
    CONTENT,
    CONTENT_PLACE,
    CONTENT_ROW,
    CONTENTS,
    HEAD,
    OWN,
    PLACE,
    RECORD_FIELDS,
    Changes,
    rows_of_contents,
)
from neardup.stories.verdicts.row_columns import GONE, NONE

_Longs = npt.NDArray[np.int64]


class Held(NamedTuple):
    """Holdings as arrays: the rows of n contents, counted from the first row of the window, with their evidence
    (``fixed`` is flat); the places of m originals with their ids (UTF-8)."""

    rows: _Longs
    fixed: npt.NDArray[np.uint8]
    ragged: npt.NDArray[np.uint8]
    ragged_starts: _Longs
    places: _Longs
    ids: npt.NDArray[np.uint8]
    id_starts: _Longs


class Holdings:
    """The evidence of contents by row, and the ids of originals by place, of what has left the table.

    Args:
        width: bytes of the fixed part of evidence.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._evidence: dict[int, bytes] = {}  # the fixed part, then the ragged one
        self._in_table: dict[int, int] = {}  # row of a content: place of the story whose first one it is, or NONE
        self._first = 0  # row that has not left the table
        self.names: dict[int, str] = {}

    def follow(
        self, changes: Changes, first: int, evidence: Callable[[_Longs], Evidence], ids: Callable[[_Longs], list[str]]
    ) -> None:
        """Drop what the contents that a step ended hold, and hold what leaves the table with the step.

        Args:
            changes: what the step changed.
            first: the first row that does not leave.
            evidence: returns the evidence of rows of the table.
            ids: returns the ids of rows of the table.
        """
        for row in changes.dropped.tolist():
            if self._in_table.pop(row, None) is None:
                del self._evidence[row]
        for place in changes.ended.tolist():
            self.names.pop(place, None)
        self._in_table.update(zip(changes.added.tolist(), changes.added_stories.tolist(), strict=True))
        leaving = sorted(self._in_table.keys() & range(self._first, first))
        self._first = max(self._first, first)
        if leaving:
            rows, stories = np.array(leaving), np.array([self._in_table.pop(row) for row in leaving])
            self._evidence.update(zip(leaving, parts_of(evidence(rows)), strict=True))
            begins = stories != NONE
            self.names.update(zip(stories[begins].tolist(), ids(rows[begins]), strict=True))

    def has(self, rows: _Longs) -> npt.NDArray[np.bool_]:
        """Return whether the evidence of each row is held, ``bool[m]``."""
        return np.array([row in self._evidence for row in rows.tolist()], np.bool_)

    def evidence(self, rows: _Longs) -> Evidence:
        """Return the evidence of rows that are held."""
        return joined_parts([self._evidence[row] for row in rows.tolist()], self._width)

    def save(self, first: int) -> Held:
        """Return what has left the table, with rows counted from ``first``."""
        rows = np.array(list(self._evidence), np.int64)
        parts = self.evidence(rows)
        ids, starts = _joined([name.encode() for name in self.names.values()])
        places = np.array(list(self.names), np.int64)
        return Held(rows - first, parts.fixed.reshape(-1), parts.ragged, parts.starts, places, ids, starts)

    def resume(self, held: Held, records: _Longs) -> None:
        """Hold what ``save`` returned, and follow the other contents of ``records`` (``int64[n, RECORD_FIELDS]``)."""
        fixed = held.fixed.reshape(len(held.rows), self._width)
        for n, row in enumerate(held.rows.tolist()):
            ragged = held.ragged[held.ragged_starts[n] : held.ragged_starts[n + 1]]
            self._evidence[row] = fixed[n].tobytes() + ragged.tobytes()
        ids, starts = held.ids.tobytes(), held.id_starts.tolist()
        self.names.update(
            {place: ids[starts[n] : starts[n + 1]].decode() for n, place in enumerate(held.places.tolist())}
        )
        added, stories = rows_of_contents(records)
        others = zip(added.tolist(), stories.tolist(), strict=True)
        self._in_table.update((row, story) for row, story in others if row not in self._evidence)

    def memory_bytes(self) -> int:
        """Bytes of the evidence and of the ids, without those of the dictionaries."""
        return sum(map(len, self._evidence.values())) + sum(map(len, self.names.values()))


def parts_of(evidence: Evidence) -> list[bytes]:
    """Return the evidence of each document, the fixed part before the ragged one."""
    width, starts = evidence.fixed.shape[1], evidence.starts.tolist()
    fixed, ragged = evidence.fixed.tobytes(), evidence.ragged.tobytes()
    return [fixed[n * width : (n + 1) * width] + ragged[a:b] for n, (a, b) in enumerate(pairwise(starts))]


def held_of(rows: _Longs, evidence: list[bytes], width: int, places: _Longs, ids: list[bytes]) -> Held:
    """Return holdings from the evidence of each row, with a fixed part of ``width`` bytes, and the id of each place."""
    joined = joined_parts(evidence, width)
    return Held(rows, joined.fixed.reshape(-1), joined.ragged, joined.starts, places, *_joined(ids))


def joined_parts(parts: list[bytes], width: int) -> Evidence:
    """Return the evidence of documents from that of each, the fixed part of ``width`` bytes before the ragged one."""
    fixed = np.frombuffer(b"".join(part[:width] for part in parts), np.uint8).reshape(len(parts), width)
    return Evidence(fixed, *_joined([part[width:] for part in parts]))


def no_held() -> Held:
    """Return holdings of nothing."""
    return join_held([b""] * 3 + [bytes(8)] + [b""] * 2 + [bytes(8)])


def join_held(arrays: Sequence[bytes]) -> Held:
    """Return holdings from the bytes of their arrays."""
    dtypes = ("<i8", "u1", "u1", "<i8", "<i8", "u1", "<i8")
    return Held._make(np.frombuffer(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True))


def _joined(parts: list[bytes]) -> tuple[npt.NDArray[np.uint8], _Longs]:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return np.frombuffer(b"".join(parts), np.uint8), starts


# Stories in a log.

_ROWS, _PLACES = (slice(HEAD + field, RECORD_FIELDS, CONTENT) for field in (CONTENT_ROW, CONTENT_PLACE))


class StoryChanges(NamedTuple):
    """What a step changed of the stories with two members or more.

    ``records`` (``int64[n, RECORD_FIELDS]``) are those that live and were changed, ``ids`` the names of originals by
    place, of new stories; ``evidence`` has the evidence of new contents by place. ``dropped`` are the places of
    contents that no story has any longer, ``ended`` the places of the stories that ended.
    """

    records: _Longs
    ids: dict[int, str]
    evidence: dict[int, bytes]
    dropped: list[int]
    ended: list[int]


class KeptStories(NamedTuple):
    """All stories of a log: ``records`` (``int64[n, RECORD_FIELDS]``), ``ids`` and ``evidence`` as in ``StoryChanges``;
    ``ended`` (``int64[m]``) are the places of stories that ended before the row of their original has left."""

    records: _Longs
    ids: dict[int, str]
    evidence: dict[int, bytes]
    ended: _Longs


def with_places(records: _Longs, first: int, offset: int) -> _Longs:
    """Return records that name documents by places; row ``n`` has the place ``n + offset``, and rows begin at
    ``first``."""
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
    return KeptStories(
        np.array(records, np.int64).reshape(-1, RECORD_FIELDS),
        {place: id_ for place, id_ in kept.ids.items() if place in stories},
        {place: evidence for place, evidence in kept.evidence.items() if place in places},
        kept.ended,
    )


def _contents(record: _Longs) -> set[int]:
    """Return the places of the contents of a record."""
    return set(record[_PLACES][: record[CONTENTS]].tolist())


def stories_of(clusters: _Longs, begins: npt.NDArray[np.bool_], kept: KeptStories) -> _Longs:
    """Return the record of each row, ``int64[n]``: ``NONE`` for an original that is alone in its story, ``GONE`` where
    the story has ended.

    Args:
        clusters: the place of the original of each row.
        begins: ``bool[n]``, which rows are originals.
        kept: the stories of the log.
    """
    out = np.where(begins & ~np.isin(clusters, kept.ended), NONE, GONE)
    order = np.argsort(kept.records[:, PLACE])
    places = kept.records[order, PLACE]
    at = np.searchsorted(places, clusters)
    found = np.flatnonzero(at < len(places))
    found = found[places[at[found]] == clusters[found]]
    out[found] = order[at[found]]
    return out
