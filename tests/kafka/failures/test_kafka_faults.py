"""Messages between a worker and a real broker are lost, late or answered by an error; each pair is emitted once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from broker import Broker
from kafka import KafkaAdminClient
from kafka_deployment import WAIT_SECONDS_MAX, wait_until
from kafka_steps import (
    TRANSACTION_OUTLASTS_RESTART_SECONDS,
    MakeHarness,
    is_published,
    made_producer,
    publish,
    visible,
)
from kafka_world import World, stories
from proxy import Api, Proxy, Side

from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.transport.protocol import Message, OutcomeUnknownError

pytestmark = pytest.mark.usefixtures("quiet_client")
Worlds = Callable[..., World]
IN_A_STEP = (
    Api.FETCH, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN,
    Api.HEARTBEAT,
)  # fmt: skip
AT_A_START = (
    Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH,
    Api.LIST_OFFSETS,
)  # fmt: skip
BATCH = 12
DOCUMENTS = stories(BATCH * len(IN_A_STEP + AT_A_START))


@pytest.mark.parametrize("side", ["request", "response"])
def test_any_message_of_a_worker_may_be_lost(worlds: Worlds, broker: Broker, proxy: Proxy, side: Side) -> None:
    """Each API loses a message before or after the broker acts, at starts and in steps of either role."""
    world = worlds({"request_timeout_seconds": 1.0}, broker.bootstrap_proxied)
    places = [world.place(SIGN), world.place(MATCH)]
    for number, api in enumerate(AT_A_START + IN_A_STEP):
        lost = proxy.lose(api, side, times=2)
        if api in AT_A_START:
            for place in places:
                place.kill()
        world.load(DOCUMENTS[number * BATCH : (number + 1) * BATCH])
        world.run(lost.happened.is_set, f"a {side} of {api.name} is lost")
        world.settle()
        proxy.heal()
    assert world.pairs() == world.expected(DOCUMENTS) != []


@pytest.mark.parametrize("error_code", [45, 47, 59], ids=["out_of_order_sequence", "invalid_epoch", "unknown_producer"])
def test_a_produce_error_in_a_transaction_undoes_the_whole_step(
    worlds: Worlds, broker: Broker, proxy: Proxy, error_code: int
) -> None:
    """The client's own commit would succeed without the refused records."""
    world = worlds(None, broker.bootstrap_proxied)
    signer, matcher = world.place(SIGN), world.place(MATCH)
    world.load(DOCUMENTS[:40])
    world.settle()
    failed = proxy.fail(error_code, times=3)
    world.load(DOCUMENTS[40:80])
    world.settle()
    assert failed.count == failed.times
    assert signer.aborted + matcher.aborted + len(signer.endings + matcher.endings) > 0
    assert world.pairs() == world.expected(DOCUMENTS[:80]) != []


def test_records_that_come_late_belong_to_no_transaction(harnesses: MakeHarness, proxy: Proxy) -> None:
    """A produce request arrives after its transaction has ended: its records stay invisible and block no reader."""
    harness = harnesses(proxied=True, request_timeout_seconds=1.0, flush_timeout_seconds=2.0)
    transport, topic = harnesses().transport(), harness.make_topic(1)
    producer = made_producer(harness, harness.transport(), harness.name("writer"))
    late = proxy.hold(Api.PRODUCE, times=4)

    def is_late() -> bool:
        assert not is_published(producer, topic, b"late")
        return late.happened.is_set()  # a busy broker may be late with an earlier answer

    harness.wait_until(is_late, "the records are on their way")
    proxy.heal()
    harness.wait_until(lambda: is_published(producer, topic, b"second try"), "the second try is committed")
    late.let_pass()
    publish(transport, topic, [b"end"])
    harness.wait_until(lambda: visible(transport, topic) == [b"second try", b"end"], "the later records are visible")


def test_a_commit_that_comes_late_commits_nothing(harnesses: MakeHarness, proxy: Proxy) -> None:
    """By then a successor has ended the transaction and begun its own."""
    harness = harnesses(proxied=True, commit_timeout_seconds=2.0)
    transport, topic, name = harness.transport(), harness.make_topic(1), harness.name("writer")
    producer = transport.producer(name)
    producer.begin()
    producer.send(Message(topic, 0, b"undone"))
    producer.flush()
    late = proxy.hold(Api.END_TXN)
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    assert late.happened.is_set()
    transport = harnesses(proxied=True).transport()
    successor = transport.producer(name)
    successor.begin()
    successor.send(Message(topic, 0, b"open"))
    successor.flush()
    late.let_pass()
    assert visible(transport, topic) == []
    successor.commit()
    publish(transport, topic, [b"end"])
    harness.wait_until(lambda: visible(transport, topic) == [b"open", b"end"], "the successor's records are visible")


def are_markers_written(broker: Broker) -> bool:
    """Whether every decided transaction has its markers.

    A single node that is killed earlier may drop them at restart and leave the transaction open forever.
    """
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        waiting = admin.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"])
    return not any(waiting.values())


def test_a_broker_that_dies_in_a_commit_has_done_it_or_not(worlds: Worlds, broker: Broker, proxy: Proxy) -> None:
    """The broker dies after it has decided, and its answer is lost; after the restart each pair of the step exists
    once.
    """
    waits = {"request_timeout_seconds": 1.0, "connect_timeout_seconds": 1.0, "commit_timeout_seconds": 2.0}
    outlasting = {"transaction_timeout_seconds": TRANSACTION_OUTLASTS_RESTART_SECONDS}
    world = worlds({**waits, **outlasting}, broker.bootstrap_proxied)
    places = [world.place(SIGN), world.place(MATCH)]
    world.load(DOCUMENTS[:40])
    world.settle()
    decided = proxy.lose(Api.END_TXN, "response", times=2, hang=True)
    world.load(DOCUMENTS[40:80])

    def die() -> None:
        decided.happened.wait(WAIT_SECONDS_MAX)
        proxy.pause()  # no worker begins another transaction
        wait_until(lambda: are_markers_written(broker), "the markers of the transaction are written")
        broker.kill()

    dying = threading.Thread(target=die)
    dying.start()
    world.run(lambda: not dying.is_alive(), "the broker has died")
    proxy.heal()
    assert not broker.running
    broker.start()
    world.settle()
    assert "OutcomeUnknownError" in places[0].endings + places[1].endings
    assert world.pairs() == world.expected(DOCUMENTS[:80]) != []
