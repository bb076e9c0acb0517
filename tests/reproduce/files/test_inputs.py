"""Inputs that hung the program or took quadratic time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Program

HEAD = b"From: a@example.org\nSubject: one\nContent-Type: text/html; charset=utf-8\n\n"
MAIL = HEAD + b"<p>The harbour%s is open again."

LINE_FEEDS = """
from neardup.stream.json_lines import Fields
from neardup.workers.readers.formats import FORMATS
content = b"{}\\n" + b"\\n" * 600_000 + b"\\r\\n" * 400_000 + b"{}\\n"
lines = list(FORMATS["lines"].read([content], Fields(), 1 << 20))
print(len(lines), lines[-1].number, b"".join(line.raw + line.end for line in lines) == content)
"""


def test_a_file_that_begins_with_comments_is_read(program: Program, tmp_path: Path) -> None:
    """A page with 60 comments before its first element hung the program forever, at the choice of its format."""
    (tmp_path / "page.txt").write_bytes(b"<!-- one -->\n" * 60 + b"The harbour is open again, and the ferries run.")
    done = program.run("run", "page.txt", cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("piece", [b" " * 1_000_000, b"<style>" + b"</style" * 150_000], ids=["blanks", "tags"])
def test_mail_of_markup_takes_linear_time(program: Program, tmp_path: Path, piece: bytes) -> None:
    """A megabyte of blanks, or of tags that do not end, in mail took more than a minute."""
    (tmp_path / "one.eml").write_bytes(MAIL % piece)
    done = program.run("run", "one.eml", cwd=tmp_path, timeout=20)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", ["\u0301\u0323", "\u0f73\u0f74", "\uff9e\u0301"])
def test_a_text_of_combining_marks_takes_linear_time(program: Program, unit: str) -> None:
    """Half a million marks after one letter, of alternating classes, took minutes."""
    line = json.dumps({"id": "one", "text": "a" + unit * 250_000}, ensure_ascii=False).encode()
    done = program.run("run", "-", input=line, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"refused: 0" in done.stderr


def test_a_text_whose_normalised_form_is_too_long_is_refused(program: Program) -> None:
    """One sign became 18 characters: 4.9 million of them took 1.2 GB."""
    line = json.dumps({"id": "one", "text": "\ufdfa" * 300_000}, ensure_ascii=False).encode()
    done = program.run("run", "-", input=line, timeout=60)
    assert b"text_too_long: 1" in done.stderr


def test_line_feeds_are_counted_together(program: Program) -> None:
    """A hundred million line feeds in a small compressed file took minutes, because each was a line of its own."""
    done = program.code(LINE_FEEDS)
    assert done.stdout.split() == [b"3", b"1000002", b"True"], done.stderr
