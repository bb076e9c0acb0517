"""Parquet and Arrow files -> record batches of pyarrow, one after the other, in bounded memory.

Parquet begins at its end, so content that cannot seek (a pipe, compressed content) goes to an unnamed temporary file
first. A file of Arrow is a stream of Arrow between two marks, so both are read from their beginning; only one without
the schema at its beginning, as Polars writes, is read from its end as well. A batch has about ``_BATCH_BYTES`` by the
sizes that a Parquet file gives, and ``_BATCH_ROWS`` rows at most; in Arrow, the batches are those of the file.
Columns of a large row group are read through a buffer, so that memory does not follow its size.

A thread decodes the next batch of a Parquet file while the caller works with the last one: pyarrow decodes without the
interpreter's lock. Decompression is most of that time.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import IO, Any

from neardup_workers.outside.readers.blocks import Content, SeekableFile

# Bytes of a batch, by the sizes in a Parquet file, and its rows at most.
_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 4096
# Bytes of a row group whose columns are read at once; of columns of a larger one, so many are read at a time.
_GROUP_BYTES, _BUFFER_BYTES = 64 << 20, 1 << 20
PARQUET_MAGIC = b"PAR1"
# The key of the metadata of a batch that has the compression of its file.
COMPRESSION = b"neardup.compression"
FILE_MAGIC = b"ARROW1\0\0"
STREAM_MAGIC = b"\xff\xff\xff\xff"


class Damaged(Exception):
    """The file is damaged, cut off, or uses a part of its format that pyarrow does not support."""


def parquet_batches(content: Content) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, an empty one if it has no rows; ``None`` while no input is available.

    Raises ``Damaged``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryFile() as spooled:
        file = yield from _seekable(content, content, spooled)
        with _reported(content):
            metadata = pq.read_metadata(file)
            # The sizes of single columns are not read: pyarrow ends the process on some damaged ones.
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
            rows = min(max(_BATCH_BYTES // max(row_bytes, 1), 1), _BATCH_ROWS)
            # A buffer has the size that a page header claims, true or not; a group that is read at once bounds it.
            is_large = max((group.total_byte_size for group in groups), default=0) > _GROUP_BYTES
            parquet = pq.ParquetFile(
                file, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER_BYTES * is_large,
                page_checksum_verification=True,
            )  # fmt: skip
            yield pa.RecordBatch.from_pylist([], schema=parquet.schema_arrow)
            for batch in _ahead(map(_checked, parquet.iter_batches(batch_size=rows, use_threads=False))):
                # A column that has been read has whole metadata: pyarrow ends the process on some that are damaged.
                kind = groups[0].column(0).compression.lower() if groups and batch.num_columns else "snappy"
                yield batch.replace_schema_metadata({**(batch.schema.metadata or {}), COMPRESSION: kind})


def arrow_batches(content: Content) -> Iterator[Any]:
    """Yield the record batches of a file or a stream of Arrow, with the same rules as ``parquet_batches``."""
    import pyarrow as pa
    from pyarrow import ipc

    pipe = _Pipe(content)
    while pipe.is_idle():
        yield None
    is_file = pipe.begins(FILE_MAGIC)
    if is_file:
        magic = pipe.read(len(FILE_MAGIC))
        if not pipe.begins(STREAM_MAGIC):
            yield from _batches_of_footer(content, chain((magic,), pipe.rest()))
            return
    try:
        with _reported(content), ipc.open_stream(pipe) as reader:
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            while True:
                while pipe.is_idle():
                    yield None
                batch = reader.read_next_batch()
                yield from _slices(batch)
    except StopIteration:
        if is_file and not pipe.ends(FILE_MAGIC.rstrip(b"\0")):
            raise Damaged("the file has no end mark") from None


@contextmanager
def _reported(content: Content) -> Iterator[None]:
    """Raise ``Damaged`` for what pyarrow raises for a file that it cannot read."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        content.check()
        raise Damaged(str(error)) from error


def _batches_of_footer(content: Content, blocks: Iterable[bytes | None]) -> Iterator[Any]:
    """Yield the record batches of a file of Arrow that its end describes."""
    import pyarrow as pa
    from pyarrow import ipc

    with tempfile.TemporaryFile() as spooled:
        file = yield from _seekable(content, blocks, spooled)
        with _reported(content), ipc.open_file(pa.PythonFile(file, "r")) as reader:
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            for n in range(reader.num_record_batches):
                yield from _slices(reader.get_batch(n))


def _slices(batch: Any) -> Iterator[Any]:
    batch.validate(full=True)  # lengths and offsets in a file are bytes that anyone can write
    return (batch.slice(at, _BATCH_ROWS) for at in range(0, batch.num_rows, _BATCH_ROWS))


def _seekable(
    content: Content, blocks: Iterable[bytes | None], spooled: IO[bytes]
) -> Generator[None, None, SeekableFile]:
    """Return the content as a file that can seek: ``blocks`` go to a temporary file if it is no plain file."""
    file = content.file()
    if file is not None:
        return file
    for block in blocks:
        if block:
            spooled.write(block)
        else:
            yield None
    spooled.flush()
    return SeekableFile(spooled.fileno())


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches; a thread makes the next one meanwhile. It has ended when this iterator ends or is closed."""
    with ThreadPoolExecutor(1, "parquet") as thread:
        following = thread.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = thread.submit(next, batches, None)
            yield batch


def _checked(batch: Any) -> Any:
    """Return a batch of Parquet. Raises if an index in a dictionary is outside of it: pyarrow does not compare them."""
    for column in batch.columns:
        if "dictionary" in str(column.type):
            column.validate(full=True)
    return batch


class _Pipe(io.RawIOBase):
    """Blocks as a file that is read in order."""

    def __init__(self, content: Content) -> None:
        self._blocks = iter(content)
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def is_idle(self) -> bool:
        """Whether no input is available now; at the end of the content there is none to wait for."""
        if not self._held:
            block = next(self._blocks, None)
            self._held = memoryview(block or b"")
            return block is not None and not block
        return False

    def begins(self, magic: bytes) -> bool:
        """Whether the content that follows begins with these bytes."""
        while len(self._held) < len(magic):
            block = next(self._blocks, None)
            if block is None:
                break
            self._held = memoryview(bytes(self._held) + block)
        return bytes(self._held[: len(magic)]) == magic

    def rest(self) -> Iterator[bytes | None]:
        """Yield the blocks that follow."""
        yield bytes(self._held)
        yield from self._blocks

    def ends(self, magic: bytes) -> bool:
        """Whether the rest of the content ends with these bytes."""
        tail = bytes(self._held)
        for block in self._blocks:
            tail = tail[-len(magic) :] + (block or b"")
        return tail.endswith(magic)

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, fewer only at the end; all of the rest for a negative size.

        Memory holds what there is, whatever size is asked for.
        """
        parts, left = [], size
        while left:
            if not self._held:
                block = next(self._blocks, None)
                if block is None:
                    break
                self._held = memoryview(block)
            part = self._held if left < 0 else self._held[:left]
            self._held = self._held[len(part) :]
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)
