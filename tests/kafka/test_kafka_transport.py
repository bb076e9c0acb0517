"""What the transport on Kafka adds to the laws of all transports: deadlines, lost answers, a broker that dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from broker import Broker
from conftest import MakeTopic
from kafka_harness import KafkaHarness, quick_settings
from proxy import Api, Proxy

from stream.errors import ConfigError
from workers.transport import (
    AbortedError,
    Committed,
    Consumer,
    FencedError,
    OutcomeUnknownError,
    Polled,
    Producer,
    TooLargeError,
    TransportError,
    UnreachableError,
)
from workers.transports.kafka import KafkaSettings, KafkaTransport, TopicSpec
from workers.transports.kafka_settings import is_fenced

MakeHarness = Callable[..., KafkaHarness]
# The client logs each of its attempts; the transport's own words are looked at here.
TRANSPORT_LOGGERS = "workers.transports"
# A broker that finds a transaction timed out while it starts, before it counts as a leader itself, takes the written
# partitions for deleted and ends the transaction without its control records: what was aborted then comes true with the
# next commit of that id. It looks for such after 10 s, by when it has started; but the broker of the tests after 1 s.
TRANSACTION_OUTLASTS_RESTART_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _quiet_client() -> Iterator[None]:
    """The client writes lines by the hundred while its broker is away."""
    client = logging.getLogger("kafka")
    client.setLevel(logging.CRITICAL)
    yield
    client.setLevel(logging.NOTSET)


@pytest.fixture
def harnesses(broker: Broker, make_topic: MakeTopic) -> Iterator[MakeHarness]:
    """Make harnesses on the broker that the test may kill, closed after it; ``proxied`` goes through the proxy."""
    made: list[KafkaHarness] = []

    def make(proxied: bool = False, **changes: object) -> KafkaHarness:
        made.append(KafkaHarness(broker.bootstrap_proxied if proxied else broker.bootstrap, make_topic, **changes))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def start(consumer: Consumer, polled: Polled) -> None:
    """Begin what was assigned where the group stands, else at 0."""
    for partition in polled.assigned:
        committed = consumer.committed(partition)
        consumer.seek(partition, committed.offset if committed else 0)
    consumer.resume(polled.assigned)


def poll_records(harness: KafkaHarness, consumer: Consumer, count: int = 1) -> Polled:
    """Poll until a step has that many records; what is assigned on the way begins."""
    steps: list[Polled] = []

    def has_records() -> bool:
        steps.append(consumer.poll(0.5, count))
        start(consumer, steps[-1])
        return len(steps[-1].records) == count

    harness.wait_until(has_records, f"{count} records are polled at once")
    return steps[-1]


def publish(transport: KafkaTransport, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = transport.producer(f"publish-{topic}")
    producer.begin()
    for value in values:
        producer.send(topic, partition, value)
    producer.flush()
    producer.commit()
    producer.close()


def visible(transport: KafkaTransport, topic: str) -> list[bytes | None]:
    """What is committed in partition 0."""
    start_offset, end = transport.bounds(topic)[0]
    return [record.value for records in transport.read(topic, 0, start_offset, end) for record in records]


def test_a_step_whose_records_the_broker_refused_is_not_committed(
    harnesses: MakeHarness, make_topic: MakeTopic
) -> None:
    """Rule 1: flush raises, commit raises the same, nothing is visible; the producer goes on after the abort."""
    harness = harnesses(compression=None)
    transport, topic = harness.transport(), make_topic("refuses", max_message_bytes=1_000)
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    producer.send(topic, 0, b"fits")
    producer.send(topic, 0, b"x" * 2_000)
    for call in (producer.flush, producer.commit):
        with pytest.raises(AbortedError):
            call()
    producer.abort()
    assert visible(transport, topic) == []
    publish(transport, topic, [b"end"])
    producer.begin()
    producer.send(topic, 0, b"later")
    producer.commit()
    harness.wait_until(lambda: visible(transport, topic) == [b"end", b"later"], "the later step alone is visible")


def test_a_step_without_acknowledgement_ends_by_its_deadline(
    harnesses: MakeHarness, proxy: Proxy, broker: Broker
) -> None:
    """Rule 1: while every answer to a produce is lost, flush gives up in time; the step is undone and done again."""
    harness = harnesses(proxied=True, request_timeout_seconds=0.8, flush_timeout_seconds=2.0)
    transport, topic = harness.transport(), harness.make_topic(1)
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    proxy.lose(Api.PRODUCE, "response", times=1_000, hang=True)
    producer.send(topic, 0, b"first try")
    began = time.monotonic()
    with pytest.raises(AbortedError):
        producer.flush()
    assert time.monotonic() - began < 4
    proxy.heal()
    producer.abort()
    producer.begin()
    producer.send(topic, 0, b"second try")
    producer.flush()
    producer.commit()
    harness.wait_until(lambda: visible(transport, topic) == [b"second try"], "the second try alone is visible")


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_commit_whose_message_was_lost_once_is_repeated(harnesses: MakeHarness, proxy: Proxy, side: str) -> None:
    """Lost before or after the broker acted: ``commit`` returns, the records and the offsets are there once."""
    harness = harnesses(proxied=True)
    transport, topic = harness.transport(), harness.make_topic(1)
    publish(transport, topic, [b"in"])
    consumer = transport.consumer(topic, harness.name("group"), "one")
    polled = poll_records(harness, consumer)
    lost = proxy.lose(Api.END_TXN, side)  # type: ignore[arg-type]
    step(transport.producer(harness.name("worker")), topic, polled, b"out")
    assert lost.happened.is_set()
    harness.wait_until(lambda: visible(transport, topic) == [b"in", b"out"], "the output is there once")
    assert consumer.committed(0) == Committed(1, "")


@pytest.mark.parametrize(("side", "kept"), [("request", []), ("response", [b"out"])])
def test_a_commit_without_an_answer_is_told_as_unknown(
    harnesses: MakeHarness, broker: Broker, proxy: Proxy, side: str, kept: list[bytes]
) -> None:
    """Within the deadline, and every later call of that producer says it too; a new producer finds the truth."""
    harness = harnesses(proxied=True, commit_timeout_seconds=1.5)
    transport, topic = harness.transport(), harness.make_topic(1)
    transactional_id = harness.name("worker")
    producer = transport.producer(transactional_id)
    producer.begin()
    producer.send(topic, 0, b"out")
    producer.flush()
    lost = proxy.lose(Api.END_TXN, side, hang=True)  # type: ignore[arg-type]
    threading.Thread(target=lambda: lost.happened.wait(5) and proxy.cut(), daemon=True).start()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    assert time.monotonic() - began < 3
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


def step(producer: Producer, topic: str, polled: Polled, value: bytes) -> None:
    """One output, and the offsets after the records, in the only safe order."""
    producer.begin()
    producer.send(topic, 0, value)
    producer.flush()
    offsets = {record.partition: Committed(record.offset + 1, "") for record in polled.records}
    producer.send_offsets(topic, offsets, polled.membership)
    producer.commit()


def test_records_polled_before_their_partition_went_cannot_be_committed(harnesses: MakeHarness) -> None:
    """Rule 2: the membership that came with the records is refused once another member has joined."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    for partition in (0, 1):
        publish(transport, topic, [b"in"], partition)
    older = transport.consumer(topic, group, "older")
    before = poll_records(harness, older, count=2)
    newer = transport.consumer(topic, group, "newer")
    revoked: list[int] = []

    def is_moved() -> bool:
        revoked.extend(older.poll(0.1, 10).revoked)
        return bool(newer.poll(0.1, 10).assigned)

    harness.wait_until(is_moved, "a partition has moved")
    assert len(revoked) == 1
    producer = transport.producer(harness.name("worker"))
    with pytest.raises(FencedError):
        step(producer, topic, before, b"never")
    producer.abort()
    assert newer.committed(revoked[0]) is None


