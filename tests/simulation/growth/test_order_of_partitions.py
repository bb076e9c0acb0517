"""The design of ``signed`` in P partitions with one topic ``order``: all readers see one order, whatever comes late.

A model: nothing of it is built (docs/ARCHITECTURE.md, "Beyond one process"). A step of a signer is a transaction. It
writes messages into one partition, learns their offsets by its flush, and writes them into ``order``. The marker that
ends a transaction reaches each log by itself, so either may show its part first; steps in one partition interleave.
A reader takes messages as they come, and passes them on as ``order`` says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

STREAMS, PARTITIONS, SIGNERS, READERS, STEPS = 400, 4, 3, 3, 40
ORDER = PARTITIONS  # the number of its log
Place = tuple[int, dict[int, tuple[int, frozenset[int]]]]


class Cluster:
    """Logs of (transaction, value); control records are ``None``. ``open_in``: where transactions have no marker."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.logs: list[list[tuple[int, object] | None]] = [[] for _ in range(PARTITIONS + 1)]
        self.open_in: list[dict[int, int]] = [{} for _ in self.logs]
        self.aborted: set[int] = set()
        self.markers: list[tuple[int, int]] = []
        self.begun = 0

    def append(self, log: int, transaction: int, value: object) -> int:
        self.open_in[log].setdefault(transaction, len(self.logs[log]))
        self.logs[log].append((transaction, value))
        return len(self.logs[log]) - 1

    def steps(self) -> Iterator[None]:
        """The steps of a signer, which others interrupt at each ``yield``."""
        for _ in range(STEPS):
            self.begun, log = self.begun + 1, self.chance.randrange(PARTITIONS)
            transaction, offsets = self.begun, list[int]()
            for n in range(self.chance.randint(1, 3)):
                offsets.append(self.append(log, transaction, (transaction, n)))
                yield
            for offset in offsets:
                self.append(ORDER, transaction, (log, offset))
                yield
            if self.chance.random() < 0.1:
                self.aborted.add(transaction)
            self.markers += [(log, transaction), (ORDER, transaction)]

    def mark(self) -> None:
        """Let any marker arrive."""
        if self.markers:
            log, transaction = self.markers.pop(self.chance.randrange(len(self.markers)))
            del self.open_in[log][transaction]
            self.logs[log].append(None)

    def read(self, log: int, start: int, count: int) -> tuple[list[tuple[int, object]], int]:
        """What a read-committed reader gets, and its next position."""
        end = min([start + count, len(self.logs[log]), *self.open_in[log].values()])
        part = [(offset, self.logs[log][offset]) for offset in range(start, end)]
        return [(at, one[1]) for at, one in part if one is not None and one[0] not in self.aborted], max(start, end)


class Reader:
    """One that follows ``order``. Its place is that in ``order``, and for each partition the first message that it has
    not passed on, with those behind it that it has."""

    def __init__(self, cluster: Cluster, place: Place | None = None) -> None:
        self.cluster, self.passed = cluster, list[object]()
        at, starts = place or (0, {log: (0, frozenset()) for log in range(PARTITIONS)})
        self.positions = {**{log: first for log, (first, _) in starts.items()}, ORDER: at}
        self.early = {log: set(known) for log, (_, known) in starts.items()}
        self.hand: dict[int, dict[int, object]] = {log: {} for log in range(PARTITIONS)}
        self.entries: list[tuple[int, tuple[int, int]]] = []

    def turn(self) -> None:
        log = self.cluster.chance.randrange(PARTITIONS + 1)
        found, self.positions[log] = self.cluster.read(log, self.positions[log], self.cluster.chance.randint(1, 6))
        if log == ORDER:
            self.entries += found  # type: ignore[arg-type]
        else:
            self.hand[log].update((at, value) for at, value in found if at not in self.early[log])
        while self.entries and self.entries[0][1][1] in self.hand[self.entries[0][1][0]]:
            log, offset = self.entries.pop(0)[1]
            self.passed.append(self.hand[log].pop(offset))
            self.early[log].add(offset)

    def place(self) -> Place:
        """What it commits."""
        firsts = {log: min([*hand, self.positions[log]]) for log, hand in self.hand.items()}
        early = {log: frozenset(at for at in self.early[log] if at >= firsts[log]) for log in firsts}
        return self.entries[0][0] if self.entries else self.positions[ORDER], {p: (firsts[p], early[p]) for p in firsts}


class Unordered(Reader):
    """One that passes on what partitions show."""

    def turn(self) -> None:
        super().turn()
        self.entries.clear()
        for hand in self.hand.values():
            self.passed += hand.values()
            hand.clear()


def _run(seed: int, kind: type[Reader]) -> tuple[list[list[object]], list[object]]:
    """What each reader has passed on, one of which is killed and restarted at times, and what ``order`` says."""
    chance = random.Random(seed)
    cluster = Cluster(chance)
    signers, readers = [cluster.steps() for _ in range(SIGNERS)], [kind(cluster) for _ in range(READERS)]
    before, known, logs = list[object](), readers[0].place(), list(enumerate(cluster.logs))
    while signers or cluster.markers or any(one.positions[n] < len(log) for one in readers for n, log in logs):
        if signers and next(one := chance.choice(signers), 0) == 0:
            signers.remove(one)
        if chance.random() < 0.4 or not signers:
            cluster.mark()
        for reader in chance.sample(readers, chance.randint(1, READERS)):
            reader.turn()
        if chance.random() < 0.1:  # it commits
            before, known, readers[0].passed = [*before, *readers[0].passed], readers[0].place(), []
        elif chance.random() < 0.02:  # it is killed, and what it has not committed is done again
            readers[0] = kind(cluster, known)
    readers[0].passed[:0] = before
    assert kind is Unordered or not any(hand for one in readers for hand in one.hand.values())
    said = [one[1] for one in cluster.logs[ORDER] if one is not None and one[0] not in cluster.aborted]
    return [one.passed for one in readers], [cluster.logs[log][at][1] for log, at in said]  # type: ignore[index,misc]


def test_all_readers_see_the_order_of_the_topic_order() -> None:
    """Nothing is lost, repeated or left, also by one that is killed."""
    for seed in range(STREAMS):
        found, said = _run(seed, Reader)
        assert all(one == said for one in found), seed


def test_readers_of_partitions_alone_see_different_orders() -> None:
    """So the law above can fail."""
    found, _ = _run(1, Unordered)
    assert found[1] != found[2]
    assert sorted(map(str, found[1])) == sorted(map(str, found[2]))
