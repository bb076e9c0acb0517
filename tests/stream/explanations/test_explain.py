"""``Deduplicator.explain``: each reason why two documents are no pair, and the passages of two texts."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup import Config, Deduplicator, Document
from neardup.pairs.explanations.explain import EXPLANATIONS
from neardup.pairs.explanations.passages import passages
from neardup.window import again

TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
NEAR = TEXT.replace("Sunday", "Monday")


def test_a_pair_has_the_similarity_the_buckets_and_the_probability_of_the_pair() -> None:
    """The probability is that of the S-curve at the similarity; the order of the two does not matter."""
    dedup = Deduplicator(Config(threshold=0.7))
    [pair] = dedup.process([Document("a", TEXT), Document("b", NEAR)])
    explanation = dedup.explain("b", "a")
    assert explanation[:3] == ("a", "b", "pair")
    assert (explanation.similarity, explanation.buckets) == pair[2:]
    assert explanation.pair_probability is not None
    assert explanation.candidate_probability is not None
    assert 0.9 < explanation.pair_probability <= explanation.candidate_probability <= 1


def test_the_contents_of_the_window_are_not_searched_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are found along the chain of a content; only a document that a copy replaced needs the slots behind it."""
    dedup = Deduplicator(Config(threshold=0.7))
    others = [Document(f"other-{n}", f"{n} {n * 7} {n * 13} boats and {n * 3} {n * 11} nets") for n in range(200)]
    dedup.process([*others, Document("a", TEXT), Document("b", NEAR), Document("c", TEXT), *others[:9]])
    contents, read = again.contents, []
    monkeypatch.setattr(again, "contents", lambda table, slots: read.append(len(slots)) or contents(table, slots))
    assert dedup.explain("a", "b").reason == "pair"
    assert dedup.explain(Document("d", NEAR), "b").reason == dedup.explain("a", "c").reason == "pair"
    assert dedup.explain("b", "c")[2:4] == ("copy", "a")
    assert dedup.explain("a", Document("d", TEXT))[2:4] == ("copy", "c")
    assert sum(read) < 30


def test_an_id_that_is_not_in_the_window_is_unknown_and_a_removed_one_is_removed() -> None:
    """``about`` names it; nothing was compared."""
    dedup = Deduplicator()
    dedup.process([Document("a", TEXT), Document("b", NEAR)])
    dedup.remove("b")
    assert dedup.explain("a", "never")[1:4] == ("never", "unknown", "never")
    assert dedup.explain("a", "b")[1:4] == ("b", "removed", "b")
    assert dedup.explain("a", "b").similarity is None
    assert dedup.explain("\ud800", "a").reason == "unknown"


def test_a_document_that_cannot_be_used_is_refused() -> None:
    """As ``process`` refuses it; the refusals of the deduplicator stay as they are."""
    dedup = Deduplicator()
    dedup.process([Document("a", TEXT)])
    assert dedup.explain(Document("b", " "), "a").reason == "refused"
    assert (dedup.refused, dedup.refusals) == (0, [])


def test_versions_of_one_id_are_no_pair() -> None:
    """The latest version is compared with itself, or with what is given."""
    dedup = Deduplicator()
    dedup.process([Document("a", TEXT)])
    assert dedup.explain("a", "a").reason == "same_id"
    assert dedup.explain(Document("a", NEAR), "a").reason == "same_id"


def test_a_document_outside_of_the_window_is_no_pair_although_it_is_still_stored() -> None:
    """It waits for documents that come late."""
    dedup = Deduplicator(Config(window_seconds=60, lateness_seconds=600))
    dedup.process([Document("a", TEXT, 0.0), Document("b", TEXT, 61.0)])
    assert dedup.explain("a", "b").reason == "window"


def test_texts_that_share_nothing_share_no_bucket() -> None:
    """The probability that such a pair would share one is small."""
    dedup = Deduplicator()
    dedup.process([Document("a", TEXT), Document("b", "Quarterly earnings were flat, said the chairman of the bank.")])
    explanation = dedup.explain("a", "b")
    assert (explanation.reason, explanation.buckets) == ("no_bucket", 0)
    assert explanation.candidate_probability is not None
    assert explanation.candidate_probability < 0.01


def test_a_candidate_below_the_least_score_is_no_pair() -> None:
    """It shares a bucket; its similarity does not reach the score."""
    edited = TEXT.replace("Friday", "Tuesday").replace("northern", "southern")
    dedup = Deduplicator(Config(bands=24, rows=4, threshold=0.95))
    dedup.process([Document("a", TEXT), Document("b", edited)])
    explanation = dedup.explain("a", "b")
    assert explanation.reason == "score"
    assert explanation.buckets


def test_fewer_buckets_than_buckets_shared_min_are_no_pair() -> None:
    """The pair shares one of the two necessary buckets."""
    edited = TEXT.replace("Friday", "Tuesday").replace("northern", "southern").replace("Sunday", "Saturday")
    config = Config(threshold=0.5, bands=4, rows=6, buckets_shared_min=4, min_similarity=0.0)
    dedup = Deduplicator(config, candidates=True)
    dedup.process([Document("a", TEXT), Document("b", edited)])
    assert dedup.explain("a", "b").reason in ("few_buckets", "no_bucket")
    shared = {dedup.explain(Document("x", TEXT), Document("y", TEXT[:-n])).reason for n in range(1, 60)}
    assert "few_buckets" in shared


