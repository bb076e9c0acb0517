"""The law of alignment: whatever two signers see and when, no record is signed too far ahead of a later one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from neardup_workers.doing.stages.alignment import Alignment
from neardup_workers.outside.transport.protocol import Committed, LogEnd, Record

SPAN_MS = 30_000
NOW_MS = 1_700_000_000_000
# A backlog: long before now.
OLD_MS = NOW_MS - 40_000_000


class Archive:
    """Transactions of one producer over several partitions, in order of time, each written when the one before has
    ended. It ends in each partition at another time; ``ends`` says what a broker would have said at a time."""

    def __init__(self, chance: random.Random, partitions: int) -> None:
        self.logs: list[list[Record]] = [[] for _ in range(partitions)]
        # Of each partition: from when on so many records are written, and committed.
        self.written: list[list[tuple[float, int]]] = [[(0.0, 0)] for _ in range(partitions)]
        self.committed: list[list[tuple[float, int]]] = [[(0.0, 0)] for _ in range(partitions)]
        time_ms, at = OLD_MS, chance.choice([0.0, 20.0])
        for _ in range(chance.randint(1, 6)):
            used = chance.sample(range(partitions), chance.randint(1, partitions))
            rows = sorted(chance.randrange(SPAN_MS * chance.choice([1, 4])) for _ in range(chance.choice([1, 5, 30])))
            for row in rows:
                partition = chance.choice(used)
                log = self.logs[partition]
                log.append(Record(partition, len(log), time_ms + row, b"", b"x" * 10))
            ended = []
            for partition in used:
                self.written[partition].append((at, len(self.logs[partition])))
                ended.append(at + chance.choice([0.0, 0.1, 3.0, 30.0]))
                self.committed[partition].append((ended[-1], len(self.logs[partition])))
            time_ms, at = time_ms + rows[-1], max(ended) + chance.choice([0.0, 0.1, 9.0])

    def ends(self, partition: int, at: float, age_seconds: float) -> LogEnd:
        """The ends as they were some time ago."""
        asked_at = at - age_seconds
        committed, written = (
            max(count for since, count in counts[partition] if since <= max(0.0, asked_at))
            for counts in (self.committed, self.written)
        )
        return LogEnd(committed, written, age_seconds)


@given(st.integers(0, 2**32))
def test_signed_records_are_aligned_for_any_order_of_polls(seed: int) -> None:
    """No record is signed more than a span after a later-signed record, and each partition keeps its order.

    Two signers share partitions with backlogs of any shape, poll in any order, stand still, hear late of the ends, and
    see each other's claims late; transactions become visible late, in one partition long after another, and commits of
    claims at the latest when the next one begins.
    """
    chance = random.Random(seed)
    count = chance.randint(1, 4)
    archive = Archive(chance, count)
    total = sum(map(len, archive.logs))
    owners = [Alignment(SPAN_MS), Alignment(SPAN_MS)]
    read = [0] * count
    committed: dict[int, Committed] = {}
    pending: dict[Alignment, tuple[float, dict[int, Committed]]] = {}  # commits, and when they become visible
    signed: list[Record] = []
    for partition in range(count):
        owners[partition % 2].start(partition, Committed(0, ""), 0.0)
    alone_until, alone = 0.0, owners[0]  # the other one stands still
    for turn in range(1, 12_000):
        at = turn / 10
        if at >= alone_until and chance.random() < 0.01:
            alone_until, alone = at + chance.choice([2.0, 8.0]), chance.choice(owners)
        alignment = alone if at < alone_until else chance.choice(owners)
        alignment.partitions = frozenset(range(count))
        ends = {}
        for partition in alignment.lanes:
            end = archive.ends(partition, at, chance.choice([0.0, 0.5, 2.0, 7.0]))
            stop = min(end.committed, read[partition] + chance.choice([0, 0, 1, 7]))
            if stop > read[partition]:
                alignment.add(archive.logs[partition][read[partition] : stop], NOW_MS, at)
                read[partition] = stop
            if end.committed >= read[partition] and chance.random() < 0.8:
                ends[partition] = end
        alignment.see({partition: read[partition] for partition in alignment.lanes}, ends, at)
        for owner, (visible_at, commits) in list(pending.items()):
            if visible_at <= at:
                committed.update(commits)
                del pending[owner]
        if chance.random() < 0.7:
            alignment.look(committed, at)
        signed += alignment.take(chance.choice([1, 5, 100]), 1 << 30, NOW_MS, at).records
        commits = alignment.commits(turn, at)
        committed.update(pending.pop(alignment, (at, {}))[1])
        pending[alignment] = at + chance.choice([0.0, 0.0, 8.0]), commits
        if len(signed) == total:
            break
    assert len(signed) == total
    greatest = 0
    for one in signed:
        greatest = max(greatest, one.timestamp_ms)
        assert greatest - one.timestamp_ms <= SPAN_MS
    for partition in range(count):
        assert [one for one in signed if one.partition == partition] == archive.logs[partition]
