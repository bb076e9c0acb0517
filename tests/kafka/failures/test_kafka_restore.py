"""A matcher restores from a real log: slowly, during a rebalance, with aborted records, from a trimmed log."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka_world import Place, World, stories

from neardup.stream import Document
from neardup.workers.topics.names import MATCH, SIGN
from neardup.workers.transport.protocol import OffsetGoneError

Worlds = Callable[..., World]
DOCUMENTS = stories(160)
EARLIER, LATER = DOCUMENTS[:120], DOCUMENTS[120:]
STEP_DOCUMENTS = 6  # so that the log has many messages
RECORD_SECONDS = 0.02  # of a slow restore
SESSION_SECONDS = 3.0  # a heartbeat may come late on a busy machine


def matched(world: World) -> None:
    """Sign and match documents with workers that then leave, so that only the log holds the window."""
    signer, matcher = world.place(SIGN), world.place(MATCH)
    world.load(EARLIER)
    world.settle(STEP_DOCUMENTS)
    assert world.pairs() == world.expected(EARLIER) != []
    signer.leave()
    matcher.leave()


def slow(place: Place, *partitions: int) -> Place:
    place.transport.seconds, place.transport.partitions_slow = RECORD_SECONDS, frozenset(partitions)
    return place


def finish(world: World) -> None:
    """Later documents match documents of the window, and no pair is published twice."""
    world.place(SIGN)
    world.load(LATER)
    world.settle()
    assert world.pairs() == world.expected(DOCUMENTS)


def test_a_rebalance_in_the_middle_of_a_restore_cancels_it(worlds: Worlds) -> None:
    """A half-restored partition moves to another member, which restores it from its beginning."""
    world = worlds()
    matched(world)
    older = slow(world.place(MATCH, "older"), 0, 1)
    world.run(lambda: len(older.worker.restoring) == 2, "both partitions are being restored")
    world.run(
        lambda: all(one.table.next[0] > one.start + 2 for one in older.worker.restoring.values()), "some is restored"
    )
    older.transport.held = True
    newer = world.place(MATCH, "newer")
    lost: list[bool] = []

    def is_moved() -> bool:
        lost.append(len(older.worker.restoring) < 2 and not older.worker.tables)
        return bool(newer.worker.waiting or newer.worker.restoring or newer.worker.tables)

    world.run(is_moved, "a partition has moved")
    assert any(lost)  # the partition moved before its restore ended
    older.transport.held = False
    finish(world)
    assert (len(older.worker.tables), len(newer.worker.tables)) == (1, 1)


def test_a_restore_longer_than_session_and_poll_interval_keeps_its_place(worlds: Worlds) -> None:
    """The matcher polls between stretches of the restore, and its other partition works meanwhile."""
    world = worlds({"session_timeout_seconds": SESSION_SECONDS, "poll_interval_seconds_max": SESSION_SECONDS})
    matched(world)
    signer, matcher = world.place(SIGN), slow(world.place(MATCH), 0)
    matcher.transport.held = True
    world.run(lambda: 0 in matcher.worker.restoring and 1 in matcher.worker.tables, "one of the two is restored")
    published = len(world.pairs())
    generation = matcher.generation()
    longer = time.monotonic() + 2 * SESSION_SECONDS
    world.load(LATER)
    world.run(lambda: len(world.pairs()) > published, "the partition that runs has matched more")
    world.run(lambda: time.monotonic() > longer, "the restore takes longer than the session")
    assert 0 in matcher.worker.restoring
    matcher.transport.held = False
    world.settle()
    assert matcher.generation() == generation
    assert (signer.endings, matcher.endings) == ([], [])
    assert world.pairs() == world.expected(DOCUMENTS)


def test_aborted_messages_of_bands_are_never_seen(worlds: Worlds) -> None:
    """An aborted transaction, inside the window or at its end, stops neither the restore nor later messages."""
    world = worlds()
    aborting = world.transport.producer(f"{world.names.prefix}-aborting")

    def abort_garbage() -> None:
        aborting.begin()
        for partition in (0, 1):
            aborting.send(world.topics.bands, partition, b"no message of bands")
        aborting.flush()
        aborting.abort()

    abort_garbage()
    matched(world)
    abort_garbage()
    world.place(MATCH)
    finish(world)
    abort_garbage()
    world.settle()
    aborting.close()


def test_partitions_that_are_empty_or_wholly_trimmed_are_ready_at_once(worlds: Worlds) -> None:
    """The partition is empty, or trimmed to its last message or to its end: the matcher runs and finds later pairs."""
    world = worlds(window_seconds=100.0, lateness_seconds=60.0)
    idle = world.place(MATCH)
    world.run(lambda: idle.worker.ready and len(idle.worker.tables) == 2, "two empty partitions run")
    signer = world.place(SIGN)
    world.load([Document(f"old-{one.id}", one.text, 1e9) for one in EARLIER])
    world.load([Document("last", EARLIER[0].text, 1e9 + 1_000)])
    world.settle()
    idle.worker.trim()
    firsts, ends = world.transport.bounds(world.topics.bands), world.ends(world.topics.bands)
    kept = [world.transport.read(world.topics.bands, p, firsts[p][0], ends[p]) for p in ends]
    assert [sum(map(len, stretches)) for stretches in kept] == [1, 1]
    idle.leave()
    signer.leave()
    world.transport.trim(world.topics.bands, ends)  # as retention does: no record is left, and no record was needed
    before = len(world.pairs())
    heir = world.place(MATCH, allow_gap=True)
    world.run(lambda: heir.worker.ready and len(heir.worker.tables) == 2, "two trimmed partitions run")
    world.place(SIGN)
    world.load([Document("new", EARLIER[1].text, 1e9 + 2_000), Document("newer", EARLIER[1].text, 1e9 + 2_001)])
    world.settle()
    assert world.pairs().count(("new", "newer")) == 1
    assert len(world.pairs()) == before + 1


def test_a_log_that_is_gone_stops_the_worker_unless_a_gap_is_allowed(worlds: Worlds) -> None:
    """The log is trimmed beyond the start of the window: the error names the offsets; ``allow_gap`` uses the rest."""
    world = worlds()
    matched(world)
    cut = {partition: end - 6 for partition, end in world.ends(world.topics.bands).items()}
    world.transport.trim(world.topics.bands, cut)
    stopped = world.place(MATCH)
    with pytest.raises(OffsetGoneError, match="--allow-gap"):
        world.run(lambda: stopped.worker.tables, "never")
    stopped.leave()
    world.place(MATCH, allow_gap=True)
    world.place(SIGN)
    world.load(LATER)
    world.settle()
    found = world.pairs()
    assert set(world.expected(EARLIER)) < set(found) < set(world.expected(DOCUMENTS))
    assert len(found) == len(set(found))
