"""The matcher: the states of a shard, the result of a restart, and the reasons to stop."""

from __future__ import annotations

from contextlib import suppress
from unittest import mock

import pytest
from match_world import CONFIG, PLAN, TEXT, TOPICS, MatchWorld
from topics_world import turns

from neardup import ConfigError
from neardup.pairs.window_message import WireError
from neardup_workers.outside.transport.protocol import FencedError, OffsetGoneError, UnreachableError


def test_pairs_and_notices_are_published_once() -> None:
    """Both shards read the documents and the removal; only one of them publishes each."""
    world = MatchWorld()
    world.document("a")
    world.document("b", 1)
    world.remove("a")
    turns(world.worker("one"), world.worker("two"))
    assert world.said() == ["-a", "a b"]


def test_a_group_without_offsets_starts_only_where_its_settings_say() -> None:
    """The matcher never chooses earliest or latest silently."""
    with pytest.raises(ConfigError, match="--from"):
        turns(MatchWorld().worker(plan=PLAN._replace(start=None)))


def test_the_end_that_it_started_from_is_kept_for_its_successor() -> None:
    """The successor matches everything after the first start, although the first worker died without a step."""
    world = MatchWorld()
    world.document("old")
    turns(world.worker(plan=PLAN._replace(start="latest")))
    world.document("a")
    world.document("b", 1)
    turns(world.worker(plan=PLAN._replace(start="latest")))
    assert world.said() == ["a b"]


def test_a_successor_meets_what_its_predecessor_added() -> None:
    """The successor restores the window from the log, and publishes nothing in it again."""
    world = MatchWorld()
    world.document("a")
    world.document("b", 1)
    turns(world.worker())
    world.document("c", 2)
    turns(world.worker())
    assert world.said() == ["a b", "b c"]


@pytest.mark.parametrize("call", ["read", "committed", "bounds"])
def test_a_restore_outlives_a_broker_that_does_not_answer(call: str) -> None:
    """The matcher reads again what it could not read; no shard runs with half of its window."""
    world = MatchWorld()
    for i in range(6):
        world.document(f"d{i}", i, f"{TEXT} {i} {i} {i}")
    turns(world.worker())
    before = world.said()
    successor = world.worker()
    turns(successor, count=2, records_max=1)
    world.memory.fail_next(call, times=3)
    for _ in range(20):
        with suppress(UnreachableError):  # the shell calls it again
            successor.turn(0.0, 1)
    world.document("last", 9, f"{TEXT} 0 0 0")
    turns(successor)
    assert "d0 last" in set(world.said()) - set(before)


def test_a_restore_waits_for_records_and_ends_at_the_committed_place() -> None:
    """An empty read does not end the restore; after the last row the shards publish."""
    world = MatchWorld()
    for i in range(6):
        world.document(f"d{i}", i, f"{TEXT} {i} {i} {i}")
    turns(world.worker())
    before = world.said()
    world.document("last", 9, f"{TEXT} 0 0 0")
    successor = world.worker()
    with mock.patch.object(successor.behind.reader, "poll", return_value=[]):
        turns(successor)
        assert set(successor.restoring) == {0, 1}
    turns(successor, records_max=1, count=20)
    assert successor.running == {0, 1}
    assert "d0 last" in set(world.said()) - set(before)
    assert len(world.said()) == len(set(world.said()))


def test_a_restoring_shard_drags_no_running_one_back() -> None:
    """Shard 1 comes later and reads the log again; shard 0 publishes meanwhile what arrives."""
    world = MatchWorld()
    for i in range(40):
        world.document(f"d{i}", i, f"{TEXT} {i} {i} {i}")
    one, two = world.worker("one"), world.worker("two")
    turns(one, two, count=30)
    (kept,) = one.running
    two.member.consumer.close()
    while not one.restoring:
        world.memory.advance(1.0)
        turns(one, count=1, records_max=1)
    for i in range(8):
        world.document(f"e{i}", 40 + i, f"{TEXT} {i} {i} {i}")
    turns(one, count=10, records_max=1)
    assert set(one.restoring) == {1 - kept}
    assert world.offsets()[kept] == one.member.transport.bounds(TOPICS.signed)[0][1] > world.offsets()[1 - kept]
    turns(one, count=80, records_max=1)
    assert one.ready
    assert len(set(world.offsets().values())) == 1
    assert {f"d{i} e{i}" for i in range(8)} <= set(world.said())
    assert len(world.said()) == len(set(world.said()))


