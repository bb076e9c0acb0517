"""The two roles of workers, as rows: what each reads, how one is made, how much it takes, what it does besides.

The kernels are compiled, or read from disk, before a worker joins its group: a first step that compiles for half a
minute would let its partitions stand idle.
"""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from stream.bands_message import BandMessage, encode
from stream.config import Config
from stream.partitions import Partition
from stream.pipeline import Signer
from stream.schemes import SCHEMES
from workers.process.exits import Exit, Failure
from workers.settings.files import fields_of
from workers.settings.kafka import StreamSettings
from workers.stages.matcher import MatchPlan, MatchWorker
from workers.stages.partition_table import PartitionTable
from workers.stages.signer import SignPlan, SignWorker
from workers.telemetry.observer import Observer
from workers.topics.messages import Envelope
from workers.topics.names import MATCH, SIGN, Topics, names_of
from workers.topics.replication import judge_replication
from workers.topics.rules import judge, refusal, topic_plans, warnings
from workers.transport.kafka import records as kafka_records
from workers.transport.protocol import Consumer, Producer, Record, Transport, UnknownTopicError

_log = logging.getLogger(__name__)

# One text takes the short path of the normalisation, the other one the general one.
_WARM_TEXTS = ("a text to compile the kernels with, and another", "ein Text, der die Kerne übersetzen läßt — 漢字")


class Worker(Protocol):
    """What the shell sees of a worker. ``joined``: in a generation of the group. ``running``: partitions it takes."""

    joined: bool
    aborted_in_row: int
    waiting: set[int]

    @property
    def running(self) -> set[int]:
        """The partitions whose records are taken."""

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is running."""

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """One pass of the loop; returns the records taken."""


# What a worker that starts over leaves to the next one of its process.
Kept = dict[int, PartitionTable]


class Made(NamedTuple):
    """A worker, and what is its role's alone: what it restores, how many records of each partition it has polled
    and not done, what it does at intervals, what it leaves."""

    worker: Worker
    restoring: Callable[[], list[int]] = list
    in_hand: Callable[[], Mapping[int, int]] = dict
    observe: Callable[[], None] = lambda: None
    trim: Callable[[], None] = lambda: None
    leave: Callable[[], Kept] = dict
    take: Callable[[Kept], None] = lambda kept: None


class Role(NamedTuple):
    """One kind of worker. ``interval_share``: of the commit interval, for what one of its steps collects."""

    name: str
    topic: Callable[[Topics], str]
    records_max: Callable[[StreamSettings], int]
    interval_share: float
    make: Callable[[Transport, Consumer, Producer, StreamSettings, Observer], Made]


def _signer(
    transport: Transport, consumer: Consumer, producer: Producer, settings: StreamSettings, observer: Observer
) -> Made:
    topics = names_of(settings).topics
    check_bands(transport, settings)
    check_topics(transport, settings, (topics.documents, topics.dead, topics.bands))
    plan = SignPlan(
        config=settings,
        fields=fields_of(settings),
        topics=topics,
        partitions=settings.bands_partitions,
        dead_partitions=transport.partitions(topics.dead),
        skew_seconds=settings.skew_seconds,
        start=settings.start,
        step_bytes_max=settings.step_bytes_max,
    )
    worker = SignWorker(consumer, producer, lambda: transport.bounds(topics.documents), plan, observer)
    return Made(worker)


def _matcher(
    transport: Transport, consumer: Consumer, producer: Producer, settings: StreamSettings, observer: Observer
) -> Made:
    names = names_of(settings)
    check_bands(transport, settings)
    check_topics(transport, settings, (names.topics.bands, names.topics.candidates))
    plan = MatchPlan(
        config=settings,
        topics=names.topics,
        partitions=settings.bands_partitions,
        candidate_partitions=transport.partitions(names.topics.candidates),
        envelope=Envelope(settings.scheme, names.generation),
        start=settings.start,
        allow_gap=settings.allow_gap,
        step_bytes_max=settings.step_bytes_max,
        step_pairs_max=settings.step_pairs_max,
    )
    worker = MatchWorker(transport, consumer, producer, plan, observer)
    return Made(
        worker=worker,
        restoring=lambda: sorted(worker.restoring),
        in_hand=lambda: worker.in_hand,
        observe=worker.observe,
        trim=worker.trim,
        leave=worker.leave,
        take=worker.take,
    )


# A signer collects documents that come one by one. What comes to a matcher was collected, and comes all at once.
ROLES: dict[str, Role] = {
    SIGN: Role(SIGN, lambda topics: topics.documents, lambda settings: settings.step_documents_max, 1.0, _signer),
    MATCH: Role(MATCH, lambda topics: topics.bands, lambda settings: settings.step_messages_max, 0.25, _matcher),
}
# A poll waits at least so long: the records of several partitions do not come in one moment.
_WAIT_SECONDS_MIN = 0.02
# Objects that may come to be before the garbage collector looks at them. A step makes thousands of records, none of
# them in a circle, and the default of 700 costs a tenth of a signer's time.
_COLLECT_OBJECTS = 50_000


def wait_seconds(role: Role, settings: StreamSettings, waited: float = 0.0, turn: float = 0.0) -> float:
    """How long the next poll of a worker may wait, after a turn of ``turn`` seconds whose poll might wait ``waited``.

    What a step takes is taken off, so that commits follow one another at the interval.
    """
    interval = role.interval_share * settings.commit_interval_ms / 1000
    return min(interval, max(_WAIT_SECONDS_MIN, interval - max(0.0, turn - waited)))


def spare_collector() -> None:
    """For a process that is a worker: what is loaded is for ever, and garbage in circles is rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_OBJECTS)


