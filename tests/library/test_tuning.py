"""Tuning: the curves against known numbers and exact fractions, the choice, and the recall that pairs get.

Two oracles beside arithmetic: the exact law of the rows of one permutation, worked out round by round, and
the real signatures of random pairs of sets of a known similarity, sketched, banded and cut.
"""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.banding import agreement, estimate, sketch
from stream.errors import ConfigError
from stream.signatures import minhash, one_permutation
from stream.tuning import (
    ROWS_LIMIT,
    Tuning,
    candidate_probability,
    choose,
    curve,
    emission_probability,
    error_areas,
    half_point,
    pass_probability,
    row_agreement,
    threshold_step,
)

SIMILARITIES = st.floats(0.0, 1.0)
BITS = st.sampled_from([0, 8, 16, 32])
# (threshold, recall): with margins wide and narrow, of sketches with one byte and with two bytes a row.
BYTES = [(0.5, 0.85), (0.7, 0.9), (0.8, 0.8), (0.8, 0.95), (0.9, 0.99), (0.95, 0.95)]
PAIRS_OF_BYTES = [(0.3, 0.8), (0.3, 0.9), (0.5, 0.95)]
TARGETS = [(*target, 8) for target in BYTES] + [(*target, 16) for target in PAIRS_OF_BYTES]
SIZES = [1, 2, 3, 5, 10, 30, 100, 1000, 5000]


def common_of(union: int, threshold: float) -> int:
    """The fewest common shingles of a union that make its similarity at least the threshold."""
    return math.ceil(threshold * union - 1e-9)


def fractions_of(s: float, bits: int) -> Fraction:
    chance = Fraction(1, 2**bits) if bits else Fraction(0)
    return Fraction(s) + (1 - Fraction(s)) * chance


def tail(q: Fraction, least: int, n: int) -> Fraction:
    terms = (math.comb(n, m) * q**m * (1 - q) ** (n - m) for m in range(max(least, 0), n + 1))
    return sum(terms, Fraction(0))


def binomial(n: int, q: float) -> npt.NDArray[np.float64]:
    return np.array([math.comb(n, m) * q**m * (1 - q) ** (n - m) for m in range(n + 1)])


def emitted_if(bands: int, rows: int, agreements_min: int) -> npt.NDArray[np.float64]:
    """The chance that a pair with just m agreeing rows, anywhere, is emitted; by exact counting."""
    total, ways = bands * rows, np.array([1], object)
    for _ in range(bands):
        ways = np.convolve(ways, np.array([math.comb(rows, i) for i in range(rows)], object))
    ways = [*ways, *[0] * (total + 1 - len(ways))]
    chances = [float(1 - Fraction(way, math.comb(total, m))) for m, way in enumerate(ways)]
    return np.array([chance if m >= agreements_min else 0.0 for m, chance in enumerate(chances)])


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
    """The share of random pairs of sets, ``common`` of ``union`` shingles alike, that come out at the end."""
    random = np.random.default_rng((seed, union))
    here = common + (union - common) // 2
    sides: list[list[npt.NDArray[np.uint64]]] = [[], []]
    for i in range(pairs):
        shingles = random.integers(0, 2**64, union, dtype=np.uint64)
        a, b = shingles[:here], np.concatenate([shingles[:common], shingles[here:]])
        starts = np.array([0, len(a), len(a) + len(b)])
        signed = scheme.sign(np.concatenate([a, b]), starts, tuning.bands * tuning.rows, seed + i % 16)
        for side, row in zip(sides, signed, strict=True):
            side.append(row)
    a, b = (sketch(np.array(side), tuning.sketch_bits) for side in sides)
    met = agreement(a, b, tuning.bands, tuning.sketch_bits)
    return float(((met.first_band >= 0) & (met.rows >= tuning.agreements_min)).mean())


