"""The shell of a worker whose partitions wait for their committed offsets while the broker answers."""

import itertools
import logging

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench
from waiting_brokers import Mute, Outsider, Pending

from neardup_workers.outside.transport.protocol import Committed, UnreachableError


@pytest.fixture
def bench():
    """Two near-duplicates and one other document."""
    made = Bench()
    made.add(("a", TEXT), ("b", TEXT), ("c", "nothing like the others at all, not a word of it, not even nearly so"))
    return made


@pytest.mark.parametrize("role", ["sign", "match"])
def test_a_partition_whose_offset_cannot_be_had_is_tried_again_once_and_then_ends_the_process(bench, role, caplog):
    """The log has one line when it is late, although every turn asks; the restart ends the process's own open
    transaction.
    """
    with caplog.at_level(logging.INFO):
        bench.run(role, lambda: bool(bench.stuck), lambda: Pending(bench.cluster), stall_seconds_max=40.0)
    assert bench.metrics[role].value("restarts", "waited") == 2
    assert "has no committed offset" in bench.stuck[0]
    assert "also after a restart" in bench.stuck[0]
    assert sum("too long, though the broker answers: partition 0, partition 1" in line for line in caplog.messages) == 2
    assert bench.health[role].ready().holds is False


def test_a_wait_for_as_long_as_a_transaction_may_last_is_no_failure(bench, caplog, tmp_path):
    """The timeout ends the transaction of a dead predecessor; the worker does not restart for it."""
    polled = itertools.count()
    (tmp_path / "client.properties").write_text("transaction.timeout.ms=900000\n")

    class Slow(Pending):
        def committed(self, partition):
            if next(polled) < 60:
                raise UnreachableError("offsets are not decided")
            return Committed(0, "")

    with caplog.at_level(logging.INFO):
        bench.run(
            "sign", lambda: bench.metrics["sign"].value("documents") == 3, lambda: Slow(bench.cluster),
            stall_seconds_max=5.0, kafka_config=str(tmp_path / "client.properties"),
        )  # fmt: skip
    assert bench.metrics["sign"].value("restarts", "waited") == 0
    assert sum("restoring" in line for line in caplog.messages) == 1


def test_a_transaction_of_its_own_that_holds_up_a_worker_ends_with_the_new_start(bench):
    """Offsets of an abandoned producer are pending; the next producer of the id ends its transaction."""
    bench.run("sign", lambda: bench.metrics["sign"].value("documents") == 3)
    bench.cluster.transaction_timeout_seconds = 1e9
    left = []

    class Leaving(MemoryTransport):
        def producer(self, transactional_id):
            left.append(super().producer(transactional_id))
            return left[-1]

        def consumer(self, topic, group, instance):
            consumer = super().consumer(topic, group, instance)
            if len(left) == 1:
                left[0].begin()
                pending = {0: Committed(0, ""), 1: Committed(0, "")}
                left[0].send_offsets(topic, pending, consumer.poll(0, 1).membership)
                self._cluster.advance(self._cluster.session_seconds)  # its partitions come back with the next poll
            return consumer

    bench.add(("d", TEXT))
    bench.run("sign", lambda: bench.metrics["sign"].value("documents") == 4, lambda: Leaving(bench.cluster))
    assert bench.metrics["sign"].value("restarts", "waited") == 1
    assert (bench.stuck, len(left)) == ([], 2)


def test_a_partition_that_waits_for_another_signer_is_not_taken_for_a_client_that_stalls(bench):
    """The partition grows and does not advance: the worker reports lag and wait, and continues."""
    topic, group = bench.names.topics.documents, bench.names.group("sign")
    bench.cluster.group(group, topic).offsets.update({0: Committed(0, ""), 1: Committed(0, "")})
    silent = MemoryTransport(bench.cluster).consumer(topic, group, "silent")  # it never commits a claim
    looks = itertools.count()

    def has_waited():
        silent.poll(0, 1)
        if next(looks) % 10 == 0:
            bench.cluster.append(topic, 0, b'{"text": "one more"}', b"more")
            bench.cluster.append(topic, 1, b'{"text": "one more"}', b"more")
        return next(looks) > 400

    bench.run("sign", has_waited, stall_seconds_max=30.0, step_documents_max=2)
    signer = bench.metrics["sign"]
    assert (signer.value("documents"), bench.stuck) == (0, [])
    assert max(signer.value("lag_records", partition) for partition in ("0", "1")) > 10
    assert signer.value("align_wait_seconds") > 0


@pytest.mark.parametrize(
    ("broker", "text"),
    [(Outsider, "the worker of links"), (Mute, "the restore of links")],
    ids=["no generation of the group", "a restore that reads nothing"],
)
def test_a_state_without_progress_restarts_the_worker_and_then_ends_the_process(bench, broker, text):
    """No worker waits for its group, or restores, without a limit."""
    bench.sign(3)
    bench.match(1)
    bench.run("match", lambda: bool(bench.stuck), lambda: broker(bench.cluster), stall_seconds_max=40.0)
    assert bench.metrics["match"].value("restarts", "waited") == 2
    assert text in bench.stuck[0]
    assert "also after a restart" in bench.stuck[0]


def test_a_worker_whose_transactions_are_aborted_is_not_ready_after_the_deadline(bench):
    """It keeps its tables, and works again when the broker takes records."""
    bench.sign(3)
    bench.add(("d", TEXT))
    bench.cluster.session_seconds = 1e6  # a member sends heartbeats while it naps
    bench.cluster.fail_next("flush", times=30)
    ready = bench.health["sign"].ready
    bench.run("sign", lambda: not ready().holds and "aborted" in ready().text, stall_seconds_max=5.0)
    assert ready().text.startswith("partitions: 0, 1; transactions are aborted: ")
    bench.run("sign", lambda: ready().holds and bench.metrics["sign"].value("documents") == 4)
    assert (bench.stuck, bench.metrics["sign"].value("restarts", "waited")) == ([], 0)
