"""Guarantees of the transport on Kafka beyond the laws of all transports: deadlines, lost answers, sizes, settings."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from broker import Broker
from kafka_harness import quick_settings
from kafka_steps import (
    MakeHarness,
    committed_offset,
    is_published,
    made_producer,
    poll_records,
    publish,
    step,
    visible,
)
from make_topic import MakeTopic
from proxy import Api, Proxy

from neardup.errors import ConfigError
from neardup_workers.outside.transport.kafka.client_settings import is_fenced, is_passing
from neardup_workers.outside.transport.kafka.transport import KafkaSettings, TopicSpec
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Message,
    OutcomeUnknownError,
    TooLargeError,
    UnreachableError,
)

# The waits of these tests take a few seconds; without its deadlines the client waits for a minute, or forever.
DEADLINE_SECONDS = 45.0
OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "OPERATIONS.md"
pytestmark = pytest.mark.usefixtures("quiet_client")


def test_a_step_whose_records_the_broker_refused_is_not_committed(
    harnesses: MakeHarness, make_topic: MakeTopic
) -> None:
    """Rule 1: flush raises, commit raises the same, nothing is visible; the producer goes on after the abort."""
    harness = harnesses(compression=None)
    transport, topic = harness.transport(), make_topic("refuses", max_message_bytes=1_000)
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    producer.send(Message(topic, 0, b"fits"))
    producer.send(Message(topic, 0, b"x" * 2_000))
    for call in (producer.flush, producer.commit):
        with pytest.raises(AbortedError):
            call()
    producer.abort()
    assert visible(transport, topic) == []
    publish(transport, topic, [b"end"])
    producer.begin()
    producer.send(Message(topic, 0, b"later"))
    producer.commit()
    harness.wait_until(lambda: visible(transport, topic) == [b"end", b"later"], "the later step alone is visible")


def test_a_step_without_acknowledgement_ends_by_its_deadline(
    harnesses: MakeHarness, proxy: Proxy, broker: Broker
) -> None:
    """Rule 1: while all answers to produce requests are lost, flush times out; the step is undone and then repeated."""
    harness, direct = harnesses(proxied=True, request_timeout_seconds=0.8, flush_timeout_seconds=2.0), harnesses()
    topic = harness.make_topic(1)
    producer = made_producer(harness, harness.transport(), harness.name("writer"))
    producer.begin()
    proxy.lose(Api.PRODUCE, "response", times=1_000, hang=True)
    producer.send(Message(topic, 0, b"first try"))
    began = time.monotonic()
    with pytest.raises(AbortedError):
        producer.flush()
    assert time.monotonic() - began < DEADLINE_SECONDS
    proxy.heal()
    producer.abort()
    harness.wait_until(lambda: is_published(producer, topic, b"second try"), "the second try is committed")
    reading = direct.transport()
    harness.wait_until(lambda: visible(reading, topic) == [b"second try"], "the second try alone is visible")


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_commit_whose_message_was_lost_once_is_repeated(harnesses: MakeHarness, proxy: Proxy, side: str) -> None:
    """The message is lost before or after the broker acts: ``commit`` returns, and records and offsets exist once."""
    harness = harnesses(proxied=True)
    transport, topic = harness.transport(), harness.make_topic(1)
    publish(transport, topic, [b"in"])
    consumer = transport.consumer(topic, harness.name("group"), "one")
    polled = poll_records(harness, consumer)
    lost = proxy.lose(Api.END_TXN, side)  # type: ignore[arg-type]
    step(transport.producer(harness.name("worker")), topic, polled, b"out")
    assert lost.happened.is_set()
    harness.wait_until(lambda: visible(transport, topic) == [b"in", b"out"], "the output is there once")
    assert committed_offset(harness, consumer) == Committed(1, "")


@pytest.mark.parametrize(("side", "kept"), [("request", []), ("response", [b"out"])])
def test_a_commit_without_an_answer_is_reported_as_unknown(
    harnesses: MakeHarness, broker: Broker, proxy: Proxy, side: str, kept: list[bytes]
) -> None:
    """The error comes within the deadline, and every later call of the producer repeats it; a new producer finds the
    outcome.
    """
    harness = harnesses(proxied=True, commit_timeout_seconds=4.0)
    transport, topic = harness.transport(), harness.make_topic(1)
    transactional_id = harness.name("worker")
    producer = transport.producer(transactional_id)
    producer.begin()
    producer.send(Message(topic, 0, b"out"))
    producer.flush()
    lost = proxy.lose(Api.END_TXN, side, hang=True)  # type: ignore[arg-type]
    threading.Thread(target=lambda: lost.happened.wait(60) and proxy.cut(), daemon=True).start()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    assert time.monotonic() - began < DEADLINE_SECONDS
    for call in (producer.abort, producer.begin, producer.commit):
        with pytest.raises(OutcomeUnknownError):
            call()
    producer.close()
    direct = harnesses()
    direct.transport().producer(transactional_id)
    publish(direct.transport(), topic, [b"end"])
    wanted = [*kept, b"end"]
    direct.wait_until(lambda: visible(direct.transport(), topic) == wanted, f"{wanted} is visible")
    proxy.heal()


@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.FIND_COORDINATOR])
def test_a_producer_whose_start_is_not_answered_can_be_made_again(
    harnesses: MakeHarness, proxy: Proxy, api: Api
) -> None:
    """The client's own sentence says "unknown reasons"; a worker restarts in place after this error."""
    harness = harnesses(proxied=True, request_timeout_seconds=0.8)
    transport, name = harness.transport(), harness.name("worker")
    lost = proxy.lose(api, "response", hang=True)

    def is_lost() -> bool:
        with pytest.raises(UnreachableError, match="no answer in time"):
            transport.producer(name)
        return lost.happened.is_set()  # a busy broker may be late with another answer

    harness.wait_until(is_lost, "the answer is lost")
    proxy.heal()
    made_producer(harness, transport, name)


