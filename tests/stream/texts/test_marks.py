"""Invisible letters, and marks that writers put or leave out, make no difference between texts."""

from __future__ import annotations

import orjson
import pytest
import regex

from neardup import Config, Deduplicator, Document
from neardup.features.texts.normalize import NormalForm, code_points, normalize
from neardup.features.texts.unicode_table import IGNORABLES
from neardup.pairs.explanations.given_texts import given_text
from neardup.pairs.json_lines import escape_unprintable
from neardup_workers.outside.process.printable import printable

MARKED = NormalForm.of(["nfkc", "case", "space", "marks"])
# A text as a site writes it, and the same text as another writes it.
UNSEEN = {
    "soft hyphens": ("Donau\u00addampf\u00adschiff\u00adfahrt", "Donaudampfschifffahrt"),
    "zero width space": ("\u0e32\u0e29\u0e32\u200b\u0e44\u0e17\u0e22", "\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22"),
    "word joiner": ("10\u2060km", "10km"),
    "zero width non-joiner": ("\u0645\u06cc\u200c\u062e\u0648\u0627", "\u0645\u06cc\u062e\u0648\u0627"),
    "bidi isolates": ("\u2068Tel Aviv\u2069", "Tel Aviv"),
    "bidi marks": ("\u200f\u05e9\u05dc\u05d5\u05dd\u200e", "\u05e9\u05dc\u05d5\u05dd"),
    "arabic letter mark": ("\u061c\u0633\u0644\u0627\u0645", "\u0633\u0644\u0627\u0645"),
    "variation selectors": ("\u845b\U000e0100\u57ce\ufe00", "\u845b\u57ce"),
    "emoji as picture or text": ("\u2764\ufe0f", "\u2764"),
    "grapheme joiner between marks": ("a\u034f\u0301", "\u00e1"),
    "between a letter and its accent": ("caf\u00ade\u00ad\u0301", "caf\u00e9"),
    "between a vowel and a final of Hangul": ("\u1112\u200b\u1161\u200b\u11ab", "\ud55c"),
    "hangul filler": ("\u3164\ud55c\uae00\uffa0", "\ud55c\uae00"),
    "mongolian selector": ("\u182d\u180b\u1820", "\u182d\u1820"),
    "byte order mark inside": ("one\ufefftwo", "onetwo"),
    "a run longer than a block": ("a" + "\u200b" * 700 + "b" + "\u00ad" * 300, "ab"),
    "between blanks": ("a \u200b b \u200b", "a b"),
    "tags": ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4"),
}  # fmt: skip
MARKS = {
    "arabic vowel signs": ("\u0643\u064e\u062a\u064e\u0628\u064e", "\u0643\u062a\u0628"),
    "tatweel": ("\u0643\u0640\u0640\u062a\u0628", "\u0643\u062a\u0628"),
    "a tatweel alone": ("\u0643\u062a\u0628 \u0640 \u0643\u062a\u0628", "\u0643\u062a\u0628 \u0643\u062a\u0628"),
    "persian yeh and kaf": ("\u06a9\u062a\u0627\u0628\u06cc", "\u0643\u062a\u0627\u0628\u064a"),
    "hebrew points": ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "hebrew composed letters": ("\ufb2a\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "russian stress": ("\u0437\u0430\u0301\u043c\u043e\u043a", "\u0437\u0430\u043c\u043e\u043a"),
    "turkish capitals": ("\u0130STANBUL ISPARTA", "istanbul \u0131sparta"),
    "blanks between Han": ("\u5317 \u4eac\u3000\u5927\n\u5b66 ABC", "\u5317\u4eac\u5927\u5b66 abc"),
}  # fmt: skip
KEPT = {
    "a letter with an accent": "\u00e9\u043a\u0301\u0439\u0451",
    "an accent behind Latin letters": "\u1eb9\u0301",
    "a hamza": "\u0623\u0626",
    "a blank between Han and Latin": "\u5317 a \u4eac",
}


def folded(text: str, form: NormalForm) -> str:
    codes = code_points([text], form)
    held = codes.wide if codes.is_wide[0] else codes.narrow
    return "".join(map(chr, held[codes.starts[0] : codes.starts[0] + codes.lengths[0]].tolist()))


@pytest.mark.parametrize(("written", "plain"), UNSEEN.values(), ids=UNSEEN)
def test_invisible_letters_make_no_difference(written: str, plain: str) -> None:
    """As in Unicode's toNFKC_Casefold; with case and without."""
    for form in (NormalForm(), NormalForm(fold_case=False), MARKED):
        assert folded(written, form) == folded(plain, form) == normalize(written, form)


def test_the_invisible_letters_are_those_of_unicode() -> None:
    """Every code point with the property Default_Ignorable_Code_Point, and no other."""
    every = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    property_ = set(regex.findall(r"\p{Default_Ignorable_Code_Point}", every))
    assert {chr(c) for first, last in IGNORABLES for c in range(first, last + 1)} == property_


def test_without_nfkc_every_letter_stays() -> None:
    """``fold = none`` compares texts as they are."""
    assert folded("a\u00adb", NormalForm(False, False, False)) == "a\u00adb"


@pytest.mark.parametrize(("written", "plain"), MARKS.values(), ids=MARKS)
def test_marks_make_a_difference_only_without_their_step(written: str, plain: str) -> None:
    """Each kind of mark."""
    assert folded(written, MARKED) == folded(plain, MARKED) == normalize(written, MARKED)
    assert folded(written, NormalForm()) != folded(plain, NormalForm()) or written[0] == "\ufb2a"


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_is_no_mark_stays(text: str) -> None:
    """Letters and their accents, which words differ by."""
    assert folded(text, MARKED) == folded(text, NormalForm()) == normalize(text, MARKED)


def test_a_place_in_a_text_without_blanks_between_han_is_found_in_the_given_text() -> None:
    """The pieces of a text know nothing of their neighbours."""
    text = given_text("\u5317 \u4eac \u5927", MARKED)
    assert (text.codes.tolist(), text.given(1, 2)) == ([0x5317, 0x4EAC, 0x5927], (2, 3))


def test_another_step_is_another_window() -> None:
    """The fingerprint of a stored window has what was folded."""
    assert Config().signing_fingerprint != Config(fold=("nfkc", "case", "space", "marks")).signing_fingerprint


def test_a_text_with_soft_hyphens_is_a_copy() -> None:
    """Similarity 1, not .38."""
    text = "Die Donaudampfschifffahrtsgesellschaft stellt ihren Betrieb im Herbst endgueltig ein"
    hyphens = "\u00ad".join(text)
    pairs = Deduplicator(Config()).process([Document("a", text), Document("b", hyphens)])
    assert [pair.similarity for pair in pairs] == [1.0]


def test_explanations_show_invisible_letters_as_escapes() -> None:
    """As JSON and on a terminal; the value of the JSON stays the same."""
    for code in (c for first, last in IGNORABLES for c in range(first, last + 1)):
        line = orjson.dumps(chr(code))
        assert escape_unprintable(line).isascii()
        assert orjson.loads(escape_unprintable(line)) == chr(code)
        assert printable(chr(code)).isascii()
