"""How long shingles should be: the two lengths of Mining of Massive Datasets 3.2.2, and what is measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ConfigError
from neardup.features.shingle_length import SampleSummary, enough, expected, measured, safe, sampled
from neardup.features.texts.normalize import CodePoints, NormalForm, code_points
from neardup.features.texts.shingles import chars
from neardup.features.texts.words import StopList
from neardup_textbook.theory.measures import jaccard

TWENTY = "abcdefghijklmnopqrst"


def codes(texts: list[str]) -> CodePoints:
    return code_points(texts, NormalForm())


def drawn(count: int, length: int, alphabet: str, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list(alphabet), length)) for _ in range(count)]


def test_five_is_enough_for_mails_and_nine_safe_for_articles() -> None:
    """Of 27 equally likely characters there are 14,348,907 shingles of 5, of 20 just 3,200,000: far above a mail."""
    assert [enough(length) for length in (200, 1_000, 3_000)] == [5, 5, 5]
    assert [safe(length) for length in (20_000, 50_000, 70_000)] == [9, 9, 9]
    assert expected(5, 14_348_907, 27) == pytest.approx(1 - 1 / math.e)


@given(st.floats(1, 1e8), st.floats(2, 5000))
def test_the_lengths_are_the_least_that_keep_their_word(characters: float, alphabet: float) -> None:
    """One character fewer would not; the safe one is never shorter."""
    k, more = enough(characters, alphabet), safe(characters, alphabet)
    assert expected(k, characters, alphabet) <= 1e-3
    assert k == 1 or characters / alphabet ** (k - 1) > 1e-3
    assert characters**2 / alphabet**more <= 1e-2 * (1 + 1e-9)
    assert more == 1 or characters**2 / alphabet ** (more - 1) > 1e-2
    assert more >= k or characters < 10


def test_a_text_of_one_character_is_advised_the_longest_shingles() -> None:
    """No length is enough there."""
    assert enough(10, 1) == safe(10, 1) == 100


def test_equally_likely_characters_are_the_alphabet_they_seem() -> None:
    """Twenty are twenty, whatever their script; rare ones count for less; empty texts do not count."""
    assert sampled(codes([TWENTY * 3, "", TWENTY])) == (2, 40.0, pytest.approx(20))
    assert sampled(codes(["日本語"])) == SampleSummary(1, 3.0, pytest.approx(3))
    assert 2 < sampled(codes(["a" * 50 + "b" * 50 + "c"])).alphabet < 2.2
    with pytest.raises(ConfigError, match="the sample holds no text: name files"):
        sampled(codes(["", " "]))


def test_the_chance_of_a_shingle_is_what_random_texts_have() -> None:
    """400 texts of 500 letters of 20: a given shingle of 2 is in 71% of them, of 3 in 6%."""
    texts = drawn(400, 500, TWENTY, seed=3)
    for k in (2, 3):
        share = np.mean([TWENTY[:k] in text for text in texts])
        p = expected(k, 500 - k + 1, 20)
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / 400)


def test_pairs_half_the_sample_apart_are_measured() -> None:
    """The median and the ninth tenth of the Jaccard similarities of their shingles, for each length that is asked."""
    texts = drawn(8, 60, "abc", seed=5)
    found = measured(codes(texts), range(2, 5))
    assert [row.k for row in found] == [2, 3, 4]
    for row in found:
        values, starts = chars(codes(texts), row.k, StopList())
        sets = [values[starts[i] : starts[i + 1]] for i in range(8)]
        similarities = [jaccard(sets[i], sets[i + 4]) for i in range(4)]
        assert row.median == np.median(similarities)
        assert row.upper == np.quantile(similarities, 0.9)


def test_a_large_sample_is_measured_in_part_and_a_single_text_not_at_all() -> None:
    """Two texts are always compared, however long; of many short ones an even choice."""
    assert measured(codes(["abc", ""]), range(2, 4)) == []
    assert len(measured(codes(["abc" * 400_000, "abd" * 400_000]), range(3, 4))) == 1
    (row,) = measured(codes(drawn(400, 30, TWENTY, seed=7)), range(9, 10))
    assert row == (9, 0.0, 0.0, 0.0)
