"""The roles of workers as rows of a table: input topics, constructor, limits, chores.

The kernels are compiled, or loaded from disk, before a worker joins its group. If the first step compiled them, its
partitions would be idle for half a minute.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from neardup.errors import ConfigError
from neardup.pairs.batches import id_columns
from neardup.pairs.json_lines import Fields
from neardup.pairs.pair_rule import nearest_pairs
from neardup.pairs.shards import Shard, table_limits
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup.schemes.interface import fixed_evidence
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.deciding import verdict_limits
from neardup.stories.verdicts.rule import DOCUMENT, REMOVAL
from neardup.stories.windows.constant_texts import samples, signature_of
from neardup.window import NO_TIME, again
from neardup_workers.doing.stages.filtering.filter import FilterPlan, FilterWorker
from neardup_workers.doing.stages.matching.cursors import SeenRows
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import read_stretches
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.originals import read_stories
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.json.columns import decode_columns
from neardup_workers.outside.readers.json.values import ValueReader, decode_of
from neardup_workers.outside.settings.files import fields_of
from neardup_workers.outside.settings.kafka import MESSAGE_OVERHEAD_BYTES, STARTS, StreamLimits, StreamSettings
from neardup_workers.outside.store.blocked import read_block_list
from neardup_workers.outside.topics.arrivals import ArrivalRows
from neardup_workers.outside.topics.messages import Envelope
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN, Topics, generation_header, names_of
from neardup_workers.outside.topics.replication import judge_replication
from neardup_workers.outside.topics.rules import judge, refusal, topic_plans, warnings
from neardup_workers.outside.topics.signed import SignedRows, encode_signed, position_of
from neardup_workers.outside.topics.verdicts import decided_rows, encode_runs
from neardup_workers.outside.transport.kafka.transport import warm as warm_batches
from neardup_workers.outside.transport.protocol import Record, Transport, UnknownTopicError, sent_bytes

_log = logging.getLogger(__name__)


class Worker(Protocol):
    """The part of a worker that the shell uses."""

    member: WorkerMember

    @property
    def running(self) -> set[int]:
        """The partitions whose records are read."""

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is running."""

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Run the loop once; returns the number of records read."""


# Shard -> table. A worker that restarts passes its tables to the next worker of the process.
Tables = dict[int, ShardTable]


class Reads(NamedTuple):
    """What a worker reads without its group: the topic, which has one partition; by partition of the group the offset
    up to which it is read, and how many records are left."""

    topic: str
    positions: Callable[[], Mapping[int, int]]
    lag: Callable[[], Mapping[int, int]]


class Made(NamedTuple):
    """A worker with the parts that only its role has: restoring, chores at intervals, tables for the next worker,
    readers to close, what it reports as JSON by name, what it reads without its group.

    ``restored`` is how much restores have read, and of how much, ``preparing`` the same of standbys that are not of use
    yet (0 of 0: none is); ``waiting_records`` returns the number of polled and unprocessed records, by partition;
    ``standbys`` how many messages and seconds each standby is behind.
    """

    worker: Worker
    restoring: Callable[[], list[int]] = list
    restored: Callable[[], tuple[int, int]] = lambda: (0, 0)
    preparing: Callable[[], tuple[int, int]] = lambda: (0, 0)
    observe: Callable[[], None] = lambda: None
    trim: Callable[[], None] = lambda: None
    standbys: Callable[[], Mapping[int, tuple[int, float]]] = dict
    waiting_records: Callable[[], Mapping[int, int]] = dict
    hand_over: Callable[[], Tables] = dict
    inherit: Callable[[Tables], None] = lambda tables: None
    close: Callable[[], None] = lambda: None
    reports: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType({})
    reads: Reads | None = None


class Role(NamedTuple):
    """A kind of worker. ``interval_fraction``: the fraction of the commit interval for which a step collects
    records."""

    name: str
    topic: Callable[[Topics], str]
    records_max: Callable[[StreamLimits], int]
    interval_fraction: float
    make: Callable[[WorkerMember, StreamSettings, StreamLimits], Made]
    warm: Callable[[StreamSettings], None]


def _signer(member: WorkerMember, settings: StreamSettings, limits: StreamLimits) -> Made:
    topics, transport = names_of(settings).topics, member.transport
    check_topics(transport, settings, (topics.documents, topics.dead, topics.signed))
    # A filter adds this header to a document that it forwards.
    added = sent_bytes(None, None, (generation_header(names_of(settings).generation),))
    plan = SignPlan(
        config=settings,
        fields=fields_of(settings, sources=settings.verdicts),
        topics=topics,
        dead_partitions=transport.partitions(topics.dead),
        skew_seconds=limits.skew_seconds,
        start=settings.start,
        step_bytes_max=limits.step_bytes_max,
        document_bytes_max=settings.client.request_bytes_max - MESSAGE_OVERHEAD_BYTES - added,
        align_wait_seconds_max=settings.align_wait_seconds_max,
        verdicts=settings.verdicts,
        representative=settings.representative,
        blocked=read_block_list(settings.blocked),
        canaries_every=limits.canaries_every,
        canaries_per_second_max=limits.canaries_per_second_max,
        texts=signature_of(settings),
        allow_gap=settings.allow_gap,
        values=ValueReader(limits.step_bytes_max, decode_of(settings.decode)),
    )
    pool = ThreadPoolExecutor(1, "signer") if settings.sign_threads > 1 else None
    worker = SignWorker(member, plan, pool=pool)
    return Made(worker, observe=worker.observe, waiting_records=worker.waiting_records)


def _matcher(member: WorkerMember, settings: StreamSettings, limits: StreamLimits) -> Made:
    names, transport = names_of(settings), member.transport
    partitions = transport.partitions(names.topics.links)
    if partitions < settings.shards:
        raise UnknownTopicError(
            f"{names.topics.links} has {partitions} partitions, but its generation begins with {settings.shards} "
            "shards, so documents would go to the wrong ones; delete it and create it again with neardup topics create"
        )
    check_topics(transport, settings, (names.topics.signed, names.topics.candidates, names.topics.links))
    member.observer.set("promised_recall_ratio", 1.0 if SCHEMES[settings.scheme].exact else settings.tuning.recall)
    plan = MatchPlan(
        config=settings,
        topics=names.topics,
        shards=settings.shards,
        candidate_partitions=transport.partitions(names.topics.candidates),
        envelope=Envelope(settings.scheme, names.generation),
        start=settings.start,
        allow_gap=settings.allow_gap,
        link_group=names.group(LINK),
        step_bytes_max=limits.step_bytes_max,
        step_pairs_max=limits.step_pairs_max,
        canaries=limits.canaries_every > 0,
        verdicts=settings.verdicts,
        standbys=settings.standbys,
        pairs_max=settings.pairs_max,
    )
    worker = MatchWorker(member, plan)
    return Made(
        worker,
        restoring=lambda: sorted(worker.restoring),
        restored=worker.restore_progress,
        preparing=worker.standbys.progress,
        waiting_records=worker.waiting_records,
        observe=worker.observe,
        trim=worker.trim,
        standbys=worker.standbys.lag,
        hand_over=worker.hand_over,
        inherit=worker.inherit,
        close=worker.close,
        reports={"recall": lambda: worker.recall.values(list(worker.tables.values()))},
        reads=Reads(names.topics.signed, worker.positions, worker.lag),
    )


def _linker(member: WorkerMember, settings: StreamSettings, limits: StreamLimits) -> Made:
    topics, transport = names_of(settings).topics, member.transport
    _check_verdicts(settings)
    read = (topics.signed, topics.links, topics.verdicts, topics.clusters, topics.originals, topics.sources)
    check_topics(transport, settings, read)
    plan = LinkPlan(
        config=settings,
        topics=topics,
        shards=settings.shards,
        cluster_partitions=transport.partitions(topics.clusters),
        limits=verdict_limits(settings, table_limits(settings, SCHEMES[settings.scheme])),
        start=settings.start,
        allow_gap=settings.allow_gap,
        match_group=names_of(settings).group(MATCH),
        step_bytes_max=limits.step_bytes_max,
        undecided_max=limits.undecided_max,
        messages_bytes_max=limits.messages_bytes_max,
        sources_max=settings.sources_max,
        standbys=settings.standbys,
    )
    worker = LinkWorker(member, plan)
    return Made(
        worker,
        restoring=worker.restoring_partitions,
        restored=lambda: worker.held.progress,
        preparing=worker.standby.progress,
        observe=worker.observe,
        trim=worker.trim,
        waiting_records=worker.waiting_records,
        standbys=worker.standby.lag,
        close=worker.close,
        reports={"sources": lambda: worker.sources.report()},
        reads=Reads(topics.signed, worker.positions, worker.lag),
    )


def _filter(member: WorkerMember, settings: StreamSettings, limits: StreamLimits) -> Made:
    names, start, follows = names_of(settings), settings.start, None
    _check_verdicts(settings)
    check_topics(member.transport, settings, (names.topics.verdicts, names.topics.documents, names.topics.unique))
    if start is not None and start not in STARTS:
        start, follows = "earliest", names_of(settings, start)
    plan = FilterPlan(names, settings.forward, start, settings.allow_gap, limits.step_bytes_max, follows)
    worker = FilterWorker(member, plan)
    return Made(worker, waiting_records=worker.waiting_records, close=worker.close)


def _check_verdicts(settings: StreamSettings) -> None:
    if not settings.verdicts:
        raise ConfigError(
            "verdicts is off, so no matcher writes links: set verdicts for every role, "
            "and make their topics with neardup topics create"
        )


# Minimum wait of a poll: the records of several partitions do not arrive at the same moment.
_WAIT_SECONDS_MIN = 0.02


def wait_seconds(role: Role, limits: StreamLimits, waited: float = 0.0, turn: float = 0.0) -> float:
    """Return the seconds that the next poll of a worker may wait.

    The last turn lasted ``turn`` seconds, and its poll could wait ``waited`` of them. The difference is subtracted, so
    that commits follow one another at the interval.
    """
    interval = role.interval_fraction * limits.commit_seconds
    return min(interval, max(_WAIT_SECONDS_MIN, interval - max(0.0, turn - waited)))


def check_topics(transport: Transport, settings: StreamSettings, names: Collection[str]) -> None:
    """Raise ``Failure`` for a topic whose settings could silently lose live state or output."""
    findings = {}
    for plan in topic_plans(settings):
        if plan.name in (*names, names_of(settings).topics.settings):
            configs = transport.configs(plan.name)
            if not configs:
                _warn_unseen(plan.name)
            findings[plan.name] = judge(plan, transport.partitions(plan.name), configs)
            findings[plan.name] += judge_replication(
                transport.replication(plan.name), configs, allow_single=settings.allow_single_replica
            )
    sentence = refusal(findings)
    if sentence:
        raise Failure(Exit.TOPIC, sentence)
    _warn_once(warnings(findings))


@functools.cache
def _warn_once(sentence: str) -> None:
    if sentence:
        _log.warning("%s", sentence)


@functools.cache
def _warn_unseen(topic: str) -> None:
    """Warn once in the life of the process, also after restarts of the worker."""
    _log.warning(
        "this user may not see the settings of %s, which could lose live state: "
        "allow it to describe the configuration of the topic (DescribeConfigs)",
        topic,
    )


def _warm_tables(settings: StreamSettings) -> None:
    """Compile the kernels that sign samples and match them, or load them from disk."""
    signed = Signer(settings).sign(samples(settings))
    batch, n = signed.batch, signed.batch.size
    kinds, numbers, ranks = np.array([DOCUMENT] * n + [REMOVAL], np.uint8), np.arange(n + 1), np.full(n + 1, NO_RANK)
    starts = np.append(batch.id_starts, batch.id_starts[-1])
    rows = SignedRows(kinds, numbers, batch.ids, starts, ranks, batch.times, batch.contents, batch.evidence)
    records = [Record(0, i, 0, None, data) for i, data in enumerate(encode_signed(rows, settings.signing_fingerprint))]
    (stretch,) = read_stretches(records, settings)
    SeenRows(settings).mark(stretch)
    table = ShardTable(settings, Shard(0, settings.shards))
    for publish in (False, True):
        for _ in table.apply(stretch, publish=publish):
            pass
        table.undo()
    again.bucket_lengths(table.matcher.table, 1)
    nearest_pairs(np.zeros(2, np.int32), numbers, np.zeros(2), 1)
    warm_batches()


def _warm_signer(settings: StreamSettings) -> None:
    """Compile the kernels of signers too, which decode documents to columns."""
    _warm_tables(settings)
    if settings.plan.kind != "text":
        return
    signer = Signer(settings)
    for sample in samples(settings):
        signer.sign([sample])
        for escaped in (True, False):
            line = json.dumps({"id": sample.id, "text": sample.text}, ensure_ascii=escaped).encode(errors="replace")
            if (decoded := decode_columns([line], [None], Fields())) is not None:
                signer.sign(decoded.documents)


def warm_decisions(config: Config) -> None:
    """Compile the kernels of linkers, or load them from disk: two versions of an id are compared."""
    compared = Compared(config, lambda offset: b"", 1)
    limits = verdict_limits(config, table_limits(config, SCHEMES[config.scheme]))
    state, none = LinkState(limits, compared), decided_rows(0, [], int(NO_TIME))
    state.restore(none, int(NO_TIME), {}, read_stories([], config.signing_fingerprint).kept, np.empty(0, np.int64))
    ids, starts = id_columns([b"0"] * 3)
    kinds = np.array([DOCUMENT, DOCUMENT, REMOVAL], np.uint8)
    zeros, contents = np.zeros(3, np.int64), np.arange(3).astype(np.uint64)
    state.add_arrivals(0, ArrivalRows(np.arange(3), kinds, zeros, contents, ids, starts, np.zeros(3), zeros), 0)
    compared.keep(0, fixed_evidence(np.zeros((2, config.plan.width), np.uint8)), 0)
    taken = state.take(position_of(1), len(kinds))
    if taken is not None:
        list(encode_runs(state.decide(taken, [])))
        state.undo()
    warm_batches()


# A signer collects documents that arrive one by one. The other roles receive larger messages.
ROLES: dict[str, Role] = {
    role.name: role
    for role in (
        Role(
            SIGN, lambda topics: topics.documents, lambda limits: limits.step_documents_max, 1.0, _signer, _warm_signer
        ),
        Role(MATCH, lambda topics: topics.links, lambda limits: limits.step_messages_max, 0.25, _matcher, _warm_tables),
        Role(
            LINK, lambda topics: topics.signed, lambda limits: limits.step_messages_max, 0.25, _linker, warm_decisions,
        ),
        Role(
            FILTER, lambda topics: topics.verdicts, lambda limits: limits.step_documents_max, 0.25, _filter,
            lambda given: warm_batches(),
        ),
    )
}  # fmt: skip
