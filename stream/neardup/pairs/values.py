"""Which values of documents have types that can be signed, and which of their times can be true.

A document is *plain* if it is a ``Document`` itself, its id and its text are strings, its time is a float or ``None``,
and nothing of it is unusual. Plain documents are read where CPython has them, in one compiled call, without a look-up
of a name and without a list for each field. The functions for the others convert and refuse.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.dates import AHEAD_SECONDS, SECONDS_MAX
from neardup.documents.document import (
    COLLECTION,
    ID,
    REASONS,
    TEXT,
    TIMESTAMP,
    Column,
    Document,
    DocumentColumns,
    Refusal,
    check_type,
)
from neardup.documents.ids import ID_BYTES_MAX, SEPARATOR, wrong_collection
from neardup.errors import Reason
from neardup.machine.compile import inlined
from neardup.machine.memory import bytes_at, floats_at, longs_at, string_parts
from neardup.pairs.batches import MICROSECONDS, Batch, id_column, known_times, microseconds_of
from neardup.pairs.json_lines import OF_RECORDS, OF_TEXTS, Unread, event_seconds, unread_time
from neardup.window import NO_TIME

# Where CPython keeps what is read of an object, in bytes from its address: its type, the number of a float, the first
# item of a tuple. Then the addresses of three types, of ``None`` and of ``False``.
LAYOUT = np.array(
    [
        object.__basicsize__ - 8, float.__basicsize__ - 8, tuple.__basicsize__,
        *map(id, (Document, str, float, None, False)),
    ],
    np.int64,
)  # fmt: skip
_POINTER_BYTES = 8
_ID, _TEXT, _TIMESTAMP, _COLLECTION, _REFERENCE = map(
    Document._fields.index, ("id", "text", "timestamp", "collection", "reference")
)
_SEPARATOR = np.uint8(ord(SEPARATOR))


# Why a time counts as none, where that is no reason to refuse a value (``undated``: of items of feeds) -> its sentence.
AHEAD = "timestamp_ahead"
_NO_TIME = {
    "undated": "the date is none, or lies before 1990 or more than a day ahead of the clock",
    AHEAD: "it lies more than a day ahead of the clock",
}
# Characters of an example in a note.
_EXAMPLE_CHARACTERS = 60


class UnreadTimes(dict[str, tuple[int, object]]):
    """Times that are none: reason -> how many, and the first of them. Their documents have the time of arrival."""

    def __call__(self, reason: str, value: object) -> None:
        """Count a time."""
        count, first = self.get(reason, (0, value))
        self[reason] = count + 1, first

    @property
    def counts(self) -> dict[str, int]:
        """How many there are, by reason."""
        return {reason: count for reason, (count, _) in self.items()}

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each reason."""
        for reason, (count, first) in self.items():
            example = ascii(first)[:_EXAMPLE_CHARACTERS]
            why = _NO_TIME.get(reason) or REASONS[reason]
            yield f"{count:,} documents have no time, such as one of {example}: {why}"


def converted(documents: list[Document], unread: Unread) -> list[Document]:
    """Return documents whose ids that are whole numbers are their decimal texts, and whose times that are dates are
    seconds since the epoch: datetimes (UTC without a zone), ``datetime64``, and texts as lines of JSON have them. A
    text that is no date, and a number out of range, are ``unread``: the document has no time. What has another type
    stays, and is refused later."""
    times = list(map(TIMESTAMP, documents))
    if set(map(type, map(ID, documents))) <= {str} and set(map(type, times)) <= {NoneType, float, int}:
        try:
            # Each is in range if the sum is, which takes a tenth of the time of a look at each.
            if sum(map(abs, filter(None, times))) < SECONDS_MAX:
                return documents
        except OverflowError:
            pass
    return [one._replace(id=_id_of(one.id), timestamp=_seconds_of(one.timestamp, unread)) for one in documents]


def _id_of(value: Any) -> Any:
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return str(int(value)) if is_number else value


def _seconds_of(value: Any, unread: Unread) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else float(value.astype("datetime64[us]").astype(np.int64)) / MICROSECONDS
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        if moment != moment:  # the missing time of pandas
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    is_number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if is_number and value != value:  # numpy and pandas write none so
        return None
    if not is_number and not isinstance(value, str):
        return value
    seconds = event_seconds(value, "s") if isinstance(value, str) else value if abs(value) < SECONDS_MAX else math.inf
    if reason := unread_time(seconds):
        unread(reason, value)
        return None
    return value if isinstance(seconds, Reason) else seconds


