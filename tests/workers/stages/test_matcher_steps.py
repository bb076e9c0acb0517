"""The steps of a matcher: their size, and the tables that remain after an unknown outcome."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import orjson
import pytest
from match_world import PLAN, TEXT, TOPICS, MatchWorld
from topics_world import turns

from neardup import Document
from neardup.pairs.batches import CONTENT_HALF
from neardup.pairs.shards import shards_of, table_limits
from neardup.schemes.rows import SCHEMES
from neardup.stories.windows.seen import Seen
from neardup.window.chains import COPIED
from neardup_workers.doing.stages.matching.shard_table import Applied, ShardTable
from neardup_workers.doing.stages.matching.stretches import Stretch
from neardup_workers.doing.stages.transaction import _FLUSH_MESSAGES, transact
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    FencedError,
    Membership,
    Message,
    OutcomeUnknownError,
)


def refuse(*_: object) -> None:
    raise AssertionError("the log is read again, though the table stands where the group does")


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("send_offsets", FencedError("the partitions have moved, and come back")),
        ("flush", FencedError("the producer was fenced")),
        ("commit_before", FencedError("refused")),
        ("commit_after", FencedError("refused, for the second request: the answer to the first was lost")),
        ("commit_before", None),
        ("commit_after", None),
        ("poll", FencedError("replaced")),
    ],
)
def test_a_restarted_worker_keeps_the_tables_at_the_committed_offsets(call: str, raises: FencedError | None) -> None:
    """This holds for a committed and for an aborted last step; no pair is restored, lost or repeated."""
    world = MatchWorld()
    world.document("a")
    one = world.worker("one")
    turns(one)
    world.document("b", 1)
    world.document("c", 500)  # a and b leave the window
    world.remove("b")
    world.memory.fail_next(call, raises=raises)
    with pytest.raises((FencedError, OutcomeUnknownError)):
        turns(one)
    two = world.worker("one")
    two.inherit(one.hand_over())
    with mock.patch.object(two.behind.reader, "poll", refuse):
        turns(two)
    assert two.tables == one.tables
    assert two.kept == {}
    world.document("d", 501)
    turns(two)
    assert world.said() == ["-b", "a b", "c d"]
    three = world.worker("three")
    turns(three, two)
    world.document("e", 502)
    turns(three, two)
    assert world.said() == ["-b", "a b", "c d", "d e"]


def test_tables_of_shards_that_others_had_meanwhile_go_on_from_where_they_were() -> None:
    """They are behind the committed places, so the worker replays the rest, and publishes nothing of it again. A shard
    without documents begins at its window, which is behind its table."""
    world = MatchWorld()
    world.document("a")
    one = world.worker("one")
    turns(one)
    world.document("b", 1)
    world.memory.fail_next("send_offsets", raises=FencedError("fenced"))
    with pytest.raises(FencedError):
        turns(one)
    world.memory.advance(world.memory.session_seconds + 1)
    other = world.worker("other")
    turns(other)
    world.document("c", 2)
    turns(other)
    other.member.consumer.close()
    world.memory.advance(world.memory.session_seconds + 1)
    two = world.worker("one")
    two.inherit(one.hand_over())
    turns(two)
    assert [two.tables[n] is one.tables[n] for n in (0, 1)] == [
        t.matcher.table.documents > 0 for t in one.tables.values()
    ]
    world.document("d", 3)
    turns(two)
    assert world.said() == ["a b", "b c", "c d"]


def test_tables_of_shards_that_do_not_come_back_at_once_are_dropped() -> None:
    """The newly assigned shards need their memory."""
    world = MatchWorld()
    one = world.worker("one")
    turns(one)
    world.memory.advance(world.memory.session_seconds + 1)
    other, two = world.worker("other"), world.worker("two")
    turns(other)
    two.inherit(one.hand_over())
    two.turn(0.0, 100)
    assert (two.member.joined, set(two.kept)) == (False, {0, 1})
    turns(other, two)
    assert (two.member.joined, two.kept, len(two.tables)) == (True, {}, 1)


def test_a_step_ends_at_its_bytes_and_what_they_lead_to() -> None:
    """What is read and not passed forms the next steps; after a failure each pair is still published once."""
    world = MatchWorld()
    worker = world.worker(plan=PLAN._replace(step_bytes_max=1))
    turns(worker, count=2)
    for i in range(6):
        world.document(f"d{i}", i)
    taken = []

    def fails_at_the_third(producer: object, messages: list[Message], *rest: object) -> None:
        taken.append(len(messages))
        if len(taken) == 3:
            raise AbortedError("the third step is aborted")
        transact(producer, messages, *rest)  # type: ignore[arg-type]

    with mock.patch("neardup_workers.doing.stages.member.transact", fails_at_the_third):
        assert [worker.turn(0.0, 100) for _ in range(3)] == [1, 1, 1]
        assert worker.member.aborted_in_row == 1
        assert worker.turn(0.0, 100) == 0  # the step that was aborted comes again first
        turns(worker, count=12)
    assert len(taken) == len(world.memory.records(TOPICS.signed)) + 1
    assert world.said() == [f"d{i} d{i + 1}" for i in range(5)]
    turns(world.worker("two"), worker)
    assert world.said() == [f"d{i} d{i + 1}" for i in range(5)]


def hot_world(count: int) -> MatchWorld:
    """One message; each document in it is a near-duplicate of all documents before it."""
    world = MatchWorld()
    words = TEXT.split()
    texts = [" ".join([*words[:10], f"word{i}", *words[11:]]) for i in range(count)]
    world.documents([(f"d{i:03}", i / 10, text) for i, text in enumerate(texts)])
    return world


@pytest.mark.parametrize("pairs_max", [1, 7, 50])
def test_a_step_ends_at_its_pairs_inside_a_message(pairs_max: int) -> None:
    """With any failure of the steps, the pairs are those of one step for the whole message, each once."""
    whole = hot_world(30)
    turns(whole.worker())
    world = hot_world(30)
    plan = PLAN._replace(step_pairs_max=pairs_max)
    sizes: list[int] = []

    def noted(producer: object, messages: list[Message], *rest: object) -> None:
        sizes.append(len(messages))
        if len(sizes) % 5 == 4:
            raise AbortedError("every fifth step is aborted")
        transact(producer, messages, *rest)  # type: ignore[arg-type]

    with (
        mock.patch("neardup_workers.doing.stages.member.transact", noted),
        mock.patch("neardup_workers.doing.stages.matching.matcher._STEP_PAIRS_MIN", 1),
    ):
        for name in "abcdefgh":
            worker = world.worker(name, plan)
            turns(worker, count=8)
            worker.member.consumer.close()  # the next worker restores, also inside a message
            world.memory.advance(world.memory.session_seconds + 1)
        turns(world.worker("last", plan), count=1_000)
    assert world.said() == whole.said()
    assert len(world.said()) > 400
    # A step ends after the slice that reaches the limit, a slice after the row that brings its candidates there: at
    # most one for each document before it.
    assert max(sizes) < 2 * pairs_max + 30


@pytest.mark.parametrize("seconds", [0.2, -1.0], ids=["a slow table", "a clock that goes back"])
def test_a_step_ends_after_half_a_second_inside_a_message(seconds: float) -> None:
    """So heartbeats, commits and other shards go on in a flood; the pairs are those of one step."""
    whole, world = hot_world(30), hot_world(30)
    turns(whole.worker())
    worker = world.worker()
    times = itertools.count(0.0, seconds)
    worker.member.clock = lambda: next(times)
    moved = []
    with mock.patch("neardup_workers.doing.stages.matching.matcher.SLICE_CANDIDATES", 1):
        while not moved or worker.waiting_records():
            before = [table.matcher.table.slot_end for table in worker.tables.values()]
            worker.turn(0.0, 100)
            moved += [sum(table.matcher.table.slot_end for table in worker.tables.values()) - sum(before)]
    assert world.said() == whole.said()
    assert sum(moved) == 30
    assert max(moved) <= 5


def test_an_abort_halves_the_step_and_commits_enlarge_it() -> None:
    """A slow broker then gets a step that it can commit in time."""
    world = hot_world(40)
    worker = world.worker(plan=PLAN._replace(step_pairs_max=64))
    refused = [AbortedError("too slow")] * 3
    seen: list[int] = []

    def slow(producer: object, messages: list[Message], *rest: object) -> None:
        if messages and refused:
            raise refused.pop()
        transact(producer, messages, *rest)  # type: ignore[arg-type]

    with (
        mock.patch("neardup_workers.doing.stages.member.transact", slow),
        mock.patch("neardup_workers.doing.stages.matching.matcher._STEP_PAIRS_MIN", 4),
    ):
        for _ in range(60):
            worker.turn(0.0, 100)
            seen.append(worker.pairs_max)
    assert min(seen) < 64 / 4
    assert seen[-1] == 64
    assert worker.waiting_records() == {}
    assert len(world.said()) == len(set(world.said())) > 100


def test_what_is_read_and_not_passed_waits_and_goes_with_its_shard() -> None:
    """The matcher reads no more messages meanwhile, and drops what waits for a revoked shard."""
    world = hot_world(30)
    one = world.worker("one", PLAN._replace(step_pairs_max=5))
    turns(one, count=3)
    before = one.waiting_records()
    assert before
    world.document("later", 5.0)
    turns(one, count=2)
    assert one.waiting_records() == before
    world.memory.advance(world.memory.session_seconds + 1)
    others = [world.worker(name) for name in ("two", "three")]
    turns(*others, count=2)
    turns(one, *others, count=1)
    assert one.waiting_records() == one.tables == {}
    turns(one, *others, count=300)
    assert len(world.said()) == len(set(world.said())) > 300
    assert any(pair.endswith("later") for pair in world.said())


def test_a_transaction_is_flushed_in_slices() -> None:
    """The client's memory for unacknowledged records does not grow with the step."""
    flushes: list[int] = []

    class Producer:
        sent = 0

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: None

        def send(self, *_: object) -> None:
            self.sent += 1

        def flush(self) -> None:
            flushes.append(self.sent)
            self.sent = 0

    messages = [Message("candidates", 0, b"{}")] * (2 * _FLUSH_MESSAGES + 1)
    transact(Producer(), messages, "bands", {}, Membership("", 1, "", None))
    assert flushes == [_FLUSH_MESSAGES, _FLUSH_MESSAGES, 1]


