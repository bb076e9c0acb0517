"""Record batches of Arrow -> columns of documents, without a Python object for a text or an id.

Texts and ids stay in the buffers of Arrow where these hold UTF-8 one after the other; views and dictionaries are copied
once. A row that cannot be a document gets its reason, as a line of JSON does; a column of a wrong type is a fault of
the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.chunks import CHUNK_CHARACTERS
from neardup.documents.dates import SECONDS_MAX
from neardup.documents.document import Column, DocumentColumns, Refusal
from neardup.errors import ConfigError, Reason, install_command
from neardup.pairs.batches import select_columns
from neardup.pairs.json_lines import UNITS, Fields, Unread, event_seconds, is_other_unit
from neardup.stories.arrow.ids import id_texts, is_id_number
from neardup.stories.arrow.nested import schema_with_fields, with_fields

# Rows of a chunk at most: texts of any size are signed some hundred kilobytes at a time.
CHUNK_ROWS = 4096
_DAY_SECONDS = 86_400.0
_ARROW_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# Makes the ids of rows without one: the array of ids or None, the number of the first row, how many -> complete ids.
FillIds = Callable[[Any, int, int], Any]


def column_of(array: Any) -> Column:
    """Return an array of strings as a column, for ``Signer.sign_columns``.

    The bytes of the strings are not copied, except from views, dictionaries and several chunks.

    Args:
        array: strings or bytes of any kind of Arrow, in one array or in chunks: an array of pyarrow, a series of Polars
            or pandas, or anything else with ``__arrow_c_array__`` or ``__arrow_c_stream__``.

    Raises:
        ConfigError: if the array holds no strings, or a string is null, or pyarrow is missing.

    Example:
        >>> import pyarrow as pa
        >>> column = column_of(pa.array(["one", "two", "three"])[1:])
        >>> column.at(0), column.at(1)
        (b'two', b'three')
    """
    pa = load_pyarrow()
    given = pa.chunked_array(array) if hasattr(array, "__arrow_c_stream__") else pa.array(array)
    if not _is_text(_plain(given.type)):
        raise ConfigError(f"the array holds {given.type}, but must hold strings: convert it")
    if given.null_count:
        raise ConfigError(
            f"{given.null_count} of {len(given)} strings are null, but a column has a string for each document: leave "
            "those documents out, or fill the nulls"
        )
    chunks = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
    plain = [_plain_array(chunk) for chunk in chunks] or [pa.array([], pa.string())]
    return _strings(plain[0] if len(plain) == 1 else pa.concat_arrays(plain))[0]


class Fault(NamedTuple):
    """Why no row of a table can be a document: a key of ``REASONS`` or ``no_column``, and a sentence."""

    reason: str
    sentence: str


@dataclass(frozen=True)
class DocumentRows:
    """n consecutive rows: the documents among them, their rows (``int64[m]``), and the refusals of the others.

    ``ids`` is the column of ids as it is in the table; if there is none, what was made instead, or ``None``.
    """

    documents: DocumentColumns
    positions: npt.NDArray[np.int64]
    refusals: list[Refusal]
    ids: Any
    size: int

    def __len__(self) -> int:
        return self.size


def load_pyarrow() -> Any:
    """Return the module; raises ``ConfigError`` if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(f"tables need pyarrow, which is not installed: {install_command('arrow')}") from None
    return pyarrow


