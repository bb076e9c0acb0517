"""K2: documents a second of a matcher that has every shard, and of its restore. K3: bytes on ``signed``.

In memory the matcher runs on the twin of the broker, so its time is its own processor time: decode, table, encode. Over
the broker the time of its process includes the client. Each of its shards reads a document: the time of a document is
the time of all of them.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from memory_transport import MemoryCluster, MemoryTransport

from benchmarks.kafka.deploy import Bench, Tally, deployment, texts, with_group
from benchmarks.report import Result, Size, Target
from neardup import Document
from neardup.pairs.json_lines import Fields
from neardup.pairs.signing import Signer
from neardup_workers.doing.stages.agreement import agree
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.telemetry.observer import SILENT
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.topics.signed import offset_and_row
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.protocol import Message, Record, Transport
from neardup_workers.running.service.roles import ROLES

SEED = 42
ID, BYTES_ID = "K2-matcher", "K3-bytes"
RATE_MIN, BYTES_MAX = 100_000, 200
_DOCUMENTS: dict[Size, int] = {"smoke": 600, "default": 240_000, "large": 1_000_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 3, "large": 3}
# Shorter than 4 kB: the work of a matcher does not depend on the length of texts.
_PIECES, _EDITED_FRACTION = 12, 0.1
# Documents of a signer's step: in 200 ms at 10,000 documents a second, and at a little more than 1,000.
_STEPS = (2_000, 250)
# The rate is that of the first part of the log: for the last steps of a topic, a matcher waits in case more messages
# come.
_TIMED_FRACTION = 0.9
# Of a message, at most half a megabyte.
_TRANSACTION_MESSAGES = 4
_FIELDS = Fields("id", "text", "timestamp")


class Run(NamedTuple):
    """One pass of a matcher over the log: wall and processor seconds of matching, and of restoring."""

    match: tuple[float, float]
    restore: tuple[float, float]
    pairs: int
    stages: dict[str, float]


def run(bench: Bench) -> Iterator[Result]:
    """Measure bytes first, because this makes the messages; then in memory by size of step; then over the broker."""
    count, smoke = _DOCUMENTS[bench.size], bench.size == "smoke"
    settings = deployment(bench, "match", window_documents=max(count, 1_000))
    ROLES["match"].warm(settings)
    records = documents(count)
    logs = {step: signed(settings, records, step) for step in (_STEPS[:1] if smoke else _STEPS)}
    yield _bytes(settings, logs[_STEPS[0]], count)
    for step, messages in logs.items():
        runs = [in_memory(settings, messages) for _ in range(_REPEATS[bench.size])]
        where = f"in memory, signer's steps of {step}"
        yield from _rates(where, runs, messages, count, own=True, targets=step == _STEPS[0])
    step = _STEPS[0]
    end = publish(settings, logs[step])
    runs = []
    for i in range(_REPEATS[bench.size]):
        own = with_group(settings, f"run{i}")
        runs.append(matched(lambda: connect(settings), own, end))
    yield from _rates(f"over the broker, signer's steps of {step}", runs, logs[step], count, own=False, targets=True)


def documents(count: int) -> list[Document]:
    """Documents in order of event time."""
    made = texts(count, SEED, _EDITED_FRACTION, _PIECES)
    return [Document(f"doc-{SEED:04d}-{i:011d}", text, 1_700_000_000 + i / 1000) for i, text in enumerate(made)]


def signed(settings: StreamSettings, made: Sequence[Document], step: int) -> list[Message]:
    """The messages of ``signed`` that a signer makes from steps of so many documents."""
    plan = SignPlan(settings, _FIELDS, names_of(settings).topics, 1, 1e12, None)
    signer, out = Signer(settings), []
    stream = (Record(0, i, 0, d.id.encode(), json.dumps(d._asdict()).encode()) for i, d in enumerate(made))
    while batch := list(itertools.islice(stream, step)):
        out += sign_records(batch, signer, plan, SILENT).messages
    return out


def _bytes(settings: StreamSettings, messages: Sequence[Message], count: int) -> Result:
    size = sum(len(message.value or b"") for message in messages)
    details = {
        "id bytes": 20, "messages": len(messages), "mean message bytes": size / len(messages),
        "bands": settings.tuning.bands, "rows": settings.tuning.rows,
    }  # fmt: skip
    return Result(BYTES_ID, "bytes of a document on signed", size / count, "B", Target("at most", BYTES_MAX), details)


def in_memory(settings: StreamSettings, messages: Sequence[Message]) -> Run:
    """A pass on the twin of the broker."""
    cluster = holding(settings, messages)
    return matched(lambda: MemoryTransport(cluster), settings, len(messages))


def holding(settings: StreamSettings, messages: Sequence[Message]) -> MemoryCluster:
    """A twin of the broker with the topics of a stream and these messages."""
    cluster, topics = MemoryCluster(), names_of(settings).topics
    for topic in (topics.documents, topics.dead, topics.candidates):
        cluster.create(topic, settings.documents_partitions)
    cluster.create(topics.signed, 1)
    cluster.create(topics.links, settings.shards)
    cluster.create(topics.settings, 1)
    agree(MemoryTransport(cluster), settings)
    for message in messages:
        cluster.append(message.topic, message.partition, message.value)
    return cluster


def publish(settings: StreamSettings, messages: Sequence[Message]) -> int:
    """Send the messages to the broker, some in a transaction, as a signer's step does; returns the offset after the
    last one, where the marker of its transaction is."""
    transport = connect(settings)
    producer = transport.producer(f"{settings.topic_prefix}publish")
    for first in range(0, len(messages), _TRANSACTION_MESSAGES):
        producer.begin()
        for message in messages[first : first + _TRANSACTION_MESSAGES]:
            producer.send(Message(message.topic, message.partition, message.value))
        producer.commit()
    producer.close()
    transport.close()
    return end_of_signed(settings)


def end_of_signed(settings: StreamSettings) -> int:
    """Return the offset after the last message of ``signed``, where the marker of its transaction is; waits for it."""
    transport, topic = connect(settings), names_of(settings).topics.signed
    while True:
        _, readable = transport.bounds(topic)[0]
        _, end = transport.log_bounds(topic, 0)
        if readable == end > 0:
            break
        time.sleep(0.01)
    transport.close()
    return end - 1


def matched(connected: Callable[[], Transport], settings: StreamSettings, end: int) -> Run:
    """Match all of the log from its beginning up to an offset, then restore it as the next owner.

    The seconds of matching are those of the timed part, times all documents over its documents.
    """
    transport, tally = connected(), Tally()
    worker, close = _worker(transport, settings, tally)
    while len(worker.running) < settings.shards:
        worker.turn(0.0, 1)
    started, own = time.perf_counter(), time.process_time()
    timed, timed_documents, stages = (0.0, 0.0), 0.0, dict[str, float]()
    passed = 0
    while passed < end:
        worker.turn(LIMITS.commit_seconds, LIMITS.step_messages_max)
        passed = _passed(worker)
        if not timed_documents and passed >= _TIMED_FRACTION * end:
            timed = time.perf_counter() - started, time.process_time() - own
            timed_documents, stages = tally.sums["documents"], tally.stages()
    scale = tally.sums["documents"] / timed_documents
    matched = timed[0] * scale, timed[1] * scale
    stages = {name: seconds * scale for name, seconds in stages.items()}
    pairs = int(tally.sums["pairs"])
    close()
    del worker
    names = names_of(settings)
    transport.leave(names.group("match"), names.worker("match", settings.instance))
    worker, close = _worker(transport, settings, tally)
    restored = _restored(worker, settings, tally)
    close()
    transport.close()
    return Run(matched, restored, pairs, stages)


def _passed(worker: MatchWorker) -> int:
    """The offset that every shard has passed."""
    return min(offset_and_row(table.position)[0] for table in worker.tables.values())


def _restored(worker: MatchWorker, settings: StreamSettings, tally: Tally) -> tuple[float, float]:
    """Wall and own seconds of the restore of every shard, without other work of the turn that joins the group."""
    before, own, wall = tally.stages().get("restore", 0.0), time.process_time(), 0.0
    while len(worker.running) < settings.shards:
        begun, started = bool(worker.restoring or worker.running), time.perf_counter()
        worker.turn(0.0, 1)
        if begun:
            wall += time.perf_counter() - started
        else:
            wall = tally.stages().get("restore", 0.0) - before
    return wall, time.process_time() - own


def _worker(transport: Transport, settings: StreamSettings, tally: Tally) -> tuple[MatchWorker, Callable[[], None]]:
    """A matcher, and the context that closes it."""
    role, names = ROLES["match"], names_of(settings)
    name = names.worker(role.name, settings.instance)
    producer = transport.producer(name)
    consumer = transport.consumer(role.topic(names.topics), names.group(role.name), name)
    worker = role.make(WorkerMember(transport, consumer, producer, tally), settings, LIMITS).worker
    assert isinstance(worker, MatchWorker)

    def close() -> None:
        producer.close()
        consumer.close()

    return worker, close


def _rates(
    where: str, runs: Sequence[Run], messages: Sequence[Message], count: int, *, own: bool, targets: bool
) -> Iterator[Result]:
    """Matching and restoring, by processor time (``own``) or by the clock; the details have the other time."""
    at = 1 if own else 0
    match, restore = (min(one.match[at] for one in runs)), (min(one.restore[at] for one in runs))
    other = "clock" if own else "own processor time"
    best = min(runs, key=lambda one: one.match[at])
    details: dict[str, object] = {
        "documents": count, "messages": len(messages), "pairs": best.pairs,
        f"documents/s by {other}": round(count / min(one.match[1 - at] for one in runs)),
        **{f"{name} s": seconds for name, seconds in best.stages.items()},
    }  # fmt: skip
    real = targets and count >= 10_000
    unit = "documents/s"
    yield Result(ID, f"match {where}", count / match, unit, Target("at least", RATE_MIN) if real else None, details)
    details = {
        "documents/s": round(count / restore),
        f"documents/s by {other}": round(count / min(one.restore[1 - at] for one in runs)),
    }
    target = Target("at least", 1.0) if real else None
    yield Result(ID, f"restore over match {where}", match / restore, "times", target, details)
