"""The transport on Kafka obeys the laws of all transports, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import transport_group_laws
import transport_laws
import transport_reader_laws
from kafka_harness import KafkaHarness
from make_topic import MakeTopic
from transport_laws import Harness

from neardup.workers.transport.kafka import records as kafka_records
from neardup.workers.transport.kafka.client_internals import connections


@pytest.fixture
def harness(bootstrap_servers: str, make_topic: MakeTopic) -> Iterator[KafkaHarness]:
    made = KafkaHarness(bootstrap_servers, make_topic)
    yield made
    made.close()


@pytest.fixture
def slow_harness(bootstrap_servers: str, make_topic: MakeTopic) -> Iterator[KafkaHarness]:
    """The client itself reads sockets, batches and fetches, without the fast path."""
    made = KafkaHarness(bootstrap_servers, make_topic, fast_fetch=False)
    yield made
    made.close()


def law_name(law: Callable[[Harness], None]) -> str:
    return law.__name__.removeprefix("law_")


LAWS = transport_laws.LAWS + transport_group_laws.LAWS + transport_reader_laws.LAWS


@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_kafka_obeys(law: Callable[[Harness], None], harness: KafkaHarness) -> None:
    """Each law of ``transport_laws``, ``transport_group_laws`` and ``transport_reader_laws`` holds."""
    law(harness)


@pytest.mark.parametrize("law", transport_laws.LAWS + transport_reader_laws.LAWS, ids=law_name)
def test_kafka_obeys_without_the_fast_path(law: Callable[[Harness], None], slow_harness: KafkaHarness) -> None:
    """Each law of ``transport_laws`` holds with ``fast_fetch`` off, when the client parses the records of a batch."""
    law(slow_harness)


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_setting_decides_who_reads_records(is_fast: bool, bootstrap_servers: str, make_topic: MakeTopic) -> None:
    """With the setting off, the client's own code parses batches and reads the bytes of a connection."""
    harness = KafkaHarness(bootstrap_servers, make_topic, fast_fetch=is_fast)
    consumer = harness.transport().consumer(harness.make_topic(1), harness.name("group"), "")
    fetcher = consumer._client._fetcher
    (reads_batch, *_) = fetcher.PartitionRecords.args[0].args
    assert reads_batch is (kafka_records.read_batch if is_fast else kafka_records.read_batch_by_client)
    reads = [connection.transport._sock_recv.func for connection in consumer._client._manager._conns.values()]
    assert set(reads) == {connections.receive if is_fast else connections.receive_before_end}
    harness.close()
