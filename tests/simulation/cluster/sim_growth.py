"""Shards that are added to a cluster: an administrator, and how many shards its log tells of."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memory_transport import MemoryTransport
from sim_scenario import Crash, Place
from sim_watched import Watched

from neardup.errors import ConfigError
from neardup.pairs.shards import Growth
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.topics.signed import decode_signed, position_of
from neardup_workers.outside.transport.protocol import Record, TransportError, UnreachableError
from neardup_workers.running.commands.topics.growing import Stream, grow

if TYPE_CHECKING:
    from sim_cluster import Cluster

# The group of the matchers.
GROUP = "matchers"


def control_of(cluster: Cluster, record: Record) -> tuple[int, int] | None:
    """The numbers of shards of a message of ``signed`` that is a control row."""
    return _growth_in(record.value or b"", cluster.config.signing_fingerprint, cluster.config.plan.width)


@lru_cache(1 << 14)
def _growth_in(message: bytes, fingerprint: str, width: int) -> tuple[int, int] | None:
    """As ``SignedRows.growth``. The wait for quiet asks it of every message in every round."""
    return decode_signed(message, fingerprint, width).growth


def growth_of(cluster: Cluster) -> Growth:
    """How many shards there are, by the log of ``signed``."""
    cluster.record()
    growth = Growth(cluster.scenario.shards)
    for record in cluster.signed[0]:
        if (row := control_of(cluster, record)) is not None:
            growth = growth.grown(position_of(record.offset + 1), *row)
    return growth


def end_of(cluster: Cluster, topic: str, partition: int) -> int:
    """Behind the last committed record; a linker commits behind a control row with the next row."""
    log = cluster.memory.log(topic, partition)
    records, _ = log.read(log.first, 1 << 30)
    while topic == cluster.topics.signed and records and control_of(cluster, records[-1]) is not None:
        records.pop()
    return records[-1].offset + 1 if records else log.first


def give_up(_: float) -> None:
    """An administrator who does not wait for the transaction that hides the row."""
    raise UnreachableError("a transaction of a signer hides the row")


def add_shards(cluster: Cluster, shards: int, wait: Callable[[float], None] = give_up) -> str:
    """Grow as an administrator does, who may die, lose an answer or be late; return the sentence of a refusal."""
    memory, topics = cluster.memory, cluster.topics
    cluster.events["administrators"] += 1
    place = Place("administrator", "administrator", static=False)
    transport: Any = Watched(MemoryTransport(memory), lambda call: cluster.between(place, call))
    stream = Stream(transport, topics, cluster.config, GROUP, cluster.scenario.shards)

    def producer() -> Any:
        return Watched(transport.producer(place.name), lambda call: cluster.between(place, call))

    def set_partitions(count: int) -> None:
        memory.add_partitions(topics.links, max(0, count - memory.partitions(topics.links)))

    try:
        grow(stream, producer, set_partitions, shards, wait)
    except (Crash, TransportError, ConfigError, Failure) as error:
        cluster.events[f"administrators: {type(error).__name__}"] += 1
        return str(error)
    cluster.events["growths"] += 1
    return ""
