"""The scheme ``passages``: its promise, and what its pairs say."""

from __future__ import annotations

import random

import numpy as np
import orjson
import pytest
from benchmarks.recall.passages import SCRIPTS, prose, sharing, signed
from quick_parameters import quick_first

from neardup import Config, ConfigError, Deduplicator, Document, Signer
from neardup.pairs.json_lines import encode_matches
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.rows import SCHEMES


@pytest.mark.parametrize("shape", quick_first([((40, 150),), ((20, 60),), ((30, 30),)], 1))
@pytest.mark.parametrize("script", quick_first(SCRIPTS, 2))
def test_texts_that_share_a_run_share_a_key(script: str, shape: tuple[int, int]) -> None:
    """Of ``passage_characters``, wherever it stands, also where it repeats itself."""
    config = Config(scheme="passages", scheme_options={"gram": shape[0], "characters": shape[1]})
    rng = random.Random(f"{script} {shape}")
    pairs = [sharing(rng, SCRIPTS[script], shape[1]) for _ in range(200)]
    sides = [signed(config, side) for side in zip(*pairs, strict=True)]
    assert SCHEMES["passages"].common(sides[0], sides[1], config.plan).keys.min() > 0


def test_a_run_is_a_candidate_unless_many_newer_texts_hold_it() -> None:
    """The probe meets the newest ``bucket_candidates_max`` and the limit is counted; no limit of the probe ends it."""
    rng = random.Random(1)
    run = prose(rng, "az", 400)
    texts = [Document(str(i), f"{prose(rng, 'az', 300)} {run} {prose(rng, 'az', 300)}") for i in range(80)]
    matcher = Matcher(Config(scheme="passages"), candidates=True)
    matches = match_step(matcher, Signer(matcher.config).sign(texts).batch)
    met = [matches.newer.count(str(i)) for i in range(80)]
    assert met[:64] == list(range(64))
    assert min(met[64:]) >= 64
    assert matcher.table.counts()["truncated"] > 0


def test_a_pair_says_which_part_of_each_text_it_shares_and_where() -> None:
    """In the order of the event times, also if the newer text arrives first."""
    rng = random.Random(2)
    report = prose(rng, "az", 1500)
    article = f"{prose(rng, 'az', 400)} {report} {prose(rng, 'az', 1100)}"
    at = article.index(report)
    matcher = Matcher(Config(scheme="passages"))
    documents = [Document("article", article, 2.0), Document("report", report, 1.0)]
    matches = match_step(matcher, Signer(matcher.config).sign(documents).batch)
    line = orjson.loads(encode_matches(matches))
    assert (line["older"], line["newer"]) == ("report", "article")
    assert line["similarity"] == line["older_fraction"] > 0.9
    assert line["newer_fraction"] == pytest.approx(0.5, abs=0.05)
    (passage,) = line["passages"]
    assert passage["newer"][0] - passage["older"][0] == at
    assert passage["older"][1] - passage["older"][0] > 1400


def test_a_copy_shares_the_whole_text() -> None:
    """Its fractions are 1, and its passage is all of it, next to a pair that is none."""
    text = prose(random.Random(3), "az", 900)
    matcher = Matcher(Config(scheme="passages"))
    documents = [Document("a", text), Document("b", text.upper()), Document("c", text[:600])]
    matches = match_step(matcher, Signer(matcher.config).sign(documents).batch)
    first, second = map(orjson.loads, encode_matches(matches).splitlines())
    assert (first["similarity"], first["older_fraction"], first["newer_fraction"]) == (1.0, 1.0, 1.0)
    assert first["passages"] == [{"older": [0, len(text)], "newer": [0, len(text)]}]
    assert second["older_fraction"] < second["similarity"] == second["newer_fraction"] < 1


def test_the_evidence_of_a_text_is_its_length_and_eight_bytes_a_hash() -> None:
    """About 2 in 112 characters have one."""
    config = Config(scheme="passages")
    text = prose(random.Random(4), "az", 20_000)
    evidence = signed(config, [text])
    assert evidence.fixed.view("<u4").tolist() == [[len(text)]]
    assert evidence.starts[-1] / 8 == pytest.approx(len(text) * 2 / 112, rel=0.1)


def test_a_passage_shorter_than_its_gram_is_refused() -> None:
    """With the rule and the remedy."""
    with pytest.raises(ConfigError, match=r"passages:characters=30 is below gram=40.*set gram"):
        Config(scheme="passages:characters=30")


@pytest.mark.parametrize("script", quick_first(SCRIPTS, 2))
def test_a_run_outside_of_templates_shares_a_key_and_a_template_none(script: str) -> None:
    """Wherever templates stand around it; and texts of templates alone have no key."""
    rng = random.Random(script)
    letters = SCRIPTS[script]
    templates = tuple(prose(rng, letters, rng.randint(60, 900)) for _ in range(5))
    config = Config(scheme="passages", scheme_options={"templates": templates})
    pairs = [sharing(rng, letters, 150) for _ in range(200)]
    sides = [[f"{rng.choice(templates)}\n{text} {rng.choice(templates)}" for text in side] for side in
             zip(*pairs, strict=True)]  # fmt: skip
    a, b = (signed(config, side) for side in sides)
    assert SCHEMES["passages"].common(a, b, config.plan).keys.min() > 0
    assert np.diff(SCHEMES["passages"].keys(signed(config, templates), config.plan).starts).tolist() == [0] * 5
    apart = [[f"{template} {prose(rng, letters, 700)}" for template in templates] for _ in range(2)]
    found = SCHEMES["passages"].common(signed(config, apart[0]), signed(config, apart[1]), config.plan)
    assert found.similarity.max() < 0.1


