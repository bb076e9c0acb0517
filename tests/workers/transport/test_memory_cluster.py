"""The cluster in memory fails on request, and a restart finds its true state."""

from __future__ import annotations

import pytest
from memory_cluster import FAULTS
from memory_harness import MemoryHarness
from memory_transport import MemoryCluster, MemoryTransport
from transport_harness import joined, send

from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Message,
    OutcomeUnknownError,
    Producer,
    TransportError,
    UnreachableError,
)


class Crash(Exception):
    """The process ends here."""


def values(cluster: MemoryCluster, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


@pytest.mark.parametrize("call", ["flush", "send", "send_offsets", "send_offsets_after"])
def test_a_failed_step_can_only_be_aborted(harness: MemoryHarness, cluster: MemoryCluster, call: str) -> None:
    """The commit after the failure is refused; after the abort the producer continues, and no reader sees the step."""
    member = joined(harness, "t", "group")
    producer = harness.transport().producer("worker")
    cluster.fail_next(call, transactional_id="worker")
    membership = member.present()
    producer.begin()
    producer.send(Message("t", 0, b"never"))
    with pytest.raises(AbortedError):  # noqa: PT012 -- the first of the two that notices
        producer.flush()
        producer.send_offsets("t", {0: Committed(1, "")}, membership)
    with pytest.raises(AbortedError):
        producer.commit()
    producer.abort()
    send(producer, "t", [b"done"])
    producer.commit()
    assert values(cluster) == [b"done"]
    assert member.consumer.committed(0) is None


def test_a_lost_commit_request_ends_as_an_abort(cluster: MemoryCluster, transport: MemoryTransport) -> None:
    """The producer is lost; its transaction holds the readers until it times out."""
    producer = transport.producer("worker")
    send(producer, "t", [b"never"])
    cluster.fail_next("commit_before")
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    with pytest.raises(OutcomeUnknownError):
        producer.begin()
    cluster.append("t", 0, b"behind")
    assert values(cluster) == []
    cluster.advance(cluster.transaction_timeout_seconds)
    assert values(cluster) == [b"behind"]


def test_a_lost_commit_answer_is_a_commit(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """Records and offsets are committed although the producer got no response."""
    member = joined(harness, "t", "group")
    producer = harness.transport().producer("worker")
    send(producer, "t", [b"done"])
    producer.send_offsets("t", {0: Committed(1, "m")}, member.present())
    cluster.fail_next("commit_after")
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    producer.close()
    assert values(cluster) == [b"done"]
    assert cluster.group("group", "t").offsets == {0: Committed(1, "m")}


@pytest.mark.parametrize(("call", "open_after"), [("abort", True), ("abort_after", False)])
def test_an_abort_without_answer_is_unknown(
    cluster: MemoryCluster, transport: MemoryTransport, call: str, open_after: bool
) -> None:
    """If the request is lost, the transaction stays open until the next producer of the id; no reader sees it."""
    producer = transport.producer("worker")
    send(producer, "t", [b"never"])
    cluster.fail_next(call)
    with pytest.raises(OutcomeUnknownError):
        producer.abort()
    producer.close()
    assert transport.bounds("t")[0][1] == (0 if open_after else 2)
    transport.producer("worker")
    assert transport.bounds("t")[0][1] == 2
    assert values(cluster) == []


def test_reading_goes_on_after_a_broker_that_did_not_answer(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """A failed poll consumes nothing: the next poll returns the records."""
    member = joined(harness, "t")
    cluster.append("t", 0, b"a")
    for call, asked in (
        ("poll", member.step),
        ("committed", lambda: member.consumer.committed(0)),
        ("partitions", lambda: harness.transport().partitions("t")),
        ("bounds", lambda: harness.transport().bounds("t")),
        ("read", lambda: list(harness.transport().read("t", 0, 0, 1))),
        ("trim", lambda: harness.transport().trim("t", {0: 0})),
        ("producer", lambda: harness.transport().producer("p")),
    ):
        cluster.fail_next(call)
        with pytest.raises(UnreachableError, match=call):
            asked()
        asked()
    assert member.values() == [b"a"]


def test_a_fault_hits_only_its_target(cluster: MemoryCluster, transport: MemoryTransport) -> None:
    """Other clients' calls succeed, and the fault occurs the requested number of times."""
    cluster.fail_next("flush", transactional_id="worker-2", times=2)
    send(transport.producer("worker-1"), "t", [b"x"])
    producer = transport.producer("worker-2")
    for _ in range(2):
        with pytest.raises(AbortedError):
            send(producer, "t", [b"x"])
        producer.abort()
    send(producer, "t", [b"x"])


@pytest.mark.parametrize("call", ["flush", "send_offsets_after", "commit_before", "commit_after"])
def test_a_process_can_die_at_a_call(cluster: MemoryCluster, transport: MemoryTransport, call: str) -> None:
    """A fault may be a crash; the successor finds the step committed only if the commit had arrived."""
    consumer = transport.consumer("t", "group", "one")
    membership = consumer.poll(0, 1).membership
    cluster.fail_next(call, raises=Crash)
    producer = transport.producer("worker")
    with pytest.raises(Crash):  # noqa: PT012 -- at one of these
        send(producer, "t", [b"x"])
        producer.send_offsets("t", {0: Committed(1, "")}, membership)
        producer.commit()
    transport.producer("worker")
    is_done = call == "commit_after"
    assert values(cluster) == ([b"x"] if is_done else [])
    assert consumer.committed(0) == (Committed(1, "") if is_done else None)


def test_an_unknown_fault_is_refused_by_name(cluster: MemoryCluster) -> None:
    """The message lists the known faults."""
    with pytest.raises(ValueError, match=r"comit.*commit_before"):
        cluster.fail_next("comit")
    assert "commit_before" in FAULTS


def test_a_broker_goes_away_and_comes_back(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """During the outage every call fails, no member is removed, and the open step is undone."""
    member = joined(harness, "t")
    before = member.present()
    producer = harness.transport().producer("worker")
    send(producer, "t", [b"never"])
    cluster.reachable = False
    cluster.advance(1000)
    with pytest.raises(UnreachableError):
        member.step()
    with pytest.raises(OutcomeUnknownError):
        producer.commit()
    with pytest.raises(UnreachableError):
        harness.transport().producer("worker")
    producer.close()
    cluster.reachable = True
    cluster.advance(cluster.session_seconds / 2)
    assert member.present() == before
    send(harness.transport().producer("worker"), "t", [b"x"])
    assert values(cluster) == []


def test_a_transaction_times_out(cluster: MemoryCluster, transport: MemoryTransport) -> None:
    """The cluster aborts it and fences its producer; a producer that is idle between transactions is not fenced."""
    idle, slow = transport.producer("idle"), transport.producer("slow")
    idle.begin()
    send(slow, "t", [b"never"])
    cluster.advance(cluster.transaction_timeout_seconds)
    with pytest.raises(FencedError, match="slow"):
        slow.commit()
    with pytest.raises(FencedError):
        slow.abort()
    slow.close()
    idle.send(Message("t", 0, b"done"))
    idle.commit()
    assert values(cluster) == [b"done"]


def test_append_time_is_the_clock_of_the_cluster(cluster: MemoryCluster, transport: MemoryTransport) -> None:
    """A topic with append time ignores the producer's time; other topics use it, and the clock if it is missing."""
    cluster.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    now_ms = int(cluster.now_seconds * 1000)
    cluster.append("stamped", 0, b"x", timestamp_ms=1)
    cluster.append("t", 0, b"x", timestamp_ms=1)
    cluster.advance(2)
    cluster.append("t", 0, b"x")
    stamps = [record.timestamp_ms for topic in ("stamped", "t") for record in cluster.records(topic)]
    assert stamps == [now_ms, 1, now_ms + 2000]


def test_a_record_over_the_limit_fails_its_transaction(cluster: MemoryCluster, transport: MemoryTransport) -> None:
    """``flush`` raises; a record of exactly the limit passes."""
    producer = transport.producer("worker")
    send(producer, "t", [b"x" * cluster.record_bytes_max])
    with pytest.raises(AbortedError, match="limit"):
        send_more(producer, b"x" * (cluster.record_bytes_max + 1))
    producer.abort()


def send_more(producer: Producer, value: bytes) -> None:
    producer.send(Message("t", 0, value))
    producer.flush()


def test_every_error_is_a_transport_error() -> None:
    """A worker catches one base class."""
    assert all(issubclass(error, TransportError) for error in FAULTS.values())