def test_a_step_in_hand_is_committed_while_the_group_waits_to_rebalance(harnesses: MakeHarness) -> None:
    """A poll gives its records rather than join with them in hand, so the step is not lost to the rebalance."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    older = transport.consumer(topic, group, "older")
    harness.wait_until(lambda: start(older, older.poll(0.1, 10)) is None and len(older.positions()) == 2, "both owned")
    publish(transport, topic, [b"in"])
    newer = transport.consumer(topic, group, "newer")
    joining = threading.Timer(1.0, lambda: newer.poll(5.0, 10))
    joining.start()
    began = time.monotonic()
    polled = older.poll(15.0, 10)
    assert 0.9 < time.monotonic() - began < 10  # not before the call to rebalance, and at once after it
    assert [record.value for record in polled.records] == [b"in"]
    step(transport.producer(harness.name("worker")), topic, polled, b"out")
    assert older.committed(0) == Committed(1, "")
    assert older.poll(5.0, 10).membership.generation > polled.membership.generation
    joining.join(10)


def test_members_that_are_mostly_busy_settle(harnesses: MakeHarness) -> None:
    """A join that ends between two polls counts; the client alone would begin another, for ever."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(4), harness.name("group")
    members = [transport.consumer(topic, group, f"busy-{number}") for number in range(3)]
    owned: list[set[int]] = [set() for _ in members]
    last: list[int] = [-1 for _ in members]

    def is_settled() -> bool:
        for number, member in enumerate(members):
            polled = member.poll(0.02, 10)
            owned[number] = (owned[number] - set(polled.revoked)) | set(polled.assigned)
            last[number] = polled.membership.generation
            time.sleep(0.15)
        return sorted(p for parts in owned for p in parts) == [0, 1, 2, 3] and all(owned) and len(set(last)) == 1

    harness.wait_until(is_settled, "four partitions are shared by three busy members")
    assert last[0] < 12