def test_a_read_gives_up_before_a_transaction_that_stays_open(harnesses: MakeHarness) -> None:
    """The read waits for ``read_timeout_seconds`` and reports its position."""
    harness = harnesses(read_timeout_seconds=2.0)
    transport, topic = harness.transport(), harness.make_topic(1)
    publish(transport, topic, [b"a"])
    producer = transport.producer(harness.name("open"))
    producer.begin()
    producer.send(Message(topic, 0, b"b"))
    producer.flush()

    values: list[bytes | None] = []

    def read() -> None:
        values.clear()
        for records in transport.read(topic, 0, 0, 3):
            values.extend(record.value for record in records)

    def stops_before_it() -> bool:
        with pytest.raises(UnreachableError) as stopped:
            read()
        assert values in ([], [b"a"])  # nothing if the first answer comes too late
        return bool(values) and "at 2" in str(stopped.value)

    harness.wait_until(stops_before_it, "the read stops before the transaction")


def test_the_command_of_the_runbooks_names_the_worker_of_an_open_transaction(
    harnesses: MakeHarness, broker: Broker
) -> None:
    """And after the transaction has ended it names it no more."""
    harness = harnesses()
    transport, topic, name = harness.transport(), harness.make_topic(1), harness.name("open")
    producer = transport.producer(name)
    producer.begin()
    producer.send(Message(topic, 0, b"b"))
    producer.flush()
    (command,) = set(re.findall("^    (kafka-python .*)$", OPERATIONS.read_text(encoding="utf-8"), re.M))

    def said() -> str:
        words = command.replace("BROKER", broker.bootstrap).split()
        tool = [Path(sys.executable).parent / words[0], *words[1:]]
        return subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True, timeout=180).stdout

    assert name in said()
    producer.abort()
    harness.wait_until(lambda: name not in said(), "the transaction has ended")


def test_the_largest_record_fits_and_one_byte_more_is_refused(harnesses: MakeHarness) -> None:
    """``message_bytes_max`` counts key and value; the refusal is immediate, and the transaction continues."""
    harness = harnesses(compression=None)
    transport, topic = harness.transport(), harness.make_topic(1)
    producer = transport.producer(harness.name("writer"))
    size = transport.message_bytes_max
    producer.begin()
    producer.send(Message(topic, 0, b"x" * (size - 3), key=b"key"))
    with pytest.raises(TooLargeError, match=f"{size + 1} bytes"):
        producer.send(Message(topic, 0, b"x" * (size - 2), key=b"key"))
    producer.flush()
    producer.commit()
    harness.wait_until(lambda: [len(v or b"") for v in visible(transport, topic)] == [size - 3], "it is there")


