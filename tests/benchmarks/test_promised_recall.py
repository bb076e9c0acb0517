"""The promise of recall: what pairs get from real signatures, and small sets from one permutation.

Two oracles next to arithmetic: the exact law of the rows of one permutation, worked out round by round, and
the real signatures of random pairs of sets of a known similarity, sketched, banded and cut.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from exact_chances import binomial, emitted_if

from neardup.schemes.signatures import one_permutation
from neardup.schemes.signatures.banding import agreement, sketch
from neardup.schemes.theory.curves import emission_probability
from neardup.schemes.theory.tuning import Tuning, choose
from neardup_textbook.signatures import minhash

# (threshold, recall): with margins wide and narrow, of sketches with one byte and with two bytes a row.
BYTES = [(0.5, 0.85), (0.7, 0.9), (0.8, 0.8), (0.8, 0.95), (0.9, 0.99), (0.95, 0.95)]
PAIRS_OF_BYTES = [(0.3, 0.8), (0.3, 0.9), (0.5, 0.95)]
TARGETS = [(*target, 8) for target in BYTES] + [(*target, 16) for target in PAIRS_OF_BYTES]
SIZES = [1, 2, 3, 5, 10, 30, 100, 1000, 5000]


def common_of(union: int, threshold: float) -> int:
    """The fewest common shingles of a union that make its similarity at least the threshold."""
    return math.ceil(threshold * union - 1e-9)


def thrown(balls: int, k: int) -> npt.NDArray[np.float64]:
    """[e, n]: the chance that ``balls`` thrown at k rows hit just n of e chosen ones."""
    hits = np.zeros((k + 1, k + 1))
    hits[:, 0] = 1.0
    chosen, hit = np.arange(k + 1)[:, None], np.arange(k + 1)[None, :]
    fresh = np.clip(chosen - hit, 0, None) / k
    for _ in range(balls):
        new = hits * (1 - fresh)
        new[:, 1:] += (hits * fresh)[:, :-1]
        hits = new
    return hits


def one_permutation_law(common: int, union: int, k: int, bits: int) -> npt.NDArray[np.float64]:
    """The chances of 0 to k agreeing rows of completed one-permutation sketches.

    In a round each shingle of the union hits one row; of the empty rows that are hit, each keeps one shingle,
    all different: a draw without replacement. A row agrees if what it keeps is common. What k rounds leave
    empty is filled by draws with replacement. Other rows agree by chance.
    """
    hits = thrown(union, k)
    draws = [
        np.array([math.comb(common, i) * math.comb(union - common, n - i) for i in range(n + 1)], float)
        / math.comb(union, n)
        for n in range(min(union, k) + 1)
    ]
    state = np.zeros((k + 1, k + 1))  # [filled, agreeing]
    state[0, 0] = 1.0
    for _ in range(k):
        new = np.zeros_like(state)
        new[k] = state[k]
        for filled in np.nonzero(state[:k].sum(axis=1) > 1e-14)[0]:
            for n in range(min(union, k - filled) + 1):
                new[filled + n] += hits[k - filled, n] * np.convolve(state[filled], draws[n])[: k + 1]
        state = new
    law = np.zeros(k + 1)
    for filled in range(k + 1):
        law += np.convolve(state[filled], binomial(k - filled, common / union))[: k + 1]
    with_chance = np.zeros(k + 1)
    for m in range(k + 1):
        with_chance[m:] += law[m] * binomial(k - m, 2.0**-bits)
    return with_chance


def emitted_share(scheme, tuning: Tuning, common: int, union: int, pairs: int, seed: int) -> float:
    """The emitted fraction of random pairs of sets, with ``common`` of ``union`` shingles in common."""
    random = np.random.default_rng((seed, union))
    here = common + (union - common) // 2
    sets: list[list[npt.NDArray[np.uint64]]] = [[] for _ in range(16)]  # by the seed they are signed with
    for i in range(pairs):
        shingles = random.integers(0, 2**64, union, dtype=np.uint64)
        sets[i % 16] += [shingles[:here], np.concatenate([shingles[:common], shingles[here:]])]
    rows = tuning.bands * tuning.rows
    signed = np.concatenate(
        [
            scheme.sign(np.concatenate(some), np.cumsum([0, *map(len, some)]), rows, seed + number)
            for number, some in enumerate(sets)
        ]
    )
    a, b = (sketch(side, tuning.sketch_bits) for side in (signed[0::2], signed[1::2]))
    met = agreement(a, b, tuning.bands, tuning.sketch_bits)
    return float(((met.bands > 0) & (met.rows >= tuning.agreements_min)).mean())


class TestSmallSets:
    @pytest.mark.parametrize(("threshold", "recall", "bits"), TARGETS)
    def test_one_permutation_does_better(self, threshold: float, recall: float, bits: int) -> None:
        """By its law, unions of 2 to 150 shingles beat independent rows, and those the promise."""
        chosen = choose(threshold, recall, sketch_bits=bits)
        shape, cut = (chosen.bands, chosen.rows), chosen.agreements_min
        emitted = emitted_if(*shape, cut)
        independent = float(emission_probability(threshold, *shape, cut, bits))
        for union in (2, 3, 5, 10, 30, 150):
            law = one_permutation_law(common_of(union, threshold), union, math.prod(shape), bits)
            assert law.sum() == pytest.approx(1.0)
            assert law @ emitted > independent >= chosen.recall >= recall

    def test_the_figures_of_the_default(self) -> None:
        """.988, .985 and .974 of the pairs at .8 for unions of 10, 150 and 500; .956 for independent rows."""
        emitted = emitted_if(18, 7, 93)
        shares = [one_permutation_law(union * 4 // 5, union, 126, 8) @ emitted for union in (10, 150, 500)]
        assert np.round(shares, 3).tolist() == [0.988, 0.985, 0.974]
        assert round(float(emission_probability(0.8, 18, 7, 93, 8)), 3) == 0.956

    def test_the_exact_law_equals_that_of_the_real_signatures(self) -> None:
        """The emitted share of 4,000 pairs is within four standard errors of it, for several sizes."""
        chosen = choose(0.8, 0.8, bands=14, rows=9)
        emitted = emitted_if(14, 9, chosen.agreements_min)
        for union in (5, 20, 100):
            expected = one_permutation_law(union * 4 // 5, union, 126, 8) @ emitted
            share = emitted_share(one_permutation, chosen, union * 4 // 5, union, 4000, seed=11)
            assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)

    @pytest.mark.parametrize("scheme", [one_permutation, minhash], ids=["one_permutation", "minhash"])
    def test_pairs_at_the_threshold_are_emitted_as_promised(self, scheme) -> None:
        """Real signatures, sketches, bands, cut: no share is four standard errors below, at any size."""
        short = []
        chosen_of = {target: choose(*target[:2], sketch_bits=target[2]) for target in TARGETS}
        for (threshold, recall, bits), union in itertools.product(TARGETS, SIZES):
            chosen = chosen_of[threshold, recall, bits]
            pairs = 300 if union < 1000 else 60
            share = emitted_share(scheme, chosen, common_of(union, threshold), union, pairs, seed=5)
            error = math.sqrt(chosen.recall * (1 - chosen.recall) / pairs)
            if share < chosen.recall - 4 * error:
                short.append((threshold, recall, union, share, chosen.recall))
        assert not short
