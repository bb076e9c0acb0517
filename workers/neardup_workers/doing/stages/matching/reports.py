"""What a matcher publishes of a step, pairs and removals for ``candidates``, pairs by place and progress for ``links``;
and what it reports: the pairs of a step, its tables, and what its shards find of what should be (recall)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from neardup.documents.ids import bare_ids
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.schemes.config import Config
from neardup.stories.canaries.canaries import limit_values
from neardup.window import COUNTERS, again
from neardup_workers.doing.stages.matching.canaries import ShardLooks
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.matching.shard_table import Applied, ShardTable
from neardup_workers.doing.stages.matching.windows import added_counts
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.telemetry.recall import set_recall
from neardup_workers.outside.topics.links import NO_LINKS, LinkMessage, encode_links, join_links
from neardup_workers.outside.topics.messages import encode_candidates, encode_removal, partition_of_key
from neardup_workers.outside.transport.protocol import Message


def pair_messages(applied: Applied, shard: int, plan: MatchPlan) -> list[Message]:
    """Return the messages of a slice for ``candidates``, in order of its rows.

    Every shard reads a removal; the shard of the hash of its id publishes it.
    """
    topic, partitions = plan.topics.candidates, plan.candidate_partitions
    sent = encode_candidates(applied.matches, plan.envelope)
    own = [removal for removal in applied.removed if partition_of_key(removal[1], plan.shards) == shard]
    if own:
        out = list(zip(applied.items.tolist(), sent, strict=True))
        out += [(row, encode_removal(id_, plan.envelope, separate=plan.config.separate)) for row, id_ in own]
        out.sort(key=lambda entry: entry[0])
        sent = [one for _, one in out]
    partition = {key: partition_of_key(key, partitions) for key in {key for key, _ in sent}}
    return [Message(topic, partition[key], value, key) for key, value in sent]


def link_messages(
    done: Sequence[tuple[int, Applied]], progress: Mapping[int, tuple[int, int]], config: Config, topic: str
) -> Iterator[Message]:
    """Make the messages of each shard that has moved: its pairs, then its progress."""
    for shard, (first, end) in progress.items():
        parts = [applied.links for other, applied in done if other == shard]
        links = join_links(parts) if parts else NO_LINKS
        for value in encode_links(LinkMessage(links, first, end), config.signing_fingerprint):
            yield Message(topic, shard, value)


# Newest documents of a shard whose buckets are measured at each report.
_SAMPLED_DOCUMENTS = 16
_MICROSECONDS = 1e6


def report_step(
    observer: Observer, now: float, tables: Iterable[ShardTable], done: Sequence[tuple[int, Applied]], messages: int
) -> None:
    """Report a committed step, which changed these tables; its messages are pairs and removals."""
    pairs = sum(len(applied.matches.older) for _, applied in done)
    observer.count("pairs", pairs)
    observer.count("removals", messages - pairs)
    for _, applied in done:
        if applied.matches.older:
            observer.count("paired_documents", len(set(applied.matches.newer)))
            observer.sample("similarity_ratio", applied.matches.similarity)
            observer.sample("end_to_end_seconds", now - applied.matches.newer_times / _MICROSECONDS)
    for table in tables:
        for name, amount in table.increments().items():
            observer.count(name, amount)


def report_tables(observer: Observer, now: float, tables: Mapping[int, ShardTable], seen_bytes: int) -> None:
    """Report for each shard its contents, its lag and the buckets of its newest documents; a filter of ``seen_bytes``
    serves all of them."""
    for shard, held in tables.items():
        table, label = held.matcher.table, str(shard)
        observer.set("table_documents", table.documents, label)
        observer.set("table_bytes", held.memory_bytes() + seen_bytes // len(tables), label)
        observer.sample("bucket_length", again.bucket_lengths(table, _SAMPLED_DOCUMENTS))
        if held.stream_time is not None:
            observer.set("event_time_lag_seconds", now - held.stream_time / _MICROSECONDS, label)


class Recall:
    """The recall of a member. The loop of the matcher counts; any thread may call ``values``."""

    def __init__(self, config: Config, observer: Observer, canaries: ShardLooks) -> None:
        self._separate, self._observer, self._canaries = config.separate, observer, canaries
        self._losses = LossAccounts()

    def count(self, done: Iterable[tuple[int, Applied]]) -> None:
        """Count what limits cost in a committed step; a removed document names no cluster any more."""
        for _, applied in done:
            if applied.losses is not None:
                self._losses.add(*applied.losses)
            ids = [id_.decode() for _, id_ in applied.removed]
            for id_ in bare_ids(ids) if self._separate else ids:
                self._losses.forget(id_)

    def values(self, tables: Collection[ShardTable]) -> dict[str, Any]:
        """Return what is known as values of JSON, in the form of ``recall`` of ``GET /v1/figures``."""
        return {"limits": limit_values(counts_of(tables), self._losses), "canaries": self._canaries.looks.values()}

    def measure(self, tables: Collection[ShardTable]) -> None:
        """Set the gauges of recall."""
        set_recall(self._observer, limit_values(counts_of(tables)), self._canaries.looks.values())


def counts_of(tables: Collection[ShardTable]) -> dict[str, int]:
    """Return the counts of some shards together; those that are kept since a shard began are, those of this process
    else."""
    counts: Counter[str] = Counter()
    for table in tables:
        counts.update(table.matcher.table.counts())
    return {**dict.fromkeys(COUNTERS, 0), **counts, **added_counts([table.kept_counts() for table in tables])}
