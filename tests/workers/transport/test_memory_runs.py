"""Whole groups of workers on the cluster in memory, from one seed: each input comes out once under any failure."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from memory_cluster import FAULTS
from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Message,
    Polled,
    Producer,
    TransportError,
)

PARTITIONS = 4
SEEDS = range(150)
MOMENTS = 1500
MOMENTS_MAX = 6000
# Moments between two looks whether all is copied, and moments of a tenth of a second after it: 40 s. What a dead worker
# leaves is over within 25, its session of 10 and the transaction of 15.
LOOK, QUIET, QUIET_SECONDS = 50, 400, 0.1


def copy_step(producer: Producer, polled: Polled) -> Iterator[None]:
    """Copy the polled records in one transaction, with a pause between any two calls."""
    producer.begin()
    for record in polled.records:
        producer.send(Message("out", record.partition, record.value))
    yield
    producer.flush()
    yield
    offsets = {record.partition: Committed(record.offset + 1, str(record.offset)) for record in polled.records}
    producer.send_offsets("in", offsets, polled.membership)
    yield
    producer.commit()


def copier(cluster: MemoryCluster, name: str) -> Iterator[None]:
    """A worker by the rules of ``neardup_workers.outside.transport.protocol``: it restarts after each failure but a
    known abort."""
    transport = MemoryTransport(cluster)
    while True:
        yield
        try:
            consumer, producer = transport.consumer("in", "copiers", name), transport.producer(name)
            while True:
                yield
                polled = consumer.poll(0, 5)
                for partition in polled.assigned:
                    committed = consumer.committed(partition)
                    consumer.seek(partition, committed.offset if committed else 0)
                    consumer.resume([partition])
                if not polled.records:
                    continue
                try:
                    yield from copy_step(producer, polled)
                except AbortedError:
                    producer.abort()
                    for record in reversed(polled.records):
                        consumer.seek(record.partition, record.offset)
        except TransportError:
            continue


def write(cluster: MemoryCluster, random_source: random.Random, number: int) -> None:
    """Append to a random partition of ``in``: a record, or a transaction that is committed or aborted."""
    partition = random_source.randrange(PARTITIONS)
    kind = random_source.random()
    if kind < 0.5:
        cluster.append("in", partition, b"%d" % number)
        return
    key = ("writer", cluster.init_producer("writer"))
    for part in range(random_source.randrange(1, 4)):
        cluster.write(key, Message("in", partition, b"%d/%d" % (number, part)))
    cluster.end(key, commit=kind < 0.8)


def disturb(cluster: MemoryCluster, random_source: random.Random, workers: dict[str, list[Iterator[None]]]) -> None:
    """Cause one event: a fault, an outage of the broker or its end, a pause, or a dead, doubled or new worker."""
    kind = random_source.randrange(8)
    name = random_source.choice(list(workers))
    if kind <= 2:
        cluster.fail_next(random_source.choice(list(FAULTS)))
    elif kind == 3:
        cluster.reachable = not cluster.reachable
    elif kind == 4:
        cluster.advance(random_source.choice([1, cluster.session_seconds, cluster.transaction_timeout_seconds]))
    elif kind == 5:
        workers[name] = [copier(cluster, name)]  # the running worker dies
    elif kind == 6:
        workers[name].append(copier(cluster, name))  # the running worker continues as a zombie
    elif len(workers) < 5:
        workers[f"w{len(workers)}"] = [copier(cluster, f"w{len(workers)}")]


def run(seed: int) -> MemoryCluster:
    """A run with disturbances; after them the youngest worker of each name finishes, and goes on while all is quiet."""
    random_source = random.Random(seed)
    cluster = MemoryCluster()
    cluster.create("in", PARTITIONS)
    cluster.create("out", PARTITIONS)
    workers = {"w0": [copier(cluster, "w0")]}
    for moment in range(MOMENTS):
        if random_source.random() < 0.1:
            write(cluster, random_source, moment)
        if random_source.random() < 0.02:
            disturb(cluster, random_source, workers)
        cluster.advance(0.02)
        next(random_source.choice(random_source.choice(list(workers.values()))))
    cluster.clear_faults()
    cluster.reachable = True
    cluster.advance(cluster.transaction_timeout_seconds)

    def go_on(moments: int, seconds: float) -> None:
        for _ in range(moments):
            cluster.advance(seconds)
            next(random_source.choice(list(workers.values()))[-1])

    for _ in range(MOMENTS_MAX // LOOK):
        go_on(LOOK, 0.02)
        if len(cluster.records("out")) >= len(cluster.records("in")):
            break
    go_on(QUIET, QUIET_SECONDS)
    return cluster


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_what_goes_in_comes_out_once_and_in_order(seed: int) -> None:
    """Nothing is lost, repeated, reordered or read from an aborted transaction, over crashes, zombies and faults."""
    cluster = run(seed)
    copied = [(record.partition, record.value) for record in cluster.records("out")]
    assert copied == [(record.partition, record.value) for record in cluster.records("in")], f"seed {seed}"


def test_one_seed_is_one_run() -> None:
    """The same seed gives the same logs, to the offset."""
    assert run(7).records("out") == run(7).records("out")