def test_rows_at_hand_survive_a_shard_that_cannot_start_yet() -> None:
    """One shard waits for a predecessor's transaction; the other continues and loses no row."""
    world = MatchWorld()
    one, two = world.worker("one"), world.worker("two")
    turns(one, two)
    world.document("a")
    world.memory.fail_next("commit_before", transactional_id="two")
    with pytest.raises(Exception, match="not answered"):
        turns(two)
    for _ in range(12):
        world.memory.advance(1.0)
        turns(one, count=1)
    assert one.member.waiting
    world.document("b", 1)
    turns(one)
    world.memory.advance(world.memory.transaction_timeout_seconds)
    turns(one)
    assert one.ready
    assert world.said() == ["a b"]


def test_a_shard_that_went_and_came_back_is_restored_again() -> None:
    """One poll revokes and assigns it; its table is void."""
    world = MatchWorld()
    world.document("a")
    one = world.worker("one")
    turns(one)
    world.memory.advance(world.memory.session_seconds + 1)
    two = world.worker("two")
    turns(two)
    world.document("b", 1)
    turns(two)
    two.member.consumer.close()
    world.memory.advance(world.memory.session_seconds + 1)
    turns(one)
    world.document("c", 2)
    turns(one)
    assert world.said() == ["a b", "b c"]


def test_a_rebalance_in_the_middle_of_a_restore_cancels_it() -> None:
    """The matcher drops the half-restored table, and the new owner restores from the beginning."""
    world = MatchWorld()
    for i in range(8):
        world.document(f"d{i}", i, f"{TEXT} {i}")
    turns(world.worker("one"))
    before = world.said()
    one, two = world.worker("one"), world.worker("two")
    turns(one, count=3, records_max=1)
    assert one.restoring
    turns(two, one, count=12, records_max=1)
    assert one.tables
    assert two.tables
    world.document("last", 9, f"{TEXT} 3")
    turns(one, two)
    assert "d3 last" in set(world.said()) - set(before)
    assert len(world.said()) == len(set(world.said()))


def test_a_zombie_commits_nothing() -> None:
    """It has polled; its session ends, and another member gets its place and records: its step is refused."""
    world = MatchWorld()
    zombie = world.worker("zombie")
    turns(zombie)
    world.document("a")
    world.document("b", 1)
    heir = world.worker("heir")
    transact = zombie.member.producer.begin

    def sleep() -> None:
        world.memory.advance(world.memory.session_seconds + 1)
        turns(heir)
        assert world.said() == ["a b"]
        transact()

    with mock.patch.object(zombie.member.producer, "begin", sleep), pytest.raises(FencedError):
        turns(zombie)
    assert world.said() == ["a b"]
    world.document("c", 2)
    turns(heir)
    assert world.said() == ["a b", "b c"]


@pytest.mark.parametrize("call", ["send", "flush", "send_offsets", "send_offsets_after"])
def test_an_aborted_step_leaves_table_and_log_in_agreement(call: str) -> None:
    """The repeated step has the same outcome, and a successor holds the same table."""
    world = MatchWorld()
    world.document("a")
    one = world.worker()
    turns(one)
    world.document("b", 1)
    world.document("c", 500)  # a and b leave the window, and come back when the step is undone
    world.remove("a")
    world.memory.fail_next(call, times=2)
    turns(one, count=1)
    assert world.said() == []
    turns(one)
    world.document("d", 501)
    turns(world.worker())
    assert world.said() == ["-a", "a b", "c d"]


def test_trimming_keeps_all_that_a_successor_needs() -> None:
    """The matcher trims to the committed window; a successor restores that window from the rest."""
    world = MatchWorld()
    for i in range(10):
        world.document(f"d{i}", 60 * i)
        one = world.worker()
        turns(one)
        one.trim()
        one.trim()  # below the least beginning of this round and the one before
    (first, _) = one.member.transport.bounds(TOPICS.signed)[0]
    assert first >= 6
    assert world.said() == [f"d{i} d{i + 1}" for i in range(9)]


