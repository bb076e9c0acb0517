"""Signing columns gives what signing documents gives."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neardup import Column, Config, ConfigError, Document, Signer
from neardup.documents.document import DocumentColumns
from neardup.pairs.signing import Signed
from neardup.stories.arrow.columns import column_of

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


@pytest.mark.long
@given(st.lists(st.builds(Document, st.text(st.characters(exclude_categories=["Cs"]), max_size=5), TEXTS,
                          st.none() | st.floats(allow_nan=False), collection=st.none()), max_size=8))  # fmt: skip
@example([Document("a", "x" * 50), Document("b", "ok")])
@example([Document("i" * 1_025, "too long an id"), Document("b", "ü")])
def test_columns_are_signed_as_documents_are(documents: list[Document]) -> None:
    """Rows, refusals and counts, with ASCII and other texts mixed, too long texts and ids, and times out of range."""
    signer = Signer(Config(text_characters_max=40))
    assert_same(signed_columns(signer, documents), signer.sign(documents))


def test_bytes_that_are_not_utf8_are_refused_alone() -> None:
    """Also half a character at the end of one text and the other half at the start of the next."""
    half = "é".encode()
    texts = [b"good text", b"cut " + half[:1], half[1:] + b" cut", "schön".encode(), b"\xed\xa0\x80", b"\xff"]
    ids = [b"0", b"1", b"2", b"3", b"4", b"5"]
    signer = Signer(Config())
    found = signer.sign_columns(column(ids), np.full(6, np.nan), column(texts))
    assert [(r.position, r.id, r.reason) for r in found.refusals] == [
        (i, str(i), "text_not_utf8") for i in (1, 2, 4, 5)
    ]
    assert_same(found._replace(refusals=[]), signer.sign([Document("0", "good text"), Document("3", "schön")]))
    found = signer.sign_columns(column([b"a", b"\xff", b"c"]), np.zeros(3), column([b"one", b"two", b"three"]))
    assert [(r.position, r.id, r.reason) for r in found.refusals] == [(1, "\ufffd", "id_not_utf8")]


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


def test_twice_as_many_documents_make_no_more_python_calls() -> None:
    """So no function runs once for each document, and what is returned holds no object for each."""

    def calls_of(count: int) -> int:
        ids, texts = [str(i).encode() for i in range(count)], ["наш текст the text é".encode()] * count
        columns = column(ids), np.full(count, np.nan), column(texts)
        signer, calls = Signer(Config()), 0
        signed = signer.sign_columns(*columns)
        assert signed.batch.size == count
        assert len(gc.get_referents(*gc.get_referents(signed))) < 100

        def called(*_: object) -> None:
            nonlocal calls
            calls += 1

        gc.disable()  # a collection calls functions of its own
        sys.setprofile(called)
        try:
            signer.sign_columns(*columns)
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls

    assert calls_of(1000) == calls_of(2000) > 100


ARRAYS: dict[str, Callable[[list[str]], Any]] = {
    "string": pa.array,
    "large_string": lambda texts: pa.array(texts, pa.large_string()),
    "string_view": lambda texts: pa.array(texts, pa.string_view()),
    "bytes": lambda texts: pa.array([text.encode() for text in texts]),
    "dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "slice": lambda texts: pa.array(["before", *texts, "after"])[1:-1],
    "chunks": lambda texts: pa.chunked_array([texts[:1], [], texts[1:]], pa.string()),
    "Polars": pl.Series,
    "pandas": lambda texts: pa.array(texts).to_pandas(),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("texts", [["one text", "", "zwö texte", "наш текст"], []], ids=["texts", "none"])
def test_an_array_of_arrow_is_a_column(kind: str, texts: list[str]) -> None:
    """Of any kind of strings, sliced, in chunks, from other libraries."""
    documents = [Document(f"é{i}", text) for i, text in enumerate(texts)]
    ids, columns = column_of(ARRAYS[kind]([d.id for d in documents])), column_of(ARRAYS[kind](texts))
    signer = Signer(Config())
    assert_same(signer.sign_columns(ids, np.full(len(texts), np.nan), columns), signer.sign(documents))


def test_an_array_of_arrow_is_not_copied() -> None:
    """The data of the column is the buffer of the array."""
    array = pa.array(["one text", "two"])
    assert column_of(array).data.ctypes.data == array.buffers()[2].address
    assert len(column_of(pa.chunked_array([], pa.string())).starts) == 1


def test_an_array_that_is_no_column_is_refused() -> None:
    """A null has no bytes, and a number is no text."""
    with pytest.raises(ConfigError, match="1 of 3 strings are null"):
        column_of(pa.array(["a", None, "c"]))
    with pytest.raises(ConfigError, match="the array holds int64"):
        column_of(pa.array([1, 2]))


WRONG: list[tuple[str, Any, str]] = [
    ("starts", [0, 3, 8], "from 0 to 8, must rise within the 7 bytes"),
    ("starts", [-1, 3, 7], "from -1 to 7"),
    ("starts", [0, 5, 3], "from 0 to 3"),
    ("starts", [0, 9, 7], "from 0 to 7"),
    ("starts", [0.0, 3.0, 7.0], r"the starts of texts are float64\[3\]"),
    ("starts", np.zeros((2, 2), np.int64), r"the starts of texts are int64\[2, 2\]"),
    ("starts", np.zeros(0, np.int64), r"the starts of texts are int64\[0\]"),
    ("data", np.zeros(9, np.int32), r"the data of texts is int32\[9\]"),
    ("data", b"onetext", "the data of texts is "),
    ("times", ["2026-11-22", "2026-11-23"], "times are <U10"),
    ("times", [[1.0, 2.0]], r"times are float64\[1, 2\]"),
]


@pytest.mark.parametrize(("part", "value", "sentence"), WRONG)
def test_columns_that_are_not_sound_are_refused(part: str, value: Any, sentence: str) -> None:
    """Kernels check no bounds: a start outside of the data would read the memory behind it."""
    ids, texts = column([b"a", b"b"]), column([b"one", b"text"])
    times = np.asarray(value) if part == "times" else np.zeros(2)
    if part != "times":
        texts = texts._replace(**{part: value if isinstance(value, bytes) else np.asarray(value)})
    with pytest.raises(ConfigError, match=sentence):
        Signer(Config()).sign_columns(ids, times, texts)


def test_arrays_of_any_layout_give_the_same() -> None:
    """Writable or not, contiguous or not, whole numbers of any size."""
    ids, texts, times = column([b"a", b"b"]), column([b"one text", "zwö".encode()]), np.array([1.0, 2.0])
    expected = Signer(Config()).sign_columns(ids, times, texts)
    layouts = [
        Column(np.repeat(texts.data, 2)[::2], np.repeat(texts.starts, 2)[::2]),
        Column(texts.data.copy(), np.frombuffer(texts.starts.astype(np.uint32).tobytes(), np.uint32)),
        Column(texts.data, texts.starts.astype(">i8")),
    ]
    for layout in layouts:
        assert_same(Signer(Config()).sign_columns(ids, times.astype(np.int16), layout), expected)


def test_columns_of_different_lengths_are_refused() -> None:
    """The message says how many there are of each."""
    with pytest.raises(ConfigError, match=r"\(1, 2, 1\)"):
        Signer(Config()).sign_columns(column([b"a"]), np.zeros(2), column([b"text"]))


def test_columns_read_as_documents() -> None:
    """By place, by slice, and in order."""
    columns = DocumentColumns(column([b"a", b"b"]), np.array([np.nan, 2.0]), column([b"one", "zwö".encode()]))
    assert list(columns) == [Document("a", "one"), Document("b", "zwö", 2.0)]
    assert columns[-1:] == [Document("b", "zwö", 2.0)]