def test_templates_count_in_no_fraction() -> None:
    """A short report within a long template is wholly in an article without one; without the list it is a tenth."""
    rng = random.Random(8)
    menu, report = prose(rng, "az", 9_000), prose(rng, "az", 1_000)
    sides = [[f"{menu} {report}"], [f"{report} {prose(rng, 'az', 4_000)}"]]
    fractions = []
    for templates in (None, (menu,)):
        config = Config(scheme="passages", scheme_options={"templates": templates})
        a, b = (signed(config, side) for side in sides)
        fractions.append(SCHEMES["passages"].shared(a, b, config.plan).fractions[0].tolist())
    assert fractions == [pytest.approx([0.1, 0.2], abs=0.03), pytest.approx([0.95, 0.2], abs=0.06)]


@pytest.mark.parametrize(
    ("templates", "message"),
    [((), "passages:templates is empty"), (("x" * 40, "short"), "template 2 has 5 characters, but .* gram=40")],
)
def test_templates_that_have_no_hash_are_refused(templates: tuple[str, ...], message: str) -> None:
    """With the rule and the remedy."""
    with pytest.raises(ConfigError, match=f"{message}.*leave it out"):
        Config(scheme="passages", scheme_options={"templates": templates})


def test_the_threshold_of_passages_is_a_third_unless_it_is_given() -> None:
    """A given value counts, also that of other schemes."""
    assert Config(scheme="passages").tuning.score_min == 0.3
    assert Config(scheme="passages", threshold=0.8).tuning.score_min == 0.8
    assert Config(scheme="passages").bucket_candidates_max == 64
    assert Config().threshold == 0.8


@pytest.mark.long
def test_a_pair_of_random_texts_is_estimated_without_bias() -> None:
    """The estimate of a shared run is right on average, from the certain length on."""
    rng = random.Random(5)
    for characters in (150, 400):
        runs = [prose(rng, "az", characters) for _ in range(300)]
        sides = [[f"{prose(rng, 'az', 900)} {run} {prose(rng, 'az', 900)}" for run in runs] for _ in range(2)]
        config = Config(scheme="passages")
        a, b = (signed(config, side) for side in sides)
        fractions = SCHEMES["passages"].shared(a, b, config.plan).fractions
        shared = fractions[:, 0] * [len(text) for text in sides[0]] / [len(run) for run in runs]
        assert np.mean(shared) == pytest.approx(1.0, abs=0.06)


def test_pairs_of_schemes_that_do_not_know_passages_have_no_such_keys() -> None:
    """Their lines stay as they were."""
    matcher = Matcher(Config())
    text = "one text that is long enough for a pair of near-duplicates"
    matches = match_step(matcher, Signer(matcher.config).sign([Document("a", text), Document("b", text)]).batch)
    assert matches.shared is None
    assert set(orjson.loads(encode_matches(matches))) == {"older", "newer", "similarity", "buckets"}


def test_a_text_may_be_found_in_parts_of_a_stream() -> None:
    """The library returns the pairs with the fraction of the shorter text as similarity."""
    rng = random.Random(6)
    body = prose(rng, "az", 1200)
    dedup = Deduplicator(Config(scheme="passages"))
    dedup.process([Document("long", prose(rng, "az", 2000) + body)])
    (pair,) = dedup.process([Document("short", body)])
    assert pair.similarity == pytest.approx(0.97, abs=0.04)


def test_what_shares_a_passage_is_related_and_no_duplicate() -> None:
    """The relation is that of the newer text; a verdict drops copies alone."""
    rng = random.Random(7)
    body, others = prose(rng, "az", 1500), [prose(rng, "az", 1000) for _ in range(4)]
    texts = {"wire": body, "page": f"{others[0]} {body} {others[1]}", "stub": body[:700], "copy": body,
             "mixed": f"{body[:700]} {others[2]} {others[3]}"}  # fmt: skip
    documents = [Document(id_, text) for id_, text in texts.items()]
    matcher = Matcher(Config(scheme="passages", threshold=0.2))
    lines = encode_matches(match_step(matcher, Signer(matcher.config).sign(documents).batch)).splitlines()
    found = {(line["older"], line["newer"]): line["relation"] for line in map(orjson.loads, lines)}
    assert found["wire", "page"] == "contains"
    assert found["page", "stub"] == found["wire", "copy"] == "part_of"
    assert found["page", "mixed"] == "shares"
    statuses = {verdict.id: verdict.status for verdict in Deduplicator(matcher.config).decide(documents)}
    assert statuses == dict.fromkeys(texts, "original") | {"copy": "duplicate"}