def test_a_member_that_joins_with_rows_at_hand_waits_in_its_polls() -> None:
    """Its steps would be refused, so the rows stay; without a wait it turns thousands of times until others join."""
    world = MatchWorld()
    one, two = world.worker("one"), world.worker("two")
    turns(one, two)
    newcomer = world.worker("newcomer")
    newcomer.turn(0.0, 100)
    world.document("a")
    with mock.patch.object(one.member.consumer, "poll", wraps=one.member.consumer.poll) as poll:
        for _ in range(4):
            one.turn(0.5, 100)
        assert [call.args[0] for call in poll.call_args_list] == [0.0, 0.5, 0.5, 0.5]
        assert len(one.cursor.hand) == 1
        turns(two, newcomer, one)
        one.turn(0.5, 100)
        assert poll.call_args.args[0] == 0.0


def test_a_matcher_marks_the_copies_that_it_reads_and_counts_their_filter() -> None:
    """Every table of the member reads the marks of the one filter; its memory is a part of theirs."""
    world, metrics = MatchWorld(), Metrics("match")
    worker = world.worker("one", observer=metrics)
    turns(worker)
    marked: list[int] = []
    applied = ShardTable.apply

    def apply(table: ShardTable, stretch: Stretch, **how: Any) -> Iterator[Applied]:
        marked.append(int(np.count_nonzero(stretch.rows.items.kinds & COPIED)))
        return applied(table, stretch, **how)

    with mock.patch.object(ShardTable, "apply", apply):
        for name in ("a", "b", "c"):
            world.document(name)
            turns(worker)
    assert sorted(marked) == [0] * len(worker.tables) + [1] * 2 * len(worker.tables)
    worker.observe()
    tables = sum(table.memory_bytes() for table in worker.tables.values())
    reported = sum(metrics.value("table_bytes", str(shard)) or 0 for shard in worker.tables)
    assert tables < reported <= tables + Seen(table_limits(PLAN.config, SCHEMES[PLAN.config.scheme])).memory_bytes


