"""A batch is matched in slices of bounded candidates, with the same result as in one."""

from __future__ import annotations

import random

import pytest
from quick_parameters import quick_first

from neardup import Config, Document, Matcher, Signer
from neardup.pairs.pipeline import match_step, match_steps
from neardup.pairs.shards import Shard
from neardup.window.steps import step

WORDS = [f"word{i:02}" for i in range(60)]
CONFIG = Config(threshold=0.6)


def near_copies(count: int, seed: int = 1) -> list[Document]:
    """Copies and near-copies of three texts, in random order."""
    rng = random.Random(seed)
    stories = [rng.sample(WORDS, 60) for _ in range(3)]
    texts = []
    for _ in range(count):
        words = list(rng.choice(stories))
        words[rng.randrange(60)] = f"other{rng.randrange(40)}"
        texts.append(" ".join(words))
    return [Document(f"d{i}", text, 1_000.0 + i) for i, text in enumerate(texts)]


@pytest.mark.parametrize("candidates_max", quick_first([5, 1, 100, 10**6], 2))
@pytest.mark.parametrize("shard", [None, Shard(0, 3)])
def test_pairs_do_not_depend_on_the_slices(candidates_max: int, shard: Shard) -> None:
    """Slices of any size give the same pairs in the same order, and a table with the same answers."""
    first, second = Signer(CONFIG).sign(near_copies(150)).batch, Signer(CONFIG).sign(near_copies(50, 2)).batch
    whole, sliced = Matcher(CONFIG, shard=shard), Matcher(CONFIG, shard=shard)
    expected = match_step(whole, first).pairs()
    with step(sliced.table):
        slices = list(sliced.slices(first, candidates_max=candidates_max))
    assert [pair for part in slices for pair in part.matches.pairs()] == expected
    assert [part.end for part in slices] == sorted({part.end for part in slices})
    assert slices[-1].end == first.size
    assert all(len(part.probed) >= candidates_max for part in slices[:-1])
    assert match_step(sliced, second).pairs() == match_step(whole, second).pairs()
    assert sliced.table.counts() == whole.table.counts()


def test_a_slice_holds_no_more_than_its_budget_and_one_document() -> None:
    """So the memory of a match follows the budget, however many pairs a batch has."""
    batch = Signer(CONFIG).sign(near_copies(300)).batch
    matcher = Matcher(CONFIG)
    with step(matcher.table):
        sizes = [len(part.probed) for part in matcher.slices(batch, candidates_max=50)]
    assert max(sizes) < 50 + batch.size
    assert sum(sizes) > 20 * max(sizes)


def test_a_caller_that_stops_leaves_the_table_after_the_last_slice() -> None:
    """The items after it are not in the table, and can be matched later."""
    documents = near_copies(100)
    batch = Signer(CONFIG).sign(documents).batch
    whole, parted = Matcher(CONFIG), Matcher(CONFIG)
    expected = match_step(whole, batch).pairs()
    with step(parted.table):
        part = next(parted.slices(batch, candidates_max=20))
    assert parted.table.documents == part.end < 100
    rest = Signer(CONFIG).sign(documents[part.end :]).batch
    assert part.matches.pairs() + match_step(parted, rest).pairs() == expected


def test_steps_of_slices_keep_what_was_given_out() -> None:
    """After an exception between two slices the table holds the items of the slices before it."""
    batch = Signer(CONFIG).sign(near_copies(100)).batch
    matcher = Matcher(CONFIG)
    found = next(match_steps(matcher, batch)).matches.pairs()
    assert matcher.table.documents > 0
    assert match_step(Matcher(CONFIG), batch).pairs()[: len(found)] == found


def test_an_empty_batch_is_one_slice() -> None:
    """The slice has no pairs."""
    matcher = Matcher(CONFIG)
    batch = Signer(CONFIG).sign([]).batch
    assert [part.matches.pairs() for part in match_steps(matcher, batch)] == [[]]
