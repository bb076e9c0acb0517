"""Standbys of matchers: how far they go, what a takeover costs, and when a table is of no use."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from unittest import mock

import pytest
from match_world import CONFIG, PLAN, TEXT, TOPICS, MatchWorld
from topics_world import turns

from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.signed import PARTITION, position_of
from neardup_workers.outside.transport.protocol import Committed

STANDBYS = PLAN._replace(standbys=1)
WINDOW = 40  # documents


class Counts(Observer):
    """Keeps what a worker counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.gauges: dict[tuple[str, str], float] = {}

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        self.counts[f"{name} {label}".strip()] += int(amount)

    def set(self, name: str, value: float, label: str = "") -> None:
        self.gauges[name, label] = value

    def forget(self, label: str = "", name: str = "") -> None:
        self.gauges.pop((name, label), None)


class Pair:
    """Two matchers that stand by for each other, and a window of documents that are no pairs."""

    def __init__(self) -> None:
        self.world = MatchWorld()
        self.counts = {name: Counts() for name in ("one", "two")}
        self.one, self.two = (self.world.worker(name, STANDBYS, self.counts[name]) for name in ("one", "two"))
        for number in range(WINDOW):
            words = [hashlib.sha256(f"{number}/{i}".encode()).hexdigest()[:9] for i in range(20)]
            self.world.document(f"w{number}", number / 10, " ".join(words))
        turns(self.one, self.two, count=12)
        for counts in self.counts.values():
            counts.counts.clear()
        [self.lost] = self.one.tables

    def committed(self) -> Committed:
        return self.world.memory.group("matchers", TOPICS.links).offsets[self.lost]

    def place(self) -> int:
        committed = self.committed()
        return position_of(committed.offset, decode_window(committed.metadata).row)

    def end_one(self, survivor: MatchWorker) -> None:
        """The first matcher is killed, and its session ends."""
        for _ in range(3):
            self.world.memory.advance(self.world.memory.session_seconds / 2)
            turns(survivor, count=1)
        turns(survivor, count=8)


@pytest.fixture(autouse=True)
def refreshed() -> Iterator[None]:
    """Committed offsets are read in every turn."""
    with mock.patch("neardup_workers.doing.stages.matching.standbys._REFRESH_SECONDS", 0.0):
        yield


def test_a_takeover_reads_no_window_again() -> None:
    """Only what the dead owner had not committed is read; nothing is lost, and nothing said twice."""
    pair = Pair()
    assert pair.two.standbys.ready == {pair.lost}
    pair.world.document("a", 5.0)
    pair.world.document("b", 6.0)
    turns(pair.one, pair.two)
    pair.world.document("c", 7.0)
    pair.end_one(pair.two)
    assert pair.two.running == {0, 1}
    assert pair.world.said() == ["a b", "b c"]
    counts = pair.counts["two"].counts
    assert counts["takeovers kept"] == 1
    assert counts["takeovers restored"] == 0
    assert counts["restored_documents"] + counts["standby_documents"] <= 4  # those of the test


def test_a_standby_stops_at_the_committed_offset() -> None:
    """Rows that its owner has not matched are not in its table, although this member has read them."""
    pair = Pair()
    before = pair.place()
    pair.world.document("a", 5.0)
    turns(pair.two)
    assert pair.two.tables[1 - pair.lost].position > before
    assert pair.two.standbys.tables[pair.lost].position == before == pair.place()


def test_a_table_ahead_of_the_commit_is_dropped_at_the_takeover() -> None:
    """Brokers can lose a committed offset. What the dead owner said after it was lost, too: it is matched again."""
    pair = Pair()
    turns(pair.one, pair.two)
    earlier = pair.committed()
    pair.world.document("a", 5.0)
    pair.world.document("b", 6.0)
    turns(pair.one, pair.two)
    assert pair.two.standbys.tables[pair.lost].position > position_of(earlier.offset)
    found = pair.world.said()
    pair.world.memory.group("matchers", TOPICS.links).offsets[pair.lost] = earlier
    pair.end_one(pair.two)
    again = pair.world.said()
    assert pair.counts["two"].counts["takeovers restored"] == 1
    owner = [said for said in again if again.count(said) > found.count(said)]
    assert owner == (["a b"] if pair.lost == pair_shard() else [])


