"""Verdicts as JSON, and as the last key of the line of their document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import orjson

from neardup.documents.document import Document
from neardup.documents.ids import strings_of
from neardup.pairs.comparing import SAID_MIN
from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.pairs.json_lines import escape_unprintable, relation_line
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.fields import (
    FIELDS,
    NAMES,
    NOTHING_NEW,
    RELATION_FIELDS,
    Verdicts,
    others_of,
    rounded,
    values_of,
)
from neardup.stories.verdicts.rule import DUPLICATE, IS_KEPT_STATUS, ORIGINAL, STATUSES, UNCHANGED, UPDATE
from neardup_workers.outside.outputs.output import with_cell
from neardup_workers.outside.readers.entries import Entry, LineRows

# The key, and the column of a table, that holds a verdict.
VERDICT_KEY = "neardup"
# The order of the keys of a line; after them reason, collection and ``RELATION_FIELDS``.
_ORDER = tuple(dict.fromkeys(("status", "cluster", *NAMES)))
# The values of a verdict, by field; those of ``RELATION_FIELDS``, and ``reason`` and ``collection``, too.
VerdictValues = dict[str, Any]
# Of an entry: source, line, id and collection, if it is a document, and its text.
Named = tuple[str, int, str | None, str | None, str]
# How a line has values of a kind.
_AS_SHOWN: dict[str, Callable[[Any], Any]] = {"flag": lambda is_set: is_set or None, "fraction": rounded}


def _decisions(decided: Decided, rows: Sequence[int]) -> Iterator[VerdictValues]:
    """Yield the values of some verdicts as they are shown, in order; all that name an original are among them."""
    new = {n: decided.new[row] for n, row in enumerate(rows) if row in decided.new} if decided.new else NOTHING_NEW
    lists = values_of(decided.verdicts.select(np.array(rows, np.int64)), decided.ids, new)
    columns = {
        field.name: list(map(_AS_SHOWN[field.kind], found)) if field.kind in _AS_SHOWN else found
        for field, found in zip(FIELDS, lists, strict=True)
    }
    shown = [name for name in _ORDER if columns[name].count(None) < len(rows)]  # most are empty
    for found in zip(*(columns[name] for name in shown), strict=True):
        yield dict(zip(shown, found, strict=True))


def verdict_lines(
    entries: Sequence[Entry], reasons: dict[int, str], decided: Decided, texts: GivenTexts | None = None
) -> Iterator[bytes]:
    """Yield the verdict of each entry as JSON. ``reasons`` of refused ones are by index; ``texts`` are those of earlier
    entries, to look passages up in, and receive those of these."""
    if texts is None and isinstance(entries, LineRows):
        return named_lines(_named_rows(entries, reasons), reasons, decided)
    return named_lines(map(_named, entries), reasons, decided, texts)


def _named(entry: Entry) -> Named:
    found = entry.found
    shown = (found.id, found.collection, found.text) if isinstance(found, Document) else (None, None, "")
    return entry.source, entry.line, *shown


def _named_rows(rows: LineRows, reasons: Mapping[int, str]) -> Iterator[Named]:
    """Yield the same without decoding the lines again, but those of refused documents."""
    ids, collections = strings_of(rows.documents.ids), rows.documents.collections
    names = repeat("") if collections is None else strings_of(collections)
    for n, (id_, collection) in enumerate(zip(ids, names, strict=False)):
        yield _named(rows[n]) if n in reasons else (rows.source, rows.first + n, id_, collection, "")


def named_lines(
    named: Iterable[Named], reasons: Mapping[int, str], decided: Decided, texts: GivenTexts | None = None
) -> Iterator[bytes]:
    """Yield the same for what ``named`` says of each entry."""
    relations = dict(() if decided.relations is None else decided.relations.values())
    others = others_of(decided.verdicts, {*relations, *decided.new})
    decisions, path, path_json = dict(zip(others, _decisions(decided, others), strict=True)), "", b'""'
    for n, ((source, line, id_, collection, text), cluster) in enumerate(
        zip(named, decided.verdicts.clusters.tolist(), strict=True)
    ):
        place, values = decided.first_place + n, decisions.get(n)
        relation = relation_line(relations[n]) if n in relations else {}
        if texts is not None and id_ is not None and n not in reasons:
            found = texts.passages(relations[n], text, collection) if relation else None
            relation |= {} if found is None else {"passages": found}
            texts.add(id_, text, collection)
        if values is None and line and not collection and id_ is not None and id_.isascii() and id_.isprintable():
            # Most lines: a third of the time that the general way takes.
            if source != path:
                path, path_json = source, encoded(source)
            plain = place, path_json, line, orjson.dumps(id_), cluster
            yield b'{"place":%d,"path":%b,"line":%d,"id":%b,"status":"original","cluster":%d}' % plain
            continue
        verdict = {"place": place, "path": source, "line": line or None, "id": id_}
        verdict |= {"status": STATUSES[ORIGINAL], "cluster": cluster} if values is None else values
        verdict |= {"reason": reasons.get(n), "collection": collection or None}
        verdict |= {field.name: relation.get(field.name) for field in RELATION_FIELDS if relation}
        yield encoded({name: value for name, value in verdict.items() if value is not None})


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
