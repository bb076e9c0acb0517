"""The table of one partition of ``bands``, and where in the log its window begins.

Theory of operation. A table is a deterministic function of its partition's log from ``from`` to the next offset, where
``from`` is the message of the oldest slot still in the ring, and of the stream time just before it. Both, with the
fingerprint of the matching settings, are the metadata of every committed offset, so they are consistent with it.

- ``apply`` adds messages inside an open step, small ones together: a call for each would cost more than the match.
  ``position`` is what to commit for the step.
- ``commit`` or ``undo`` end the step, after the transaction of the step has ended. If its outcome is unknown,
  ``settle`` ends the step later, by the committed offset. It does not matter which process committed it: a table at
  the committed position is the function of the log up to there.
- A new owner makes an empty table with the ``Window`` of the committed metadata, applies the messages of
  ``[from, committed)`` without publishing, and then holds what the old owner held when it committed.

Per message in the window the table remembers its offset, the slots after it, and the stream time before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from stream.bands_message import BandMessage, WireError, decode
from stream.batches import concatenate
from stream.config import Config
from stream.errors import ConfigError
from stream.pair_rule import Matches
from stream.partitions import Partition
from stream.pipeline import Matcher
from stream.table import COUNTERS, NO_TIME
from workers.stages.transaction import record_bytes
from workers.topics.messages import refused_batch_sentence
from workers.transport.protocol import UNBOUNDED, Committed, Record

_METADATA_VERSION = 1
# Messages are matched together until they have this many documents; the keys of more exceed the second cache.
_TOGETHER_DOCUMENTS = 2_000
# The counts of a table that are metrics.
COUNTED = (*(name for name, counter in COUNTERS.items() if counter.meaning), "postings")


class Window(NamedTuple):
    """The beginning of a window: offset of its first message, stream time before it (microseconds, or none)."""

    start: int
    stream_time: int | None
    fingerprint: str


class Applied(NamedTuple):
    """The effect of messages: pairs to publish, ids removed after them, number of messages and documents."""

    matches: Matches
    removed: list[bytes]
    messages: int
    documents: int


class _Mark(NamedTuple):
    offset: int
    slot_end: int
    stream_time: int | None


class PartitionTable:
    """A ``Matcher`` for one partition with positions in its log; see the module for the steps."""

    def __init__(self, config: Config, partition: Partition, window: Window | None = None) -> None:
        self.config = config
        self.matcher = Matcher(config, partition)
        self._marks: deque[_Mark] = deque()
        self._added = 0
        self._next = self._next_before = window.start if window else 0
        self._open = False
        self._told = dict.fromkeys(COUNTED, 0)
        if window is not None and window.stream_time is not None:
            self.matcher.table.set_stream_time(window.stream_time)

    def apply(self, record: Record, *, publish: bool) -> Applied:
        """Add one message of ``bands``; see ``apply_all``."""
        (applied,) = self.apply_all([record], publish=publish)
        return applied

    def apply_all(
        self, records: Sequence[Record], *, publish: bool, together_bytes: int = UNBOUNDED
    ) -> Iterator[Applied]:
        """Add consecutive messages of ``bands``; ``publish=False`` looks for no pairs (a replay).

        Messages are matched together until they have ``together_bytes``: what comes out of several is what each of them
        would do by itself, in the same order.
        Raises ``WireError`` for a message that is not of this generation.
        """
        together: dict[int, BandMessage] = {}  # by offset
        documents = size = 0
        for record in records:
            if record.refused is not None:
                raise WireError(refused_batch_sentence(record, "bands"))
            assert record.value is not None, "a message of bands without a value"
            message = together[record.offset] = decode(record.value, self.config.signing_fingerprint)
            documents += message.batch.size
            size += record_bytes(record)
            is_full = documents >= _TOGETHER_DOCUMENTS or size >= together_bytes
            if message.removed or is_full or record is records[-1]:
                yield self._apply(together, documents, publish=publish)
                together, documents, size = {}, 0, 0

    def _apply(self, messages: dict[int, BandMessage], documents: int, *, publish: bool) -> Applied:
        """Add messages by their offsets; only the last one may have removals."""
        table = self.matcher.table
        if not self._open:
            table.begin()
            self._open, self._added, self._next_before = True, 0, self._next
        time, slot_end = table.stream_time, table.slot_end
        matches = self.matcher.match(concatenate([one.batch for one in messages.values()]), probe=publish)
        for offset, message in messages.items():
            slot_end += message.batch.size
            self._marks.append(_Mark(offset, slot_end, None if time == NO_TIME else time))
            time = max(time, int(message.batch.times.max(initial=NO_TIME)))
            self._next = offset + 1
        assert (slot_end, time) == (table.slot_end, table.stream_time), "every item takes a slot and has its time"
        self._added += len(messages)
        for id_ in message.removed:
            self.matcher.remove(id_)
        return Applied(matches, message.removed, len(messages), documents)

    @property
    def stream_time(self) -> int | None:
        """Return the greatest event time so far, in microseconds; none before the first document."""
        time = self.matcher.table.stream_time
        return None if time == NO_TIME else time

    def position(self) -> Committed:
        """Return what to commit: the next offset, with the beginning of the window as metadata."""
        oldest = self.matcher.table.oldest
        first = next((mark for mark in self._marks if mark.slot_end > oldest), None)
        start = first.offset if first else self._next
        time = first.stream_time if first else self.stream_time
        return Committed(self._next, encode_window(Window(start, time, self.config.matching_fingerprint)))

    @property
    def next(self) -> int:
        """Return the offset of the next message to add."""
        return self._next

    def seek(self, offset: int) -> None:
        """Continue at ``offset``: everything before it was added, or has no record."""
        self._next = offset

    def commit(self) -> None:
        """End the step, and keep its changes."""
        if self._open:
            self.matcher.table.commit()
            self._open = False
        oldest = self.matcher.table.oldest
        while self._marks and self._marks[0].slot_end <= oldest:
            self._marks.popleft()

    def increments(self) -> dict[str, int]:
        """Return the increase of each count of ``COUNTED`` since the last call; call it between steps."""
        counts = {**self.matcher.table.counts(), "postings": self.matcher.table.posting_end}
        now = {name: counts[name] for name in COUNTED}
        grown = {name: now[name] - self._told[name] for name in COUNTED}
        self._told = now
        return grown

    def undo(self) -> None:
        """End the step, and undo its changes."""
        if not self._open:
            return
        self.matcher.table.undo()
        self._open = False
        self._next = self._next_before
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


def encode_window(window: Window) -> str:
    """Encode the metadata of a committed offset: compact JSON, far below the broker's limit of 4,096 characters."""
    fields = {
        "version": _METADATA_VERSION,
        "from": window.start,
        "time": window.stream_time,
        "fingerprint": window.fingerprint,
    }
    return orjson.dumps(fields).decode()


def decode_window(metadata: str) -> Window:
    """Decode the metadata of a committed offset; raises ``ConfigError`` for metadata of another program."""
    try:
        fields = orjson.loads(metadata)
        if fields["version"] != _METADATA_VERSION:
            raise ValueError
        return Window(fields["from"], fields["time"], fields["fingerprint"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"the group has committed an offset with metadata {metadata[:80]!r}, which no matcher wrote: "
            "use another group, or reset this one and say where to start with --from"
        ) from None
