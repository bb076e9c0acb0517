"""S6: recall of emitted pairs at the threshold, and the bias of the estimate, on sets of exactly known similarity.

A union of u elements with J u of them in common, for u from 5 to 5,000; every pair has elements of its own, drawn
anew, and a seed of the scheme of its own for every few pairs, so that pairs are independent. (A union of fewer than 5
elements cannot have similarity .8.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.report import Result, Size, Target, checksum
from stream import Config
from stream.features import Features
from stream.frame import Keys
from stream.schemes import SCHEMES

SEED = 6
ID = "S6-recall-generated"
THRESHOLD = 0.8
UNIONS = (5, 10, 20, 50, 150, 500, 1500, 5000)
# Pairs for each union, and how many of them share a seed. MinHash reads every element once a row: fewer, smaller.
_PAIRS: dict[tuple[str, Size], int] = {
    ("one_permutation", "smoke"): 400, ("one_permutation", "default"): 20_000, ("one_permutation", "large"): 100_000,
    ("minhash", "smoke"): 100, ("minhash", "default"): 4000, ("minhash", "large"): 10_000,
}  # fmt: skip
_UNION_MAX: dict[tuple[str, Size], int] = {
    ("one_permutation", "smoke"): 500, ("minhash", "smoke"): 50, ("minhash", "default"): 500,
}  # fmt: skip
_PAIRS_A_SEED = 20
# Bounds that a fair value crosses in one of some 700 readings.
_DEVIATIONS = 3.0


class Outcome(NamedTuple):
    """What became of pairs of one similarity: how many, candidates, emitted; their estimates."""

    pairs: int
    candidates: int
    emitted: int
    estimate_mean: float
    estimate_deviation: float


def pairs_of_sets(rng: np.random.Generator, pairs: int, union: int, common: int) -> Features:
    """Sets 2i and 2i + 1 have ``common`` elements of a union of ``union``; the rest is shared out evenly."""
    left = common + (union - common) // 2
    right = union - left + common
    elements = rng.integers(0, 1 << 64, (pairs, union), np.uint64, endpoint=False)
    both = np.concatenate([elements[:, :left], elements[:, :common], elements[:, left:]], axis=1)
    starts = np.zeros(2 * pairs + 1, np.int64)
    starts[1:] = np.cumsum(np.tile([left, right], pairs))
    return Features(both.reshape(-1), starts)


def meet(left: Keys, right: Keys) -> npt.NDArray[np.bool_]:
    """Whether item i of the left shares a key with item i of the right, ``bool[n]``."""
    count = len(left.starts) - 1
    pairs = [np.repeat(np.arange(count), np.diff(keys.starts)) for keys in (left, right)]
    shared = [
        set(zip(pair.tolist(), keys.values.tolist(), strict=True))
        for pair, keys in zip(pairs, (left, right), strict=True)
    ]
    met = np.zeros(count, np.bool_)
    met[[pair for pair, _ in shared[0] & shared[1]]] = True
    return met


def measure(config: Config, union: int, similarity: float, pairs: int, seed: int) -> Outcome:
    """Emit or not: the path of a pair through the scheme, from features to the cut."""
    scheme, rng = SCHEMES[config.scheme], np.random.default_rng([seed, union])
    common = round(similarity * union)
    assert abs(common / union - similarity) < 1e-9, f"no union of {union} has similarity {similarity}"
    candidates = emitted = 0
    estimates = []
    for first in range(0, pairs, _PAIRS_A_SEED):
        plan = config.plan._replace(seed=seed * 1_000_003 + first)
        features = pairs_of_sets(rng, min(_PAIRS_A_SEED, pairs - first), union, common)
        evidence = scheme.evidence(features, plan)
        places = np.arange(len(features.starts) - 1)
        left, right = evidence.take(places[::2]), evidence.take(places[1::2])
        found = scheme.common(left, right, plan)
        met = meet(scheme.keys(left, plan), scheme.keys(right, plan))
        assert (met == (found.first_key >= 0)).all(), "the keys and the evidence disagree"
        candidates += int(met.sum())
        emitted += int((met & (found.similarity >= config.tuning.cut)).sum())
        estimates.append(found.similarity)
    estimate = np.concatenate(estimates)
    return Outcome(pairs, candidates, emitted, float(estimate.mean()), float(estimate.std(ddof=1)))


def run(size: Size) -> Iterator[Result]:
    """Recall at the threshold and bias, for each scheme of sets and size of the sets."""
    for scheme in dict.fromkeys(name for name, _ in _PAIRS):
        config = Config(scheme=scheme, threshold=THRESHOLD)
        pairs, most = _PAIRS.get((scheme, size), 400), _UNION_MAX.get((scheme, size), max(UNIONS))
        tuning = config.tuning
        for union in (union for union in UNIONS if union <= most):
            got = measure(config, union, THRESHOLD, pairs, SEED)
            chance = _DEVIATIONS * math.sqrt(config.recall * (1 - config.recall) / pairs)
            details: dict[str, Any] = {
                "shape": f"{tuning.bands} x {tuning.rows}", "cut": tuning.cut, "pairs": pairs,
                "candidates": got.candidates / pairs, "checksum": checksum([got]),
            }  # fmt: skip
            name = f"{scheme}, union of {union:,}"
            target = Target("at least", config.recall, chance)
            yield Result(ID, f"{name}: recall at {THRESHOLD}", got.emitted / pairs, "", target, details)
            noise = _DEVIATIONS * got.estimate_deviation / math.sqrt(pairs)
            binomial = math.sqrt(THRESHOLD * (1 - THRESHOLD) / (tuning.bands * tuning.rows))
            yield Result(
                ID, f"{name}: bias", abs(got.estimate_mean - THRESHOLD), "", Target("at most", 0.0, noise),
                {"mean": got.estimate_mean, "deviation": got.estimate_deviation, "binomial": binomial},
            )  # fmt: skip


SCENARIOS = {ID: run}
