"""Whole batches of records are those of the client's own writer, and one future knows where each record went."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka import errors as client_errors
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.client_internals import batches
from neardup_workers.outside.transport.kafka.record_batches import PendingRecords, encode
from neardup_workers.outside.transport.protocol import sent_bytes

PLACE = TopicPartition("documents.unique", 3)

some_bytes = st.none() | st.binary(max_size=200)
header = st.tuples(st.text(max_size=5), st.binary(max_size=200))
record = st.tuples(some_bytes, some_bytes, st.integers(-1, 1 << 62), st.lists(header, max_size=3).map(tuple))


def collected(records) -> PendingRecords:
    pending = PendingRecords()
    for order, (key, value, timestamp, headers) in enumerate(records):
        pending.add(order, sent_bytes(key, value, headers), key, value, timestamp, headers)
    return pending


@given(st.lists(record, min_size=1, max_size=150), st.sampled_from([0, 3]))
def test_a_batch_has_the_bytes_that_the_client_would_write(records, codec: int) -> None:
    """Keys and values that are absent or empty, any number of headers, times in any order, compressed or not."""
    theirs = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for offset, (key, value, timestamp, headers) in enumerate(records):
        assert theirs.append(offset, timestamp, key, value, list(headers))
    pending = collected(records)
    encoded = encode(pending)
    assert len(encoded.content) <= pending.bytes_max
    ours = batches._builder(codec, encoded)
    ours.close()
    assert bytes(ours.buffer()) == bytes(theirs.build())
    assert ours.next_offset() == len(records)


def test_the_name_of_a_header_that_is_not_utf8_is_copied_byte_by_byte() -> None:
    """A filter copies what the producer of a document wrote; the client's writer raises an error of Python."""
    name = b"\xff\xfename"
    pending = collected([(b"k", b"v", 5, ((name.decode(errors="surrogateescape"), b"text"),))])
    made = batches._builder(0, encode(pending))
    made.close()
    [batch] = MemoryRecords(bytes(made.buffer()))
    [found] = kafka_records.read_batch(0, batch, with_headers=True)
    assert name in bytes(made.buffer())
    assert found.headers == ((name.decode(errors="surrogateescape"), b"text"),)


def test_a_batch_ends_before_the_record_that_exceeds_its_bytes() -> None:
    """A record larger than a batch has one for itself."""
    pending = PendingRecords()
    assert pending.has_room(10_000, 1_000)
    pending.add(0, 900, b"", b"x" * 900, 0, ())
    assert not pending.has_room(100, 1_000)
    assert pending.has_room(1, 1_100)


class Client:
    """The parts of a client that a batch goes through, without a broker."""

    def __init__(self) -> None:
        manager = SimpleNamespace(maybe_add_partition_to_transaction=lambda place: None, set_sequence_number=print)
        self._transaction_manager = manager
        self._accumulator = RecordAccumulator(batch_size=1 << 20)
        self._sender = SimpleNamespace(wakeup=lambda: None)

    def split(self, batch) -> None:
        """Divide a batch, as the client does when the broker answers that it is too large."""
        self._accumulator._batches[PLACE].remove(batch)
        batch.records.close()
        self._accumulator.split_and_reenqueue(batch)

    @property
    def waiting(self) -> list:
        return list(self._accumulator._batches[PLACE])


def sent_batch(client: Client, count: int) -> batches.SentRecords:
    return batches.hand_over(client, PLACE, encode(collected([(b"%d" % i, b"v", i, ()) for i in range(count)])))


def test_records_of_a_batch_that_is_divided_twice_have_their_own_offsets() -> None:
    """The client divides a batch that is too large for the topic; a thread that waits goes on when all parts are
    there."""
    client = Client()
    sent = sent_batch(client, 9)
    done = threading.Event()

    def waited() -> None:
        sent.wait(time.monotonic() + 60)
        done.set()

    thread = threading.Thread(target=waited, daemon=True)
    thread.start()
    client.split(client.waiting[0])
    assert [batch.record_count for batch in client.waiting] == [5, 4]
    client.split(client.waiting[0])
    assert [batch.record_count for batch in client.waiting] == [3, 2, 4]
    for batch, base in zip(client.waiting, (100, 200, 300), strict=True):
        assert not done.is_set()
        batch.complete(base, -1)
    thread.join(60)
    assert done.is_set()
    assert list(sent.offsets()) == [100, 101, 102, 200, 201, 300, 301, 302, 303]


def test_the_answer_of_the_broker_is_the_error_of_a_divided_batch() -> None:
    """One part is refused by the broker, and the other is dropped by the client for this reason."""
    client = Client()
    sent = sent_batch(client, 4)
    client.split(client.waiting[0])
    first, second = client.waiting
    dropped, refused = client_errors.KafkaError("dropped"), client_errors.MessageSizeTooLargeError("refused")
    first.complete_exceptionally(dropped, lambda _: dropped)
    second.complete_exceptionally(refused, lambda _: refused)
    sent.wait(time.monotonic() + 60)
    with pytest.raises(client_errors.MessageSizeTooLargeError, match="refused"):
        sent.offsets()


def test_a_batch_without_an_answer_is_an_error_at_the_deadline() -> None:
    """The wait ends, and no flush is left open in the client."""
    client = Client()
    sent = sent_batch(client, 2)
    with pytest.raises(client_errors.KafkaTimeoutError):
        batches.wait(client, [sent], 0.0)
    assert not client._accumulator.flush_in_progress()


def test_an_offset_that_the_broker_did_not_report_is_unknown() -> None:
    """The broker answers -1 for a batch that it already had."""
    client = Client()
    sent = sent_batch(client, 3)
    client.waiting[0].complete(-1, -1)
    assert list(sent.offsets()) == [-1, -1, -1]


def test_a_client_that_was_stopped_takes_no_batch() -> None:
    """It would get no answer."""
    client = Client()
    client._accumulator.close()
    with pytest.raises(client_errors.IllegalStateError):
        sent_batch(client, 1)
