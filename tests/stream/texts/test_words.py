"""Words: the cut of UAX #29 against its rules written out, the hash of a token, and the tables of stop words.

The oracle is the standard itself: each rule a pair of patterns over the classes, applied in the order of the
rules. Two libraries were tried for it and left: ``regex`` (``(?w)\\b``) joins a flag, or a mark at the start
of the text, to the letter after it and stops a bridge at a joiner; its properties are right and are used.
``uniseg`` carries an older Unicode version than the table under test.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import regex
import stop_words
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python
from quick_parameters import examples

from neardup.errors import ConfigError
from neardup.features.texts import words
from neardup.features.texts.words import (
    is_stop,
    stop_languages,
    stop_rules,
    stop_table,
    token_hashes,
    word_rules,
    word_table,
)
from neardup.machine.kernels.hashing import BASE

_is_stop = from_python(is_stop)
MASK = (1 << 64) - 1

# One character for each class, in the order of the table's numbers; P and B are pictographic O and A.
SYMBOLS = "OCLNEFZSAH9KXRqd.:,"
AH, Q, HIDDEN = "[ABH]", "[.q]", "[EFZ]*"
# (rule, left, right, joins): the rules of UAX #29 in their order; the first that matches decides.
RULES = [
    ("WB3", "C", "L", True),
    ("WB3a", "[NCL]", "", False),
    ("WB3b", "", "[NCL]", False),
    ("WB3c", "Z", "[PB]", True),
    ("WB3d", "S", "S", True),
    ("WB4", "", "[EFZ]", True),
    ("WB5", f"{AH}{HIDDEN}", AH, True),
    ("WB6", f"{AH}{HIDDEN}", f"(?::|{Q}){HIDDEN}{AH}", True),
    ("WB7", f"{AH}{HIDDEN}(?::|{Q}){HIDDEN}", AH, True),
    ("WB7a", f"H{HIDDEN}", "q", True),
    ("WB7b", f"H{HIDDEN}", f"d{HIDDEN}H", True),
    ("WB7c", f"H{HIDDEN}d{HIDDEN}", "H", True),
    ("WB8", f"9{HIDDEN}", "9", True),
    ("WB9", f"{AH}{HIDDEN}", "9", True),
    ("WB10", f"9{HIDDEN}", AH, True),
    ("WB11", f"9{HIDDEN}(?:,|{Q}){HIDDEN}", "9", True),
    ("WB12", f"9{HIDDEN}", f"(?:,|{Q}){HIDDEN}9", True),
    ("WB13", f"K{HIDDEN}", "K", True),
    ("WB13a", f"[ABH9KX]{HIDDEN}", "X", True),
    ("WB13b", f"X{HIDDEN}", "[ABH9K]", True),
    ("WB15 WB16", rf"(?:\A|[^REFZ]){HIDDEN}(?:R{HIDDEN}R{HIDDEN})*R{HIDDEN}", "R", True),
]
COMPILED = [(regex.compile(f"(?<={left})(?={right})"), joins) for _, left, right, joins in RULES]
WORD_LIKE = regex.compile(
    r"[[\p{Alphabetic}\p{N}\p{Ideographic}]--[\p{M}\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]]", regex.V1
)

# A few of every class, and those on which rules meet: pictographs that are letters, marks that are letters.
RICH = (
    "abzAéßя한ב\u05ea" + "019٣" + "アイ\u30fc" + "_\u203f" + "'\u2019.\uff0e:\u00b7,;\u066c\"" + "\r\n\x0b\u2028"
    " \u3000\t" + "\u0308\u0301\u0e31\uff9e\U0001f3fd" + "\u00ad\u2060" + "\u200d\u200d" + "🇩🇪🇫"
    "👩😀❤ℹ🅰" + "漢字あのกไ½②" + "-!/\u02c2\ud800\U0010ffff"
)


def codes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)


def run(codes: np.ndarray) -> list[int]:
    out = np.zeros(len(codes), np.uint64)
    return [int(h) for h in out[: token_hashes(codes, word_table(), out)]]


def hash_by_definition(token: str) -> int:
    h = 0
    for char in token:
        h = (h * int(BASE) + ord(char) + 1) & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = ((h ^ (h >> shift)) * factor) & MASK
    return h ^ (h >> 31)


def symbol_of(char: str) -> str:
    entry = int(word_table()[ord(char)])
    symbol = SYMBOLS[entry & 0x1F]
    return {"O": "P", "A": "B"}[symbol] if entry & 0x20 else symbol


def words_by_rules(text: str) -> list[str]:
    classes = "".join(map(symbol_of, text))
    decided: dict[int, bool] = {}
    for rule, joins in COMPILED:
        for match in rule.finditer(classes, overlapped=True):
            decided.setdefault(match.start(), joins)
    cuts = [0, *(i for i in range(1, len(text)) if not decided.get(i)), len(text)]
    segments = [text[a:b] for a, b in itertools.pairwise(cuts)]
    return [segment for segment in segments if WORD_LIKE.search(segment)]


def assert_tokens(text: str, expected: list[str]) -> None:
    assert run(codes_of(text)) == [hash_by_definition(token) for token in expected]


@examples(1000)
@given(st.text(alphabet=RICH, max_size=14))
def test_the_kernel_cuts_as_the_rules_of_the_standard_say(text: str) -> None:
    """Every word of any mixture of the classes is found, in order, and no other text is."""
    assert_tokens(text, words_by_rules(text))


@examples(500)
@given(st.text(max_size=30))
def test_the_kernel_agrees_with_the_rules_on_any_code_points(text: str) -> None:
    """The same over the whole of Unicode, unassigned code points among them."""
    assert_tokens(text, words_by_rules(text))


@examples(1000)
@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60))
def test_ascii_bytes_and_code_points_give_the_same_hashes(text: str) -> None:
    """A document is one whichever of the two dtypes it arrives in."""
    narrow = np.frombuffer(text.encode("ascii"), np.uint8)
    assert run(narrow) == run(codes_of(text)) == [hash_by_definition(t) for t in words_by_rules(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't pay $3.14 (or 1,000) e.g.", ["don't", "pay", "3.14", "or", "1,000", "e.g"]),
        ("it\u2019s 'quoted' a:b a;b 1:2", ["it\u2019s", "quoted", "a:b", "a", "b", "1", "2"]),
        ("snake_case __ _x 4x4", ["snake_case", "_x", "4x4"]),
        ("צה\"ל ג'ירפה א' \"א", ['צה"ל', "ג'ירפה", "א'", "א"]),
        ("we😀met 👩\u200d👩\u200d👧 🇩🇪🇫🇷 ok", ["we", "met", "ok"]),
        ("cafe\u0301 \u0301 x", ["cafe\u0301", "x"]),
        ("a\u200d'\u200db a'\u0308 b", ["a\u200d'\u200db", "a", "b"]),
        ("\u0308a 🇩a", ["a", "a"]),
        ("a\r\nb\u2028c", ["a", "b", "c"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("", []),
        (" \t--- ... ___ ❤\ufe0f", []),
    ],
)
def test_words_of_known_texts(text: str, expected: list[str]) -> None:
    """Apostrophes, numbers, Hebrew quotes, emoji, flags, marks and line ends, as the standard has them."""
    assert_tokens(text, expected)
    assert words_by_rules(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我爱北京。", ["我", "爱", "北", "京"]),
        ("私はコーヒーを飲む", ["私", "は", "コーヒー", "を", "飲", "む"]),
        ("ภาษาไทย", ["ภ", "า", "ษ", "า", "ไ", "ท", "ย"]),
        ("ที่นี่", ["ที่", "นี่"]),
    ],
)
def test_scripts_without_blanks_are_cut_into_characters(text: str, expected: list[str]) -> None:
    """Chinese, Japanese and Thai: one token a character with its marks, and Katakana runs whole."""
    assert_tokens(text, expected)


@pytest.mark.long
def test_words_of_real_text_in_many_languages(real_data: Callable[[str], Path]) -> None:
    """News in 55 languages is cut as the rules say, as it stands and case folded."""
    with (real_data("itn_multilingual") / "docs.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    assert len(texts) > 1000
    for text in texts[::3]:
        for form in (text, text.casefold()):
            assert_tokens(form, words_by_rules(form))


def test_a_failed_bridge_costs_no_more_than_a_second_look() -> None:
    """Bridges that lead nowhere, 600,000 of them, take linear time and the hashes of the letters alone."""
    codes = codes_of("a'\u200d " * 300_000 + "1.\u0308 " * 300_000)
    assert run(codes) == [hash_by_definition("a")] * 300_000 + [hash_by_definition("1")] * 300_000


def test_the_hash_of_a_token_is_a_format() -> None:
    """A known answer: these numbers decide keys and never change under one name of the rules."""
    assert words.WORD_RULES == "uax29-words-1"
    assert run(codes_of("don't")) == [0x6CA6A28A7200106B]
    assert run(codes_of("漢")) == [0x97EF0C6759363B23]


def test_the_property_table_is_read_only_and_has_every_class() -> None:
    """Known code points carry their classes and bits; the table is read-only."""
    table = word_table()
    assert table.shape == (0x110000,)
    assert table.dtype == np.uint8
    assert not table.flags.writeable
    assert "".join(map(symbol_of, "!\r\n\x0b\u0308\u00ad\u200d aא1ア_🇩'\".:,😀🅰")) == SYMBOLS + "PB"
    assert set(np.unique(table & 0x1F)) == set(range(len(SYMBOLS)))
    like = [char for char in "aא1アあ漢ก½②🅰_-'\u0308\u0e31\u200d\uff9e😀🇩\u02c2\ud800" if table[ord(char)] & 0x40]
    assert like == list("aא1アあ漢ก½②🅰")


def test_the_name_of_the_rules_carries_a_digest_of_the_table() -> None:
    """The fingerprint names the rules and, by a digest, the Unicode properties they ran on."""
    assert regex.fullmatch(r"uax29-words-1-[0-9a-f]{16}", word_rules())
    assert word_rules() == word_rules()


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "A spokesperson for the Sudzo Corporation revealed today that studies have shown it is good for "
            "people to buy Sudzo products.",
            ["a", "for", "the", "that", "have", "it", "is", "for", "to"],
        ),
        ("I recommend that you buy Sudzo for your laundry.", ["i", "that", "you", "for", "your"]),
        ("Buy Sudzo.", []),
    ],
)
def test_the_stop_words_of_the_textbook(sentence: str, expected: list[str]) -> None:
    """The news and the advertisement of Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", 3.2.4."""
    table = stop_table(("en",))
    found = [t for t in words_by_rules(sentence.casefold()) if _is_stop(table, np.uint64(hash_by_definition(t)))]
    assert found == expected


