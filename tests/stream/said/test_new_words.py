"""What is new in a text: the words and numbers that a verdict names."""

from __future__ import annotations

import pytest

from neardup import Config, Deduplicator, Document
from neardup.features.said.new_words import CHARACTERS_MAX, NEW_MAX, new_words
from neardup.features.said.word_sets import word_sets
from neardup.features.texts.normalize import NormalForm, code_points

FORM = NormalForm()
SETTINGS = {"novelty": "words", "verify": "exact", "threshold": 0.45}
FIRE = "At least 40 people died in the market fire near Volterra, officials said. Two towns were cut off for days."


def new_in(text: str, older: str, *, words: bool = True) -> list[str]:
    """What a text says that another one does not say."""
    (found,) = new_words([text], word_sets(code_points([older], FORM), words=words), FORM, words=words)
    assert all(text[word.begin : word.end] == word.text for word in found)
    return [word.text for word in found]


@pytest.mark.parametrize(
    ("text", "older", "expected"),
    [
        ("57 people died, Officials (Siena) said.", "40 people died, officials said", ["57", "Siena"]),
        ("Shares rose 8-1/2 to 2,650.", "shares rose 8.5 to 2650", []),
        ("CORRECTED: shares rose", "shares rose", ["CORRECTED"]),
        ("大阪で大地震、死者57人。", "東京で地震、死者40人。", ["57", "大阪で大地"]),
        ("ＡＢＣ①２３", "abc", ["ＡＢＣ①２３"]),
        ("地震で三百五十人が死亡、300万人が避難", "地震で三百五十人が死亡、300万人が避難", []),
        ("地震で三百五十人が死亡", "地震で三百人が死亡", ["三百五十"]),
        ("地震で300億円", "地震で300万円", ["300億"]),
        ("지진으로 5만3천명 사망", "지진으로 5만 명 사망", ["5만3천"]),
        ("지진으로 1,200만명 대피", "지진으로 1200만명 대피", []),
        ("", "a", []),
        ("\U0001f600 !!", "a", []),
    ],
)
def test_new_words_stand_as_in_the_text(text: str, older: str, expected: list[str]) -> None:
    """Numbers and words of correction first; the case, punctuation and white space of the text stay."""
    assert new_in(text, older) == expected


def test_without_words_only_numbers_are_new() -> None:
    """With ``novelty=numbers`` a set holds no words."""
    assert new_in("57 died in Siena", "40 died", words=False) == ["57"]


def test_sixteen_new_words_are_named_at_most() -> None:
    """Each once: first numbers, then the longest words, by place."""
    letters = [chr(ord("a") + n) * (n + 1) for n in range(20)]
    found = new_in(" ".join(["7", *letters, *letters, "9"]), "x")
    assert len(found) == NEW_MAX
    assert found == ["7", "9", *letters[6:]]


def test_the_begin_of_a_long_text_is_looked_at() -> None:
    """So a text of any length takes a bounded time."""
    assert new_in("a " * (CHARACTERS_MAX // 2) + "Siena", "a") == []


def test_verdicts_say_what_is_new() -> None:
    """An update compares with the version matched, an original with the one it is against, a copy names nothing new."""
    stream = [
        Document("a", FIRE),
        Document("b", FIRE.replace("40", "57")),
        Document("a", FIRE.replace("40", "47")),
        Document("c", FIRE + " Really."),
        Document("d", FIRE),
    ]
    first, toll, update, copy, equal = Deduplicator(Config(**SETTINGS)).decide(stream)
    assert (first.said, first.against, first.new_numbers, first.new) == (None, None, None, ())
    assert (toll.status, toll.against, toll.new_numbers) == ("original", 0, 1)
    assert (update.status, update.matched, update.against, update.new_numbers) == ("update", 0, None, 1)
    assert [[word.text for word in one.new] for one in (toll, update)] == [["57"], ["47"]]
    assert (copy.status, copy.new_numbers, copy.new) == ("duplicate", None, ())
    assert copy.said is not None
    assert 0.88 <= copy.said < 1
    assert (equal.status, equal.said) == ("duplicate", None)


def test_without_novelty_no_verdict_says_what_is_new() -> None:
    """Nothing was compared for it."""
    verdicts = Deduplicator(Config(threshold=0.6)).decide([Document("a", FIRE), Document("b", FIRE + " Really.")])
    assert verdicts[1].status == "duplicate"
    assert {(one.said, one.against, one.new_numbers, one.new) for one in verdicts} == {(None, None, None, ())}


def test_an_explanation_has_the_rule_with_its_two_numbers() -> None:
    """Whether the later text says something new, and what, where it is given."""
    dedup = Deduplicator(Config(**SETTINGS))
    dedup.decide([Document("a", FIRE), Document("b", FIRE.replace("40", "57"))])
    given = dedup.explain("a", Document("c", FIRE.replace("40", "57"))).novelty
    stored = dedup.explain("b", "a").novelty
    assert given is not None
    assert stored is not None
    assert (given.said_min, given.new_numbers, given.is_new) == (0.88, 1, True)
    assert 0.9 < given.said < 1
    assert [word.text for word in given.new] == ["57"]
    assert stored == given._replace(new=())
    assert Deduplicator(Config()).explain(Document("a", FIRE), Document("b", FIRE)).novelty is None