def pair_shard() -> int:
    """The shard of the text of the pair."""
    world = MatchWorld()
    world.document("a")
    both = world.worker("one"), world.worker("two")
    turns(*both)
    return next(shard for worker in both for shard, table in worker.tables.items() if table.matcher.table.documents)


def test_a_standby_whose_log_is_gone_begins_again() -> None:
    """Trims wait for no standby: it begins again at the window of its shard, and is ready once more."""
    pair = Pair()
    pair.one.turn(0.0, 100)
    for number in range(30):
        pair.world.document(f"x{number}", 300.0 + number, f"{TEXT} {number} {'y' * number}")
        turns(pair.one, count=1)
    turns(pair.one)
    with mock.patch.object(pair.two.standbys, "_running", mock.Mock(covers=lambda position: False)):
        pair.world.memory.log(TOPICS.signed, PARTITION).trim(decode_window(pair.committed().metadata).start)
        for _ in range(4):
            pair.two.standbys.turn(100)
    assert pair.two.standbys.tables[pair.lost].position == pair.place()


def test_a_member_alone_reads_for_its_standbys_itself() -> None:
    """A third matcher of two shards owns none, and has the table of one."""
    pair = Pair()
    third = pair.world.worker("three", STANDBYS._replace(standbys=2))
    turns(pair.one, pair.two, third, count=15)
    assert third.standbys.ready == {0, 1}
    assert third.running == set()
    assert third.ready


def test_how_far_a_standby_is_behind_is_a_metric_until_it_is_none() -> None:
    """Messages and seconds since an offset was committed that the standby has not reached; gone after the takeover."""
    pair = Pair()
    now = [1e9]
    pair.two.member.clock = lambda: now[0]
    pair.world.document("a", 5.0)
    turns(pair.one, count=2)
    with mock.patch.object(pair.two.standbys, "_apply"):
        turns(pair.two, count=1)
        now[0] += 7.0
        pair.two.observe()
    gauges = pair.counts["two"].gauges
    assert gauges["standby_lag_seconds", str(pair.lost)] == 7.0
    assert gauges["standby_lag_records", str(pair.lost)] >= 1
    pair.end_one(pair.two)
    pair.two.observe()
    assert ("standby_lag_seconds", str(pair.lost)) not in gauges
    assert gauges["table_documents", str(pair.lost)] >= 0


def test_a_member_with_other_settings_of_matching_stands_by_for_no_shard() -> None:
    """A table under other settings is not that of the owner."""
    pair = Pair()
    other = STANDBYS._replace(config=CONFIG.model_copy(update={"bucket_candidates_max": 99}))
    third = pair.world.worker("three", other)
    turns(pair.one, pair.two, third, count=12)
    assert third.standbys.ready == frozenset()


def test_no_more_stays_at_hand_than_the_standby_lacks() -> None:
    """However long the log is. While the owner stands still, its standby waits, and the rows since then stay."""
    pair = Pair()
    for number in range(40):
        pair.world.document(f"x{number}", WINDOW + number, TEXT)
        turns(pair.one, pair.two, count=2)
        assert len(pair.two.cursor._trail) <= 2
    for number in range(5):
        pair.world.document(f"y{number}", 2 * WINDOW + number, TEXT)
        turns(pair.two, count=2)
    trail = pair.two.cursor._trail
    assert len(trail) >= 4
    arrays = sum(part.nbytes for stretch in trail for part in stretch.rows.items)
    assert pair.two.cursor._trail_bytes == sum(stretch.size for stretch in trail) > arrays
    turns(pair.one, pair.two, count=4)
    assert len(trail) <= 1
    assert pair.two.standbys.ready == {pair.lost}
