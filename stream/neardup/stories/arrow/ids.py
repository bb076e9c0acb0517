"""Ids for rows that bring none."""

from __future__ import annotations

from typing import Any


def numbers_as_ids(path: str, ids: Any, first: int, size: int) -> Any:
    """Return the ids of rows, ``path:row`` for a row without one.

    Args:
        path: of the file, or another name of the table.
        ids: the column of ids, ``None`` if there is none.
        first: the number of the first row.
        size: how many rows there are.

    Returns:
        An array of strings, or of their bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(range(first, first + size)).cast(pa.large_string())
    names = pc.binary_join_element_wise(pa.scalar(path, pa.large_string()), numbers, pa.scalar(":", pa.large_string()))
    if ids is None or pa.types.is_null(ids.type):
        return names
    if pa.types.is_integer(ids.type):
        ids = ids.cast(pa.large_string())
    return pc.coalesce(ids.cast(pa.large_binary()), names.cast(pa.large_binary()))
