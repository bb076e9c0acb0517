"""Shingles: the worked examples of Mining of Massive Datasets 3.2, known answers, and the definition in integers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import jaccard
from quick_parameters import examples
from reference import code_points as units
from reference import kgrams, stop_shingles
from reference import words as word_kgrams

from neardup.documents.document import Features
from neardup.features.texts.marks import HANS
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.features.texts.shingles import SHINGLES, TEXT_SHINGLES
from neardup.features.texts.words import StopList
from neardup.schemes.config import Config

RAW = NormalForm(False, False, False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
STOPS = {"a", "for", "the", "that", "have", "it", "is", "to", "i", "you", "your"}
NEWS = (
    "A spokesperson for the Sudzo Corporation revealed today that studies have shown it is good for people to "
    "buy Sudzo products."
)


def cut(kind: str, texts: list[str], k: int, form: NormalForm = NormalForm()) -> Features:  # noqa: B008 - immutable
    return TEXT_SHINGLES[kind](code_points(texts, form), k, StopList())


def bag(kind: str, text: str, k: int) -> list[int]:
    return cut(kind, [text], k).values.tolist()


def as_set(kind: str, text: str, k: int) -> np.ndarray:
    return np.unique(cut(kind, [text], k).values)


def hashes(*grams: str) -> list[int]:
    return [kgrams(units(gram), len(gram))[0] for gram in grams]


def test_shingles_have_known_answers() -> None:
    """Shingles are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert bag("chars", "abcdabd", 2) == [
        3543030234893641911,
        13345708005505068417,
        4074818516113078394,
        7870421160307461851,
        3543030234893641911,
        7153922728804326148,
    ]
    assert bag("words", "to be or not", 3) == [10723013957256803592, 6269800791682767070]
    assert bag("stopwords", "to be or not", 3) == [
        10723013957256803592,
        6269800791682767070,
        4377909608007700648,
        16627527965581922747,
    ]


def test_the_shingles_of_abcdabd_are_five_as_a_set_and_six_as_a_bag() -> None:
    """Example 3.3, k = 2: ab, bc, cd, da, bd; ab twice."""
    assert bag("chars", "abcdabd", 2) == hashes("ab", "bc", "cd", "da", "ab", "bd")
    assert len(as_set("chars", "abcdabd", 2)) == 5
    assert sorted(as_set("chars", "abcab", 2).tolist()) == sorted(hashes("ab", "bc", "ca"))


def test_blanks_stand_in_shingles_so_touch_down_is_not_a_touchdown() -> None:
    """Example 3.4, k = 9: nothing of "touchdown" is shared, unless the blanks are left out beforehand."""
    plane, quarterback = "The plane was ready for touch down", "The quarterback scored a touchdown"
    first, second = (set(bag("chars", text, 9)) for text in (plane, quarterback))
    touchdown = hashes("touchdown")[0]
    assert set(hashes("touch dow", "ouch down")) <= first
    assert touchdown in second
    assert not first & second
    first, second = (set(bag("chars", text.replace(" ", ""), 9)) for text in (plane, quarterback))
    assert touchdown in first & second


@pytest.mark.parametrize("other", ["touch  down", " touch\tdown\n", "touch\u00a0 \u2003down", "TOUCH\x1fdown"])
def test_any_white_space_is_one_blank(other: str) -> None:
    """Collapsed, never dropped."""
    assert bag("chars", other, 5) == bag("chars", "touch down", 5)
    assert bag("chars", other, 5) != bag("chars", "touchdown", 5)


def test_the_sudzo_news_has_nine_shingles_and_its_ad_none() -> None:
    """Example 3.5: the first three are "A spokesperson for", "for the Sudzo", "the Sudzo Corporation"."""
    tokens = NEWS.lower().rstrip(".").split()
    found = bag("stopwords", NEWS, 3)
    assert len(found) == 9
    assert found == stop_shingles(tokens, STOPS)
    firsts = ["a spokesperson for", "for the sudzo", "the sudzo corporation"]
    assert found[:3] == [word_kgrams(words.split(), 3)[0] for words in firsts]
    assert bag("stopwords", "Buy Sudzo", 3) == []


def test_a_recommendation_of_sudzo_has_five_shingles() -> None:
    """Example 3.24: "I recommend that", "that you buy", "you buy Sudzo", "for your laundry", "your laundry x"."""
    text = "I recommend that you buy Sudzo for your laundry."
    shingles = ["i recommend that", "that you buy", "you buy sudzo", "for your laundry", "your laundry they"]
    assert len(bag("stopwords", text, 3)) == 5
    assert bag("stopwords", text + " They", 3)[:5] == [word_kgrams(words.split(), 3)[0] for words in shingles]


