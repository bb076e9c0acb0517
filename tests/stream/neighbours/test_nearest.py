"""The most similar documents: which are named, in what order, and with what probability."""

from __future__ import annotations

import random
from itertools import count, pairwise

import numpy as np
import pytest
from cases import CASES, Case, parameters

from neardup import Config, ConfigError, Deduplicator, Document, Signer
from neardup.pairs.batches import bucket_keys
from neardup.pairs.neighbours.nearest import chance_found, ranked
from neardup.pairs.pair_rule import ESTIMATE_MAX
from neardup.pairs.pipeline import Matcher
from neardup.schemes.rows import SCHEMES

WORDS = [f"word{n}" for n in range(200)]
STORY = " ".join(WORDS[:60])
UNRANKED = ("records", "grid", "passages", "parts")
RANKED = {name: case for name, case in CASES.items() if case.scheme not in UNRANKED}


def changed(words: int) -> str:
    """The story with its last words replaced."""
    return " ".join([*WORDS[: 60 - words], *WORDS[100 : 100 + words]])


@pytest.mark.parametrize("case", parameters(RANKED.values()))
def test_the_nearest_are_the_best_of_all_that_share_a_bucket(case: Case) -> None:
    """Brute force over keys and evidence gives the same similarities, the best first, for every scheme that ranks."""
    config = case.config().model_copy(update={"bucket_candidates_max": 2**20})
    scheme, plan = SCHEMES[config.scheme], config.plan
    documents = [one._replace(id=str(n), timestamp=None) for n, one in zip(count(), case.stream(random.Random(5), 80))]
    dedup = Deduplicator(config)
    dedup.process(documents)
    refused = {refusal.position for refusal in dedup.refusals}
    kept = [one for place, one in enumerate(documents) if place not in refused]
    found = dedup.nearest([one._replace(id="") for one in kept], 3)
    batch = Signer(config).sign(kept).batch
    keys = bucket_keys(batch, config)
    sets = [set(keys.values[a:b].tolist()) for a, b in pairwise(keys.starts)]
    contents = [tuple(row) for row in batch.contents.tolist()]
    least = config.threshold if scheme.exact else 0.0
    for i, neighbours in enumerate(found):
        others = [j for j in range(len(kept)) if sets[i] & sets[j]]
        at = np.array(others)
        scored = scheme.common(batch.evidence.select(np.full(len(at), i)), batch.evidence.select(at), plan)
        wanted: dict[object, float] = {}
        fit = scored.conditions & (scored.keys >= config.buckets_shared_min)
        for j, similarity, fits in zip(others, scored.similarity.tolist(), fit.tolist(), strict=True):
            same = contents[i] == contents[j] and scheme.by_content
            name = contents[j] if scheme.by_content else j
            if same or (fits and similarity >= least):
                estimate = similarity if config.tuning.exact_score else min(similarity, ESTIMATE_MAX)
                wanted[name] = 1.0 if same else estimate
        best = sorted(wanted.values(), reverse=True)[:3]
        assert [one.similarity for one in neighbours] == pytest.approx(best)
        chances = chance_found(config, np.array([one.similarity for one in neighbours]))
        assert [one.probability for one in neighbours] == pytest.approx(chances.tolist(), abs=1e-9)


def test_copies_of_a_content_are_one_neighbour_the_newest_that_is_left() -> None:
    """A flood of copies does not fill the ranks; if the newest copy is removed, the copy before it takes its rank."""
    dedup = Deduplicator(Config(threshold=0.6))
    dedup.process([Document(f"copy {n}", STORY) for n in range(50)] + [Document("other", changed(6))])
    query = [Document("query", changed(1))]
    assert [one.id for one in dedup.nearest(query, 10)[0]] == ["copy 49", "other"]
    dedup.remove("copy 49")
    assert [one.id for one in dedup.nearest(query, 10)[0]] == ["copy 48", "other"]
    assert [one.id for one in dedup.nearest([Document("query", STORY)], 10)[0]] == ["copy 48", "other"]


