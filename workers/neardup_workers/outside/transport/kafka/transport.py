"""The transport on Apache Kafka, by kafka-python. Only the modules of this folder import kafka-python.

``KafkaTransport(settings)`` opens no connection until its first call, so it may be made before a fork; clients are made
after the fork (rule 9). Its parts: ``client_settings`` (limits, errors), ``consumer`` (a member of a group),
``records`` (reading of fetches), ``producer`` (the safe order of a transaction), ``record_batches`` (what it writes),
``admin`` (topics), ``client_internals`` (private names of the client). ``read`` makes a separate client, so that a
restore can run on a thread while the member polls.

The numbers of rules in docstrings refer to the list in ``docs/ARCHITECTURE.md``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from neardup_workers.outside.transport.assignment import Share
from neardup_workers.outside.transport.kafka import record_batches
from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.admin import KafkaAdmin, TopicDescription, TopicSpec
from neardup_workers.outside.transport.kafka.client_internals import fetches
from neardup_workers.outside.transport.kafka.client_settings import KafkaSettings, as_transport_error, is_passing
from neardup_workers.outside.transport.kafka.consumer import KafkaGroupConsumer
from neardup_workers.outside.transport.kafka.membership import Ownership, described_share
from neardup_workers.outside.transport.kafka.producer import KafkaTransactionalProducer
from neardup_workers.outside.transport.protocol import (
    ANSWER_BYTES,
    UNBOUNDED,
    Consumer,
    OffsetGoneError,
    Producer,
    Reader,
    Record,
    Replication,
    UnreachableError,
    UnreadableError,
)


class KafkaReader:
    """See ``neardup_workers.outside.transport.protocol.Reader``. Raises ``UnreachableError`` if no broker answers.

    The client's position moves past control records, so a reader reaches the end of a log even if the last record is a
    marker.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, answer_bytes: int = ANSWER_BYTES, *, with_headers: bool = True
    ) -> None:
        self._topic = topic
        self._limits = kafka_records.ClientLimits(batch_bytes_max=settings.batch_bytes_max, with_headers=with_headers)
        self._assigned: dict[int, TopicPartition] = {}
        self._held: frozenset[int] = frozenset()
        self._ends: dict[int, fetches.End] = {}
        try:
            self._client: KafkaConsumer = kafka_records.consumer(
                self._limits,
                **{**settings.consumer_options(), "max_partition_fetch_bytes": answer_bytes},
                client_id="neardup-reader",
                group_id=None,
            )
        except client_errors.KafkaError as error:
            raise as_transport_error(f"cannot read {topic}", error) from error
        fetches.note_ends(self._client, self._ends)

    def follow(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self._client.resume(*self._assigned.values())
        self._assigned = {partition: TopicPartition(self._topic, partition) for partition in starts}
        self._held = frozenset()
        self._ends.clear()
        self._client.assign(list(self._assigned.values()))
        for partition, offset in starts.items():
            self._client.seek(self._assigned[partition], offset)

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> list[Record]:
        """Return the records that have arrived, or none after the timeout."""
        if not self._assigned:
            return []
        self._limits.left_bytes = bytes_max
        try:
            fetches.free_slot(self._client)
            batches = self._client.poll(timeout_ms=round(timeout_seconds * 1000), max_records=records_max)
            if batches:
                fetches.fetch_ahead(self._client)
        except (client_errors.OffsetOutOfRangeError, client_errors.LogTruncationError) as error:
            raise OffsetGoneError(
                f"a position of {self._topic} is outside its log ({error}); --allow-gap goes on without the records "
                "that are gone"
            ) from error
        except UnreadableError as error:
            raise UnreadableError(f"cannot read {self._topic}: {error}") from error
        except Exception as error:
            if is_passing(error):
                return []
            raise as_transport_error(f"cannot read {self._topic}", error) from error
        return [record for records in batches.values() for record in records]

    def hold(self, partitions: Collection[int]) -> None:
        """Pause these partitions until the next call."""
        held = frozenset(partitions)
        self._client.pause(*[self._assigned[partition] for partition in held - self._held])
        self._client.resume(*[self._assigned[partition] for partition in self._held - held])
        self._held = held

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each partition."""
        return {partition: self._client.position(log, timeout_ms=0) for partition, log in self._assigned.items()}

    def ends(self) -> dict[int, int]:
        """Return the end of committed records of each partition, by its last fetch."""
        return {partition: end.committed for partition, end in self._ends.items() if partition in self._assigned}

    def close(self) -> None:
        """Free the client; never raises."""
        with suppress(Exception):
            self._client.close(autocommit=False)


__all__ = ["KafkaAdmin", "KafkaSettings", "KafkaTransport", "TopicDescription", "TopicSpec"]

# The position moves past control records only between two polls of the client. The slice is short, because several
# partitions are read in turns: while one waits for its first response, records of another are available.
_READ_SLICE_SECONDS = 0.005
_READ_RECORDS_MAX = 10_000
_READ_BYTES_MAX = 16 << 20


def warm() -> None:
    """Compile the reader and the writer of batches, or load them from disk."""
    kafka_records.warm()
    record_batches.warm()


class KafkaTransport(KafkaAdmin):
    """Topics of one Kafka cluster; see ``neardup_workers.outside.transport.protocol.Transport``.

    Consumers and producers are closed by their owners.
    """

    @property
    def message_bytes_max(self) -> int:
        """Bytes of key, value and headers that one record may have together; see ``sent_bytes``."""
        return self.settings.message_bytes_max

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Make a member of ``group`` that joins at its first poll; without ``instance`` it leaves when it closes.

        Raises ``UnknownTopicError``, because the client would wait for the topic without an error.
        """
        self.partitions(topic)
        return KafkaGroupConsumer(self.settings, topic, group, instance, Ownership(self, topic, group))

    def producer(self, transactional_id: str) -> Producer:
        """Make a producer that fences every earlier one of the same id, and ends its transaction."""
        return KafkaTransactionalProducer(self.settings, transactional_id, self.partitions)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """Read the committed records of ``[start, end)``, until the position reaches ``end``; empty lists mean wait.

        The last record need not be at ``end`` - 1: control and aborted records leave gaps. Raises ``OffsetGoneError``,
        and ``UnreachableError`` after ``read_timeout_seconds`` without progress: the broker is away, or a transaction
        before ``end`` is open.
        """
        if start >= end:
            return
        first, log_end = self.log_bounds(topic, partition)
        if start < first or end > log_end:
            raise OffsetGoneError(
                f"{start} to {end} of {topic}-{partition} is outside its log, which holds {first} to"
                f" {log_end}; start at its beginning, if the trimmed records may be missed"
            )
        with closing(KafkaReader(self.settings, topic, with_headers=False)) as reader:
            reader.follow({partition: start})
            position, moved = start, time.monotonic()
            while position < end:
                now = position
                try:
                    records = reader.poll(_READ_SLICE_SECONDS, _READ_RECORDS_MAX, _READ_BYTES_MAX)
                    with suppress(client_errors.RetriableError):
                        now = reader.positions()[partition]
                except (OffsetGoneError, client_errors.LogTruncationError) as error:
                    raise OffsetGoneError(
                        f"cannot read {topic}-{partition} to {end}: {position} was trimmed during the read"
                    ) from error
                yield (
                    records
                    if not records or records[-1].offset < end
                    else [record for record in records if record.offset < end]
                )
                if now != position:
                    position, moved = now, time.monotonic()
                elif time.monotonic() - moved > self.settings.read_timeout_seconds:
                    raise UnreachableError(
                        f"cannot read {topic}-{partition} to {end}: at {position} for "
                        f"{self.settings.read_timeout_seconds:g} s; see whether the broker is up"
                    )

    def reader(self, topic: str, answer_bytes: int = ANSWER_BYTES) -> Reader:
        """Make a reader of a topic without a group."""
        return KafkaReader(self.settings, topic, answer_bytes)

    def configs(self, topic: str) -> Mapping[str, str]:
        """Return the settings in effect of a topic; empty if this user may not see them."""
        return self.describe(topic).configs

    def replication(self, topic: str) -> Replication:
        """Return the nodes of the cluster, and the replicas of the topic."""
        return Replication(self.nodes(), self.replicas(topic))

    def shares(self, group: str) -> dict[str, Share]:
        """Return what each member of a group has been given last, by its instance."""
        return dict(map(described_share, self.described(group)["members"]))
