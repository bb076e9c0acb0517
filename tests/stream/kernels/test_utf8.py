"""Bytes in UTF-8 become code points in compiled code, as Python's own decoder says."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python

from neardup.machine.kernels.utf8 import DECODED_SPARE, NOT_UTF8, TAIL_BYTES, decode_utf8

decoded_to = from_python(decode_utf8)
# The first and the last byte of each class of bytes, and the limits of the second bytes of E0, ED, F0 and F4.
EDGES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 f9 ff")
# Bytes before and after a text, which must not change its result: the text is at any place of a block.
AROUND = [(b"", b""), (b"x" * 15, b"\x80" * 20), (b"\xe0", b"\xbf" * 3)]


def decoded(data: bytes, before: bytes = b"", after: bytes = b"") -> str | None:
    """The text between other bytes; ``None`` if it is not UTF-8."""
    first, tail = len(before), np.full(TAIL_BYTES, 0x80, np.uint8)
    out = np.empty(len(data) + DECODED_SPARE, np.uint32)
    count = decoded_to(np.frombuffer(before + data + after, np.uint8), first, first + len(data), tail, out)
    return None if count == NOT_UTF8 else "".join(map(chr, out[:count].tolist()))


def expected(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


@pytest.mark.long
def test_every_code_point_is_decoded() -> None:
    """In one text, and none of the surrogates."""
    points = "".join(map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000))))
    assert decoded(points.encode()) == points
    for surrogate in range(0xD800, 0xE000, 37):
        assert decoded(chr(surrogate).encode(errors="surrogatepass")) is None


@pytest.mark.parametrize(("before", "after"), AROUND, ids=["alone", "in a block", "cut"])
def test_three_bytes_of_any_kinds_are_utf8_or_not(before: bytes, after: bytes) -> None:
    """All sequences of one to three bytes at the edges of the rules, and four that begin with a first of four."""
    for length in (1, 2, 3):
        for each in itertools.product(EDGES, repeat=length):
            assert decoded(bytes(each), before, after) == expected(bytes(each)), bytes(each).hex()
    for each in itertools.product(b"\xf0\xf1\xf4\xf5", EDGES, b"\x80\xbf\xc0", b"\x7f\x80\xbf\xc0"):
        assert decoded(bytes(each), before, after) == expected(bytes(each)), bytes(each).hex()


@given(
    st.text(st.sampled_from("ab \x7fé߿ࠀ漢￿😀\U0010ffff"), max_size=120), st.binary(max_size=40), st.binary(max_size=40)
)
def test_a_text_of_any_length_is_decoded_among_others(text: str, before: bytes, after: bytes) -> None:
    """Code points of one to four bytes lie across the ends of blocks; stretches of ASCII come and go."""
    assert decoded(text.encode(), before, after) == text


def test_one_wrong_byte_is_found_wherever_it_is() -> None:
    """In a long text that is mostly ASCII, and in one that is not."""
    draws = random.Random(7)
    for letters in ("plain text é", "наш текст 漢😀"):
        for _ in range(2000):
            data = bytearray("".join(draws.choices(letters, k=80)).encode())
            data[draws.randrange(len(data))] = draws.choice(EDGES)
            cut = bytes(data[: draws.randint(60, len(data))])
            assert decoded(cut) == expected(cut), cut.hex()