class TestCurves:
    def test_the_curve_of_20_bands_of_5_rows_is_that_of_the_book(self) -> None:
        """1 - (1 - s^5)^20 at .2 to .8; and the design's figures for 18 x 7 and 21 x 6 at .8."""
        s = np.arange(2, 9) / 10
        expected = [0.006, 0.047, 0.186, 0.470, 0.802, 0.975, 0.9996]
        assert [round(p, 4 if p > 0.999 else 3) for p in candidate_probability(s, 20, 5).tolist()] == expected
        assert round(1 / (1 - float(candidate_probability(0.8, 20, 5))), -2) == 2800
        assert round(float(candidate_probability(0.3, 20, 5)), 4) == 0.0475
        assert round(float(candidate_probability(0.8, 18, 7)), 4) == 0.9855
        assert round(float(candidate_probability(0.8, 21, 6)), 3) == 0.998

    def test_a_row_the_steep_point_and_the_half_point(self) -> None:
        """A row agrees by chance, too; 16 x 4 is steep at one half; 20 x 5 is one half at .51."""
        assert row_agreement([0.0, 0.5, 1.0], 8).tolist() == [1 / 256, 257 / 512, 1.0]
        assert threshold_step(16, 4) == 0.5
        assert round(half_point(20, 5), 2) == 0.51
        for bands, rows in ((16, 4), (20, 5), (1, 1), (18, 7), (1000, 1)):
            assert float(candidate_probability(half_point(bands, rows), bands, rows)) == pytest.approx(0.5)

    @given(SIMILARITIES, st.integers(1, 40), st.integers(1, 20), BITS)
    def test_the_curve_is_the_exact_one(self, s: float, bands: int, rows: int, bits: int) -> None:
        """Against fractions, to a relative error, at both ends too."""
        exact = float(1 - (1 - fractions_of(s, bits) ** rows) ** bands)
        found = float(candidate_probability(s, bands, rows, bits))
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-300)

    @given(st.integers(1, 40), st.integers(1, 16), BITS, st.integers(0, 40))
    def test_every_curve_is_monotonic(self, bands: int, rows: int, bits: int, cut: int) -> None:
        """All rise with similarity, candidates with bands, too; more rows or a higher cut leave less."""
        s = np.linspace(0, 1, 41)
        curve_ = candidate_probability(s, bands, rows, bits)
        passed = pass_probability(s, cut, bands * rows, bits)
        emitted = emission_probability(s, bands, rows, cut, bits)
        for rising in (curve_, passed, emitted):
            assert (np.diff(rising) >= -1e-12).all()
            assert ((rising >= 0) & (rising <= 1 + 1e-12)).all()
        assert (candidate_probability(s, bands + 1, rows, bits) >= curve_).all()
        assert (candidate_probability(s, bands, rows + 1, bits) <= curve_).all()
        assert (pass_probability(s, cut + 1, bands * rows, bits) <= passed + 1e-15).all()


class TestTail:
    @given(SIMILARITIES, st.integers(1, 60), st.integers(-2, 63), BITS)
    def test_the_tail_is_the_exact_one(self, s: float, n: int, least: int, bits: int) -> None:
        """Against integer arithmetic, with small tails to a relative error."""
        exact = float(tail(fractions_of(s, bits), least, n))
        assert float(pass_probability(s, least, n, bits)) == pytest.approx(exact, rel=1e-9, abs=1e-290)

    @pytest.mark.parametrize("n", [126, 128, ROWS_LIMIT])
    def test_the_tail_of_long_signatures(self, n: int) -> None:
        """Around the mean and far from it, at the lengths in use."""
        for s, share in ((0.8125, 0.73), (0.75, 0.99), (0.25, 0.9), (0.96875, 0.9)):
            least = int(share * n)
            exact = float(tail(fractions_of(s, 8), least, n))
            assert float(pass_probability(s, least, n, 8)) == pytest.approx(exact, rel=1e-8)

    def test_similarities_and_cuts_are_broadcast(self) -> None:
        """A table of 2 similarities by 3 cuts; no cut always passes, an impossible one never."""
        table = pass_probability(np.array([[0.0], [1.0]]), np.array([0, 2, 3]), 2)
        assert table.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]

    @given(SIMILARITIES, st.integers(1, 6), st.integers(1, 5), st.data())
    def test_emission_is_no_less_than_the_product(self, s: float, bands: int, rows: int, data) -> None:
        """It is the exact sum over how many rows agree; the two events help each other."""
        cut = data.draw(st.integers(-1, bands * rows + 1))
        exact = binomial(bands * rows, float(row_agreement(s, 8))) @ emitted_if(bands, rows, cut)
        emitted = float(emission_probability(s, bands, rows, cut, 8))
        product = candidate_probability(s, bands, rows, 8) * pass_probability(s, cut, bands * rows, 8)
        assert emitted == pytest.approx(float(exact), rel=1e-9, abs=1e-14)
        assert emitted >= float(product) - 1e-13


