"""Words of plain letters: the same hashes as the automaton gives, for any text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from python_calls import from_python

from neardup.features.texts import plain_words
from neardup.features.texts.plain_words import word_hashes, word_scratch, word_tables
from neardup.features.texts.unicode_table import code_points_of
from neardup.features.texts.words import token_hashes, word_table

_word_hashes = from_python(word_hashes)
PARTS = st.sampled_from(
    ["word", "слово", "كلمة", "don't", "l’été", "3.14", "a.b", ".", "'", '"', ":", ",", " ", "\r", "\n", "\u3000", "!",
     "“", "_", "\u0301", "\u200d", "\u00ad", "😀", "🇩🇪", "漢字", "カナ", "ไทย", "א\"ב", "a:b", "x_1", "7", "\u2028"]
)  # fmt: skip


def both(text: str) -> tuple[list[int], list[int]]:
    """The hashes by runs, and the hashes of the automaton."""
    codes = code_points_of(text)
    found = []
    for values in [codes.astype(np.uint8)] if text.isascii() else [codes]:
        fast, slow = np.empty(len(codes), np.uint64), np.empty(len(codes), np.uint64)
        found += [fast[: _word_hashes(values, word_tables(), word_scratch(), fast)].tolist()]
        found += [slow[: token_hashes(values, word_table(), slow)].tolist()]
    return found[0], found[1]


@pytest.mark.long
@given(st.lists(PARTS, max_size=60).map("".join), st.integers(0, 1100))
@example("", 0)
@example("a" * 3000, 0)
@example("word's " * 400 + "漢" * 1500 + "。" + "don't" * 700, 1019)
def test_runs_give_the_hashes_of_the_automaton(text: str, shift: int) -> None:
    """For any mixture of code points, and any end of a block."""
    fast, slow = both("x" * (shift % 7) + " " * shift + text)
    assert fast == slow


@pytest.mark.long
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_runs_give_the_hashes_of_the_automaton_for_any_code_points(text: str) -> None:
    """From all of Unicode."""
    fast, slow = both(text)
    assert fast == slow


def test_ascii_has_the_groups_of_the_table() -> None:
    """The comparisons that group ASCII agree with the properties of Unicode."""
    group = from_python(plain_words._ascii_group)
    assert [group(np.uint8(c)) for c in range(128)] == word_tables().groups[:128].tolist()


def test_every_pair_of_classes_is_cut_alike() -> None:
    """Between letters and blanks: three code points, one for each entry of the property table."""
    entries, positions = np.unique(word_table(), return_index=True)
    some = [
        chr(position) for position, entry in zip(positions, entries, strict=True) if not 0xD800 <= position < 0xE000
    ]
    for a in some:
        fast, slow = both("".join(f" x{a}{b}{c}y{a}{b} {b}{c}x " for b in some for c in some))
        assert fast == slow, hex(ord(a))


@pytest.mark.parametrize("name", ["itn_multilingual", "licence_texts"])
def test_real_texts_are_cut_alike(name: str, real_data: Callable[[str], Path]) -> None:
    """News in 55 languages, and licences."""
    lines = (real_data(name) / "docs.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    fast, slow = both("\n".join(json.loads(line)["text"] for line in lines).casefold())
    assert len(slow) > 10_000
    assert fast == slow
