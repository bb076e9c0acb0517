"""Laws of explanations, for every scheme: the reason is ``pair`` for each pair, and only for pairs."""

from __future__ import annotations

import random
from itertools import combinations

from cases import Case, every_case

from neardup import Deduplicator, Document
from neardup.pairs.explanations.explain import EXPLANATIONS


def stream_of(case: Case, seed: int, size: int) -> list[Document]:
    """Documents with distinct ids, a minute apart."""
    documents = case.stream(random.Random(seed), size)
    return [document._replace(id=f"d{n}", timestamp=60.0 * n) for n, document in enumerate(documents)]


@every_case
def test_an_explanation_says_pair_of_the_pairs_and_of_no_others(case: Case) -> None:
    """It gives similarity and buckets, in any order of the two documents; other documents get a reason."""
    documents = stream_of(case, 3, 26)
    dedup = Deduplicator(case.config(window_seconds=1200.0, lateness_seconds=86_400.0))
    pairs = {(pair.older, pair.newer): pair for pair in dedup.process(documents)}
    refused = {refusal.id for refusal in dedup.refusals}
    before = dedup.counts()
    reasons = set()
    for a, b in combinations([document.id for document in documents], 2):
        explanation = dedup.explain(b, a)
        reasons.add(explanation.reason)
        assert explanation.reason in EXPLANATIONS
        assert (explanation.reason == "pair") == ((a, b) in pairs), explanation
        if refused & {a, b}:
            assert explanation.reason == "unknown"
            continue
        assert explanation[:2] == (a, b)
        if (a, b) in pairs:
            assert (explanation.similarity, explanation.buckets) == pairs[a, b][2:]
    assert dedup.counts() == before
    assert len(reasons) > 1


@every_case
def test_a_document_that_was_not_added_is_explained_as_its_probe_would_find_it(case: Case) -> None:
    """For each stored document the reason is ``pair`` if ``probe`` reports the document."""
    documents = stream_of(case, 4, 24)
    dedup = Deduplicator(case.config())
    dedup.process(documents[:-4])
    for document in documents[-4:]:
        found = {pair.older for pair in dedup.probe([document])}
        explained = [dedup.explain(document, stored.id) for stored in documents[:-4]]
        assert {explanation.older for explanation in explained if explanation.reason == "pair"} == found
