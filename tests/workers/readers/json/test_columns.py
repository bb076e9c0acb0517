"""Lines of JSON as columns: whatever is decoded equals what ``decode_document`` returns, line by line."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neardup.documents.document import Document
from neardup.pairs.json_lines import TITLE_CHARACTERS_MAX, Fields, decode_document
from neardup_workers.outside.readers.json.columns import decode_columns

FIELDS = Fields()
LINE = b'{"id": "a", "text": "some words", "timestamp": 1700000000.25}'
# Lines of the usual form, some with a key.
USUAL: list[tuple[bytes, bytes | None]] = [
    (LINE, None),
    (LINE, b"key"),
    (b' {"text":"x","id":7 , "timestamp":null,\t"more":true}\r\n', None),
    (b'{"text":"","id":-12}', "clé".encode()),
    (b'{"text":"without an id"}', "clé".encode()),
    (b'{"id":null,"text":"x"}', b"key"),
    (rb'{"id":"a","text":"\"\\\/\b\f\n\r\t\u0000\u00e9\u6f22\ud83d\ude00\uFB01","title":"\"quoted\""}', None),
    ('{"id":"é","text":"漢字 😀 عربي","größe":"ß","timestamp":"2023-11-14T22:13:20Z"}'.encode(), None),
    (b'{"id":"a","text":"x","timestamp":1700000000.1234567}', None),
    (b'{"id":"a","text":"x","timestamp":"1700000000"}', None),
    (b'{"id":"a","text":"x","timestamp":-1.5,"score":0.12345678901234567}', None),
    (b'{"id":"a","text":"' + b"long " * 1000 + b'\\n"}', None),
]
# Lines for which the other decoder is asked: unusual, or refused.
UNUSUAL: list[tuple[bytes, bytes | None]] = [
    (b"", None),
    (b"{}", b"key"),
    (b"[]", None),
    (b'{"text":"x"}', None),
    (b'{"text":"x"}', b"\xff"),
    (b'{"id":"","text":"x"}', None),
    (b'{"id":"","text":"x"}', b"key"),
    (LINE[:-1], None),
    (LINE + b"x", None),
    (b'{"id":"a","text":"x","tags":["b"]}', None),
    (b'{"id":"a","text":"x","text":"y"}', None),
    (rb'{"id":"a","te\u0078t":"x"}', None),
    (rb'{"id":"\u0061","text":"x"}', None),
    (rb'{"id":"a","text":"\ud800"}', None),
    (rb'{"id":"a","text":"\ud800\u0041"}', None),
    (rb'{"id":"a","text":"\x"}', None),
    (b'{"id":"a","text":"a\nb"}', None),
    (b'{"id":"\xff","text":"x"}', None),
    (b'{"id":"a","text":"x","\xed\xa0\x80":1}', None),
    (b'{"id":"a","text":"x","more":"\xc0\xaf"}', None),
    (b'{"id":"a","text":5}', None),
    (b'{"id":1.5,"text":"x"}', None),
    (b'{"id":-0,"text":"x"}', None),
    (b'{"id":01,"text":"x"}', None),
    (b'{"id":9223372036854775808,"text":"x"}', None),
    (b'{"id":"a","text":"x","timestamp":true}', None),
    (b'{"id":"a","text":"x","timestamp":1700000000000}', None),
    (b'{"id":"a","text":"x","timestamp":1e999}', None),
    (b'{"id":"a","text":"x","timestamp":"soon"}', None),
    (b'{"id":"a","text":"x","more":1.}', None),
    (b'{"id":"a","text":"x","more":nul}', None),
    (b'{"id":"a","text":"x",}', None),
    (b'{"id":"a" "text":"x"}', None),
]


# The values of further fields, also of kinds that name nothing.
NAMING = [
    b'"wire"', b'"\xc3\xa9"', b'""', b"null", b"7", b"-3", b"1.5", b"true", b'"a\\u0041"', b'"\xff"',
    b'"' + b"u" * 2001 + b'"',
]  # fmt: skip


def expected(line: bytes, key: bytes | None, fields: Fields = FIELDS) -> Document | str:
    return decode_document(line, fields, None if key is None else key.decode(errors="surrogateescape"))


def check(lines: list[tuple[bytes, bytes | None]], fields: Fields = FIELDS) -> bool:
    """Compare the columns of lines with the documents of each line; returns whether there are columns."""
    shows = fields.source is not None
    decoded = decode_columns([line for line, _ in lines], [key for _, key in lines], fields, titles=shows)
    if decoded is None:
        return False
    documents, misnamed, sources, urls, titles = decoded
    for i, (line, key) in enumerate(lines):
        wanted = expected(line, key, fields)
        text = documents.texts.at(i)
        if isinstance(wanted, str):  # the reader of texts finds that
            assert wanted == "not_utf8"
            with pytest.raises(UnicodeDecodeError):
                text.decode()
            continue
        time = float(documents.times[i])
        found = Document(documents.ids.at(i).decode(), text.decode(), None if math.isnan(time) else time)
        values = (column and column.at(i).decode() for column in (documents.collections, sources, urls, titles))
        collection, source, url, title = (value or None for value in values)
        named = {name: getattr(wanted, name) or None for name in ("source", "url", "title")}
        title = title and title[:TITLE_CHARACTERS_MAX]
        assert found._replace(collection=collection, source=source, url=url, title=title) == wanted._replace(**named)
        assert misnamed[i] == (key is not None and key != wanted.id.encode())
    return True


@pytest.mark.parametrize(("line", "key"), USUAL)
def test_a_line_of_the_usual_form_becomes_a_row(line: bytes, key: bytes | None) -> None:
    """Its values are those of the parser of JSON."""
    assert check([(line, key)])


@pytest.mark.parametrize(("line", "key"), UNUSUAL)
def test_any_other_line_is_left_to_the_parser(line: bytes, key: bytes | None) -> None:
    """So the columns decide nothing about it; among other lines it stops the columns of all."""
    assert not check([(line, key)])
    assert not check([USUAL[0], (line, key), USUAL[1]])


def test_lines_of_the_usual_form_become_columns_together() -> None:
    """Each row has its own values, whatever is before and behind it."""
    assert check(USUAL * 3)
    assert check(list(reversed(USUAL)))


def test_a_text_that_is_not_utf8_is_left_to_its_reader() -> None:
    """The scan does not look at the bytes of a text twice."""
    assert check([(b'{"id":"a","text":"\xc3"}', None), (b'{"id":"a","text":"\xa9"}', None)])


def test_names_and_units_are_those_of_the_fields() -> None:
    """Other names are passed over."""
    fields = Fields("key", "größe", "t", timestamp_unit="ms")
    assert check([('{"id": 5, "key": "a", "größe": "x", "t": 1700000000123}'.encode(), None)], fields)
    assert not check([(LINE, None)], Fields(rank="rank"))
    assert not check([(LINE, None)], Fields("id", "id", "t"))
    assert not check([(LINE, None)], Fields(kind="tokens"))


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**19), 10**19) | st.decimals(
    1_000_000, 4_000_000_000, allow_nan=False, places=7).map(float))  # fmt: skip
@example(1700000000.1234567)
@example(1700000000.1234569)
@example(9007199254740993)
@example(4194304.123456789)
def test_a_number_is_the_nearest_double(value: float) -> None:
    """As the parser rounds it."""
    check([(json.dumps({"id": "a", "text": "x", "timestamp": value}).encode(), None)])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(["id", "text", "timestamp", "Text", "i\u0064", ""]) | st.text(max_size=3)
OBJECTS = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=2), max_size=5)
USUAL_OBJECTS = st.fixed_dictionaries(
    {"id": st.text(max_size=3) | st.integers(), "text": st.text(max_size=90)},
    optional={"timestamp": st.floats(0, 4e9) | st.none(), "more": SCALARS},
)
KEYS = st.none() | st.binary(max_size=3) | st.text(max_size=3).map(lambda key: key.encode(errors="replace"))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Lines of JSON, escaped or not, some with a few bytes changed."""
    spaces = draw(st.sampled_from([None, (",", ":"), (" ,\t", "\r\n: ")]))
    value = draw(OBJECTS | USUAL_OBJECTS)
    line = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=spaces).encode(errors="surrogatepass")
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        byte = draw(st.sampled_from(b'"\\{}[]:,0e-.u \n\x00\x7f\x80\xc3\xe0\xed\xf4\xff'))
        line = line[:at] + bytes([byte]) + line[at + draw(st.integers(0, 1)) :]
    return line


