"""The client of the cluster in memory obeys the laws of all transports, and rejects wrong calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import transport_group_laws
import transport_laws
import transport_reader_laws
from memory_cluster import METADATA_CHARACTERS_MAX
from memory_harness import MemoryHarness
from memory_transport import MemoryCluster, MemoryTransport
from transport_harness import Harness, joined, send

from neardup_workers.outside.transport.protocol import (
    Committed,
    Membership,
    Message,
    OffsetGoneError,
    Producer,
    UnknownTopicError,
    UnreachableError,
)

NO_MEMBER = Membership("group", -1, "", None)


def law_name(law: Callable[[Harness], None]) -> str:
    return law.__name__.removeprefix("law_")


LAWS = transport_laws.LAWS + transport_group_laws.LAWS + transport_reader_laws.LAWS


@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_memory_obeys(law: Callable[[Harness], None]) -> None:
    """Each law of ``transport_laws``, ``transport_group_laws`` and ``transport_reader_laws`` holds."""
    law(MemoryHarness())


def test_partitions_take_turns(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """A poll returns at most the requested number; a full partition does not starve the next."""
    cluster.create("two", 2)
    for partition in (0, 1):
        for _ in range(10):
            cluster.append("two", partition, b"x")
    member = joined(harness, "two")
    polled = [member.consumer.poll(0, 3).records for _ in range(2)]
    assert [{record.partition for record in records} for records in polled] in ([{0}, {1}], [{1}, {0}])
    assert [len(records) for records in polled] == [3, 3]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda producer: producer.send(Message("t", 0, b"")),
        lambda producer: producer.flush(),
        lambda producer: producer.send_offsets("t", {}, NO_MEMBER),
        lambda producer: producer.commit(),
        lambda producer: producer.abort(),
        lambda producer: (producer.begin(), producer.begin()),
    ],
)
def test_a_call_out_of_order_is_a_bug(transport: MemoryTransport, misuse: Callable[[Producer], object]) -> None:
    """Only ``begin`` is allowed outside a transaction, and only the other calls inside."""
    with pytest.raises(AssertionError, match="not allowed"):
        misuse(transport.producer("worker"))


def test_a_partition_needs_a_position_and_an_owner(harness: MemoryHarness) -> None:
    """``resume`` before ``seek``, and any call on a partition that is not assigned, is a bug."""
    consumer = harness.transport().consumer("t", "group", "one")
    with pytest.raises(AssertionError, match="not assigned"):
        consumer.seek(0, 0)
    consumer.poll(0, 1)
    with pytest.raises(AssertionError, match="seek"):
        consumer.resume([0])
    with pytest.raises(AssertionError, match="not assigned"):
        consumer.pause([1])


def test_metadata_has_a_limit(harness: MemoryHarness) -> None:
    """A longer text than the protocol allows is a bug of the caller."""
    member = joined(harness, "t")
    producer = harness.transport().producer("worker")
    producer.begin()
    with pytest.raises(AssertionError, match="4001"):
        producer.send_offsets("t", {0: Committed(0, "x" * (METADATA_CHARACTERS_MAX + 1))}, member.present())


def test_what_does_not_exist_is_refused(transport: MemoryTransport, cluster: MemoryCluster) -> None:
    """Unknown topics and partitions, offsets beyond the end, and a second topic of the same name."""
    with pytest.raises(UnknownTopicError, match="nowhere"):
        transport.consumer("nowhere", "group", "one")
    producer = transport.producer("worker")
    producer.begin()
    with pytest.raises(UnknownTopicError, match="partition 1"):
        producer.send(Message("t", 1, b""))
    for asked in (lambda: list(transport.read("t", 0, 0, 1)), lambda: transport.trim("t", {0: 1})):
        with pytest.raises(OffsetGoneError):
            asked()
    with pytest.raises(ValueError, match="must be new"):
        cluster.create("t", 1)


def test_reading_up_to_an_open_transaction_is_tried_again_later(
    cluster: MemoryCluster, transport: MemoryTransport
) -> None:
    """``read`` returns the records before it and then reports that it cannot continue."""
    cluster.append("t", 0, b"a")
    producer = transport.producer("worker")
    send(producer, "t", [b"b"])
    reading = transport.read("t", 0, 0, 2)
    assert [record.value for record in next(reading)] == [b"a"]
    with pytest.raises(UnreachableError):
        next(reading)
    producer.commit()
    assert [record.value for records in transport.read("t", 0, 0, 2) for record in records] == [b"a", b"b"]


def test_threads_can_wait_for_each_other(cluster: MemoryCluster) -> None:
    """With ``wait``, a poll returns when there are enough records, and ``committed`` when the transaction has ended."""
    transport = MemoryTransport(cluster, wait=time.sleep)
    consumer = transport.consumer("t", "group", "one")
    membership = consumer.poll(10, 1).membership
    consumer.seek(0, 0)
    consumer.resume([0])
    producer = transport.producer("worker")
    producer.begin()
    producer.send_offsets("t", {0: Committed(3, "")}, membership)

    def finish() -> None:
        producer.send(Message("t", 0, b"x"))
        producer.commit()

    finishing = threading.Thread(target=finish)
    finishing.start()
    assert consumer.committed(0) == Committed(3, "")
    assert [record.value for record in consumer.poll(10, 1).records] == [b"x"]
    finishing.join()
    assert consumer.poll(0.01, 1).records == []