class TestAreas:
    @settings(max_examples=40)
    @given(st.integers(1, 40), st.integers(1, 20), st.floats(0.0, 1.0), BITS)
    def test_areas_are_those_of_the_curve(self, bands: int, rows: int, threshold: float, bits: int) -> None:
        """Against sums over fine steps either side of the threshold."""
        below, beyond = error_areas(bands, rows, threshold, bits)
        middles = (np.arange(4000) + 0.5) / 4000
        curve_below = candidate_probability(middles * threshold, bands, rows, bits)
        curve_beyond = candidate_probability(threshold + middles * (1 - threshold), bands, rows, bits)
        assert below == pytest.approx(curve_below.mean() * threshold, abs=1e-5)
        assert beyond == pytest.approx((1 - curve_beyond).mean() * (1 - threshold), abs=1e-5)

    def test_the_shortest_and_the_longest_have_exact_areas_and_a_longer_is_refused(self) -> None:
        """1024 rows are the limit of exact counts; one row has triangles for areas."""
        below, beyond = error_areas(64, 16, 0.8, 8)
        middles = (np.arange(20000) + 0.5) / 20000
        assert below == pytest.approx(0.8 * candidate_probability(0.8 * middles, 64, 16, 8).mean(), abs=1e-8)
        assert 0 < beyond < 0.01
        assert error_areas(1, 1, 0.6) == pytest.approx((0.18, 0.08))
        with pytest.raises(ConfigError, match="65 bands of 16 rows are 1040 rows, above 1024"):
            error_areas(65, 16, 0.8)


