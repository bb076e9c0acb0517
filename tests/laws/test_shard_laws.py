"""Laws of shards, for every case: many of them find together what one table finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from cases import CASES, Case, every_case, every_stream
from sizes import some_of

from neardup import Config, Document, Signer
from neardup.pairs.batches import CONTENT_HALF, Batch, concatenate, removal_batch, select
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import Shard, shards_of, stream_rows, table_limits
from neardup.schemes.rows import SCHEMES
from neardup.stories.windows.seen import Seen
from neardup.window import again
from neardup.window.chains import COPIED, MARK
from neardup.window.steps import step

# A case has one of them, and one of the growths; in ``make torture`` all.
SHARDS = (2, 5, 8)
# Steps of a growth: the number of shards, and a part of the stream after which there are more.
GROWTHS = (((2, 0.0), (8, 0.4), (12, 0.7)), ((1, 0.0), (3, 0.5)), ((3, 0.0), (4, 0.3), (5, 0.35)))


class Stream(NamedTuple):
    """Rows in order of arrival: documents and, where ``removals`` says so, removed ids."""

    rows: Batch
    removals: np.ndarray

    def contents(self) -> list[int]:
        """The contents of the documents, in order."""
        return self.rows.contents[~self.removals, CONTENT_HALF].tolist()

    def part(self, first: int, end: int) -> Stream:
        return Stream(select(self.rows, np.arange(first, end)), self.removals[first:end])


class Link(NamedTuple):
    """A pair by the numbers of its documents in the stream, in order of arrival; whether the contents are equal."""

    older: int
    newer: int
    is_copy: bool


def stream_of(config: Config, documents: Sequence[Document], rng: random.Random, removed: float) -> Stream:
    """Documents, and after some of them the removal of an id that was there."""
    signed = Signer(config).sign(documents).batch
    ids = signed.ids_at(np.arange(signed.size))
    gone = [rng.choice(ids[: n + 1]).encode() if rng.random() < removed else None for n in range(signed.size)]
    order, removals = [], []
    names = [name for name in gone if name is not None]
    for n, name in enumerate(gone):
        order.append(n)
        removals.append(False)
        if name is not None:
            order.append(signed.size + sum(removals))
            removals.append(True)
    rows = concatenate([signed, removal_batch(names, config.plan.width)])
    return Stream(select(rows, np.array(order)), np.array(removals))


def turn_of(case: Case) -> int:
    """The number of a case."""
    return list(CASES).index(case.name)


def filter_of(config: Config, bytes_max: int = 1 << 30) -> Seen | None:
    """An empty filter of contents, if copies are looked up by content."""
    scheme = SCHEMES[config.scheme]
    return Seen(table_limits(config, scheme)._replace(bytes=bytes_max)) if scheme.by_content else None


def known_copies(config: Config, stream: Stream, bytes_max: int) -> set[int]:
    """The numbers of the documents that a filter knows as copies."""
    rows = stream_rows(stream.rows, config, stream.removals)
    if (seen := filter_of(config, bytes_max)) is not None:
        seen.mark(rows.items, stream.removals)
    return set(np.flatnonzero(rows.items.kinds[~stream.removals] & COPIED).tolist())


def feed(
    matcher: Matcher, stream: Stream, before: int, *, probe: bool = True, begun: int = 0, seen: Seen | None = None
) -> list[Link]:
    """Match the rows of a stream in slices of one step; ``before`` documents came before them, and ``begun`` before the
    table began."""
    rows = stream_rows(stream.rows, matcher.config, stream.removals)
    if seen is not None:
        seen.mark(rows.items, stream.removals)
    numbers = before + np.cumsum(~stream.removals) - 1
    found = []
    with step(matcher.table):
        for part in matcher.slices_of(rows, probe=probe, candidates_max=50):
            newer = numbers[part.items].tolist()
            older = (begun + matcher.table.arrivals(part.slots)).tolist()
            equal = stream.rows.contents[part.items, CONTENT_HALF] == again.contents(matcher.table, part.slots)
            found += map(Link, older, newer, equal.tolist())
    return found


def links_of(
    config: Config, stream: Stream, shard: Shard | None, ends: Sequence[int], bytes_max: int = 1 << 30,
    grown: Mapping[int, int] = MappingProxyType({}),
) -> tuple[list[Link], Matcher]:  # fmt: skip
    """What one shard finds in a stream that comes in batches with these ends. From each row in ``grown`` on there are
    more shards, so many."""
    matcher, found, before = Matcher(config, shard=shard), [], 0
    matcher.table.limits = matcher.table.limits._replace(bytes=bytes_max)
    seen = None if shard is None else filter_of(config, bytes_max)
    for first, end in pairwise(sorted([0, *ends, *grown, len(stream.removals)])):
        if first in grown and matcher.shard.of < grown[first]:
            matcher.grow(grown[first])
        part = stream.part(first, end)
        found += feed(matcher, part, before, seen=seen)
        before += int(np.count_nonzero(~part.removals))
    return found, matcher


def ends_of(rng: random.Random, stream: Stream) -> list[int]:
    return sorted(rng.choices(range(len(stream.removals) + 1), k=rng.choice([0, 3, 20])))


def check_union(
    config: Config, stream: Stream, shards: int, rng: random.Random, bytes_max: int = 1 << 30,
    grown: Mapping[int, int] = MappingProxyType({}),
) -> list[Link]:  # fmt: skip
    """Compare the shards with one table; return what the shards found together. There are ``shards`` at first."""
    one, table = links_of(config, stream, None, [], bytes_max)
    check_removals(stream, one)
    counts = Counter(table.table.counts())
    assert not counts["cuts"]
    union, total = [], Counter()
    for number in range(max([shards, *grown.values()])):
        found, matcher = links_of(config, stream, Shard(number, shards), ends_of(rng, stream), bytes_max, grown)
        union += found
        total += Counter(matcher.table.counts())
        check_owners(matcher)
    assert max(Counter(union).values(), default=1) == 1, "a pair of documents is found twice"
    by_content = SCHEMES[config.scheme].by_content
    copies = {link.newer for link in one if link.is_copy} if by_content else set()
    known = known_copies(config, stream, bytes_max)
    assert known <= copies, "a document without an eligible copy is taken for one"
    unsure = copies - known
    assert sorted(link for link in union if link.newer not in unsure or link.is_copy) == sorted(one)
    for name in ("items", "copies", "late"):
        assert total[name] == counts[name], name
    return union


def check_owners(matcher: Matcher) -> None:
    """What came after the last growth is where it belongs."""
    table, shard = matcher.table, matcher.shard
    slots = np.arange(max(table.oldest, shard.settled), table.slot_end)
    held = slots[table.store.flags[table._slots.at(slots)] & MARK == 0]
    if SCHEMES[matcher.config.scheme].by_content:
        assert (shards_of(again.contents(table, held), shard.of) == shard.number).all()
    assert shard.number < shard.of or not len(held)


def check_removals(stream: Stream, links: list[Link]) -> None:
    """A document that was removed before another one arrived makes no pair with it."""
    ids = stream.rows.ids_at(np.arange(len(stream.removals)))
    rows = np.flatnonzero(~stream.removals).tolist()
    removed = [(row, ids[row]) for row in np.flatnonzero(stream.removals).tolist()]
    for link in links:
        older, newer = rows[link.older], rows[link.newer]
        assert not any(older < row < newer and id_ == ids[older] for row, id_ in removed), link


def with_a_window(case: Case, rng: random.Random) -> Config:
    """Settings under which documents leave the window, and come late."""
    return case.config(
        threshold=min(0.6, case.config().threshold),
        recall=0.8,
        window_seconds=rng.choice([40.0, 150.0, None]),
        lateness_seconds=rng.choice([4.0, 20.0]),
        window_documents=rng.choice([90, 1_000]),
    )


@every_stream
def test_shards_find_together_what_one_table_finds(case: Case, seed: int) -> None:
    """Copies, versions, removals, late, expired and future documents, limits of the window: for any number of shards
    and any batches, the same links of copies, and the same pairs of each other document and of each known copy."""
    rng = random.Random(seed)
    documents = case.stream(rng, 300, copies=0.3, versions=0.15, jitter=12.0)
    for n in rng.sample(range(len(documents)), 4):  # dated in the future, less and more than the window
        documents[n] = documents[n]._replace(timestamp=documents[n].timestamp + rng.choice([15.0, 60.0]))
    config = with_a_window(case, rng)
    stream = stream_of(config, documents, rng, removed=0.1)
    bytes_max = rng.choice([(len(stream.rows.ids) + len(stream.rows.ragged)) // 3, 1 << 30])
    for shards in some_of(SHARDS, turn_of(case)):
        assert len(check_union(config, stream, shards, rng, bytes_max)) > 20, shards


@every_stream
def test_copies_repeat_no_pair_of_contents(case: Case, seed: int) -> None:
    """With half of the documents copies, and none late or removed, the shards find the pairs of one table."""
    rng = random.Random(seed)
    config = case.config()
    stream = stream_of(config, case.stream(rng, 400, copies=0.5), rng, removed=0.0)
    one = sorted(links_of(config, stream, None, [])[0])
    for shards in some_of(SHARDS, turn_of(case)):
        assert sorted(check_union(config, stream, shards, rng)) == one, shards


@every_stream
def test_shards_that_are_added_on_the_way_find_together_what_one_table_finds(case: Case, seed: int) -> None:
    """From a row on there are more shards, once or twice within the window. Copies, versions and removals cross it, and
    older documents expire: the same links of copies, and the same pairs of each document without a copy."""
    rng = random.Random(seed)
    documents = case.stream(rng, 300, copies=0.4, versions=0.15, jitter=12.0)
    config = with_a_window(case, rng)
    stream = stream_of(config, documents, rng, removed=0.1)
    for (first, _), *steps in some_of(GROWTHS, turn_of(case)):
        grown = {round(part * len(stream.removals)): shards for shards, part in steps}
        assert len(check_union(config, stream, first, rng, grown=grown)) > 20, steps


@every_case
def test_a_shard_that_is_added_begins_with_the_row_of_its_growth(case: Case) -> None:
    """A shard that has read the stream before there was a shard of its number holds nothing of it, so one that begins
    behind the row goes on the same way."""
    rng = random.Random(3)
    config = case.config(window_seconds=60.0, lateness_seconds=10.0)
    stream = stream_of(config, case.stream(rng, 300, copies=0.4, versions=0.1, jitter=8.0), rng, removed=0.05)
    row, size = len(stream.removals) // 3, len(stream.removals)
    whole, before = links_of(config, stream, Shard(5, 2), [], grown={row: 8})[0], ~stream.removals[:row]
    begun = Matcher(config, shard=Shard(5, 8))
    begun.table.set_stream_time(int(stream.rows.times[:row][before].max()))
    count = int(np.count_nonzero(before))
    if (seen := filter_of(config)) is not None:
        seen.mark(stream_rows(stream.rows, config, stream.removals).until(row).items, stream.removals[:row])
    assert feed(begun, stream.part(row, size), count, begun=count, seen=seen) == whole
    assert whole


@every_case
def test_a_growth_repeats_no_pair_of_contents(case: Case) -> None:
    """Copies across two growths: the shards find the pairs of one table."""
    rng = random.Random(4)
    config = case.config()
    stream = stream_of(config, case.stream(rng, 400, copies=0.5), rng, removed=0.0)
    size = len(stream.removals)
    union = check_union(config, stream, 2, rng, grown={size // 3: 8, size // 2: 12})
    assert sorted(union) == sorted(links_of(config, stream, None, [])[0])


def slots_of(matcher: Matcher) -> list[int]:
    """The numbers of the documents in the window of a shard."""
    return matcher.table.arrivals(np.arange(matcher.table.oldest, matcher.table.slot_end)).tolist()


@every_case
def test_a_shard_that_begins_at_its_window_goes_on_like_one_that_never_stopped(case: Case) -> None:
    """A shard reads the rows of its window again, without pairs. Then it finds the same links of copies, and the same
    pairs of each document without a copy."""
    rng = random.Random(1)
    config = case.config(window_seconds=60.0, lateness_seconds=10.0)
    documents = case.stream(rng, 400, copies=0.4, versions=0.1, jitter=8.0)
    stream = stream_of(config, documents, rng, removed=0.05)
    half, size = len(stream.removals) * 3 // 4, len(stream.removals)
    contents, seen = stream.contents(), 0

    def certain(links: list[Link]) -> list[Link]:
        return [link for link in links if link.is_copy or contents[link.newer] not in contents[: link.newer]]

    for shard in (Shard(0, 2), Shard(3, 5)):
        whole = Matcher(config, shard=shard)
        feed(whole, stream.part(0, half), 0)
        before = int(np.count_nonzero(~stream.removals[:half]))
        oldest = int(whole.table.arrivals(np.array([whole.table.oldest]))[0])
        first = int(np.flatnonzero(~stream.removals)[oldest])
        assert 0 < first < half
        restored = Matcher(config, shard=shard)
        restored.table.set_stream_time(int(stream.rows.times[:first][~stream.removals[:first]].max()))
        assert feed(restored, stream.part(first, half), oldest, probe=False) == []
        found = feed(whole, stream.part(half, size), before)
        again = feed(restored, stream.part(half, size), before, begun=oldest)
        assert certain(again) == certain(found)
        seen += len(certain(found))
        again_from_start = Matcher(config, shard=shard)
        feed(again_from_start, stream, 0, probe=False)
        assert slots_of(again_from_start) == slots_of(whole), "a replay leaves other documents"
    assert seen > 5


def test_few_documents_move_when_a_shard_is_added() -> None:
    """A further shard takes its share from each other one, and no document moves between these."""
    hashes = np.random.default_rng(1).integers(0, 1 << 64, 100_000, np.uint64, endpoint=False)
    for shards in (1, 2, 7, 31):
        before, after = shards_of(hashes, shards), shards_of(hashes, shards + 1)
        assert set(after[before != after].tolist()) == {shards}
        sizes = np.bincount(after, minlength=shards + 1)
        assert abs(sizes - len(hashes) / (shards + 1)).max() < 5 * np.sqrt(len(hashes) / (shards + 1))
