"""The table of a partition: a restored table answers like the original, and an undone step leaves no trace.

Logs are random, from a seed in the test's name: copies, near-duplicates, versions, removals, expiry, late times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from unittest import mock

import numpy as np
import orjson
import pytest
from quick_seeds import quick_seeds

from neardup.stream import Config, ConfigError, Document, Signer
from neardup.stream.bands_message import BandMessage, WireError, encode
from neardup.stream.batches import Batch, bucket_keys, select
from neardup.stream.partitions import Partition, route
from neardup.workers.stages.partition_table import Applied, PartitionTable, Window, decode_window, encode_window
from neardup.workers.transport.protocol import Record

PARTITION = Partition(1, 3)


@cache
def config(window: float = 20.0, lateness: float = 10.0, documents: int = 1_000_000) -> Config:
    return Config(
        threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=window,
        lateness_seconds=lateness, window_documents=documents,
    )  # fmt: skip


@dataclass
class Log:
    """An endless log of one partition of three, from a seed."""

    seed: int
    config: Config
    partition: Partition = PARTITION
    now: float = 1_000_000.0
    offset: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        words = ["".join(self.rng.choices("abcdefghij", k=6)) for _ in range(60)]
        stories = [self.rng.choices(words, k=30) for _ in range(5)]
        self.texts = []
        for story in stories:
            for _ in range(4):
                changed = {i: self.rng.choice(words) for i in self.rng.sample(range(30), self.rng.randint(0, 4))}
                self.texts.append(" ".join(changed.get(i, word) for i, word in enumerate(story)))

    def message(self) -> Record:
        """The next message, sometimes after a gap of control records or after a silence."""
        rng = self.rng
        self.now += rng.choice([0.0, 0.3, 3.0]) if rng.random() < 0.95 else 200.0
        self.offset += rng.choice([1, 1, 2, 5])
        removed = [f"d{rng.randrange(40)}".encode() for _ in range(rng.choice([0, 0, 0, 1, 3]))]
        documents = rng.choice([0, 1, 3, 8]) if removed else rng.choice([1, 3, 8])
        return self.record(BandMessage(self.batch(documents), removed))

    def batch(self, documents: int) -> Batch:
        """Documents of this partition; documents of other partitions are left out."""
        rng = self.rng
        made = [
            Document(
                f"d{rng.randrange(40)}", rng.choice(self.texts), self.now - rng.choice([0, 0, 5, 60]) * rng.random()
            )
            for _ in range(documents)
        ]
        batch = Signer(self.config).sign(made).batch
        keys = bucket_keys(batch, self.config)
        return select(batch, route(keys, self.partition.of)[self.partition.number])

    def record(self, message: BandMessage) -> Record:
        return Record(1, self.offset, 0, None, encode(message, self.config.signing_fingerprint))

    def messages(self, count: int) -> Iterator[Record]:
        return (self.message() for _ in range(count))

    def table(self, window: Window | None = None) -> PartitionTable:
        return PartitionTable(self.config, self.partition, window)


def outcome(applied: Applied) -> tuple[object, ...]:
    """Everything that a message leads to, in a comparable form."""
    m = applied.matches
    numbers = m.older_times, m.newer_times, m.similarity, m.buckets
    columns = [m.older, m.newer, *(column.tolist() for column in numbers)]
    return (*columns, applied.removed, applied.documents)


def take_step(table: PartitionTable, records: list[Record]) -> list[tuple[object, ...]]:
    out = [outcome(table.apply(record, publish=True)) for record in records]
    table.commit()
    return out


def restored(log: Log, table: PartitionTable, history: list[Record]) -> PartitionTable:
    """A new owner's table, from the commit of the old owner and the log."""
    committed = table.position()
    window = decode_window(committed.metadata)
    again = log.table(window)
    for record in history:
        if window.start <= record.offset < committed.offset + (window.row > 0):
            for _ in again.replay([record], committed.offset, window.row):
                pass
            if log.rng.random() < 0.3:
                again.commit()
    again.commit()
    again.seek(committed.offset, window.row)
    return again


def holds(table: PartitionTable) -> object:
    inner = table.matcher.table
    slots = np.arange(inner.oldest, inner.slot_end)
    return inner.ids(slots), inner.times(slots).tolist(), table.stream_time, table.next


@pytest.mark.parametrize("seed", quick_seeds(range(12), 4))
@pytest.mark.parametrize("limits", [(20.0, 10.0), (20.0, 0.0), (1e6, 0.0), (3.0, 200.0)], ids=str)
def test_a_restored_table_answers_as_the_original(seed: int, limits: tuple[float, float]) -> None:
    """After a replay of the committed window it holds the same items, gives the same answers and commits the same."""
    log = Log(seed, config(*limits))
    table, history = log.table(), []
    for _ in range(25):
        step = list(log.messages(log.rng.randint(1, 4)))
        history += step
        take_step(table, step)
        again = restored(log, table, history)
        assert holds(again) == holds(table)
        assert again.position() == table.position()
        if log.rng.random() < 0.4:  # the new owner and the old one continue side by side
            following = list(log.messages(3))
            history += following
            assert take_step(again, following) == take_step(table, following)
            assert again.position() == table.position()
            table = again


