"""Shards: who holds a document, and what a shard keeps of a limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import Config, Document, Signer
from neardup.pairs.batches import bucket_keys, select
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import GROWTHS_MAX, Growth, Shard, shared_limits, stream_rows, table_limits
from neardup.schemes.rows import SCHEMES
from neardup.window.steps import step

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)


@given(st.lists(st.text(max_size=9), max_size=12), st.data())
def test_taking_rows_takes_all_of_each(names: list[str], data: st.DataObject) -> None:
    """Rows in any order, with repetitions: ids, times, contents and evidence go together."""
    documents = [Document(name, f"some text {i}", float(i)) for i, name in enumerate(names)]
    batch = Signer(CONFIG).sign(documents).batch
    rows = np.array(data.draw(st.lists(st.integers(0, len(names) - 1)) if names else st.just([])), np.int64)
    part = select(batch, rows)
    assert part.ids_at(np.arange(part.size)) == [names[i] for i in rows]
    for name in ("times", "contents", "fixed"):
        assert (getattr(part, name) == getattr(batch, name)[rows]).all()


def test_a_table_gets_content_id_and_keys_of_a_document_and_no_keys_of_a_removal() -> None:
    """Content and id come first, in order of the rows."""
    batch = Signer(CONFIG).sign([Document(f"d{i}", f"some text {i}", float(i)) for i in range(9)]).batch
    removals = np.arange(9) % 4 == 1
    items = stream_rows(batch, CONFIG, removals).items
    keys = bucket_keys(batch, CONFIG).values.reshape(9, -1)
    for i in range(9):
        found = items.keys[items.key_starts[i] : items.key_starts[i + 1]].tolist()
        assert found[0] == int(batch.contents[i, 0])
        assert found[2:] == ([] if removals[i] else keys[i].tolist())


def test_the_rows_before_one_are_the_first_rows() -> None:
    """Rows of a table may be cut at any row."""
    batch = Signer(CONFIG).sign([Document(f"d{i}", f"some text {i}", float(i)) for i in range(6)]).batch
    rows = stream_rows(batch, CONFIG, np.arange(6) == 2).until(4)
    assert rows.batch.ids_at(np.arange(4)) == ["d0", "d1", "d2", "d3"]
    assert rows.removals.tolist() == [False, False, True, False]
    assert len(rows.items.times) == len(rows.items.kinds) == len(rows.items.key_starts) - 1 == 4


@pytest.mark.parametrize(
    ("limit", "shards", "share"), [(256, 8, 55), (256, 1, 256), (256, 32, 20), (100, 100, 16), (10, 4, 10)]
)
def test_a_shard_keeps_a_share_of_a_limit_of_candidates(limit: int, shards: int, share: int) -> None:
    """A share, four standard deviations more, at least 16; copies and the window are not shared."""
    whole = table_limits(CONFIG, SCHEMES[CONFIG.scheme])._replace(bucket_candidates=limit, probe_candidates=limit)
    limits = shared_limits(whole, shards)
    assert (limits.bucket_candidates, limits.probe_candidates) == (share, share)
    assert limits == whole._replace(bucket_candidates=share, probe_candidates=share)
    exact = whole._replace(bucket_candidates=whole.items)
    assert shared_limits(exact, shards).bucket_candidates == whole.items


def test_a_growth_counts_only_from_the_number_in_force() -> None:
    """Of two rows from 2 shards the first counts; fewer or as many do not; a reader knows what it has passed."""
    growth = Growth(2).grown(10, 2, 8)
    assert growth.grown(11, 2, 12) == growth.grown(12, 8, 8) == growth.grown(13, 8, 4) == growth
    later = growth.grown(20, 8, 12)
    assert (later.shards, later.until(19).shards, later.until(10).shards, later.until(9).shards) == (12, 8, 8, 2)
    many = Growth(1)
    for n in range(2 * GROWTHS_MAX):
        many = many.grown(n, n + 1, n + 2)
    assert many.shards == GROWTHS_MAX + 1


def test_a_shard_shares_limits_as_its_oldest_document_does() -> None:
    """Documents of before a growth are in fewer shards, so each of these has more of them to compare."""
    config = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=100.0)
    matcher = Matcher(config, shard=Shard(0, 2))
    before = matcher.table.limits.bucket_candidates
    batch = Signer(config).sign([Document(f"d{i}", f"some text {i}", float(i)) for i in range(40)]).batch
    with step(matcher.table):
        matcher.match(batch)
        matcher.grow(8)
        matcher.match(select(batch, np.arange(0)))
    assert matcher.table.documents > 5
    assert matcher.table.limits.bucket_candidates == before
    last = Signer(config).sign([Document("late", "another text", 1e6)]).batch
    with step(matcher.table):
        matcher.match(last)
        matcher.match(select(batch, np.arange(0)))
    assert matcher.table.limits.bucket_candidates < before
