"""Records on their way out, collected by partition and encoded as whole batches by one compiled pass.

The format is that of ``records``: a record is its length, attributes, difference of time, difference of offset, key,
value, number of headers, and headers, with lengths as zigzag varints.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from neardup.machine.compile import inner, kernel
from neardup.machine.lanes import copy_range
from neardup_workers.outside.transport.kafka.client_internals.batches import HEAD_BYTES, Records
from neardup_workers.outside.transport.protocol import Headers

# At most: the lengths of the record, of its key and of its value, attributes, both differences, number of headers.
_RECORD_BYTES = 5 + 5 + 5 + 1 + 10 + 5 + 5


@dataclass(slots=True)
class PendingRecords:
    """Records of a partition that are not in a batch yet, and the order in which they were sent.

    ``parts`` are key, value, and name and value of each header of every record; some keys and values are absent.
    """

    parts: list[bytes | None] = field(default_factory=list)
    headers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    bytes_max: int = HEAD_BYTES  # of the batch

    def has_room(self, sent_bytes: int, batch_bytes: int) -> bool:
        """Whether a record of this size goes into a batch of this size; a batch has at least one record."""
        return not self.order or self.bytes_max + _RECORD_BYTES + sent_bytes <= batch_bytes

    def add(
        self,
        order: int,
        sent_bytes: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> None:
        """Collect a record of ``sent_bytes``; see ``protocol.sent_bytes``."""
        self.parts += (key, value)
        for name, text in headers:
            self.parts += (name.encode(errors="surrogateescape"), text)
        self.headers.append(len(headers))
        self.times.append(int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)
        self.order.append(order)
        self.bytes_max += _RECORD_BYTES + sent_bytes


def encode(pending: PendingRecords) -> Records:
    """Return a batch of the collected records, of which there is at least one."""
    out = np.empty(pending.bytes_max, np.uint8)
    times, parts = np.array(pending.times, np.int64), pending.parts
    lengths = np.array([-1 if part is None else len(part) for part in parts], np.int64)
    joined = b"".join([part for part in parts if part])
    end = _write(np.frombuffer(joined, np.uint8), lengths, np.array(pending.headers, np.int64), times, out, HEAD_BYTES)
    return Records(bytearray(out[:end]), len(times), int(times[0]), int(times.max()))


def warm() -> None:
    """Compile the writer of batches, or load it from disk."""
    pending = PendingRecords()
    pending.add(0, 0, None, b"", 0, ())
    encode(pending)


@kernel("const u8[], i64[], i64[], i64[], u8[], i64")
def _write(parts, lengths, headers, times, out, pos):
    """Write records to ``out`` from ``pos`` on; returns the end.

    ``parts`` and ``out`` are ``uint8[n]``. ``lengths``, ``int64[parts]``, has those of key, value, and name and value
    of each header; ``headers`` and ``times`` are ``int64[records]``.
    """
    at, part = 0, 0
    for row in range(len(times)):
        late = times[row] - times[0]
        parts_end = part + 2 + 2 * headers[row]
        size = 1 + _varint_bytes(late) + _varint_bytes(row) + _varint_bytes(headers[row])
        for i in range(part, parts_end):
            size += _varint_bytes(lengths[i]) + max(lengths[i], 0)
        pos = _put(out, pos, size)
        out[pos] = 0
        pos = _put(out, pos + 1, late)
        pos = _put(out, pos, row)
        for i in range(part, parts_end):
            if i == part + 2:
                pos = _put(out, pos, headers[row])
            pos = _put(out, pos, lengths[i])
            length = max(lengths[i], 0)
            copy_range(parts, at, out, pos, length)
            pos += length
            at += length
        if parts_end == part + 2:
            pos = _put(out, pos, 0)
        part = parts_end
    return pos


@inner
def _zigzag(value):
    return np.uint64(np.int64(value) << np.int64(1)) ^ np.uint64(np.int64(value) >> np.int64(63))


@inner
def _varint_bytes(value):
    """Return the bytes of a zigzag varint."""
    left, count = _zigzag(value) >> np.uint64(7), 1
    while left:
        left >>= np.uint64(7)
        count += 1
    return count


@inner
def _put(out, pos, value):
    """Write a zigzag varint; returns the position after it."""
    left = _zigzag(value)
    while left >= np.uint64(0x80):
        out[pos] = np.uint8(left & np.uint64(0x7F)) | np.uint8(0x80)
        left >>= np.uint64(7)
        pos += 1
    out[pos] = np.uint8(left)
    return pos + 1
