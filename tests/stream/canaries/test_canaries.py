"""Canaries change nothing, raise no alarm on a healthy window, and notice a fault."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow
import pytest
from benchmarks.recall.canaries import FAULTS, NOTICED_WITHIN, World
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document, Signer
from neardup.pairs.batches import joined
from neardup.pairs.estimates.rate_alarm import LEVEL, RateAlarm
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import edited, similarities
from neardup.stories.canaries.looks import CHANCE, FAULT

CONFIGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "a small window": {"window_documents": 300},
    "limits": {"bucket_candidates_max": 2, "probe_candidates_max": 4},
    "minhash": {"scheme": "minhash", "threshold": 0.6},
    "exact": {"verify": "exact", "threshold": 0.7},
    "partial": {"scheme": "grouped", "threshold": 0.7},
    "equality of short texts": {"characters_min": 60, "threshold": 0.5},
    "records": {"scheme": "identical"},
}


def stories(count: int, seed: int) -> list[Document]:
    """Copies, edits, late documents, new versions, documents that are refused."""
    rng = random.Random(seed)
    bases = [" ".join(f"w{rng.randrange(3_000)}" for _ in range(rng.randint(2, 70))) for _ in range(count // 4)]
    out = []
    for n in range(count):
        text = rng.choice(bases[: 1 + n // 4])
        edit = rng.choice(["", "", f" more{n}"])
        time = n * 10.0 - rng.choice([0, 0, 0, 0, 400])
        out.append(Document(f"d{rng.randrange(count)}", rng.choice([text + edit] * 20 + [""]), time))
    return out


@pytest.mark.parametrize("name", quick_first([*CONFIGS], 4))
@pytest.mark.parametrize("seed", quick_first(range(2), 1))
@pytest.mark.parametrize("dated", quick_first([True, False], 1))
def test_canaries_change_no_answer_no_count_and_no_window(name: str, seed: int, dated: bool) -> None:
    """Pairs, verdicts, refusals, counters and stream time after each call, what is looked up and explained, and the
    saved window are equal byte by byte, with and without them; for documents with and without times."""
    config = Config(window_seconds=4_000.0, lateness_seconds=300.0, **CONFIGS[name])
    documents, rng = stories(1_500, seed), random.Random(seed)
    if not dated:
        documents = [one._replace(timestamp=None) for one in documents]
    for decides in (False, True):
        plain, watched = Deduplicator(config), Deduplicator(config, canaries_every=3)
        at = 0
        while at < len(documents):
            part, at = documents[at : at + rng.choice([1, 7, 90])], at + 90
            answers = [dedup.decide(part) if decides else dedup.process(part) for dedup in (plain, watched)]
            assert answers[0] == answers[1]
            assert seen(plain, part) == seen(watched, part)
            if rng.random() < 0.2:
                assert plain.remove(part[0].id) == watched.remove(part[0].id)
        assert plain.save() == watched.save()
        found = watched.recall()["canaries"]
        assert (found["faults"], found["alarm"]) == (0, False)
        assert (found["trials"] > 20) == (name != "records")


def seen(dedup: Deduplicator, part: list[Document]) -> list[Any]:
    """What can be read of a deduplicator after a call with some documents."""
    table = dedup.matcher.table
    looked_up = dedup.probe(part[:3])
    explained = [dedup.explain(part[0].id, other.id) for other in part[1:4]]
    ranked = dedup.nearest(part[:2], 3)
    known = dedup.counts(), table.stream_time, table.slot_end, table.oldest, table.posting_end, dedup.refused
    return [known, dedup.refusals, looked_up, explained, ranked, dedup.recall()["limits"]]


@pytest.mark.parametrize("decides", [False, True])
def test_canaries_of_tables_change_nothing_and_are_those_of_their_documents(decides: bool) -> None:
    """Rows with and without a text: what documents one by one lead to."""
    documents = [one._replace(timestamp=None) for one in stories(600, 5)]
    parts = [documents[at : at + 150] for at in range(0, 600, 150)]
    plain, watched, single = Deduplicator(), Deduplicator(canaries_every=3), Deduplicator(canaries_every=3)
    for part in parts:
        rows = [{"id": one.id, "text": None if n % 20 == 7 else one.text} for n, one in enumerate(part)]
        table = pyarrow.Table.from_pylist(rows)
        answers = [dedup.decide_table(table) if decides else dedup.process_table(table) for dedup in (plain, watched)]
        assert answers[0] == answers[1]
        given = [one for n, one in enumerate(part) if n % 20 != 7]
        single.decide(given) if decides else single.process(given)
    assert plain.save() == watched.save()
    found = watched.recall()["canaries"]
    assert found["trials"] > 20
    assert found["faults"] == 0
    assert found["documents"] == single.recall()["canaries"]["documents"]


@pytest.mark.long
def test_causes_are_counted_and_are_no_faults() -> None:
    """A limit, an eviction and a removal explain a miss."""
    config = Config(bucket_candidates_max=1, probe_candidates_max=1, threshold=0.6)
    dedup, rng = Deduplicator(config, canaries_every=2), random.Random(1)
    base = [f"w{n}" for n in range(40)]
    for n in range(0, 2_000, 10):
        part = []
        for m in range(n, n + 10):
            words = list(base)
            for row in rng.sample(range(40), 2):
                words[row] = f"x{rng.randrange(10**6)}"
            part.append(Document(f"d{m}", " ".join(words)))
        dedup.process(part)
        for one in part[:4]:
            dedup.remove(one.id)
    found = dedup.recall()["canaries"]
    assert found["faults"] == 0
    assert not found["alarm"]
    assert found["outcomes"]["truncated"] > 50
    assert 0 < found["found"] < found["trials"] - found["outcomes"]["chance"]
    assert found["outcomes"]["removed"] > 0


def test_late_originals_are_counted_and_not_looked_up() -> None:
    """A document whose time has left the window is late; one that many others have pushed out is not."""
    dedup = Deduplicator(Config(window_seconds=100.0, lateness_seconds=10.0), canaries_every=1)
    dedup.process(Document(f"d{n}", f"words of text {n}", 1_000.0 + n - 500 * (n % 5 == 4)) for n in range(50))
    found = dedup.recall()
    assert found["canaries"]["outcomes"]["late"] == found["limits"]["late"] == 10
    assert found["canaries"]["faults"] == 0
    small = Deduplicator(Config(window_documents=20), canaries_every=1)
    small.process(Document(f"d{n}", f"words of text {n}") for n in range(50))
    assert small.recall()["canaries"]["outcomes"]["late"] == 0


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", quick_first(range(3), 1))
def test_a_fault_is_noticed(fault: str, seed: int) -> None:
    """Within 20,000 documents after it begins; before, nothing is, and each copy that is a pair is found."""
    world = World(seed)
    world.run(12_000)
    looks = world.canaries.looks
    assert looks.outcomes[FAULT] == 0
    assert 0 < looks.found.total() == looks.trials.total() - looks.outcomes[CHANCE]
    FAULTS[fault](world)
    assert world.until_noticed(NOTICED_WITHIN) is not None


def test_an_edited_copy_has_the_similarity_that_it_states() -> None:
    """The fraction of equal rows of two sketches estimates it; it is at least the one asked for, by one element."""
    config, draws = Config(sketch_bits=16), Draws(1)
    document = Document("a", " ".join(f"word{n}" for n in range(400)))
    batch = Signer(config).sign([document]).batch
    for similarity in similarities(config):
        copies = edited([document] * 40, joined([batch.evidence] * 40), config, [similarity] * 40, draws)
        assert copies.exist.all()
        assert len(set(copies.similarities)) == 1
        assert similarity <= copies.similarities[0] < similarity + 0.002
        rows = copies.evidence.fixed.view(np.uint16)
        agree = float((rows == batch.fixed.copy().view(np.uint16)).mean())
        assert abs(agree - similarity) < 0.03


def test_a_small_set_is_copied_whole_and_a_text_for_equality_has_no_copy() -> None:
    """Below 20 elements an edit would be coarse; what is no set of elements cannot be edited."""
    config, draws = Config(), Draws(1)
    document = Document("a", "some text")
    batch = Signer(config).sign([document]).batch
    copy = edited([document], batch.evidence, config, [0.8], draws)
    assert copy.exist[0]
    assert copy.similarities[0] == 1
    assert np.array_equal(copy.evidence.fixed, batch.fixed)
    equal, long = Config(characters_min=60), Document("b", "some text " + "of many words that are all different " * 3)
    signed = Signer(equal).sign([document, long]).batch
    assert edited([document, long], signed.evidence, equal, [0.8, 0.8], draws).exist.tolist() == [False, True]


@pytest.mark.parametrize("chance", quick_first([0.1, 0.02, 0.3], 1))
def test_the_alarm_keeps_its_level_and_notices_an_excess_that_begins_late(chance: float) -> None:
    """At a level of .05, at most a twentieth of healthy streams ring at any time; lost finds are noticed."""
    rng, streams = np.random.default_rng(3), 200
    rung = 0
    for _ in range(streams):
        alarm = RateAlarm(0.05)
        for missed in (rng.random(400) < chance).tolist():
            alarm.add(is_missed=missed, chance=chance)
        rung += alarm.rings
    assert rung <= 0.05 * streams + 3 * np.sqrt(0.05 * streams)
    late = RateAlarm(LEVEL)
    for missed in (rng.random(2_000) < chance).tolist():
        late.add(is_missed=missed, chance=chance)
    assert not late.rings
    for missed in (rng.random(400) < chance + 0.3 * (1 - chance)).tolist():
        late.add(is_missed=missed, chance=chance)
    assert late.rings


def test_a_short_text_is_looked_up_by_the_keys_that_it_has_added() -> None:
    """A part of a text asks for more: for runs of words, which it does not add."""
    rng = random.Random(5)
    known = ["".join(rng.choices("abcdefghij", k=8)) for _ in range(3_000)]
    dedup = Deduplicator(Config(novelty="words"), canaries_every=2)
    dedup.process(Document(str(n), " ".join(rng.choices(known, k=12))) for n in range(200))
    found = dedup.recall()["canaries"]
    assert found["trials"] > 10
    assert found["faults"] == 0
