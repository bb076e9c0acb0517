"""Cursors: where a matcher reads ``signed``, and the stretches that some of its shards have still to apply.

A member has two. Its running shards share one. Shards that are restored, or that are behind the running ones, share
the other, so they hold up no running shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from neardup.stream.config import Config
from neardup.workers.stages.matching.stretches import Stretch, read_stretch
from neardup.workers.stages.transaction import record_bytes
from neardup.workers.topics.signed import PARTITION, offset_and_row, position_of
from neardup.workers.transport.protocol import Reader, Record

# Messages are matched together up to this many bytes: the keys of more documents do not fit in the L2 cache.
_TOGETHER_BYTES = 256 << 10


class Cursor:
    """A reader of ``signed`` with the stretches that are read and not passed by all shards of the cursor."""

    def __init__(self, reader: Reader, config: Config) -> None:
        self.reader, self._config = reader, config
        self.hand: deque[Stretch] = deque()
        self.passed = 0  # the position that all its shards have passed

    def follow(self, position: int) -> None:
        """Read from the message of a position on."""
        offset, _ = offset_and_row(position)
        self.reader.follow({PARTITION: offset})
        self.hand.clear()
        self.passed = position_of(offset)

    @property
    def offset(self) -> int:
        """The offset of the next message to read."""
        return self.reader.positions().get(PARTITION, 0)

    def read(self, timeout_seconds: float, records_max: int, bytes_max: int) -> list[Record]:
        """Read messages, if every stretch is passed; returns them."""
        if self.hand:
            return []
        records = self.reader.poll(timeout_seconds, records_max, bytes_max)
        for together in _together(records):
            self.hand.append(read_stretch(together, self._config))
        return records

    def ahead(self, position: int) -> Iterator[Stretch]:
        """Return the stretches with rows behind a position."""
        return (stretch for stretch in self.hand if stretch.end > position)

    def lag(self, position: int) -> int:
        """Return the messages between a position and the end of the log, without the markers of transactions that the
        reader has passed."""
        read, end = self.offset, self.reader.ends().get(PARTITION, 0)
        passed = offset_and_row(position)[0] if self.hand and self.hand[-1].end > position else read
        return max(0, end - passed)

    def pass_by(self, positions: Iterable[int]) -> None:
        """Drop the stretches that are before all positions of the shards of the cursor."""
        least = min(positions, default=None)
        if least is None:
            self.hand.clear()
            return
        while self.hand and self.hand[0].end <= least:
            self.passed = self.hand.popleft().end


def _together(records: list[Record]) -> Iterator[list[Record]]:
    """Split records into lists that are matched together."""
    part: list[Record] = []
    size = 0
    for record in records:
        part.append(record)
        size += record_bytes(record)
        if size >= _TOGETHER_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
