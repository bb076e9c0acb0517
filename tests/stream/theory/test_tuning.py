"""Tuning: the choice, for every law of rows and every score."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import quick_first

from neardup.errors import ConfigError
from neardup.schemes.signatures.banding import estimate
from neardup.schemes.theory.curves import candidate_probability, emission_probability, pass_probability
from neardup.schemes.theory.tuning import (
    FALSE_PAIR_WEIGHT,
    UNRELATED_WEIGHT,
    Tuning,
    choose,
    complete,
    curve,
    keyed,
    probabilities,
)


def same(s):
    return s


def of_angles(s):
    return 1 - np.degrees(np.arccos(s)) / 180


def emitted_rows(agree: npt.NDArray[np.bool_], tuning: Tuning) -> npt.NDArray[np.bool_]:
    """Of rows bool[n, bands, rows]: whether a band agrees whole and enough rows do."""
    return agree.all(axis=2).any(axis=1) & (agree.sum(axis=(1, 2)) >= tuning.agreements_min)


def cost_of(tuning: Tuning) -> float:
    """The price of a shape, from fine sums of its curves."""
    law = (tuning.sketch_bits, tuning.agreement)
    s = (np.arange(500) + 0.5) / 500 * tuning.threshold
    emitted = 0.0
    if not tuning.exact_score:
        emitted = emission_probability(s, tuning.bands, tuning.rows, tuning.agreements_min, *law).mean()
    met = candidate_probability(s, tuning.bands, tuning.rows, *law).mean()
    paid = tuning.threshold * float(met + FALSE_PAIR_WEIGHT * emitted)
    if tuning.agreement is not None:
        paid += UNRELATED_WEIGHT * float(candidate_probability(0.0, tuning.bands, tuning.rows, *law))
    return paid


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
    @pytest.mark.parametrize("threshold", quick_first([0.8, 0.3, 0.97, 0.4, 0.5, 0.6, 0.7, 0.9, 0.95], 2))
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
            assert chosen.score_min == estimate(np.array([chosen.agreements_min], np.int32), total, bits)[0]
            assert 0 <= chosen.margin == threshold - chosen.score_min
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
        assert (everything.agreements_min, everything.score_min, everything.pass_probability) == (0, 0.0, 1.0)
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


class TestOtherLaws:
    def test_rows_that_agree_with_the_similarity_may_say_so_themselves(self) -> None:
        """The same choice and the same figures as without a law."""
        said, known = choose(0.8, 0.95, agreement=same), choose(0.8, 0.95)
        assert said[:8] == known[:8]
        assert said.score_min == pytest.approx(known.score_min, abs=1e-8)
        assert said.agreement is same

    @pytest.mark.parametrize("rows_max", quick_first([256, 1024], 1))
    @pytest.mark.parametrize("threshold", [0.7, 0.9])
    def test_hyperplanes_get_what_is_promised(self, threshold: float, rows_max: int) -> None:
        """20,000 pairs of bit rows that agree as angles do, banded and cut: at least the recall, and not much more."""
        chosen = choose(threshold, 0.95, rows_max, 1, agreement=of_angles)
        shape = (chosen.bands, chosen.rows)
        random = np.random.default_rng(3)
        q = float(of_angles(threshold))
        share = np.mean([emitted_rows(random.random((2000, *shape)) < q, chosen).mean() for _ in range(10)])
        exact = float(emission_probability(threshold, *shape, chosen.agreements_min, 1, of_angles))
        assert exact >= chosen.recall >= 0.95
        assert abs(share - exact) < 4 * math.sqrt(exact * (1 - exact) / 20_000)

    def test_unrelated_items_make_the_bands_of_bit_rows_wide(self) -> None:
        """Of 1,024 rows, with unrelated items at a right angle, fewer than one in 4,000 of them is a candidate."""
        chosen = choose(0.9, 0.95, 1024, 1, agreement=of_angles)
        assert candidate_probability(0.0, chosen.bands, chosen.rows, 1, of_angles) < 1 / 4000
        closer = choose(0.9, 0.95, 1024, 1, agreement=of_angles, unrelated=0.5)
        met = [candidate_probability(0.5, *shape, 1, of_angles) for shape in (closer[:2], chosen[:2])]
        assert met[0] < met[1]

    @pytest.mark.parametrize(
        ("threshold", "bits", "law"),
        [
            (0.6, 8, None),
            (0.8, 8, "square"),
            pytest.param(0.9, 1, "angles", marks=pytest.mark.long),
            pytest.param(0.9, 8, None, marks=pytest.mark.long),
            pytest.param(0.9, 8, "square", marks=pytest.mark.long),
            pytest.param(0.6, 1, "angles", marks=pytest.mark.long),
        ],
    )
    def test_no_shape_that_reaches_the_recall_costs_less(self, threshold: float, bits: int, law: str | None) -> None:
        """Every shape of 128 rows, priced one by one: false candidates, false pairs, unrelated candidates."""
        agreement = {None: None, "square": np.square, "angles": of_angles}[law]
        for exact_score in (False, True):
            chosen = choose(threshold, 0.9, sketch_bits=bits, agreement=agreement, exact_score=exact_score)
            costs = {}
            for rows, bands in itertools.product(range(1 if bits == 1 else 4, 129), range(1, 129)):
                met = candidate_probability(threshold, bands, rows, bits, agreement)
                if bands * rows <= 128 and met >= 0.9:
                    one = choose(
                        threshold, 0.9, sketch_bits=bits, bands=bands, rows=rows, agreement=agreement,
                        exact_score=exact_score,
                    )  # fmt: skip
                    costs[bands, rows] = cost_of(one)
            assert min(costs.values()) == pytest.approx(costs[chosen[:2]], rel=1e-6)

    @pytest.mark.parametrize("bands_min", [2, 4])
    def test_a_pair_that_must_meet_in_several_bands_still_gets_the_recall(self, bands_min: int) -> None:
        """20,000 pairs of rows that agree as .8 does: banded, counted and cut, they are emitted as the law says."""
        chosen = choose(0.8, 0.9, bands_min=bands_min)
        shape = (chosen.bands, chosen.rows)
        assert chosen.bands_min == bands_min
        assert (chosen.rows, chosen.bands) < (choose(0.8, 0.9).rows, 128)
        agree = np.random.default_rng(2).random((20_000, *shape)) < 0.8 + 0.2 / 256
        met = (agree.all(axis=2).sum(axis=1) >= bands_min) & (agree.sum(axis=(1, 2)) >= chosen.agreements_min)
        exact = float(emission_probability(0.8, *shape, chosen.agreements_min, 8, bands_min=bands_min))
        assert exact >= chosen.recall >= 0.9
        assert abs(met.mean() - exact) < 4 * math.sqrt(exact * (1 - exact) / 20_000)
        assert probabilities(chosen, np.array([0.8]))[1] == pytest.approx(exact)

    def test_more_bands_to_meet_in_than_there_are_is_refused(self) -> None:
        """A recall that so many rows cannot reach is refused with the number of rows that can."""
        with pytest.raises(ConfigError, match=r"a pair must meet in 5 bands, but bands is 4"):
            choose(0.8, 0.9, bands=4, bands_min=5)
        with pytest.raises(ConfigError, match=r"a pair must meet in 0 bands, but bands is left open"):
            choose(0.8, 0.9, bands_min=0)
        with pytest.raises(
            ConfigError, match=r"out of reach of 64 rows of 8 bits: .* or set rows_max to (\d+)"
        ) as refused:
            choose(0.8, 0.9, 64, bands_min=12)
        enough = int(str(refused.value).rpartition("rows_max to ")[2].partition(",")[0])
        assert choose(0.8, 0.9, enough, bands_min=12).recall >= 0.9
        with pytest.raises(ConfigError, match="out of reach"):
            choose(0.8, 0.9, enough - 1, bands_min=12)

    def test_an_exact_score_is_cut_at_the_threshold(self) -> None:
        """The recall is the candidate probability, and no rows are counted; ``min_similarity`` may be lower, not
        higher."""
        chosen = choose(0.8, 0.95, exact_score=True)
        assert (chosen.score_min, chosen.margin, chosen.agreements_min, chosen.pass_probability) == (0.8, 0.0, 0, 1.0)
        assert 0.95 <= chosen.recall == chosen.candidate_probability
        met, emitted = probabilities(chosen, np.array([0.79, 0.8, 0.9]))
        assert emitted.tolist() == [0.0, met[1], met[2]]
        assert choose(0.8, 0.95, exact_score=True, min_similarity=0.5).score_min == 0.5
        with pytest.raises(ConfigError, match=r"above the threshold of 0.8, but this score is no estimate"):
            choose(0.8, 0.95, exact_score=True, min_similarity=0.9)

    def test_a_complete_scheme_has_no_bands_and_emits_from_the_threshold_on(self) -> None:
        """Every pair is a candidate, as it were."""
        chosen = complete(0.8)
        assert (chosen.bands, chosen.recall, chosen.score_min, chosen.exact_score) == (0, 1.0, 0.8, True)
        met, emitted = probabilities(chosen, np.array([0.5, 0.8]))
        assert (met.tolist(), emitted.tolist()) == ([1, 1], [0, 1])

    def test_what_cannot_work_under_another_law_is_refused(self) -> None:
        """A recall out of reach tells the rows that reach it; unrelated items are below the threshold."""
        with pytest.raises(ConfigError, match=r"out of reach of 4 rows of 1 bits: .* set rows_max to \d+$"):
            choose(0.3, 0.99, 4, 1, agreement=of_angles)
        with pytest.raises(ConfigError, match=r"unrelated is 0.8, but must be 0 to below the threshold of 0.8"):
            choose(0.8, 0.9, agreement=same, unrelated=0.8)


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
        with pytest.raises(ConfigError, match="at least 2 points, not 1"):
            curve(chosen, points=1)


def test_where_candidates_do_not_follow_from_the_similarity_nothing_is_promised() -> None:
    """No number is better than a wrong one; ``score_min`` is the given one."""
    tuning = keyed(0.8, 0.3)
    assert (tuning.score_min, tuning.margin, tuning.exact_score) == (0.3, 0.5, True)
    assert keyed(0.8).score_min == 0.8
    assert np.isnan([tuning.recall, tuning.candidate_probability]).all()
    met, emitted = probabilities(tuning, np.array([0.2, 0.4]))
    assert np.isnan(met).all()
    assert emitted[0] == 0
    assert np.isnan(emitted[1])
