"""Normalisation: the fast path for ASCII, the general path and Python's string methods give the same."""

from __future__ import annotations

import itertools
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neardup.features.texts.normalize import NormalForm, code_points, normalize

FORMS = [NormalForm(*on) for on in itertools.product((False, True), repeat=4)]
ASCII = st.text(st.characters(max_codepoint=127), max_size=60)
# ASCII with many blanks of all kinds, among them the four separators 0x1C to 0x1F, and NUL.
BLANKS = st.text(st.sampled_from("aZ \t\n\v\f\r\x1c\x1d\x1e\x1f\x00\x7f"), max_size=60)
ENCODABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
# Characters that change under NFKC or folding, and white space beyond ASCII.
TRICKY = st.text(
    st.sampled_from("aA ßẞſKÅıİΐﬁﬃＡｚ１²½ᾳ\u0345\u0301e\u00a0\u0085\u1680\u2003\u2028\u3000\u200b\ufeff漢カﾊﾞ"),
    max_size=30,
)


def normalized(texts: list[str], form: NormalForm) -> list[str]:
    """The texts of the columns, as strings."""
    codes = code_points(texts, form)
    assert not codes.surrogates.any()
    out = []
    for i in range(len(texts)):
        buffer = codes.wide if codes.is_wide[i] else codes.narrow
        out.append("".join(map(chr, buffer[codes.starts[i] : codes.starts[i] + codes.lengths[i]].tolist())))
    return out


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(ASCII | BLANKS, max_size=5))
@example(["\x1c\x1d\x1e\x1f", " \x00 ", "A\x1fB", "\x00"])
def test_the_ascii_path_equals_the_general_one(form: NormalForm, texts: list[str]) -> None:
    """The paths agree in all eight forms, with any neighbours."""
    assert normalized(texts, form) == [normalize(text, form) for text in texts]


@pytest.mark.parametrize("form", FORMS)
def test_every_ascii_character_goes_either_way_alike(form: NormalForm) -> None:
    """Each character is tested alone, in a word, and between blanks."""
    texts = [text for c in map(chr, range(128)) for text in (c, f"x{c}y", f" {c} ", c + c)]
    assert normalized(texts, form) == [normalize(text, form) for text in texts]


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(ENCODABLE | TRICKY | ASCII, max_size=5))
def test_texts_of_any_script_are_what_normalize_says(form: NormalForm, texts: list[str]) -> None:
    """ASCII, other scripts and texts that become ASCII, mixed in one batch."""
    assert normalized(texts, form) == [normalize(text, form) for text in texts]


def test_normalize_is_the_chain_of_python_methods() -> None:
    """NFKC, case fold, NFKC again, split and join; each can be left out."""
    text = " \u2003Straße\u00a0 ΑΥΛΌΣ ﬁnﬀ\t\n"
    assert normalize(text, NormalForm()) == "strasse αυλόσ finff"
    assert normalize(text, NormalForm(nfkc=False)) == "strasse αυλόσ finff"
    assert normalize(text, NormalForm(fold_case=False)) == "Straße ΑΥΛΌΣ finff"
    assert normalize(text, NormalForm(False, False, True)) == "Straße ΑΥΛΌΣ ﬁnﬀ"
    assert normalize(text, NormalForm(False, False, False)) == text


@pytest.mark.long
def test_folding_can_undo_nfkc_so_it_is_done_twice() -> None:
    """For every single code point, the result is in NFKC and does not change when it is normalised again."""
    form = NormalForm()
    for c in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(c) != "Cs":
            once = normalize(c, form)
            assert unicodedata.is_normalized("NFKC", once), hex(ord(c))
            assert normalize(once, form) == once, hex(ord(c))


@pytest.mark.parametrize(
    ("text", "ascii_text"),
    [
        ("ＨＥＬＬＯ　ｗｏｒｌｄ", "hello world"),
        ("eﬃcient ﬁsh", "efficient fish"),
        ("\u212aelvin", "kelvin"),
        ("½", "1\u20442"),
    ],
)
def test_texts_that_become_ascii_are_the_same_as_if_written_so(text: str, ascii_text: str) -> None:
    """Full width, ligatures, the Kelvin sign; one half becomes a fraction slash, which is not ASCII."""
    assert normalized([text, ascii_text], NormalForm()) == [ascii_text] * 2


def test_only_full_case_folding_makes_ascii_of_a_sharp_s() -> None:
    """Without NFKC and without folding a letter keeps its code point."""
    assert normalized(["ß", "\u212a"], NormalForm(False, True, False)) == ["ss", "k"]
    assert normalized(["ß", "\u212a"], NormalForm(False, False, False)) == ["ß", "\u212a"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["\ud800", "abc\udfffdef", "\udc80 漢", "\ud83d\ude00"])
def test_lone_surrogates_are_marked_in_every_form(form: NormalForm, text: str) -> None:
    """Two halves of a pair are two lone surrogates in Python; the other texts do not change."""
    codes = code_points(["a b", text, "漢字"], form)
    assert codes.surrogates.tolist() == [False, True, False]
    assert codes.lengths.tolist() == [3, 0, 2]
    assert codes.wide[codes.starts[2] :][:2].tolist() == [ord("漢"), ord("字")]


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\x1c\x1f", "\u3000\u2003", "\u00a0", " \u2028 "])
def test_blank_texts_become_empty(blank: str) -> None:
    """A text of any kind of white space becomes empty, but not with ``fold_space`` off."""
    assert normalized([blank], NormalForm()) == [""]
    assert normalized([blank], NormalForm(fold_space=False)) == [unicodedata.normalize("NFKC", blank)]


def test_an_empty_batch_is_an_empty_batch() -> None:
    """No text, no column has an entry, and all sizes are 0."""
    *columns, characters, longest, shortest = code_points([], NormalForm())
    assert [len(column) for column in columns] == [0] * len(columns)
    assert (characters, longest, shortest) == (0, 0, 0)


def test_sizes_are_those_of_the_lengths() -> None:
    """The sum, the greatest and the least of the lengths count texts of all kinds, also of those that are selected."""
    codes = code_points(
        ["One  two", "\u0434\u0432\u0430", "", "\ud800", "\ufb01\ufb01\ufb01\ufb01\ufb01"], NormalForm()
    )
    assert codes.lengths.tolist() == [7, 3, 0, 0, 10]
    assert codes[-3:] == (20, 10, 0)
    assert codes.select(codes.lengths > 0)[-3:] == (20, 10, 3)
    assert codes.select(codes.lengths > 10)[-3:] == (0, 0, 0)


def test_texts_do_not_depend_on_the_texts_before_them() -> None:
    """Starts of a thousand texts of both kinds, folded in place in two buffers."""
    texts = [" ".join(["wörd" if i % 3 else "WORD"] * (i % 7)) + "  " * (i % 2) for i in range(1000)]
    assert normalized(texts, NormalForm()) == [normalize(text, NormalForm()) for text in texts]