def fault_of(schema: Any, fields: Fields, *, ids_needed: bool = True) -> Fault | None:
    """Return why tables of a schema cannot be documents with texts; ``None`` if they can.

    ``ids_needed``: whether there must be a column of ids.
    """
    has = f"it has: {', '.join(schema.names) or 'none'}"
    schema = schema_with_fields(schema, fields)
    ids = "strings, whole numbers or UUIDs"
    wanted = [(fields.text, _is_text, "text_type", "strings"), (fields.id, _is_id, "id_type", ids)]
    for name, accepts, reason, what in wanted:
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1 and (indices or ids_needed or name == fields.text):
            count = "no column" if not indices else f"{len(indices)} columns"
            return Fault("no_column", f"the table has {count} {name!r} ({has}): name the column that holds it")
        if indices and not accepts(_plain(schema.types[indices[0]])):
            return Fault(reason, f"column {name!r} is {schema.types[indices[0]]}, but must hold {what}: convert it")
    named = [] if fields.collection is None else schema.get_all_field_indices(fields.collection)
    if len(named) > 1 or (named and not _is_id(_plain(schema.types[named[0]]))):
        return Fault(
            "collection",
            f"the table has {len(named)} columns {fields.collection!r}, of which the first is "
            f"{schema.types[named[0]]}: give one of {ids}",
        )
    times = schema.get_all_field_indices(fields.timestamp)
    if len(times) > 1:
        return Fault(
            "no_column", f"the table has {len(times)} columns {fields.timestamp!r} ({has}): rename one of them"
        )
    if times and not _is_time(_plain(schema.types[times[0]])):
        return Fault(
            "timestamp_type",
            f"column {fields.timestamp!r} is {schema.types[times[0]]}, but must hold timestamps, dates, numbers or "
            "strings: convert it",
        )
    return None


def read_rows(
    batch: Any, fields: Fields, first: int, fill_ids: FillIds | None, unread: Unread
) -> Iterator[DocumentRows]:
    """Yield the rows of a record batch of pyarrow whose schema has no fault, in order, some hundred kilobytes of text
    at a time.

    The first row has the number ``first``. ``fill_ids`` makes the ids of rows without one; ``None`` refuses these rows.
    ``unread`` is called for times that are none, whose rows have none.
    """
    batch = with_fields(batch, fields)
    size, at = batch.num_rows, batch.schema.get_field_index(fields.id)
    ids, given = _array(batch, fields.id), batch.column(at) if at >= 0 else None
    ids, no_number = (None, []) if ids is None else id_texts(ids)
    if fill_ids is not None and (ids is None or ids.null_count):
        ids = fill_ids(ids, first, size)
        given = ids if given is None else given
    id_column, no_id = _strings(ids)
    texts, no_text = _strings(_array(batch, fields.text))
    named = None if fields.collection is None else _array(batch, fields.collection)
    collections = None if named is None else _strings(_filled(named))[0]
    times, time_reasons = _times(_array(batch, fields.timestamp), size, fields.timestamp_unit)
    time_reasons = _unread(times, time_reasons, _array(batch, fields.timestamp), unread)
    reasons = (
        time_reasons
        | dict.fromkeys(no_text, "no_text")
        | dict.fromkeys(no_id, "no_id")
        | dict.fromkeys(no_number, "id_type")
    )
    refused = np.array(sorted(reasons), np.int64)
    for begin, end in _chunks(texts.starts):
        cut = slice(begin, end + 1)
        documents = DocumentColumns(
            Column(id_column.data, id_column.starts[cut]), times[begin:end], Column(texts.data, texts.starts[cut]),
            collections and Column(collections.data, collections.starts[cut]),
        )  # fmt: skip
        positions, refusals = np.arange(end - begin), []
        here = refused[(refused >= begin) & (refused < end)] - begin
        if len(here):
            refusals = [
                Refusal(position, documents.ids.at(position).decode(errors="replace"), reasons[begin + position])
                for position in here.tolist()
            ]
            positions = np.delete(positions, here)
            documents = select_columns(documents, positions)
        yield DocumentRows(
            documents, positions, refusals, None if given is None else given.slice(begin, end - begin), end - begin
        )


def _chunks(starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of consecutive rows with about ``CHUNK_CHARACTERS`` bytes of text, or one row; of no rows, 0 and
    0, so that a batch without rows is seen."""
    begin, size = 0, len(starts) - 1
    if not size:
        yield 0, 0
    while begin < size:
        end = int(np.searchsorted(starts, starts[begin] + CHUNK_CHARACTERS, side="right")) - 1
        end = min(max(end, begin + 1), begin + CHUNK_ROWS, size)
        yield begin, end
        begin = end


def _array(batch: Any, name: str) -> Any:
    """Return a column of a batch without dictionary, extension type and views, ``None`` if there is none."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    return _plain_array(batch.column(index))


def _plain_array(array: Any) -> Any:
    """Return an array without dictionary, extension type and views."""
    import pyarrow as pa

    if hasattr(array.type, "storage_type"):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _without_views(array.dictionary)).dictionary_decode()
    return _without_views(array)


