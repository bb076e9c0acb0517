"""Which values of documents have types that can be signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType

import numpy as np

from neardup.documents.document import COLLECTION, ID, TEXT, TIMESTAMP, Document
from neardup.documents.ids import SEPARATOR, wrong_collection


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
