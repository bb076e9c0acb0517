"""Who tells a document, where and how, as a column next to its row: a list in JSON of source, URL and title.

The list of a document that has none of the three is empty bytes; the column is ``None`` if no document has any.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.document import Column
from neardup.pairs.batches import id_columns
from neardup.pairs.json_lines import TITLE_CHARACTERS_MAX
from neardup.schemes.interface import select_ragged, starts_of_lengths
from neardup.stories.sources.names import Shown, source_named
from neardup_workers.outside.topics.columns import texts_of

NAMES = ("source", "url", "title")


def encode_shown(shown: Sequence[Shown]) -> Column | None:
    """Return source, URL and title of n documents as a column."""
    values = [orjson.dumps([value or None for value in one]) if any(one) else b"" for one in shown]
    return Column(*id_columns(values)) if any(values) else None


def columns_shown(ids: Column, sources: Column, urls: Column, titles: Column) -> Column | None:
    """Return the same of documents that are columns, empty where one has no value."""
    if not any(len(column.data) for column in (sources, urls, titles)) and b"http" not in ids.data.tobytes().lower():
        return None
    columns = (map(bytes.decode, _values(column)) for column in (ids, sources, urls, titles))
    return encode_shown(
        [
            (source_named(id_, source, url), url, title[:TITLE_CHARACTERS_MAX])
            for id_, source, url, title in zip(*columns, strict=True)
        ]
    )


def _values(column: Column) -> list[bytes]:
    data, starts = column.data.tobytes(), column.starts.tolist()
    return [data[first:end] for first, end in pairwise(starts)]


def fields_shown(column: Column) -> list[str]:
    """Return for each row what is known of it as fields in JSON, each behind a comma."""
    return [_fields(value) for value in texts_of(*column)]


def _fields(value: str) -> str:
    if value.count('"') == 2 * len(NAMES) and "\\" not in value:  # three texts, and their quotes
        _, source, _, url, _, title, _ = value.split('"')
        return f',"source":"{source}","url":"{url}","title":"{title}"'
    said = zip(NAMES, orjson.loads(value or "[]"), strict=False)
    return "".join([f',"{name}":{orjson.dumps(one).decode()}' for name, one in said if one])


def sources_shown(column: Column | None, count: int) -> list[str]:
    """Return the source of each of ``count`` rows, empty where none is known."""
    if column is None:
        return [""] * count
    return [_source(value) for value in texts_of(*column)]


def _source(value: str) -> str:
    if value.startswith('["') and "\\" not in value:
        return value[2 : value.index('"', 2)]
    return (orjson.loads(value)[0] or "") if value else ""


def source_at(column: Column, row: int) -> str:
    """Return the source of one row, empty if none is known."""
    value = column.data[column.starts[row] : column.starts[row + 1]].tobytes()
    return (orjson.loads(value)[0] or "") if value else ""


def select_shown(column: Column | None, rows: npt.NDArray[np.int64]) -> Column | None:
    """Return the values of some rows, as copies."""
    return None if column is None else Column(*select_ragged(*column, rows))


def join_shown(columns: Sequence[Column | None], counts: Sequence[int]) -> Column | None:
    """Return the values of all columns, one after the other; ``counts`` are their rows."""
    if not any(column is not None for column in columns):
        return None
    lengths = [
        np.zeros(count, np.int64) if column is None else np.diff(column.starts)
        for column, count in zip(columns, counts, strict=True)
    ]
    data = [column.data for column in columns if column is not None]
    return Column(np.concatenate(data), starts_of_lengths(np.concatenate(lengths)))
