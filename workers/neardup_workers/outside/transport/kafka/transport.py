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
from collections.abc import Iterator, Mapping
from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from neardup_workers.outside.transport.assignment import Share
from neardup_workers.outside.transport.kafka import record_batches
from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.admin import KafkaAdmin, TopicDescription, TopicSpec
from neardup_workers.outside.transport.kafka.client_settings import KafkaSettings, as_transport_error
from neardup_workers.outside.transport.kafka.consumer import KafkaGroupConsumer
from neardup_workers.outside.transport.kafka.membership import Ownership, described_share
from neardup_workers.outside.transport.kafka.producer import KafkaTransactionalProducer
from neardup_workers.outside.transport.kafka.reader import KafkaReader
from neardup_workers.outside.transport.protocol import (
    Committed,
    Consumer,
    OffsetGoneError,
    Producer,
    Reader,
    Record,
    Replication,
    UnreachableError,
    UnreadableError,
)

__all__ = ["KafkaAdmin", "KafkaSettings", "KafkaTransport", "TopicDescription", "TopicSpec"]

# The position moves past control records only between two polls of the client. The slice is short, because several
# partitions are read in turns: while one waits for its first response, records of another are available.
_READ_SLICE_MILLISECONDS = 5
_READ_RECORDS_MAX = 10_000
_READ_BYTES_MAX = 16 << 20


def warm() -> None:
    """Compile the reader and the writer of batches, or load them from disk."""
    kafka_records.warm()
    record_batches.warm()


class KafkaTransport:
    """Topics of one Kafka cluster; see ``neardup_workers.outside.transport.protocol.Transport``."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.admin = KafkaAdmin(settings)

    @property
    def message_bytes_max(self) -> int:
        """Bytes of key, value and headers that one record may have together; see ``sent_bytes``."""
        return self._settings.message_bytes_max

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; raises ``UnknownTopicError``, ``UnreachableError``."""
        return self.admin.partitions(topic)

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Make a member of ``group`` that joins at its first poll; without ``instance`` it leaves when it closes.

        Raises ``UnknownTopicError``, because the client would wait for the topic without an error.
        """
        self.admin.partitions(topic)
        return KafkaGroupConsumer(self._settings, topic, group, instance, Ownership(self.admin, topic, group))

    def producer(self, transactional_id: str) -> Producer:
        """Make a producer that fences every earlier one of the same id, and ends its transaction."""
        return KafkaTransactionalProducer(self._settings, transactional_id, self.admin.partitions)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """Read the committed records of ``[start, end)``, until the position reaches ``end``; empty lists mean wait.

        The last record need not be at ``end`` - 1: control and aborted records leave gaps. Raises ``OffsetGoneError``,
        and ``UnreachableError`` after ``read_timeout_seconds`` without progress: the broker is away, or a transaction
        before ``end`` is open.
        """
        if start >= end:
            return
        log = TopicPartition(topic, partition)
        self._check_range(log, start, end)
        limits = kafka_records.ClientLimits(batch_bytes_max=self._settings.batch_bytes_max)
        client = self._reader(limits, log, start)
        try:
            yield from self._read(client, limits, log, end)
        finally:
            with suppress(Exception):
                client.close(autocommit=False)

    def reader(self, topic: str) -> Reader:
        """Make a reader of a topic without a group."""
        return KafkaReader(self._settings, topic)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition. The end is the offset at which a read-committed reader
        stops."""
        return self.admin.bounds(topic)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset of each partition that has this time or a later one; its end if none has."""
        return self.admin.offsets_at(topic, timestamp_ms)

    def group_offsets(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the committed offsets of a group, without waiting for open transactions."""
        return self.admin.group_offsets(group, topic)

    def configs(self, topic: str) -> Mapping[str, str]:
        """Return the settings in effect of a topic; empty if this user may not see them."""
        return self.admin.describe(topic).configs

    def replication(self, topic: str) -> Replication:
        """Return the nodes of the cluster, and the replicas of the topic."""
        return Replication(self.admin.nodes(), self.admin.replicas(topic))

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offsets."""
        self.admin.trim(topic, before)

    def members(self, group: str) -> int:
        """Return the number of members of a group."""
        return self.admin.members(group)

    def shares(self, group: str) -> dict[str, Share]:
        """Return what each member of a group has been given last, by its instance."""
        return dict(map(described_share, self.admin.described(group)["members"]))

    def leave(self, group: str, instance: str) -> None:
        """Remove a closed instance from its group; the client does not do so when it closes."""
        self.admin.leave(group, instance)

    def close(self) -> None:
        """Free everything; never raises. Consumers and producers are closed by their owners."""
        self.admin.close()

    def _check_range(self, log: TopicPartition, start: int, end: int) -> None:
        first, log_end = self.admin.log_bounds(log.topic, log.partition)
        if start < first or end > log_end:
            raise OffsetGoneError(
                f"{start} to {end} of {log.topic}-{log.partition} is outside its log, which holds {first} to"
                f" {log_end}; start at its beginning, if the trimmed records may be missed"
            )

    def _reader(self, limits: kafka_records.ClientLimits, log: TopicPartition, start: int) -> KafkaConsumer:
        try:
            options = self._settings.consumer_options()
            client = kafka_records.consumer(limits, **options, client_id="neardup-reader", group_id=None)
        except client_errors.KafkaError as error:
            raise as_transport_error(f"cannot read {log.topic}-{log.partition}", error) from error
        client.assign([log])
        client.seek(log, start)
        return client

    def _read(
        self, client: KafkaConsumer, limits: kafka_records.ClientLimits, log: TopicPartition, end: int
    ) -> Iterator[list[Record]]:
        what = f"cannot read {log.topic}-{log.partition} to {end}"
        position = client.position(log, timeout_ms=0)
        moved = time.monotonic()
        while position < end:
            limits.left_bytes = _READ_BYTES_MAX
            try:
                batches = client.poll(timeout_ms=_READ_SLICE_MILLISECONDS, max_records=_READ_RECORDS_MAX)
                now = client.position(log, timeout_ms=0)
            except (client_errors.OffsetOutOfRangeError, client_errors.LogTruncationError) as error:
                raise OffsetGoneError(f"{what}: {position} was trimmed during the read") from error
            except UnreadableError as error:
                raise UnreadableError(f"{what}: {error}") from error
            except client_errors.RetriableError:
                batches, now = {}, position
            except Exception as error:
                raise as_transport_error(what, error) from error
            if not batches:
                yield []
            for records in batches.values():
                yield records if records[-1].offset < end else [record for record in records if record.offset < end]
            if now != position:
                position, moved = now, time.monotonic()
            elif time.monotonic() - moved > self._settings.read_timeout_seconds:
                raise UnreachableError(
                    f"{what}: at {position} for {self._settings.read_timeout_seconds:g} s; see whether the broker is up"
                )
