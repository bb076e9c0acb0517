"""A matcher restores from a real log: slowly, during a rebalance, with aborted records, from a trimmed log."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka_world import Place, World, stories

from neardup import Document
from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.topics.signed import offset_and_row
from neardup_workers.outside.transport.protocol import Message, OffsetGoneError, Record

Worlds = Callable[..., World]
DOCUMENTS = stories(160)
EARLIER, LATER = DOCUMENTS[:120], DOCUMENTS[120:]
STEP_DOCUMENTS = 6  # so that the log has many messages
RECORD_SECONDS = 0.02  # of a slow restore
SESSION_SECONDS = 6.0  # a heartbeat may come late on a busy machine


def matched(world: World) -> None:
    """Sign and match documents with workers that then leave, so that only the log holds the window."""
    signer, matcher = world.place(SIGN), world.place(MATCH)
    world.load(EARLIER)
    world.settle(STEP_DOCUMENTS)
    assert world.pairs() == world.expected(EARLIER) != []
    signer.leave()
    matcher.leave()


class Slow:
    """Lets a matcher restore one message at a time, or none while it is ``held``; its running shards read as ever."""

    def __init__(self, place: Place) -> None:
        self.place, self.held = place, False
        reader = place.worker.behind.reader
        poll = reader.poll

        def slowly(timeout_seconds: float, *_: object) -> list[Record]:
            time.sleep(RECORD_SECONDS)
            return [] if self.held else poll(timeout_seconds, 1)

        reader.poll = slowly


def finish(world: World) -> None:
    """Later documents match documents of the window, and no pair is published twice."""
    world.place(SIGN)
    world.load(LATER)
    world.settle()
    assert world.pairs() == world.expected(DOCUMENTS)


def test_a_rebalance_in_the_middle_of_a_restore_cancels_it(worlds: Worlds) -> None:
    """A half-restored shard moves to another member, which restores it from its beginning."""
    world = worlds()
    matched(world)
    older = world.place(MATCH, "older")
    slow, restoring = Slow(older), older.worker.restoring
    world.run(lambda: len(restoring) == 2, "both shards are being restored")
    world.run(
        lambda: all(offset_and_row(table.position)[0] > start + 2 for table, start, _ in restoring.values()),
        "some is restored",
    )
    slow.held = True
    newer = world.place(MATCH, "newer")
    lost: list[bool] = []

    def is_moved() -> bool:
        lost.append(len(older.worker.restoring) < 2 and not older.worker.tables)
        taken = newer.worker
        return bool(taken and (taken.member.waiting or taken.restoring or taken.tables))

    world.run(is_moved, "a shard has moved")
    assert any(lost)  # the shard moved before its restore ended
    slow.held = False
    finish(world)
    assert (len(older.worker.tables), len(newer.worker.tables)) == (1, 1)


def test_a_restore_longer_than_session_and_poll_interval_keeps_its_place(worlds: Worlds) -> None:
    """The matcher polls between the messages of the restore, and its other shard works meanwhile."""
    world = worlds({"session_timeout_seconds": SESSION_SECONDS, "poll_interval_seconds_max": SESSION_SECONDS})
    matched(world)
    signer, matcher, other = world.place(SIGN), world.place(MATCH), world.place(MATCH, "other")
    world.run(lambda: all(len(one.worker.tables) == 1 for one in (matcher, other)), "each runs one shard")
    slow = Slow(matcher)
    other.leave()
    world.run(lambda: matcher.worker and matcher.worker.restoring and matcher.worker.tables, "one is being restored")
    slow.held = True
    published = len(world.pairs())
    kept: dict[int, float] = {}  # generation -> since when

    def keeps_its_place() -> bool:
        """For longer than the session; a machine that stands still for so long ends a generation."""
        since = kept.setdefault(matcher.generation(), time.monotonic())
        return time.monotonic() - since > 2 * SESSION_SECONDS

    assert not keeps_its_place()
    world.load(LATER)
    world.run(lambda: len(world.pairs()) > published, "the shard that runs has matched more")
    world.run(keeps_its_place, "the restore takes longer than the session")
    assert matcher.worker.restoring
    slow.held = False
    world.settle()
    assert (signer.endings, matcher.endings) == ([], [])
    assert world.pairs() == world.expected(DOCUMENTS)


def test_aborted_messages_of_signed_are_never_seen(worlds: Worlds) -> None:
    """An aborted transaction, inside the window or at its end, stops neither the restore nor later messages."""
    world = worlds()
    aborting = world.transport.producer(f"{world.names.prefix}-aborting")

    def abort_garbage() -> None:
        aborting.begin()
        aborting.send(Message(world.topics.signed, 0, b"no message of signed"))
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
    """The log is empty, or trimmed to its last message or to its end: the matcher runs and finds later pairs."""
    world = worlds(window_seconds=100.0, lateness_seconds=60.0)
    idle = world.place(MATCH)
    world.run(lambda: idle.worker.ready and len(idle.worker.tables) == 2, "two shards of an empty log run")
    signer = world.place(SIGN)
    world.load([Document(f"old-{one.id}", one.text, 1e9) for one in EARLIER])
    world.settle()
    world.load([Document("last", EARLIER[0].text, 1e9 + 1_000)])
    world.settle()
    end = world.ends(world.topics.signed)[0]

    def left() -> int:
        first = world.transport.bounds(world.topics.signed)[0][0]
        return sum(map(len, world.transport.read(world.topics.signed, 0, first, end)))

    def is_trimmed() -> bool:
        idle.worker.trim()  # by offsets that the group has by now; the least of two rounds counts
        return left() <= 1

    world.run(is_trimmed, "the log is trimmed to its last message")
    assert left() == 1
    idle.leave()
    signer.leave()
    world.transport.trim(world.topics.signed, {0: end})  # as retention does: no record is left, and none was needed
    before = len(world.pairs())
    heir = world.place(MATCH, allow_gap=True)
    world.run(lambda: heir.worker.ready and len(heir.worker.tables) == 2, "two shards of a trimmed log run")
    world.place(SIGN)
    world.load([Document("new", EARLIER[1].text, 1e9 + 2_000), Document("newer", EARLIER[1].text, 1e9 + 2_001)])
    world.settle()
    assert world.pairs().count(("new", "newer")) == 1
    assert len(world.pairs()) == before + 1


def test_a_log_that_is_gone_stops_the_worker_unless_a_gap_is_allowed(worlds: Worlds) -> None:
    """The log is trimmed beyond the start of the window: the error names the offsets; ``allow_gap`` uses the rest."""
    world = worlds()
    matched(world)
    world.transport.trim(world.topics.signed, {0: world.ends(world.topics.signed)[0] - 6})
    stopped = world.place(MATCH)
    with pytest.raises(OffsetGoneError, match="--allow-gap"):
        world.run(lambda: stopped.worker and stopped.worker.tables, "never")
    stopped.leave()
    world.place(MATCH, allow_gap=True)
    world.place(SIGN)
    world.load(LATER)
    world.settle()
    found = world.pairs()
    assert set(world.expected(EARLIER)) < set(found) < set(world.expected(DOCUMENTS))
    assert len(found) == len(set(found))
