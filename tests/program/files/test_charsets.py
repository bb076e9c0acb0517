"""Characters of pages."""

from __future__ import annotations

from pathlib import Path

from command import Run


def test_characters_that_cannot_be_read_are_counted(neardup: Run, tmp_path: Path) -> None:
    """The summary says how many; they are not silent."""
    text = "Die Größe der Straße ist groß genug für den Haupttext dieser Seite, mit einem Byte, das keines ist: "
    body = b"<p>" + text.encode() + b"\xff.</p>"
    (tmp_path / "page.html").write_bytes(b"<!doctype html><meta charset=utf-8><html><body>" + body + b"</body></html>")
    done = neardup("run", "page.html")
    assert b"note: 1 characters of pages could not be read" in done.stderr