@given(st.lists(st.tuples(lines(), KEYS), min_size=1, max_size=3))
def test_columns_equal_the_documents_line_by_line(rows: list[tuple[bytes, bytes | None]]) -> None:
    """For any bytes."""
    check(rows)
    for row in rows:
        check([row])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4), st.booleans())
def test_any_text_is_decoded_to_a_column(texts: list[str], is_ascii: bool) -> None:
    """Escaped or not."""
    rows = [{"id": f"doc-{i}", "text": text, "timestamp": i} for i, text in enumerate(texts)]
    assert check([(json.dumps(row, ensure_ascii=is_ascii).encode(), None) for row in rows])


PIECES = [
    *[rf"\u{code:04x}" for code in (0, 0x22, 0x41, 0x7F, 0x80, 0x627, 0x7FF, 0x800, 0x6F22, 0xD7FF, 0xE000, 0xFFFF)],
    *[rf"\u{code:04X}" for code in (0xE9, 0xFB01, 0xABCD)],
    *[r"\ud83d\ude00", r"\uD83D\uDE00", r"\\u0627", r"\n", r"\"", " ", ", ", "a", "plain words, " * 6, "é", "漢", "😀"],
]
# Faults, and what is no fault although it looks like one.
FAULTS = [
    *[r"\ud83d", r"\ude00", r"\ude00\ud83d", r"\ud83d\u0041", r"\u06g7", r"\u06", r"\u", r"\u 627", r"\U0627"],
    *["\x1f", r"\u/627", r"\u:627", r"\u@627", r"\uG627", r"\u`627", r"\u062é", r"\u062\u0627", r"\x", '"', "\\"],
]


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.none() | st.sampled_from(FAULTS), st.integers(0, 60))
def test_escapes_in_any_order_are_those_of_the_parser(pieces: list[str], fault: str | None, at: int) -> None:
    """Wherever they are in the 64 bytes that are read at once; a fault among them is left to the parser."""
    text = "".join([*pieces[:at], fault or "", *pieces[at:]])
    line = f'{{"id":"a","text":"{text}"}}'.encode()
    document = expected(line, None)
    is_read = isinstance(document, Document) and not re.search("[\ud800-\udfff]", document.text or "")
    assert check([(line, None), (LINE, None)]) == is_read


