"""The table of a shard: a restored table answers like the original, and an undone step leaves no trace.

Logs are random, from a seed in the test's name: copies, near-duplicates, versions, removals, refusals, expiry, late
times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, ConfigError, Document, Signer
from neardup.pairs.batches import id_columns
from neardup.pairs.shards import Growth, Shard
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL
from neardup_workers.doing.stages.matching.shard_table import Applied, ShardTable
from neardup_workers.doing.stages.matching.stretches import Stretch, read_stretches
from neardup_workers.doing.stages.matching.windows import Window, added_counts, decode_window, encode_window
from neardup_workers.outside.topics.signed import SignedRows, encode_signed, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import Record

SHARD = Shard(1, 3)


@cache
def config(window: float = 20.0, lateness: float = 10.0, documents: int = 1_000_000) -> Config:
    return Config(
        threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=window,
        lateness_seconds=lateness, window_documents=documents,
    )  # fmt: skip


def read_stretch(records: list[Record], config: Config) -> Stretch:
    """The rows of messages, which are small enough for one stretch."""
    (stretch,) = read_stretches(records, config)
    return stretch


@dataclass
class Log:
    """An endless log of signed rows, from a seed."""

    seed: int
    config: Config
    now: float = 1_000_000.0
    offset: int = 0
    rng: random.Random = field(init=False)
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        words = ["".join(self.rng.choices("abcdefghij", k=6)) for _ in range(60)]
        stories = [self.rng.choices(words, k=30) for _ in range(5)]
        self.texts = []
        for story in stories:
            for _ in range(4):
                changed = {i: self.rng.choice(words) for i in self.rng.sample(range(30), self.rng.randint(0, 4))}
                self.texts.append(" ".join(changed.get(i, word) for i, word in enumerate(story)))

    def message(self, kinds: list[int] | None = None) -> Record:
        """Write the next message, sometimes after a gap of control records or after a silence."""
        rng = self.rng
        self.now += rng.choice([0.0, 0.3, 3.0]) if rng.random() < 0.95 else 200.0
        self.offset += rng.choice([1, 1, 2, 5])
        kinds = kinds or rng.choices([DOCUMENT, REMOVAL, REFUSAL], [8, 1, 1], k=rng.choice([1, 3, 8]))
        names = [b"" if kind == REFUSAL else f"d{rng.randrange(40)}".encode() for kind in kinds]
        made = [
            Document(name.decode(), rng.choice(self.texts), self.now - rng.choice([0, 0, 5, 60]) * rng.random())
            for name, kind in zip(names, kinds, strict=True) if kind == DOCUMENT
        ]  # fmt: skip
        batch = Signer(self.config).sign(made).batch
        assert batch.size == len(made)
        n = len(kinds)
        rows = SignedRows(
            np.array(kinds, np.uint8), self.offset * 100 + np.arange(n), *id_columns(names), np.full(n, NO_RANK),
            batch.times, batch.contents, batch.evidence,
        )  # fmt: skip
        [value] = encode_signed(rows, self.config.signing_fingerprint)
        self.records.append(Record(0, self.offset, 0, None, value))
        return self.records[-1]

    def stretch(self, messages: int) -> Stretch:
        """Write messages, and read them as one stretch."""
        return read_stretch([self.message() for _ in range(messages)], self.config)

    def read(self, start: int, end: int) -> Stretch | None:
        """Read the log from an offset to before a position."""
        offset, row = offset_and_row(end)
        found = [record for record in self.records if start <= record.offset < offset + (row > 0)]
        return read_stretch(found, self.config).until(end) if found else None


def run(table: ShardTable, stretch: Stretch) -> list[tuple[object, ...]]:
    """Apply a stretch as a step, and commit it."""
    out = [outcome(applied) for applied in table.apply(stretch)]
    table.commit()
    return out


def outcome(applied: Applied) -> tuple[object, ...]:
    """Everything that a slice leads to, in a comparable form."""
    m = applied.matches
    numbers = m.older_times, m.newer_times, m.similarity, m.buckets, *applied.links
    names = [*m.older, *m.newer, *(name for _, name in applied.removed)]
    return (names, *(column.tolist() for column in numbers), applied.documents)


def flat(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The pairs of all slices, by place, and the number of documents."""
    pairs = [pair for one in found for pair in zip(*one[5:10], strict=True)]  # type: ignore[misc, arg-type]
    return [*pairs, (sum(one[-1] for one in found),)]  # type: ignore[misc]


def restored(log: Log, table: ShardTable) -> ShardTable:
    """A new owner's table, from the commit of the old owner and the log."""
    committed = table.committed()
    window = decode_window(committed.metadata)
    again = ShardTable(log.config, SHARD, window)
    end = position_of(committed.offset, window.row)
    stretch = log.read(window.start, end)
    if stretch is not None:
        for applied in again.apply(stretch, publish=False):
            assert not applied.matches.older
    again.commit()
    again.skip_to(end)
    return again


