"""The table-driven normaliser gives what ``unicodedata`` gives, on every code point, pair and mixture."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from cases import SEEDS
from hypothesis import example, given
from hypothesis import strategies as st
from quick_parameters import examples, quick_first

from neardup.features.texts.normalize import NormalForm, code_points, normalize, normalize_any

FORMS = [NormalForm(*on) for on in itertools.product((False, True), repeat=4)]
COMPOSING = [form for form in FORMS if form.nfkc and form.fold_space]
# Of a few of these, long runs of marks are made.
LONG_RUNS = "aé\u1fb3ệß\u0301\u0323\u0f73\u0f74\uff9e\u0345\u0344\u0f71\u3099\u0334\u037a"
MIXED = st.text(
    st.sampled_from(
        "aeAEI êơưαιηω\u0130\u1fb3\u037a\u0345\u0344\u0301\u0308\u0323\u0302\u0327\u0334\u0651\u064e\u0650\u0654\u0653"
        "ا\u09c7\u09be\u09d7\u0dd9\u0dcf\u0dca\u1100\u1161\u11a8\u11a7\uac00\uac01\uff76\uff9e\u304b\u3099\u0e33\u0e49"
        "\u00ad\u200b\ufe0f\u034f\u1160\u0640\u06cc\u0131i\u0307\u0438\u0437 \u5317\u4eac\u3042\u05b8"
        "ß…ﬁﷺ½\u00a0\u3000\n\u00a8\uffff\ufdd0\U0001d15e\U0001d165\U0001f600\u200d\u0f71\u0f72\u0f74\u0958\u093c"
    ),
    max_size=40,
)


@cache
def every() -> list[str]:
    """Code points. Those without a meaning are all alike: one block in sixteen, and all of them in ``make torture``."""
    return [
        chr(c)
        for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        and (SEEDS > 1 or unicodedata.category(chr(c)) not in {"Cn", "Co"} or not c >> 8 & 15)
    ]


@cache
def marks() -> list[str]:
    return [c for c in every() if unicodedata.combining(c)]


@cache
def seconds() -> list[str]:
    """Second code points of canonical decompositions that are no marks, and conjoining vowels and finals of Hangul."""
    pairs = (parts for c in every() if len(parts := unicodedata.decomposition(c).split()) == 2 and "<" not in parts[0])
    found = {chr(int(second, 16)) for _, second in pairs} - set(marks())
    return sorted(found | set("\u1161\u1175\u11a7\u11a8\u11c2"))


@cache
def starters() -> list[str]:
    """What changes or decomposes, all but most of Hangul, and the letters that marks compose with."""
    return [
        c
        for c in every()
        if not unicodedata.combining(c)
        and (c < "\u0250" or normalize(c, NormalForm()) != c or unicodedata.normalize("NFD", c) != c)
        and not ("\uac00" <= c <= "\ud7a3" and ord(c) % 97)
    ]


def normalized(texts: list[str], form: NormalForm) -> list[str]:
    """The texts of the columns, as strings."""
    codes = code_points(texts, form)
    assert not codes.surrogates.any()
    buffers = [codes.wide if wide else codes.narrow for wide in codes.is_wide]
    parts = zip(buffers, codes.starts, codes.lengths, strict=True)
    return [buffer[a : a + n].astype("<u4").tobytes().decode("utf-32-le") for buffer, a, n in parts]


def check(texts: list[str], form: NormalForm) -> None:
    for text, got in zip(texts, normalized(texts, form), strict=True):
        assert got == normalize(text, form), ascii(text[:200])


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_every_code_point_is_normalised_as_unicodedata_does(form: NormalForm) -> None:
    """In one text, one after the other, and each in a text between letters."""
    check(["".join(every()), "x".join(every())], form)
    check([f"e{c}o" for c in every()[:0x12000]], form)


@cache
def telling_marks() -> list[str]:
    """The marks that compose or change, and one of each class: another mark of a class differs from it in nothing that
    the tables hold. ``make torture`` takes every mark."""
    composing = {part for c in every() for part in unicodedata.normalize("NFD", c)[1:]}
    first = {unicodedata.combining(mark): mark for mark in reversed(marks())}.values()
    return [m for m in marks() if SEEDS > 1 or m in composing or m in first or normalize(m, NormalForm()) != m]


@pytest.mark.long
@pytest.mark.parametrize("form", COMPOSING)
def test_every_pair_of_a_starter_and_a_mark_is_normalised_as_unicodedata_does(form: NormalForm) -> None:
    """Each starter that changes or decomposes, with each mark and each vowel sign that may compose; of the forms that
    are not the default, each fourth starter, from another one on."""
    chosen = starters() if form == NormalForm() else starters()[FORMS.index(form) % 4 :: 4]
    for start in range(0, len(chosen), 200):
        check(["".join(c + mark for mark in telling_marks() + seconds()) for c in chosen[start : start + 200]], form)


@pytest.mark.long
def test_every_starter_takes_the_common_marks_as_unicodedata_does() -> None:
    """Of one class each: every starter there is, also those that never change."""
    letters = [c for c in every() if not unicodedata.combining(c)]
    for marks in ("\u0301", "\u0323\u0302", "\u0302\u0323", "\u0651\u064e", "\u3099", "\u0338\u0345", "\u094d"):
        check(["".join(c + marks for c in letters)], NormalForm())


def test_marks_of_all_classes_are_sorted() -> None:
    """Two and three marks of each combination of classes, in every order, after plain and composed letters."""
    classes = {unicodedata.combining(c): c for c in marks()}
    check([c + a + b for c in "aéệ" for a, b in itertools.product(classes.values(), repeat=2)], NormalForm())
    some = list(classes.values())[::4]
    check(["a" + "".join(marks) for marks in itertools.product(some, repeat=3)], NormalForm())


def test_the_four_forms_of_each_code_point_are_normalised_alike() -> None:
    """The invariants of the file NormalizationTest.txt, derived: NFC, NFD, NFKC and NFKD of every code point."""
    changing = [c for c in every() if unicodedata.normalize("NFKD", c) != c]
    for name in ("NFC", "NFD", "NFKC", "NFKD"):
        texts = [unicodedata.normalize(name, c) for c in changing]
        check(texts, NormalForm())
        check(["\ufffe".join(texts)], NormalForm(fold_case=False))


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(MIXED | st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6))
@example(["\u0301", "a", "\u0301\u0323a", "\u0323"])
@example(["a" + "\u0301\u0323" * 40, "a" + "\u064e\u0651" * 40 + "b", "\u1100\u1161\u11a8" * 9])
@example(["\ufdfa" * 50, "\ufdfa\u0301" * 50])
@example(["a" * 125 + "\u0301\u0323\u0308" + "b" * 130 + "\u0651\u064e\u0610\u0653", "é" * 128 + "\u0323"])
def test_mixtures_are_normalised_as_unicodedata_does(form: NormalForm, texts: list[str]) -> None:
    """Marks at the start of a text and at the end of a block, long runs, expansions, several texts in a batch."""
    check(texts, form)


@given(
    st.sets(
        st.sampled_from("aé\u1fb3ệß\u0301\u0323\u0f73\u0f74\uff9e\u0345\u0344\u0f71\u3099\u0334\u037a"), min_size=2
    ),
    st.randoms(use_true_random=False),
    st.integers(250, 600),
)
@examples(60)
def test_long_runs_of_marks_are_sorted_as_unicodedata_does(chars: set[str], rng: random.Random, length: int) -> None:
    """Among them code points of class 0 that decompose to marks, and one that becomes a letter when it is folded."""
    texts = ["".join(rng.choices(sorted(chars), k=length)), "x\u0301"]
    check(texts, NormalForm())
    check(texts, NormalForm(fold_case=False))
    assert [normalize_any(text, NormalForm()) for text in texts] == [normalize(text, NormalForm()) for text in texts]


@given(
    st.lists(st.deferred(lambda: st.sampled_from(marks() + seconds() + starters())), max_size=300), st.integers(0, 260)
)
@examples(200)
def test_any_sequence_of_changing_code_points_is_normalised_as_unicodedata_does(chars: list[str], shift: int) -> None:
    """The sequence may be at any distance from the start of a block."""
    check(["." * shift + "’" + "".join(chars)], NormalForm())


@pytest.mark.parametrize(
    "event",
    ["ß", "ﬃß", "\ufdfa", "e\u0301", "x\u0301", "e\u0301\u0301", "a\u0302\u0323", "b\u0651\u064e",
     "b\u0651\u064e\u0650", "\u1100\u1161\u11a8", "ß\u0345", "\u0e33\u0e49"],
)  # fmt: skip
def test_interactions_are_found_at_every_distance_from_the_start(event: str) -> None:
    """Blocks have 256 code points and groups 64: an event may begin in one and end in the next."""
    check(["ы" * shift + event + "ы" * 70 + event for shift in range(270)], NormalForm())
    check([event * 3 + "ы" * shift + event for shift in range(140)], NormalForm())


def test_surrogates_refuse_only_their_own_text() -> None:
    """Also after marks and expansions, and in a run that would go to unicodedata."""
    texts = ["é\u0323", "\u1100\u1161\ud800", "ß\udfff…", "a\u0301\ud800\u0301", "漢字", "\u1100\u1161"]
    codes = code_points(texts, NormalForm())
    assert codes.surrogates.tolist() == [False, True, True, True, False, False]
    assert codes.lengths.tolist() == [2, 0, 0, 0, 2, 1]
    kept = [texts[0], texts[4], texts[5]]
    at = [0, 4, 5]
    assert [codes.wide[codes.starts[i]] for i in at] == [ord(normalize(text, NormalForm())[0]) for text in kept]


@pytest.mark.parametrize(
    "name",
    quick_first(["itn_multilingual", "ja_jglue", "blns", "licence_texts", "irplag_java", "mccormick_minhash", "sotu",
                 "textreuse_legal", "html_articles"], 3),
)  # fmt: skip
def test_real_texts_are_normalised_as_unicodedata_does(name: str, real_data: Callable[[str], Path]) -> None:
    """Every string in the JSON and every text file of each set."""
    texts: list[str] = []
    for path in sorted(real_data(name).rglob("*")):
        if path.suffix in {".jsonl", ".json", ".txt"}:
            content = path.read_text(encoding="utf-8", errors="replace")
            texts += strings(content.split("\n") if path.suffix == ".jsonl" else [content])
            texts.append(content)
    assert texts
    for start in range(0, len(texts), 1000):
        part = texts[start : start + 1000]
        check(part, NormalForm())


def strings(contents: list[str]) -> list[str]:
    """The strings that JSON documents hold, escapes resolved."""
    out: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            if value.encode(errors="replace").decode() == value:
                out.append(value)
        elif isinstance(value, dict):
            collect(list(value.values()))
        elif isinstance(value, list):
            for item in value:
                collect(item)

    for content in contents:
        with contextlib.suppress(ValueError):
            collect(json.loads(content))
    return out
