"""A deployment on a real broker in one process: the workers are objects, and the test takes their turns.

The workers are the real ones on the real transport; only the shell around them is missing. `Place` does the one part of
the shell that matters here: it restarts a worker that is fenced or in doubt from the committed offsets.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafka_deployment
import orjson
from kafka_harness import WAIT_SECONDS_MAX, quick_settings

from neardup import Deduplicator, Document
from neardup_workers.doing.stages.agreement import agree
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN, names_of
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport, TopicSpec
from neardup_workers.outside.transport.protocol import Membership, Message, Record, UnreachableError
from neardup_workers.running.service.roles import ROLES
from neardup_workers.running.service.shell import CAUSES

# The test itself waits for a broker that starts: a killed one leads its partitions only when its old session ends.
PATIENT = {
    "request_timeout_seconds": WAIT_SECONDS_MAX / 2, "flush_timeout_seconds": WAIT_SECONDS_MAX,
    "transaction_timeout_seconds": WAIT_SECONDS_MAX, "read_timeout_seconds": WAIT_SECONDS_MAX,
}  # fmt: skip
# A worker polls before it asks again for an offset that an open transaction holds: the transaction may be that of
# another worker, which has its turn later.
OF_WORKERS = {"committed_timeout_seconds": 1.5}
# What each role reads, and what its group commits to.
READS = {SIGN: "documents", MATCH: "signed", LINK: "signed", FILTER: "verdicts"}

# Headers of every document: its place in a trace of the producer.
TRACE = (("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("tracestate", b"vendor=1"))


def stories(count: int) -> list[Document]:
    """Documents with distinct contents; a third of them are near-duplicates of an earlier one."""
    rows = kafka_deployment.documents(count)
    return [Document(str(row["id"]), str(row["text"]), float(str(row["timestamp"]))) for row in rows]


class World:
    """Its own topics on a broker, and the places of workers; ``close`` closes everything that the world made.

    The workers may use another address than the test, ``workers_bootstrap``: the address of a proxy. ``quick`` changes
    the waits of the workers, and not those of the test; ``limits`` those of ``StreamLimits``.
    """

    def __init__(
        self,
        bootstrap: str,
        quick: Mapping[str, object] | None = None,
        workers_bootstrap: str = "",
        limits: Mapping[str, Any] | None = None,
        **changes: object,
    ) -> None:
        given: dict[str, object] = {
            "topic_prefix": f"world-{uuid.uuid4().hex[:12]}.", "window_seconds": 1e9, "lateness_seconds": 1e9,
            "shards": 2, "documents_partitions": 2, "start": "earliest",
            "sign_threads": 1, **changes,
        }  # fmt: skip
        self.given, self.limits = given, LIMITS._replace(**(limits or {}))
        self.settings = StreamSettings(**given)  # type: ignore[arg-type]
        self.names = names_of(self.settings)
        self.topics = self.names.topics
        self.kafka: KafkaSettings = quick_settings(bootstrap, **PATIENT)
        self.kafka_of_workers: KafkaSettings = quick_settings(
            workers_bootstrap or bootstrap, with_headers=self.settings.verdicts, **{**OF_WORKERS, **(quick or {})}
        )
        self.transport = KafkaTransport(self.kafka)
        plans = topic_plans(self.settings)
        self.transport.create_topics([TopicSpec(p.name, p.partitions, -1, p.configs) for p in plans])
        agree(self.transport, self.settings)
        self.producer = self.transport.producer(f"{self.names.prefix}-load")
        self.places: list[Place] = []
        self._logs: dict[str, Log] = {}

    def place(self, role: str, instance: str = "0", **changes: object) -> Place:
        """Add a worker of a role; it joins the group in its first turn."""
        self.places.append(Place(self, role, instance, self.settings.model_copy(update=changes)))
        return self.places[-1]

    def load(self, documents: Sequence[Document], timestamp_ms: int | None = None) -> None:
        """Commit documents to their topic, keyed by id; ``timestamp_ms`` is the timestamp of the messages."""
        rows = [
            {"id": d.id, "text": d.text, "timestamp": d.timestamp, **({"title": d.title} if d.title else {})}
            for d in documents
        ]
        self.send([(str(row["id"]).encode(), orjson.dumps(row)) for row in rows], timestamp_ms)

    def send(self, messages: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int | None = None) -> None:
        """Commit keys and values to the topic of documents, in the context of a trace."""
        self.producer.begin()
        for key, value in messages:
            partition = partition_of_key(key or b"", self.settings.documents_partitions)
            self.producer.send(Message(self.topics.documents, partition, value, key, timestamp_ms, TRACE))
        self.producer.flush()
        self.producer.commit()

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition, including uncommitted records."""
        return {p: self.transport.log_bounds(topic, p)[1] for p in range(self.transport.partitions(topic))}

    def records(self, topic: str) -> list[Record]:
        """All committed records of a topic; waits for open transactions."""
        if topic not in self._logs:
            self._logs[topic] = Log(self.transport, topic)
        return self._logs[topic].records()

    def pairs(self) -> list[tuple[str, str]]:
        """The unordered pairs that readers of candidates see, sorted, with repetitions."""
        values = [orjson.loads(record.value or b"") for record in self.records(self.topics.candidates)]
        return sorted(tuple(sorted((value["older"], value["newer"]))) for value in values)

    def letters(self) -> list[dict[str, Any]]:
        """The dead letters."""
        return [orjson.loads(record.value or b"") for record in self.records(self.topics.dead)]

    def unread(self, role: str) -> int:
        """Records of a role's topic that its group has not committed, in all of its shards. Control records at the end
        may remain."""
        group, topic, shared = self.names.group(role), getattr(self.topics, READS[role]), ROLES[role].topic(self.topics)
        committed = {partition: at.offset for partition, at in self.transport.group_offsets(group, shared).items()}
        if topic != shared:
            committed = {0: min(committed.values())} if len(committed) == self.transport.partitions(shared) else {}
        return sum(record.offset >= committed.get(record.partition, 0) for record in self.records(topic))

    def expected(self, documents: Sequence[Document]) -> list[tuple[str, str]]:
        """The pairs that the library alone finds in the documents, in the form of ``pairs``."""
        found = Deduplicator(self.settings).process(documents)
        return sorted(tuple(sorted((pair.older, pair.newer))) for pair in found)

    def run(self, until: Callable[[], object], what: str, records_max: int = 500, seconds_max: float = 0.0) -> None:
        """Give every worker turns until the condition holds."""
        deadline = time.monotonic() + (seconds_max or WAIT_SECONDS_MAX)
        while not until():
            assert time.monotonic() < deadline, f"not so: {what}; {[place.standing() for place in self.places]}"
            for place in self.places:
                place.turn(records_max)

    def settle(self, records_max: int = 500) -> None:
        """Give every worker turns until each role has read its whole topic, in the order of the data."""
        for role in READS:
            members = [place for place in self.places if place.role == role]
            if members:
                ends = self.ends_of(role)
                self.run(lambda ends=ends, members=members: reached(members, ends), f"{role} has read all", records_max)  # type: ignore[misc]

    def ends_of(self, role: str) -> dict[int, int]:
        """Up to where each partition of a role's group has to read; each shard reads the whole log."""
        topic, shared = getattr(self.topics, READS[role]), ROLES[role].topic(self.topics)
        ends = self.ends(topic)
        return ends if topic == shared else dict.fromkeys(range(self.transport.partitions(shared)), ends[0])

    def close(self) -> None:
        for place in self.places:
            place.close()
        for log in self._logs.values():
            log.reader.close()
        self.producer.close()
        self.transport.close()