def test_a_stop_table_is_a_half_empty_hash_set_of_its_words() -> None:
    """Each word of the list is in it, other words are not, and the probes always meet an empty slot."""
    table = stop_table(("en", "de"))
    assert table.dtype == np.uint64
    assert not table.flags.writeable
    assert len(table) & (len(table) - 1) == 0
    assert 2 * np.count_nonzero(table) <= len(table)
    for word in ("the", "don't", "don\u2019t", "yourselves", "und", "für", "dass"):
        assert _is_stop(table, np.uint64(hash_by_definition(word))), word
    for word in ("buy", "laundry", "haus", "Und"):
        assert not _is_stop(table, np.uint64(hash_by_definition(word))), word
    assert not _is_stop(stop_table(("en",)), np.uint64(hash_by_definition("und")))


def test_no_language_is_the_set_without_members() -> None:
    """An empty choice is valid and stops nothing."""
    assert not _is_stop(stop_table(()), np.uint64(hash_by_definition("the")))


def test_every_listed_language_has_a_table() -> None:
    """Each language that is offered gives at least a few stop words, whatever the state of its file."""
    languages = stop_languages()
    assert {"ar", "de", "en", "es", "fr", "hi", "ru"} <= set(languages)
    for language in languages:
        assert np.count_nonzero(stop_table((language,))) >= 5, language


