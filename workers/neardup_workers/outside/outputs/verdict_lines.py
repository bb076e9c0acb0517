"""Verdicts as JSON, and as the last key of the line of their document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from neardup.documents.document import Document
from neardup.pairs.comparing import SAID_MIN
from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.pairs.json_lines import escape_unprintable, relation_line
from neardup.stories.verdicts.decider import Decided
from neardup.stories.verdicts.fields import FIELDS, NAMES, RELATION_FIELDS, Verdicts, rounded, values_of
from neardup.stories.verdicts.rule import DUPLICATE, IS_KEPT_STATUS, ORIGINAL, STATUSES, UNCHANGED, UPDATE
from neardup_workers.outside.outputs.output import with_cell
from neardup_workers.outside.readers.entries import Entry

# The key, and the column of a table, that holds a verdict.
VERDICT_KEY = "neardup"
# The order of the keys of a line.
_ORDER = tuple(
    dict.fromkeys(("status", "cluster", *NAMES, "reason", "collection", *(field.name for field in RELATION_FIELDS)))
)
# The fields that most lines do not have.
_OTHERS = tuple(name for name in NAMES if name not in ("status", "cluster"))
# The values of a verdict, by field; those of ``RELATION_FIELDS``, and ``reason`` and ``collection``, too.
VerdictValues = dict[str, Any]
# How a line has values of a kind.
_AS_SHOWN: dict[str, Callable[[Any], Any]] = {"flag": lambda is_set: is_set or None, "fraction": rounded}


def decisions_of(decided: Decided) -> Iterator[VerdictValues]:
    """Yield the values of each verdict as they are shown, with its relation."""
    relations = dict(() if decided.relations is None else decided.relations.values())
    lists = values_of(decided.verdicts, decided.ids, decided.new)
    columns = [
        map(_AS_SHOWN[field.kind], found) if field.kind in _AS_SHOWN else found
        for field, found in zip(FIELDS, lists, strict=True)
    ]
    for n, row in enumerate(zip(*columns, strict=True)):
        values = dict(zip(NAMES, row, strict=True))
        yield values | (relation_line(relations[n]) if n in relations else {})


def verdict_lines(
    entries: Sequence[Entry], reasons: dict[int, str], decided: Decided, texts: GivenTexts | None = None
) -> Iterator[bytes]:
    """Yield the verdict of each entry as JSON.

    Args:
        entries: of the input.
        reasons: reasons of refused entries, by index in ``entries``.
        decided: the verdicts.
        texts: of earlier entries, to look passages up in the texts; receives the texts of these entries.
    """
    relations = dict(() if decided.relations is None else decided.relations.values())
    path, path_json = "", b'""'
    for n, (entry, values) in enumerate(zip(entries, decisions_of(decided), strict=True)):
        place, document = decided.first_place + n, entry.found if isinstance(entry.found, Document) else None
        if entry.source != path:
            path, path_json = entry.source, encoded(entry.source)
        is_plain = values["status"] == STATUSES[ORIGINAL] and entry.line and n not in relations
        is_plain = is_plain and all(values[name] is None for name in _OTHERS)
        is_plain = is_plain and document is not None and not document.collection
        if is_plain and document is not None and document.id.isascii() and document.id.isprintable():
            # Most lines: a third of the time that the general way takes.
            if texts is not None:
                texts.add(document.id, document.text)
            plain = place, path_json, entry.line, orjson.dumps(document.id), values["cluster"]
            yield b'{"place":%d,"path":%b,"line":%d,"id":%b,"status":"original","cluster":%d}' % plain
            continue
        named = {"reason": reasons.get(n), "collection": (None if document is None else document.collection) or None}
        if texts is not None and document is not None and n not in reasons:
            if n in relations:
                found = texts.passages(relations[n], document.text, document.collection)
                values |= {} if found is None else {"passages": found}
            texts.add(document.id, document.text, document.collection)
        yield verdict_line(place, entry.source, entry.line, None if document is None else document.id, values | named)


def verdict_line(place: int, path: str, line: int, id_: str | None, values: VerdictValues) -> bytes:
    """Return a verdict as JSON, without keys that have no value.

    ``place`` numbers the entries of all inputs, refused ones included; ``cluster``, ``related``,
    ``previous`` and ``matched`` are places.
    """
    verdict: dict[str, Any] = {"place": place, "path": path}
    if line:
        verdict["line"] = line
    if id_ is not None:
        verdict["id"] = id_
    verdict |= {name: values[name] for name in _ORDER if values.get(name) is not None}
    return encoded(verdict)


def counts_of(statuses: Mapping[int, int]) -> dict[str, float]:
    """Return the counts of a summary, of documents by number of status."""
    originals, updates, duplicates, unchanged = (statuses[one] for one in (ORIGINAL, UPDATE, DUPLICATE, UNCHANGED))
    kept, dropped = originals + updates, duplicates + unchanged
    fraction = round(dropped / max(1, kept + dropped), 4)
    names = ("kept", "updates", "duplicates", "unchanged", "duplicate_fraction")
    return dict(zip(names, (kept, updates, duplicates, unchanged, fraction), strict=True))


def kept_as_new(verdicts: Verdicts) -> dict[str, int]:
    """Return how many documents that make a pair with a kept content are kept because of a new number (or word of
    correction), and how many because of new words alone."""
    is_kept = IS_KEPT_STATUS[verdicts.statuses]
    has_words = (verdicts.against >= 0) | ((verdicts.said > 0) & (verdicts.said < SAID_MIN))
    numbers = is_kept & (verdicts.new_numbers > 0)
    return {"numbers": int(numbers.sum()), "words": int((is_kept & ~numbers & has_words).sum())}


def encoded(value: Any) -> bytes:
    """Return a value as compact JSON that is safe to show; lone surrogates of ids are replaced."""
    try:
        data = orjson.dumps(value)
    except TypeError:
        if isinstance(value, dict):
            value = {name: _without_surrogates(item) for name, item in value.items()}
        data = orjson.dumps(_without_surrogates(value))
    return escape_unprintable(data)


def _without_surrogates(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def annotated(entry: Entry, verdict: bytes) -> bytes:
    """Return an entry with its verdict: as the last key of an object, or the last cell of a row; a whole file as its
    path.

    Without the key or the cell, the result is the entry byte for byte.

    >>> annotated(Entry("a", 1, b'{"id": "x"}', ""), b'{"status":"original"}')
    b'{"id": "x","neardup":{"status":"original"}}'
    """
    if entry.raw is None:
        return b'{"path":%b,"%b":%b}' % (encoded({"path": entry.source})[8:-1], VERDICT_KEY.encode(), verdict)
    if entry.header is not None and entry.row is not None:
        return with_cell(entry.row, verdict, entry.header.delimiter)
    end = entry.raw.rindex(b"}")
    comma = b"" if entry.raw[:end].rstrip().endswith(b"{") else b","
    return b'%b%b"%b":%b%b' % (entry.raw[:end], comma, VERDICT_KEY.encode(), verdict, entry.raw[end:])
