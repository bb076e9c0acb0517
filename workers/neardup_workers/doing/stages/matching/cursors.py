"""Cursors: where a matcher reads ``signed``, and the stretches that some of its shards have still to apply.

A member has two. Its running shards share one. Shards that are restored, or that are behind the running ones, share
the other, so they hold up no running shard. A member that stands by for other shards has a third one
(``standbys``); it uses it only for rows that the running shards do not read, or have read long ago: the *trail* of a
cursor keeps stretches that its shards have passed and standbys have not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from neardup.pairs.shards import table_limits
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.stories.windows.seen import Seen
from neardup.window import NO_TIME, BandTable
from neardup.window.counters import LIVE_BYTES
from neardup_workers.doing.stages.matching.stretches import Stretch, read_stretches
from neardup_workers.outside.topics.signed import PARTITION, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import Reader, Record

# A trail: what standbys can still apply after the running shards have passed it.
TRAIL_BYTES = 16 << 20
# The filter of contents has at most this part of the memory of the tables, without ids and ragged evidence.
SEEN_PART = 5
# Behind every position.
_NOWHERE = 1 << 62


def seen_bytes_max(tables: Iterable[BandTable]) -> int:
    """Return how large the filter of contents next to some tables may be."""
    return sum(table.memory_bytes()[1] - int(table.store.state[LIVE_BYTES]) for table in tables) // SEEN_PART


class SeenRows:
    """The filter of contents of a member (``neardup.stories.windows.seen``), and up to where it has read the log.

    It only goes forward. Rows before its position are not marked as copies: they are looked up as if they were new.
    """

    def __init__(self, config: Config) -> None:
        scheme = SCHEMES[config.scheme]
        self.seen = Seen(table_limits(config, scheme)) if scheme.by_content else None
        self._end = -1

    def begin(self, position: int, stream_time: int) -> None:
        """A cursor goes on at a position: a gap before it empties the filter."""
        if position > self._end and self.seen is not None:
            self.seen.begin(stream_time)
            self._end = position

    def mark(self, stretch: Stretch) -> None:
        """Mark the copies of a stretch, before any table reads it."""
        if stretch.end > self._end and self.seen is not None:
            self.seen.mark(stretch.rows.items, stretch.rows.removals, stretch.row_of(self._end))
            self._end = stretch.end

    @property
    def memory_bytes(self) -> int:
        """Bytes of the filter."""
        return 0 if self.seen is None else self.seen.memory_bytes

    def grow(self, tables: Iterable[BandTable]) -> None:
        """Let the filter grow where it has forgotten much, up to a part of the memory of the tables."""
        if self.seen is not None and self.seen.is_small:
            self.seen.grow(seen_bytes_max(tables))


class Cursor:
    """A reader of ``signed`` with the stretches that are read and not passed by all shards of the cursor, and behind
    them a trail of at most so many bytes. ``seen`` marks the copies of what it reads."""

    def __init__(self, reader: Reader, config: Config, trail_bytes_max: int = 0, seen: SeenRows | None = None) -> None:
        self.reader, self._config, self._seen = reader, config, seen
        self.hand: deque[Stretch] = deque()
        self.passed = 0  # the position that all its shards have passed
        self._trail: deque[Stretch] = deque()
        self._trail_bytes, self._trail_bytes_max = 0, trail_bytes_max
        self._began = _NOWHERE  # the position before trail and hand

    def follow(self, position: int, time_before: int = int(NO_TIME)) -> None:
        """Read from the message of a position on; before it, the stream had a time, in microseconds."""
        offset, _ = offset_and_row(position)
        if self._seen is not None:
            self._seen.begin(position_of(offset), time_before)
        self.reader.follow({PARTITION: offset})
        self._forget()
        self.passed = self._began = position_of(offset)

    @property
    def offset(self) -> int:
        """The offset of the next message to read."""
        return self.reader.positions().get(PARTITION, 0)

    def read(self, timeout_seconds: float, records_max: int, bytes_max: int) -> list[Record]:
        """Read messages, if every stretch is passed; returns them."""
        if self.hand:
            return []
        records = self.reader.poll(timeout_seconds, records_max, bytes_max)
        for stretch in read_stretches(records, self._config):
            if self._seen is not None:
                self._seen.mark(stretch)
            self.hand.append(stretch)
        return records

    def ahead(self, position: int) -> Iterator[Stretch]:
        """Return the stretches with rows behind a position."""
        return (stretch for stretch in self.hand if stretch.end > position)

    def covers(self, position: int) -> bool:
        """Whether the cursor has, or is to read, all messages from a position on."""
        return self._began <= position

    def kept(self, position: int) -> list[Stretch]:
        """Return the stretches of trail and hand with rows behind a position, which the cursor must cover."""
        return [stretch for part in (self._trail, self.hand) for stretch in part if stretch.end > position]

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
            self._forget()
            return
        while self.hand and self.hand[0].end <= least:
            self._trail.append(self.hand.popleft())
            self.passed = self._trail[-1].end
            self._trail_bytes += self._trail[-1].size
        while self._trail and self._trail_bytes > self._trail_bytes_max:
            self._drop_oldest()

    def release(self, position: int) -> None:
        """Drop the part of the trail that is before a position."""
        while self._trail and self._trail[0].end <= position:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._trail_bytes -= self._trail[0].size
        self._began = self._trail.popleft().end

    def _forget(self) -> None:
        """Drop all stretches; nothing is covered until the next ``follow``."""
        self.hand.clear()
        self._trail.clear()
        self._trail_bytes, self._began = 0, _NOWHERE
