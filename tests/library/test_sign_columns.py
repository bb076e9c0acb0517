"""Signing columns gives what signing documents gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream import Column, Config, ConfigError, Document, Signer
from stream.documents import DocumentColumns
from stream.pipeline import Signed

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["plain ascii", "Straße …", "نص عربي", "漢字かな", "", "  ", "x" * 50, "é" * 50]
)


def column(values: list[bytes], before: bytes = b"", after: bytes = b"") -> Column:
    """Strings as a slice of a larger array."""
    starts = np.cumsum([len(before), *map(len, values)])
    return Column(np.frombuffer(before + b"".join(values) + after, np.uint8), starts)


def signed_columns(signer: Signer, documents: list[Document]) -> Signed:
    times = np.array([np.nan if d.timestamp is None else d.timestamp for d in documents], np.float64)
    ids, texts = [d.id.encode() for d in documents], [d.text.encode() for d in documents]
    return signer.sign_columns(column(ids, b"xy", b"z"), times, column(texts, "é".encode(), b"\xff"))


def assert_same(a: Signed, b: Signed) -> None:
    assert a.refusals == b.refusals
    assert (a.characters, a.shingles) == (b.characters, b.shingles)
    for first, second in zip(a.batch, b.batch, strict=True):
        assert np.array_equal(first, second)


@pytest.mark.parametrize("settings", [{}, {"shingles": "words"}, {"scheme": "identical"}, {"scheme": "records"}])
def test_columns_are_for_texts(settings: dict[str, str]) -> None:
    """Schemes of other kinds refuse columns."""
    signer = Signer(Config(**settings))
    documents = [Document("a", "some text here"), Document("é", "नमस्ते दुनिया", 3.5), Document("c", "more", 1e300)]
    if settings.get("scheme") == "records":
        with pytest.raises(ConfigError, match="columns hold texts"):
            signed_columns(signer, documents)
    else:
        assert_same(signed_columns(signer, documents), signer.sign(documents))


@given(st.lists(st.builds(Document, st.text(st.characters(exclude_categories=["Cs"]), max_size=5), TEXTS,
                          st.none() | st.floats(allow_nan=False)), max_size=8))  # fmt: skip
@example([Document("a", "x" * 50), Document("b", "ok")])
@example([Document("i" * 40, "too long an id"), Document("b", "ü")])
def test_columns_are_signed_as_documents_are(documents: list[Document]) -> None:
    """Rows, refusals and counts, with ASCII and other texts mixed, too long texts and ids, and times out of range."""
    signer = Signer(Config(text_characters_max=40, id_bytes_max=30))
    assert_same(signed_columns(signer, documents), signer.sign(documents))


def test_bytes_that_are_not_utf8_are_refused_alone() -> None:
    """Also half a character at the end of one text and the other half at the start of the next."""
    half = "é".encode()
    texts = [b"good text", b"cut " + half[:1], half[1:] + b" cut", "schön".encode(), b"\xed\xa0\x80", b"\xff"]
    ids = [b"0", b"1", b"2", b"3", b"4", b"5"]
    signer = Signer(Config())
    found = signer.sign_columns(column(ids), np.full(6, np.nan), column(texts))
    assert [(r.place, r.id, r.reason) for r in found.refusals] == [(i, str(i), "text_not_utf8") for i in (1, 2, 4, 5)]
    assert_same(found._replace(refusals=[]), signer.sign([Document("0", "good text"), Document("3", "schön")]))
    found = signer.sign_columns(column([b"a", b"\xff", b"c"]), np.zeros(3), column([b"one", b"two", b"three"]))
    assert [(r.place, r.id, r.reason) for r in found.refusals] == [(1, "\ufffd", "id_not_utf8")]


def test_starts_of_32_bits_give_the_same() -> None:
    """The offsets of an Arrow array of type string have 32 bits, of large_string 64."""
    ids, texts = column([b"a", "é".encode()], b"x"), column([b"one text", "zwö texte".encode()], b"yz", b"\xff")
    signer, times = Signer(Config()), np.full(2, np.nan)
    narrow: list[Any] = [(data, starts.astype(np.int32)) for data, starts in (ids, texts)]
    assert_same(
        signer.sign_columns(Column(*narrow[0]), times, Column(*narrow[1])), signer.sign_columns(ids, times, texts)
    )


def test_no_string_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns without a refused document are signed without a Python object for each document."""

    def read(*_: object) -> bytes:
        raise AssertionError("a string of a column was read alone")

    monkeypatch.setattr(Column, "at", read)
    ids, texts = column([b"a", "é".encode(), b"c"]), column([b"one text", "zwö texte".encode(), "наш текст".encode()])
    assert Signer(Config()).sign_columns(ids, np.full(3, np.nan), texts).batch.size == 3


def test_columns_of_different_lengths_are_refused() -> None:
    """The message says how many there are of each."""
    with pytest.raises(ConfigError, match=r"\(1, 2, 1\)"):
        Signer(Config()).sign_columns(column([b"a"]), np.zeros(2), column([b"text"]))


def test_columns_read_as_documents() -> None:
    """By place, by slice, and in order."""
    columns = DocumentColumns(column([b"a", b"b"]), np.array([np.nan, 2.0]), column([b"one", "zwö".encode()]))
    assert list(columns) == [Document("a", "one"), Document("b", "zwö", 2.0)]
    assert columns[-1:] == [Document("b", "zwö", 2.0)]