@pytest.mark.parametrize("seed", quick_seeds(range(12), 4))
def test_a_restored_table_answers_as_the_original_when_items_were_evicted(seed: int) -> None:
    """With a limit on documents too, later messages get the same answers from any committed window."""
    log = Log(seed, config(60.0, 5.0, 12))
    table, history = log.table(), []
    for _ in range(25):
        step = list(log.messages(log.rng.randint(1, 4)))
        history += step
        take_step(table, step)
        again = restored(log, table, history)
        following = list(log.messages(2))
        history += following
        assert take_step(again, following) == take_step(table, following)


def added_up(parts: list[Applied]) -> tuple[object, ...]:
    """The sum of the outcomes of messages, for any grouping."""
    columns = zip(*(outcome(applied)[:6] for applied in parts), strict=True)
    flat = [[value for part in column for value in part] for column in columns]  # type: ignore[attr-defined]
    removed = [id_ for applied in parts for id_ in applied.removed]
    return flat, removed, sum(applied.messages for applied in parts), sum(applied.documents for applied in parts)


@pytest.mark.parametrize("seed", quick_seeds(range(12), 4))
@pytest.mark.parametrize("limits", [(20.0, 10.0, 1_000_000), (60.0, 5.0, 12)], ids=str)
def test_messages_taken_together_lead_to_what_each_leads_to(seed: int, limits: tuple[float, float, int]) -> None:
    """Pairs, removals and commits equal those of single messages in order, for any size of a match."""
    log = Log(seed, config(*limits))
    together, alone = log.table(), log.table()
    history: list[Record] = []
    for size in [1, 5, 20] * 8:
        step = list(log.messages(log.rng.randint(1, 9)))
        history += step
        with mock.patch("neardup.workers.stages.partition_table._TOGETHER_DOCUMENTS", size):
            found = list(together.apply_all(step, publish=True))
        assert added_up(found) == added_up([alone.apply(record, publish=True) for record in step])
        assert together.position() == alone.position()
        together.commit()
        alone.commit()
        assert holds(together) == holds(alone)


@pytest.mark.parametrize("seed", quick_seeds(range(12), 4))
def test_an_undone_step_leaves_table_and_log_in_agreement(seed: int) -> None:
    """After an abort the same messages in other steps give the results of a table that never failed."""
    log = Log(seed, config())
    table, calm = log.table(), log.table()
    history: list[Record] = []
    for _ in range(25):
        step = list(log.messages(log.rng.randint(1, 5)))
        before, committed = holds(table), table.position()
        for _ in range(log.rng.randint(0, 3)):
            for record in step[: log.rng.randint(1, len(step))]:
                table.apply(record, publish=True)
            table.position()
            table.undo()
            assert holds(table) == before
            assert table.position() == committed
        history += step
        cut = log.rng.randint(0, len(step))
        found = take_step(table, step[:cut]) + take_step(table, step[cut:])
        assert found == take_step(calm, step)
        assert table.position() == calm.position()
        assert holds(restored(log, table, history)) == holds(calm)


@pytest.mark.parametrize("seed", quick_seeds(range(12), 4))
@pytest.mark.parametrize("limits", [(20.0, 10.0, 1_000_000), (60.0, 5.0, 12)], ids=str)
def test_a_step_may_end_inside_a_message(seed: int, limits: tuple[float, float, int]) -> None:
    """The next step continues there after a commit, an undo, an unknown outcome or a restore. The pairs, and the commit
    after the last row, are those of whole messages.
    """
    log = Log(seed, config(*limits))
    table, calm = log.table(), log.table()
    history: list[Record] = []
    inside = 0
    for _ in range(12):
        records = list(log.messages(log.rng.randint(1, 5)))
        history += records
        whole = added_up([calm.apply(record, publish=True) for record in records])
        calm.commit()
        found: list[Applied] = []
        left = records
        while left:
            before = holds(table), table.position()
            slices = table.apply_all(left, publish=True, candidates_max=1)
            step = list(islice(slices, log.rng.randint(1, 3)))
            fate, after = log.rng.choice(["commit", "undo", "settle", "unsettle", "restore"]), table.position()
            if fate in ("undo", "unsettle"):
                assert table.settle(before[1]) if fate == "unsettle" else table.undo() is None
                assert (holds(table), table.position()) == before
                continue
            assert fate != "settle" or table.settle(after)
            table.commit()
            found += step
            left = left[sum(part.messages for part in step) :]
            inside += table.next[1] > 0
            if fate == "restore":
                table = restored(log, table, history)
                assert table.position() == after or limits[2] == 12
                assert table.next[0] == after.offset
        assert added_up(found) == whole
        assert table.next == calm.next
        assert holds(table) == holds(calm) or limits[2] == 12
    assert inside > 5