def holds(table: ShardTable) -> object:
    """What a table holds of its own documents: marks of documents that met only expired ones may differ."""
    inner = table.matcher.table
    slots = np.arange(inner.oldest, inner.slot_end)
    return inner.ids(slots), inner.times(slots).tolist(), table.stream_time, table.position


def test_a_table_whose_first_rows_are_of_other_shards_needs_no_room() -> None:
    """They take no slot, so the arrays of their evidence stay empty: the table asked for room without an end."""
    log = Log(3, Config(threshold=0.7, verify="exact", window_seconds=20.0))
    stretch = read_stretch([log.message([DOCUMENT])], log.config)
    tables = [ShardTable(log.config, Shard(n, 3)) for n in range(3)]
    for table in tables:
        run(table, stretch)
    held = [table.matcher.table.documents for table in tables]
    assert sorted(held) == [0, 0, 1]


@pytest.mark.parametrize("seed", quick_first(range(12), 1))
@pytest.mark.parametrize("limits", [(20.0, 10.0), (20.0, 0.0), (1e6, 0.0), (3.0, 200.0)], ids=str)
def test_a_restored_table_answers_as_the_original(seed: int, limits: tuple[float, float]) -> None:
    """After a replay of the committed window it gives the same answers, from any committed offset."""
    log = Log(seed, config(*limits))
    table = ShardTable(log.config, SHARD)
    for _ in range(13):
        for _ in range(2):
            run(table, log.stretch(log.rng.randint(1, 4)))
        again = restored(log, table)
        assert (again.position, again.stream_time) == (table.position, table.stream_time)
        assert again.kept_counts() == table.kept_counts()
        following = log.stretch(3)
        found = run(table, following)
        copies = {pair for pair in flat(found)[:-1] if pair[2] == pair[3]}
        same = {pair for pair in flat(run(again, following))[:-1] if pair[2] == pair[3]}
        assert same == copies
        if log.rng.random() < 0.4:
            table = again


@pytest.mark.parametrize("seed", quick_first(range(12), 2))
@pytest.mark.parametrize("limits", [(20.0, 10.0, 1_000_000), (60.0, 5.0, 12)], ids=str)
def test_messages_taken_together_lead_to_what_each_leads_to(seed: int, limits: tuple[float, float, int]) -> None:
    """Pairs and places to commit equal those of single messages in order, for any stretch."""
    log = Log(seed, config(*limits))
    together, alone = ShardTable(log.config, SHARD), ShardTable(log.config, SHARD)
    for _ in range(24):
        records = [log.message() for _ in range(log.rng.randint(1, 9))]
        found = run(together, read_stretch(records, log.config))
        each = [part for record in records for part in run(alone, read_stretch([record], log.config))]
        assert flat(found) == flat(each)
        assert together.committed() == alone.committed()
        assert holds(together) == holds(alone)


@pytest.mark.parametrize("seed", quick_first(range(12), 2))
@pytest.mark.parametrize("limits", [(20.0, 10.0, 1_000_000), (60.0, 5.0, 12)], ids=str)
def test_a_step_may_end_after_any_slice(seed: int, limits: tuple[float, float, int]) -> None:
    """The next step continues there after a commit, an undo, an unknown outcome or a restore, also inside a message.
    The pairs are those of whole stretches."""
    log = Log(seed, config(*limits))
    table, calm = ShardTable(log.config, SHARD), ShardTable(log.config, SHARD)
    inside = 0
    for _ in range(12):
        stretch = log.stretch(log.rng.randint(1, 5))
        whole = run(calm, stretch)
        found: list[tuple[object, ...]] = []
        while table.position < stretch.end:
            before = holds(table), table.committed()
            step = list(islice(table.apply(stretch, candidates_max=1), log.rng.randint(1, 3)))
            fate, after = log.rng.choice(["commit", "undo", "settle", "unsettle", "restore"]), table.committed()
            if fate in ("undo", "unsettle"):
                assert table.settle(before[1]) if fate == "unsettle" else table.undo() is None
                assert (holds(table), table.committed()) == before
                continue
            assert fate != "settle" or table.settle(after)
            table.commit()
            found += map(outcome, step)
            inside += offset_and_row(table.position)[1] > 0
            if fate == "restore" and limits[2] != 12:
                table = restored(log, table)
                assert table.position == position_of(after.offset, decode_window(after.metadata).row)
        first = [pair for pair in flat(whole) if len(pair) == 1 or pair[2] == pair[3]]
        assert [pair for pair in flat(found) if len(pair) == 1 or pair[2] == pair[3]] == first
        assert table.position == calm.position
    assert inside > 5


