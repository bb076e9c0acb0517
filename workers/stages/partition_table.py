"""The table of one partition of ``bands``, and where in the log its window begins.

Theory of operation. A table is a deterministic function of its partition's log from ``from`` to a place, and of the
stream time just before ``from``. A place is an offset and a row: the table contains all messages before the offset, and
the first ``row`` rows of the message at the offset. ``from`` is the offset of the message of the oldest slot in the
ring. ``from``, stream time, row and the fingerprint of the matching settings are the metadata of every committed
offset, so they are consistent with the offset.

- ``apply_all`` adds messages inside an open step. It matches small messages together, because a call for each would
  cost more than the match. It works in slices of rows with a bounded number of candidates, and the caller may stop
  after any slice: one message can hold thousands of rows with a hundred candidates each. ``position`` returns the place
  to commit for the step.
- ``commit`` or ``undo`` ends the step after its transaction has ended. If the outcome of the transaction is unknown,
  ``settle`` ends the step later, by the committed position. Any process may have committed this position: a table at a
  position is a function of the log up to the position.
- A new owner makes an empty table with a ``Window``, applies the log from ``from`` to the committed place by
  ``replay``, without publishing. The table then equals the table of the old owner at its commit.

Per slice of a message in the window the table keeps the offset of the message, the slot after the slice, and the stream
time before the message. For each slot it also keeps the place of the document, which ``links`` uses as its name. After
the last message of a signer's step, the stream time advances to the greatest event time of the step, even if no
document of the step has a key in this partition. So a partition with few documents expires them at the same time as the
other partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.stream.bands_message import WireError, decode
from neardup.stream.batches import CONTENT_HALF, Batch, concatenate, select
from neardup.stream.config import Config
from neardup.stream.estimates.limits import NO_LOSSES
from neardup.stream.pair_rule import NO_MATCHES, Matches, deciding
from neardup.stream.partitions import Partition
from neardup.stream.pipeline import SLICE_CANDIDATES, Matcher, Slice
from neardup.stream.schemes import SCHEMES
from neardup.stream.table import COUNTERS, NO_TIME, again
from neardup.workers.stages.slot_places import SlotPlaces
from neardup.workers.stages.starts import decoded_metadata
from neardup.workers.stages.transaction import record_bytes
from neardup.workers.topics.links import NO_PROGRESS, Links, similarity_steps
from neardup.workers.topics.messages import refused_batch_sentence
from neardup.workers.transport.protocol import UNBOUNDED, Committed, Record

# Version 1 has no row; the row is 0.
_METADATA_VERSIONS = (1, 2)
# Messages are matched together up to this many documents: the keys of more do not fit in the L2 cache.
_TOGETHER_DOCUMENTS = 2_000
# The counts of a table that are metrics.
COUNTED = (*(name for name, counter in COUNTERS.items() if counter.meaning), "postings")


class Window(NamedTuple):
    """The beginning of a window: the offset of its first message, and the stream time before it (microseconds, or
    none). ``row``: how many rows of the message at the committed offset are in the table."""

    start: int
    stream_time: int | None
    fingerprint: str
    row: int = 0


class Applied(NamedTuple):
    """The result of a slice of messages: the pairs to publish, also by place; the ids removed after them; the numbers
    of completed messages, of documents and of candidates; the progress that the completed messages report."""

    matches: Matches
    links: Links
    removed: list[bytes]
    messages: int
    documents: int
    candidates: int
    progress: npt.NDArray[np.int64]


class _Mark(NamedTuple):
    offset: int
    slot_end: int
    stream_time: int


class _Place(NamedTuple):
    """The position of a table: it contains ``row`` rows of the message at ``offset``; stream time now and before this
    message."""

    offset: int
    row: int
    time: int
    time_before: int


class _Part(NamedTuple):
    """The remaining rows of a message with their times, and the effects after its last row: removals, stream time,
    progress."""

    offset: int
    batch: Batch
    places: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    is_partial: bool  # the message has more rows, which are not added
    removed: list[bytes]
    stream_time: int
    progress: npt.NDArray[np.int64]


class PartitionTable:
    """A ``Matcher`` for one partition with positions in its log; see the module for the steps."""

    def __init__(self, config: Config, partition: Partition, window: Window | None = None) -> None:
        self.config = config
        self.matcher = Matcher(config, partition)
        self._places = SlotPlaces()
        self._marks: deque[_Mark] = deque()
        self._added = 0
        time = int(NO_TIME) if window is None or window.stream_time is None else window.stream_time
        if time != NO_TIME:
            self.matcher.table.set_stream_time(time)
        self._place = self._place_before = _Place(window.start if window else 0, 0, time, time)
        self._open = False
        self._reported = dict.fromkeys(COUNTED, 0)

    def apply(self, record: Record, *, publish: bool) -> Applied:
        """Add one message of ``bands`` in one slice; see ``apply_all``."""
        (applied,) = self.apply_all([record], publish=publish, candidates_max=UNBOUNDED)
        return applied

    def apply_all(
        self,
        records: Iterable[Record],
        *,
        publish: bool,
        together_bytes: int = UNBOUNDED,
        candidates_max: int = SLICE_CANDIDATES,
    ) -> Iterator[Applied]:
        """Add consecutive messages of ``bands``; ``publish=False`` finds no pairs (a replay).

        Messages are matched together up to ``together_bytes``, in slices of about ``candidates_max`` candidates. The
        slices together have the same results as the messages one by one, in the same order. The iterator applies a
        slice when the caller requests it. If the table contains some rows of a message, only the remaining rows are
        added. Raises ``WireError`` for a message that is not of this generation.
        """
        together: list[_Part] = []
        documents = size = 0
        time = self._place.time
        for record in records:
            part = self._part(record)
            together.append(part)
            documents += part.batch.size
            size += record_bytes(record)
            time = max(time, int(part.times.max(initial=time)))
            is_last = bool(part.removed) or part.stream_time > time
            if is_last or documents >= _TOGETHER_DOCUMENTS or size >= together_bytes:
                yield from self._apply(together, publish, candidates_max)
                together, documents, size = [], 0, 0
                time = self._place.time
        if together:
            yield from self._apply(together, publish, candidates_max)

    def replay(self, records: Sequence[Record], end: int, row: int) -> Iterator[Applied]:
        """Add consecutive messages before the offset ``end``, and ``row`` rows of the message at ``end``, without
        publishing."""
        yield from self.apply_all([record for record in records if record.offset < end], publish=False)
        for record in records:
            if record.offset == end and row > self._place.row:
                part = self._part(record, row)
                yield from self._apply([part], publish=False, candidates_max=UNBOUNDED)

    def _part(self, record: Record, end: int | None = None) -> _Part:
        """Return the rows of a message that are not in the table, up to row ``end``; removals belong to the last
        row."""
        if record.refused is not None:
            raise WireError(refused_batch_sentence(record, "bands"))
        assert record.value is not None, "a message of bands without a value"
        batch, removed, places, stream_time, progress = decode(record.value, self.config.signing_fingerprint)
        assert places is not None, "decoding gives places"
        size = batch.size
        first = self._place.row if record.offset == self._place.offset else 0
        if first or end is not None:
            rows = np.arange(first, size if end is None else end)
            batch, places = select(batch, rows), places[rows]
        if end is not None and end < size:
            return _Part(record.offset, batch, places, batch.times, True, [], int(NO_TIME), NO_PROGRESS)
        return _Part(record.offset, batch, places, batch.times, False, removed, stream_time, progress)

    def _apply(self, together: list[_Part], publish: bool, candidates_max: int) -> Iterator[Applied]:
        """Add parts of messages in slices; the last slice applies the removals, and a stream time ahead of the rows."""
        table = self.matcher.table
        removed, parts, first = together[-1].removed, deque(together), 0
        batch = concatenate([part.batch for part in together])
        places = np.concatenate([part.places for part in together])
        if not self._open:
            table.begin()
            self._open, self._added, self._place_before = True, 0, self._place
        slot = table.slot_end
        self._places.put(slot, places)
        empty = [Slice(NO_MATCHES, np.empty(0, np.int32), np.empty(0, np.int64), NO_LOSSES, 0, 0)]
        slices = self.matcher.slices(batch, probe=publish, candidates_max=candidates_max) if batch.size else empty
        for part in slices:
            is_last = part.end == batch.size
            ended = self._advance(parts, part.end - first)
            assert bool(parts) != is_last, "a slice ends where its messages do not"
            assert table.slot_end == slot + part.end, "every item takes a slot"
            if self._place.time != NO_TIME:
                table.pass_time(self._place.time)
            for id_ in removed if is_last else ():
                self.matcher.remove(id_)
            decides = deciding(SCHEMES[self.matcher.config.scheme], part.matches.similarity)
            items, slots = part.items[decides], part.slots[decides]
            links = Links(
                places[items], self._places.of(slots), batch.contents[items, CONTENT_HALF],
                again.contents(table, slots), similarity_steps(part.matches.similarity[decides]),
            )  # fmt: skip
            progress = np.concatenate([NO_PROGRESS, *(one.progress for one in ended)])
            gone = removed if is_last else []
            yield Applied(part.matches, links, gone, len(ended), part.end - first, part.candidates, progress)
            first = part.end

    def _advance(self, parts: deque[_Part], rows: int) -> list[_Part]:
        """Record that the next rows of these parts are in the table; returns the completed messages."""
        slot_end = self.matcher.table.slot_end - rows
        ended: list[_Part] = []
        while parts:
            part, place = parts.popleft(), self._place
            if place.row == 0:
                place = _Place(part.offset, 0, place.time, place.time)
            assert place.offset == part.offset, "a message is begun and not ended"
            count = min(rows, len(part.times))
            if count:
                slot_end, rows = slot_end + count, rows - count
                time = max(place.time, int(part.times[:count].max()))
                self._marks.append(_Mark(part.offset, slot_end, place.time_before))
                self._added += 1
                place = place._replace(row=place.row + count, time=time)
            if part.is_partial or count < len(part.times):
                self._place = place
                if count < len(part.times):
                    parts.appendleft(part._replace(times=part.times[count:]))
                break
            time = max(place.time, part.stream_time)
            self._place = _Place(part.offset + 1, 0, time, time)
            ended.append(part)
        return ended

    @property
    def stream_time(self) -> int | None:
        """The greatest event time seen, in microseconds; none before the first."""
        return _known(self.matcher.table.stream_time)

    def position(self) -> Committed:
        """Return the position to commit: the next offset, with the beginning of the window and the row as metadata."""
        oldest, place = self.matcher.table.oldest, self._place
        first = next((mark for mark in self._marks if mark.slot_end > oldest), None)
        start, time = (first.offset, first.stream_time) if first else (place.offset, place.time)
        window = Window(start, _known(time), self.config.matching_fingerprint, place.row)
        return Committed(place.offset, encode_window(window))

    @property
    def next(self) -> tuple[int, int]:
        """The offset of the next message to add, and how many of its rows the table contains."""
        return self._place.offset, self._place.row

    def seek(self, offset: int, row: int = 0) -> None:
        """Set the position. All records before ``offset`` must be in the table, and ``row`` rows of the message at
        ``offset``."""
        if offset != self._place.offset:
            assert self._place.row == 0, "a message is begun and not ended"
            self._place = self._place._replace(offset=offset)
        assert self._place.row == row, "the log lacks the message of which rows are in the table"

    def commit(self) -> None:
        """End the step, and keep its changes."""
        if self._open:
            self.matcher.table.commit()
            self._open = False
        oldest = self.matcher.table.oldest
        self._places.release(oldest)
        while self._marks and self._marks[0].slot_end <= oldest:
            self._marks.popleft()

    def memory_bytes(self) -> int:
        """Memory allocated by the table and by the column of places."""
        return self.matcher.table.memory_bytes()[1] + self._places.allocated_bytes

    def increments(self) -> dict[str, int]:
        """Return the increase of each count of ``COUNTED`` since the last call; call it between steps."""
        counts = {**self.matcher.table.counts(), "postings": self.matcher.table.posting_end}
        now = {name: counts[name] for name in COUNTED}
        grown = {name: now[name] - self._reported[name] for name in COUNTED}
        self._reported = now
        return grown

    def undo(self) -> None:
        """End the step, and undo its changes."""
        if not self._open:
            return
        self.matcher.table.undo()
        self._open = False
        self._place = self._place_before
        for _ in range(self._added):
            self._marks.pop()

    def settle(self, committed: Committed) -> bool:
        """End an open step so that the table is at ``committed``; return false if it cannot be.

        False means that another process has continued or has other settings. The table is then useless.
        """
        if self._open and self.position() == committed:
            self.commit()
        else:
            self.undo()
        return self.position() == committed


def _known(time: int) -> int | None:
    return None if time == NO_TIME else time


def encode_window(window: Window) -> str:
    """Encode the metadata of a committed offset: compact JSON, far below the broker's limit of 4,096 characters."""
    fields = {
        "version": _METADATA_VERSIONS[-1],
        "from": window.start,
        "time": window.stream_time,
        "row": window.row,
        "fingerprint": window.fingerprint,
    }
    return orjson.dumps(fields).decode()


def decode_window(metadata: str) -> Window:
    """Decode the metadata of a committed offset; raises ``ConfigError`` for metadata of another program."""
    with decoded_metadata(metadata, _METADATA_VERSIONS, "matcher") as fields:
        row = fields["row"] if fields["version"] > 1 else 0
        return Window(fields["from"], fields["time"], fields["fingerprint"], row)
