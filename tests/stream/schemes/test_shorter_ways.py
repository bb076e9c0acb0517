"""What is done in a shorter way (``plain``, ``common_in``, ``OneCall``) is what is done with documents and evidence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from neardup import Config, Document
from neardup.pairs.pair_rule import Matches
from neardup.pairs.pipeline import Matcher, Slice, match_step
from neardup.pairs.signing import Signer
from neardup.schemes.interface import nothing
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts import decider, deciding

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "minds", "it"]
SETTINGS: list[dict[str, Any]] = [
    {"scheme": "one_permutation"}, {"scheme": "one_permutation", "shingles": "words"},
    {"scheme": "one_permutation", "sketch_bits": 16}, {"scheme": "one_permutation", "fold": ("case",)},
    {"scheme": "one_permutation", "novelty": "words"}, {"scheme": "minhash"}, {"scheme": "permutation"},
    {"verify": "exact"}, {"verify": "exact", "novelty": "numbers", "scheme_options": {"shingle_bytes": 8}},
    {"verify": "exact", "measure": "containment", "novelty": "words"},
]  # fmt: skip


def texts(count: int) -> list[str]:
    """Prose of many lengths, one of them great, with capitals and runs of blanks; each fifth text repeats one with a
    word changed."""
    rng, out = random.Random(3), list[str]()
    for n in range(count):
        words = rng.choices(WORDS, k=10_000 if n == 250 else rng.randint(3, 400))
        if n % 5 == 4:
            words = [*out[n - 1].split(" ")[:-1], "Other"]
        out.append("  ".join(words).upper() if n % 3 == 0 else " ".join(words))
    return out


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_has_a_shorter_way_only_with_what_it_shortens(scheme: str) -> None:
    """A row that takes another ``sign`` or ``common`` than the row that it is made of takes its shorter way, too."""
    row, whole = SCHEMES[scheme], SCHEMES["one_permutation"]
    assert row.plain is nothing or row.sign is whole.sign
    assert row.common_in is nothing or row.common is whole.common


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_plain_texts_are_signed_as_documents(settings: dict[str, Any]) -> None:
    """Sketches, contents and counts; a plan that makes more of a text has no shorter way."""
    config, given = Config(**settings), texts(40)
    row = SCHEMES[config.scheme]
    plain = row.plain(config.plan)
    makes_more = "novelty" in settings or "verify" in settings
    assert (plain is None) == (makes_more or config.scheme != "one_permutation")
    if plain is not None:
        signing = row.sign(row, [Document("", text) for text in given], config.plan)
        signed = Signer(config).sign([Document("", text) for text in given])
        assert signed.sheet is not None
        assert signed.sheet.fewest == min(row.sign(row, [Document("", text)], config.plan).features for text in given)
        assert np.array_equal(signed.batch.evidence.fixed, signing.evidence.fixed)
        assert np.array_equal(signed.batch.contents, signing.contents)
        assert (signed.shingles, signed.characters) == (signing.features, signing.characters)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_documents_of_a_table_are_compared_where_they_are(settings: dict[str, Any]) -> None:
    """With ids so long that many sketches lie on two pages of the table."""
    config, given = Config(**settings), texts(300)
    row, matcher, signer = SCHEMES[config.scheme], Matcher(config), Signer(config)
    batch = signer.sign([Document(str(n).zfill(900), text) for n, text in enumerate(given)]).batch
    match_step(matcher, batch)
    slots, items = np.arange(300), np.arange(300, dtype=np.int32) // 5 * 5
    found = row.common_in(matcher.table, slots, batch.evidence, items, config.plan)
    assert found is not None
    expected = row.common(batch.evidence.select(items), matcher.evidence(slots), config.plan)
    if config.verify == "exact":  # bands are counted of pairs alone
        is_pair = expected.similarity >= config.tuning.score_min
        expected = expected._replace(keys=np.where(is_pair, expected.keys, 1))
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    assert 0 < np.count_nonzero(found.similarity == 1) < 300


@pytest.mark.parametrize("novelty", ["off", "words"])
def test_sketches_that_follow_from_exact_evidence_are_made_when_they_are_read(novelty: str) -> None:
    """A table stores those of short texts alone, which are drawn; evidence that is read is what was signed."""
    given = [" ".join(text.split())[: 20 + 40 * (n % 3)].strip() for n, text in enumerate(texts(300))]
    config = Config(verify="exact", novelty=novelty, characters_min=50)
    batch = Signer(config).sign([Document(str(n), text) for n, text in enumerate(given)]).batch
    matcher = Matcher(config, candidates=True)
    found = match_step(matcher, batch)
    sides = (batch.evidence.select(np.array([int(id_) for id_ in ids])) for ids in (found.newer, found.older))
    expected = SCHEMES[config.scheme].common(*sides, config.plan)  # also of candidates that are no pairs
    assert np.array_equal(found.buckets, expected.keys)
    assert (found.buckets[found.similarity < config.tuning.score_min] > 1).any()
    slots, is_short = np.arange(batch.size), np.array([len(text) < 50 for text in given])
    assert np.array_equal(matcher.table.is_bare(slots), ~is_short)
    assert 0 < is_short.sum() < batch.size
    for one, other in zip(matcher.evidence(slots[::-1]), batch.evidence.select(slots[::-1]), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("more", [{}, {"buckets_shared_min": 2}, {"window_seconds": 60}, {"bucket_candidates_max": 9}])
@pytest.mark.parametrize("candidates", [False, True])
def test_pairs_of_one_call_are_those_of_candidates_one_by_one(more: dict[str, Any], candidates: bool) -> None:
    """With ids so long that sketches lie on two pages, times in any order, copies, and probes that a limit cuts."""
    config, rng = Config(**more), random.Random(5)
    signer, whole, parted = Signer(config), *(Matcher(config, candidates=candidates) for _ in range(2))
    parted._once = None
    given, found = texts(300), list[Matches]()
    for call in range(100):
        documents = [
            Document(f"{call:0900}/{n}", rng.choice(given), rng.choice([None, 90 * rng.random()]))
            for n in range(rng.choice([1, 9]))
        ]
        batch = signer.sign(documents).batch
        one, other = match_step(whole, batch), match_step(parted, batch)
        for column, expected in zip(one, other, strict=True):
            assert np.array_equal(column, expected) if isinstance(expected, np.ndarray) else column == expected
        found.append(one)
    assert whole.table.counts() == parted.table.counts()
    similarities = np.concatenate([one.similarity for one in found])
    assert 0 < np.count_nonzero(similarities < 1) < len(similarities)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"novelty": "words"}, {"verify": "exact", "novelty": "words", "characters_min": 60}, {"scheme": "prefix"},
        {"scheme": "passages"}, {"window_seconds": 60}, {"bucket_candidates_max": 9},
        {"measure": "jaccard_idf", "verify": "exact"},
    ],
    ids=str,
)  # fmt: skip
def test_verdicts_of_one_call_are_those_of_slices(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    """Of what decides one document after the other, and of what sees the pairs; a document that meets none needs no
    second call, whatever the scheme, unless the stream weighs its words."""
    config, rng, given = Config(**settings), random.Random(8), texts(90)
    signer, calls = Signer(config), [0]
    decided: list[list[Any]] = [[], []]
    real = deciding.decide_arrivals

    def counted(*given: Any) -> Any:
        calls[0] += 1
        return real(*given)

    monkeypatch.setattr(deciding, "decide_arrivals", counted)
    documents = [
        Document(str(n % 70), rng.choice([text, text, given[0]]), rng.choice([None, 90 * rng.random()]))
        for n, text in enumerate(given)
    ]
    for ahead, out in zip((decider.AHEAD_MAX, 0), decided, strict=True):
        monkeypatch.setattr(decider, "AHEAD_MAX", ahead)
        calls[0], one = 0, decider.Decider(Matcher(config))
        for document in documents:
            signed, parts = signer.sign([document]), list[Slice]()
            made = one.decide_columns(np.ones(signed.batch.size, np.bool_), signed, parts.append, named=True)
            pairs = [(part.end, part.probed.tolist(), *part.matches.pairs()) for part in parts]
            out.append((*(column.tolist() for column in made.verdicts), made.ids, pairs))
            if len(out) == 1:
                assert calls[0] == (ahead == 0 or config.measure == "jaccard_idf")
        out.append(one.decisions.counts)
    assert decided[0] == decided[1]
    assert any(made[-1][0][2:] for made in decided[0][:-1]), "no pair"
