"""Strings in place: kernels find the characters of any Python string, and runs of blanks become short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from python_calls import from_python

from neardup.features.texts.raw_texts import copy_codes, raw_texts
from neardup.machine.compile import kernel
from neardup.machine.kernels.strings import shorten_runs

copied = from_python(copy_codes)
shortened = from_python(shorten_runs)
ANY = st.text(max_size=80) | st.text(st.characters(max_codepoint=255), max_size=80)


class Name(str):
    """A string of a class of its own, whose characters are elsewhere than those of other strings."""

    __slots__ = ()


def read(texts: list[str]) -> list[str]:
    """The texts as a kernel reads them."""
    raw = raw_texts(texts)
    out = []
    for i, length in enumerate(raw.lengths):
        codes = np.empty(length, np.uint32)
        assert copied(raw, i, 0, length, codes) == length
        out.append("".join(map(chr, codes.tolist())))
    return out


@given(st.lists(ANY, max_size=5))
@example(["", "a", "é", "я", "😀", "\x00", "\ud800", "aé" * 300, "aя" * 300, "a😀" * 300])
def test_kernels_read_the_code_points_of_any_string(texts: list[str]) -> None:
    """With characters of 1, 2 and 4 bytes, with NUL and with surrogates."""
    assert read(texts) == texts


def test_texts_that_are_ascii_have_width_0() -> None:
    """The others have the bytes of a character."""
    assert raw_texts(["a", "", "é", "aя", "a😀"]).widths.tolist() == [0, 0, 1, 2, 4]


def test_strings_of_a_subclass_are_read_as_others() -> None:
    """Python keeps the characters of an instance of a subclass apart from the instance."""
    texts = [Name(text) for text in ("plain", "größe", "я", "😀", "")]
    assert read(list(texts)) == texts


@pytest.mark.parametrize("wrong", [None, b"bytes", 7, ["a"]])
def test_only_strings_are_read(wrong: object) -> None:
    """Any other object would be read as if it were a string, so it is refused before."""
    with pytest.raises(TypeError, match="not a string"):
        raw_texts(["a", wrong])  # type: ignore[list-item]


def test_a_part_of_a_text_is_copied() -> None:
    """From the first place to the last, exclusive."""
    out = np.zeros(4, np.uint32)
    assert copied(raw_texts(["xyz", "αβγδε"]), 1, 1, 4, out) == 3
    assert out.tolist() == [*map(ord, "βγδ"), 0]


def test_a_kernel_that_reads_objects_holds_the_interpreter_lock() -> None:
    """No other thread can change an object meanwhile."""
    compiled = kernel(locked=True)(lambda numbers: numbers[0])
    assert not compiled.targetoptions["nogil"]  # type: ignore[attr-defined]
    assert compiled(np.array([7])) == 7


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
@given(st.text("ab ", max_size=200), st.integers(0, 130))
@example("", 0)
@example(" ", 0)
@example(" ", 64)
@example("a b", 62)
@example("a  ", 62)
def test_one_blank_of_each_run_stays_and_none_at_the_ends(dtype: type, text: str, shift: int) -> None:
    """Blanks may stand at any distance from the start of a block of 64, and on both sides of its end."""
    text = "x" * shift + text
    codes = np.array([*map(ord, text)], dtype)
    assert "".join(map(chr, codes[: shortened(codes, dtype(32))].tolist())) == " ".join(
        part for part in text.split(" ") if part
    )