def check_bands(transport: Transport, settings: StreamSettings) -> None:
    """Raise ``UnknownTopicError`` unless the topic of this generation has the partitions that its name promises."""
    name = names_of(settings).topics.bands
    found = transport.partitions(name)
    if found != settings.bands_partitions:
        raise UnknownTopicError(
            f"{name} has {found} partitions, but its generation is that of {settings.bands_partitions}: keys would be "
            "looked for where they are not; delete it and create it anew with neardup topics create"
        )


def check_topics(transport: Transport, settings: StreamSettings, names: Collection[str]) -> None:
    """Raise ``Failure`` for a topic with settings that could lose live state, or output, in silence."""
    found = {}
    for plan in topic_plans(settings):
        if plan.name in names:
            configs = transport.configs(plan.name)
            if not configs:
                _tell_unseen(plan.name)
            found[plan.name] = judge(plan, transport.partitions(plan.name), configs)
            found[plan.name] += judge_replication(
                transport.replication(plan.name), configs, allow_single=settings.allow_single_replica
            )
    sentence = refusal(found)
    if sentence:
        raise Failure(Exit.TOPIC, sentence)
    _warn_once(warnings(found))


@functools.cache
def _warn_once(sentence: str) -> None:
    if sentence:
        _log.warning("%s", sentence)


@functools.cache
def _tell_unseen(topic: str) -> None:
    """Once in the life of the process, however often it starts over."""
    _log.warning(
        "the settings of %s are not to be seen, so nothing says whether they could lose live state: "
        "let this user describe the configurations of the topic (DescribeConfigs)",
        topic,
    )


def warm(config: Config, partitions: int) -> None:
    """Compile what both roles run, or read it from disk."""
    samples = (SCHEMES[config.scheme].sample(text, config.plan) for text in _WARM_TEXTS * 2)
    signed = Signer(config).sign([sample._replace(id=str(i), timestamp=0.0) for i, sample in enumerate(samples)])
    message = encode(BandMessage(signed.batch, [b"0"]), config.signing_fingerprint)
    table = PartitionTable(config, Partition(0, partitions))
    for publish in (False, True):
        table.apply(Record(0, 0, 0, None, message), publish=publish)
        table.undo()
    table.matcher.table.bucket_lengths(1)
    kafka_records.warm()
