"""Verdicts say what a document shares with an earlier one, and a setting makes parts duplicates."""

from __future__ import annotations

import random

import pytest
from benchmarks.recall.passages import prose

from neardup import Config, ConfigError, Deduplicator, Document
from neardup.pairs.json_lines import shared_values
from neardup.pairs.pipeline import match_step


def texts(seed: int) -> dict[str, str]:
    """A report; an article around it; its first half; its second half within more text; and a text of its own."""
    rng = random.Random(seed)
    report = prose(rng, "az", 1600)
    return {
        "report": report,
        "article": f"{prose(rng, 'az', 1400)} {report} {prose(rng, 'az', 1400)}",
        "stub": report[:800],
        "mixed": f"{report[800:]} {prose(rng, 'az', 1900)}",
        "other": prose(rng, "az", 1200),
    }


def documents(seed: int, *names: str) -> list[Document]:
    """Some of the texts, in this order."""
    found = texts(seed)
    return [Document(name, found[name]) for name in names]


def test_a_verdict_says_what_the_document_is_to_an_earlier_one() -> None:
    """It contains the report, is a part of it, or shares something with it; the verdict is original all the same."""
    config = Config(scheme="passages")
    verdicts = Deduplicator(config).decide(documents(1, "report", "article", "other", "stub", "mixed"))
    assert {verdict.status for verdict in verdicts} == {"original"}
    found = {verdict.id: verdict.relation for verdict in verdicts}
    assert found["report"] is None
    assert found["other"] is None
    kinds = {id_: one.kind for id_, one in found.items() if one is not None}
    assert kinds == {"article": "contains", "stub": "part_of", "mixed": "shares"}
    article = found["article"]
    assert article is not None
    assert article.id == "report"
    (passage,) = article.passages
    assert passage[2] - passage[0] == texts(1)["article"].index(texts(1)["report"])


def test_what_a_document_is_part_of_comes_before_what_it_contains() -> None:
    """The stub is all of the report's half and the report stands in the article: the article is part of nothing."""
    verdicts = Deduplicator(Config(scheme="passages")).decide(documents(2, "stub", "article", "report"))
    kinds = [None if one.relation is None else (one.relation.kind, one.relation.id) for one in verdicts]
    assert kinds == [None, ("contains", "stub"), ("part_of", "article")]


@pytest.mark.parametrize("dates", [(1.0, 2.0), (2.0, 1.0), (None, None)])
def test_a_relation_follows_the_order_of_arrival(dates: tuple[float | None, float | None]) -> None:
    """Whatever the dates are; a pair follows the dates."""
    both = [one._replace(timestamp=date) for one, date in zip(documents(3, "article", "stub"), dates, strict=True)]
    relation = Deduplicator(Config(scheme="passages")).decide(both)[1].relation
    assert relation is not None
    assert (relation.kind, relation.id) == ("part_of", "article")
    dedup = Deduplicator(Config(scheme="passages"))
    matches = match_step(dedup.matcher, dedup.signer.sign(both).batch)
    (pair,) = shared_values(matches)
    assert pair["relation"] == ("contains" if dates == (2.0, 1.0) else "part_of")
    ends = [(span["older"], span["newer"])[:: -1 if dates == (2.0, 1.0) else 1] for span in pair["passages"]]
    assert [(list(span[:2]), list(span[2:])) for span in relation.passages] == ends


def test_a_part_is_a_duplicate_by_a_setting() -> None:
    """From its part on; what contains or shares is kept, and each dropped text stands in one that is kept."""
    given = documents(4, "report", "article", "stub", "mixed", "other")
    for least, dropped in ((None, []), (0.7, ["stub"]), (0.95, [])):
        verdicts = Deduplicator(Config(scheme="passages", scheme_options={"part_min": least})).decide(given)
        assert [verdict.id for verdict in verdicts if verdict.status == "duplicate"] == dropped
    (verdict,) = [one for one in Deduplicator(Config(scheme="passages:part_min=0.7")).decide(given)
                  if one.status == "duplicate"]  # fmt: skip
    assert verdict.duplicate_of in ("report", "article")
    assert verdict.relation is not None
    assert verdict.similarity == pytest.approx(verdict.relation.newer_fraction, abs=1e-4)


def test_a_part_of_a_dropped_text_is_kept_unless_it_is_part_of_the_kept_one() -> None:
    """Parts do not chain: what only a dropped text had is lost with it."""
    rng = random.Random(5)
    report, addition = prose(rng, "az", 2400), prose(rng, "az", 600)
    given = [Document("report", report), Document("copy", f"{report} {addition}"), Document("addition", addition)]
    verdicts = Deduplicator(Config(scheme="passages:part_min=0.6")).decide(given)
    assert [verdict.status for verdict in verdicts] == ["original", "duplicate", "original"]
    assert verdicts[2].relation is not None
    assert verdicts[2].relation.id == "copy"


def test_a_copy_has_no_relation() -> None:
    """Its verdict says all of it."""
    text = texts(6)["report"]
    verdicts = Deduplicator(Config(scheme="passages")).decide([Document("a", text), Document("b", text.upper())])
    assert (verdicts[1].status, verdicts[1].duplicate_of, verdicts[1].relation) == ("duplicate", "a", None)


def test_settings_that_would_drop_what_is_not_a_copy_are_refused() -> None:
    """A threshold of 1 says that an estimate of 1 is a copy; a part below a half is none."""
    with pytest.raises(ConfigError, match=r"threshold=1.0.*identical"):
        Config(scheme="passages", threshold=1.0)
    with pytest.raises(ConfigError, match="passages:part_min"):
        Config(scheme="passages:part_min=0.4")
    with pytest.raises(ConfigError, match="unknown option 'part_min' of scheme one_permutation"):
        Config(scheme_options={"part_min": 0.8})