@pytest.mark.parametrize("row", [1, 7])
def test_a_row_that_the_log_does_not_hold_is_no_place_to_begin(row: int) -> None:
    """A table that lacks rows of the committed position never runs."""
    log = Log(1, config())
    table = log.table()
    take_step(table, list(log.messages(3)))
    with pytest.raises(AssertionError, match="lacks the message"):
        table.seek(log.offset + 1, row)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_step_after_a_restore_may_be_undone(seed: int) -> None:
    """The restored items are not part of the step."""
    log = Log(seed, config())
    table, history = log.table(), list(log.messages(12))
    take_step(table, history)
    again = restored(log, table, history)
    following = list(log.messages(4))
    for record in following:
        again.apply(record, publish=True)
    again.undo()
    assert holds(again)[:3] == holds(table)[:3]  # type: ignore[index]
    assert take_step(again, following) == take_step(table, following)
    assert again.position() == table.position()


@pytest.mark.parametrize("seed", range(8))
def test_a_step_is_ended_later_as_what_is_committed_says(seed: int) -> None:
    """The step was committed, or it was not, or others have continued: then the table reports that it is useless."""
    log = Log(seed, config())
    table, calm = log.table(), log.table()
    for _ in range(25):
        step = list(log.messages(log.rng.randint(1, 4)))
        before = table.position()
        for record in step:
            table.apply(record, publish=True)
        after = table.position()
        happened = log.rng.random() < 0.5
        assert table.settle(after if happened else before)
        if not happened:
            assert table.position() == before
            take_step(table, step)
        take_step(calm, step)
        assert holds(table) == holds(calm)
        assert table.position() == calm.position() == after
        assert table.settle(after)
    assert not table.settle(after._replace(offset=after.offset + 1))
    assert not table.settle(after._replace(metadata=""))


def test_of_a_window_that_is_past_only_the_last_message_is_kept() -> None:
    """After a silence the table needs the log from the newest message on, and stores the stream time before it."""
    log = Log(1, config(20.0, 0.0))
    table = log.table()
    take_step(table, list(log.messages(20)))
    before = table.stream_time
    log.now += 1000
    log.offset += 1
    take_step(table, [log.record(BandMessage(log.batch(30), []))])
    assert decode_window(table.position().metadata) == Window(log.offset, before, log.config.matching_fingerprint)


def test_removals_alone_hold_no_log() -> None:
    """A message without documents never begins a window, before or after messages with documents."""
    log = Log(1, config())
    table = log.table()
    for offset in (3, 4):
        log.offset = offset
        take_step(table, [log.record(BandMessage(log.batch(0), [b"gone"]))])
        assert decode_window(table.position().metadata) == Window(offset + 1, None, log.config.matching_fingerprint)


@pytest.mark.parametrize("seed", range(6))
def test_the_window_moves_on_only_and_its_marks_with_it(seed: int) -> None:
    """``from`` never decreases over committed steps, so the log before it may be trimmed; marks do not accumulate."""
    log = Log(seed, config(5.0, 0.0))
    table, starts = log.table(), []
    for _ in range(60):
        take_step(table, list(log.messages(2)))
        starts.append(decode_window(table.position().metadata).start)
    assert starts == sorted(starts)
    assert starts[-1] > starts[5]
    assert len(table._marks) <= 2 * table.matcher.table.documents + 2


@pytest.mark.parametrize(
    "window", [Window(0, None, "f" * 32), Window(2**62, -(2**62), "0" * 32, 2**31), Window(7, 2**62, "a", 1)]
)
def test_the_metadata_says_the_window_and_fits_the_limit(window: Window) -> None:
    """The commit can be read back and has far fewer than 4,000 characters."""
    assert decode_window(encode_window(window)) == window
    assert len(encode_window(window)) < 200


def test_the_metadata_of_version_1_is_read() -> None:
    """It has no row, because every step ended after a message."""
    metadata = '{"version":1,"from":7,"time":null,"fingerprint":"abc"}'
    assert decode_window(metadata) == Window(7, None, "abc", 0)


@pytest.mark.parametrize(
    "metadata", ["", "{}", "[]", "null", "7", '{"version":3,"from":1,"time":1,"row":0,"fingerprint":""}', "x"]
)
def test_metadata_of_another_program_is_refused(metadata: str) -> None:
    """The message shows the metadata and the remedy."""
    with pytest.raises(ConfigError, match="--from"):
        decode_window(metadata)


def test_a_message_of_another_generation_changes_nothing() -> None:
    """It is refused, and the step can be undone."""
    log, other = Log(1, config()), Log(1, config().model_copy(update={"seed": 2}))
    table = log.table()
    take_step(table, list(log.messages(3)))
    before = holds(table)
    with pytest.raises(WireError):
        table.apply(other.message(), publish=True)
    table.undo()
    assert holds(table) == before
    assert orjson.loads(table.position().metadata)["fingerprint"] == log.config.matching_fingerprint
