"""Characters of pages and of mail."""

from __future__ import annotations

from pathlib import Path

from program import Program

PAGES = """
from neardup_workers.outside.web.charsets import decoded
for charset in ("windows-1252", "iso-8859-1"):
    for text in ("El ni\\u00f1o comi\\u00f3 pi\\u00f1a ma\\u00f1ana", "\\u201cIt\\u2019s 5\\u20ac\\u201d"):
        for head in ('<meta charset="%s">', '<?xml version="1.0" encoding="%s"?>',
                     '<meta http-equiv="Content-Type" content="text/html; charset=%s">'):
            page = (head % charset + "<html><body><p>%s</p>" % text).encode("cp1252")
            print(text in decoded(page))
"""
MAIL = """
from neardup_workers.outside.readers.mail.message import read_mail
for head in (b"", b"Content-Type: text/plain\\n", b"Content-Type: text/plain; charset=us-ascii\\n"):
    mail = read_mail(b"From: a@example.org\\n" + head + b"\\n" + "F\\u00e4hre".encode())
    print(mail.text == "F\\u00e4hre")
"""


def test_a_page_is_read_in_the_charset_that_it_declares(program: Program) -> None:
    """A declared Windows-1252 or ISO-8859-1 is not guessed, in any of the three places of a declaration."""
    assert program.code(PAGES).stdout.split() == [b"True"] * 12


MISNAMED = """
from neardup_workers.outside.web.charsets import decoded
text = "Погода на севере страны: дождь и снег, ветер слабый до умеренного"
page = "<meta charset=utf-8><html><body><p>%s</p>" % text
for payload in (page.encode("cp1251"), page.encode(), page.encode().replace(b"</p>", b"\\xff</p>")):
    for charset in (None, "utf-8"):
        print(text in decoded(payload, charset))
"""


def test_a_page_that_is_named_utf8_and_is_not_is_read_as_its_bytes_say(program: Program) -> None:
    """By its declaration or by the server; a single broken byte changes nothing."""
    assert program.code(MISNAMED).stdout.split() == [b"True"] * 6


def test_characters_that_cannot_be_read_are_counted(program: Program, tmp_path: Path) -> None:
    """The summary says how many; they are not silent."""
    text = "Die Größe der Straße ist groß genug für den Haupttext dieser Seite, mit einem Byte, das keines ist: "
    body = b"<p>" + text.encode() + b"\xff.</p>"
    (tmp_path / "page.html").write_bytes(b"<!doctype html><meta charset=utf-8><html><body>" + body + b"</body></html>")
    done = program.run("run", "page.html", cwd=tmp_path)
    assert b"note: 1 characters of pages could not be read" in done.stderr


def test_mail_without_a_charset_is_read_as_utf8(program: Program) -> None:
    """UTF-8 in a message that names no charset, or ASCII, was read as Windows-1252."""
    assert program.code(MAIL).stdout.split() == [b"True"] * 3