def test_a_member_that_missed_a_generation_gets_everything_anew(harnesses: MakeHarness) -> None:
    """Others may have had its partitions meanwhile: they are told as revoked and assigned, and stand still."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    publish(transport, topic, [b"in"])
    consumer = transport.consumer(topic, group, "one")
    polled = poll_records(harness, consumer)
    notes = consumer._notes  # type: ignore[attr-defined]
    notes.membership = polled.membership._replace(member="as if put out in mid-rebalance")
    consumer._client._coordinator.request_rejoin()  # type: ignore[attr-defined]
    again = consumer.poll(5, 10)
    assert (again.revoked, again.assigned, again.records) == ((0, 1), (0, 1), [])
    with pytest.raises(AssertionError):
        consumer.resume([0])


def test_a_member_that_stopped_polling_is_put_out(harnesses: MakeHarness) -> None:
    """Heartbeats alone keep no place: after the poll interval and a session its step is refused, and all comes anew."""
    harness = harnesses(session_timeout_seconds=1.0, heartbeat_seconds=0.3, poll_interval_seconds_max=1.0)
    transport, topic, group = harness.transport(), harness.make_topic(1), harness.name("group")
    publish(transport, topic, [b"in"])
    zombie = transport.consumer(topic, group, "zombie")
    polled = poll_records(harness, zombie)
    heir = transport.consumer(topic, group, "heir")
    harness.wait_until(lambda: bool(heir.poll(0.2, 10).assigned), "the heir owns the partition")
    producer = transport.producer(harness.name("worker"))
    with pytest.raises(FencedError):
        step(producer, topic, polled, b"never")
    producer.abort()
    heir.close()
    seen: list[int] = []

    def is_back() -> bool:
        again = zombie.poll(0.2, 10)
        assert again.records == []
        seen.extend(again.revoked)
        return again.assigned == (0,)

    harness.wait_until(is_back, "the zombie has joined again")
    assert seen == [0]
    assert visible(transport, topic) == [b"in"]


def test_an_instance_that_was_replaced_learns_it_from_poll(harnesses: MakeHarness) -> None:
    """The client says nothing and stops its heartbeats; the transport raises, for good."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(1), harness.name("group")
    older = transport.consumer(topic, group, "same")
    harness.wait_until(lambda: bool(older.poll(0.1, 10).assigned), "the older one owns the partition")
    newer = transport.consumer(topic, group, "same")
    harness.wait_until(lambda: bool(newer.poll(0.1, 10).assigned), "the newer one owns the partition")

    def is_told() -> bool:
        newer.poll(0, 10)
        try:
            older.poll(0.1, 10)
        except FencedError:
            return True
        return False

    harness.wait_until(is_told, "the older one is told")
    with pytest.raises(FencedError):
        older.poll(0.1, 10)


