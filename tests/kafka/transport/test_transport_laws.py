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

# Law -> the limits whose end it waits for.
SHORT: dict[str, dict[str, object]] = {
    "committed_waits_for_a_pending_transaction": {"committed_timeout_seconds": 1.5},
    "every_partition_has_one_owner_as_members_come_and_go": {"session_timeout_seconds": SESSION_SECONDS},
    "pause_stops_records_and_keeps_the_place": {"session_timeout_seconds": SESSION_SECONDS},
    "the_partitions_of_a_killed_member_move": {"session_timeout_seconds": SESSION_SECONDS},
}


@pytest.fixture
def harness(bootstrap_servers: str, make_topic: MakeTopic, law: Callable[[Harness], None]) -> Iterator[KafkaHarness]:
    made = KafkaHarness(bootstrap_servers, make_topic, **SHORT.get(law_name(law), {}))
    yield made
    made.close()


def law_name(law: Callable[[Harness], None]) -> str:
    return law.__name__.removeprefix("law_")


LAWS = transport_laws.LAWS + transport_group_laws.LAWS + transport_reader_laws.LAWS


@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_kafka_obeys(law: Callable[[Harness], None], harness: KafkaHarness) -> None:
    """Each law of ``transport_laws``, ``transport_group_laws`` and ``transport_reader_laws`` holds."""
    law(harness)
