"""Ids of rows of tables as strings, whatever type their column has, and ids for rows that bring none."""

from __future__ import annotations

from typing import Any

import numpy as np

# A float64 has all whole numbers below it.
_WHOLE_MAX = float(1 << 53)
# Where the text of a UUID has its hyphens, and how many bytes a UUID has.
_HYPHENS, _UUID_BYTES = (8, 13, 18, 23), 16
_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), np.uint8).reshape(256, 2)


def is_id_number(kind: Any) -> bool:
    """Whether a type of Arrow has ids that are written as texts: whole numbers, also as decimals or as floats (a frame
    has those where one id is missing), and bytes of a fixed width, such as UUID."""
    import pyarrow as pa

    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or (types.is_decimal(kind) and kind.scale == 0)
    return bool(is_number or types.is_fixed_size_binary(kind))


def id_texts(array: Any) -> tuple[Any, list[int]]:
    """Return ids as strings or bytes, and the rows whose numbers are not whole or not exact.

    >>> import pyarrow as pa
    >>> texts, wrong = id_texts(pa.array([1.0, None, 2.5]))
    >>> texts.to_pylist(), wrong
    (['1', None, None], [2])
    """
    import pyarrow as pa

    types, kind = pa.types, array.type
    if types.is_fixed_size_binary(kind):
        return _hex(array), []
    if types.is_floating(kind):
        numbers = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        is_whole = (np.abs(numbers) <= _WHOLE_MAX) & (np.floor(numbers) == numbers)
        wrong = np.flatnonzero(~is_whole & ~np.isnan(numbers)).tolist()
        whole = pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)
        return whole.cast(pa.large_string()), wrong
    return (array.cast(pa.large_string()), []) if is_id_number(kind) else (array, [])


def _hex(array: Any) -> Any:
    """Return bytes of a fixed width in hexadecimal digits; 16 bytes as a UUID is written."""
    import pyarrow as pa
    import pyarrow.compute as pc

    width, size = array.type.byte_width, len(array)
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width :][: size * width]
    digits = _HEX[data].reshape(size, 2 * width)
    if width == _UUID_BYTES:
        text = np.full((size, 2 * width + len(_HYPHENS)), ord("-"), np.uint8)
        text[:, np.delete(np.arange(text.shape[1]), _HYPHENS)] = digits
        digits = text
    starts = np.arange(size + 1, dtype=np.int64) * digits.shape[1]
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(digits))]
    texts = pa.Array.from_buffers(pa.large_string(), size, buffers)
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.large_string()))


def as_ids(array: Any, kind: Any) -> Any:
    """Return strings that name ids as values of the type of the column of ids; as they are, if that has no such value:
    a row without an id has a name."""
    import pyarrow as pa

    types, stored = pa.types, getattr(kind, "storage_type", kind)
    if types.is_null(stored) or types.is_dictionary(stored):
        return array
    try:
        if types.is_fixed_size_binary(stored):
            texts = array.to_pylist()
            cast = pa.array([text and bytes.fromhex(text.replace("-", "")) for text in texts], stored)
        else:
            cast = (array.cast(pa.int64()) if types.is_floating(stored) else array).cast(stored)
    except (pa.ArrowException, ValueError):
        return array
    return cast if stored is kind else kind.wrap_array(cast)


def numbers_as_ids(path: str, ids: Any, first: int, size: int) -> Any:
    """Return the ids of rows, as strings or their bytes: those of a column, as ``id_texts`` returns it, or ``path:row``
    for a row without one, from the number ``first`` on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(range(first, first + size)).cast(pa.large_string())
    names = pc.binary_join_element_wise(pa.scalar(path, pa.large_string()), numbers, pa.scalar(":", pa.large_string()))
    if ids is None or pa.types.is_null(ids.type):
        return names
    return pc.coalesce(ids.cast(pa.large_binary()), names.cast(pa.large_binary()))