def warn_of_types(refusals: Sequence[Refusal], stacklevel: int) -> None:
    """Warn of refused values of a wrong type, by reason: a program is wrong there, not its data, and an answer of pairs
    does not show it."""
    found = Counter(refusal.reason for refusal in refusals if refusal.reason.endswith("_type"))
    for reason, count in found.items():
        example = next(refusal for refusal in refusals if refusal.reason == reason)
        warnings.warn(
            f"{count:,} documents are refused, such as {example.id!r} at position {example.position}: "
            f"{REASONS[reason]}; the attribute refusals has all of them",
            stacklevel=stacklevel + 1,
        )


def warn_of_times(unread: UnreadTimes, before: Mapping[str, int], stacklevel: int) -> None:
    """Warn of times that count as none, once a reason: ``before`` counts those of earlier calls."""
    for reason, note in zip(unread, unread.notes(), strict=True):
        if reason not in before:
            warnings.warn(f"{note}; counts() has their number", stacklevel=stacklevel + 1)


def wrong_values(documents: Sequence[Document], kind: str, *, separate: bool) -> dict[int, str]:
    """Return the documents whose values have a wrong type: position -> reason (a key of ``REASONS``).

    ``kind`` is the value that is compared (a key of ``neardup.pairs.json_lines.KINDS``); ``separate``: documents may
    name a collection. The readers of tokens and vectors check those. Never raises.
    """
    known = set(map(type, map(ID, documents))) <= {str}
    known = known and set(map(type, map(TIMESTAMP, documents))) <= {NoneType, float, int}
    known = known and (
        set(map(type, map(COLLECTION, documents))) <= {NoneType}
        if not separate
        else set(map(type, map(COLLECTION, documents))) <= {NoneType, str}
        and SEPARATOR not in "".join(filter(None, map(COLLECTION, documents)))
    )
    if kind in OF_TEXTS:
        known = known and set(map(type, map(TEXT, documents))) <= {str}
    if known and kind not in OF_RECORDS:
        return {}
    reasons = (
        (position, _wrong_value(document, kind) or wrong_collection(document, separate=separate))
        for position, document in enumerate(documents)
    )
    return {position: reason for position, reason in reasons if reason is not None}


def _wrong_value(document: Document, kind: str) -> str | None:
    if not isinstance(document.id, str):
        return "id_type"
    time = document.timestamp
    if isinstance(time, bool) or not isinstance(time, float | int | np.floating | np.integer | None):
        return "timestamp_type"
    if kind in OF_TEXTS and not isinstance(document.text, str):
        return "text_type" if document.text is not None else "no_text"
    if kind in OF_RECORDS and document.fields is not None:
        fields = document.fields
        if not isinstance(fields, Mapping) or not all(isinstance(value, str) for value in fields.values()):
            return "fields_type"
    return None


def admitted(documents: Sequence[Document], *, separate: bool) -> tuple[Column, npt.NDArray[np.int64], dict[int, str]]:
    """Return the ids of documents as a column, and their times in microseconds; the reasons of unusable ones, by
    position."""
    ids, unusable = id_column(documents, separate=separate)
    times, keepable = times_of(documents)
    refused = dict(unusable)
    if not keepable.all():
        refused |= dict.fromkeys(np.flatnonzero(~keepable).tolist(), "timestamp_range")
    if len(ids.data) > ID_BYTES_MAX:
        too_long = np.flatnonzero(np.diff(ids.starts) > ID_BYTES_MAX)
        refused |= dict.fromkeys(too_long.tolist(), "id_too_long")
    return ids, times, refused