def test_an_entry_of_several_tokens_is_left_out() -> None:
    """No token can equal a phrase, and none of its words becomes a stop word through it."""
    table = stop_table(("vi",))
    phrases = {entry for entry in stop_words.get_stop_words("vi") if " " in entry}
    alone = {word for phrase in phrases for word in phrase.split()} - set(stop_words.get_stop_words("vi"))
    assert phrases
    assert alone
    assert not any(_is_stop(table, np.uint64(hash_by_definition(word))) for word in alone)


def test_the_order_of_languages_changes_nothing() -> None:
    """The name of a stop set depends on its words alone."""
    assert stop_rules(("en", "de")) == stop_rules(("de", "en", "de"))
    assert len({stop_rules(x) for x in ((), ("en",), ("de",), ("en", "de"))}) == 4
    assert regex.fullmatch(r"stop-[0-9a-f]{16}", stop_rules(("en",)))


def test_an_unknown_language_is_refused_by_name() -> None:
    """The message has the value, the rule and the languages there are."""
    with pytest.raises(ConfigError, match=r"'tlh' has no list; choose among: ar, .*en, .*vi"):
        stop_table(("en", "tlh"))


def test_own_stop_words_take_the_place_of_the_lists() -> None:
    """Folded as text is; an apostrophe stands for the typographic one too, and no language adds to them."""
    table = stop_table(("en",), ("Der", "don't"))
    found = [_is_stop(table, np.uint64(hash_by_definition(word))) for word in ("der", "don't", "don\u2019t", "the")]
    assert found == [True, True, True, False]
    assert stop_rules((), ("der", "DIE")) == stop_rules(("en",), ("die", "der", "die")) != stop_rules((), ("der",))
    assert stop_rules((), tuple(stop_words.get_stop_words("en"))) == stop_rules(("en",))


@pytest.mark.parametrize(("entry", "count"), [("", 0), ("--", 0), ("as well", 2), ("学生", 2)])
def test_an_own_stop_word_that_is_not_one_word_is_refused(entry: str, count: int) -> None:
    """A built-in list leaves it out; a user who wrote it learns that it would have no effect."""
    with pytest.raises(ConfigError, match=f"stop_words has '{entry}', which is {count} words.*a line of its own"):
        stop_table((), ("the", entry))
