"""Columns of a table at names that are paths, and texts that are lists, structs or several columns.

A path through structs is a column of their buffers. Other texts (``neardup.documents.paths``) are made row by row.
"""

from __future__ import annotations

from typing import Any

from neardup.documents.paths import is_path, paths_of, text_at
from neardup.pairs.json_lines import Fields


def with_fields(batch: Any, fields: Fields) -> Any:
    """Return a record batch with a column for each field that stands deeper in it, by the name of the field; the same
    batch if none does."""
    for name in (fields.id, fields.timestamp, fields.collection):
        if name is not None and name not in batch.schema.names:
            batch = _appended(batch, name, array_at(batch, name))
    return batch if _is_plain(batch.schema, fields.text) else _with_text(batch, fields.text)


def schema_with_fields(schema: Any, fields: Fields) -> Any:
    """Return the schema of what ``with_fields`` returns."""
    import pyarrow as pa

    empty = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)
    return with_fields(empty, fields).schema


def array_at(batch: Any, name: str) -> Any:
    """Return the column of a name, or of a path through structs; ``None`` if there is none."""
    if name in batch.schema.names:
        return batch.column(batch.schema.names.index(name))
    if not is_path(name) or "," in name:
        return None
    import pyarrow as pa
    from pyarrow import compute

    keys = name[1:].split("/") if name.startswith("/") else name.split(".")
    if keys[0] not in batch.schema.names:
        return None
    array = batch.column(batch.schema.names.index(keys[0]))
    for key in keys[1:]:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(key) < 0:
            return None
        array = compute.struct_field(array, key)
    return array


def _is_plain(schema: Any, name: str) -> bool:
    """Whether the texts of a schema are as they should be, or are missing for certain."""
    if name not in schema.names:
        return not is_path(name)
    return len(schema.get_all_field_indices(name)) > 1 or not _is_nested(schema.field(name).type)


def _with_text(batch: Any, name: str) -> Any:
    """Return a batch with a column of texts, if there are columns that can hold some."""
    import pyarrow as pa

    found = array_at(batch, name)
    if found is not None and not _is_nested(found.type):
        return _appended(batch, name, found)
    paths = [(name,)] if name in batch.schema.names else paths_of(name)
    single = {top for top in batch.schema.names if len(batch.schema.get_all_field_indices(top)) == 1}
    tops = [path[0] for path in paths if path[0] in single and _leads(batch.schema.field(path[0]).type, path[1:])]
    if not tops:
        return batch
    columns = [batch.column(batch.schema.names.index(top)).to_pylist() for top in tops]
    texts = [text_at(dict(zip(tops, row, strict=True)), name) for row in zip(*columns, strict=True)]
    return _appended(batch, name, pa.array(texts, pa.large_string()))


def _appended(batch: Any, name: str, array: Any) -> Any:
    """Return a batch with a column, in place of one of the same name."""
    import pyarrow as pa

    if array is None:
        return batch
    kept = [other for other in range(batch.num_columns) if batch.schema.names[other] != name]
    columns = [*map(batch.column, kept), array]
    kinds = [*map(batch.schema.field, kept), pa.field(name, array.type)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(kinds, batch.schema.metadata))


def _is_nested(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _leads(kind: Any, keys: tuple[str, ...]) -> bool:
    """Whether a path leads through a type to what can hold texts."""
    if not keys:
        return _holds_text(kind)
    if _is_list(kind):
        return _leads(kind.value_type, keys[1:] if keys[0].isdecimal() else keys)
    at = kind.get_field_index(keys[0]) if hasattr(kind, "get_field_index") else -1
    return at >= 0 and _leads(kind.field(at).type, keys[1:])


def _holds_text(kind: Any) -> bool:
    """Whether values of a type can hold texts: strings, lists of what holds texts, structs with a field that does."""
    import pyarrow as pa

    types = pa.types
    if _is_list(kind):
        return _holds_text(kind.value_type)
    if types.is_struct(kind):
        return any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))
    if types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
