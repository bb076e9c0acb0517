"""Topics of Kafka: their settings, bounds and creation. This module reads and writes no records.

The first call makes a client, which later calls share. A forked process makes its own client, because the copy has no
thread (rule 9). Calls of several threads take turns. While the broker is away, a call is repeated for
``request_timeout_seconds``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafka import IsolationLevel, KafkaAdminClient, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka import errors as client_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from neardup.errors import ConfigError
from neardup_workers.outside.transport.kafka.client_settings import KafkaSettings, as_transport_error, is_passing
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, UnknownTopicError

_T = TypeVar("_T")

_RETRY_SECONDS = 0.1
_BROKER_DEFAULT = -1
_UNKNOWN_TOPIC = 3  # an error code of the broker


class TopicSpec(NamedTuple):
    """A topic to create; ``replication`` -1 is the broker's default, ``configs`` has Kafka's names and texts."""

    name: str
    partitions: int
    replication: int = _BROKER_DEFAULT
    configs: Mapping[str, str] = {}


class TopicDescription(NamedTuple):
    """An existing topic, with every setting in effect."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str]


class KafkaAdmin:
    """Calls about topics; each raises ``UnreachableError`` if no broker answers."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._client: KafkaAdminClient | None = None
        self._process = 0

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; raises ``UnknownTopicError``."""
        return len(self._partitions(topic))

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the id of each topic that exists, an empty one from a broker that gives none (before 2.8)."""
        answers = self._call("describe topics", lambda client: client.describe_topics([*topics]))
        return {one["name"]: str(one.get("topic_id") or "") for one in answers if not one["error_code"]}

    def nodes(self) -> int:
        """Return the number of live brokers of the cluster."""
        cluster = self._call("describe the cluster", lambda client: client.describe_cluster())
        return len(cluster["brokers"])

    def replicas(self, topic: str) -> int:
        """Return the replicas of the partition with the fewest; raises ``UnknownTopicError``."""
        return _fewest_replicas(self._partitions(topic))

    def bounds(self, topic: str, *, written: bool = False) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition; the end is where a read-committed reader stops, or, with
        ``written``, that of all records."""
        logs = [TopicPartition(topic, partition["partition_index"]) for partition in self._partitions(topic)]
        return self._bounds(logs, IsolationLevel.READ_UNCOMMITTED if written else IsolationLevel.READ_COMMITTED)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset of each partition that has this time or a later one; its end if none has."""
        ends = {partition: end for partition, (_, end) in self.bounds(topic).items()}
        wanted = dict.fromkeys((TopicPartition(topic, partition) for partition in ends), timestamp_ms)
        offsets = self._call(f"offsets of {topic!r} by time", lambda client: client.list_partition_offsets(wanted))
        at = {log.partition: one.offset for log, one in offsets.items()}
        return {partition: end if at[partition] < 0 else at[partition] for partition, end in ends.items()}

    def log_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return first offset and end of a partition; the end counts records that are not committed yet."""
        return self._bounds([TopicPartition(topic, partition)], IsolationLevel.READ_UNCOMMITTED)[partition]

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offsets; raises ``OffsetGoneError`` for one beyond the end."""
        offsets = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
        if not offsets:
            return
        try:
            self._call(f"trim {topic!r} to {dict(before)}", lambda client: client.delete_records(offsets))
        except client_errors.OffsetOutOfRangeError as error:
            raise OffsetGoneError(
                f"cannot trim {topic!r} to {dict(before)}: a log ends before that; trim to an offset that was read"
            ) from error

    def members(self, group: str) -> int:
        """Return the number of members of a group."""
        return len(self.described(group)["members"])

    def leave(self, group: str, instance: str) -> None:
        """Remove an instance from its group, if it is a member."""
        members = [MemberToRemove(group_instance_id=instance)]
        self._call(f"remove {instance!r} from {group!r}", lambda client: client.remove_group_members(group, members))

    def owned(self, group: str, topic: str) -> int | None:
        """Return how many partitions of a topic belong to members of a group; ``None`` while it rebalances."""
        group_state = self.described(group)
        if group_state["error"] is not None or group_state["group_state"] != "Stable":
            return None
        return sum(
            len(log["partitions"])
            for member in group_state["members"]
            for log in _assigned(member)
            if log["topic"] == topic
        )

    def described(self, group: str) -> dict[str, Any]:
        """Return what the broker says of a group, as the client decodes it."""
        group_state: dict[str, Any] = self._call(
            f"describe {group!r}", lambda client: client.describe_groups([group])[group]
        )
        return group_state

    def group_offsets(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the committed offsets of a group in a topic; an admin request does not wait for open transactions."""
        committed = self._call(
            f"ask for offsets of {group!r}", lambda client: client.list_group_offsets([group])[group]
        )
        return {
            log.partition: Committed(at.offset, at.metadata or "")
            for log, at in committed.items()
            if log.topic == topic and at.offset >= 0
        }

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        """Commit offsets of a group that no member joins; raises ``FencedError`` if one has."""
        positions = {
            TopicPartition(topic, partition): OffsetAndMetadata(at.offset, at.metadata, -1)
            for partition, at in offsets.items()
        }

        def commit(client: KafkaAdminClient) -> None:
            for error in client.alter_group_offsets(group, positions).values():
                if error is not client_errors.NoError:
                    raise error(group)

        self._call(f"commit offsets of {group!r}", commit)

    def create_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create the topics that do not exist, and return their names. Existing topics are unchanged.

        Raises ``ConfigError`` for settings that the broker refuses.
        """
        made = []
        for spec in specs:
            try:
                self._call(f"create {spec.name!r}", partial(_create, spec))
                made.append(spec.name)
            except client_errors.TopicAlreadyExistsError:
                continue
            except _REFUSED as error:
                raise ConfigError(f"the broker refuses to create {spec}: {error}") from error
        return made

    def set_partitions(self, topic: str, count: int) -> None:
        """Give a topic so many partitions, if it has fewer; raises ``ConfigError`` if the broker refuses."""
        try:
            self._call(f"add partitions to {topic!r}", lambda client: client.create_partitions({topic: count}))
        except client_errors.InvalidPartitionsError as error:
            if self.partitions(topic) < count:
                raise ConfigError(f"the broker refuses {count} partitions of {topic!r}: {error}") from error

    def describe(self, topic: str) -> TopicDescription:
        """Return partitions, replicas and every setting in effect; raises ``UnknownTopicError``."""
        partitions = self._partitions(topic)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answer = self._call(
            f"describe {topic!r}", lambda client: client.describe_configs([resource], config_filter="all")
        )
        configs = {name: one["value"] for name, one in answer["topic"][topic].items() if one["value"] is not None}
        return TopicDescription(topic, len(partitions), _fewest_replicas(partitions), configs)

    def close(self) -> None:
        """Free the client; never raises. The next call makes a new one."""
        with self._lock:
            self._drop()

    def _partitions(self, topic: str) -> list[dict[str, Any]]:
        (answer,) = self._call(f"describe {topic!r}", lambda client: client.describe_topics([topic]))
        if answer["error_code"] == _UNKNOWN_TOPIC:
            raise UnknownTopicError(f"topic {topic!r} does not exist; create it first")
        if answer["error_code"]:
            error = client_errors.for_code(answer["error_code"])()
            raise as_transport_error(f"describe {topic!r}", error)
        partitions: list[dict[str, Any]] = answer["partitions"]
        return partitions

    def _bounds(self, logs: list[TopicPartition], isolation: IsolationLevel) -> dict[int, tuple[int, int]]:
        def ask(client: KafkaAdminClient) -> dict[int, tuple[int, int]]:
            firsts = client.list_partition_offsets(dict.fromkeys(logs, OffsetSpec.EARLIEST), isolation)
            ends = client.list_partition_offsets(dict.fromkeys(logs, OffsetSpec.LATEST), isolation)
            return {log.partition: (firsts[log].offset, ends[log].offset) for log in logs}

        try:
            return self._call(f"bounds of {logs[0].topic!r}", ask)
        except client_errors.UnknownTopicOrPartitionError as error:
            raise UnknownTopicError(
                f"{logs} do not all exist: create the topic again with enough partitions"
            ) from error

    def _call(self, what: str, ask: Callable[[KafkaAdminClient], _T]) -> _T:
        """Call, and repeat while the broker is away; errors of ``_PASSED_ON`` reach the caller unchanged."""
        deadline = time.monotonic() + self.settings.request_timeout_seconds
        with self._lock:
            while True:
                try:
                    return ask(self._connected())
                except _PASSED_ON:
                    raise
                except Exception as error:
                    if not is_passing(error):
                        raise as_transport_error(f"cannot {what}", error) from error
                    self._drop()
                    if time.monotonic() > deadline:
                        raise as_transport_error(f"cannot {what}", error) from error
                time.sleep(_RETRY_SECONDS)

    def _connected(self) -> KafkaAdminClient:
        if self._client is None or self._process != os.getpid():
            self._client = KafkaAdminClient(**self.settings.options(), client_id="neardup-admin")
            self._process = os.getpid()
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            with suppress(Exception):
                client.close()


def _assigned(member: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the topics of a member, each with its partitions."""
    assignment: Mapping[str, Iterable[Mapping[str, Any]]] = member["member_assignment"] or {"assigned_partitions": ()}
    return assignment["assigned_partitions"]


def _fewest_replicas(partitions: list[dict[str, Any]]) -> int:
    return min(len(partition["replica_nodes"]) for partition in partitions)


def _create(spec: TopicSpec, client: KafkaAdminClient) -> None:
    settings = {
        "num_partitions": spec.partitions,
        "replication_factor": spec.replication,
        "configs": dict(spec.configs),
    }
    client.create_topics({spec.name: settings}, wait_for_metadata=True)


_REFUSED = (
    client_errors.InvalidConfigurationError,
    client_errors.InvalidPartitionsError,
    client_errors.InvalidReplicationFactorError,
    client_errors.InvalidTopicError,
    client_errors.PolicyViolationError,
)
_PASSED_ON = (
    *_REFUSED,
    client_errors.OffsetOutOfRangeError,
    client_errors.TopicAlreadyExistsError,
    client_errors.UnknownTopicOrPartitionError,
)
