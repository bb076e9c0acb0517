"""Lines of JSON -> columns of documents, without a Python object for each. No input or output.

One compiled pass reads lines of the usual form (``neardup.machine.kernels.json_scan``). ``decode_document`` reads all
others, and says why a line is refused: this module refuses nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.dates import SECONDS_MAX
from neardup.documents.document import Column, DocumentColumns
from neardup.documents.paths import is_path
from neardup.errors import Reason
from neardup.machine.kernels.json_scan import (
    ABSENT,
    COLLECTION,
    DIGITS,
    OTHER,
    PADDING,
    SOURCE,
    STRING,
    TITLE,
    URL,
    scan_lines,
)
from neardup.pairs.batches import id_columns, starts_of
from neardup.pairs.json_lines import UNITS, URL_CHARACTERS_MAX, Fields, event_seconds, is_other_unit
from neardup.schemes.interface import select_ragged

_ROW_NUMBERS = 2 * OTHER + 1
_PADDING = bytes(PADDING)
_NO_NAME = b"\xff"
_BACKSLASH = ord("\\")


class Scanned(NamedTuple):
    """What the scan writes: bytes and starts of ids and texts; kinds, values and spans of the timestamps; whether an id
    is not the key of its line; the spans of collection, source, URL and title."""

    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    texts: npt.NDArray[np.uint8]
    text_starts: npt.NDArray[np.int64]
    time_kinds: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    time_spans: Annotated[npt.NDArray[np.int64], "[,]"]
    misnamed: npt.NDArray[np.bool_]
    spans: Annotated[npt.NDArray[np.int64], "[,]"]
    scratch: npt.NDArray[np.int64]


class Decoded(NamedTuple):
    """Documents as columns, and which of them have a key that is not their id (``bool[n]``); their sources and URLs,
    empty for none, if the fields name a source; their titles, if they are asked for."""

    documents: DocumentColumns
    misnamed: npt.NDArray[np.bool_]
    sources: Column | None
    urls: Column | None
    titles: Column | None = None


def decode_columns(
    lines: Sequence[bytes], keys: Sequence[bytes | None], fields: Fields, *, titles: bool = False
) -> Decoded | None:
    """Decode lines to columns; ``None`` if some line has to be decoded by ``decode_document``.

    Args:
        lines: one object of JSON each.
        keys: the key of each line; a line without an id has the key as its id.
        fields: the names and the unit of the values. Only ``kind="text"`` without a rank is decoded here.
        titles: return titles, too, of which ``TITLE_CHARACTERS_MAX`` characters count.

    Returns:
        The documents that ``decode_document`` returns for these lines. Texts may have bytes that are not UTF-8:
        ``Signer.sign`` refuses them, and ``decode_document`` says ``not_utf8``. A document without a timestamp has not
        a number.

    Example:
        >>> decoded = decode_columns([b'{"id": "a", "text": "hello"}'], [None], Fields())
        >>> decoded.documents[0][:3]
        ('a', 'hello', None)
    """
    return decode_run(b"".join([*lines, _PADDING]), starts_of(lines), keys, fields, titles=titles)


def decode_run(
    joined: bytes, starts: npt.NDArray[np.int64], keys: Sequence[bytes | None] | None, fields: Fields, *,
    titles: bool = False,
) -> Decoded | None:  # fmt: skip
    """Do the same for n lines one after the other, with or without line feeds, and ``PADDING`` bytes or more behind the
    last one. ``starts`` is where each line begins, and the end, ``int64[n + 1]``; without ``keys`` no line has one."""
    names, count = _names(fields, titles), len(starts) - 1
    if names is None:
        return None
    data = np.frombuffer(joined, np.uint8)
    given = [key or b"" for key in keys or ()]
    key_data = np.frombuffer(b"".join([*given, _PADDING]), np.uint8)
    key_starts, has_key = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    if keys is not None:
        key_starts, has_key = starts_of(given), np.array([key is not None for key in keys], np.bool_)
    room = _room(count, int(starts[-1] - starts[0]) + PADDING, len(key_data))
    if scan_lines((data, starts), (key_data, key_starts), has_key, names, room) < count:
        return None
    if not np.diff(room.id_starts).all():  # an empty text is no id
        return None
    times = room.times / UNITS[fields.timestamp_unit]
    times[room.time_kinds == ABSENT] = np.nan
    for i in np.flatnonzero(room.time_kinds >= DIGITS).tolist():
        first, end = room.time_spans[i].tolist()
        token = joined[first:end].decode()
        seconds = event_seconds(token if room.time_kinds[i] == STRING else float(token), fields.timestamp_unit)
        if isinstance(seconds, Reason):
            return None
        times[i] = np.nan if seconds is None else seconds
    if bool((is_other_unit(times) | (np.abs(times) >= SECONDS_MAX)).any()):
        return None
    ids, texts = _column(room.ids, room.id_starts), _column(room.texts, room.text_starts)
    apart = None if fields.collection is None else _values(data, room.spans, COLLECTION)
    sources, urls = (None if fields.source is None else _values(data, room.spans, one) for one in (SOURCE, URL))
    if urls is not None and bool((np.diff(urls.starts) > URL_CHARACTERS_MAX).any()):
        return None
    named = _unescaped(_values(data, room.spans, TITLE)) if titles else None
    return Decoded(DocumentColumns(ids, times, texts, apart), room.misnamed, sources, urls, named)


def _values(data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], field: int) -> Column:
    """Return the values of a field, empty where a line has none."""
    first = 2 * (field - COLLECTION)
    bounds = np.ascontiguousarray(spans[:, first : first + 2]).reshape(-1)
    return _column(*select_ragged(data, bounds, 2 * np.arange(len(spans))))


def _unescaped(column: Column) -> Column:
    """Return strings without their escapes."""
    if not (column.data == _BACKSLASH).any():
        return column
    rows = [column.at(i) for i in range(len(column.starts) - 1)]
    rows = [orjson.loads(b'"%b"' % row).encode() if b"\\" in row else row for row in rows]
    return Column(*id_columns(rows))


def _column(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> Column:
    """Return a column that is read-only, as those of Arrow: writable arrays would compile the kernels again."""
    used = data[: starts[-1]]
    used.flags.writeable = False
    return Column(used, starts)


@functools.cache
def _names(fields: Fields, titles: bool) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]] | None:
    """Return the names of the fields in the order of the scan, or ``None`` if lines cannot be decoded to columns by
    these names."""
    given = [fields.id, fields.text, fields.timestamp, fields.collection, fields.source]
    given += [None if fields.source is None else "url", "title" if titles else None]
    asked = [name for name in given if name is not None]
    objects = fields.rank, fields.origin  # of which a document is read as an object
    if fields.kind != "text" or objects != (None, None) or len(set(asked)) < len(asked) or any(map(is_path, asked)):
        return None
    # No line holds a surrogate, and none a name that is not UTF-8.
    names = [_NO_NAME if name is None else name.encode(errors="surrogatepass") for name in given]
    return np.frombuffer(b"".join(names), np.uint8), starts_of(names)


def _room(count: int, line_bytes: int, key_bytes: int) -> Scanned:
    """Return the arrays that the scan of ``count`` lines fills."""
    return Scanned(
        ids=np.empty(line_bytes + key_bytes, np.uint8),
        id_starts=np.zeros(count + 1, np.int64),
        texts=np.empty(line_bytes, np.uint8),
        text_starts=np.zeros(count + 1, np.int64),
        time_kinds=np.zeros(count, np.int64),
        times=np.zeros(count),
        time_spans=np.zeros((count, 2), np.int64),
        misnamed=np.zeros(count, np.bool_),
        spans=np.empty((count, 2 * (OTHER - COLLECTION)), np.int64),
        scratch=np.empty(_ROW_NUMBERS, np.int64),
    )
