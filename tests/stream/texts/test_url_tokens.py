"""URLs as positional bigrams: the two worked examples, what separates, what is dropped, and known answers."""

from __future__ import annotations

import numpy as np
import pytest
from reference import BASE, MASK, mix64, polynomial
from reference import code_points as units

from neardup.errors import ConfigError
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.features.texts.shingles import TEXT_SHINGLES
from neardup.features.texts.url_tokens import URL_STOP_WORDS, url_rules, url_stops
from neardup.features.texts.words import StopList

RAW = NormalForm(False, False, False)


def shingles(
    text: str,
    k: int = 2,
    form: NormalForm = NormalForm(),  # noqa: B008 - immutable
    words: tuple[str, ...] | None = None,
) -> list[int]:
    return TEXT_SHINGLES["urls"](code_points([text], form), k, StopList((), words)).values.tolist()


def gram(*tokens: str, position: int) -> int:
    """The hash of tokens from this position on, in integers of any size."""
    h = position + 1
    for token in tokens:
        h = (h * BASE + mix64(polynomial(units(token))) + 1) & MASK
    return mix64(h)


def test_a_path_has_four_positional_bigrams() -> None:
    """/cellblock16/inmates/dilbert/personal/foo.htm: the digits and htm are gone, each pair has its position."""
    assert shingles("/cellblock16/inmates/dilbert/personal/foo.htm") == [
        gram("cellblock", "inmates", position=0),
        gram("inmates", "dilbert", position=1),
        gram("dilbert", "personal", position=2),
        gram("personal", "foo", position=3),
    ]


def test_a_host_has_its_tokens() -> None:
    """www6.infoseek.com: www, infoseek, com."""
    assert shingles("www6.infoseek.com", k=1) == [
        gram(token, position=position) for position, token in enumerate(["www", "infoseek", "com"])
    ]


def test_shingles_have_a_known_answer() -> None:
    """Shingles are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert shingles("/a/b/c") == [15533101522887656502, 17561883978169999276]


@pytest.mark.parametrize("form", [NormalForm(), RAW])
@pytest.mark.parametrize(
    "url",
    [
        "HTTP://WWW6.InfoSeek.com:80/a%20b?q=1#top",
        "www.infoseek.com/a/b?q#top",
        "ftp://www42-infoseek//com..a;b&q~top/",
    ],
)
def test_case_digits_punctuation_and_the_scheme_make_no_difference(url: str, form: NormalForm) -> None:
    """Whatever normalisation is on."""
    tokens = ["www", "infoseek", "com", "a", "b", "q", "top"]
    assert shingles(url, form=form) == [gram(*tokens[i : i + 2], position=i) for i in range(6)]


@pytest.mark.parametrize("word", URL_STOP_WORDS)
def test_frequent_components_are_dropped(word: str) -> None:
    """As whole tokens; positions are counted without them."""
    expected = [gram("a", "b", position=0), gram("b", f"{word}x", position=1)]
    assert shingles(f"/{word}/a/{word.upper()}9/b/{word}x.{word}") == expected


def test_a_host_is_the_set_of_the_bigrams_of_its_urls() -> None:
    """One URL after the other, by blanks or lines; the position counts within each."""
    both = shingles("/x/y") + shingles("/b/a")
    assert shingles("/x/y /b/a") == shingles("  /x/y\n\t/b/a\n", form=RAW) == both


def test_a_url_of_one_token_is_one_shingle_and_of_none_none() -> None:
    """The position is the first."""
    assert shingles("/index.html") == []
    assert shingles("http://") == []
    assert shingles("/about/") == [gram("about", position=0)]
    assert shingles("/about/ 17 /") == [gram("about", position=0)]


def test_letters_of_any_script_are_letters() -> None:
    """Alphabetic code points stay; digits of any script and all marks separate."""
    assert shingles("/Straße/münchen٣日本", form=RAW) == [
        gram("straße".replace("S", "s"), "münchen", position=0),
        gram("münchen", "日本", position=1),
    ]


def test_a_colon_without_slashes_is_no_scheme() -> None:
    """mailto:a and a:b/c keep their first token."""
    assert shingles("mailto:a") == [gram("mailto", "a", position=0)]
    assert shingles("a:b://c") == [gram("a", "b", position=0), gram("b", "c", position=1)]
    assert shingles("/go/http://x") == [gram("go", "http", position=0), gram("http", "x", position=1)]


def test_the_rules_have_a_name() -> None:
    """It is a part of the fingerprint; the stop words are a sorted, read-only table."""
    assert url_rules().startswith("urls-1-")
    assert (np.diff(url_stops()) > 0).all()
    assert not url_stops().flags.writeable


def test_own_stop_words_take_the_place_of_the_usual_ones() -> None:
    """Of any script and case; what was dropped before is kept."""
    words = ("Shop", "Straße", "日本")
    assert shingles("/shop/a/STRASSE/index/日本/b", words=words) == [
        gram("a", "index", position=0),
        gram("index", "b", position=1),
    ]


def test_the_same_stop_words_are_the_same_rules() -> None:
    """In any order and case, and written out."""
    assert url_rules(tuple(reversed(URL_STOP_WORDS))) == url_rules(("HTML", *URL_STOP_WORDS)) == url_rules()
    assert url_rules(("shop",)) not in (url_rules(), url_rules(("shops",)))


@pytest.mark.parametrize("word", ["", "a b", "h1", "m.htm", "٣", "2003"])
def test_a_stop_word_that_no_token_can_equal_is_refused(word: str) -> None:
    """Digits and punctuation never stand in a token; the message has the entry, the rule and the remedy."""
    with pytest.raises(ConfigError, match=f"stop_words has {word!r}, but digits and punctuation.*give letters only"):
        url_stops(("index", word))