def test_a_matcher_that_slept_after_it_was_confirmed_trims_nothing_until_it_is_confirmed_again() -> None:
    """Its session may have ended during its sleep; the broker accepts a trim from any client."""
    world = MatchWorld()
    for i in range(4):
        world.document(f"d{i}", 300 * i)
    one = world.worker()
    turns(one)
    one.trim()  # the bound of a first round
    times = iter([0.0, 1.5, 2.0, 2.5])
    one.member.clock = lambda: next(times)
    firsts = []
    for _ in range(2):
        one.trim()
        firsts.append(one.member.transport.bounds(TOPICS.signed)[0][0])
    assert firsts[0] == 0
    assert firsts[1] > 0


def test_a_window_that_is_gone_stops_the_worker_unless_a_gap_is_allowed() -> None:
    """The error names the pairs that would be missed, and the option that accepts the gap."""
    world = MatchWorld()
    world.document("a")
    world.document("b", 1)
    turns(world.worker())
    world.memory.log(TOPICS.signed, 0).trim(max(world.offsets().values()))
    with pytest.raises(OffsetGoneError, match="--allow-gap"):
        turns(world.worker())
    world.document("c", 2)
    world.document("d", 3)
    turns(world.worker(plan=PLAN._replace(allow_gap=True)))
    assert world.said() == ["a b", "c d"]


def test_records_that_are_gone_before_they_were_read_are_a_gap_too() -> None:
    """Retention overtook the group: the matcher stops, or with the option continues at the beginning of the log."""
    world = MatchWorld()
    world.document("a")
    turns(world.worker())
    world.document("b", 1)
    log = world.memory.log(TOPICS.signed, 0)
    log.trim(log.end)
    with pytest.raises(OffsetGoneError, match="--allow-gap"):
        turns(world.worker())
    one = world.worker(plan=PLAN._replace(allow_gap=True))
    turns(one)
    world.document("c", 2)
    world.document("d", 3)
    turns(one)
    assert world.said() == ["c d"]


def test_a_log_trimmed_under_a_restore_by_the_next_owner_is_no_gap() -> None:
    """A worker sleeps in the middle of a restore and wakes up as a zombie; another member owns its shards."""
    world = MatchWorld()
    for i in range(8):
        world.document(f"d{i}", 10 * i)
    turns(world.worker("one"))
    one = world.worker("one")
    turns(one, count=1, records_max=1)
    restoring = set(one.restoring)
    assert restoring
    log = world.memory.log(TOPICS.signed, 0)
    log.trim(log.end)
    one._read(0.0, 1)
    assert one.member.waiting == restoring
    assert not one.ready


def test_other_settings_of_matching_replay_all_that_the_log_holds() -> None:
    """A longer window begins before the committed ``from``; the matcher replays the remaining part of the log."""
    world = MatchWorld()
    world.document("a")
    turns(world.worker())
    world.document("far", 300, "quite another text, which has nothing in common with the one that came before it")
    turns(world.worker())  # a has left the window of 100 seconds
    longer = PLAN._replace(config=CONFIG.model_copy(update={"window_seconds": 1000.0}))
    one = world.worker(plan=longer)
    turns(one)
    one.trim()  # and does not use the window of the old settings
    world.document("b", 301)
    one = world.worker(plan=longer)
    turns(one)
    assert world.said() == ["a b"]


def test_a_message_of_another_generation_stops_the_worker() -> None:
    """The matcher commits nothing of the step."""
    world = MatchWorld()
    one = world.worker()
    turns(one)
    before = world.offsets()
    world.document("a")
    value = world.memory.records(TOPICS.signed)[0].value or b""
    own = bytes.fromhex(CONFIG.signing_fingerprint)
    assert own in value
    world.memory.append(TOPICS.signed, 0, value.replace(own, b"\xff" * len(own)))
    with pytest.raises(WireError, match="f" * 32):
        turns(one)
    assert world.offsets() == before


def test_offsets_of_another_program_are_refused() -> None:
    """The matcher does not take over a group with foreign commits."""
    world = MatchWorld()
    turns(world.worker("one"))
    offsets = world.memory.group("matchers", TOPICS.links).offsets
    offsets.update({partition: committed._replace(metadata="") for partition, committed in offsets.items()})
    with pytest.raises(ConfigError, match="no matcher wrote"):
        turns(world.worker("one"))