@pytest.mark.parametrize("seed", quick_first(range(8), 3))
def test_a_step_is_ended_later_as_what_is_committed_says(seed: int) -> None:
    """The step was committed, or it was not, or others have continued, and the table is behind; it is useless ahead."""
    log = Log(seed, config())
    table, calm = ShardTable(log.config, SHARD), ShardTable(log.config, SHARD)
    for _ in range(25):
        stretch = log.stretch(log.rng.randint(1, 4))
        before = table.committed()
        for _ in table.apply(stretch):
            pass
        after = table.committed()
        happened = log.rng.random() < 0.5
        assert table.settle(after if happened else before)
        if not happened:
            assert table.committed() == before
            run(table, stretch)
        run(calm, stretch)
        assert holds(table) == holds(calm)
        assert table.committed() == calm.committed() == after
        assert table.settle(after)
    assert table.settle(after._replace(offset=after.offset + 1))  # it is behind
    assert not table.settle(after._replace(metadata=after.metadata.replace(log.config.matching_fingerprint, "other")))
    assert not table.settle(after._replace(offset=after.offset - 1))  # it is ahead


def test_rows_without_a_slot_hold_no_log() -> None:
    """Removals, refusals and documents of other shards that meet nothing never begin a window."""
    log = Log(1, config())
    table = ShardTable(log.config, SHARD)
    for _ in range(3):
        run(table, read_stretch([log.message([REMOVAL, REFUSAL])], log.config))
        window = Window(log.offset + 1, None, log.config.matching_fingerprint, Growth(3))
        assert decode_window(table.committed().metadata) == window


@pytest.mark.parametrize("seed", quick_first(range(6), 2))
def test_the_window_moves_on_only_and_its_marks_with_it(seed: int) -> None:
    """``from`` never decreases over committed steps, so the log before it may be trimmed; marks do not accumulate."""
    log = Log(seed, config(5.0, 0.0))
    table, starts = ShardTable(log.config, SHARD), []
    for _ in range(60):
        run(table, log.stretch(2))
        starts.append(decode_window(table.committed().metadata).start)
    assert starts == sorted(starts)
    assert starts[-1] > starts[5]
    assert len(table._marks) <= 2 * table.matcher.table.documents + 2


@pytest.mark.parametrize(
    "window",
    [
        Window(0, None, "a" * 32, Growth(1)),
        Window(2**40, 10**18, "b" * 32, Growth(4096), 3_999, (10**12,) * 4),
        Window(7, -5, "c" * 32, Growth(2, ((2**20, 8), (2**56, 12)))),
    ],
)
def test_a_window_is_read_back_from_its_metadata(window: Window) -> None:
    """Kafka's limit of 4,096 characters is far away."""
    assert decode_window(encode_window(window)) == window
    assert len(encode_window(window)) < 300


@pytest.mark.parametrize("seed", range(3))
def test_what_limits_cost_is_counted_over_owners_and_undone_steps(seed: int) -> None:
    """As much as in a table without interruption: each owner goes on where the one before has committed."""
    log = Log(seed, config().model_copy(update={"bucket_candidates_max": 1, "probe_candidates_max": 1}))
    table, calm, standby = (ShardTable(log.config, SHARD) for _ in range(3))
    for _ in range(20):
        stretch = log.stretch(2)
        run(calm, stretch)
        for _ in standby.apply(stretch, publish=False):
            pass
        standby.commit()
        for _ in table.apply(stretch):
            pass
        table.undo()
        run(table, stretch)
        table = restored(log, table)
    near, lone, pairs, missed = calm.kept_counts()
    assert min(near, pairs, missed) > 0
    assert table.kept_counts() == (near, lone, pairs, missed)
    assert standby.settle(table.committed())
    assert standby.kept_counts() == table.kept_counts()
    assert added_counts([table.kept_counts(), (near + 1, 2, 3, 4)]) == {
        "near_documents": near + 1, "lone_documents": lone + 2, "near_pairs": pairs + 3, "missed_pairs": missed + 4,
    }  # fmt: skip


@pytest.mark.parametrize("metadata", ["", "{}", "null", '{"version": 9}', '{"version": 1, "from": 1}', "[1]"])
def test_metadata_of_another_program_is_refused(metadata: str) -> None:
    """The sentence names what was found."""
    with pytest.raises(ConfigError, match="which no matcher wrote"):
        decode_window(metadata)


def test_every_row_has_its_place_and_position() -> None:
    """Refusals are passed; a position names the row, also over gaps between offsets."""
    log = Log(3, config())
    log.message([DOCUMENT, REFUSAL, REMOVAL])
    log.offset += 4
    log.message([REFUSAL, DOCUMENT])
    first, second = (record.offset for record in log.records)
    stretch = read_stretch(log.records, log.config)
    assert stretch.positions.tolist() == [position_of(first), position_of(first, 2), position_of(second, 1)]
    assert stretch.places.tolist() == [first * 100, first * 100 + 2, second * 100 + 1]
    assert stretch.end == position_of(second + 1)
    assert [stretch.row_of(position_of(first, 1)), stretch.row_of(stretch.end)] == [1, 3]
