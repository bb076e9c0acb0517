"""Tables as programs write them: quotes that quote nothing, other delimiters and encodings, no header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neardup.documents.document import Document
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.csv_rows import dialect_of
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading

LONG = "A line of many, and the last; of some.\n" * 18_000 + "end"
TAB = [("a", '"Hello" she said'), ("b", '"No" he said'), ("c", "plain")]
# A table -> its id and text of each row, and the beginning of what is noted.
TABLES: dict[str, tuple[str, str, list[Any], list[str]]] = {
    "quoted words": ("t.tsv", 'id\ttext\na\t"Hello" she said\nb\t"No" he said\nc\tplain\n', TAB, ["{} rows"]),
    "an open quote": ("t.tsv", 'id\ttext\na\t"Hello\nb\t"World\nc\tplain\n',
        [("a", '"Hello'), ("b", '"World'), ("c", "plain")], ["{} rows"]),
    "quotes that close in the next row": ("t.tsv", 'id\ttext\na\t"Hello\nb\tWorld"\nc\tx\n',
        [("a", '"Hello'), ("b", 'World"'), ("c", "x")], ["{} rows"]),
    "an open quote at the end": ("t.tsv", 'id\ttext\na\tx\nb\t"World', [("a", "x"), ("b", '"World')], ["{} rows"]),
    "an inch": ("t.csv", 'id,text\na,"12 inch" pipe\nb,5" nail\n',
        [("a", '"12 inch" pipe'), ("b", '5" nail')], ["{} rows"]),
    "two lines, quoted": ("t.tsv", 'id\ttext\na\t"one\ntwo ""x"""\nb\ty\n', [("a", 'one\ntwo "x"'), ("b", "y")], []),
    "two lines with a delimiter": ("t.csv", 'id,text\na,"he said\nyes, ok"\nb,y\n',
        [("a", "he said\nyes, ok"), ("b", "y")], []),
    "a blank behind a quote": ("t.csv", 'id,text\na, "one, two" \n', [("a", "one, two")], []),
    "semicolons": ("t.csv", "id;text\na;one, two\nb;x\n",
        [("a", "one, two"), ("b", "x")], ["cells are divided by ';'"]),
    "tabs in .csv": ("t.csv", "id\ttext\na\tone, two\n", [("a", "one, two")], []),
    "bars": ("t.csv", "id|text\na|one; two\nb|three\n",
        [("a", "one; two"), ("b", "three")], ["cells are divided by '|'"]),
    "separators in cells": ("t.csv", "id;text\na;one\u2028two\nb;three\x85four\n",
        [("a", "one\u2028two"), ("b", "three\x85four")], ["cells are divided by ';'"]),
    "rows longer than a block": ("t.csv", f'id;text;x\na;"{LONG}";1\nb;"{LONG}";2\n',
        [("a", LONG), ("b", LONG)], ["cells are divided by ';'"]),
    "one column": ("t.csv", "text\none; two\nthree\n", [("t.csv:2", "one; two"), ("t.csv:3", "three")], []),
    "a name twice": ("t.csv", "id,text,text\na,one,two\n", [("a", "two")], ["column 'text' stands twice"]),
    "blanks after commas": ("t.csv", "id, text\na, one\n", [("a", "one")], []),
}  # fmt: skip


def read(path: Path, content: bytes, *table: str, **names: str) -> tuple[list[Any], list[str]]:
    path.write_bytes(content)
    options: Any = Reading(table=table)
    reader = EntryReader(options, Fields(**names), Stop(), lambda part: None)
    found = [entry.found for entry in reader.read([path.name]) if entry is not None]
    return [(one.id, one.text) if isinstance(one, Document) else one for one in found], list(reader.notes)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "content", "rows", "notes"), TABLES.values(), ids=TABLES)
def test_a_table_is_read_as_it_was_meant(name: str, content: str, rows: list[Any], notes: list[str]) -> None:
    """No row takes in another, and what is not read as it stands is noted; with any line end."""
    for text in (content, content.replace("\n", "\r\n")):
        found, noted = read(Path(name), text.encode())
        assert [(id_, body.replace("\r", "")) for id_, body in found] == rows
        assert [one[: len(start)] for one, start in zip(noted, notes, strict=True)] == notes


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_a_row_with_a_delimiter_too_many_is_refused_alone(delimiter: str) -> None:
    """Also among the first rows, which show by what cells are divided."""
    content = "id;text\na;one\nb;x; y\nc;z\n".replace(";", delimiter)
    assert read(Path("t.csv"), content.encode())[0] == [("a", "one"), "row_length", ("c", "z")]


@pytest.mark.parametrize("content", ['id,text\na,"one, x\nb,two\nc,x\n', 'id,text\na,"one, x\nb,two\nc",x,y\n'])
def test_lines_behind_an_open_quote_are_counted(content: str) -> None:
    """The row is one refusal; the note says how many lines went with it."""
    found, notes = read(Path("t.csv"), content.encode())
    assert [isinstance(one, str) for one in found] == [True]
    assert notes == ["{} lines belong to a refused row, since a quote before them is open: they are not read"]


def test_a_setting_says_how_quotes_are_read() -> None:
    """As letters, or by RFC 4180 as ever."""
    content = b'id,text\na,"one"\nb,"two" x\n'
    assert read(Path("t.csv"), content, "quoting=none")[0] == [("a", '"one"'), ("b", '"two" x')]
    assert read(Path("t.csv"), content, "quoting=quoted") == ([("a", "one"), ("b", "two x")], [])


def test_a_table_without_a_header_has_numbered_columns() -> None:
    """Its first row is a document."""
    assert read(Path("t.csv"), b"a,one\nb,two\n", "header=no", id="1", text="2")[0] == [("a", "one"), ("b", "two")]


@pytest.mark.parametrize("mark", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.tsv", "t.jsonl", "t.txt"])
def test_utf_16_with_its_mark_is_read_in_every_format(mark: str, name: str) -> None:
    """Excel writes "Unicode text" so."""
    texts = {"t.tsv": "id\ttext\r\na\tétude\r\n", "t.jsonl": '{"id":"a","text":"étude"}\n', "t.txt": "étude"}
    content = texts[name].encode(mark) if mark == "utf-16" else ("\ufeff" + texts[name]).encode(mark)
    assert read(Path(name), content)[0] == [("a" if name != "t.txt" else "t.txt", "étude")]


def test_an_encoding_is_a_setting() -> None:
    """Without it the rows are refused; what the encoding has not is counted."""
    content = "id,text\na,étude\n".encode("cp1252") + b"b,\x81x\n"
    assert read(Path("t.csv"), content)[0] == ["not_utf8", "not_utf8"]
    found, notes = read(Path("t.csv"), content, "encoding=cp1252")
    assert found == [("a", "étude"), ("b", "\ufffdx")]
    assert notes == ["{} characters are none in cp1252, and become U+FFFD"]


@pytest.mark.parametrize(
    "wrong", ["delimiter=ab", 'delimiter="', "quoting=all", "header=1", "encoding=base64", "x=y", "tab"]
)
def test_a_dialect_of_another_form_is_refused(wrong: str) -> None:
    """With what there is."""
    with pytest.raises(ValueError, match="must be delimiter="):
        dialect_of([wrong])
