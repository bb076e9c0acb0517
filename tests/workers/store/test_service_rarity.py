"""``measure = "jaccard_idf"`` in the service: counts outlive the window, so a restart changes no answer."""

import random

import pytest
from service_world import NOW, edited, opened

from neardup import Config, Deduplicator, Document
from neardup.stories.verdicts.fields import rounded
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra.audit import Noted
from neardup_workers.outside.store.log import Log, StoreFull
from neardup_workers.outside.store.salvage import salvage

ASKED = {"measure": "jaccard_idf", "verify": "exact", "shingles": "words", "k": 1, "threshold": 0.3}
MAKERS, COLOURS = ("sony", "bose", "linksys", "canon"), ("black", "silver", "white")


def offers(rng, size, first=0):
    """Offers of few models, so that copies of each are in any window; some are sent with the id of another one."""
    texts = [
        f"{rng.choice(MAKERS)} {rng.choice(COLOURS)} camera {rng.choice(['new', 'used'])} x{rng.randrange(60)}z"
        for _ in range(size)
    ]
    ids = [f"d{rng.randrange(first + n + 1) if rng.random() < 0.1 else first + n}" for n in range(size)]
    return [Document(id_, text, NOW + first + n) for n, (id_, text) in enumerate(zip(ids, texts, strict=True))]


def weights_of(keeper):
    counts, of_count = keeper.matcher.rarity.weights
    return counts.tolist(), of_count.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_at_any_place_changes_no_answer(seed, tmp_path):
    """The window is shorter than what the counts remember; steps end epochs in their middle, at their end, or twice."""
    rng = random.Random(seed)
    settings = ServeSettings(
        **ASKED, window_documents=rng.choice((5, 40, 150, 2000)), window_seconds=rng.choice((50.0, 400.0, 5000.0)),
        lateness_seconds=60.0, history_seconds=rng.choice((0.0, 90.0)),
    )  # fmt: skip
    steady, killed = opened(tmp_path / "steady", settings), opened(tmp_path / "killed", settings)
    sent, duplicates = 0, 0
    while sent < 500:
        documents = offers(rng, rng.choice((1, 2, 7, 63, 64, 65, 150)), sent)
        sent += len(documents)
        answers = steady.check(documents)
        duplicates += sum(answer.verdict["status"] == "duplicate" for answer in answers)
        if rng.random() < 0.3:  # an attempt that is undone
            follow = killed.log.follow
            killed.log.follow = lambda *_: (_ for _ in ()).throw(StoreFull("full"))
            with pytest.raises(StoreFull):
                killed.check(documents)
            killed.log.follow = follow
        assert killed.check(documents) == answers
        a, b, removed = (f"d{rng.randrange(max(0, sent - 60), sent)}" for _ in range(3))
        same, noted = rng.random() < 0.5, Noted(NOW, "k", None)
        said = [keeper.judge([a, b], None, same=same, replace=True, noted=noted) for keeper in (steady, killed)]
        assert said[0] == said[1]
        assert killed.remove(removed) == steady.remove(removed)
        if rng.random() < 0.6:
            killed.log.close()
            killed = opened(tmp_path / "killed", settings)
        assert weights_of(killed) == weights_of(steady)
        assert killed.probe(documents[:2], 3) == steady.probe(documents[:2], 3)
        assert killed.why(a, b).similarity == steady.why(a, b).similarity
    assert 50 < duplicates < 490
    steady.log.close()
    killed.log.close()


def test_verdicts_are_those_of_the_library(tmp_path):
    """With a restart after each step, at the end of an epoch."""
    settings, documents = {**ASKED, "window_documents": 100}, offers(random.Random(1), 640)
    expected = Deduplicator(Config(**settings)).decide(documents)
    found = []
    for first in range(0, 640, 64):
        keeper = opened(tmp_path, ServeSettings(**settings))
        found += keeper.check(documents[first : first + 64])
        keeper.log.close()
    verdicts = [(one.verdict["status"], one.verdict["duplicate_of"], one.verdict["similarity"]) for one in found]
    assert verdicts == [(one.status, one.duplicate_of, one.similarity and rounded(one.similarity)) for one in expected]


def test_a_store_that_another_measure_made_counts_what_it_holds(tmp_path):
    """And so does one that had counts before: what it held meanwhile is not lost, nor counted twice."""
    rng = random.Random(3)
    weighted, plain = (
        ServeSettings(verify="exact", shingles="tokens", threshold=0.3, measure=measure, window_documents=70)
        for measure in ("jaccard_idf", "jaccard")
    )
    for first, settings in ((0, plain), (100, weighted), (200, plain), (300, weighted)):
        keeper = opened(tmp_path, settings)
        keeper.check([one._replace(text="", tokens=sorted(map(ord, set(one.text)))) for one in offers(rng, 100, first)])
        keeper.log.close()
    before = weights_of(keeper)
    keeper = opened(tmp_path, weighted)
    assert weights_of(keeper) == before
    assert keeper.matcher.rarity._documents == 70 + 100 + 70 + 100
    keeper.log.close()


@pytest.mark.parametrize("novelty", ["off", "words"])
def test_damaged_counts_are_refused_and_salvage_leaves_them_out(novelty, tmp_path):
    """Sound ones go to the copy, and rows that lost their evidence count nothing."""
    settings = ServeSettings(**ASKED, novelty=novelty, window_documents=70)
    keeper = opened(tmp_path, settings)
    for size in (200, 50):  # the window is that of places from 180 on, and the stored counts are of those before 200
        keeper.check(offers(random.Random(5), size))
    keeper.log.close()
    with edited(keeper.log.path) as connection:
        connection.execute("UPDATE documents SET evidence = x'00' WHERE place >= 230")
    salvage(tmp_path, settings.plan.width)
    keeper = opened(tmp_path, settings)
    assert keeper.matcher.rarity._documents == 230
    keeper.log.close()
    with edited(keeper.log.path) as connection:
        connection.execute("UPDATE rarity SET counts = zeroblob(9)")
    fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
    log = Log(tmp_path, fingerprints)
    with pytest.raises(Failure, match=r"is damaged: the counts of rarity have .*--salvage"):
        list(log.rows())
    log.close()
    salvage(tmp_path, settings.plan.width)
    keeper = opened(tmp_path, settings)
    assert keeper.matcher.rarity._documents == 50
    keeper.log.close()