def new_words(seed: int) -> Iterator[str]:
    """Words of six to ten letters, none of them a stop word, none twice."""
    rng = random.Random(seed)
    while True:
        yield "".join(rng.choices("bcdfghjklmnprstvwz", k=rng.randint(6, 10)))


def prose(seed: int, sentences: int) -> str:
    """News: eleven stop words to eight others in a sentence."""
    pattern, words = "The {} of {} has {} that the {} will {} for a {} and {} it to the {}.", new_words(seed)
    return " ".join(pattern.format(*(next(words) for _ in range(8))) for _ in range(sentences))


def advertisement(seed: int, lines: int, stop_words: int) -> str:
    """Links and slogans: few stop words to thirteen others in a line."""
    words = new_words(seed)
    line = ["for " if i < stop_words else "" for i in range(13)]
    return ". ".join(" ".join(f"{stop}{next(words)}" for stop in line) for _ in range(lines))


@pytest.mark.parametrize(
    ("stop_words", "same_news", "same_ads"),
    [(2, 0.75, 0.07), (8, 0.43, 0.25)],
    ids=["ads with few stop words", "ads with more of them"],
)
def test_stop_words_tell_the_news_of_a_page_from_what_surrounds_it(
    stop_words: int, same_news: float, same_ads: float
) -> None:
    """Section 3.8.6: of pages half news, half ads, .75 is shared with the news, .25 at most with the ads.

    Both figures together would need news that share shingles: with a share p of the shingles in the news they are
    p / (2 - p) and (1 - p) / (1 + p). Shingles of ten characters see a third of the page shared either way.
    """
    length = len(prose(1, 60))
    lines = round(length / len(advertisement(3, 1, stop_words)))
    news, other_news = prose(1, 60), prose(2, 60)
    ads, other_ads = (advertisement(seed, lines, stop_words) for seed in (3, 4))
    assert len(ads) == pytest.approx(length, rel=0.05)

    def similarity(kind: str, k: int, other: str) -> float:
        return jaccard(as_set(kind, f"{news} {ads}", k), as_set(kind, other, k))

    assert similarity("stopwords", 3, f"{news} {other_ads}") == pytest.approx(same_news, abs=0.04)
    assert similarity("stopwords", 3, f"{other_news} {ads}") == pytest.approx(same_ads, abs=0.04)
    assert similarity("chars", 10, f"{news} {other_ads}") == pytest.approx(1 / 3, abs=0.05)
    assert similarity("chars", 10, f"{other_news} {ads}") == pytest.approx(1 / 3, abs=0.05)


@examples(200)
@given(st.lists(TEXT, max_size=4), st.integers(1, 100))
def test_character_shingles_are_the_mixed_polynomials_of_every_k_code_points(texts: list[str], k: int) -> None:
    """Of bytes and of wide code points alike, in one batch; a shorter text is one shingle, an empty one none."""
    found = cut("chars", texts, k, RAW)
    expected = [kgrams(units(text), k) for text in texts]
    assert found.values.tolist() == [shingle for shingles in expected for shingle in shingles]
    assert found.starts.tolist() == np.cumsum([0, *map(len, expected)]).tolist()


@examples(200)
@given(st.lists(st.lists(st.sampled_from(["the", "cat", "Ünïcode", "漢", "of", "x1"]), max_size=12), max_size=4))
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_word_shingles_are_the_mixed_polynomials_of_every_k_words(k: int, texts: list[list[str]]) -> None:
    """And stop-word shingles those that begin with a stop word, fewer words at the end."""
    joined = [" ".join(tokens) for tokens in texts]
    folded = [[token.lower() for token in tokens] for tokens in texts]
    assert cut("words", joined, k).values.tolist() == [h for tokens in folded for h in word_kgrams(tokens, k)]
    stops = [h for tokens in folded for h in stop_shingles(tokens, {"the", "of"}, k)]
    assert cut("stopwords", joined, k).values.tolist() == stops


@pytest.mark.parametrize("kind", ["chars", "words"])
def test_fewer_than_k_tokens_are_one_shingle(kind: str) -> None:
    """So a short text can be found again; it differs from any other short one."""
    texts = ["a", "a b", "b", "a b c"]
    counts = np.diff(cut(kind, texts, 9).starts)
    assert counts.tolist() == [1, 1, 1, 1]
    assert len(set(cut(kind, texts, 9).values.tolist())) == 4


