"""S6: recall of emitted pairs at the threshold, and the bias of the estimate, on sets of exactly known similarity.

A pair has a union of u elements, J u of them in common, for u from 5 to 5,000. Every pair draws new elements, and the
seed of the scheme changes every few pairs, so that pairs are independent. (A union of fewer than 5 elements cannot have
similarity .8.)

Two more scenarios: recall if similarity is measured on the elements (then a missed pair was no candidate); and the
distance of families of permutations from min-wise on small regular sets, where linear functions are worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from benchmarks.recall.minwise import Numbers, bias, first_fractions, linear_family
from benchmarks.report import Result, Size, Target, checksum
from neardup import Config
from neardup.documents.document import Features
from neardup.schemes.interface import Keys
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.rows import SCHEMES
from neardup_textbook.signatures import minhash, permutation

SEED = 6
ID, EXACT_ID, MINWISE_ID = "S6-recall-generated", "S6-recall-exact", "S6-minwise"
THRESHOLD = 0.8
UNIONS = (5, 10, 20, 50, 150, 500, 1500, 5000)


class Row(NamedTuple):
    """The measured sets of a scheme: pairs of each union by size, and the least and greatest unions by size.

    MinHash reads every element once a row: fewer pairs, smaller sets. Schemes with infinite rows promise their recall
    for sets that leave few rows infinite.
    """

    pairs: dict[Size, int]
    union_max: dict[Size, int]
    union_min: int = UNIONS[0]


_SLOW = Row({"smoke": 100, "default": 4000, "large": 10_000}, {"smoke": 50, "default": 500, "large": 5000})
_FAST = Row({"smoke": 400, "default": 20_000, "large": 100_000}, {"smoke": 500, "default": 5000, "large": 5000})
ROWS: dict[str, Row] = {
    "one_permutation": _FAST,
    "minhash": _SLOW,
    "permutation": _SLOW,
    "partial_minhash": Row(_SLOW.pairs, {"smoke": 150, "default": 1500, "large": 5000}, 150),
    "grouped": Row(_FAST.pairs, {"smoke": 1500, "default": 5000, "large": 5000}, 1500),
}
_PAIRS_A_SEED = 20
# A correct value crosses the bounds in about one of 700 measurements.
_DEVIATIONS = 3.0


class Outcome(NamedTuple):
    """The results of pairs of one similarity: their number, candidates, emitted pairs, estimates."""

    pairs: int
    candidates: int
    emitted: int
    estimate_mean: float
    estimate_deviation: float


def pairs_of_sets(rng: np.random.Generator, pairs: int, union: int, common: int) -> Features:
    """Sets 2i and 2i + 1 have ``common`` elements of a union of ``union``; each gets half of the rest."""
    left = common + (union - common) // 2
    right = union - left + common
    elements = rng.integers(0, 1 << 64, (pairs, union), np.uint64, endpoint=False)
    both = np.concatenate([elements[:, :left], elements[:, :common], elements[:, left:]], axis=1)
    starts = np.zeros(2 * pairs + 1, np.int64)
    starts[1:] = np.cumsum(np.tile([left, right], pairs))
    return Features(both.reshape(-1), starts)


def share_keys(left: Keys, right: Keys) -> npt.NDArray[np.bool_]:
    """Whether item i of the left shares a key with item i of the right, ``bool[n]``."""
    count = len(left.starts) - 1
    pairs = [np.repeat(np.arange(count), np.diff(keys.starts)) for keys in (left, right)]
    shared = [
        set(zip(pair.tolist(), keys.values.tolist(), strict=True))
        for pair, keys in zip(pairs, (left, right), strict=True)
    ]
    shares_key = np.zeros(count, np.bool_)
    shares_key[[pair for pair, _ in shared[0] & shared[1]]] = True
    return shares_key


def measure(config: Config, union: int, similarity: float, pairs: int, seed: int) -> Outcome:
    """Emit or not: the path of a pair through the scheme, from features to the cut."""
    scheme, rng = SCHEMES[config.scheme], np.random.default_rng([seed, union])
    common = round(similarity * union)
    assert abs(common / union - similarity) < 1e-9, f"no union of {union} has similarity {similarity}"
    candidates = emitted = 0
    estimates = []
    for first in range(0, pairs, _PAIRS_A_SEED):
        plan = cast(SetPlan, config.plan)._replace(seed=seed * 1_000_003 + first)
        features = pairs_of_sets(rng, min(_PAIRS_A_SEED, pairs - first), union, common)
        evidence = scheme.evidence(features, plan)
        places = np.arange(len(features.starts) - 1)
        left, right = evidence.select(places[::2]), evidence.select(places[1::2])
        found = scheme.common(left, right, plan)
        shares_key = share_keys(scheme.keys(left, plan), scheme.keys(right, plan))
        assert (shares_key == (found.keys > 0)).all(), "the keys and the evidence disagree"
        candidates += int(shares_key.sum())
        emitted += int((shares_key & (found.similarity >= config.tuning.score_min)).sum())
        estimates.append(found.similarity)
    estimate = np.concatenate(estimates)
    return Outcome(pairs, candidates, emitted, float(estimate.mean()), float(estimate.std(ddof=1)))


def run(size: Size) -> Iterator[Result]:
    """Recall at the threshold and bias, for each scheme of sets and size of the sets."""
    for scheme, row in ROWS.items():
        config = Config(scheme=scheme, threshold=THRESHOLD)
        pairs, tuning = row.pairs[size], config.tuning
        for union in (union for union in UNIONS if row.union_min <= union <= row.union_max[size]):
            got = measure(config, union, THRESHOLD, pairs, SEED)
            chance = _DEVIATIONS * math.sqrt(config.recall * (1 - config.recall) / pairs)
            details: dict[str, Any] = {
                "shape": f"{tuning.bands} x {tuning.rows}", "cut": tuning.score_min, "pairs": pairs,
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


def run_exact(size: Size) -> Iterator[Result]:
    """Recall at several thresholds if similarity is measured: it is equal to the recall of candidates."""
    pairs = _FAST.pairs[size] // 2
    for threshold, rows_max in ((0.5, 256), (0.8, 128), (0.95, 128)):
        config = Config(threshold=threshold, verify="exact", rows_max=rows_max)
        tuning = config.tuning
        for union in (100, 500):
            got = measure(config, union, threshold, pairs, SEED)
            assert got.emitted == got.candidates, "a candidate on the threshold was not emitted"
            chance = _DEVIATIONS * math.sqrt(config.recall * (1 - config.recall) / pairs)
            yield Result(
                EXACT_ID, f"union of {union:,}: recall at {threshold}", got.emitted / pairs, "",
                Target("at least", config.recall, chance),
                {"shape": f"{tuning.bands} x {tuning.rows}", "pairs": pairs, "checksum": checksum([got])},
            )  # fmt: skip


# Small sets: regular ones, and one of hashed elements.
_REGULAR = {
    "0 to 4": range(5),
    "0 to 9": range(10),
    "every 7th to 63": range(0, 70, 7),
    "squares": [0, 1, 4, 9, 16, 25],
}
_PRIME = 101


def run_minwise(size: Size) -> Iterator[Result]:
    """The bias of families of permutations: the largest relative error of an element's share of first places.

    The test counts every a x + b mod 101. From the families of the schemes it draws a sample, so their bias has the
    noise of the sample.
    """
    a, b = linear_family(_PRIME)
    rows = {"smoke": 4000, "default": 100_000, "large": 1_000_000}[size]
    hashed = np.random.default_rng(SEED).integers(0, 1 << 64, 10, np.uint64)
    sets = {**{name: np.array(list(x), np.uint64) for name, x in _REGULAR.items()}, "ten hashed elements": hashed}
    for name, elements in sets.items():
        if name in _REGULAR:
            fractions = first_fractions(elements, lambda v, s: minhash.sign_linear(v, s, a, b, _PRIME))
            least = 1 / (2 * (len(elements) - 1))
            yield Result(
                MINWISE_ID, f"a x + b mod {_PRIME}, {name}: least share", float(fractions.min()), "",
                Target("at least", least), {"bias": bias(fractions), "shares": fractions.round(4).tolist()},
            )  # fmt: skip
        for family, sign in (("minhash", minhash.sign), ("permutation", permutation.sign)):
            parts = [
                first_fractions(elements, _seeded(sign, min(rows, 4000), seed)) for seed in range(-(-rows // 4000))
            ]
            value = bias(np.mean(parts, axis=0))
            noise = 4 * math.sqrt((len(elements) - 1) / rows)
            fair = family == "permutation" or name not in _REGULAR
            yield Result(
                MINWISE_ID, f"{family}, {name}: bias", value, "", Target("at most", 0.0, noise) if fair else None,
                {"rows": rows, "noise": noise},
            )  # fmt: skip


def _seeded(
    sign: Callable[[Numbers, npt.NDArray[np.int64], int, int], Numbers], rows: int, seed: int
) -> Callable[[Numbers, npt.NDArray[np.int64]], Numbers]:
    return lambda values, starts: sign(values, starts, rows, seed)


SCENARIOS = {ID: run, EXACT_ID: run_exact, MINWISE_ID: run_minwise}
