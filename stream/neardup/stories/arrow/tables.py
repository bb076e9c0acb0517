"""Tables in and out: documents from anything with the Arrow C stream interface, verdicts and pairs as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Protocol

import numpy as np

from neardup.documents.document import Document, Refusal, check_type
from neardup.documents.paths import names_of
from neardup.errors import ConfigError
from neardup.pairs.batches import rows_of
from neardup.pairs.json_lines import UNITS, Fields
from neardup.pairs.pair_rule import Matches
from neardup.pairs.signing import Signed, Signer
from neardup.pairs.values import UnreadTimes
from neardup.stories.arrow.columns import DocumentRows, fault_of, load_pyarrow, read_rows
from neardup.stories.arrow.ids import as_ids, numbers_as_ids
from neardup.stories.arrow.nested import schema_with_fields
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.fields import FIELDS, arrow_columns, arrow_type

# The name of the column of ids that a table may lack, and the name before the number of a row without an id.
ID_FIELD, ROW = "id", "row"
# Rows of a dataset that are read at a time.
_DATASET_ROWS = 4096
# The column of the ids of originals in a part of verdicts, behind that of ids.
_ORIGINALS = 1 + [field.name for field in FIELDS].index("duplicate_of")


class ArrowStream(Protocol):
    """A table of any library with the Arrow C stream interface: pyarrow, Polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule that holds the stream."""


class ArrowTable(ArrowStream, Protocol):
    """A ``pyarrow.Table``: the methods of it that need no types of pyarrow."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""

    def to_pylist(self) -> list[dict[str, object]]:
        """Return the rows as dicts."""


def batches_of(table: Any, fields: Fields) -> Any:
    """Return the record batches of a table of any kind, read as they come: with the Arrow C stream interface; a lazy
    frame of Polars; a dataset of Hugging Face; a series of texts; dicts.

    Raises:
        ConfigError: it is none of them.
    """
    pa = load_pyarrow()
    try:
        if hasattr(table, "collect_batches"):
            first = table.limit(0).collect()
            return _reader(pa, chain([first], table.collect_batches(maintain_order=True)))
        if hasattr(table, "with_format") and hasattr(table, "iter"):
            return _reader(pa, table.with_format("arrow").iter(_DATASET_ROWS))
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(_with_name(pa, table, fields))
        if isinstance(table, list | tuple) and table and all(isinstance(row, Mapping) for row in table):
            names = (fields.id, fields.text, fields.timestamp, fields.collection)
            tops = [top for name in names if name is not None for top in names_of(name)]
            given = dict.fromkeys(str(name) for row in table for name in row)
            rows = {name: [row.get(name) for row in table] if name in tops else pa.nulls(len(table)) for name in given}
            return pa.table(rows).to_reader()
        if hasattr(table, "__arrow_c_array__") or (
            isinstance(table, list | tuple) and all(isinstance(row, str) for row in table)
        ):
            return pa.table({fields.text: pa.array(table)}).to_reader()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ConfigError(f"the {type(table).__name__} is no table: {error}") from None
    raise ConfigError(
        f"a {type(table).__name__} is no table: give a table of pyarrow, Polars, pandas or DuckDB, a series of texts, "
        "a list of dicts or anything else with __arrow_c_stream__"
    )


def _with_name(pa: Any, table: Any, fields: Fields) -> Any:
    """Return a table; a series of texts becomes one with the column of texts."""
    is_column = isinstance(table, pa.ChunkedArray) or (hasattr(table, "name") and not hasattr(table, "columns"))
    return pa.table({fields.text: pa.chunked_array(table)}) if is_column else table


def _reader(pa: Any, tables: Iterable[Any]) -> Any:
    """Return the record batches of tables that come one after the other."""
    readers = map(pa.RecordBatchReader.from_stream, tables)
    first = next(readers, None)
    if first is None:
        raise ConfigError("the dataset has no rows, so its columns are not known: give one with rows")
    return pa.RecordBatchReader.from_batches(first.schema, chain(first, chain.from_iterable(readers)))


class RowNumbers:
    """Numbers the rows of tables from 1, so that an id that is made of a number names one row: all later rows exceed
    ``least()``. Threads may share one."""

    def __init__(self, least: Callable[[], int]) -> None:
        self._least, self._last, self._lock = least, 0, Lock()

    def first_of(self, size: int) -> int:
        """Number so many rows; returns the number of the first one."""
        with self._lock:
            first = max(self._last, self._least()) + 1
            self._last = first + size - 1
        return first


