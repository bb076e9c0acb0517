"""What a matcher reports: the pairs of a step, and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from neardup.window import again
from neardup_workers.doing.stages.matching.shard_table import Applied, ShardTable
from neardup_workers.outside.telemetry.observer import Observer

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


def report_tables(observer: Observer, now: float, tables: Mapping[int, ShardTable]) -> None:
    """Report for each shard its contents, its lag and the buckets of its newest documents."""
    for shard, held in tables.items():
        table, label = held.matcher.table, str(shard)
        observer.set("table_documents", table.documents, label)
        observer.set("table_bytes", held.memory_bytes(), label)
        observer.sample("bucket_length", again.bucket_lengths(table, _SAMPLED_DOCUMENTS))
        if held.stream_time is not None:
            observer.set("event_time_lag_seconds", now - held.stream_time / _MICROSECONDS, label)
