"""Word sets: what is a word, what is a number, and which part of one text another one has said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.features.said.comparing_sets import said_parts
from neardup.features.said.word_sets import HEADER_UNITS, NUMBERS_MAX, WORDS_MAX, word_sets
from neardup.features.texts.normalize import NormalForm, code_points

STORY = "Heavy rain is expected along the northern coast, and ferries will not run before Sunday"
HALF = "Heavy rain is expected along the northern coast"


def compared(newer: str, older: str, *, words: bool = True) -> tuple[float, int]:
    """The part of a text that another one has said, and how many of its numbers are new."""
    sets = (word_sets(code_points([text], NormalForm()), words=words) for text in (newer, older))
    (said,), (new,), _ = (column.tolist() for column in said_parts(*sets))
    return said, new


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2,650", "2650"), ("1,234,567.50", "1234567.5"), ("8-1/2", "8.5"), ("1/4", ".25 0.25"), ("3.00", "three"),
        ("twelve", "12"), ("٢٠٢٦", "2026"), ("१२", "12"), ("５", "5"), ("nil", "0"), ("zwölf", "12"), ("три", "3"),
        ("7:05", "7:05"), ("11/20/1986", "11 20 1986"), ("2.650", "2.65"), ("½", "0.5"),
        ("1'200", "1,200"), ("1’200’000", "1200000"), ("１，２００", "1200"), ("三百", "300"),
        ("二〇二四年", "2024"), ("三百五十人", "350"),
        ("300万", "3,000,000"), ("三億二千万", "320000000"), ("3万5000", "35000"),
        ("十人", "10"), ("五月", "5月"), ("1.5億", "150000000"), ("2.5亿", "2億5000万"), ("1.5百万", "1500000"),
        ("5만", "50,000"), ("5만3천명", "53000"), ("1,200만", "12,000,000"), ("1억5,000만", "150000000"),
        ("세 명", "3"), ("5 million", "5 mln"), ("5 billion", "5 Milliarden"), ("5 миллиардов", "5 млрд"),
    ],
)  # fmt: skip
def test_two_ways_to_write_a_number_are_one_number(one: str, other: str) -> None:
    """By their value: separators of thousands, fractions, digits of any script, and words for small numbers."""
    assert compared(one, other)[1] == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("40", "47"),
        ("2,650", "2.650"),
        ("7:05", "705"),
        ("1,2", "12"),
        ("1986", "198 6"),
        ("12,34", "1234"),
        ("1/0", "1"),
        ("三百人死亡", "五百人死亡"),
        ("三人死亡", "五人死亡"),
        ("300万", "300億"),
        ("300万", "300"),
        ("1.5億", "1.5"),
        ("1.5億", "1.5万"),
        ("1.2345百", "1.2345"),
        ("5만명", "5천명"),
        ("5만명", "5명"),
        ("5 million", "5 billion"),
        ("5mln", "5bn"),
        ("hundreds of people", "thousands of people"),
        ("사망자는 두명", "사망자는 세명"),
        ("九" * 60, "九" * 59),
    ],
)
def test_other_numbers_are_new(one: str, other: str) -> None:
    """A comma that does not stand between thousands is a part of the number."""
    assert compared(one, other)[1] > 0


@pytest.mark.parametrize("text", ["一般", "一人", "三星电子", "四川", "百度", "参加", "十分"])
def test_a_numeral_in_a_word_is_no_number(text: str) -> None:
    """Two of them are one, and one before what it counts."""
    assert compared(text, "", words=False) == (0.0, 0)


def test_a_toll_that_rises_is_new_and_a_copy_is_not() -> None:
    """Whatever else the text repeats."""
    texts = [f"{STORY}. {toll} people died." for toll in ("40", "forty-seven 47", "57")]
    for n, text in enumerate(texts):
        for m, other in enumerate(texts):
            said, new = compared(text, other)
            assert (new == 0) == (n == m)
            assert (said == 1) == (n == m)


def test_a_correction_is_new_where_it_was_not_before() -> None:
    """As a number is, in several languages."""
    for mark in ("CORRECTED - ", "Berichtigung: ", "Исправление: ", "تصحيح "):
        assert compared(mark + STORY, STORY)[1] == 1
        assert compared(mark + STORY, mark + STORY)[1] == 0
        assert compared(STORY, mark + STORY) == (1.0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the bill did not pass", "the bill did pass"), ("they don't agree", "they do agree"), ("they don’t", "they"),
        ('we don"t know', "we know"),
        ("not all and not now", "not all and now"), ("er kommt nicht", "er kommt"), ("il ne vient pas", "il vient"),
        ("он не придёт", "он придёт"), ("no vendrá nunca", "no vendrá"),
    ],
)  # fmt: skip
def test_one_more_negation_is_new_and_one_less_is_not(one: str, other: str) -> None:
    """By their number, whatever their words."""
    assert compared(one, other)[1] > 0
    assert compared(one, one)[1] == 0
    assert compared(other, one)[1] == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8 dead and 8 hurt", "7 dead and 8 hurt"), ("oito mortos e oito feridos", "sete mortos e oito feridos"),
        ("dividend 14 cts vs 14 cts", "dividend 14 cts vs 19 cts"),
    ],
)  # fmt: skip
def test_a_number_that_takes_the_place_of_another_is_new_though_it_stands_elsewhere(one: str, other: str) -> None:
    """It occurs more often, and another one is gone. A headline that repeats a number says nothing new."""
    assert compared(one, other)[1] == 1
    assert compared(one, one)[1] == 0
    assert compared(f"{one}: {one}", one) == (1.0, 0)
    zeros = "0 " * 100_000
    assert compared(zeros, "0 1") == (1.0, 7)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Qtly div 12 cts", "Quarterly dividend 12 cents"), ("3 mln dlrs in 9 mths", "3 million dollars in 9 months"),
        ("the port (pictured)", "the port"), ("사진은 the port", "the port"),
    ],
)  # fmt: skip
def test_abbreviations_are_their_words_and_captions_say_nothing(one: str, other: str) -> None:
    """In both directions."""
    assert compared(one, other) == compared(other, one) == (1.0, 0)
    assert compared("pictured", "pictured") == (0.0, 0)


def test_what_a_text_leaves_out_is_not_asked() -> None:
    """A copy that was cut to a half says nothing new, a copy that was extended does."""
    assert compared(HALF, STORY) == (1.0, 0)
    assert compared(STORY, HALF)[0] < 0.7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("announces", "announced"), ("acquisition", "acquisitions"), ("company's", "company"), ("company’s", "company"),
        ("правительство", "правительства"), ("Regierungen", "Regierung"),
    ],
)  # fmt: skip
def test_inflected_forms_of_a_word_are_one_word(one: str, other: str) -> None:
    """They share a run of four letters that is among the least of both."""
    assert compared(one, other)[0] == 1


def test_long_words_weigh_more_than_short_ones() -> None:
    """As rare words are long: a name that is new counts for more than an article."""
    base = "directors approved quarterly dividends"
    assert compared(f"{base} of", base)[0] > 0.95
    assert compared(f"{base} Consolidated", base)[0] < 0.81


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("東京の図書館は来週の金曜日から夜十時まで開館する", "大阪の博物館は来年の火曜日から朝八時まで閉館する"),
        ("หอสมุดแห่งชาติจะเปิดถึงสี่ทุ่มตั้งแต่วันศุกร์", "พิพิธภัณฑ์เมืองจะปิดซ่อมแซมตลอดเดือนหน้า"),
        ("تبقى العبارات في الميناء حتى يوم الأحد", "تعود القطارات إلى العمل صباح الاثنين"),
        ("여객선은 일요일까지 항구에 머문다", "기차는 월요일 아침부터 다시 운행한다"),
        ("घाट पर नावें रविवार तक रुकी रहेंगी", "रेलगाड़ियाँ सोमवार सुबह फिर चलेंगी"),
    ],
)
def test_texts_of_every_script_have_words(text: str, changed: str) -> None:
    """Also where no blanks stand between words; another text in the script is not said."""
    assert compared(text, text) == (1.0, 0)
    assert compared(text + " " + changed, text)[0] < 0.75
    assert compared(changed, text)[0] < 0.5


@pytest.mark.parametrize("text", ["😀 🎉🎉", "!?!, …", " "])
def test_a_text_without_words_says_nothing(text: str) -> None:
    """So no text has said it: the part is 0, and it is never dropped for what it says."""
    assert compared(text, text) == (0.0, 0)


def test_a_text_of_more_than_a_set_holds_has_something_new() -> None:
    """Words and numbers are bounded, and no decision rests on what was left out."""
    words = " ".join(f"{a}{b}{c}" for a in "bcdfghjklmnpqrstvwxz" for b in "aeiouy" for c in range(200))
    letters = words.translate(str.maketrans("0123456789", "abcdefghij"))
    many = " ".join(f"w{word}" for word in letters.split())
    assert len(set(many.split())) > WORDS_MAX
    assert compared(many, many)[1] == 1
    numbers = " ".join(map(str, range(2 * NUMBERS_MAX)))
    assert compared(numbers, numbers)[1] == 1
    units, starts = word_sets(code_points([many + numbers], NormalForm()))
    assert starts[-1] == len(units) <= HEADER_UNITS + WORDS_MAX * 9 // 8 + NUMBERS_MAX + 2


def test_sets_of_numbers_have_no_words() -> None:
    """``novelty=numbers`` keeps four bytes a number."""
    assert compared("40 people and others", "somebody said 40", words=False) == (1.0, 0)
    units, starts = word_sets(code_points([STORY, STORY + " 40 41"], NormalForm()), words=False)
    assert (starts.tolist(), len(units)) == ([0, 6, 14], 14)  # STORY has a negation


@given(st.lists(st.sampled_from([*HALF.split(), "40", "2,650", "8-1/2", "😀", "東京"]), max_size=30), st.randoms())
def test_the_order_and_the_number_of_words_make_no_difference(words: list[str], rng: random.Random) -> None:
    """A set has each word once, except for negations, and the texts of a batch have the sets that each has alone."""
    shuffled = words + words[:3]
    rng.shuffle(shuffled)
    one, other = " ".join(words), " ".join(shuffled)
    assert compared(one, other) == compared(other, one)
    if words != ["😀"] * len(words):
        assert compared(one, other) == (1.0, 0)
    texts = [one, STORY, other, ""]
    units, starts = word_sets(code_points(texts, NormalForm()))
    for n, text in enumerate(texts):
        alone, _ = word_sets(code_points([text], NormalForm()))
        assert units[starts[n] : starts[n + 1]].tolist() == alone.tolist()


@given(st.text(max_size=200))
def test_any_text_has_a_set(text: str) -> None:
    """Whatever its code points are; a text has said all that it says."""
    said, new = compared(text, text)
    assert new == 0
    assert said in (0.0, 1.0)