def reached(places: Sequence[Place], ends: Mapping[int, int]) -> bool:
    """Whether every partition runs in one of the places and has reached its end."""
    positions = {partition: at for place in places for partition, at in place.running().items()}
    return all(positions.get(partition, -1) >= end for partition, end in ends.items())


class Log:
    """The committed records of a topic; each is read once, and kept while it is in the log."""

    def __init__(self, transport: KafkaTransport, topic: str) -> None:
        self.transport, self.topic = transport, topic
        self.reader = transport.reader(topic)
        self.kept: dict[int, list[Record]] = defaultdict(list)

    def records(self) -> list[Record]:
        """The records of each partition up to its present end, in order; waits for open transactions."""
        partitions, admin = range(self.transport.partitions(self.topic)), self.transport
        bounds = {partition: admin.log_bounds(self.topic, partition) for partition in partitions}
        positions = self.reader.positions()
        starts = {partition: max(first, positions.get(partition, 0)) for partition, (first, _) in bounds.items()}
        if starts != positions:
            self.reader.follow(starts)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while any(position < bounds[partition][1] for partition, position in self.reader.positions().items()):
            assert time.monotonic() < deadline, f"{self.topic}: {self.reader.positions()} of {bounds}"
            for record in self.reader.poll(0.05, 10_000):
                self.kept[record.partition].append(record)
        return [one for p, (first, end) in bounds.items() for one in self.kept[p] if first <= one.offset < end]


