"""Laws of the stream, for every case: which documents pair, that they pair once, and for how long."""

from __future__ import annotations

import random
from collections import Counter

from cases import Case, every_case, every_stream
from oracle import contents_of

from neardup import Config, Deduplicator, Document, Pair, Signer
from neardup.pairs.batches import Batch
from neardup.pairs.pipeline import Matcher, match_step
from neardup.window.steps import step


def splits(rng: random.Random, documents: list[Document]) -> list[list[Document]]:
    """The same documents in parts of random sizes, empty ones among them."""
    ends = sorted(rng.choices(range(len(documents) + 1), k=rng.choice([1, 5, 40])))
    return [documents[a:b] for a, b in zip([0, *ends], [*ends, len(documents)], strict=True)]


def pairs_of(config: Config, documents: list[Document]) -> list[Pair]:
    return Deduplicator(config).process(documents)


def signed(config: Config, documents: list[Document]) -> Batch:
    """Sign documents once for all limits of the window: only the matcher uses these limits."""
    return Signer(config).sign(documents).batch


def pairs_in(batch: Batch, config: Config) -> list[Pair]:
    return match_step(Matcher(config), batch).pairs()


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.older, pair.newer) for pair in pairs]


@every_stream
def test_a_batch_gives_what_one_by_one_gives(case: Case, seed: int) -> None:
    """The same pairs and counts for every split into batches, with twins, versions and expiry inside a batch."""
    rng = random.Random(seed)
    limits = {"window_seconds": rng.choice([20.0, 1e6]), "lateness_seconds": 5.0, "window_documents": 150}
    config = case.config(threshold=min(0.6, case.config().threshold), recall=0.8, **limits)
    documents = case.stream(rng, 300, versions=0.1, jitter=8.0)
    single = Deduplicator(config)
    expected = [pair for document in documents for pair in single.process([document])]
    assert len(expected) > 50
    for _ in range(2):
        dedup = Deduplicator(config)
        assert [p for part in splits(rng, documents) for p in dedup.process(part)] == expected
        assert dedup.counts() == single.counts()


@every_stream
def test_no_pair_is_reported_twice_and_none_with_itself(case: Case, seed: int) -> None:
    """For documents with different ids, in any order and with any number of common buckets."""
    documents = case.stream(random.Random(seed), 400, copies=0.3, jitter=30.0)
    pairs = pairs_of(case.config(), documents)
    found = Counter(frozenset(pair) for pair in names(pairs))
    assert len(found) > 50
    assert max(found.values()) == 1
    assert all(len(pair) == 2 for pair in found)


@every_stream
def test_no_version_of_an_id_pairs_with_another(case: Case, seed: int) -> None:
    """Half of the documents are new versions, most of them near-duplicates or copies of earlier ones."""
    documents = case.stream(random.Random(seed), 300, copies=0.4, versions=0.5)
    pairs = pairs_of(case.config(), documents)
    assert len(pairs) > 50
    assert all(pair.older != pair.newer for pair in pairs)


@every_stream
def test_copies_are_linked_once_each_and_hide_no_other_pair(case: Case, seed: int) -> None:
    """n - 1 links join n copies of a content, and copies do not change which contents are pairs."""
    documents = case.stream(random.Random(seed), 400, copies=0.5)
    config = case.config()
    number = contents_of(documents, config)
    links, contents = Counter(), set()
    for older, newer in names(pairs_of(config, documents)):
        pair = frozenset((number[older], number[newer]))
        if len(pair) == 1:
            links[number[older]] += 1
        else:
            contents.add(pair)
    copies = Counter(number.values())
    assert links == Counter({content: n - 1 for content, n in copies.items() if n > 1})
    firsts = without_copies(documents, config)
    without = {frozenset((number[a], number[b])) for a, b in names(pairs_of(config, firsts))}
    assert contents == without


@every_stream
def test_expired_ones_are_never_returned_and_live_ones_never_lost(case: Case, seed: int) -> None:
    """With a window of time, the pairs are exactly the pairs within the window, also for late documents."""
    rng = random.Random(seed)
    documents = without_copies(case.stream(rng, 400, copies=0, jitter=20.0), case.config())
    time = {x.id: x.timestamp for x in documents}
    everything = pairs_of(case.config(), documents)
    batch = signed(case.config(), documents)
    for window in (3.0, 40.0, 150.0):
        expected = [pair for pair in everything if abs(time[pair.older] - time[pair.newer]) <= window]
        config = case.config(window_seconds=window, lateness_seconds=30.0)
        assert pairs_in(batch, config) == expected, window
    assert len(expected) not in (0, len(everything))


