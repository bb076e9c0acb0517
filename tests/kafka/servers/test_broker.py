"""The broker, the proxy and kafka-python's transactions work together as the other tests of this folder assume."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import ports
import pytest
from broker import Broker
from jars import class_archive, find_java
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from make_topic import MakeTopic
from ports import free_port, is_free
from proxy import Api, Proxy, Side

POLL_MILLISECONDS = 200
READ_SECONDS_MAX = 60.0
TransactionalProducer = Callable[..., KafkaProducer]


@pytest.fixture
def producers() -> Iterator[TransactionalProducer]:
    """Make transactional producers that are ready for begin_transaction, and close them after the test."""
    made: list[KafkaProducer] = []

    def make(bootstrap: str, transactional_id: str, **options: object) -> KafkaProducer:
        made.append(
            KafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=10_000,
                linger_ms=5,
                **options,
            )
        )
        made[-1].init_transactions()
        return made[-1]

    yield make
    for producer in made:
        with contextlib.suppress(Exception):  # a fenced or failed producer may refuse to flush
            producer.close(timeout=2)


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Read partition 0 to its end, as a reader of committed transactions sees it."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", group_id=None)
    with contextlib.closing(consumer):
        consumer.assign([partition])
        consumer.seek(partition, 0)
        end = consumer.end_offsets([partition])[partition]
        values: list[bytes] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while consumer.position(partition) < end:
            assert time.monotonic() < deadline, (
                f"at {consumer.position(partition)} of {end} after {READ_SECONDS_MAX:.0f} s"
            )
            for records in consumer.poll(POLL_MILLISECONDS).values():
                values += [record.value for record in records]
    return values


def send(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    """Send in the open transaction and wait until the broker has acknowledged each record."""
    futures = [producer.send(topic, value, partition=0) for value in values]
    producer.flush(timeout=READ_SECONDS_MAX)
    assert all(future.succeeded() for future in futures)


def test_a_reader_of_committed_transactions_never_sees_an_aborted_one(
    bootstrap_servers: str, make_topic: MakeTopic, producers: TransactionalProducer
) -> None:
    """1,000 committed messages arrive in order; the messages of an aborted transaction do not arrive."""
    topic = make_topic("smoke")
    producer = producers(bootstrap_servers, topic)
    wanted = [b"kept %d" % number for number in range(1_000)]
    producer.begin_transaction()
    send(producer, topic, wanted)
    producer.commit_transaction()
    producer.begin_transaction()
    send(producer, topic, [b"aborted"] * 10)
    producer.abort_transaction()
    assert committed_values(bootstrap_servers, topic) == wanted


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("api", [Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN])
def test_kafka_python_survives_the_loss_of_one_message(
    broker: Broker,
    proxy: Proxy,
    make_topic: MakeTopic,
    producers: TransactionalProducer,
    api: Api,
    side: Side,
) -> None:
    """If a message is lost before or after the broker acts, the client repeats the call; each record exists once."""
    topic = make_topic("lost")
    producer = producers(broker.bootstrap_proxied, topic)
    lost = proxy.lose(api, side)
    producer.begin_transaction()
    send(producer, topic, [b"one", b"two"])
    producer.commit_transaction()
    assert lost.happened.is_set()
    assert committed_values(broker.bootstrap, topic) == [b"one", b"two"]


def test_a_new_producer_ends_what_a_stuck_commit_left_open(
    broker: Broker, proxy: Proxy, make_topic: MakeTopic, producers: TransactionalProducer
) -> None:
    """A producer with the same transactional id commits or aborts the old transaction as a whole.

    If the coordinator refuses the connection, kafka-python 3.0.12 forgets a transactional request: the commit then
    mostly waits forever, even when the broker is back. Hence the watchdog over these calls.
    """
    topic = make_topic("stuck")
    old = producers(broker.bootstrap_proxied, topic)
    old.begin_transaction()
    send(old, topic, [b"old 1", b"old 2"])
    proxy.cut()
    committed = threading.Event()

    def commit() -> None:
        with contextlib.suppress(Exception):  # the new producer may fence it
            old.commit_transaction()
            committed.set()

    committing = threading.Thread(target=commit, daemon=True)
    committing.start()
    time.sleep(1)
    proxy.heal()
    committing.join(3)
    is_committed = committed.is_set()
    new = producers(broker.bootstrap_proxied, topic)
    new.begin_transaction()
    send(new, topic, [b"new"])
    new.commit_transaction()
    *kept, last = committed_values(broker.bootstrap, topic)
    assert last == b"new"
    assert kept in ([[b"old 1", b"old 2"]] if is_committed else [[], [b"old 1", b"old 2"]])


@pytest.mark.parametrize("fault", ["cut", "pause", "delay", "drop_responses"])
def test_a_general_fault_holds_until_it_is_healed(
    broker: Broker, proxy: Proxy, make_topic: MakeTopic, fault: str
) -> None:
    """During the fault no send is acknowledged; after healing the send succeeds and its record exists once."""
    topic = make_topic("fault")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_proxied, reconnect_backoff_max_ms=200)
    with contextlib.closing(producer):
        producer.partitions_for(topic)  # otherwise send() itself waits for the topic's metadata
        if fault == "delay":
            proxy.delay(READ_SECONDS_MAX)
        else:
            getattr(proxy, fault)()
        future = producer.send(topic, b"late", partition=0)
        time.sleep(0.5)
        assert not future.is_done
        proxy.heal()
        future.get(timeout=READ_SECONDS_MAX)
    assert committed_values(broker.bootstrap, topic) == [b"late"]


def test_the_broker_dies_with_its_parent(session_broker: Broker, tmp_path: Path) -> None:
    """A killed test run leaves no broker process behind."""
    assert session_broker.running  # this machine can run a broker
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, signal, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from broker import Broker\n"
        "broker = Broker()\n"
        "broker.launch()\n"
        "while not os.readlink(f'/proc/{broker.pid}/exe').endswith('/java'):\n"
        "    time.sleep(0.01)\n"
        "print(broker.pid, broker.folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    pid, folder = parent.stdout.split()
    deadline = time.monotonic() + READ_SECONDS_MAX
    while _is_alive(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(int(pid))
    subprocess.run(["rm", "-rf", folder], check=True)


def test_a_broker_reads_parsed_classes_that_a_broker_of_no_test_has_written(session_broker: Broker) -> None:
    """Java maps the archive, which is complete or absent."""
    archive = class_archive(find_java())
    assert archive.is_file()
    if not archive.stat().st_size:
        pytest.skip("this Java keeps no classes")
    assert str(archive) in Path(f"/proc/{session_broker.pid}/maps").read_text()
    assert not archive.with_suffix(".written").exists()


def test_the_foreground_broker_names_the_occupied_port(session_broker: Broker) -> None:
    """`python tests/kafka/servers/broker.py --port P` ends with one sentence when another process uses P."""
    command = [sys.executable, str(Path(__file__).with_name("broker.py")), "--port", str(session_broker.port)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert f"{session_broker.bootstrap} is already in use" in run.stderr
    assert not is_free(session_broker.port)


def test_a_port_that_was_given_is_given_to_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even before its server listens: two clusters that start at once have no port in common."""
    port = free_port()
    monkeypatch.setattr(ports, "PORTS_FREE", [port])
    monkeypatch.setattr(ports, "_reserved", [])  # as in another process
    with pytest.raises(OSError, match="no free port"):
        free_port()
    assert is_free(port)


def _is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