@pytest.mark.parametrize("before", range(70))
def test_an_escape_at_any_place_of_a_line_is_read(before: int) -> None:
    """Also where 64 bytes end."""
    for run in (r"\u0627", r"\u0627\u6f22\u0041 " * 12, r"\ud83d\ude00\u00e9" * 12):
        assert check([(f'{{"id":"a","text":"{"x" * before}{run}"}}'.encode(), None)])


def test_the_columns_are_read_only() -> None:
    """Kernels are compiled for columns of Arrow, which are read-only."""
    decoded = decode_columns([LINE], [None], FIELDS)
    assert decoded is not None
    assert not decoded.documents.ids.data.flags.writeable
    assert not decoded.documents.texts.data.flags.writeable
    assert decoded.documents.times.dtype == np.float64


def test_collection_source_and_url_are_those_of_the_parser() -> None:
    """For all kinds of values, in any order with the text; another decoder is asked for escapes and what is refused."""
    fields, decoded = Fields(source="by", collection="lang"), 0
    for lang, source, url in itertools.product(NAMING, repeat=3):
        line = b'{"lang":%b,"id":"a","url":%b,"text":"x","by":%b}' % (lang, url, source)
        decoded += check([(line, None), (LINE, None)], fields)
    assert decoded == 7 * 9 * 8
    assert not check([(b'{"id":"a","text":"x","by":"s","by":"t"}', None)], fields)
    titles = [b'"Say \\"\xc3\xa9\\" \\\\ and \\/"', b'"' + b"t" * 501 + b'"', b'""', b"null", b"7"]
    assert check([(b'{"id":"a","title":%b,"text":"x"}' % title, None) for title in titles], fields)
    assert not check([(LINE, None)], Fields(source="id"))