def _without_views(array: Any) -> Any:
    """Return strings or bytes that are views as bytes one after the other, any other array unchanged."""
    import pyarrow as pa

    is_view = pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type)
    return array.cast(pa.large_binary()) if is_view else array


def _plain(kind: Any) -> Any:
    """Return the type of a column as ``_array`` returns it."""
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    is_strings = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_strings or is_bytes or types.is_null(kind))


def _is_id(kind: Any) -> bool:
    return _is_text(kind) or is_id_number(kind)


def _is_time(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(types.is_timestamp(kind) or types.is_date(kind) or is_number) or _is_text(kind)


def _filled(array: Any) -> Any:
    """Return strings or numbers as bytes, empty where there is none."""
    import pyarrow as pa

    return id_texts(array)[0].cast(pa.large_binary()).fill_null(b"")


def _strings(array: Any) -> tuple[Column, list[int]]:
    """Return an array of strings or bytes as a column, and the rows without a value.

    Raises ``ValueError`` if the offsets do not stay inside the data.
    """
    import pyarrow as pa

    types, size = pa.types, len(array)
    if types.is_null(array.type):
        return Column(np.empty(0, np.uint8), np.zeros(size + 1, np.int64)), list(range(size))
    is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    if size == 0 or offsets is None:
        return Column(np.empty(0, np.uint8), np.zeros(size + 1, np.int64)), []
    width: type[np.signedinteger] = np.int64 if is_large else np.int32
    starts = np.frombuffer(offsets, width)[array.offset : array.offset + size + 1].astype(np.int64)
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if starts[0] < 0 or starts[-1] > len(values) or (np.diff(starts) < 0).any():
        raise ValueError("the offsets of a column of strings do not stay inside its data")
    missing = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist() if array.null_count else []
    return Column(values, starts), missing


def _times(array: Any, size: int, unit: str) -> tuple[npt.NDArray[np.float64], dict[int, str]]:
    """Return event times in seconds since the epoch, ``float64[n]``, NaN for none, and the rows of unusable ones."""
    import pyarrow as pa

    types = pa.types
    if array is None or types.is_null(array.type):
        return np.full(size, np.nan), {}
    kind = array.type
    if _is_text(kind):
        return _parsed(array, unit)
    if types.is_timestamp(kind) or types.is_date64(kind):
        scale = _ARROW_UNITS[kind.unit] if types.is_timestamp(kind) else 1e3
        return _floats(array.cast(pa.int64())) / scale, {}
    if types.is_date32(kind):
        return _floats(array.cast(pa.int32())) * _DAY_SECONDS, {}
    seconds = _floats(array) / UNITS[unit]
    return seconds, dict.fromkeys(np.flatnonzero(is_other_unit(seconds)).tolist(), "timestamp_unit")


def _unread(times: npt.NDArray[np.float64], reasons: dict[int, str], array: Any, unread: Unread) -> dict[int, str]:
    """Remove times that are none; returns the rows that are refused all the same."""
    for row in np.flatnonzero(np.abs(times) >= SECONDS_MAX).tolist():
        if row not in reasons:
            unread("timestamp_range", float(times[row]))
            times[row] = np.nan
    texts = _strings(array)[0] if "timestamp_type" in reasons.values() else None
    for row, reason in reasons.items():
        if texts is not None and reason == "timestamp_type":
            unread(reason, texts.at(row).decode(errors="replace"))
    return {row: reason for row, reason in reasons.items() if reason != "timestamp_type"}


def _floats(array: Any) -> npt.NDArray[np.float64]:
    """Return numbers as ``float64[n]``, NaN for null."""
    import pyarrow as pa

    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _parsed(array: Any, unit: str) -> tuple[npt.NDArray[np.float64], dict[int, str]]:
    """Return times that are written as strings, one by one."""
    seconds, reasons = np.full(len(array), np.nan), dict[int, str]()
    column, missing = _strings(array)
    absent = set(missing)
    for position in range(len(array)):
        if position not in absent:
            read = event_seconds(column.at(position).decode(errors="replace"), unit)
            if isinstance(read, Reason):
                reasons[position] = read
            elif read is not None:
                seconds[position] = read
    return seconds, reasons