def times_of(documents: Sequence[Document]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return event times in microseconds (``int64[n]``, ``NO_TIME`` without one), and which can be stored
    (``bool[n]``)."""
    if isinstance(documents, DocumentColumns):
        return known_times(documents.times)
    seconds = list(map(TIMESTAMP, documents))
    kinds = set(map(type, seconds))
    if kinds == {NoneType}:
        return np.full(len(seconds), NO_TIME), np.ones(len(seconds), np.bool_)
    if kinds == {float}:
        return known_times(np.array(seconds, np.float64))
    times = list(map(_time_of, seconds))
    return np.array([time or 0 for time in times], np.int64), np.array([time is not None for time in times], np.bool_)


def _time_of(seconds: float | None) -> int | None:
    """Convert one time of any type of number, integers without rounding; ``None`` if it cannot be stored."""
    if seconds is None or seconds != seconds:
        return int(NO_TIME)
    return round(seconds * MICROSECONDS) if abs(seconds) < SECONDS_MAX else None


def without_future(batch: Batch, now_seconds: float, unread: Unread) -> Batch:
    """Return a batch in which no time lies more than ``AHEAD_SECONDS`` after ``now_seconds``: documents whose time did
    have none, and it is ``unread``. One such time would make every later document late for the window."""
    check_type(now_seconds, Real, "now returns seconds since the epoch: now=time.time")
    rows = np.flatnonzero(batch.times > (now_seconds + AHEAD_SECONDS) * MICROSECONDS)
    if not len(rows):
        return batch
    times = batch.times.copy()
    for microseconds, id_ in zip(times[rows].tolist(), batch.ids_at(rows), strict=True):
        shown = id_.removeprefix(SEPARATOR).replace(SEPARATOR, " / ")  # of a full id both parts
        unread(AHEAD, f"{np.datetime64(microseconds // MICROSECONDS, 's')} ({shown})")
    times[rows] = NO_TIME
    return batch._replace(times=times)


@inlined
def read_plain(rows, layout, separate, columns):
    """Fill in the times, texts and ids of the documents in the tuple at an address; ``layout`` is ``LAYOUT``. It reads
    what never changes, of objects that the caller keeps: so it needs no interpreter lock.

    Returns the bytes of the ids, of which those are written that have room, the characters of all texts, and of the
    longest, whether all texts are ASCII, and how many are of an old set; -1 for the bytes if a document is not plain.
    """
    type_at, number_at, items_at, document, string, number, nothing, no = layout
    at, characters, longest, all_ascii, references = np.int64(0), np.int64(0), np.int64(0), True, np.int64(0)
    columns.id_starts[0] = 0
    for i in range(len(columns.times)):
        row = _long(rows + items_at + _POINTER_BYTES * i)
        if _long(row + type_at) != document:
            return np.int64(-1), characters, longest, all_ascii, references
        fields = longs_at(row + items_at, _REFERENCE + 1)
        references += fields[_REFERENCE] != no
        id_, text, time, collection = fields[_ID], fields[_TEXT], fields[_TIMESTAMP], fields[_COLLECTION]
        if _long(id_ + type_at) != string or _long(text + type_at) != string:
            return np.int64(-1), characters, longest, all_ascii, references
        begin = at
        if separate:
            if collection != nothing:
                if _long(collection + type_at) != string:
                    return np.int64(-1), characters, longest, all_ascii, references
                at = _put_string(collection, columns.ids, at, True)
            if at < begin:
                return np.int64(-1), characters, longest, all_ascii, references
            if at < len(columns.ids):
                columns.ids[at] = _SEPARATOR
            at += 1
        elif collection != nothing:
            return np.int64(-1), characters, longest, all_ascii, references
        at = _put_string(id_, columns.ids, at, False)
        if at < begin or at - begin > ID_BYTES_MAX:
            return np.int64(-1), characters, longest, all_ascii, references
        columns.id_starts[i + 1] = at
        columns.times[i], is_time = NO_TIME, True
        if time != nothing:
            if _long(time + type_at) != number:
                return np.int64(-1), characters, longest, all_ascii, references
            columns.times[i], is_time = microseconds_of(floats_at(time + number_at, 1)[0])
        if not is_time:
            return np.int64(-1), characters, longest, all_ascii, references
        address, length, width, is_ascii = string_parts(text)
        columns.texts.addresses[i], columns.texts.lengths[i] = address, length
        columns.texts.widths[i] = 0 if is_ascii else width
        characters += length
        longest, all_ascii = max(longest, length), all_ascii and is_ascii != 0
    return at, characters, longest, all_ascii, references


@inlined
def _long(address):
    return longs_at(address, 1)[0]


@inlined
def _put_string(string, out, at, is_collection):
    """Write the string at an address to ``out`` from ``at`` on, as far as it has room; return where it ends. A number
    below any place if it is not ASCII, or a collection that cannot be one."""
    address, length, _, is_ascii = string_parts(string)
    if not is_ascii:
        return np.int64(-2 * ID_BYTES_MAX)
    codes, is_wrong = bytes_at(address, length), False
    if at >= 0 and at + length <= len(out):
        for p in range(length):
            out[at + p] = codes[p]
    if is_collection:
        for p in range(length):
            is_wrong |= codes[p] == _SEPARATOR
    return np.int64(-2 * ID_BYTES_MAX) if is_wrong else at + length