@pytest.mark.parametrize("most", [1, 3])
def test_a_bound_of_pairs_publishes_the_most_similar_and_leaves_all_links(most: int) -> None:
    """In a flood of near-copies the pairs of a document are bounded; what verdicts follow from is the same."""
    rng, words = random.Random(7), TEXT.split() * 3
    rows = []
    for i in range(40):
        text = [f"other{rng.randrange(1 << 20)}" if rng.random() < 0.04 else word for word in words]
        rows.append((f"near-{i:02d}", float(i % 5), " ".join(text)))
    values: list[list[list[bytes | None]]] = []
    for bound in (None, most):
        world = MatchWorld()
        world.documents(rows)
        turns(world.worker(plan=PLAN._replace(verdicts=True, pairs_max=bound)), count=20)
        topics = TOPICS.links, TOPICS.candidates
        values.append([[record.value for record in world.memory.records(topic)] for topic in topics])
    (links, every), (links_bounded, bounded) = values
    assert links == links_bounded
    assert set(bounded) < set(every)
    contents = MatchWorld().signer.sign([Document(id_, text) for id_, _, text in rows]).batch.contents
    owners = shards_of(contents[:, CONTENT_HALF], 2)
    position = {id_: i for i, (id_, *_) in enumerate(rows)}

    def by_document(pairs: Sequence[bytes | None]) -> dict[tuple[int, int], list[float]]:
        found: dict[tuple[int, int], list[float]] = defaultdict(list)
        for pair in map(orjson.loads, filter(None, pairs)):
            earlier, later = sorted(position[pair[side]] for side in ("older", "newer"))
            found[later, int(owners[earlier])].append(-pair["similarity"])
        return found

    nearest = {one: sorted(found)[:most] for one, found in by_document(every).items()}
    assert {one: sorted(found) for one, found in by_document(bounded).items()} == nearest
