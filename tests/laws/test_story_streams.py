"""Generated streams with the faults of real ones: floods from a template, drifting copies, a story that never ends."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from neardup import Config, Deduplicator, Document

HOUR = 3600.0
WORDS = 150


def flood(count: int, drifts: bool, seed: int = 11) -> list[Document]:
    """Near-copies of one text. Each is the first text with two other words; or, if it drifts, a random earlier one with
    four other words."""
    rng = random.Random(seed)
    texts = [[f"word{rng.randrange(10**6)}" for _ in range(WORDS)]]
    while len(texts) < count:
        words = list(rng.choice(texts) if drifts else texts[0])
        for place in rng.sample(range(WORDS), 4 if drifts else 2):
            words[place] = f"other{rng.randrange(10**6)}"
        texts.append(words)
    return [Document(str(n), " ".join(words)) for n, words in enumerate(texts)]


def originals(documents: list[Document], **settings: object) -> int:
    """How many stories the documents become."""
    verdicts = Deduplicator(Config.model_validate(settings)).decide(documents)
    counts = Counter(verdict.status for verdict in verdicts)
    assert counts.total() == len(documents)
    return counts["original"]


@pytest.mark.long
def test_near_copies_of_one_text_are_one_story() -> None:
    """Most pairs are among documents that are no contents of the story; full buckets hide the rest."""
    documents = flood(800, drifts=False)
    assert originals(documents, verify="exact") == 1
    assert originals(documents) <= 3


@pytest.mark.long
def test_a_flood_with_corrections_of_its_first_document_is_one_story() -> None:
    """The first id comes back with two other words, or with the text that it has already."""
    documents, said = flood(800, drifts=False), 0
    expected = ["original"] + ["duplicate"] * 799
    for n in range(20, 800, 20):
        said = n if n % 40 else said
        documents[n] = Document("0", documents[said].text)
        expected[n] = "update" if n % 40 else "unchanged"
    for settings in ({"verify": "exact"}, {"scheme": "prefix"}):
        verdicts = list(Deduplicator(Config.model_validate(settings)).decide(documents))
        assert [verdict.status for verdict in verdicts] == expected
        assert {verdict.cluster for verdict in verdicts} == {0}


@pytest.mark.long
def test_copies_that_drift_are_split_as_by_the_rule_with_every_pair_known() -> None:
    """``prefix`` misses no pair; with sketches the number of stories differs by at most 10 percent."""
    documents = flood(800, drifts=True)
    expected = originals(documents, scheme="prefix")
    assert expected > 10
    assert abs(originals(documents, verify="exact") - expected) <= 0.1 * expected


@pytest.mark.parametrize("scheme", ["one_permutation", "prefix"])
def test_a_story_that_is_scraped_for_a_week_is_one(scheme: str) -> None:
    """A page comes every 6 hours with another word; the window is 48 hours. It ends when nothing comes for longer."""
    text = flood(1, drifts=False)[0].text
    times = [6 * HOUR * n for n in range(4 * 7)] + [9 * 24 * HOUR]
    documents = [Document(f"page{n}", f"{text} scraped{n}", time) for n, time in enumerate(times)]
    dedup = Deduplicator(Config(scheme=scheme, window_seconds=48 * HOUR))
    found = [verdict for document in documents for verdict in dedup.decide([document])]
    assert [verdict.cluster for verdict in found] == [0] * 28 + [28]


@pytest.mark.parametrize("settings", [{"threshold": 0.7}, {"threshold": 0.45, "novelty": "words", "verify": "exact"}])
def test_what_is_still_there_is_no_original_again_whatever_is_removed(settings: dict[str, object]) -> None:
    """Reports, near-copies and updates come by new and known ids, and are removed at random: a text of another id that
    has not been removed never begins a story."""
    compared = 0
    for seed in range(40):
        rng, there = random.Random(seed), dict[str, str]()
        vocabulary = [f"{rng.choice('bdfgklmnprst')}{rng.choice('aeiou')}{n}s" for n in range(300)]
        reports = [" ".join(rng.choices(vocabulary, k=60)) for _ in range(4)]
        dedup = Deduplicator(Config.model_validate(settings))
        for n in range(60):
            if there and rng.random() < 0.3:
                there.pop(removed := rng.choice(sorted(there)))
                dedup.remove(removed)
                continue
            text = rng.choice(reports)
            if (kind := rng.random()) < 0.3:
                text = text.replace(rng.choice(text.split()), rng.choice(vocabulary))
            elif kind < 0.6:
                text += f" corrected toll {rng.randrange(99)} dead {' '.join(rng.choices(vocabulary[:50], k=15))}"
            id_ = f"d{n}" if rng.random() < 0.8 or not there else rng.choice(sorted(there))
            is_there = any(text == other for one, other in there.items() if one != id_)
            [verdict] = dedup.decide([Document(id_, text, float(n))])
            compared += is_there
            assert not (is_there and verdict.status == "original"), (seed, n)
            there[id_] = text
    assert compared > 200
