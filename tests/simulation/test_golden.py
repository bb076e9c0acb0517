"""The golden set: the same documents in one process and in a cluster, with any number of workers and shards.

Two results must be equal: the unordered pairs of distinct contents, and the tree of links that joins the copies of each
content. Different copies may represent a content. One shard finds a pair of contents once; of several, the shard of
each of the two may find it once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from quick_parameters import quick_first
from sim_checks import check
from sim_cluster import MATCHERS, SIGNERS, Simulation
from sim_documents import Habits, story_texts
from sim_model import trees
from sim_scenario import Scenario

from neardup import Config, Deduplicator, Document, Signer

START = 1_600_000_000
SIZES = [(1, 1, 1), (1, 1, 8), (2, 2, 2), (2, 3, 8), (3, 2, 2), (3, 3, 8)]


class Golden:
    """Documents with their contents, and the pairs that join them."""

    def __init__(self, documents: list[Document], config: Config) -> None:
        self.documents, self.config = documents, config
        contents = Signer(config).sign(documents).batch.contents
        assert len(contents) == len(documents)
        self.content = {document.id: row.tobytes() for document, row in zip(documents, contents, strict=True)}
        pairs = Deduplicator(config).process(documents)
        self.pairs, self.sizes = self.joined((pair.older, pair.newer) for pair in pairs)

    def joined(self, pairs: Iterable[tuple[str, str]]) -> tuple[Counter[frozenset[bytes]], dict[bytes, list[int]]]:
        """Count the pairs for each two contents, and measure the trees of copies of each content."""
        distinct: Counter[frozenset[bytes]] = Counter()
        links: dict[bytes, list[tuple[str, str]]] = {}
        for older, newer in pairs:
            a, b = self.content[older], self.content[newer]
            if a == b:
                links.setdefault(a, []).append((older, newer))
            else:
                distinct[frozenset((a, b))] += 1
        for content, edges in links.items():
            copies = sum(other == content for other in self.content.values())
            assert len(edges) == copies - 1
        return distinct, {content: sorted(trees(edges).values()) for content, edges in links.items()}

    def distributed(self, signers: int, matchers: int, shards: int) -> Simulation:
        """Run the same documents through a cluster without failures; the workers take random turns."""
        scenario = Scenario(
            self.config, Habits(skew_seconds=1e6), 4, shards, signers, matchers,
            actions=6 * len(self.documents) // 10 + 40, weights={"turn": 1.0},
        )  # fmt: skip
        simulation = Simulation(scenario, f"{signers} {matchers} {shards}")
        order = list(self.documents)
        random.Random(shards).shuffle(order)
        for document in order:
            simulation.feed.document(document.id, document.text, document.timestamp)
        simulation.run()
        return simulation


def golden(documents: list[Document], **settings: float) -> Golden:
    timed = [document._replace(timestamp=START + i / 8) for i, document in enumerate(documents)]
    return Golden(timed, Config(window_seconds=1e5, lateness_seconds=1e5, **settings))


@cache
def stories() -> Golden:
    """600 short documents: 40 stories in variants, each in copies."""
    rng = random.Random(1)
    texts = [text for _ in range(12) for text in story_texts(rng)]
    return golden([Document(f"d{i}", rng.choice(texts)) for i in range(600)], threshold=0.6)


@cache
def licences(folder: Path) -> Golden:
    """Real texts with many near-duplicates, some of them twice."""
    with (folder / "docs.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(300), strict=False)]
    documents = [Document(str(row["id"]), row["text"]) for row in rows if row["text"].strip()]
    again = [document._replace(id=f"{document.id} again") for document in documents[::7]]
    return golden(documents + again)


def compare(set_: Golden, signers: int, matchers: int, shards: int) -> None:
    outcome = check(set_.distributed(signers, matchers, shards))
    assert outcome.in_promise
    pairs, sizes = set_.joined((said.older, said.newer) for said in outcome.said)
    assert set(pairs.values()) <= ({1} if shards == 1 else {1, 2})
    assert (pairs.keys(), sizes) == (set_.pairs.keys(), set_.sizes)


@pytest.mark.parametrize(("signers", "matchers", "shards"), quick_first(SIZES, 1))
def test_any_number_of_workers_joins_the_same_stories(signers: int, matchers: int, shards: int) -> None:
    """One process and any cluster find the same pairs of contents, and join the same copies."""
    compare(stories(), signers, matchers, shards)


@pytest.mark.parametrize(("signers", "matchers", "shards"), SIZES[1:4:2])
def test_any_number_of_workers_joins_the_same_real_texts(
    signers: int, matchers: int, shards: int, real_data: Callable[[str], Path]
) -> None:
    """One process and any cluster agree on licence texts too."""
    compare(licences(real_data("licence_texts")), signers, matchers, shards)


def test_the_golden_sets_have_pairs_and_copies() -> None:
    """Each set has pairs of distinct contents and copies; without them the comparison would be empty."""
    assert len(stories().pairs) > 40
    assert len(stories().sizes) > 40


def test_work_is_shared() -> None:
    """With two of each role, both signers and both matchers read records."""
    simulation = stories().distributed(2, 2, 8)
    assert all(place.taken for place in simulation.places)
    assert Counter(place.kind for place in simulation.places) == {SIGNERS: 2, MATCHERS: 2}
