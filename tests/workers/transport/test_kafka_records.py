"""The compiled reader of a batch gives what the client's own reader gives for the same bytes."""

import socket
import struct
from functools import partial

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka import errors as client_errors
from kafka.consumer.fetcher import Fetcher
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.client_internals import connections, fetches
from neardup_workers.outside.transport.protocol import Record, RefusedBatch, UnreadableError

PLACE = TopicPartition("documents", 3)
LOG_APPEND_TIME = 0x08
ATTRIBUTES, CHECKED_FROM = 21, 21
CODECS = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}

some_bytes = st.none() | st.binary(max_size=80)
header = st.tuples(st.text(max_size=5), some_bytes)
# The client's writer takes times and values as they come: nothing of a record is bounded but by 64 bits.
record = st.tuples(st.integers(-1, 1 << 62), some_bytes, some_bytes, st.lists(header, max_size=2))


def built(records, codec="none", base=0, transaction=None, old=False):
    """The bytes of a batch, written by the client."""
    if old:
        builder = LegacyRecordBatchBuilder(1, CODECS[codec], 1 << 20)
        for i, (time, key, value, _) in enumerate(records):
            builder.append(i, time, key, value)
        return bytes(builder.build())
    producer, number = (-1, -1) if transaction is None else (transaction, 0)
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], transaction is not None, producer, number, number, 1 << 20)
    for i, one in enumerate(records):
        assert builder.append(i, *one)
    return struct.pack(">q", base) + bytes(builder.build())[8:]


def sealed(data):
    """The bytes with a correct checksum."""
    return data[:17] + struct.pack(">I", crc32c(data[CHECKED_FROM:])) + data[CHECKED_FROM:]


def marker(base, producer, commits):
    """The record that ends a transaction."""
    control = built([(0, struct.pack(">hh", 0, int(commits)), struct.pack(">hi", 0, 0), [])], base=base)
    data = bytearray(control)
    struct.pack_into(">h", data, ATTRIBUTES, 0x30)
    struct.pack_into(">q", data, 43, producer)
    return sealed(bytes(data))


def read(of, data, fetch_offset=0, aborted=()):
    """The result of a class of ``PartitionRecords``: records, next position, and whether it raised."""
    part = of(
        fetch_offset, PLACE, MemoryRecords(data), isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=list(aborted),
    )  # fmt: skip
    found = []
    try:
        while part and (some := part.take(3)):
            found += some
    except client_errors.CorruptRecordError:
        return found, part.next_fetch_offset, True
    return found, part.next_fetch_offset, False


def part_of(limits=None):
    """One partition's part of a fetch, in the class of a client."""
    limits = limits or kafka_records.ClientLimits()
    return fetches.partition_records(partial(kafka_records._read_or_refuse, limits), limits)


def both(data, fetch_offset=0, aborted=()):
    """The client's records in our form, and our records."""
    found, at, raised = read(Fetcher.PartitionRecords, data, fetch_offset, aborted)
    known = [one.timestamp if one.timestamp_type or one.timestamp >= 8_640_000_000 else -1 for one in found]
    rows = zip(found, known, strict=True)
    theirs = [Record(one.partition, one.offset, time, one.key, one.value) for one, time in rows]
    ours = read(part_of(), data, fetch_offset, aborted)
    assert all(type(one) is Record for one in ours[0])
    return (theirs, at, raised), ours


@given(
    st.lists(st.lists(record, min_size=1, max_size=4), min_size=1, max_size=2),
    st.sampled_from(sorted(CODECS)),
    st.booleans(),
    st.integers(0, 8),
)
def test_every_batch_is_read_as_the_client_reads_it(batches, codec, is_appended, fetch_offset):
    """Keys and values absent and empty, headers, codecs, times of the log, a fetch from the middle of a batch."""
    data = b""
    for number, records in enumerate(batches):
        batch = bytearray(built(records, codec, base=number * 10))
        if is_appended:
            batch[ATTRIBUTES + 1] |= LOG_APPEND_TIME
        data += sealed(bytes(batch))
    theirs, ours = both(data, fetch_offset)
    assert ours == theirs
    assert not ours[2]
    assert ours[1] == (len(batches) - 1) * 10 + len(batches[-1])


def test_what_a_transaction_hides_stays_hidden():
    """The reader skips aborted records and markers, but not the committed records of another producer among them."""
    texts = [(0, b"k", b"v%d" % i, []) for i in range(6)]
    data = (
        built(texts[:2], base=0, transaction=7)
        + built(texts[2:3], base=2, transaction=8)
        + marker(3, 7, commits=False)
        + built(texts[3:5], base=4, transaction=7)
        + marker(6, 8, commits=True)
        + marker(7, 7, commits=True)
    )

    class Aborted:
        producer_id, first_offset = 7, 0

    theirs, ours = both(data, aborted=[Aborted])
    assert ours == theirs
    assert [one.value for one in ours[0]] == [b"v2", b"v3", b"v4"]
    assert ours[1] == 8


def test_batches_of_an_older_format_are_read_by_the_client():
    """A log may be older than its broker."""
    theirs, ours = both(built([(5, b"k", b"v", []), (6, None, b"w", [])], old=True))
    assert ours == theirs
    assert [one.value for one in ours[0]] == [b"v", b"w"]


