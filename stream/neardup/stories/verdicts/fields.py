"""The fields of a verdict, declared once: tables, lines, messages, answers and their schemas follow from these rows.

A *place* is the number of a document in order of arrival; on topics it is the partition and the offset of its record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from operator import methodcaller
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import RELATIONS, SIGNALS, Document, Relation, Verdict
from neardup.documents.pieces import NewWord
from neardup.machine.compile import kernel
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.verdicts.row_columns import NONE
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REFUSED, STATUSES, UNCHANGED, UPDATE, says_more

# What texts say that is new, by arrival.
NewWords = Mapping[int, tuple[NewWord, ...]]
NOTHING_NEW: NewWords = MappingProxyType({})


class Verdicts(NamedTuple):
    """The verdicts of n arrivals, as columns.

    ``statuses`` (``uint8[n]``) are constants of ``rule``. ``clusters``, ``related``, ``previous`` and ``matched``
    (``int64[n]``) are places, -1 for none: ``clusters`` of the originals, ``matched`` of the version that was compared.
    ``originals`` (``int64[n]``) is the number of the newest row by the id that began the story, ``NONE`` (-1) for an
    original, an update and their unchanged versions, ``GONE`` (-2) if that row has left the window. ``similarities``
    (``float32[n]``) compare with ``matched``, 0 where nothing was compared. ``equal`` (``bool[n]``): its content is
    that of ``matched``. ``late`` (``bool[n]``): it came after its window, and has no effect.

    With ``novelty``, ``against`` (``int64[n]``) is of an original the place of the version that it makes the most
    similar pair with, -1 for none. ``said`` (``float32[n]``) and ``new_numbers`` (``int64[n]``) compare with
    ``matched`` or ``against``; 0 where nothing was compared. ``signals`` (``uint8[n]``) is the number of the signal by
    which an update tells its story, 0 for the text.
    """

    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    originals: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]
    related: npt.NDArray[np.int64]
    previous: npt.NDArray[np.int64]
    matched: npt.NDArray[np.int64]
    equal: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    against: npt.NDArray[np.int64]
    said: npt.NDArray[np.float32]
    new_numbers: npt.NDArray[np.int64]
    signals: npt.NDArray[np.uint8]

    def select(self, rows: npt.NDArray[np.int64]) -> Verdicts:
        """Return some verdicts, in the given order."""
        return Verdicts._make(column[rows] for column in self)


# The types of the columns.
_TYPES = tuple(map(np.dtype, ("u1", "i8", "i8", "f4", "i8", "i8", "i8", "?", "?", "i8", "f4", "i8", "u1")))


def join_verdicts(parts: Sequence[Verdicts]) -> Verdicts:
    """Return the verdicts of all parts, one after the other; at least one part."""
    return parts[0] if len(parts) == 1 else Verdicts(*map(np.concatenate, zip(*parts, strict=True)))


def new_verdicts(count: int, used: Verdicts | None = None) -> Verdicts:
    """Return columns to fill, ``count`` long: those of ``used``, which are no longer needed, if they are."""
    if used is not None and len(used.statuses) == count:
        return used
    return Verdicts(*map(np.empty, repeat(count), _TYPES))


class Kind(NamedTuple):
    """What a field holds: its type in JSON; its type in Arrow, a function of the module; which values of its column
    mean none, without a function no value does; and the names of values that are numbers, from 0."""

    json: Mapping[str, Any]
    arrow: Callable[[Any], Any]
    is_none: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]] | None = None
    names: tuple[str, ...] = ()


_OF_DOCUMENTS = (STATUSES[status] for status in (ORIGINAL, DUPLICATE, UNCHANGED, UPDATE))
_PLACE = {"type": "integer", "minimum": 0}
_SPAN = {"type": "array", "items": _PLACE, "minItems": 2, "maxItems": 2}


def _list_of(members: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of objects that have all of these members."""
    return {"type": "array", "items": {"type": "object", "properties": members, "required": list(members)}}


