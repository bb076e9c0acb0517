"""The transport on Kafka obeys the laws of all transports, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import transport_group_laws
import transport_laws
import transport_reader_laws
from kafka_harness import SESSION_SECONDS, KafkaHarness
from make_topic import MakeTopic
from transport_laws import Harness

from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.client_internals import connections

# Law -> the limits whose end it waits for.
SHORT: dict[str, dict[str, object]] = {
    "committed_waits_for_a_pending_transaction": {"committed_timeout_seconds": 1.5},
    "every_partition_has_one_owner_as_members_come_and_go": {"session_timeout_seconds": SESSION_SECONDS},
    "pause_stops_records_and_keeps_the_place": {"session_timeout_seconds": SESSION_SECONDS},
    "the_partitions_of_a_killed_member_move": {"session_timeout_seconds": SESSION_SECONDS},
}


@pytest.fixture
def harness(
    bootstrap_servers: str, make_topic: MakeTopic, law: Callable[[Harness], None], is_fast: bool
) -> Iterator[KafkaHarness]:
    """Without the fast path the client itself reads sockets, batches and fetches."""
    made = KafkaHarness(bootstrap_servers, make_topic, fast_fetch=is_fast, **SHORT.get(law_name(law), {}))
    yield made
    made.close()


def law_name(law: Callable[[Harness], None]) -> str:
    return law.__name__.removeprefix("law_")


LAWS = transport_laws.LAWS + transport_group_laws.LAWS + transport_reader_laws.LAWS


@pytest.mark.parametrize("is_fast", [True], ids=["fast"])
@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_kafka_obeys(law: Callable[[Harness], None], harness: KafkaHarness) -> None:
    """Each law of ``transport_laws``, ``transport_group_laws`` and ``transport_reader_laws`` holds."""
    law(harness)


@pytest.mark.parametrize("is_fast", [False], ids=["slow"])
@pytest.mark.parametrize("law", transport_laws.LAWS + transport_reader_laws.LAWS, ids=law_name)
def test_kafka_obeys_without_the_fast_path(law: Callable[[Harness], None], harness: KafkaHarness) -> None:
    """Each law of ``transport_laws`` holds with ``fast_fetch`` off, when the client parses the records of a batch."""
    law(harness)


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
