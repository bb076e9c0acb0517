"""A deployment over several racks reads from the replica of its own rack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from brokers import Brokers
from debian_packages import absent
from jars import BrokerUnavailableError, find_java, resolve_jars
from kafka import KafkaAdminClient
from kafka.consumer.fetcher import Fetcher
from kafka_harness import KafkaHarness
from kafka_steps import poll_records, publish, visible

RACKS = "abc"
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
TOPIC, VALUES = "racks", [b"%d" % number for number in range(500)]
LEADER, NEAR = 1, 2  # ids of nodes


@pytest.fixture
def racks(quiet_client: None) -> Iterator[Brokers]:
    """Three brokers, each on a rack of its own."""
    try:
        resolve_jars(), find_java()
    except BrokerUnavailableError as error:
        absent(f"no Kafka brokers: {error}")
    brokers = Brokers(len(RACKS), SELECTOR)
    for node, rack in zip(brokers.nodes, RACKS, strict=True):
        node.settings["broker.rack"] = rack
    with brokers:
        yield brokers


def test_records_come_from_the_replica_of_the_rack_that_is_set_else_from_the_leader(
    racks: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of a group and readers without one get every record from that broker alone."""
    sent_bytes: Counter[int] = Counter()  # by node
    handle = Fetcher._handle_fetch_response

    def counted(fetcher: Any, node: int, offsets: Any, send_time: float, response: Any) -> Any:
        parts = (part for topic in response.responses for part in topic.partitions)
        sent_bytes[node] += sum(len(part.records or b"") for part in parts)
        return handle(fetcher, node, offsets, send_time, response)

    monkeypatch.setattr(Fetcher, "_handle_fetch_response", counted)
    with KafkaAdminClient(bootstrap_servers=racks.bootstrap) as admin:
        admin.create_topics({TOPIC: {"assignments": {0: [LEADER, NEAR, 3]}}})
        for _ in range(9):  # any node may answer
            admin.wait_for_topics([TOPIC])
    for rack, node in (("", LEADER), (RACKS[NEAR - 1], NEAR)):
        harness = KafkaHarness(racks.bootstrap, lambda *_, **__: TOPIC, client_rack=rack)
        transport = harness.transport()
        if not rack:
            publish(transport, TOPIC, VALUES)
        sent_bytes.clear()
        member = transport.consumer(TOPIC, harness.name("group"), "one")
        polled = poll_records(harness, member, len(VALUES))
        assert [record.value for record in polled.records] == visible(transport, TOPIC) == VALUES
        assert (+sent_bytes).keys() == {node}
        harness.close()