KINDS = {
    "status": Kind({"enum": list(_OF_DOCUMENTS)}, lambda pa: pa.dictionary(pa.int8(), pa.string())),
    "id": Kind({"type": "string"}, lambda pa: pa.string(), lambda values: values == NONE),
    "place": Kind(_PLACE, lambda pa: pa.int64(), lambda values: values < 0),
    "fraction": Kind(
        {"type": "number", "minimum": 0, "maximum": 1}, lambda pa: pa.float64(), lambda values: values == 0
    ),
    "count": Kind(_PLACE, lambda pa: pa.int64(), lambda values: values == 0),
    "flag": Kind({"type": "boolean"}, lambda pa: pa.bool_()),
    "words": Kind(
        _list_of({"text": {"type": "string"}, "begin": _PLACE, "end": _PLACE, "is_number": {"type": "boolean"}}),
        lambda pa: pa.list_(
            pa.struct([("text", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("is_number", pa.bool_())])
        ),
    ),
    "signal": Kind({"enum": list(SIGNALS)}, lambda pa: pa.string(), lambda values: values == 0, ("", *SIGNALS)),
    "relation": Kind({"enum": list(RELATIONS)}, lambda pa: pa.string()),
    "passages": Kind(
        _list_of({"older": _SPAN, "newer": _SPAN}),
        lambda pa: pa.list_(pa.struct([("older", pa.list_(pa.int64())), ("newer", pa.list_(pa.int64()))])),
    ),
}


class Field(NamedTuple):
    """A field: its name, a key of ``KINDS``, the column of ``Verdicts`` that has its values (empty for one that needs
    the text), what it says, and whether only messages have it."""

    name: str
    kind: str
    column: str
    says: str
    is_internal: bool = False


MESSAGE_FIELDS = (
    Field("status", "status", "statuses", "What to do with the document: keep an original or an update, drop a "
          "duplicate or an unchanged version."),
    Field("duplicate_of", "id", "originals", "Id of the original."),
    Field("original", "place", "originals", "Place of the newest version of the original, if it is in the window.",
          is_internal=True),
    Field("similarity", "fraction", "similarities", "Similarity to the version that matched names, to 4 digits; 1 for "
          "identical content."),
    Field("cluster", "place", "clusters", "Place of the original of the cluster."),
    Field("related", "place", "related", "Of an original, the cluster of the most similar document that it was "
          "compared with, or of the version before."),
    Field("previous", "place", "previous", "Place of the latest version of the same id in the window."),
    Field("matched", "place", "matched", "Place of the kept version that the content was compared with, or is equal "
          "to."),
    Field("equal", "flag", "equal", "The content is that of the version that matched names.", is_internal=True),
    Field("late", "flag", "late", "It came after its window: it was compared, and has no further effect."),
    Field("against", "place", "against", "With novelty, of an original: place of the kept version that it is most "
          "similar to, and says something new to."),
    Field("said", "fraction", "said", "With novelty: the part of the text that the version matched has said, of an "
          "original the version against; by weight of its words and numbers, to 4 digits. Copies of earlier documents "
          "have none."),
    Field("new_numbers", "count", "new_numbers", "With novelty: how many numbers of the text that version lacks."),
    Field("signal", "signal", "signals", "With scheme signals, of an update: what says that it tells the story, if its "
          "text does not."),
)  # fmt: skip
# Where the text is at hand.
TEXT_FIELDS = (
    Field("new", "words", "", "With novelty, of an original and an update: what the text says that that version does "
          "not say, numbers and words of correction first, at most 16. Begin and end are code points of the given "
          "text."),
)  # fmt: skip
FIELDS = (*(field for field in MESSAGE_FIELDS if not field.is_internal), *TEXT_FIELDS)
NAMES = tuple(field.name for field in FIELDS)
# Of schemes that know what texts share; their values are those of a ``Relation``.
RELATION_FIELDS = (
    Field("relation", "relation", "", "What the text is to an earlier one that relation_to names, from half of a text "
          "on; of scheme passages, and not of copies."),
    Field("relation_to", "id", "", "Id of the earlier document that it shares most with."),
    Field("older_fraction", "fraction", "", "Estimated part of the earlier text that stands in this one, to 4 "
          "digits."),
    Field("newer_fraction", "fraction", "", "Estimated part of this text that stands in the earlier one, to 4 "
          "digits."),
    Field("passages", "passages", "", "The passages that both texts have, by the place in the earlier one. Begin and "
          "end are code points of the normalised texts."),
)  # fmt: skip


def none_of(field: Field) -> int:
    """Return the value of the column of a field that means none."""
    return NONE if field.kind in ("id", "place") else 0


def blank_verdicts(count: int, status: int) -> Verdicts:
    """Return ``count`` verdicts of a status that has no other values: of what was refused or removed."""
    blank = new_verdicts(count)
    for field in MESSAGE_FIELDS:
        getattr(blank, field.column)[:] = status if field.name == "status" else none_of(field)
    return blank


def schema_of(field: Field, *, nullable: bool = False) -> dict[str, Any]:
    """Return the schema of a field in JSON."""
    schema = {"description": field.says, **KINDS[field.kind].json}
    if nullable and "enum" not in schema:
        schema["type"] = [schema["type"], "null"]
    elif nullable and KINDS[field.kind].is_none is not None:
        schema["enum"] = [*schema["enum"], None]
    return schema


def has_value(field: Field, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values a line has (``bool[n]``): of a flag those that are set."""
    is_none = KINDS[field.kind].is_none
    return values.astype(np.bool_) if is_none is None else ~is_none(values)


def columns_of(
    verdicts: Verdicts, original_ids: Sequence[str], new: NewWords = NOTHING_NEW
) -> dict[str, tuple[npt.NDArray[Any], Any]]:
    """Return for each field the values of n verdicts (of a status the number), and where there is none (``bool[n]``, or
    ``None``). ``original_ids`` are of those that name an original; ``new`` is by arrival."""
    is_refused = verdicts.statuses == REFUSED
    columns: dict[str, tuple[npt.NDArray[Any], Any]] = {}
    for field in FIELDS:
        if not field.column:
            values = np.full(len(is_refused), None, np.object_)
            for row, words in new.items():
                values[row] = [word._asdict() for word in words] or None
            columns[field.name] = values, None
            continue
        values, is_none = getattr(verdicts, field.column), KINDS[field.kind].is_none
        absent = None if is_none is None else is_none(values) | is_refused
        if field.kind == "id" and absent is not None:
            values = np.full(len(values), None, np.object_)
            values[~absent] = original_ids
        if names := KINDS[field.kind].names:
            values = np.array(names, np.object_)[values]
        columns[field.name] = values, absent
    return columns


def values_of(
    verdicts: Verdicts, original_ids: Sequence[str], new: NewWords = NOTHING_NEW, fields: Collection[str] | None = None
) -> list[list[Any]]:
    """Return the values of fields, in their order, as lists with ``None`` for none; the other arguments are those of
    ``columns_of``."""
    statuses, ids, lists = verdicts.statuses.tolist(), iter(original_ids), list[list[Any]]()
    count = len(statuses)
    refused = [row for row, status in enumerate(statuses) if status == REFUSED] if REFUSED in statuses else ()
    for name, (column, none, is_id, names) in zip(NAMES, _listed_columns(), strict=True):
        if fields is not None and name not in fields:
            continue
        values: list[Any] = getattr(verdicts, column).tolist() if column else [None] * count
        if none is not None:
            if values.count(none) == count:  # as most columns of documents that repeat nothing
                values = [None] * count
            elif is_id:
                values = [None if value == none else next(ids) for value in values]
            elif names:
                values = [names[value] if value else None for value in values]
            else:
                values = [None if value == none else value for value in values]
            for row in refused:
                values[row] = None
        elif not column:
            for row, words in new.items():
                values[row] = [word._asdict() for word in words] or None
        elif column == "statuses":
            values = [STATUSES[status] for status in statuses]
        lists.append(values)
    return lists


# ``Verdict._make`` and ``tolist`` without a call of Python for each verdict.
_ORIGINAL = STATUSES[ORIGINAL]
_new_verdict, _listed_column = functools.partial(tuple.__new__, Verdict), methodcaller("tolist")


def originals_of(documents: Sequence[Document], place: int) -> list[Verdict]:
    """Return verdicts that say no more than that documents are originals, the first of which has a place."""
    out: list[Verdict] = []
    for at, one in enumerate(documents, place):  # a comprehension takes three times as long for one document
        out.append(_new_verdict((
            one.id, _ORIGINAL, None, None, at, None, None, None, False, one.collection, None, None, None, None, None,
            (), None,
        )))  # fmt: skip
    return out


def verdicts_of(
    documents: Sequence[Document], place: int, verdicts: Verdicts, original_ids: Sequence[str], new: NewWords,
    relations: Mapping[int, Relation], reasons: Mapping[int, str], more: int,
) -> list[Verdict]:  # fmt: skip
    """Return the verdicts of n documents as objects, the first at ``place``. Those ``more`` that say more than that a
    document is an original are made again with all fields.

    ``original_ids`` and ``new`` are as for ``values_of``; ``relations`` and ``reasons`` of refusals are by arrival.
    """
    n, others, ids = len(documents), others_of(verdicts, relations, more), iter(original_ids)
    derived = verdicts if len(others) == n else verdicts.select(np.array(others))
    out: list[Any] = [None] * n if len(others) == n else originals_of(documents, place)
    for (
        row, status, cluster, original, similarity, related, previous, matched, _, late, against, said, numbers, signal,
    ) in zip(others, *map(_listed_column, derived), strict=True):  # fmt: skip
        id_, collection = documents[row].id, documents[row].collection
        out[row] = _new_verdict((
            id_, STATUSES[status], None if original == NONE else next(ids), similarity or None,
            None if status == REFUSED else cluster, None if related == NONE else related,
            None if previous == NONE else previous, None if matched == NONE else matched, late, collection,
            relations.get(row), None if against == NONE else against, said or None, numbers or None,
            SIGNALS[signal - 1] if signal else None, new.get(row, ()), reasons.get(row),
        ))  # fmt: skip
    return out


def others_of(verdicts: Verdicts, also: Collection[int], more: int | None = None) -> Sequence[int]:
    """Return the verdicts that say more than that a document is an original, and those of ``also``, in order; ``more``
    is how many say more, if it is known."""
    others: Sequence[int] = range(more or 0)  # none, or all
    if more is None or 0 < more < len(verdicts.statuses):
        rows = np.empty(len(verdicts.statuses), np.int64)
        others = rows[: _rows_with_more(verdicts, rows)].tolist()
    return sorted({*others, *also}) if also else others


@kernel("Verdicts, i64[]", direct=True)
def _rows_with_more(verdicts, rows):
    """Fill ``rows`` with the verdicts that say more than that a document is an original; return how many there are."""
    count = 0
    for i in range(len(rows)):
        if says_more(verdicts, i):
            rows[count] = i
            count += 1
    return count


@functools.cache
def _listed_columns() -> tuple[tuple[str, int | None, bool, tuple[str, ...]], ...]:
    """Of each field: its column, which value means none (``None``: no value does), whether it is an id, and the names
    of its values."""
    nones = [None if KINDS[field.kind].is_none is None else none_of(field) for field in FIELDS]
    return tuple(
        (field.column, none, field.kind == "id", KINDS[field.kind].names)
        for field, none in zip(FIELDS, nones, strict=True)
    )


def arrow_columns(
    pa: Any, verdicts: Verdicts, original_ids: Sequence[str], new: NewWords = NOTHING_NEW
) -> dict[str, Any]:
    """Return the columns of a table of Arrow; the other arguments are those of ``columns_of``."""
    columns = columns_of(verdicts, original_ids, new)
    statuses = columns.pop("status")[0].astype(np.int8)
    made = {"status": pa.DictionaryArray.from_arrays(statuses, list(STATUSES))}
    for field in FIELDS[1:]:
        values, absent = columns[field.name]
        values = values.astype(np.float64) if field.kind == "fraction" else values
        made[field.name] = pa.array(values, arrow_type(pa, field), mask=absent)
    return made


def arrow_type(pa: Any, field: Field) -> Any:
    """Return the type of the column of a field in Arrow."""
    return KINDS[field.kind].arrow(pa)


def rounded(similarity: float | None) -> float | None:
    """Return a similarity as it is shown."""
    return None if similarity is None else round(similarity, SIMILARITY_DIGITS)
