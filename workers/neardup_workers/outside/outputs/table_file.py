"""Rows of tables of Arrow on their way to a Parquet file: the columns of the input unchanged, and those of verdicts.

The first rows decide the columns of the file, and its compression is that of their file. Rows wait until they fill a
row group, and memory holds one row group. A file of Parquet begins at its end: it gets its name when it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import install_command
from neardup.pairs.json_lines import relation_line
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.fields import FIELDS, RELATION_FIELDS, arrow_columns, arrow_type
from neardup_workers.outside.outputs.lines_file import is_table
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.arrow.batches import COMPRESSION
from neardup_workers.outside.readers.entries import Entry, TableRows
from neardup_workers.outside.readers.paths import display

# Rows of a row group, and its bytes in memory; the first of the two ends it.
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20
# The columns of a verdict.
VERDICT_COLUMNS = tuple(f"neardup_{field.name}" for field in FIELDS)
REASON_COLUMN = "neardup_reason"


def reject_table(path: str | None) -> TableFile | None:
    """Return the Parquet file of refused rows, ``None`` if the rejects are written as lines or not at all."""
    if path is None or not is_table(path):
        return None
    return TableFile(path, "--rejects", "the rejects", (REASON_COLUMN,))


def columns_of(scheme: str) -> tuple[str, ...]:
    """The names of the columns of verdicts of a scheme."""
    shared = () if SCHEMES[scheme].shared is None else RELATION_FIELDS
    return VERDICT_COLUMNS + tuple(f"neardup_{field.name}" for field in shared)


def _verdict_columns(rows: TableRows, decided: Decided, names: Sequence[str]) -> dict[str, Any]:
    """Return the verdicts of rows as the columns ``names``, those of ``columns_of`` a scheme."""
    import pyarrow
    from pyarrow import compute

    columns = arrow_columns(pyarrow, decided.verdicts, decided.ids, decided.new)
    for field in FIELDS:
        if field.kind == "fraction":
            columns[field.name] = compute.round(columns[field.name], SIMILARITY_DIGITS)
    if len(names) > len(VERDICT_COLUMNS):
        relations = dict(() if decided.relations is None else decided.relations.values())
        shared = [relation_line(relations[n]) if n in relations else {} for n in range(len(rows))]
        for field in RELATION_FIELDS:
            columns[field.name] = pyarrow.array([row.get(field.name) for row in shared], arrow_type(pyarrow, field))
    return {f"neardup_{name}": column for name, column in columns.items()}


def not_a_row(path: str, option: str, source: str) -> Failure:
    """Return the ``Failure`` for a file of rows that is to hold what is no row of a table."""
    return Failure(
        Exit.USAGE,
        f"{option} {display(path)} is Parquet, which holds rows of Parquet or Arrow files, but {source} is neither: "
        "name a file with another ending",
    )


def check_rows(path: str | None, option: str, entries: Sequence[Entry]) -> None:
    """Raise ``Failure`` if a file of rows is to hold a document that is no row of a table."""
    if path is None or not is_table(path) or isinstance(entries, TableRows):
        return
    for entry in entries:
        if isinstance(entry.found, Document):
            raise not_a_row(path, option, entry.source)


class TableFile:
    """A Parquet file. Raises ``Failure`` if it cannot be written, or if rows do not fit.

    ``option`` and ``what`` name the file in messages; ``adds`` are the names of the columns that it has in
    addition to those of the input.
    """

    def __init__(self, path: str, option: str, what: str, adds: tuple[str, ...] = ()) -> None:
        try:
            import pyarrow
        except ImportError:
            raise Failure(
                Exit.USAGE,
                f"{option} {display(path)} is Parquet, which pyarrow writes; it is not installed: "
                f"{install_command('arrow')}",
            ) from None
        self._arrow: Any = pyarrow
        self._path, self._option, self._adds = path, option, adds
        self._file = OutputFile(path, what)
        self._writer: Any = None
        self._schema: Any = pyarrow.schema([])
        self._input: Any = None  # the schema of the input
        self._rows: list[Any] = []
        self._count = self._bytes = 0

    def add(self, rows: TableRows, chosen: npt.NDArray[np.bool_], decided: Decided | None) -> None:
        """Add the chosen rows (``bool[n]``), with their verdicts if the file has columns for them."""
        shown = {} if decided is None or not self._adds else _verdict_columns(rows, decided, self._adds)
        self._add(rows, chosen, shown)

    def _add(self, rows: TableRows, chosen: npt.NDArray[np.bool_], columns: dict[str, Any]) -> None:
        # Views of strings and bytes become columns of them: Arrow chooses no rows of views, and a file of Parquet holds
        # both alike.
        batch = rows.batch
        types = self._arrow.types
        plain = {types.is_string_view: self._arrow.string(), types.is_binary_view: self._arrow.binary()}
        for is_view, kind in plain.items():
            for n, field in enumerate(batch.schema):
                if is_view(field.type):
                    batch = batch.set_column(n, field.with_type(kind), batch.column(n).cast(kind))
        if self._input is None:
            self._begin(rows, batch.schema)
        elif not rows.batch.schema.equals(self._input):
            raise Failure(
                Exit.USAGE,
                f"{self._option} {display(self._path)} has one list of columns, but {rows.source} has other "
                "columns than the tables before it: write one file for each",
            )
        for name, column in columns.items():
            batch = batch.append_column(name, column)
        if not chosen.all():
            batch = batch.filter(self._arrow.array(chosen))
        self._rows.append(batch)
        self._count += batch.num_rows
        self._bytes += batch.nbytes
        if self._count >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write()

    def add_refused(self, rows: TableRows, reasons: Mapping[int, str]) -> None:
        """Add the refused rows, each with its reason (by position)."""
        column = [reasons.get(position) for position in range(len(rows))]
        chosen = np.array([reason is not None for reason in column], np.bool_)
        self._add(rows, chosen, {REASON_COLUMN: self._arrow.array(column, self._arrow.string())})

    def refuse(self, source: str) -> None:
        """Raise the ``Failure`` for an entry that is no row of a table."""
        raise not_a_row(self._path, self._option, source)

    def check(self, entries: Sequence[Entry]) -> None:
        """Raise ``Failure`` if one of the entries is a document that is no row of a table."""
        check_rows(self._path, self._option, entries)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Write the remaining rows and the end of the file; after an exception, discard the file."""
        if error is not None and not isinstance(error, BrokenPipeError):
            if self._writer is not None:
                with suppress(OSError, self._arrow.ArrowException):
                    self._writer.close()  # else its end would write to a closed file
            self._file.discard()
            return
        with self._file:
            self._write()
            self._file.act(lambda _: self._writer.close())

    def _begin(self, rows: TableRows, schema: Any) -> None:
        """Take the columns of the first rows."""
        self._input = rows.batch.schema
        for name in self._adds:
            if name in schema.names:
                raise Failure(
                    Exit.USAGE,
                    f"{rows.source} has a column {name!r}, which {self._option} {display(self._path)} adds: rename it",
                )
            kinds = {f"neardup_{field.name}": arrow_type(self._arrow, field) for field in (*FIELDS, *RELATION_FIELDS)}
            schema = schema.append(self._arrow.field(name, kinds.get(name, self._arrow.string())))
        kept = {name: value for name, value in (schema.metadata or {}).items() if name != COMPRESSION}
        self._schema = schema.with_metadata(kept or None)

    def _open(self) -> None:
        from pyarrow import parquet

        compressions = (batch.schema.metadata or {} for batch in self._rows)
        named = next((one[COMPRESSION].decode() for one in compressions if COMPRESSION in one), "snappy")
        compression = "none" if named == "uncompressed" else named
        try:
            self._writer = parquet.ParquetWriter(self._file.file, self._schema, compression=compression)
        except self._arrow.ArrowNotImplementedError as error:
            raise Failure(
                Exit.USAGE,
                f"{self._option} {display(self._path)} cannot hold the columns of the input: {error}; name a file with "
                "another ending",
            ) from None

    def _write(self) -> None:
        """Write the rows so far as a row group; the first ones, if there are any, say how the file is compressed."""
        if self._writer is None:
            self._open()
        if self._count:
            table = self._arrow.Table.from_batches(self._rows, self._schema)
            self._file.act(lambda _: self._writer.write_table(table, row_group_size=self._count))
        self._rows, self._count, self._bytes = [], 0, 0
