"""Rows of a record batch -> lines of JSON: for values that are no texts, and for outputs that are lines.

Times are written in ISO 8601, maps as objects, bytes in base64 (those of id, text and time as text). A value that JSON
cannot express becomes its decimal text, a number that is none becomes null.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import orjson

from neardup.pairs.json_lines import Fields

_OPTIONS = orjson.OPT_NON_STR_KEYS


def json_rows(batch: Any, fields: Fields) -> list[bytes]:
    """Return each row of a batch as an object of all of its columns; an absent value has no key."""
    names = batch.schema.names
    plain = {fields.id, fields.text, fields.timestamp}
    columns = [_values(batch.column(i), name in plain) for i, name in enumerate(names)]
    lines = []
    for row in zip(*columns, strict=True):
        value = {name: cell for name, cell in zip(names, row, strict=True) if cell is not None}
        try:
            lines.append(orjson.dumps(value, _other, _OPTIONS))
        except TypeError:  # a number beyond 64 bits, or a string that is no UTF-8
            lines.append(orjson.dumps(_written(value), _other, _OPTIONS))
    return lines or [b"{}"] * batch.num_rows


def _values(array: Any, is_plain: bool) -> list[Any]:
    """Return the values of a column as objects of Python."""
    import pyarrow as pa

    types, kind = pa.types, array.type
    if types.is_timestamp(kind) and kind.unit == "ns":  # finer than a time of Python
        array = array.cast(pa.timestamp("us", kind.tz), safe=False)
    try:
        values = array.to_pylist(maps_as_pydicts="lossy")
    except KeyError:  # an unknown time zone: the time is written in UTC
        values = _values(_zoneless(array), is_plain)
    except (ValueError, OverflowError, pa.ArrowException):  # a time beyond the year 9999, bytes that are no UTF-8
        values = [_one(array, i) for i in range(len(array))]
    if is_plain:
        values = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]
    return list(values)


def _zoneless(array: Any) -> Any:
    """Return timestamps without their zone; values of another type that hold such timestamps become null."""
    import pyarrow as pa

    if not pa.types.is_timestamp(array.type):
        return pa.nulls(len(array))
    return array.cast(pa.int64()).cast(pa.timestamp(array.type.unit))


def _one(array: Any, i: int) -> Any:
    """Return a value, or if Python has none like it, its number or its bytes."""
    import pyarrow as pa

    try:
        return array[i].as_py(maps_as_pydicts="lossy")
    except UnicodeDecodeError:
        return bytes(array[i].as_buffer()).decode(errors="replace") if hasattr(array[i], "as_buffer") else None
    except (ValueError, OverflowError, pa.ArrowException):
        number = getattr(array[i], "value", None)
        return number if isinstance(number, int) else None


def _other(value: Any) -> Any:
    """Return a value that JSON does not have in another form."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _written(value: Any) -> Any:
    """Return a value with numbers beyond 64 bits as text, and without lone surrogates."""
    if isinstance(value, dict):
        return {_written(str(name)): _written(cell) for name, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_written(cell) for cell in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
