"""Real vectors, images and histograms: the pairs and nearest neighbours of the stream compared with brute force.

The data is not part of the project; without it these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from real_sets import DATA, needs_data

from neardup import Config, Deduplicator, Document
from neardup.window.steps import step

MNIST, NMSLIB = DATA / "vec_mnist10k", DATA / "vec_nmslib"
pytestmark = needs_data


def images(count: int) -> np.ndarray:
    """Handwritten digits, 784 numbers of 0 to 255 each."""
    return np.fromfile(MNIST / "t10k-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 784)[:count]


def histograms(name: str, count: int) -> np.ndarray:
    return np.loadtxt(NMSLIB / name, dtype=np.float32, max_rows=count)


def black(count: int) -> np.ndarray:
    return (images(count) > 127).astype(np.uint8)


def cosines(x: np.ndarray) -> np.ndarray:
    x = x / np.linalg.norm(x.astype(float), axis=1, keepdims=True)
    return x @ x.T


def distances(x: np.ndarray) -> np.ndarray:
    x = x.astype(float)
    squares = (x * x).sum(axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))


def sums_of_differences(x: np.ndarray) -> np.ndarray:
    return np.array([np.abs(x.astype(int) - row).sum(axis=1) for row in x.astype(int)])


class RealVectors(NamedTuple):
    """The reader of a set, the settings, and all similarities by brute force."""

    vectors: Callable[[], np.ndarray]
    settings: dict[str, Any]
    similarity: Callable[[np.ndarray], np.ndarray]


SETS = {
    "images by cosine": RealVectors(
        lambda: images(1500), {"scheme": "hyperplane:dimension=784", "threshold": 0.9}, cosines
    ),
    "images by cosine, signs": RealVectors(
        lambda: images(1500), {"scheme": "hyperplane:dimension=784,planes=signs", "threshold": 0.9}, cosines
    ),
    "images by distance": RealVectors(
        lambda: images(800),
        {"scheme": "p_stable:dimension=784,distance_scale=10000.0", "threshold": 0.87},
        lambda x: 1 - distances(x) / 10_000,
    ),
    "images by differing bits": RealVectors(
        lambda: black(1500),
        {"scheme": "bit_sampling:dimension=784", "threshold": 0.96},
        lambda x: 1 - np.rint(distances(x) ** 2) / 784,  # of bits, their number is the square
    ),
    "images by sum of differences": RealVectors(
        lambda: images(500),
        {"scheme": "bit_sampling:dimension=784,component_max=255", "measure": "l1", "threshold": 0.96},
        lambda x: 1 - sums_of_differences(x) / (784 * 255),
    ),
    "histograms by distance": RealVectors(
        lambda: histograms("final8_10K.txt", 2000),
        {"scheme": "p_stable:dimension=8,distance_scale=1.0", "threshold": 0.98},
        lambda x: 1 - distances(x),
    ),
    "histograms by cosine": RealVectors(
        lambda: histograms("final128_query1K.txt", 1000),
        {"scheme": "hyperplane:dimension=128", "threshold": 0.8},
        cosines,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETS)
def test_real_vectors_keep_the_promise(name: str) -> None:
    """At least the promised fraction of the pairs is found, each with its true similarity, and no other pair."""
    real = SETS[name]
    vectors = np.unique(real.vectors(), axis=0)
    config = Config(**real.settings, bucket_candidates_max=2**20)
    given = np.packbits(vectors, axis=1) if name.endswith("bits") else vectors
    pairs = Deduplicator(config).process([Document(str(i), vector=vector) for i, vector in enumerate(given)])
    exact = real.similarity(vectors)
    left, right = np.triu_indices(len(vectors), 1)
    # Brute force and the stream round differently: pairs on the threshold are not tested.
    for certain, slack in ((True, 1e-6), (False, -1e-6)):
        at = exact[left, right] >= config.threshold + slack
        wanted = set(zip(left[at].tolist(), right[at].tolist(), strict=True))
        found = {(int(pair.older), int(pair.newer)) for pair in pairs}
        if certain:
            assert len(wanted) > 100
            assert len(found & wanted) >= config.recall * len(wanted), (len(found & wanted), len(wanted))
        else:
            assert found <= wanted
    errors = [abs(pair.similarity - exact[int(pair.older), int(pair.newer)]) for pair in pairs]
    assert max(errors) < 1e-6


def test_brute_force_agrees_with_the_truth_that_came_with_the_images() -> None:
    """The pairs of cosine .95 and over."""
    exact = cosines(images(2000))
    rows = np.loadtxt(MNIST / "self_pairs_cos095.csv", delimiter=",", skiprows=1)
    rows = rows[(rows[:, :2] < 2000).all(axis=1)]
    left, right = rows[:, :2].astype(int).T
    assert exact[left, right] == pytest.approx(rows[:, 2], abs=1e-6)
    assert (np.triu(exact, 1) >= 0.95).sum() == len(rows)


# Neighbours of a query, and queries of a search. Thresholds are typical similarities of a tenth neighbour.
NEIGHBOURS, QUERIES = 10, 60


class Search(NamedTuple):
    """The searched vectors, queries (with an id if a query is one of the vectors), exact neighbours, and settings."""

    vectors: np.ndarray
    queries: np.ndarray
    own_ids: list[str]
    exact: np.ndarray
    settings: dict[str, Any]


def images_by_cosine() -> Search:
    """Search the first images among the images from number 1,000 on."""
    exact = np.load(MNIST / "gt_cosine_top100_ids.npy")[:QUERIES, :NEIGHBOURS]
    settings = {"scheme": "hyperplane:dimension=784", "threshold": 0.8, "rows_max": 1024}
    every = images(10_000)
    return Search(every[1000:], every[:QUERIES], [""] * QUERIES, exact, settings)


def histograms_by_distance() -> Search:
    """Search the first histograms of 8 numbers among the histograms from number 1,000 on."""
    exact = np.load(NMSLIB / "final8_gt_euclid_top10.npy")[:QUERIES]
    settings = {"scheme": "p_stable:dimension=8,distance_scale=1.0", "threshold": 0.85}
    every = histograms("final8_10K.txt", 10_000)
    return Search(every[1000:], every[:QUERIES], [""] * QUERIES, exact, settings)


def histograms_by_cosine() -> Search:
    """Search histograms of 128 numbers among the other histograms."""
    exact = np.load(NMSLIB / "final128_query1K_gt_cosine_top10.npy")[:QUERIES]
    settings = {"scheme": "hyperplane:dimension=128", "threshold": 0.65}
    every = histograms("final128_query1K.txt", 1000)
    return Search(every, every[:QUERIES], [str(n) for n in range(QUERIES)], exact, settings)


@pytest.mark.long
@pytest.mark.parametrize("search", [images_by_cosine, histograms_by_distance, histograms_by_cosine])
def test_nine_of_the_ten_most_similar_are_found_by_looking_at_a_fifth(search) -> None:
    """Recall@10 is at least .9, while at most a fifth of the set is compared."""
    vectors, queries, own_ids, exact, settings = search()
    dedup = Deduplicator(Config(**settings, bucket_candidates_max=2**20))
    with step(dedup.matcher.table):
        indexed = dedup.signer.sign([Document(str(n), vector=vector) for n, vector in enumerate(vectors)])
        dedup.matcher.match(indexed.batch, probe=False)
    asked = [Document(own, vector=vector) for own, vector in zip(own_ids, queries, strict=True)]
    found = dedup.nearest(asked, NEIGHBOURS)
    hits = [
        len({int(one.id) for one in ours} & set(wanted.tolist())) for ours, wanted in zip(found, exact, strict=True)
    ]
    assert sum(hits) / exact.size >= 0.9
    assert dedup.counts()["candidates"] / (QUERIES * len(vectors)) <= 0.2
