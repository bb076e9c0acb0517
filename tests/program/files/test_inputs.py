"""Inputs that hung the program or took quadratic time."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from command import Run

from neardup.errors import Reason
from neardup_workers.doing.session import report
from neardup_workers.outside.readers.entries import Entry

HEAD = b"From: a@example.org\nSubject: one\nContent-Type: text/html; charset=utf-8\n\n"
MAIL = HEAD + b"<p>The harbour%s is open again."

LINE_FEEDS = """
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers import lines as reader
from neardup_workers.outside.readers.formats import FORMATS
content = b"{}\\n" + b"\\n" * 600_000 + b"\\r\\n" * 400_000 + b"{}\\n"
lines = list(reader.flattened(FORMATS["lines"].read([content], Fields(), 1 << 20)))
print(len(lines), lines[-1].number, b"".join(line.raw + line.end for line in lines) == content)
"""


def test_a_file_that_begins_with_comments_is_read(neardup: Run, tmp_path: Path) -> None:
    """A page with 60 comments before its first element hung the program forever, at the choice of its format."""
    (tmp_path / "page.txt").write_bytes(b"<!-- one -->\n" * 60 + b"The harbour is open again, and the ferries run.")
    done = neardup("run", "page.txt", timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("piece", [b" " * 1_000_000, b"<style>" + b"</style" * 150_000], ids=["blanks", "tags"])
def test_mail_of_markup_takes_linear_time(neardup: Run, tmp_path: Path, piece: bytes) -> None:
    """A megabyte of blanks, or of tags that do not end, in mail took more than a minute."""
    (tmp_path / "one.eml").write_bytes(MAIL % piece)
    done = neardup("run", "one.eml", timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", ["\u0301\u0323", "\u0f73\u0f74", "\uff9e\u0301"])
def test_a_text_of_combining_marks_takes_linear_time(neardup: Run, unit: str) -> None:
    """Half a million marks after one letter, of alternating classes, took minutes."""
    line = json.dumps({"id": "one", "text": "a" + unit * 250_000}, ensure_ascii=False).encode()
    done = neardup("run", "-", stdin=line, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"refused: 0" in done.stderr


def test_a_text_whose_normalised_form_is_too_long_is_refused(neardup: Run) -> None:
    """One sign became 18 characters: 4.9 million of them took 1.2 GB."""
    line = json.dumps({"id": "one", "text": "\ufdfa" * 300_000}, ensure_ascii=False).encode()
    done = neardup("run", "-", stdin=line, timeout=60)
    assert b"text_too_long: 1" in done.stderr


# Prints how many bytes the process grew for each character of a text that becomes 18 times as long.
GROWTH = """
import resource
from neardup import Document
from neardup.features.texts.normalize import NormalForm
from neardup.features.texts.reading import read_texts

def read(count):
    refused = read_texts([Document("one", chr(0xFDFA) * count)], NormalForm(), 1_000_000)[1]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, refused

(before, _), (after, refused) = read(1_000), read(1_000_000)
print(refused[0], (after - before) / 1_000_000)
"""


def test_a_text_whose_normalised_form_is_too_long_takes_little_memory(python: Run) -> None:
    """Each character took 245 bytes; its normalised form, 18 code points of 4 bytes, is what is left."""
    done = python("-c", GROWTH)
    reason, grown = done.stdout.decode().split()
    assert reason == "text_too_long", done.stderr.decode()
    assert float(grown) < 110


def test_line_feeds_are_counted_together(python: Run) -> None:
    """A hundred million line feeds in a small compressed file took minutes, because each was a line of its own."""
    done = python("-c", LINE_FEEDS)
    assert done.stdout.split() == [b"3", b"1000002", b"True"], done.stderr


def test_what_is_too_long_is_refused_with_the_bound(neardup: Run, tmp_path: Path) -> None:
    """The setting was named, and neither its value nor what the text has."""
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": "a", "text": "x" * 3_000}) + "\n" + "y" * 5_000 + "\n")
    bounds = ("--set", "text_characters_max=2000", "--set", "line_bytes_max=4000")
    said = neardup("run", "in.jsonl", *bounds).stderr
    assert b"(it has 3,000 characters, at most 2,000 are read: --set text_characters_max=NUMBER)" in said
    assert b"(at most 4,000 are read: --set line_bytes_max=NUMBER)" in said


def test_a_line_of_very_deep_objects_ends_no_run(neardup: Run, tmp_path: Path) -> None:
    """Its fields were looked for without a bound."""
    deep = '{"a":' * 1_000 + "1" + "}" * 1_000
    (tmp_path / "in.jsonl").write_text(f'{deep}\n{{"text": "a text of some words"}}\n')
    done = neardup("run", "in.jsonl")
    assert (done.returncode, b"(it has: a.a.a.a.a.a.a.a):" in done.stderr) == (0, True), done.stderr[-500:]


def test_the_fields_of_a_line_take_no_more_memory_than_the_line() -> None:
    """Each of many fields was named with the long name before it."""
    raw = json.dumps({"k" * 10_000: dict.fromkeys(map(str, range(10_000)))}).encode()
    tracemalloc.start()
    said = report._remedy(Entry("in.jsonl", 1, raw, Reason("no_text")), "no_text")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (said, peak < 10_000_000) == (f" (it has: {'k' * 300}): --fields text=NAME names another", True), peak


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "a.jsonl",
            b'{"meta": {"id": 7}, "turns": [{"body": "x"}]}',
            b"(it has: meta.id, turns.body): --fields text=NAME",
        ),
        ("a.jsonl", b'{"text": "caf\xe9"}', b"the line is not UTF-8: iconv -f cp1252 -t utf-8 FILE"),
        ("a.csv", b"id,text\n1,caf\xe9", b"the line is not UTF-8: --set table=encoding=cp1252 names"),
        ("a.jsonl.gz", b'{"text": "caf\xe9"}', b"the line is not UTF-8: zcat FILE | iconv -f cp1252 -t utf-8 converts"),
        ("a.txt", b"caf\xe9", b"the file is not UTF-8 text: iconv -f cp1252 -t utf-8 FILE"),
        (
            "a.txt.gz",
            b"one\ntwo\nthree",
            b"note: a.txt.gz is one text; zcat a.txt.gz | jq -cR '{text: .}' makes a document",
        ),
        ("a.jsonl.gz", b"id;text", b"and zcat FILE | jq -cR '{text: .}' makes a document"),
        (
            "a.txt",
            b"one\ntwo\nthree",
            b"note: a.txt is one text; jq -cR '{text: .}' a.txt makes a document of each line",
        ),
        ("a.jsonl", b"id;text", b"the line is not JSON: --input-format csv reads a table, and jq -cR '{text: .}' FILE"),
    ],
    ids=["paths", "line", "table", "packed line", "text", "packed text", "packed table", "lines of text", "a table"],
)
def test_the_first_refusal_says_what_helps(
    neardup: Run, tmp_path: Path, name: str, content: bytes, sentence: bytes
) -> None:
    """A line that has its text elsewhere named only its first keys, and another encoding no way out."""
    content += b"\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert sentence in neardup("run", name).stderr