class Place:
    """The place of a worker; a new worker may replace the old one."""

    def __init__(self, world: World, role: str, instance: str, settings: StreamSettings) -> None:
        self.world, self.role, self.settings = world, role, settings
        self.name = world.names.worker(role, instance)
        self.topic: str = ROLES[role].topic(world.topics)
        self.endings: list[str] = []  # why the worker was replaced
        self.aborted = 0  # how often the worker had to repeat a step
        self.transport = KafkaTransport(world.kafka_of_workers)
        self.made: Any = None
        self.worker: Any = None
        self.consumer: Any = None
        self.producer: Any = None
        self.start()

    def start(self) -> None:
        """Start the worker as the shell does, in the same order; if no broker answers, the next turn tries again."""
        try:
            self.producer = self.transport.producer(self.name)
            self.consumer = self.transport.consumer(self.topic, self.world.names.group(self.role), self.name)
            member = WorkerMember(self.transport, self.consumer, self.producer, Observer())
            self.made = ROLES[self.role].make(member, self.settings, self.world.limits)
            self.worker = self.made.worker
        except tuple(CAUSES) as error:
            self.endings.append(type(error).__name__)
            self.kill()

    def turn(self, records_max: int = 500) -> int:
        """Take one turn, as the shell does."""
        if self.worker is None:
            self.start()
            return 0
        try:
            taken = int(self.worker.turn(0.02, records_max))
            self.aborted += self.worker.member.aborted_in_row > 0
            return taken
        except UnreachableError:
            return 0
        except tuple(CAUSES) as error:
            self.endings.append(type(error).__name__)
            self.kill()
            return 0

    def running(self) -> dict[int, int]:
        """The position of each partition that the worker reads and that has no waiting records."""
        if self.worker is None:
            return {}
        running = self.worker.running - self.made.waiting_records().keys()
        reads = self.made.reads
        positions = self.consumer.positions() if reads is None else reads.positions()
        return {p: at for p, at in positions.items() if p in running}

    def generation(self) -> int:
        """The generation of the worker's group."""
        membership: Membership = self.consumer._notes.membership
        return membership.generation

    def standing(self) -> tuple[object, ...]:
        """The state of the worker, for the message of a failed wait."""
        waiting, restoring = getattr(self.worker, "waiting", None), getattr(self.worker, "restoring", None)
        return self.role, self.running(), waiting, restoring, self.endings

    def kill(self) -> None:
        """Free what the worker holds; the group keeps its place for the session."""
        for held in (self.producer, self.consumer):
            if held is not None:
                held.close()
        if self.made is not None:
            self.made.close()
        self.worker = self.producer = self.consumer = None

    def leave(self) -> None:
        """Stop in order, and leave the group."""
        self.kill()
        self.transport.leave(self.world.names.group(self.role), self.name)
        self.world.places.remove(self)
        self.transport.close()

    def close(self) -> None:
        self.kill()
        self.transport.close()