@pytest.mark.parametrize("kind", TEXT_SHINGLES)
@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000"])
def test_a_blank_text_has_no_shingle(kind: str, text: str) -> None:
    """It is the caller who refuses it."""
    assert bag(kind, text, 3) == []


def test_scripts_take_two_of_han_and_kana_and_else_k() -> None:
    """A text without any has the shingles of ``chars``; a shingle begins at each position that has room for it."""
    for text in ("the quick brown fox", "Привет, мир! Как дела?", "สวัสดีครับทุกคน", "a"):
        assert bag("scripts", text, 5) == bag("chars", text, 5)
    assert bag("scripts", "東京に住む", 5) == bag("chars", "東京に住む", 2)
    assert bag("scripts", "tokyo 東京 city", 5) == hashes(
        *("tokyo", "okyo ", "kyo 東", "yo 東京", "o 東京 ", " 東京 c", "東京", "京 ", " city")
    )
    assert bag("scripts", "ab東", 5) == hashes("ab東")
    assert bag("scripts", "東", 5) == hashes("東")
    assert bag("scripts", "東京", 5) == [13450668622582470597]


def test_the_letters_of_two_are_those_that_lose_their_blanks() -> None:
    """Folding marks and shingles of scripts mean the same Han and kana, at each end of a range."""
    ends = {c for first, last in HANS for c in (first - 1, first, last, last + 1)}
    inside = {c for c in ends if any(first <= c <= last for first, last in HANS)}
    form = "x{}yz1234".format
    plain = len(cut("scripts", [form("a")], 3, RAW).values)
    found = {c for c in ends if cut("scripts", [form(chr(c))], 3, RAW).values.tolist()[1:2] == hashes(chr(c) + "y")}
    assert found == inside
    assert plain == 6


def test_punctuation_alone_has_characters_but_no_words() -> None:
    """Nothing of it is a word."""
    assert len(bag("chars", "!?...", 5)) == 1
    assert bag("words", "!?...", 3) == []


def test_texts_of_nothing_but_nul_differ_by_length() -> None:
    """A NUL does not vanish from a shingle."""
    short = [kgram for n in range(1, 9) for kgram in bag("chars", "\0" * n, 9)]
    assert len(set(short)) == 8


@pytest.mark.parametrize("text", ["私は学生です。東京に住んでいます", "ฉันเป็นนักเรียนไทย", "我是學生住在北京市"])
def test_scripts_without_blanks_get_word_shingles_at_all(text: str) -> None:
    """Japanese, Thai, Chinese: several tokens, so several shingles, and an edit at the end leaves most of them."""
    whole, edited = as_set("words", text, 3), as_set("words", text + "好", 3)
    assert len(whole) >= 5
    assert jaccard(whole, edited) > 0.7


@pytest.mark.parametrize("kind", TEXT_SHINGLES)
def test_the_batch_around_a_text_makes_no_difference(kind: str) -> None:
    """Long ones, short ones, wide ones, empty ones."""
    texts = ["", "the cat", "漢" * 50 + " the end of it", "of " * 400, "x", "", "ＴＨＥ cat sat"]
    together = cut(kind, texts, 3)
    alone = [bag(kind, text, 3) for text in texts]
    assert [together.values[a:b].tolist() for a, b in pairwise(together.starts)] == alone


def test_a_new_shingling_with_rules_of_its_own_changes_the_signing_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules decide its shingles, so a new version of them is a new generation, even under the same name."""
    base = Config(shingles="words").signing_fingerprint
    fingerprints = {base}
    for rules in (("lines-1",), ("lines-2",), ("lines-2", "more")):
        row = SHINGLES["words"]._replace(rules=lambda stops, rules=rules: rules)
        monkeypatch.setitem(SHINGLES, "lines", row)
        monkeypatch.setitem(SHINGLES, "words", row)
        fingerprints |= {Config(shingles=name).signing_fingerprint for name in ("lines", "words")}
    assert len(fingerprints) == 7


@pytest.mark.parametrize("kind", SHINGLES)
def test_every_shingling_names_the_rules_that_decide_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of its rules, and of no other's, changes the fingerprint; characters and tokens need none."""
    base = Config(shingles=kind).signing_fingerprint
    for other, row in SHINGLES.items():
        monkeypatch.setitem(SHINGLES, other, row._replace(rules=lambda stops: ("other",)))
        assert (Config(shingles=kind).signing_fingerprint != base) == (other == kind)
        monkeypatch.setitem(SHINGLES, other, row)
    assert bool(SHINGLES[kind].rules(StopList())) == (kind not in ("chars", "tokens"))