def test_a_record_that_the_topic_refuses_is_reported_with_topic_answer_and_remedy(harnesses: MakeHarness) -> None:
    """The limit of a topic was lowered: the error says which topic, what the broker answered, and what to raise."""
    harness = harnesses(compression=None)
    transport, small, other = harness.transport(), harness.name("small"), harness.make_topic(1)
    transport.create_topics([TopicSpec(small, 1, 1, {"max.message.bytes": "1000"})])
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    producer.send(Message(other, 0, b"short"))
    producer.send(Message(small, 0, b"x" * 5_000))
    with pytest.raises(AbortedError, match=rf"send to {small}-0, .*max\.message\.bytes"):
        producer.flush()
    assert "MessageSizeTooLarge" in producer.last_error
    producer.abort()


def test_a_batch_that_is_too_large_for_its_topic_is_divided_and_committed(harnesses: MakeHarness) -> None:
    """The topic takes each record, but not as many at once as a batch holds: nothing is lost, and offsets are right."""
    harness = harnesses(compression=None)
    transport, small = harness.transport(), harness.name("small")
    transport.create_topics([TopicSpec(small, 1, 1, {"max.message.bytes": "20000"})])
    values = [b"%d " % i * 1_000 for i in range(40)]
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    for value in values:
        producer.send(Message(small, 0, value))
    offsets = producer.flush()
    producer.commit()
    assert offsets == list(range(40))
    harness.wait_until(lambda: visible(transport, small) == values, "all are read in their order")


def test_a_partition_with_records_all_the_time_is_known_to_be_read_to_its_end(harnesses: MakeHarness) -> None:
    """The answer that brought a record also says that the log ends there: no second without records is needed."""
    harness = harnesses()
    transport, topic = harness.transport(), harness.make_topic(1)
    consumer = transport.consumer(topic, harness.name("group"), "one")

    def stands_at(position: int) -> bool:
        consumer.poll(0.0, 10)
        return consumer.positions() == {0: position}

    for i in range(3):
        publish(transport, topic, [b"%d" % i])
        poll_records(harness, consumer)
        harness.wait_until(lambda i=i: stands_at(2 * i + 2), "it is past the control record of the transaction")  # type: ignore[misc]
        assert consumer.ends()[0][:2] == (2 * i + 2, 2 * i + 2)


def test_topics_are_created_once_and_described(harnesses: MakeHarness) -> None:
    """Existing topics stay unchanged; a setting that the broker refuses is a ``ConfigError``."""
    harness = harnesses()
    admin, name = harness.transport(), harness.name("made")
    spec = TopicSpec(name, 3, 1, {"retention.ms": "123456", "message.timestamp.type": "LogAppendTime"})
    assert admin.create_topics([spec]) == [name]
    assert admin.create_topics([spec._replace(partitions=5)]) == []
    found = admin.describe(name)
    assert (found.name, found.partitions, found.replication) == (name, 3, 1)
    assert {key: found.configs[key] for key in spec.configs} == spec.configs
    assert found.configs["cleanup.policy"] == "delete"
    with pytest.raises(ConfigError, match="refuses"):
        admin.create_topics([TopicSpec(harness.name("bad"), 1, 1, {"retention.ms": "soon"})])
    with pytest.raises(ConfigError, match="refuses"):
        admin.create_topics([TopicSpec(harness.name("bad"), 1, 99)])


def test_no_secret_is_shown() -> None:
    """Neither ``repr`` nor the error message of a refused option shows a secret; the message names the option."""
    settings = quick_settings("localhost:1", client={"sasl_plain_password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert settings.options()["sasl_plain_password"] == "hunter2"
    with pytest.raises(ConfigError, match="sasl_plain_pasword") as refused:
        quick_settings("localhost:1", client={"sasl_plain_pasword": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_waits_that_do_not_nest_are_refused() -> None:
    """A flush that may outlast the transaction is refused; the message gives both values."""
    with pytest.raises(ConfigError, match=r"flush_timeout_seconds is 20.*transaction_timeout_seconds is 15"):
        KafkaSettings("localhost:1", flush_timeout_seconds=20)


def test_a_leader_that_is_no_broker_any_more_is_asked_for_again() -> None:
    """Metadata may name a dead node; a new request names another node, or the same node after its restart."""
    from kafka import errors

    assert is_passing(errors.UnknownBrokerIdError(1))
    assert not is_passing(errors.InvalidTopicError())


def test_being_fenced_is_known_from_the_text_alone() -> None:
    """The client wraps the error of the fenced producer in another error, or in a text."""
    from kafka import errors

    assert is_fenced(errors.KafkaError("in an error state: ProducerFencedError"))
    assert is_fenced(errors.KafkaError("cannot send", errors.ProducerFencedError()))
    assert is_fenced(errors.CommitFailedError())
    assert not is_fenced(errors.KafkaTimeoutError("no answer"))