def test_a_copy_makes_the_pair_in_place_of_the_document() -> None:
    """The newest copy of the older document makes the pair; the first copy of the newer one is compared."""
    dedup = Deduplicator(Config(threshold=0.7))
    pairs = dedup.process([Document("a", TEXT), Document("copy", TEXT), Document("b", NEAR), Document("again", NEAR)])
    assert [pair[:2] for pair in pairs] == [("a", "copy"), ("copy", "b"), ("b", "again")]
    assert dedup.explain("a", "b")[2:4] == ("copy", "copy")
    assert dedup.explain("copy", "b").reason == "pair"
    assert dedup.explain("a", "again")[2:4] == ("copy", "b")


def test_a_copy_that_came_later_does_not_deny_a_pair() -> None:
    """The pair of a and b was made before a's copy came."""
    dedup = Deduplicator(Config(threshold=0.7))
    dedup.process([Document("a", TEXT), Document("b", NEAR), Document("later", TEXT)])
    assert dedup.explain("a", "b").reason == "pair"


def test_a_copy_that_a_later_copy_replaced_made_the_pair() -> None:
    """The copy that was met then is in no bucket now; nor is the copy of the newer one."""
    dedup = Deduplicator(Config(threshold=0.7))
    pairs = dedup.process(
        [Document("a", TEXT), Document("copy", TEXT), Document("b", NEAR), Document("later", TEXT), Document("c", NEAR)]
    )
    assert [pair[:2] for pair in pairs] == [("a", "copy"), ("copy", "b"), ("copy", "later"), ("b", "c")]
    assert dedup.explain("a", "b")[2:4] == ("copy", "copy")
    assert dedup.explain("copy", "b").reason == "pair"
    assert dedup.explain("a", "c")[2:4] == ("copy", "b")


def test_a_copy_outside_of_the_window_makes_no_pair_in_place_of_another() -> None:
    """The document in the window of the late one is met, though a newer copy stands before it."""
    dedup = Deduplicator(Config(threshold=0.7, window_seconds=60, lateness_seconds=600))
    documents = [Document("a", TEXT, 0.0), Document("copy", TEXT, 100.0), Document("late", NEAR, 30.0)]
    assert [pair[:2] for pair in dedup.process(documents)] == [("a", "late")]
    assert dedup.explain("a", "late").reason == "pair"


def test_a_probe_that_reached_its_limit_is_truncated() -> None:
    """One candidate is read, and makes the only pair of the newest; the other one would be a pair as well."""
    texts = [TEXT.replace("Friday", f"{day} May") for day in ("1", "2", "3")]
    dedup = Deduplicator(Config(threshold=0.7, probe_candidates_max=1))
    pairs = dedup.process([Document(str(n), text) for n, text in enumerate(texts)])
    explained = {older: dedup.explain(older, "2") for older in "01"}
    assert sorted(explanation.reason for explanation in explained.values()) == ["pair", "truncated"]
    assert [explained[pair.older].reason for pair in pairs if pair.newer == "2"] == ["pair"]
    assert all(explanation.similarity > 0.7 for explanation in explained.values() if explanation.similarity)


def test_two_documents_that_were_never_added_are_compared_with_each_other() -> None:
    """And their texts passage by passage."""
    explanation = Deduplicator(Config(threshold=0.7)).explain(Document("a", TEXT), Document("b", NEAR))
    assert explanation.reason == "pair"
    assert [passage.kind for passage in explanation.passages] == ["both", "first", "second", "both"]
    assert [passage.text for passage in explanation.passages[1:3]] == ["Sunday", "Monday"]


def test_every_reason_has_a_sentence_for_users() -> None:
    """It has no full stop, because other sentences include it."""
    assert all(sentence[0].islower() and sentence[-1] != "." for sentence in EXPLANATIONS.values())


_TEXTS = st.text(st.sampled_from("ab \n.é東京\u202e\u0301"), max_size=30)


@examples(200)
@given(_TEXTS, _TEXTS, st.integers(1, 40))
def test_the_passages_of_two_texts_joined_are_the_texts(first: str, second: str, parts_max: int) -> None:
    """No part is lost, no passage is empty, and two consecutive passages have different kinds."""
    found = passages(first, second, parts_max)
    assert "".join(passage.text for passage in found if passage.kind != "second") == first
    assert "".join(passage.text for passage in found if passage.kind != "first") == second
    assert all(passage.text for passage in found)
    assert all(a.kind != b.kind for a, b in pairwise(found))


def test_equal_texts_are_one_passage_however_long() -> None:
    """Also beyond the limit: the rest after the limit is compared as a whole."""
    text = " ".join(str(n) for n in range(100))
    assert [tuple(passage) for passage in passages(text, text, 10)] == [("both", text)]


@pytest.mark.parametrize("seed", range(3))
def test_what_two_texts_share_is_a_longest_common_subsequence(seed: int) -> None:
    """Its length is equal to the length by the textbook table."""
    rng = random.Random(seed)
    first, second = (rng.choices("abcd", k=40) for _ in range(2))
    longest = [[0] * 41 for _ in range(41)]
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            longest[i + 1][j + 1] = longest[i][j] + 1 if x == y else max(longest[i][j + 1], longest[i + 1][j])
    shared = [passage.text for passage in passages("-".join(first), "-".join(second)) if passage.kind == "both"]
    assert sum(c.isalpha() for part in shared for c in part) <= longest[-1][-1]
    joined = [passage.text for passage in passages(".".join(first), ".".join(second)) if passage.kind == "both"]
    assert "".join(joined)
