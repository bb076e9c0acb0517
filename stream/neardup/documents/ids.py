"""Collections: documents of different ones never meet, because the collection is a part of id, keys and content.

With ``collection_field``, a document is named by its *full id*: the collection, U+001F, the id. The full id takes the
same role as the id in batches, tables, windows, messages and stores. So the collection travels with each row, and
versions, removals and blocks of an id belong to its collection. The hash of the collection is added to the content hash
when a document is signed, and to the bucket keys where they are computed. Answers name id and collection apart.

A collection is a string without U+001F; the empty one has the documents that name none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column, Document
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import BASE, GOLDEN, mix64
from neardup.machine.lanes import copy_range

SEPARATOR = "\x1f"
# Bytes of a full id in UTF-8 at most: longer than any URL that a browser sends, and short next to a text.
ID_BYTES_MAX = 1024
_SEPARATOR = np.uint8(ord(SEPARATOR))
# Separates the hashes of collections from every other 64-bit hash.
_SEED = np.uint64(0xC0_11EC)


def full_id(id_: str, collection: str | None) -> str:
    """Return the id of a document with its collection.

    >>> full_id("a", "news"), full_id("a", None)
    ('news\\x1fa', '\\x1fa')
    """
    return f"{collection or ''}{SEPARATOR}{id_}"


def stored_id(id_: str, collection: str | None, *, separate: bool) -> bytes:
    """Return the bytes that a table and a store have of an id: of the full one if collections are ``separate``.

    An id with a lone surrogate was never added, so its bytes are those of no id.
    """
    return (full_id(id_, collection) if separate else id_).encode("utf-8", "surrogatepass")


def strings_at(data: memoryview, first: Sequence[int], end: Sequence[int]) -> list[str]:
    """Return the strings in UTF-8 between places in bytes. In a flood the same few repeat: each is decoded once."""
    strings: list[str] = []
    known: dict[tuple[int, int], str] = {}  # a call of ``dict[...]`` takes half a microsecond
    for span in zip(first, end, strict=True):
        if (string := known.get(span)) is None:
            begin, last = span
            string = known[span] = str(data[begin:last], "utf-8")
        strings.append(string)
    return strings


def strings_of(column: Column) -> list[str]:
    """Return the strings of a column; bytes that are not UTF-8 are replaced by U+FFFD."""
    data, bounds = column.data.tobytes(), pairwise(column.starts.tolist())
    return [data[first:end].decode(errors="replace") for first, end in bounds]


def split_id(full: str) -> tuple[str | None, str]:
    """Return the collection of a full id, ``None`` for the empty one, and the id.

    >>> split_id("news\\x1fa"), split_id("\\x1fa")
    (('news', 'a'), (None, 'a'))
    """
    collection, _, id_ = full.partition(SEPARATOR)
    return collection or None, id_


def bare_ids(full: Iterable[str]) -> list[str]:
    """Return full ids without their collections."""
    return [id_.partition(SEPARATOR)[2] for id_ in full]


def collections_of(full: Iterable[str]) -> list[str | None]:
    """Return the collections of full ids, ``None`` for the empty one."""
    return [id_.partition(SEPARATOR)[0] or None for id_ in full]


def wrong_collection(document: Document, *, separate: bool) -> str | None:
    """Return why the collection of a document cannot be used (a key of ``REASONS``)."""
    name = document.collection
    if name is None:
        return None
    if not separate:
        return "collection_off"
    return None if isinstance(name, str) and SEPARATOR not in name else "collection"


def full_id_column(ids: Column, collections: Column | None) -> Column:
    """Return the full ids of n documents, in UTF-8; without ``collections``, all are in the empty one."""
    count = len(ids.starts) - 1
    if collections is None:
        collections = Column(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.diff(ids.starts) + np.diff(collections.starts) + 1, out=starts[1:])
    data = np.empty(int(starts[-1]), np.uint8)
    _join(*_read_only(*collections), *_read_only(*ids), starts, data)
    return Column(data, starts)


def has_separator(collections: Column) -> npt.NDArray[np.int64]:
    """Return the rows whose collection has the character that ends it."""
    at = np.flatnonzero(collections.data == _SEPARATOR)
    rows = np.searchsorted(collections.starts, at, side="right") - 1
    return np.unique(rows[(rows >= 0) & (rows < len(collections.starts) - 1)])


def salts(ids: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the hashes of the collections of full ids, ``uint64[n]``."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    _hash_collections(*_read_only(ids, starts), _SEED, hashes)
    return hashes


def separated_contents(contents: npt.NDArray[np.uint64], salt: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return content hashes (``uint64[n, 2]``) that are equal within a collection alone."""
    out = np.empty_like(contents)
    _salt_contents(contents, salt, out)
    return out


def separated_keys(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], salt: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Return bucket keys, those of item i at ``starts[i]:starts[i + 1]``, that are equal within a collection alone."""
    return values ^ np.repeat(salt, np.diff(starts))


def same_collection(one: Sequence[str], other: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which pairs of full ids are in one collection, ``bool[m]``."""
    return np.fromiter((a == b for a, b in zip(collections_of(one), collections_of(other), strict=True)), np.bool_)


def _read_only(*columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Return read-only views: another mix would compile the kernels again."""
    views = tuple(column.view() for column in columns)
    for view in views:
        view.flags.writeable = False
    return views


@kernel("const u8[], const i64[], const u8[], const i64[], i64[], u8[]")
def _join(data, starts, more_data, more_starts, out_starts, out):
    for i in range(len(out_starts) - 1):
        at, size = out_starts[i], starts[i + 1] - starts[i]
        copy_range(data, starts[i], out, at, size)
        out[at + size] = _SEPARATOR
        copy_range(more_data, more_starts[i], out, at + size + 1, more_starts[i + 1] - more_starts[i])


@kernel("const u8[], const i64[], u64, u64[]")
def _hash_collections(ids, starts, seed, out):
    for i in range(len(out)):
        h = seed
        for j in range(starts[i], starts[i + 1]):
            if ids[j] == _SEPARATOR:
                break
            h = h * BASE + (np.uint64(ids[j]) + np.uint64(1))
        out[i] = mix64(h)


@kernel("const u64[,], u64[], u64[,]")
def _salt_contents(contents, salt, out):
    for i in range(len(salt)):
        out[i, 0] = contents[i, 0] ^ salt[i]
        out[i, 1] = contents[i, 1] ^ mix64(salt[i] + GOLDEN)
