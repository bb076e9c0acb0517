"""The restore of a linker: it reads the decisions of the window from ``verdicts``, in stretches between polls."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from neardup.errors import NeardupError
from neardup.stories.verdicts.rule import is_document
from neardup.window import NO_TIME
from neardup_workers.doing.stages.verdicts.clusters import Clusters
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.originals import STEP_KEY, Stories, read_stories
from neardup_workers.doing.stages.verdicts.positions import (
    SignedMetadata,
    decode_signed_metadata,
    decode_verdicts_metadata,
)
from neardup_workers.doing.stages.verdicts.sources import LEDGER_KEY, Gathered, KeptSources, Sources, read_sources
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.outside.topics.signed import PARTITION, decode_signed, position_of
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


class Offsets(NamedTuple):
    """What the group of linkers has committed in one transaction: in ``signed``, and in ``verdicts`` and ``links`` by
    partition."""

    signed: Committed
    verdicts: Mapping[int, Committed]
    links: Mapping[int, Committed]


class Moving(NamedTuple):
    """For a restore while an owner works on: ``read`` returns what it has committed by now, ``None`` if that changes
    just then; ``begun`` gets the offsets at which the restore ends, before it reads the messages of the window."""

    read: Callable[[], Offsets | None]
    begun: Callable[[Offsets], None]


def restored(
    transport: Transport, plan: LinkPlan, compared: Compared, offsets: Offsets, moving: Moving | None = None
) -> Iterator[Restored | int]:
    """Read stories and ledger, the verdicts from the committed offsets on, and the messages of the window. Yields the
    rows of each stretch of the two, at least 1 for one that is not empty, then the state of the last linker.

    A compacted topic shows no earlier moment. So while an owner works on, stories, ledger and verdicts are read until
    they belong to one commit; only then the messages, so that no trim is faster. Clusters may be newer: what the record
    of a cluster counts changes nothing in it.

    Raises, unless ``plan.allow_gap`` is on, ``OffsetGoneError`` if retention has deleted verdicts of the window or a
    trim was faster, and ``RecordsLostError`` if stories or the ledger are gone.
    """
    topics, config = plan.topics, plan.config
    originals = Compacted(
        transport, plan, topics.originals, STEP_KEY, lambda read: read_stories(read, config.signing_fingerprint)
    )
    ledger, past = Compacted(transport, plan, topics.sources, LEDGER_KEY, read_sources), _Past(transport, plan)
    metadata = decode_signed_metadata(offsets.signed)
    while True:
        yield from originals.extend(metadata.step)
        yield from ledger.extend(metadata.sources)
        yield from past.extend(offsets.verdicts, metadata.first)
        first = transport.bounds(topics.signed)[PARTITION][0]
        if moving is None:
            break
        newest = moving.read()
        if newest is not None:
            offsets, metadata = newest, decode_signed_metadata(newest.signed)
            if originals.is_at(metadata.step) and ledger.is_at(metadata.sources):
                moving.begun(offsets)
                yield from past.extend(offsets.verdicts, metadata.first)
                break
        yield 0
    stories, kept, found = originals.kept(), ledger.kept(), past.rows(metadata)
    state = LinkState(plan.limits, compared, metadata.arrivals, metadata.row)
    state.name(found, stories.kept)
    gathered, sizes = Gathered(found, kept), np.zeros(int(is_document(found.rows.kinds).sum()), np.int64)
    start, end = max(first, metadata.window), offsets.signed.offset + (metadata.row > 0)
    if compared.weighing is not None:
        compared.weighing.follow(position_of(start) if metadata.counted is None else metadata.counted)
    end = min(end, transport.bounds(topics.signed)[PARTITION][1])
    for stretch in transport.read(topics.signed, PARTITION, start, end) if start < end else ():
        count = 0
        for record in stretch:
            data = record.value or b""
            rows = decode_signed(data, config.signing_fingerprint, config.plan.width)
            if rows.growth is None:
                state.add_message(record.offset, rows, len(data), sizes)
                if compared.weighing is not None:
                    compared.weighing.read(record.offset, rows, position_of(offsets.signed.offset, metadata.row))
                gathered.add(rows.arrivals(), record.timestamp_ms)
                count += len(rows.kinds)
        yield max(count, min(1, len(stretch)))
    stream_time = int(NO_TIME) if metadata.stream_time is None else metadata.stream_time
    state.restore(found, stream_time, past.decided, stories.kept, sizes)
    clusters = yield from _clusters(transport, plan, found, stream_time)
    sources = Sources(plan.sources_max)
    sources.restore(kept, found, gathered, stories.kept.ids, state.decisions.end)
    yield Restored(state, clusters, sources)


def _clusters(
    transport: Transport, plan: LinkPlan, found: DecidedRows, stream_time: int
) -> Generator[int, None, Clusters]:
    """Read the clusters; ``found`` are the decided rows."""
    clusters, records = Clusters(plan.limits, separate=plan.config.separate), list[Record]()
    for partition, (first, end) in transport.bounds(plan.topics.clusters).items():
        for stretch in transport.read(plan.topics.clusters, partition, first, end):
            records += stretch
            yield min(1, len(stretch))
    clusters.restore(records, found, stream_time)
    return clusters


class Compacted(Generic[_Kept]):
    """A compacted topic that is read up to a step; the record with the key ``step_key`` names the last one."""

    def __init__(
        self, transport: Transport, plan: LinkPlan, topic: str, step_key: bytes, read: Callable[[list[Record]], _Kept]
    ) -> None:
        self._transport, self._plan, self._topic, self._step_key = transport, plan, topic, step_key
        self._read: Callable[[list[Record]], _Kept] = read
        self._records: list[Record] = []
        self._at: int | None = None  # read up to here
        self._step: int = read([]).step

    def kept(self) -> _Kept:
        """Return what the records say."""
        return self._read(self._records)

    def is_at(self, step: int) -> bool:
        """Whether that is the last step of what was read."""
        return self._step == max(step, self._read([]).step)

    def extend(self, step: int) -> Generator[int, None, None]:
        """Read on to the end, until it shows a step that was committed. A step is visible in other topics before.

        Its records were acknowledged before its offsets were committed. So they are lost if all that is written was
        read, and no transaction is open there. Some are lost if the log does not begin at 0: compaction leaves its
        beginning, and only a deletion by time or size moves it.
        """
        transport, topic, allow_gap = self._transport, self._topic, self._plan.allow_gap
        first, end = transport.bounds(topic)[PARTITION]
        if first and not allow_gap:
            raise RecordsLostError(
                f"{topic} begins at {first}: records before that were deleted by time or size; set its cleanup.policy "
                "to compact, and go on without them with --allow-gap: later copies of old originals may be kept, and "
                "sources have too small counts"
            )
        at = first if self._at is None else max(first, self._at)
        while True:
            for stretch in transport.read(topic, PARTITION, at, end) if at < end else ():
                self._records += stretch
                marks = [record for record in stretch if record.key == self._step_key]
                self._step = self._read(marks).step if marks else self._step
                yield min(1, len(stretch))
            self._at = at = max(at, end)
            if self._step >= step:
                return
            if transport.bounds(topic, written=True)[PARTITION][1] <= at:
                if allow_gap:
                    self._step = step
                    return
                raise RecordsLostError(
                    f"{topic} ends at {at} without step {step}, which the linker has committed: its records are lost; "
                    "see whether the topic was made again, or was deleted by time or size; then --allow-gap goes on "
                    "without them: later copies of old originals may be kept, and counts of sources begin again"
                )
            yield 0
            end = transport.bounds(topic)[PARTITION][1]


class _Past:
    """The verdicts of the window, read up to what is committed."""

    def __init__(self, transport: Transport, plan: LinkPlan) -> None:
        self._transport, self._plan = transport, plan
        self._parts: list[DecidedRows] = []
        self._read: dict[int, tuple[int, int]] = {}  # of each partition up to which offset, and which document
        self.decided: dict[int, int] = {}  # the end of the decided offsets of each partition

    def rows(self, metadata: SignedMetadata) -> DecidedRows:
        """Return the rows of the window of a commit; others may have been read, too."""
        rows = join_decided(self._parts or [decided_rows(0, [], int(NO_TIME))])
        return rows.select(((rows.numbers >= metadata.first) & (rows.numbers < metadata.arrivals)).nonzero()[0])

    def extend(self, verdicts: Mapping[int, Committed], first: int) -> Generator[int, None, None]:
        """Read on to what is committed; arrivals before ``first`` are not needed."""
        for partition, committed in sorted(verdicts.items()):
            for part in self._partition(partition, committed):
                if part is not None:
                    self._parts.append(part.select((part.numbers >= first).nonzero()[0]))
                yield 0 if part is None else max(1, len(self._parts[-1].numbers))

    def _partition(self, partition: int, committed: Committed) -> Iterator[DecidedRows | None]:
        """Read the verdicts of one partition, to the last decided one.

        The markers of a transaction reach the partitions one after the other. So the committed offset may be visible
        before the last verdict. The log is read again until the verdict is visible.
        """
        transport, topic, allow_gap = self._transport, self._plan.topics.verdicts, self._plan.allow_gap
        metadata = decode_verdicts_metadata(committed)
        self.decided[partition] = metadata.decided
        at, reached = self._read.get(partition, (0, -1))
        if at < committed.offset or partition not in self._read:
            at, reached = committed.offset, max(reached, metadata.marked)
        while reached < metadata.decided:
            first, end = transport.bounds(topic)[partition]
            if at < first:
                if not allow_gap:
                    raise OffsetGoneError(
                        f"the verdicts of partition {partition} in the window begin at offset {at}, the log of {topic} "
                        f"at {first}: copies of the documents between would be kept; give {topic} a longer retention, "
                        "or accept that with --allow-gap"
                    )
                at, reached = first, metadata.decided if first >= end else reached
            for records in transport.read(topic, partition, at, end):
                lines = [line for record in records for line in parse_run(record.value)]
                if lines:
                    reached = lines[-1]["offset"] + 1
                    yield decided_rows(partition, lines, int(NO_TIME), separate=self._plan.config.separate)
            at = max(at, end)
            if reached < metadata.decided and transport.bounds(topic, written=True)[partition][1] <= at:
                if allow_gap:
                    break
                raise OffsetGoneError(
                    f"partition {partition} of {topic} ends at {at}, and the linker has committed verdicts up to "
                    f"document {metadata.decided} behind that: the topic was made again, and what stood in it is lost; "
                    "accept that with --allow-gap"
                )
            yield None
        self._read[partition] = at, reached
