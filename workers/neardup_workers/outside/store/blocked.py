"""The block list: a file of ids and content hashes whose documents are refused (``blocked``).

A line is an object of JSON with ``id``, ``content`` or both: ``{"id": "a", "content": "00c3f7a1b2d4e5f6"}``. An id in a
collection is named with its ``collection``. A content hash is the number that verdicts compare, in 16 hexadecimal
digits, as in the topic of verdicts. It depends on the settings that decide signatures. Empty lines say nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Refusal
from neardup.documents.ids import full_id
from neardup.errors import ConfigError
from neardup.pairs.batches import CONTENT_HALF, id_columns, id_hashes, select
from neardup.pairs.json_lines import named_collection
from neardup.pairs.signing import Signed
from neardup_workers.outside.process.exits import input_failure, output_failure

_CONTENT = re.compile(r"[0-9a-fA-F]{16}")


class BlockList:
    """The ids and content hashes of a file, in memory. Without a path it is empty, and nothing can be added."""

    def __init__(self, path: Path | None = None, ids: Sequence[str] = (), contents: Sequence[int] = ()) -> None:
        self.path = path
        self._ids, self._contents = _hashes(ids), np.array(contents, np.uint64)

    def refuse(self, signed: Signed) -> Signed:
        """Return signed documents with those of the list among the refusals."""
        batch = signed.batch
        if not batch.size or not len(self._ids) + len(self._contents):
            return signed
        is_blocked = np.isin(batch.contents[:, CONTENT_HALF], self._contents)
        is_blocked |= np.isin(id_hashes(batch.ids, batch.id_starts), self._ids)
        return refuse_rows(signed, is_blocked, "blocked")

    def append(self, id_: str, contents: npt.NDArray[np.uint64], collection: str | None = None) -> None:
        """Add an id of a collection and content hashes. They are on the disk when this returns, also after a loss of
        power.

        Raises:
            OSError: the file cannot be written; the list is as before.
        """
        new_id = _hashes(_named(id_, collection))
        new = np.setdiff1d(contents, self._contents)
        lines = [] if np.isin(new_id, self._ids).all() else [{"id": id_, **named_collection(collection)}]
        lines += [{"content": f"{content:016x}"} for content in new.tolist()]
        if lines:
            _append(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._ids, self._contents = np.union1d(self._ids, new_id), np.union1d(self._contents, new)


def refuse_rows(signed: Signed, is_refused: npt.NDArray[np.bool_], reason: str) -> Signed:
    """Return signed documents with some rows of their batch among the refusals."""
    batch, rows = signed.batch, np.flatnonzero(is_refused)
    if not len(rows):
        return signed
    positions = np.delete(
        np.arange(batch.size + len(signed.refusals)), [refusal.position for refusal in signed.refusals]
    )  # fmt: skip
    refusals = map(Refusal, positions[rows].tolist(), batch.ids_at(rows), [reason] * len(rows))
    left = select(batch, np.flatnonzero(~is_refused))
    return signed._replace(batch=left, refusals=sorted([*signed.refusals, *refusals]))


def read_block_list(path: str | None, *, create: bool = False) -> BlockList:
    """Return the block list of a file; without a path, an empty one. ``create`` makes a missing file.

    Raises:
        Failure: the file cannot be opened; with ``create`` also if it cannot be written.
        ConfigError: a line says neither an id nor a content hash.
    """
    if path is None:
        return NOTHING_BLOCKED
    try:
        if create:
            os.close(_opened(Path(path)))
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise (output_failure if create else input_failure)(f"the block list {path}", error) from None
    ids: list[str] = []
    contents: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not _is_entry(value):
            raise ConfigError(
                f"line {number:,} of the block list {path} is {line[:100].decode(errors='replace')!r}: a line is "
                '{"id": "..."}, {"content": "16 hexadecimal digits"} or both in one object, and "collection" with an '
                "id that has one; correct or delete the line"
            )
        ids += _named(value["id"], value.get("collection")) if "id" in value else []
        contents += [int(value["content"], 16)] if "content" in value else []
    return BlockList(Path(path), ids, contents)


def _is_entry(value: object) -> bool:
    if not isinstance(value, dict) or not value or not value.keys() <= {"id", "content", "collection"}:
        return False
    if "collection" in value and not ("id" in value and isinstance(value["collection"], str)):
        return False
    content = value.get("content", "0" * 16)
    return isinstance(value.get("id", ""), str) and isinstance(content, str) and bool(_CONTENT.fullmatch(content))


def _named(id_: str, collection: str | None) -> list[str]:
    """Return the ids of documents that an id blocks: without a collection that of a stream without collections, and
    that of the documents that name none."""
    return [full_id(id_, collection)] + ([] if collection else [id_])


def _hashes(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    if not ids:
        return np.empty(0, np.uint64)
    return id_hashes(*id_columns([id_.encode("utf-8", "surrogatepass") for id_ in ids]))


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def _append(path: Path | None, data: bytes) -> None:
    """Append lines to the file and wait for the disk; after an error the file is as before."""
    if path is None:
        raise FileNotFoundError("there is no block list")
    file = _opened(path)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # written by hand, without an end
            data = b"\n" + data
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
    if not size:  # perhaps new: its name must be on the disk, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# For where no list is named.
NOTHING_BLOCKED = BlockList()
