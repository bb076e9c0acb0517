"""Stretches of ``signed``: the rows of consecutive messages, prepared once for all shards of a member.

A *position* is between two rows of the log, as one number: the offset of a message, and in the lower 16 bits
the rows of it that lie before. A message that is read whole leads to row 0 of the next offset. So positions are ordered
as the rows are, although markers of transactions leave gaps between offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column
from neardup.pairs.shards import StreamRows, stream_rows
from neardup.pairs.window_message import WireError
from neardup.schemes.config import Config
from neardup.window import NO_TIME
from neardup_workers.doing.stages.canary_rows import CanaryRows, decode_canaries
from neardup_workers.outside.topics.messages import refused_batch_sentence
from neardup_workers.outside.topics.shown import source_at
from neardup_workers.outside.topics.signed import ROW_BITS, SignedRows, decode_signed, join_signed, position_of
from neardup_workers.outside.transport.protocol import Record, record_bytes

# Messages are matched together up to this many bytes: the keys of more documents do not fit in the L2 cache.
_TOGETHER_BYTES = 256 << 10
# Of an array apart from its values: most of the memory of a stretch of a few rows.
_ARRAY_BYTES = 150


class Stretch(NamedTuple):
    """Consecutive rows of the log: documents and removals, without refusals.

    ``positions`` (``int64[n]``) are before each row, ``end`` after the last message. ``places`` (``int64[n]``) name the
    records of ``documents``. ``before`` (``int64[n]``) is the greatest time of the messages of the stretch before the
    message of the row. ``canaries`` are those of the messages, each with the position behind its message. ``size`` is
    the memory of all of it in bytes. ``shown`` is what is known of the documents alone
    (``neardup_workers.outside.topics.shown``). ``growth``: behind all rows stands a control row, with
    these numbers of shards before and after.
    """

    rows: StreamRows
    positions: npt.NDArray[np.int64]
    end: int
    places: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    canaries: tuple[tuple[int, CanaryRows], ...] = ()
    size: int = 0
    shown: Column | None = None
    growth: tuple[int, int] | None = None

    def row_of(self, position: int) -> int:
        """Return the first row that is not before a position."""
        return int(np.searchsorted(self.positions, position))

    def position(self, row: int) -> int:
        """Return the position before a row, or after the last one."""
        return int(self.positions[row]) if row < len(self.positions) else self.end

    def source_of(self, row: int) -> str:
        """Return the source of a document, empty if none is known."""
        return "" if self.shown is None else source_at(self.shown, row - int(self.rows.removals[:row].sum()))

    def until(self, position: int) -> Stretch:
        """Return the rows before a position, without canaries."""
        n, growth = self.row_of(position), self.growth if position >= self.end else None
        end = min(position, self.end)
        rows, shown = self.rows.until(n), self.shown
        return Stretch(
            rows, self.positions[:n], end, self.places[:n], self.before[:n], shown=shown, growth=growth
        )  # fmt: skip


def read_stretches(records: Sequence[Record], config: Config) -> Iterator[Stretch]:
    """Return the rows of consecutive messages, as many together as are matched together; a control row ends a stretch.

    Raises:
        WireError: a message is not of this generation.
    """
    together: list[Record] = []
    parts: list[SignedRows] = []
    size = 0
    for record in records:
        if record.refused is not None:
            raise WireError(refused_batch_sentence(record, "signed"))
        together.append(record)
        parts.append(decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width))
        size += record_bytes(record)
        if size >= _TOGETHER_BYTES or parts[-1].growth is not None:
            yield _stretch(together, parts, config)
            together, parts, size = [], [], 0
    if together:
        yield _stretch(together, parts, config)


def _stretch(records: Sequence[Record], parts: list[SignedRows], config: Config) -> Stretch:
    fingerprint, width = config.signing_fingerprint, config.plan.width
    canaries = tuple(
        (position_of(record.offset + 1), decode_canaries(part.canaries, fingerprint, width))
        for record, part in zip(records, parts, strict=True) if len(part.canaries)
    )  # fmt: skip
    signed = join_signed(parts)
    batch, removals, read = signed.stream()
    sizes = np.array([part.size for part in parts])
    offsets = np.array([record.offset for record in records], np.int64)
    message = np.repeat(np.arange(len(parts)), sizes)
    row = np.arange(len(message)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    positions = (offsets[message] << ROW_BITS | row)[read]
    greatest = np.full(len(parts) + 1, NO_TIME)
    np.maximum.at(greatest, message[read] + 1, np.where(removals, NO_TIME, batch.times))
    before = np.maximum.accumulate(greatest)[message[read]]
    rows, end = stream_rows(batch, config, removals, signed.references(read)), position_of(records[-1].offset + 1)
    places = signed.places[read]
    size = _memory_bytes((rows, positions, places, before, canaries, signed.shown))
    return Stretch(rows, positions, end, places, before, canaries, size, signed.shown, parts[-1].growth)


def _memory_bytes(value: object) -> int:
    """Return the memory of arrays in tuples, about."""
    if isinstance(value, tuple):
        return sum(map(_memory_bytes, value))
    return value.nbytes + _ARRAY_BYTES if isinstance(value, np.ndarray) else 0
