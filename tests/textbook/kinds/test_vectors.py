"""Schemes of vectors: found by the S-curve, scored by the true measure; what is refused, and what to set instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document, Signer
from neardup.errors import ConfigError
from neardup.schemes.interface import Common
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import probabilities
from neardup_textbook.kinds.vector_measures import VECTOR_MEASURES
from neardup_textbook.signatures import hyperplanes
from neardup_textbook.vectors import packed_bits

DIMENSION = 32
SETTINGS: dict[str, dict[str, Any]] = {
    "cosine": {"scheme": "hyperplane", "scheme_options": {"dimension": DIMENSION}},
    "dot": {"scheme": "hyperplane_dot", "scheme_options": {"dimension": DIMENSION, "norm_max": 3.0}},
    "euclidean": {"scheme": "p_stable", "scheme_options": {"dimension": DIMENSION, "distance_scale": 8.0}},
    "hamming": {"scheme": "bit_sampling", "scheme_options": {"dimension": 1000}},
    "hamming_symbols": {"scheme": "bit_sampling", "measure": "hamming_symbols", "scheme_options": {"dimension": 200}},
    "l1": {
        "scheme": "bit_sampling", "measure": "l1",
        "scheme_options": {"dimension": DIMENSION, "component_max": 300, "distance_scale": 2000.0},
    },
}  # fmt: skip
KEPT = [(measure, kept) for measure, row in VECTOR_MEASURES.items() for kept in row.evidence_choices]
Pairs = tuple[np.ndarray, np.ndarray]


def config_of(measure: str, options: dict[str, Any], **settings: Any) -> Config:
    """The settings of a measure, with other options."""
    base = SETTINGS[measure]
    return Config(**{**base, **settings, "scheme_options": {**base["scheme_options"], **options}})


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def at_cosine(rng: np.random.Generator, count: int, s: float) -> Pairs:
    x, y = unit(rng.standard_normal((count, DIMENSION))), rng.standard_normal((count, DIMENSION))
    y = unit(y - (x * y).sum(axis=1, keepdims=True) * x)
    return x, s * x + np.sqrt(1 - s * s) * y


def at_dot(rng: np.random.Generator, count: int, s: float) -> Pairs:
    x, y = at_cosine(rng, count, s)
    return 3.0 * x, 3.0 * y


def at_euclidean(rng: np.random.Generator, count: int, s: float) -> Pairs:
    x = 5 * rng.standard_normal((count, DIMENSION))
    return x, x + 8.0 * (1 - s) * unit(rng.standard_normal((count, DIMENSION)))


def at_hamming(rng: np.random.Generator, count: int, s: float) -> Pairs:
    x = rng.integers(0, 2, (count, 1000), np.uint8)
    flips = rng.permuted(np.tile(np.arange(1000) < round(1000 * (1 - s)), (count, 1)), axis=1)
    return np.packbits(x, axis=1), np.packbits(x ^ flips, axis=1)


def at_symbols(rng: np.random.Generator, count: int, s: float) -> Pairs:
    x = rng.integers(0, 4, (count, 200))
    differing = rng.permuted(np.tile(np.arange(200) < round(200 * (1 - s)), (count, 1)), axis=1)
    return x, np.where(differing, (x + rng.integers(1, 4, x.shape)) % 4, x)


def at_l1(rng: np.random.Generator, count: int, s: float) -> Pairs:
    steps = rng.multinomial(round(2000 * (1 - s)), np.full(DIMENSION, 1 / DIMENSION), count)
    x = rng.integers(0, 301 - steps)
    return x, x + steps


AT: dict[str, Callable[[np.random.Generator, int, float], Pairs]] = {
    "cosine": at_cosine, "dot": at_dot, "euclidean": at_euclidean, "hamming": at_hamming,
    "hamming_symbols": at_symbols, "l1": at_l1,
}  # fmt: skip


def common_of(config: Config, pairs: Pairs) -> Common:
    row = SCHEMES[config.scheme]
    sides = []
    for side in pairs:
        documents = [Document(str(n), vector=vector, tokens=vector.tolist()) for n, vector in enumerate(side)]
        reading = row.features(documents, config.plan)
        assert reading.refused == {}
        sides.append(row.evidence(reading.features, config.plan))
    return row.common(*sides, config.plan)


@pytest.mark.parametrize(
    ("measure", "kept"),
    [
        pytest.param(measure, kept, marks=() if (measure, kept) == ("cosine", "sketch") else pytest.mark.long)
        for measure, kept in KEPT
        if kept != "float16"
    ],
)
def test_pairs_are_found_by_the_s_curve(measure: str, kept: str) -> None:
    """At a pair of similarity s, over eight seeds of 250 pairs: as many candidates and pairs as the curve predicts.

    Within six standard deviations of a quarter as many independent pairs: those of one seed share its planes.
    """
    for s in (0.6, 0.8, 0.9, 0.95):
        met = emitted = 0
        for seed in range(8):
            config = config_of(measure, {"evidence": kept}, threshold=0.9, seed=seed)
            found = common_of(config, AT[measure](np.random.default_rng(seed), 250, s))
            met += int((found.keys > 0).sum())
            emitted += int(((found.keys > 0) & (found.similarity >= config.tuning.score_min - 1e-6)).sum())
        expected = [float(p[0]) for p in probabilities(config.tuning, np.array([s]))]
        for share, p in zip((met / 2000, emitted / 2000), expected, strict=True):
            assert abs(share - p) <= 6 * (p * (1 - p) / 500) ** 0.5 + 1e-4, (s, share, p)
        assert s < 0.9 or expected[1] >= 0.95


@pytest.mark.parametrize(("measure", "kept"), quick_first(KEPT, 7))
def test_the_similarity_equals_that_of_the_measure(measure: str, kept: str) -> None:
    """To six digits of the vectors kept whole, to a thousandth of those kept in half precision; else as an estimate."""
    config = config_of(measure, {"evidence": kept}, threshold=0.9)
    allowed = {"float32": 1e-6, "float16": 2e-3, "sketch": 0.2}[kept]
    for s in (0.3, 0.6, 0.9, 1.0):
        found = common_of(config, AT[measure](np.random.default_rng(7), 50, s)).similarity
        assert abs(found - s).max() <= allowed, s
        assert abs(found.mean() - s) <= allowed / 5, s


def test_an_estimate_of_segments_is_unbiased_near_the_threshold() -> None:
    """The share of equal rows, less those equal by chance, gives the distance."""
    config = config_of("euclidean", {"evidence": "sketch"}, threshold=0.9, bands=128, rows=8, rows_max=1024)
    found = common_of(config, at_euclidean(np.random.default_rng(3), 2000, 0.9)).similarity
    assert abs(found.mean() - 0.9) < 0.002


def test_shorter_vectors_are_found_more_often_by_their_dot_product() -> None:
    """The coordinate that is added brings them together: the curve is a lower bound."""
    x, y = at_dot(np.random.default_rng(1), 1000, 0.9)
    config = Config(**SETTINGS["dot"], threshold=0.6)
    found = common_of(config, (0.85 * x, 0.85 * y))
    s = 0.85**2 * 0.9
    assert found.similarity == pytest.approx(np.full(1000, s), abs=1e-6)
    assert (found.keys > 0).mean() > float(probabilities(config.tuning, np.array([s]))[0][0])


def test_a_stream_pairs_vectors_by_name() -> None:
    """From documents to pairs: the near ones with their similarity, the others not at all."""
    dedup = Deduplicator(Config(scheme="hyperplane:dimension=3", threshold=0.9))
    vectors = {"a": [1, 0, 0], "b": [0, 1, 0], "c": [1.0, 0.1, 0.0], "d": [2, 0, 0], "e": [1, 0, 0]}
    pairs = dedup.process([Document(id_, vector=vector) for id_, vector in vectors.items()])
    found = {(pair.older, pair.newer): round(pair.similarity, 4) for pair in pairs}
    assert found == {("a", "c"): 0.995, ("a", "d"): 1.0, ("c", "d"): 0.995, ("a", "e"): 1.0}


@pytest.mark.parametrize(
    ("measure", "vector", "reason"),
    [
        ("cosine", None, "no_vector"),
        ("cosine", [[1.0]], "vector_type"),
        ("cosine", [1.0] * 31, "vector_length"),
        ("cosine", [float("inf")] * 32, "vector_range"),
        ("cosine", [0.0] * 32, "vector_zero"),
        ("dot", [0.6] * 32, "vector_norm"),
        ("l1", [0.5] * 32, "vector_component"),
        ("l1", [-1.0] * 32, "vector_component"),
        ("l1", [301.0] * 32, "vector_component"),
        ("euclidean", [7e5] * 32, "vector_half"),
        ("hamming", [2] * 1000, "vector_bit"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused(measure: str, vector: Any, reason: str) -> None:
    """The others are signed, in their order."""
    kept = {"evidence": "float16"} if measure == "euclidean" else {}
    good = np.zeros(125, np.uint8) if measure == "hamming" else [0.0] * 31 + [1.0]
    documents = [Document("a", vector=good), Document("bad", vector=vector), Document("b", vector=good)]
    signed = Signer(config_of(measure, kept)).sign(documents)
    assert [(r.position, r.id, r.reason) for r in signed.refusals] == [(1, "bad", reason)]
    assert signed.batch.ids_at(np.arange(signed.batch.size)) == ["a", "b"]


@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_planes_of_signs_refuse_vectors_that_few_components_rule(measure: str) -> None:
    """Zero or small, the other components do not count; normal planes take any vector."""
    few, small, enough = ([0.1] * 15 + [0.0] * 17, [0.1] * 2 + [0.002] * 30, [0.1] * 16 + [0.0] * 16)
    documents = [Document(name, vector=x) for name, x in (("few", few), ("small", small), ("enough", enough))]
    sparse = [(0, "few", "vector_sparse"), (1, "small", "vector_sparse")]
    for planes, refused in (("signs", sparse), ("normal", [])):
        signed = Signer(config_of(measure, {"planes": planes})).sign(documents)
        assert [(r.position, r.id, r.reason) for r in signed.refusals] == refused


def test_planes_of_signs_need_more_components_for_a_smaller_angle() -> None:
    """At a cosine of .9 20 of one size, at .99 200; at 1 equal directions are found anyway."""
    for threshold, least in ((0.8, 16), (0.9, 20), (0.99, 200), (1.0, 16)):
        vectors = [[1.0] * ones + [0.0] * (256 - ones) for ones in (least - 1, least)]
        config = Config(scheme="hyperplane:dimension=256,planes=signs", threshold=threshold)
        signed = Signer(config).sign([Document(str(i), vector=x) for i, x in enumerate(vectors)])
        assert [r.id for r in signed.refusals] == ["0"], threshold


@pytest.mark.parametrize("threshold", [0.8, 0.9, 0.95])
def test_planes_of_signs_keep_the_promise_for_vectors_that_they_take(threshold: float) -> None:
    """Also if all of the length of one side lies in as few components as may be; with fewer they would lose pairs."""
    least = math.ceil(hyperplanes.components_min(threshold))
    promised = Config(scheme="hyperplane:dimension=128", threshold=threshold).tuning.recall
    assert recall_of_signs(threshold, components=least) > promised - 0.05
    assert recall_of_signs(threshold, components=4) < promised - 0.07


def recall_of_signs(threshold: float, components: int) -> float:
    """The candidates among 2,000 pairs at the threshold; one side has some components of one size, 20 pairs a seed."""
    rng = np.random.default_rng(components)
    x, y = np.zeros((2000, 128)), rng.standard_normal((2000, 128))
    x[:, :components] = rng.choice([-1.0, 1.0], (2000, components))
    x = unit(x)
    y = threshold * x + math.sqrt(1 - threshold**2) * unit(y - (x * y).sum(axis=1, keepdims=True) * x)
    met = 0
    for seed in range(100):
        plan = Config(scheme="hyperplane:dimension=128,planes=signs", threshold=threshold, seed=seed).tuning
        part = slice(20 * seed, 20 * seed + 20)
        a, b = (
            hyperplanes.sign(np.asarray(side[part], np.float32), plan.bands, plan.rows, seed, "signs")
            for side in (x, y)
        )
        met += np.count_nonzero(packed_bits.agreement(a, b, plan.bands, plan.rows)[0])
    return met / 2000


def test_a_zero_vector_has_a_dot_product_and_a_distance() -> None:
    """Only of an angle it has none."""
    for measure in ("dot", "euclidean", "l1"):
        assert Signer(Config(**SETTINGS[measure])).sign([Document("z", vector=[0.0] * 32)]).refusals == []


def test_a_vector_as_long_as_norm_max_is_no_longer() -> None:
    """Up to the rounding of its components; and then its similarity with itself is 1."""
    x = unit(np.random.default_rng(1).standard_normal((200, DIMENSION))).astype(np.float32)
    config = Config(scheme="hyperplane_dot", scheme_options={"dimension": DIMENSION, "norm_max": 1.0})
    found = common_of(config, (x, x))
    assert found.similarity.max() <= 1
    assert found.similarity == pytest.approx(np.ones(200), abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scheme": "hyperplane"}, "dimension is not set"),
        ({"scheme": "hyperplane:dimension=3", "measure": "l1"}, "set cosine"),
        ({"scheme": "hyperplane:dimension=3,planes=round"}, "must be one of normal, signs"),
        ({"scheme": "hyperplane_dot:dimension=3"}, "norm_max is not set"),
        ({"scheme": "hyperplane_dot:dimension=3,norm_max=1,evidence=sketch"}, "float16"),
        ({"scheme": "p_stable:dimension=3"}, "distance_scale is not set"),
        ({"scheme": "p_stable:dimension=3,distance_scale=1", "threshold": 1.0}, "set segment_width"),
        ({"scheme": "bit_sampling:dimension=3", "measure": "l1"}, "component_max is not set"),
        ({"scheme": "bit_sampling:dimension=3", "measure": "cosine"}, "set hamming or l1 or hamming_symbols"),
        (
            {"scheme": "bit_sampling:dimension=3,component_max=9,distance_scale=28", "measure": "l1"},
            "set it to 27 or less",
        ),
        ({"scheme": "bit_sampling:dimension=3,evidence=float16"}, "float32 and sketch"),
        ({"scheme": "hyperplane:dimension=70000"}, "65,536"),
    ],
)
def test_a_plan_that_cannot_work_says_what_to_set(settings: dict[str, Any], words: str) -> None:
    """The value, the rule and the remedy."""
    with pytest.raises(ConfigError, match=r"set |leave it out|the default is") as error:
        Config(**settings)
    assert words in str(error.value)


def test_vectors_have_more_rows_than_sets_by_default() -> None:
    """512 at most by default; a number that is given counts, also if it is the default of sets."""
    assert 256 < Config(**SETTINGS["cosine"]).plan.rows <= 512
    assert Config(**SETTINGS["cosine"], rows_max=128).plan.rows <= 128


@pytest.mark.parametrize(
    ("measure", "changed"),
    [
        ("cosine", {"planes": "signs"}), ("cosine", {"evidence": "sketch"}), ("cosine", {"dimension": 33}),
        ("dot", {"norm_max": 4.0}), ("euclidean", {"distance_scale": 9.0}), ("euclidean", {"segment_width": 5.0}),
        ("l1", {"component_max": 299}), ("l1", {"distance_scale": 1900.0}), ("hamming", {"dimension": 999}),
    ],
)  # fmt: skip
def test_what_decides_evidence_or_similarity_is_another_generation(measure: str, changed: dict[str, Any]) -> None:
    """One of the fingerprints changes with each of them; what has no say is refused."""

    def fingerprints(config: Config) -> tuple[str, str]:
        return config.signing_fingerprint, config.matching_fingerprint

    before = Config(**SETTINGS[measure])
    assert fingerprints(before) != fingerprints(config_of(measure, changed))
    idle = "planes" if measure in ("euclidean", "hamming", "l1") else "segment_width"
    with pytest.raises(ConfigError, match=f"unknown option '{idle}' of scheme {before.scheme}: its options are dim"):
        config_of(measure, {idle: 7.0})
    with pytest.raises(ConfigError, match="bit_sampling:component_max has no meaning with scheme bit_sampling"):
        config_of("hamming", {"component_max": 7})


def test_another_scale_of_distances_needs_no_new_signatures() -> None:
    """Where vectors are kept whole and the segments are given: only the similarity is another."""
    settings = {"bands": 8, "rows": 4, "min_similarity": 0.1}
    one, two = (
        config_of("euclidean", {"segment_width": 6.0, "distance_scale": scale}, **settings) for scale in (8.0, 9.0)
    )
    assert one.signing_fingerprint == two.signing_fingerprint
    assert one.matching_fingerprint != two.matching_fingerprint


def test_evidence_has_a_known_answer() -> None:
    """A format: these bytes change only with ``SIGNING_VERSION``."""
    x = np.arange(-2, 2, dtype=np.float32)
    config = Config(scheme="hyperplane:dimension=4,evidence=float16", bands=2, rows=4, min_similarity=0.0)
    [row] = Signer(config).sign([Document("x", vector=x)]).batch.fixed
    assert row.tolist() == KNOWN


KNOWN = [12, 0, 136, 186, 136, 182, 0, 0, 136, 54]


@pytest.mark.parametrize("form", [list, np.array, lambda vector: np.array(vector, "<f4").tobytes()])
def test_a_query_longer_than_norm_max_is_answered(form) -> None:  # type: ignore[no-untyped-def]
    """Probed, it is scaled to the greatest length; added, it is refused as before."""
    dedup = Deduplicator(Config(scheme="hyperplane_dot:dimension=3,norm_max=2.0", threshold=0.3))
    dedup.process([Document("near", vector=[1.9, 0.1, 0.0]), Document("far", vector=[1.5, 1.2, 0.0])])
    query = Document("query", vector=form([100.0, 0.0, 0.0]))
    near, far = dedup.nearest([query], 2)[0]
    assert (near.id, far.id) == ("near", "far")
    assert near.similarity == pytest.approx(1.9 / 2)
    assert {pair.older for pair in dedup.probe([query])} == {"near", "far"}
    assert dedup.refusals == []
    assert dedup.process([query]) == []
    assert [refusal.reason for refusal in dedup.refusals] == ["vector_norm"]


def test_a_query_that_is_no_vector_is_refused() -> None:
    """With its reason, and not by an exception."""
    dedup = Deduplicator(Config(scheme="hyperplane_dot:dimension=3,norm_max=2.0", threshold=0.3))
    queries = [Document("", vector=vector) for vector in ([1.0, float("nan"), 0.0], b"12345", [[1.0]], None)]
    assert dedup.nearest(queries, 1) == [[]] * 4
    assert len(dedup.refusals) == 4
