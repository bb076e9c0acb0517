"""The restore of a linker: it reads the decisions of the window from ``verdicts``, in stretches between polls."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from neardup.errors import NeardupError
from neardup.stories.verdicts.rule import is_document
from neardup.window import NO_TIME
from neardup_workers.doing.stages.verdicts.clusters import Clusters
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.originals import Stories, read_stories
from neardup_workers.doing.stages.verdicts.positions import (
    decode_signed_metadata,
    decode_verdicts_metadata,
)
from neardup_workers.doing.stages.verdicts.sources import Gathered, KeptSources, Sources, read_sources
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.outside.topics.signed import PARTITION, decode_signed
from neardup_workers.outside.topics.verdicts import DecidedRows, decided_rows, join_decided, parse_run
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, Record, Transport


class RecordsLostError(NeardupError):
    """Records that a linker has committed are no longer in a compacted topic; another attempt does not help."""


_Kept = TypeVar("_Kept", Stories, KeptSources)


class Restored(NamedTuple):
    """What a linker holds between two steps."""

    state: LinkState
    clusters: Clusters
    sources: Sources


def restored(
    transport: Transport, plan: LinkPlan, compared: Compared, signed: Committed, verdicts: Mapping[int, Committed]
) -> Iterator[Restored | int]:
    """Read stories and ledger, the verdicts from the committed offsets on, and the messages of the window. Yields the
    rows of each stretch of the two, at least 1 for one that is not empty, then the state of the last linker.

    Raises, unless ``plan.allow_gap`` is on, ``OffsetGoneError`` if retention has deleted verdicts of the window, and
    ``RecordsLostError`` if stories or the ledger are gone.
    """
    topics, config, metadata = plan.topics, plan.config, decode_signed_metadata(signed)
    stories = yield from compacted(
        transport, plan, topics.originals, metadata.step, lambda read: read_stories(read, config.signing_fingerprint)
    )
    kept = yield from compacted(transport, plan, topics.sources, metadata.sources, read_sources)
    parts: list[DecidedRows] = []
    decided = {}
    for partition, committed in sorted(verdicts.items()):
        known = decode_verdicts_metadata(committed)
        decided[partition] = known.decided
        for part in _partition(transport, topics.verdicts, partition, committed, plan.allow_gap, config.separate):
            if part is not None:
                parts.append(part.select((part.numbers >= metadata.first).nonzero()[0]))
            yield 0 if part is None else max(1, len(parts[-1].numbers))
    state = LinkState(plan.limits, compared, metadata.arrivals, metadata.row)
    stream_time = int(NO_TIME) if metadata.stream_time is None else metadata.stream_time
    past = join_decided(parts or [decided_rows(0, [], int(NO_TIME))])
    state.name(past, stories.kept)
    gathered = Gathered(past, kept)
    sizes = np.zeros(int(is_document(past.rows.kinds).sum()), np.int64)
    first, end = transport.bounds(topics.signed)[PARTITION]
    start, end = max(first, metadata.window), min(end, signed.offset + (metadata.row > 0))
    for stretch in transport.read(topics.signed, PARTITION, start, end) if start < end else ():
        count = 0
        for record in stretch:
            data = record.value or b""
            rows = decode_signed(data, config.signing_fingerprint, config.plan.width)
            if rows.growth is None:
                state.add_message(record.offset, rows, len(data), sizes)
                gathered.add(rows.arrivals(), record.timestamp_ms)
                count += len(rows.kinds)
        yield max(count, min(1, len(stretch)))
    state.restore(past, stream_time, decided, stories.kept, sizes)
    clusters, records = Clusters(plan.limits, separate=config.separate), []
    for partition, (first, end) in transport.bounds(topics.clusters).items():
        for stretch in transport.read(topics.clusters, partition, first, end):
            records += stretch
            yield min(1, len(stretch))
    clusters.restore(records, past, stream_time)
    sources = Sources(plan.sources_max)
    sources.restore(kept, past, gathered, stories.kept.ids, state.decisions.end)
    yield Restored(state, clusters, sources)


def compacted(
    transport: Transport, plan: LinkPlan, topic: str, step: int, read: Callable[[list[Record]], _Kept]
) -> Generator[int, None, _Kept]:
    """Read the topic until it shows the last step that wrote to it. A step is visible in other topics before.

    Its records were acknowledged before its offsets were committed. So they are lost if all that is written was read,
    and no transaction is open there. Some are lost if the log does not begin at 0: compaction leaves its beginning, and
    only a deletion by time or size moves it.
    """
    records: list[Record] = []
    at, end = transport.bounds(topic)[PARTITION]
    if at and not plan.allow_gap:
        raise RecordsLostError(
            f"{topic} begins at {at}: records before that were deleted by time or size; set its cleanup.policy to "
            "compact, and go on without them with --allow-gap: later copies of old originals may be kept, and sources "
            "have too small counts"
        )
    while True:
        for stretch in transport.read(topic, PARTITION, at, end) if at < end else ():
            records += stretch
            yield min(1, len(stretch))
        at = max(at, end)
        kept = read(records)
        if kept.step >= step:
            return kept
        if transport.bounds(topic, written=True)[PARTITION][1] <= at:
            if plan.allow_gap:
                return kept
            raise RecordsLostError(
                f"{topic} ends at {at} without step {step}, which the linker has committed: its records are lost; see "
                "whether the topic was made again, or was deleted by time or size; then --allow-gap goes on without "
                "them: later copies of old originals may be kept, and counts of sources begin again"
            )
        yield 0
        end = transport.bounds(topic)[PARTITION][1]


def _partition(
    transport: Transport, topic: str, partition: int, committed: Committed, allow_gap: bool, separate: bool
) -> Iterator[DecidedRows | None]:
    """Read the verdicts of one partition, from the committed offset to the last decided one.

    The markers of a transaction reach the partitions one after the other. So the committed offset may be visible before
    the last verdict. The log is read again until the verdict is visible.
    """
    metadata = decode_verdicts_metadata(committed)
    at, reached = committed.offset, metadata.marked
    while reached < metadata.decided:
        first, end = transport.bounds(topic)[partition]
        if at < first:
            if not allow_gap:
                raise OffsetGoneError(
                    f"the verdicts of partition {partition} in the window begin at offset {at}, the log of {topic} at "
                    f"{first}: copies of the documents between would be kept; give {topic} a longer retention, or "
                    "accept that with --allow-gap"
                )
            at, reached = first, metadata.decided if first >= end else reached
        for records in transport.read(topic, partition, at, end):
            lines = [line for record in records for line in parse_run(record.value)]
            if lines:
                reached = lines[-1]["offset"] + 1
                yield decided_rows(partition, lines, int(NO_TIME), separate=separate)
        at = max(at, end)
        if reached < metadata.decided and transport.bounds(topic, written=True)[partition][1] <= at:
            if allow_gap:
                return
            raise OffsetGoneError(
                f"partition {partition} of {topic} ends at {at}, and the linker has committed verdicts up to document "
                f"{metadata.decided} behind that: the topic was made again, and what stood in it is lost; accept that "
                "with --allow-gap"
            )
        yield None
