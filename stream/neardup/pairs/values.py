"""Which values of documents have types that can be signed, and which of their times can be true."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.dates import AHEAD_SECONDS
from neardup.documents.document import COLLECTION, ID, REASONS, TEXT, TIMESTAMP, Document, Refusal
from neardup.documents.ids import SEPARATOR, wrong_collection
from neardup.errors import Reason
from neardup.pairs.batches import MICROSECONDS, Batch
from neardup.pairs.json_lines import event_seconds
from neardup.window import NO_TIME


def converted(documents: list[Document]) -> list[Document]:
    """Return documents whose ids that are whole numbers are their decimal texts, and whose times that are dates are
    seconds since the epoch: datetimes (UTC without a zone), ``datetime64``, and texts as lines of JSON have them. What
    has another type stays, and is refused later."""
    is_plain = set(map(type, map(ID, documents))) <= {str}
    if is_plain and set(map(type, map(TIMESTAMP, documents))) <= {NoneType, float, int}:
        return documents
    return [one._replace(id=_id_of(one.id), timestamp=_seconds_of(one.timestamp)) for one in documents]


def _id_of(value: Any) -> Any:
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return str(int(value)) if is_number else value


def _seconds_of(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else float(value.astype("datetime64[us]").astype(np.int64)) / MICROSECONDS
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        if moment != moment:  # the missing time of pandas
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, str):
        is_none = isinstance(value, float | np.floating) and math.isnan(value)  # as numpy and pandas write none
        return None if is_none else value
    seconds = event_seconds(value, "s")
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


def wrong_values(documents: Sequence[Document], kind: str, *, separate: bool) -> dict[int, str]:
    """Return the documents whose values have a wrong type: position -> reason (a key of ``REASONS``).

    ``kind`` is the value that is compared (a key of ``neardup.pairs.json_lines.KINDS``); ``separate``: documents may
    name a collection. The readers of tokens and vectors check those. Never raises.
    """
    known = set(map(type, map(ID, documents))) <= {str}
    known = known and set(map(type, map(TIMESTAMP, documents))) <= {NoneType, float, int}
    known = known and (
        set(map(COLLECTION, documents)) <= {None}
        if not separate
        else set(map(type, map(COLLECTION, documents))) <= {NoneType, str}
        and SEPARATOR not in "".join(filter(None, map(COLLECTION, documents)))
    )
    if kind == "text":
        known = known and set(map(type, map(TEXT, documents))) <= {str}
    if known and kind != "record":
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
    if kind == "text" and not isinstance(document.text, str):
        return "text_type" if document.text is not None else "no_text"
    if kind == "record" and document.fields is not None:
        fields = document.fields
        if not isinstance(fields, Mapping) or not all(isinstance(value, str) for value in fields.values()):
            return "fields_type"
    return None


def without_future(batch: Batch, now_seconds: float) -> tuple[Batch, npt.NDArray[np.int64]]:
    """Return a batch in which no time lies more than ``AHEAD_SECONDS`` after ``now_seconds``, and the rows whose time
    did (``int64[m]``): they have none. One such time would make every later document late for the window."""
    rows = np.flatnonzero(batch.times > (now_seconds + AHEAD_SECONDS) * MICROSECONDS)
    if not len(rows):
        return batch, rows
    times = batch.times.copy()
    times[rows] = NO_TIME
    return batch._replace(times=times), rows
