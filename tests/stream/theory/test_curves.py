"""Curves: against known numbers, exact fractions and sums over fine steps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exact_chances import binomial, emitted_if, fractions_of, tail
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup.errors import ConfigError
from neardup.schemes.declared import ROWS_LIMIT
from neardup.schemes.theory.curves import (
    candidate_probability,
    emission_probability,
    error_areas,
    half_point,
    pass_probability,
    row_agreement,
    similarity_at,
    threshold_step,
)

SIMILARITIES = st.floats(0.0, 1.0)
BITS = st.sampled_from([0, 8, 16, 32])


def of_angles(s):
    """Hyperplanes: the cosine's angle, as a fraction of 180 degrees, is how often a side differs."""
    return 1 - np.degrees(np.arccos(s)) / 180


class TestCurves:
    def test_the_curve_of_20_bands_of_5_rows_matches_the_book(self) -> None:
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
        """All curves rise with similarity, and candidates with bands; more rows or a higher ``score_min`` lower
        them."""
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
        """A table of 2 similarities by 3 least scores: 0 always passes, an impossible one never."""
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
    @examples(40)
    @given(st.integers(1, 40), st.integers(1, 20), st.floats(0.0, 1.0), BITS)
    def test_areas_equal_those_of_the_curve(self, bands: int, rows: int, threshold: float, bits: int) -> None:
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

    def test_areas_under_another_agreement_equal_those_of_its_curve(self) -> None:
        """Hyperplanes, 20 bands of 5: against sums over 40,000 steps either side of .7."""
        below, beyond = error_areas(20, 5, 0.7, 1, of_angles)
        middles = (np.arange(40_000) + 0.5) / 40_000
        low, high = middles * 0.7, 0.7 + middles * 0.3
        assert below == pytest.approx(0.7 * candidate_probability(low, 20, 5, 1, of_angles).mean(), abs=1e-6)
        assert beyond == pytest.approx(0.3 * (1 - candidate_probability(high, 20, 5, 1, of_angles)).mean(), abs=1e-6)


class TestSeveralBands:
    @pytest.mark.parametrize(("bands", "rows"), [(4, 3), (6, 2), (1, 5), (3, 1)])
    def test_the_curve_of_several_bands_is_counted_out(self, bands: int, rows: int) -> None:
        """Against every pattern of agreeing rows, for each number of bands asked; the tails and the emitted pairs."""
        patterns = np.array(list(product([0, 1], repeat=bands * rows)))
        full = patterns.reshape(-1, bands, rows).all(axis=2).sum(axis=1)
        agreeing = patterns.sum(axis=1)
        for s in (0.2, 0.7):
            chances = s**agreeing * (1 - s) ** (bands * rows - agreeing)
            for least in range(1, bands + 2):
                candidate = candidate_probability(s, bands, rows, bands_min=least)
                assert float(candidate) == pytest.approx(chances[full >= least].sum(), abs=1e-12)
                emitted = emission_probability(s, bands, rows, 3, bands_min=least)
                both = (full >= least) & (agreeing >= 3)
                assert float(emitted) == pytest.approx(chances[both].sum(), abs=1e-12)

    def test_areas_of_several_bands_equal_those_of_their_curve(self) -> None:
        """Against 4,000 steps either side of .6."""
        below, beyond = error_areas(10, 4, 0.6, bands_min=3)
        middles = (np.arange(4000) + 0.5) / 4000
        assert below == pytest.approx(0.6 * candidate_probability(0.6 * middles, 10, 4, bands_min=3).mean(), abs=1e-6)
        past = candidate_probability(0.6 + 0.4 * middles, 10, 4, bands_min=3)
        assert beyond == pytest.approx(0.4 * (1 - past).mean(), abs=1e-6)


class TestAgreement:
    def test_a_row_of_one_bit_never_agrees_by_chance_beyond_its_law(self) -> None:
        """A right angle leaves one half, 60 degrees two thirds; with 8 bits of a hash a little more."""
        assert row_agreement([0.0, 0.5, 1.0], 1, of_angles) == pytest.approx([1 / 2, 2 / 3, 1])
        assert row_agreement([0.0], 8, of_angles) == pytest.approx([1 / 2 + 1 / 512])
        assert row_agreement([0.25], 1) == 0.25

    @given(st.floats(0.0, 1.0), BITS, st.sampled_from([None, of_angles, np.square]))
    def test_the_similarity_of_a_fraction_of_rows_is_the_least_that_has_it(self, s: float, bits: int, law) -> None:
        """Inverting the agreement gives the similarity back."""
        back = similarity_at(float(row_agreement(s, bits, law)), bits, law)
        assert back == pytest.approx(s, abs=1e-7)
        assert similarity_at(0.0, bits, law) == 0.0
