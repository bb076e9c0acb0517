"""The fields of a verdict, declared once: tables, lines, messages, answers and their schemas follow from these rows.

A *place* is the number of a document in order of arrival; on topics it is the partition and the offset of its record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import RELATIONS
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.verdicts.row_columns import NONE
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REFUSED, STATUSES, UNCHANGED, UPDATE


class Verdicts(NamedTuple):
    """The verdicts of n arrivals, as columns.

    ``statuses`` (``uint8[n]``) are constants of ``rule``. ``clusters``, ``related``, ``previous`` and ``matched``
    (``int64[n]``) are places, -1 for none: ``clusters`` of the originals, ``matched`` of the version that was compared.
    ``originals`` (``int64[n]``) is the number of the newest row by the id that began the story, ``NONE`` (-1) for an
    original, an update and their unchanged versions, ``GONE`` (-2) if that row has left the window. ``similarities``
    (``float32[n]``) compare with ``matched``, 0 where nothing was compared. ``equal`` (``bool[n]``): its content is
    that of ``matched``. ``late`` (``bool[n]``): it came after its window, and has no effect.
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

    def select(self, rows: npt.NDArray[np.int64]) -> Verdicts:
        """Return some verdicts, in the given order."""
        return Verdicts._make(column[rows] for column in self)


def join_verdicts(parts: Sequence[Verdicts]) -> Verdicts:
    """Return the verdicts of all parts, one after the other; at least one part."""
    return parts[0] if len(parts) == 1 else Verdicts(*map(np.concatenate, zip(*parts, strict=True)))


def new_verdicts(count: int) -> Verdicts:
    """Return columns to fill, ``count`` long."""
    longs = (np.empty(count, np.int64) for _ in range(5))
    clusters, originals, related, previous, matched = longs
    statuses, similarities = np.empty(count, np.uint8), np.empty(count, np.float32)
    flags = np.empty(count, np.bool_), np.empty(count, np.bool_)
    return Verdicts(statuses, clusters, originals, similarities, related, previous, matched, *flags)


class Kind(NamedTuple):
    """What a field holds: its type in JSON; its type in Arrow, a function of the module; and which values of its column
    mean none, without a function no value does."""

    json: Mapping[str, Any]
    arrow: Callable[[Any], Any]
    is_none: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]] | None = None


_OF_DOCUMENTS = (STATUSES[status] for status in (ORIGINAL, DUPLICATE, UNCHANGED, UPDATE))
_SPAN = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
KINDS = {
    "status": Kind({"enum": list(_OF_DOCUMENTS)}, lambda pa: pa.dictionary(pa.int8(), pa.string())),
    "id": Kind({"type": "string"}, lambda pa: pa.string(), lambda values: values == NONE),
    "place": Kind({"type": "integer", "minimum": 0}, lambda pa: pa.int64(), lambda values: values < 0),
    "fraction": Kind(
        {"type": "number", "minimum": 0, "maximum": 1}, lambda pa: pa.float64(), lambda values: values == 0
    ),
    "flag": Kind({"type": "boolean"}, lambda pa: pa.bool_()),
    "relation": Kind({"enum": list(RELATIONS)}, lambda pa: pa.string()),
    "passages": Kind(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"older": _SPAN, "newer": _SPAN},
                "required": ["older", "newer"],
            },
        },
        lambda pa: pa.list_(pa.struct([("older", pa.list_(pa.int64())), ("newer", pa.list_(pa.int64()))])),
    ),
}


class Field(NamedTuple):
    """A field: its name, a key of ``KINDS``, the column of ``Verdicts`` that has its values, what it says, and whether
    only messages have it."""

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
)  # fmt: skip
FIELDS = tuple(field for field in MESSAGE_FIELDS if not field.is_internal)
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


def schema_of(field: Field, *, nullable: bool = False) -> dict[str, Any]:
    """Return the schema of a field in JSON."""
    schema = {"description": field.says, **KINDS[field.kind].json}
    return schema | {"type": [schema["type"], "null"]} if nullable and "enum" not in schema else schema


def has_value(field: Field, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values a line has (``bool[n]``): of a flag those that are set."""
    is_none = KINDS[field.kind].is_none
    return values.astype(np.bool_) if is_none is None else ~is_none(values)


def columns_of(verdicts: Verdicts, original_ids: Sequence[str]) -> dict[str, tuple[npt.NDArray[Any], Any]]:
    """Return for each field its values (of a status the number), and where there is none (``bool[n]``, or ``None``).

    Args:
        verdicts: of n arrivals.
        original_ids: the ids of the originals, of those verdicts that name one.
    """
    is_refused = verdicts.statuses == REFUSED
    columns: dict[str, tuple[npt.NDArray[Any], Any]] = {}
    for field in FIELDS:
        values, is_none = getattr(verdicts, field.column), KINDS[field.kind].is_none
        absent = None if is_none is None else is_none(values) | is_refused
        if field.kind == "id" and absent is not None:
            values = np.full(len(values), None, np.object_)
            values[~absent] = original_ids
        columns[field.name] = values, absent
    return columns


def values_of(verdicts: Verdicts, original_ids: Sequence[str]) -> list[list[Any]]:
    """Return the values of each field as a list with ``None`` for none; the arguments are those of ``columns_of``."""
    lists = [_listed(*column) for column in columns_of(verdicts, original_ids).values()]
    lists[0] = [STATUSES[number] for number in lists[0]]
    return lists


def _listed(values: npt.NDArray[Any], absent: Any) -> list[Any]:
    listed: list[Any] = values.tolist()
    for row in () if absent is None else np.flatnonzero(absent).tolist():
        listed[row] = None
    return listed


def arrow_columns(pa: Any, verdicts: Verdicts, original_ids: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a table of Arrow; the other arguments are those of ``columns_of``."""
    columns = columns_of(verdicts, original_ids)
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