class Documents:
    """The rows of a table, to be read once; a stream of record batches is read as it comes. ``unread`` are the times
    that are none so far.

    Raises ``ConfigError`` if it has no Arrow C stream interface, a column is missing or of a wrong type, or pyarrow is
    missing.
    """

    def __init__(self, table: object, fields: Fields, numbers: RowNumbers) -> None:
        for part in ("id", "text", "timestamp"):
            check_type(getattr(fields, part), str, f"{part}_field is the name of a column: {part}_field='{part}'")
        if fields.timestamp_unit not in UNITS:
            raise ConfigError(f"timestamp_unit={fields.timestamp_unit!r} must be one of {', '.join(UNITS)}")
        self._fields, self._numbers, self.unread = fields, numbers, UnreadTimes()
        self._reader = batches_of(table, fields)
        fault = fault_of(self._reader.schema, fields, ids_needed=fields.id != ID_FIELD)
        if fault is not None:
            raise ConfigError(fault.sentence)

    def __iter__(self) -> Iterator[DocumentRows]:
        for batch in self._reader:
            yield from read_rows(
                batch, self._fields, self._numbers.first_of(batch.num_rows), partial(numbers_as_ids, ROW), self.unread
            )

    @property
    def id_field(self) -> Any:
        """Return the field of Arrow for the ids of answers: as it is in the table, or strings where it has none."""
        pa, name = load_pyarrow(), self._fields.id
        given = schema_with_fields(self._reader.schema, self._fields)
        return given.field(name).remove_metadata() if name in given.names else pa.field(name, pa.large_string())

    def verdicts(self, parts: Sequence[Any]) -> ArrowTable:
        """Return the parts of ``verdict_part`` as one table.

        ``duplicate_of`` has the type of the ids, or holds strings if it names a row without an id.
        """
        pa, kind = load_pyarrow(), self.id_field.type
        originals = [as_ids(part[_ORIGINALS], kind) for part in parts]
        if all(one.type == kind for one in originals):
            parts = [
                [*part[:_ORIGINALS], one, *part[_ORIGINALS + 1 :]] for part, one in zip(parts, originals, strict=True)
            ]
        else:
            kind = pa.string()
        fields = [pa.field(field.name, kind if field.kind == "id" else arrow_type(pa, field)) for field in FIELDS]
        schema = pa.schema([self.id_field, *fields, pa.field("reason", pa.string())])
        table: ArrowTable = pa.Table.from_batches([pa.record_batch(part, schema) for part in parts], schema)
        return table


def signer_of_rows(signer: Signer) -> Callable[[DocumentRows, UnreadTimes], Signed]:
    """Return the function that signs the documents among rows; its refusals have the rows as positions."""

    def sign(rows: DocumentRows, _: UnreadTimes) -> Signed:
        signed = signer.sign(rows.documents)
        refused = [refusal._replace(position=int(rows.positions[refusal.position])) for refusal in signed.refusals]
        return signed._replace(refusals=sorted([*rows.refusals, *refused]))

    return sign


def accepted_rows(rows: DocumentRows, refusals: Sequence[Refusal]) -> Sequence[Document]:
    """Return the documents that a signer has not refused, in order: the rows of its batch."""
    if len(refusals) == len(rows.refusals):
        return rows.documents
    refused = np.isin(rows.positions, [refusal.position for refusal in refusals])
    return rows_of(rows.documents, np.flatnonzero(~refused).tolist())


def texts_of(rows: DocumentRows, at: Sequence[int]) -> list[str]:
    """Return the texts of the documents at rows."""
    return [rows.documents[n].text for n in np.searchsorted(rows.positions, at).tolist()]


def verdict_part(rows: DocumentRows, refusals: Sequence[Refusal], decided: Decided) -> list[Any]:
    """Return the verdicts of rows as the columns of ``Documents.verdicts``."""
    pa = load_pyarrow()
    reasons = np.full(len(rows), None, np.object_)
    for refusal in refusals:
        reasons[refusal.position] = refusal.reason
    columns = arrow_columns(pa, decided.verdicts, decided.ids, decided.new)
    return [rows.ids, *columns.values(), pa.array(reasons, pa.string())]


def pair_table(parts: Sequence[Matches], *, separate: bool) -> ArrowTable:
    """Return pairs as a table: older, newer, similarity, buckets; and the collection, if there are any."""
    pa = load_pyarrow()
    kinds = {"older": pa.string(), "newer": pa.string(), "similarity": pa.float64(), "buckets": pa.int32()}
    columns = [[part.older, part.newer, part.similarity, part.buckets] for part in parts]
    if separate:
        kinds["collection"] = pa.string()
        columns = [[*column, part.collections or []] for column, part in zip(columns, parts, strict=True)]
    schema = pa.schema(kinds.items())
    table: ArrowTable = pa.Table.from_batches(
        [pa.record_batch(list(map(pa.array, part, schema.types)), schema) for part in columns], schema
    )
    return table