def test_a_copy_survives_the_death_of_the_broker(
    harnesses: MakeHarness, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed in mid-step and started again: the same consumer goes on, every record is copied once, in order."""
    harness = harnesses(
        request_timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        transaction_timeout_seconds=TRANSACTION_OUTLASTS_RESTART_SECONDS,
    )
    transport, source, target = harness.transport(), harness.make_topic(1), harness.make_topic(1)
    values = [b"%d" % number for number in range(600)]
    publish(transport, source, values)
    copier = Copier(transport, source, target, harness.name("group"))
    harness.wait_until(lambda: copier.step() >= 100, "some steps are done")
    copier.before_flush = broker.kill
    caplog.set_level(logging.WARNING, TRANSPORT_LOGGERS)

    def times_told(text: str) -> int:
        return sum(text in record.message for record in caplog.records)

    harness.wait_until(lambda: copier.step() > 0 and times_told("does not answer") > 0, "the broker is seen to be away")
    copier.step()
    broker.start()
    harness.wait_until(lambda: copier.step() >= len(values), "everything is copied")
    copier.close()
    assert visible(transport, target) == values
    assert (times_told("does not answer"), times_told("is back")) == (1, 1)


class Copier:
    """A worker in small: copies records in steps of at most 50, and starts anew after what it cannot undo."""

    def __init__(self, transport: KafkaTransport, source: str, target: str, group: str) -> None:
        self.transport, self.source, self.target = transport, source, target
        self.consumer = transport.consumer(source, group, "copier")
        self.producer: Producer | None = transport.producer(group)
        self.group = group
        self.position = 0
        self.before_flush: Callable[[], None] | None = None

    def step(self) -> int:
        """Copy what one poll gives; returns the position reached."""
        polled = self.consumer.poll(0.3, 50)
        try:
            start(self.consumer, polled)
            if polled.records:
                self.copy(polled)
        except UnreachableError:
            pass
        except AbortedError:
            assert self.producer is not None
            self.producer.abort()
            self.consumer.seek(0, polled.records[0].offset)
        except (FencedError, OutcomeUnknownError):
            self.close()
            self.__init__(self.transport, self.source, self.target, self.group)  # type: ignore[misc]
        return self.position

    def copy(self, polled: Polled) -> None:
        assert self.producer is not None
        self.producer.begin()
        for record in polled.records:
            self.producer.send(self.target, 0, record.value)
        if self.before_flush is not None:
            before_flush, self.before_flush = self.before_flush, None
            before_flush()
        self.producer.flush()
        after = polled.records[-1].offset + 1
        self.producer.send_offsets(self.source, {0: Committed(after, "")}, polled.membership)
        self.producer.commit()
        self.position = after

    def close(self) -> None:
        self.consumer.close()
        if self.producer is not None:
            self.producer.close()


def test_a_dead_broker_blocks_nobody_for_long(harnesses: MakeHarness, broker: Broker) -> None:
    """Every call ends by its deadline with an error that says so; the same objects work when the broker is back."""
    harness = harnesses(
        request_timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        close_timeout_seconds=0.5,
        transaction_timeout_seconds=TRANSACTION_OUTLASTS_RESTART_SECONDS,
    )
    transport, topic = harness.transport(), harness.make_topic(1)
    consumer = transport.consumer(topic, harness.name("group"), "one")
    harness.wait_until(lambda: bool(consumer.poll(0.1, 10).assigned), "the partition is assigned")
    producer = transport.producer(harness.name("worker"))
    producer.begin()
    producer.send(topic, 0, b"never")
    producer.flush()
    broker.kill()
    expected: list[tuple[Callable[[], object], type[TransportError] | None]] = [
        (producer.abort, None),
        (producer.begin, AbortedError),
        (producer.abort, None),
        (lambda: transport.partitions(topic), UnreachableError),
        (lambda: transport.bounds(topic), UnreachableError),
        (lambda: transport.producer("another"), UnreachableError),
        (lambda: transport.consumer(topic, "another", "one"), UnreachableError),
        (lambda: consumer.committed(0), UnreachableError),
        (lambda: consumer.poll(0.2, 10), None),
    ]
    for call, error in expected:
        began = time.monotonic()
        if error is None:
            call()
        else:
            with pytest.raises(error):
                call()
        assert time.monotonic() - began < 4, call
    broker.start()
    harness.wait_until(lambda: is_reachable(transport, topic), "the broker answers")
    producer.begin()
    producer.send(topic, 0, b"after")
    producer.flush()
    producer.commit()
    assert consumer.committed(0) is None
    harness.wait_until(lambda: visible(transport, topic) == [b"after"], "the later step alone is visible")


def is_reachable(transport: KafkaTransport, topic: str) -> bool:
    try:
        return transport.partitions(topic) > 0
    except UnreachableError:
        return False


def test_close_is_quick_when_the_broker_is_dead(harnesses: MakeHarness, broker: Broker) -> None:
    """With an open transaction and a member in a group, both are closed within a few seconds and leave no thread."""
    harness = harnesses(close_timeout_seconds=0.5)
    before = set(threading.enumerate())
    transport, topic = harness.transport(), harness.make_topic(1)
    consumer = transport.consumer(topic, harness.name("group"), "")
    harness.wait_until(lambda: bool(consumer.poll(0.1, 10).assigned), "the partition is assigned")
    producer = transport.producer(harness.name("worker"))
    producer.begin()
    producer.send(topic, 0, b"never")
    broker.kill()
    began = time.monotonic()
    producer.close()
    consumer.close()
    transport.close()
    assert time.monotonic() - began < 5
    harness.wait_until(lambda: set(threading.enumerate()) <= before, "the clients' threads have ended")


def test_a_read_gives_up_before_a_transaction_that_stays_open(harnesses: MakeHarness) -> None:
    """It waits for ``read_timeout_seconds`` and says where it stands."""
    harness = harnesses(read_timeout_seconds=0.5)
    transport, topic = harness.transport(), harness.make_topic(1)
    publish(transport, topic, [b"a"])
    producer = transport.producer(harness.name("open"))
    producer.begin()
    producer.send(topic, 0, b"b")
    producer.flush()
    reading = transport.read(topic, 0, 0, 3)
    assert [record.value for record in next(reading)] == [b"a"]
    with pytest.raises(UnreachableError, match="at 2"):
        next(reading)


def test_the_largest_record_fits_and_one_byte_more_is_refused(harnesses: MakeHarness) -> None:
    """``message_bytes_max`` counts key and value; refused at once, the transaction goes on."""
    harness = harnesses(compression=None)
    transport, topic = harness.transport(), harness.make_topic(1)
    producer = transport.producer(harness.name("writer"))
    size = transport.message_bytes_max
    producer.begin()
    producer.send(topic, 0, b"x" * (size - 3), key=b"key")
    with pytest.raises(TooLargeError, match=f"{size + 1} bytes"):
        producer.send(topic, 0, b"x" * (size - 2), key=b"key")
    producer.flush()
    producer.commit()
    harness.wait_until(lambda: [len(v or b"") for v in visible(transport, topic)] == [size - 3], "it is there")


def test_topics_are_created_once_and_described(harnesses: MakeHarness) -> None:
    """What exists is left alone; a setting that the broker refuses is a ``ConfigError``."""
    harness = harnesses()
    admin, name = harness.transport().admin, harness.name("made")
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
    """Neither in ``repr`` nor when an option is refused, which is told by its name."""
    settings = quick_settings("localhost:1", client={"sasl_plain_password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert settings.options()["sasl_plain_password"] == "hunter2"
    with pytest.raises(ConfigError, match="sasl_plain_pasword") as refused:
        quick_settings("localhost:1", client={"sasl_plain_pasword": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_waits_that_do_not_nest_are_refused() -> None:
    """A flush that outlasts the transaction is told with both values."""
    with pytest.raises(ConfigError, match=r"flush_timeout_seconds is 20.*transaction_timeout_seconds is 15"):
        KafkaSettings("localhost:1", flush_timeout_seconds=20)


def test_being_fenced_is_known_from_the_text_alone() -> None:
    """The client wraps the error that put a producer out in another, or in a text."""
    from kafka import errors

    assert is_fenced(errors.KafkaError("in an error state: ProducerFencedError"))
    assert is_fenced(errors.KafkaError("cannot send", errors.ProducerFencedError()))
    assert is_fenced(errors.CommitFailedError())
    assert not is_fenced(errors.KafkaTimeoutError("no answer"))