@every_stream
def test_only_the_last_documents_are_compared(case: Case, seed: int) -> None:
    """A document is compared with the ``window_documents`` - 1 documents before it, and with no other."""
    documents = without_copies(case.stream(random.Random(seed), 400, copies=0), case.config())
    arrival = {x.id: n for n, x in enumerate(documents)}
    everything = pairs_of(case.config(), documents)
    batch = signed(case.config(), documents)
    for most in (1, 2, 30, 300):
        expected = [pair for pair in everything if arrival[pair.newer] - arrival[pair.older] < most]
        assert pairs_in(batch, case.config(window_documents=most)) == expected, most
    assert len(expected) not in (0, len(everything))


def without_copies(documents: list[Document], config: Config) -> list[Document]:
    """Return the first document of each content, without refused documents."""
    first: dict[int, str] = {}
    for id_, content in contents_of(documents, config).items():
        first.setdefault(content, id_)
    firsts = set(first.values())
    return [document for document in documents if document.id in firsts]


@every_case
def test_memory_is_bounded_by_the_window(case: Case) -> None:
    """After 36 windows the memory is the same as after 18, and the window holds only as many documents as fit.

    The test bounds windows by count and by time. After 18 windows every page has been reused once: a page holds several
    windows of a scheme with few keys. Two thirds of the documents are replayed without a probe, as after a restart. Six
    parts come three times: what came before has left the windows.
    """
    limits = [{"window_documents": 250}, {"window_seconds": 250.0, "lateness_seconds": 20.0}]
    matchers = [Matcher(case.config(**each)) for each in limits]
    held: list[list[int]] = [[] for _ in limits]
    allocated: list[list[int]] = [[] for _ in limits]
    rng, clock = random.Random(4), 0
    parts = [signed(case.config(), case.stream(rng, 500, jitter=20.0)) for _ in range(6)]
    for turn in range(18):
        batch = parts[turn % 6]._replace(times=parts[turn % 6].times + clock)
        clock = int(batch.times.max())
        for n, matcher in enumerate(matchers):
            with step(matcher.table):
                matcher.match(batch, probe=turn % 3 == 0)
            held[n].append(matcher.table.documents)
            allocated[n].append(matcher.table.memory_bytes()[1])
    for n, matcher in enumerate(matchers):
        assert max(held[n]) <= 1.3 * 250, limits[n]
        assert max(allocated[n][9:]) <= 1.1 * max(allocated[n][:9]), (limits[n], allocated[n])
        used, most = matcher.table.memory_bytes()
        assert used <= most, limits[n]


@every_stream
def test_a_probe_reports_what_adding_would_and_changes_nothing(case: Case, seed: int) -> None:
    """A probe gives each document's pairs; after it the stream continues as without the probe."""
    rng = random.Random(seed)
    config = case.config(window_seconds=60.0, lateness_seconds=10.0)
    documents = case.stream(rng, 300, versions=0.1, jitter=8.0)
    looked, other = Deduplicator(config), Deduplicator(config)
    for part in splits(rng, documents):
        probed = looked.probe(part)
        alone = [pair for document in part for pair in looked.probe([document])]
        assert probed == alone
        if part:
            first = looked.probe(part[:1])
            held = looked.matcher.table.documents, looked.matcher.table.stream_time
            assert held == (other.matcher.table.documents, other.matcher.table.stream_time)
            assert first == other.process(part[:1]) == looked.process(part[:1])
            assert looked.process(part[1:]) == other.process(part[1:])


@every_stream
def test_a_removed_id_is_never_returned_and_no_other_is_lost(case: Case, seed: int) -> None:
    """In a stream without copies, the pairs are the same as in a stream without the removed document."""
    rng = random.Random(seed)
    config = case.config()
    documents = without_copies(case.stream(rng, 300, copies=0), config)
    half = len(documents) // 2
    removed = {x.id for x in rng.sample(documents[:half], 30)}
    dedup = Deduplicator(config)
    dedup.process(documents[:half])
    assert [dedup.remove(id_) for id_ in removed] == [1] * len(removed)
    rest = dedup.process(documents[half:])
    assert rest == [
        pair
        for pair in pairs_of(config, documents)
        if pair.newer not in {x.id for x in documents[:half]} and pair.older not in removed
    ]
