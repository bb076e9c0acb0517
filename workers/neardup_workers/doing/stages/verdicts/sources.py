"""The ledger of sources of a linker: it counts committed verdicts, and ``sources``, a compacted topic, keeps it.

Theory of operation. A verdict counts after its transaction: the ledger is a function of the log, and no step of it is
undone. The parts of it that have changed are written at each trim (``trim_seconds``), or with verdicts before
that if many stories have changed. So the topic grows by sources and stories, not by verdicts. The record ``step`` says
how many arrivals the topic counts. A restart reads the topic and counts the verdicts from there on again, with
their sources and times of arrival from ``signed``: then it has the ledger of the linker before it.

A story has a record once it has a second member. Others are derived at a restart from their originals: a document can
join only while the original is in the window. So a restart needs the window as it was at the last write (``first``).

Keys are lists in JSON: ``["account", SOURCE, HOUR]`` with the begin of the hour in seconds, ``"all"`` for all hours or
null without a time, ``["pair", SOURCE, SOURCE OF THE ORIGINAL]``, ``["story", PLACE]``, ``["exceeded", BOUND]`` and
``["step"]``. A value is an object in JSON; a record without one ends a part.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.pairs.window_message import WireError
from neardup.stories.sources.accounts import ALL_HOURS, COUNTS, NO_HOUR
from neardup.stories.sources.brake import sentence
from neardup.stories.sources.ledger import STORIES_MAX, Ledger
from neardup.stories.sources.ledger_stories import STORY
from neardup.stories.sources.reports import Kept, Reports
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REMOVAL, UNCHANGED, UPDATE
from neardup.window import NO_TIME
from neardup_workers.doing.stages.verdicts.originals import Sent
from neardup_workers.outside.topics.arrivals import ArrivalRows, arrived_at
from neardup_workers.outside.topics.columns import escaped
from neardup_workers.outside.topics.places import parse_place, place_name
from neardup_workers.outside.topics.shown import sources_shown
from neardup_workers.outside.topics.verdicts import DecidedRows
from neardup_workers.outside.transport.protocol import Record

_log = logging.getLogger(__name__)
# Stories that have changed, at most: then they are written with the next verdicts.
_STORIES = 20_000
# So many sources are in a report.
_REPORTED = 100
# Kind of a record -> the names of its values.
_FIELDS: dict[str, tuple[str, ...]] = {
    "account": (*COUNTS, "lags"), "pair": ("documents",), "story": STORY, "exceeded": ("number",),
    "step": ("arrivals",),
}  # fmt: skip
# Key of the record that says how many arrivals the topic counts.
LEDGER_KEY = orjson.dumps(["step"])
_HOUR_SECONDS = 3600
_JOINS = (DUPLICATE, UPDATE, UNCHANGED)
_Longs = npt.NDArray[np.int64]


class KeptSources(NamedTuple):
    """The parts of the topic, and how many arrivals they count."""

    parts: list[Kept]
    step: int


def encode_part(one: Kept) -> Sent:
    """Return key and value of a part."""
    key: list[Any] = [one.kind, *one.key]
    if one.kind == "story":
        key[1] = place_name(key[1])
    elif one.kind == "account":
        key[2] = {ALL_HOURS: "all", NO_HOUR: None}.get(key[2], key[2] * _HOUR_SECONDS)
    value = None if one.value is None else dict(zip(_FIELDS[one.kind], one.value, strict=True))
    return orjson.dumps(key), None if value is None else orjson.dumps(value)


def _encode_stories(stories: list[tuple[int, tuple[Any, ...] | None]]) -> list[Sent]:
    """Return key and value of stories, as ``encode_part`` does."""
    values = [value for _, value in stories if value is not None]
    columns = (values, *(escaped([value[at] for value in values]) for at in (0, 4)))
    written = iter(
        f'{{"source":"{source}","hour":{hour},"arrival":{arrival},"date":{date},"by_date":"{by_date}",'
        f'"by_date_hour":{by_hour},"by_date_date":{by_time},"is_shared":{"true" if is_shared else "false"}}}'.encode()
        for (_, hour, arrival, date, _, by_hour, by_time, is_shared), source, by_date in zip(*columns, strict=True)
    )
    return [
        (f'["story","{place_name(place)}"]'.encode(), None if value is None else next(written))
        for place, value in stories
    ]


def _encode_pairs(pairs: list[Kept]) -> list[Sent]:
    """Return key and value of pairs of sources, as ``encode_part`` does."""
    columns = pairs, *(escaped([one.key[at] for one in pairs]) for at in (0, 1))
    return [
        (
            f'["pair","{source}","{original}"]'.encode(),
            None if one.value is None else f'{{"documents":{one.value[0]}}}'.encode(),
        )
        for one, source, original in zip(*columns, strict=True)
    ]


def read_sources(records: Iterable[Record]) -> KeptSources:
    """Return the parts of all records of the topic; raises ``WireError``."""
    parts, step = [], 0
    for data, value in {record.key: record.value for record in records}.items():
        if value is None:
            continue
        try:
            kind, *key = orjson.loads(data or b"")
            fields = orjson.loads(value)
            values = tuple(fields[name] for name in _FIELDS[kind])
            if kind == "story":
                key[0] = parse_place(key[0])
            elif kind == "account":
                key[1] = {"all": ALL_HOURS, None: NO_HOUR}.get(key[1]) or key[1] // _HOUR_SECONDS
        except (KeyError, TypeError, ValueError, IndexError):
            raise WireError(
                f"the record {data!r} of sources has the value {value[:40]!r}: no linker of this version wrote it; see "
                "who writes to that topic"
            ) from None
        if kind == "step":
            step = values[0]
        else:
            parts.append(Kept(kind, tuple(key), values))
    return KeptSources(parts, step)


class Sources:
    """The ledger of one linker. Its loop counts and writes; any thread may read."""

    def __init__(self, sources_max: int) -> None:
        self.first = 0  # the row from which on a restart needs the window
        self._lock = threading.Lock()
        self._ledger = Ledger(sources_max, stored=("account", "pair", "exceeded"))
        # Living stories with a second member -> what the topic says of them. Those that have changed, and those that
        # have ended, since the last write.
        self._shared: dict[int, tuple[Any, ...] | None] = {}
        self._changed: set[int] = set()
        self._written: dict[int, tuple[Any, ...] | None] = {}  # by the open write
        self._ended: list[int] = []
        self._begun: deque[tuple[int, _Longs]] = deque()  # stories, by the end of the rows that they came with

    def count(self, decided: DecidedRows, ended: Iterable[int], first: int, end: int) -> None:
        """Count a committed step and the places of the stories that it ended; ``first`` and ``end`` are the rows of the
        window after it."""
        rows, verdicts = decided.rows, decided.verdicts
        counted = np.flatnonzero(rows.kinds != REMOVAL)
        named = sources_shown(rows.shown, len(rows.places))
        sources = named if len(counted) == len(named) else [named[row] for row in counted.tolist()]
        columns = verdicts.statuses, verdicts.clusters, verdicts.late, decided.arrived, rows.times
        with self._lock:
            self._add(_reports(sources, counted, *columns), end)
            self._end(ended)
            while self._begun and self._begun[0][0] <= first:
                begun = self._begun.popleft()[1].tolist()
                self._ledger.end(place for place in begun if place not in self._shared)

    @property
    def is_changed(self) -> bool:
        """Whether anything has changed since the last write."""
        return bool(self._ledger.noted or self._changed or self._ended)

    @property
    def is_due(self) -> bool:
        """Whether so much has changed that no trim is waited for."""
        return len(self._changed) + len(self._ended) > _STORIES

    def changes(self, arrivals: int) -> list[Sent]:
        """Return what has changed since the last write, as records; so many arrivals are counted."""
        self._written = {place: self._ledger.story(place) for place in sorted(self._changed)}
        pending = self._ledger.pending()
        return [
            *(encode_part(one) for one in pending if one.kind != "pair"),
            *_encode_pairs([one for one in pending if one.kind == "pair"]),
            *_encode_stories([one for one in self._written.items() if one[1] != self._shared[one[0]]]),
            *(encode_part(Kept("story", (place,), None)) for place in self._ended),
            encode_part(Kept("step", (), (arrivals,))),
        ]

    def settle(self, first: int) -> None:
        """Close a write that is committed; ``first`` is the first row of the window."""
        for one in self._ledger.began_repeating():
            _log.warning("%s", sentence(one))
        self._settle(first)

    def pass_by(self, first: int) -> None:
        """Take all that has changed as written: by the owner that this linker stands by for; ``first`` as above."""
        self._written = {place: self._ledger.story(place) for place in self._changed}
        self._settle(first)

    def _settle(self, first: int) -> None:
        self._shared.update(self._written)
        self._ledger.settle()
        self._changed.clear()
        self._ended.clear()
        self._written.clear()
        self.first = first

    def restore(
        self, kept: KeptSources, found: DecidedRows, gathered: Gathered, living: Container[int], end: int
    ) -> None:
        """Begin with what the topic has, and count the decided rows that it does not count; ``living`` are the places
        of the stories with a second member, ``end`` is the end of the rows of the window."""
        self._ledger.begin(gathered.reports(found, gathered.begun))
        self._ledger.resume(kept.parts)
        self._shared = {one.key[0]: one.value for one in kept.parts if one.kind == "story"}
        self._begun.append((end, found.rows.places[gathered.begun]))
        self._add(gathered.reports(found, gathered.counted), end)
        self._end([place for place in self._shared if place not in living])

    def report(self) -> dict[str, Any]:
        """Return the sources with the most documents, the hours in which one repeated itself, and what the ledger had
        to forget, in the form of ``GET /v1/sources``."""
        with self._lock:
            ledger = self._ledger
            return {
                "sources": ledger.largest(_REPORTED),
                "repeating": ledger.repeating(),
                "exceeded": dict(ledger.exceeded),
            }

    def source_totals(self, limit: int) -> list[tuple[str | None, int, int]]:
        """Return ``totals`` of the ledger."""
        return self._ledger.totals(limit)

    def repeating(self, since_hour: int) -> list[dict[str, Any]]:
        """Return the hours, from one since the epoch on, in which a source repeated itself."""
        return self._ledger.repeating(since_hour)

    def _add(self, reports: Reports, end: int) -> None:
        self._ledger.add(reports)
        begun = reports.clusters[(reports.statuses == ORIGINAL) & ~reports.late]
        self._begun.append((end, begun))
        joined = np.unique(reports.clusters[np.isin(reports.statuses, _JOINS) & ~reports.late]).tolist()
        self._changed.update(joined)
        for place in joined:
            self._shared.setdefault(place, None)

    def _end(self, places: Iterable[int]) -> None:
        for place in places:
            self._ledger.end([place])
            self._changed.discard(place)
            if self._shared.pop(place, None) is not None:
                self._ended.append(place)


class Gathered:
    """Sources and times of arrival of decided rows, gathered from the messages of ``signed``: of ``counted``, rows that
    the ledger counts again, and of ``begun``, originals whose stories the topic does not have."""

    def __init__(self, found: DecidedRows, kept: KeptSources) -> None:
        places = found.rows.places
        again = found.numbers >= kept.step
        known = np.array([one.key[0] for one in kept.parts if one.kind == "story"], np.int64)
        begun = (found.verdicts.statuses == ORIGINAL) & ~found.verdicts.late & ~again & ~np.isin(places, known)
        self.begun = np.flatnonzero(begun)[-STORIES_MAX:]
        self.counted = np.flatnonzero(again & (found.rows.kinds != REMOVAL))
        rows = np.concatenate([self.begun, self.counted])
        order = np.argsort(places[rows])
        self._rows, self._places = rows[order], places[rows[order]]
        self._sources = dict[int, str]()  # row -> source, of rows with one
        self._names: dict[str, str] = {}  # of each source one string
        self._arrived = np.full(len(places), NO_TIME)
        self._is_read = np.zeros(len(places), np.bool_)

    def add(self, rows: ArrivalRows, timestamp_ms: int) -> None:
        """Add a message; of a document that was signed again, the first row counts."""
        at = np.searchsorted(self._places, rows.places)
        at[at == len(self._places)] = 0
        wanted = np.flatnonzero(self._places[at] == rows.places) if len(self._places) else at[:0]
        numbers = self._rows[at[wanted]]
        is_new = ~self._is_read[numbers]
        wanted, numbers = wanted[is_new], numbers[is_new]
        self._is_read[numbers] = True
        self._arrived[numbers] = arrived_at(np.array([timestamp_ms]))
        for number, source in zip(numbers.tolist(), sources_shown(rows.select(wanted).shown, len(wanted)), strict=True):
            if source:
                self._sources[number] = self._names.setdefault(source, source)

    def reports(self, found: DecidedRows, rows: _Longs) -> Reports:
        """Return the verdicts about some rows; what was not gathered has no source."""
        sources = [self._sources.get(row, "") for row in rows.tolist()]
        columns = found.verdicts.statuses, found.verdicts.clusters, found.verdicts.late
        return _reports(sources, rows, *columns, self._arrived, found.rows.times)


def _reports(sources: Sequence[str], rows: _Longs, *columns: npt.NDArray[Any]) -> Reports:
    return Reports(sources, *(column[rows] for column in columns))
