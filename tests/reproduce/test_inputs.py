"""Inputs that hung the program or took quadratic time."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program

HEAD = b"From: a@example.org\nSubject: one\nContent-Type: text/html; charset=utf-8\n\n"
MAIL = HEAD + b"<p>The harbour%s is open again."


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