class TestChoice:
    def test_the_choices_at_common_targets(self) -> None:
        """Bands, rows and agreements; a change of any is a new generation for those who run with defaults."""
        choices = {
            (0.8, 0.95, 8): (18, 7, 93),
            (0.5, 0.95, 16): (42, 3, 54),
            (0.9, 0.99, 8): (14, 9, 105),
            (0.7, 0.9, 8): (25, 5, 81),
            (0.3, 0.9, 16): (60, 2, 30),
            (1.0, 0.99, 8): (1, 128, 128),
        }
        for (threshold, recall, bits), expected in choices.items():
            chosen = choose(threshold, recall, sketch_bits=bits)
            assert (chosen.bands, chosen.rows, chosen.agreements_min) == expected

    def test_the_default_does_not_hang_on_the_weight_of_a_false_pair(self) -> None:
        """18 x 7 from one and a half to thirty; only the extremes choose otherwise."""
        shapes = [choose(0.8, 0.95, false_pair_weight=weight)[:2] for weight in (0, 1.5, 10, 30, 1e6)]
        assert shapes == [(13, 7), (18, 7), (18, 7), (18, 7), (25, 5)]

    @pytest.mark.parametrize("bits", [8, 16, 32])
    @pytest.mark.parametrize("threshold", [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97])
    def test_recall_is_reached_with_the_highest_cut_or_refused(self, threshold: float, bits: int) -> None:
        """For recalls of .8 to .99: all figures fit together, and a refusal means that no shape could."""
        shapes = [(b, r) for r in range(32 // bits, 129) for b in range(1, 128 // r + 1)]
        best = max(float(candidate_probability(threshold, *shape, bits)) for shape in shapes)
        for recall in (0.8, 0.9, 0.95, 0.99):
            if best < recall:
                with pytest.raises(ConfigError, match=f"recall {recall} at threshold {threshold}"):
                    choose(threshold, recall, sketch_bits=bits)
                continue
            chosen = choose(threshold, recall, sketch_bits=bits)
            total = chosen.bands * chosen.rows
            assert recall <= chosen.recall == chosen.candidate_probability * chosen.pass_probability
            assert (chosen.bands, chosen.rows) in shapes
            assert chosen.cut == estimate(np.array([chosen.agreements_min], np.int32), total, bits)[0]
            assert 0 <= chosen.margin == threshold - chosen.cut
            higher = pass_probability(threshold, chosen.agreements_min + 1, total, bits)
            assert chosen.candidate_probability * float(higher) < recall

    def test_the_remedies_of_a_refusal_work(self) -> None:
        """The recall, the rows and the bits that the message names are enough; the rows are the fewest."""
        with pytest.raises(ConfigError) as refused:
            choose(0.5, 0.95)
        message = r"recall of (\S+) or less, or set rows_max to (\d+), or set sketch_bits to (\d+)"
        found = re.search(message, str(refused.value))
        assert choose(0.5, float(found[1])).recall >= float(found[1])
        assert choose(0.5, 0.95, rows_max=int(found[2])).recall >= 0.95
        assert choose(0.5, 0.95, sketch_bits=int(found[3])).recall >= 0.95
        with pytest.raises(ConfigError, match="out of reach"):
            choose(0.5, 0.95, rows_max=int(found[2]) - 1)
        with pytest.raises(ConfigError, match="leave bands out and set rows_max to 136"):
            choose(0.8, 0.95, bands=8, rows=8)
        assert choose(0.8, 0.95, rows=8, rows_max=136).bands == 17
        with pytest.raises(ConfigError, match=r"or less, or leave bands out$"):
            choose(0.8, 0.95, bands=2)

    def test_given_bands_and_rows_are_kept(self) -> None:
        """One of them, the other, or both."""
        assert choose(0.8, 0.95, bands=21, rows=6)[:2] == (21, 6)
        assert choose(0.8, 0.95, rows=6).rows == 6
        assert choose(0.8, 0.95, bands=25)[:2] == (25, 5)
        assert choose(0.8, 0.95, rows=1, sketch_bits=32).rows == 1

    def test_given_min_similarity_replaces_the_cut(self) -> None:
        """Recall is then what results, even below what was asked, and where nothing reaches it."""
        exact = choose(0.8, 0.95, min_similarity=0.8)
        assert exact[:2] == choose(0.8, 0.95)[:2]
        assert 0.4 < exact.recall < 0.6
        everything = choose(0.8, 0.95, min_similarity=0.0)
        assert (everything.agreements_min, everything.cut, everything.pass_probability) == (0, 0.0, 1.0)
        assert choose(0.8, 0.95, min_similarity=1.0).agreements_min == 126
        assert choose(0.5, 0.95, min_similarity=0.3)[:2] == (32, 4)

    @given(st.floats(0.0, 1.0), st.sampled_from([8, 16, 32]))
    def test_the_cut_admits_just_the_estimates_from_min_similarity_on(self, least: float, bits: int) -> None:
        """Counting rows and comparing estimates say the same."""
        chosen = choose(0.8, 0.9, sketch_bits=bits, bands=18, rows=7, min_similarity=least)
        estimates = estimate(np.arange(127, dtype=np.int32), 126, bits)
        assert (estimates[chosen.agreements_min :] >= least - 1e-9).all()
        assert (estimates[: chosen.agreements_min] < least).all()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"threshold": 0.0}, "threshold is 0.0, but must be above 0"),
            ({"threshold": math.nan}, "threshold is nan"),
            ({"recall": 1.0}, "recall is 1.0, but must lie between 0 and 1"),
            ({"sketch_bits": 12}, r"sketch_bits is 12, but must be one of \(8, 16, 32\)"),
            ({"rows_max": 4096}, "rows_max is 4096, but must be 1 to 1024"),
            ({"min_similarity": 1.5}, "min_similarity is 1.5, but must be 0 to 1"),
            ({"false_pair_weight": -1.0}, "false_pair_weight is -1.0"),
            ({"rows": 0}, "rows is 0, but must be 1 or more"),
            ({"rows": 1}, "set rows to 4 or more, or sketch_bits to 32"),
            ({"rows": 3}, "rows to 4 or more, or sketch_bits to 16"),
            ({"bands": 64}, "rows_max is 128: take fewer bands or rows, or set rows_max to 256"),
            ({"bands": 20, "rows": 7}, "set rows_max to 140"),
        ],
    )
    def test_what_cannot_work_is_refused_with_a_remedy(self, options: dict[str, float], message: str) -> None:
        """Value, rule, remedy."""
        with pytest.raises(ConfigError, match=message):
            choose(**({"threshold": 0.8, "recall": 0.95} | options))


class TestPlot:
    def test_the_curve_passes_through_the_recall(self) -> None:
        """At the threshold the emitted share is the promise or a little more; never above candidates."""
        chosen = choose(0.8, 0.95)
        s, candidate, emitted = curve(chosen)
        assert len(s) == len(candidate) == len(emitted) == 101
        assert candidate[80] == chosen.candidate_probability
        assert chosen.recall <= emitted[80] < chosen.recall + 0.01
        assert (emitted <= candidate + 1e-12).all()
        assert curve(chosen, points=2)[2] == pytest.approx([0, 1])
        with pytest.raises(ConfigError, match="curve of 1 points"):
            curve(chosen, points=1)


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

    def test_the_exact_law_is_that_of_the_real_signatures(self) -> None:
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
        for (threshold, recall, bits), union in itertools.product(TARGETS, SIZES):
            chosen = choose(threshold, recall, sketch_bits=bits)
            pairs = 300 if union < 1000 else 60
            share = emitted_share(scheme, chosen, common_of(union, threshold), union, pairs, seed=5)
            error = math.sqrt(chosen.recall * (1 - chosen.recall) / pairs)
            if share < chosen.recall - 4 * error:
                short.append((threshold, recall, union, share, chosen.recall))
        assert not short
