"""Verdicts as JSON, and as the last key of the line of their document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from neardup.documents.document import Document, Relation
from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.pairs.json_lines import escape_unprintable, relation_values
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.verdicts.decider import Decided
from neardup.stories.verdicts.row_columns import NONE
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REFUSED, STATUSES, UNCHANGED, UPDATE
from neardup_workers.outside.outputs.output import with_cell
from neardup_workers.outside.readers.entries import Entry

# The key, and the column of a table, that holds a verdict.
VERDICT_KEY = "neardup"


class VerdictLine(NamedTuple):
    """A verdict in words; clusters are places."""

    status: str
    cluster: int | None = None
    duplicate_of: str | None = None
    similarity: float | None = None
    related: int | None = None
    previous: int | None = None
    matched: int | None = None
    late: bool | None = None
    reason: str | None = None
    collection: str | None = None
    relation: str | None = None
    relation_to: str | None = None
    older_fraction: float | None = None
    newer_fraction: float | None = None
    passages: list[dict[str, Any]] | None = None

    @classmethod
    def of(
        cls, row: Sequence[Any], ids: Iterator[str], reason: str | None = None, collection: str | None = None
    ) -> VerdictLine:
        """Return the verdict in a row of ``Verdicts``; ``ids`` yields the id of the next original."""
        status, cluster, original, similarity, related, previous, matched, _, late = row
        return cls(
            STATUSES[status],
            None if status == REFUSED else cluster,
            next(ids) if original != NONE else None,
            round(similarity, SIMILARITY_DIGITS) if similarity else None,
            related if related >= 0 else None,
            previous if previous >= 0 else None,
            matched if matched >= 0 else None,
            late or None,
            reason,
            collection or None,
        )

    def with_relation(self, relation: Relation | None, passages: list[dict[str, Any]] | None = None) -> VerdictLine:
        """Return the verdict with a relation; ``passages`` are its passages, if they were looked up in the text."""
        if relation is None:
            return self
        named = {"relation_to": relation.id} | ({} if passages is None else {"passages": passages})
        return self._replace(**{**relation_values(relation), **named})


_NAMES = VerdictLine._fields


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
    ids, relations = iter(decided.ids), dict(() if decided.relations is None else decided.relations.values())
    columns = (column.tolist() for column in decided.verdicts)
    path, path_json = "", b'""'
    for n, (entry, *row) in enumerate(zip(entries, *columns, strict=True)):
        place, document = decided.first_place + n, entry.found if isinstance(entry.found, Document) else None
        status, cluster, _, _, related, previous, _, _, late = row
        if entry.source != path:
            path, path_json = entry.source, encoded(entry.source)
        is_plain = status == ORIGINAL and related < 0 and previous < 0 and entry.line and not late
        is_plain = is_plain and n not in relations
        is_plain = is_plain and document is not None and not document.collection
        if is_plain and document is not None and document.id.isascii() and document.id.isprintable():
            # Most lines: a third of the time that the general way takes.
            if texts is not None:
                texts.add(document.id, document.text)
            values = place, path_json, entry.line, orjson.dumps(document.id), cluster
            yield b'{"place":%d,"path":%b,"line":%d,"id":%b,"status":"original","cluster":%d}' % values
            continue
        decision = VerdictLine.of(row, ids, reasons.get(n), None if document is None else document.collection)
        relation, passages = relations.get(n), None
        if texts is not None and document is not None and n not in reasons:
            named = document.text, document.collection
            passages = None if relation is None else texts.passages(relation, *named)
            texts.add(document.id, *named)
        decision = decision.with_relation(relation, passages)
        yield verdict_line(place, entry.source, entry.line, None if document is None else document.id, decision)


def verdict_line(place: int, path: str, line: int, id_: str | None, decision: VerdictLine) -> bytes:
    """Return a verdict as JSON, without keys that have no value.

    ``place`` numbers the entries of all inputs, refused ones included; ``cluster``, ``related``,
    ``previous`` and ``matched`` are places.
    """
    verdict: dict[str, Any] = {"place": place, "path": path}
    if line:
        verdict["line"] = line
    if id_ is not None:
        verdict["id"] = id_
    verdict |= {name: value for name, value in zip(_NAMES, decision, strict=True) if value is not None}
    return encoded(verdict)


def counts_of(statuses: Mapping[int, int]) -> dict[str, float]:
    """Return the counts of a summary, of documents by number of status."""
    originals, updates, duplicates, unchanged = (statuses[one] for one in (ORIGINAL, UPDATE, DUPLICATE, UNCHANGED))
    kept, dropped = originals + updates, duplicates + unchanged
    fraction = round(dropped / max(1, kept + dropped), 4)
    names = ("kept", "updates", "duplicates", "unchanged", "duplicate_fraction")
    return dict(zip(names, (kept, updates, duplicates, unchanged, fraction), strict=True))


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