def test_a_compressed_batch_of_an_older_format_is_refused():
    """The client would unpack the whole batch without a limit."""
    with pytest.raises(UnreadableError, match=r"partition 3 are compressed in format 1.*newer producer"):
        read(part_of(), built([(5, b"k", b"v", [])], "gzip", old=True))


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_over_the_limit_becomes_one_record_that_says_so(codec):
    """The record has the last offset, so the reader continues after the batch; the batches around it are read."""
    small = [(0, None, b"small", [])]
    large = [(i, b"key", b"x" * 10_000, []) for i in range(20)]
    packed = built(large, codec, base=1)
    data = built(small, codec) + packed + built(small, codec, base=21)
    limits = kafka_records.ClientLimits(batch_bytes_max=200_000)
    found, at, raised = read(part_of(limits), data)
    assert [(one.offset, one.value, one.refused) for one in found] == [
        (0, b"small", None), (20, None, RefusedBatch(1, len(packed))), (21, b"small", None),
    ]  # fmt: skip
    assert (at, raised) == (22, False)
    limits = kafka_records.ClientLimits(batch_bytes_max=210_000)
    assert len(read(part_of(limits), data)[0]) == 22


def test_a_refused_batch_begins_where_the_reader_stood():
    """Records already read under another limit are not part of the letter."""
    data = built([(0, None, b"x" * 10_000, [])] * 5, "gzip", base=100)
    part = part_of(kafka_records.ClientLimits(batch_bytes_max=9_000))
    assert read(part, data, fetch_offset=103)[0][0].refused == RefusedBatch(103, len(data))


def test_an_unknown_codec_is_refused_by_name():
    """No restart mends this, so it has its own error with the offset and the remedy."""
    batch = bytearray(built([(0, b"k", b"v", [])], "gzip", base=7))
    batch[ATTRIBUTES + 1] = 5
    with pytest.raises(UnreadableError, match="the batch at offset 7 of partition 3 is packed by codec 5"):
        read(part_of(), sealed(bytes(batch)))


def test_a_poll_ends_with_the_record_that_uses_up_its_bytes():
    """A poll also counts bytes: a few large records need as much memory as many small ones."""
    limits = kafka_records.ClientLimits(left_bytes=250)
    part = part_of(limits)(0, PLACE, MemoryRecords(built([(0, b"k", b"v" * 99, [])] * 9)))
    assert [len(part.take(100)), limits.left_bytes] == [3, -50]
    limits.left_bytes = 100
    assert [len(part.take(100)), part.next_fetch_offset] == [1, 4]


def test_a_wrong_checksum_is_corrupt():
    """The reader returns no record of such a batch."""
    data = bytearray(built([(0, b"k", b"v", [])]))
    data[-1] ^= 1
    theirs, ours = both(bytes(data))
    assert ours == theirs == ([], 0, True)


@given(st.lists(record, min_size=1, max_size=4), st.data())
def test_damage_under_a_right_checksum_is_corrupt_or_harmless(records, data):
    """A batch of any bytes is refused or read to its end: no record reaches beyond its batch."""
    batch = bytearray(built(records))
    size = len(batch) - DefaultRecordBatch.HEADER_STRUCT.size
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, size - 1))
        batch[DefaultRecordBatch.HEADER_STRUCT.size + at] = data.draw(st.integers(0, 255))
    try:
        found = kafka_records.read_batch(0, DefaultRecordBatch(bytes(batch)))
    except client_errors.CorruptRecordError:
        return
    assert len(found) == len(records)
    assert sum(len(one.key or b"") + len(one.value or b"") for one in found) <= size


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 1 << 30])
def test_a_wrong_number_of_records_is_corrupt(count):
    """The number is larger than the bytes allow, smaller than the number of records, or zero."""
    batch = bytearray(built([(0, b"k", b"v", []), (0, b"k", b"w", [])]))
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(client_errors.CorruptRecordError, match="offset 0 is not made of records"):
        kafka_records.read_batch(0, DefaultRecordBatch(bytes(batch)))


def test_what_came_before_the_end_of_a_connection_is_given_out_first():
    """The bytes may be few or many. An empty read is not the end; the end is an error of the client."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection = KafkaTCPTransport(None, ours)
        assert connections.receive(connection) == (b"", None)
        sent = bytes(range(256)) * 400
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        got = b""
        while len(got) < len(sent):
            data, error = connections.receive(connection)
            assert error is None
            got += data
        assert got == sent
        data, error = connections.receive(connection)
        assert data == b""
        assert isinstance(error, client_errors.KafkaConnectionError)


@pytest.mark.parametrize(
    ("written", "read"), [(0, -1), (1_700_000_000, -1), (1_700_000_000_000, 1_700_000_000_000), (8_640_000_000,) * 2]
)
def test_a_time_of_1970_is_none(written, read):
    """Zero, and seconds written as milliseconds: the date of the document counts, and is not late or ahead."""
    batch = DefaultRecordBatch(built([(written, b"k", b"v", [])]))
    assert [one.timestamp_ms for one in kafka_records.read_batch(0, batch)] == [read]
