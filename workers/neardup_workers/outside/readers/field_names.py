"""The setting ``fields``: what the parts of a document are called in JSON Lines and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class FieldNames(NamedTuple):
    """The name of each part of a document; ``None`` for a part that is not read."""

    id: str = "id"
    text: str = "text"
    time: str = "timestamp"
    tokens: str = "tokens"
    vector: str = "vector"
    source: str = "source"
    collection: str | None = None
    html: str | None = None
    origin: str | None = None


def field_names(fields: Iterable[str]) -> FieldNames:
    """Return the names of the parts of a document.

    Args:
        fields: the setting: each value names one part, as ``text=body``, or a further field of the text, as the second
            of ``text=title,body``. A name may be a path (``neardup.documents.paths``).

    Raises:
        ValueError: a value has another form, or two of them name one part.

    Example:
        >>> field_names(["id=key", "time=published"]).time
        'published'
    """
    names: dict[str, str] = {}
    last = ""
    for value in fields:
        part, equals, name = (word.strip() for word in value.partition("="))
        if not equals and part and last == "text":
            names[last] += f",{part}"
            continue
        last = part
        if part not in FieldNames._fields or not name:
            raise ValueError(f"must be PART=NAME of the parts {', '.join(FieldNames._fields)}, as in text=body")
        if part in names:
            raise ValueError(f"must name each part once, and {part} is {names[part]} and {name}")
        names[part] = name
    return FieldNames(**names)
