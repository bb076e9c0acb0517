"""The table of one partition of ``bands``, and where in the log its window begins.

Theory of operation. A table is a deterministic function of its partition's log from ``from`` to a place, and of the
stream time just before ``from``. A place is an offset and a row: all messages before the offset and so many rows of the
message at the offset are in the table. ``from`` is the message of the oldest slot still in the ring. ``from``, stream
time, row and the fingerprint of the matching settings are the metadata of every committed offset, so they are
consistent with it.

- ``apply_all`` adds messages inside an open step, small ones together: a call for each would cost more than the match.
  It goes in slices of rows, each bounded in candidates, and a caller may stop after any slice: one message can hold
  thousands of rows that meet a hundred others each. ``position`` is what to commit for the step.
- ``commit`` or ``undo`` end the step, after the transaction of the step has ended. If its outcome is unknown,
  ``settle`` ends the step later, by the committed position. It does not matter which process committed it: a table at
  the committed position is the function of the log up to there.
- A new owner makes an empty table with a ``Window``, applies the log from ``from`` to the committed place by
  ``replay``, without publishing, and then holds what the old owner held when it committed.

Per slice of a message in the window the table keeps the offset of the message, the slot after the slice, and the stream
time before the message. Next to the slots it keeps the places of the documents, by which ``links`` names them. After
the last message of a signer's step the stream time advances to the greatest of the step, also where none of its
documents has a key in this partition: so a partition with few documents drops what the others have dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from stream.bands_message import WireError, decode
from stream.batches import Batch, concatenate, select
from stream.config import Config
from stream.errors import ConfigError
from stream.pair_rule import NO_MATCHES, Matches
from stream.partitions import Partition
from stream.pipeline import SLICE_CANDIDATES, Matcher, Slice
from stream.table import COUNTERS, NO_TIME
from workers.stages.slot_places import SlotPlaces
from workers.stages.transaction import record_bytes
from workers.topics.links import NO_PROGRESS, Links, similarity_steps
from workers.topics.messages import refused_batch_sentence
from workers.transport.protocol import UNBOUNDED, Committed, Record

# Version 1 has no row: it is 0.
_METADATA_VERSIONS = (1, 2)
# Messages are matched together until they have this many documents: the keys of more would leave the second cache.
_TOGETHER_DOCUMENTS = 2_000
# The counts of a table that are metrics.
COUNTED = (*(name for name, counter in COUNTERS.items() if counter.meaning), "postings")


class Window(NamedTuple):
    """Where a window begins: the offset of its first message, the stream time before it (microseconds, or none). And
    how many rows of the message at the committed offset are in the table."""

    start: int
    stream_time: int | None
    fingerprint: str
    row: int = 0


class Applied(NamedTuple):
    """What a slice of messages leads to: the pairs to publish, also by place; the ids removed after them; how many
    messages it ends, how many documents and candidates it has; the progress that the ended messages report."""

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
    """Where a table stands: ``row`` rows of the message at ``offset`` are in it; stream time now and before it."""

    offset: int
    row: int
    time: int
    time_before: int


class _Part(NamedTuple):
    """Rows of a message that are to come, all or those from a row on; the times of those that are still to come; and
    what counts after the last row of the message: removals, stream time, progress."""

    offset: int
    batch: Batch
    places: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    is_cut: bool  # the message has rows after these, which stay out
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
        """Take one message of ``bands`` in one slice; see ``apply_all``."""
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
        """Add consecutive messages of ``bands``; ``publish=False`` looks for no pairs (a replay).

        Messages are matched together until they have ``together_bytes``, and in slices of about ``candidates_max``
        candidates: all slices together lead to what each message leads to by itself, in the same order. A slice is
        taken when the caller asks for it. A message of which rows are in the table already goes on after them.
        Raises ``WireError`` for a message that is not of this generation.
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
        """Take consecutive messages before the offset ``end``, and ``row`` rows of the one at ``end``, unpublished."""
        yield from self.apply_all([record for record in records if record.offset < end], publish=False)
        for record in records:
            if record.offset == end and row > self._place.row:
                part = self._part(record, row)
                yield from self._apply([part], publish=False, candidates_max=UNBOUNDED)

    def _part(self, record: Record, end: int | None = None) -> _Part:
        """The rows of a message that are not in the table, up to ``end``; removals belong to its last row."""
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
        """Take parts of messages in slices; removals, and a stream time ahead of the rows, only in the last of them."""
        table = self.matcher.table
        removed, parts, first = together[-1].removed, deque(together), 0
        batch = concatenate([part.batch for part in together])
        places = np.concatenate([part.places for part in together])
        if not self._open:
            table.begin()
            self._open, self._added, self._place_before = True, 0, self._place
        slot = table.slot_end
        self._places.put(slot, places)
        empty = [Slice(NO_MATCHES, np.empty(0, np.int32), np.empty(0, np.int64), 0, 0)]
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
            links = Links(
                places[part.items], self._places.of(part.slots), batch.contents[part.items, 1],
                table.contents(part.slots), similarity_steps(part.matches.similarity),
            )  # fmt: skip
            progress = np.concatenate([NO_PROGRESS, *(one.progress for one in ended)])
            gone = removed if is_last else []
            yield Applied(part.matches, links, gone, len(ended), part.end - first, part.candidates, progress)
            first = part.end

    def _advance(self, parts: deque[_Part], rows: int) -> list[_Part]:
        """Note that the next rows of these parts are in the table; returns the messages that this ends."""
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
            if part.is_cut or count < len(part.times):
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
        """What to commit: the offset to go on at, with the beginning of the window and the row as metadata."""
        oldest, place = self.matcher.table.oldest, self._place
        first = next((mark for mark in self._marks if mark.slot_end > oldest), None)
        start, time = (first.offset, first.stream_time) if first else (place.offset, place.time)
        window = Window(start, _known(time), self.config.matching_fingerprint, place.row)
        return Committed(place.offset, encode_window(window))

    @property
    def next(self) -> tuple[int, int]:
        """The offset of the next message to take, and how many of its rows are in the table already."""
        return self._place.offset, self._place.row

    def seek(self, offset: int, row: int = 0) -> None:
        """The log goes on at ``offset``: what lies before it was taken, or holds no record; ``row`` rows of the message
        there were taken."""
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
        """Memory allocated by the table, and by the places next to it."""
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
        """End the step that may be open so that the table stands at ``committed``; false if that cannot be.

        Then others have gone on, or have other settings, and the table is of no use.
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
    try:
        fields = orjson.loads(metadata)
        if fields["version"] not in _METADATA_VERSIONS:
            raise ValueError
        row = fields["row"] if fields["version"] > 1 else 0
        return Window(fields["from"], fields["time"], fields["fingerprint"], row)
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"the group has committed an offset with metadata {metadata[:80]!r}, which no matcher wrote: "
            "use another group, or reset this one and say where to start with --from"
        ) from None