def test_neighbours_below_the_threshold_are_named_with_the_chance_to_find_them() -> None:
    """The S-curve at the similarity of the neighbour; with few shared words it is less than with many."""
    config = Config(threshold=0.6, verify="exact")
    dedup = Deduplicator(config)
    dedup.process([Document("near", changed(3)), Document("far", changed(21))])
    near, far = dedup.nearest([Document("query", STORY)], 2)[0]
    assert (near.id, far.id) == ("near", "far")
    assert far.similarity < config.threshold <= near.similarity
    assert far.probability < config.recall < near.probability


def test_nearest_changes_nothing_and_answers_every_document_in_order() -> None:
    """A refused document has no neighbours; queries are not added to the window."""
    dedup = Deduplicator(Config(threshold=0.6))
    dedup.process([Document("a", STORY)])
    found = dedup.nearest([Document("x", ""), Document("y", changed(2)), Document("z", "nothing like it")], 1)
    assert [[one.id for one in neighbours] for neighbours in found] == [[], ["a"], []]
    assert [(refusal.position, refusal.reason) for refusal in dedup.refusals] == [(0, "empty")]
    assert [pair.older for pair in dedup.process([Document("b", changed(1))])] == ["a"]


def test_a_version_of_the_document_is_no_neighbour_of_it() -> None:
    """A document of the window, queried under its own id, finds the others."""
    dedup = Deduplicator(Config(threshold=0.6))
    documents = [Document("a", STORY), Document("b", changed(1)), Document("c", changed(4))]
    dedup.process(documents)
    found = dedup.nearest(documents, 5)
    assert [[one.id for one in neighbours] for neighbours in found] == [["b", "c"], ["a", "c"], ["b", "a"]]


def test_a_stream_ranks_earlier_documents_copies_and_the_rest_alike() -> None:
    """Each document is ranked before it is added; a document that has a copy meets the rest of its buckets, too."""
    config = Config(threshold=0.6)
    documents = [Document("a", STORY), Document("b", changed(2)), Document("c", STORY), Document("d", STORY)]
    matcher = Matcher(config)
    parts = list(ranked(matcher, Signer(config).sign(documents).batch, 5, add=True))
    found = dict(zip(*([x for part in parts for x in part[place]] for place in (0, 1)), strict=True))
    ids = {id_: [one.id for one in neighbours] for id_, neighbours in found.items()}
    assert ids == {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["c", "b"]}
    assert matcher.table.documents == 4


def test_a_probe_is_not_stopped_before_the_best_was_seen() -> None:
    """Sets stop a probe by default; a search does so only where it is set, and then at the newest and the oldest."""
    near = [Document(f"edit {n}", changed(2) + f" number{n}") for n in range(200)]
    near.insert(80, Document("best", STORY + " more"))
    for limit, ids in ((None, ["best"]), (128, [])):
        dedup = Deduplicator(Config(threshold=0.6, probe_candidates_max=limit))
        dedup.process(near)
        assert [one.id for one in dedup.nearest([Document("query", STORY)], 1)[0] if one.id == "best"] == ids


def test_an_exact_scheme_names_every_neighbour_from_the_threshold_on_and_no_other() -> None:
    """The probability of each neighbour is 1."""
    dedup = Deduplicator(Config(scheme="prefix", threshold=0.5))
    dedup.process([Document("near", changed(3)), Document("far", changed(40))])
    assert [(one.id, one.probability) for one in dedup.nearest([Document("q", STORY)], 5)[0]] == [("near", 1.0)]


@pytest.mark.parametrize(
    ("settings", "k", "sentence"), [({}, 0, "top is 0"), ({"scheme": "records"}, 1, "cannot rank")]
)
def test_what_cannot_be_ranked_is_refused(settings: dict[str, str], k: int, sentence: str) -> None:
    """Fewer than one neighbour; a scheme whose candidates do not depend on their similarity."""
    with pytest.raises(ConfigError, match=sentence):
        Deduplicator(Config(**settings)).nearest([], k)
