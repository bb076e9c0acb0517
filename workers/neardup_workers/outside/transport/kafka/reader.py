"""A reader of several partitions without a group: the caller sets positions, and it commits no offsets.

Theory of operation. ``follow`` names partitions and positions, and ``poll`` returns what the client has fetched. The
client's position moves past control records, so a reader reaches the end of a log even if the last record is a marker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.client_internals import fetches
from neardup_workers.outside.transport.kafka.client_settings import KafkaSettings, as_transport_error, is_passing
from neardup_workers.outside.transport.protocol import UNBOUNDED, OffsetGoneError, Record, UnreadableError


class KafkaReader:
    """See ``neardup_workers.outside.transport.protocol.Reader``. Raises ``UnreachableError`` if no broker answers."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._limits = kafka_records.ClientLimits(batch_bytes_max=settings.batch_bytes_max, with_headers=True)
        self._assigned: dict[int, TopicPartition] = {}
        self._held: frozenset[int] = frozenset()
        self._ends: dict[int, fetches.End] = {}
        try:
            self._client: KafkaConsumer = kafka_records.consumer(
                self._limits,
                **settings.consumer_options(),
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
