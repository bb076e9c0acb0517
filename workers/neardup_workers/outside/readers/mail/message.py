"""A message (RFC 5322, MIME) -> its id, its date and the text of its body, in time and memory of its size.

The text is that of all parts of type text/plain and text/html that are no attachments, and of the messages in it, in
order. Of alternatives it is the plain one, unless that is a stub. The parser of the standard library is not used for
whole messages: it calls itself for each level of parts and compares each line with each open boundary, so a message of
a megabyte can occupy it for hours. It reads headers here, which have a bound.

The id is the first Message-ID, without angle brackets (as in RFC 8621). Characters are read as those of pages.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import BytesHeaderParser
from typing import NamedTuple

import orjson

from neardup.documents.dates import date_text
from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields, Unread, decode_document
from neardup_workers.outside.readers.mail.limits import (
    CONTENT_TYPE_CHARACTERS_MAX,
    HEADER_BYTES_MAX,
    LEVELS_MAX,
    MAIL_TEXT_NAMES,
    PARTS_MAX,
)
from neardup_workers.outside.readers.mail.quotes import new_text
from neardup_workers.outside.web.charsets import decoded
from neardup_workers.outside.web.markup import text_of_markup

_HEADER_END = re.compile(rb"(?:\A|\n)\r?\n")
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")
_MESSAGE_ID = re.compile(r"<([^<>]*)>")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
# A value of ``mail_text`` -> what of a text it takes.
WHOLE, NEW = MAIL_TEXT_NAMES
MAIL_TEXTS: dict[str, Callable[[str], str]] = {WHOLE: str, NEW: new_text}
_PLAIN, _HTML, _MESSAGE = "text/plain", "text/html", "message/rfc822"
_ALTERNATIVE, _DIGEST = "multipart/alternative", "multipart/digest"
# A plain text of at most so many characters is a stub ("your reader shows no HTML") if the other form has so many
# times its characters.
_STUB_CHARACTERS_MAX, _STUB_RATIO = 400, 3


class Mail(NamedTuple):
    """What a document needs of a message: its id, its date in ISO 8601 (or as it is written), its text."""

    id: str | None
    date: str | None
    text: str


class _Part(NamedTuple):
    """A part of a message: its header, and where its body stands in the bytes of the message."""

    header: Message
    begin: int
    end: int


class _Refused(Exception):
    """The message cannot be read; the argument is the reason."""


def read_mail(raw: bytes, mail_text: str = WHOLE) -> Mail | Reason:
    """Read a message; returns the reason if it cannot be read (a key of ``MAIL_REASONS`` of ``limits``). Never raises.

    ``mail_text`` says what of its text counts (a key of ``MAIL_TEXTS``).

    >>> read_mail(b"Message-ID: <a@b.example>\\nDate: Tue, 14 Nov 2023 22:13:20 GMT\\n\\nHello\\n")
    Mail(id='a@b.example', date='2023-11-14T22:13:20+00:00', text='Hello\\n')
    """
    if not _FIELD.match(raw):
        return Reason("mail_no_header")
    try:
        part = _part(raw, 0, len(raw))
        text = _body_text(raw, part, MAIL_TEXTS[mail_text])
    except _Refused as refused:
        return Reason(refused)
    named = _MESSAGE_ID.search(_value(part.header, "Message-ID"))
    return Mail(named[1].strip() or None if named else None, _date(_value(part.header, "Date")), text)


def mail_object(mail: Mail, fields: Fields) -> bytes:
    """Return a message as a line of JSON with these names."""
    values = {fields.id: mail.id, fields.timestamp: mail.date, fields.text: mail.text}
    return orjson.dumps({name: value for name, value in values.items() if value is not None})


def mail_document(content: bytes, name: str, unread: Unread, mail_text: str = WHOLE) -> Document | Reason:
    """Return a file that holds one message as a document, with its name as the id of a message without one."""
    mail = read_mail(content, mail_text)
    if isinstance(mail, Reason):
        return mail
    return decode_document(mail_object(mail, Fields()), Fields(), name, unread)


class _Text(NamedTuple):
    """The text of a part; ``is_markup``: of HTML."""

    text: str
    is_markup: bool


class _Reading:
    """The walk through the parts of one message; ``count`` is the number of parts so far."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.count = raw, 0

    def texts(self, part: _Part, default: str = _PLAIN, level: int = 0) -> list[_Text]:
        """Return the texts of a part, in order; ``default`` is the type of one that names none. Raises ``_Refused``."""
        self.count += 1
        if level >= LEVELS_MAX or self.count > PARTS_MAX:
            raise _Refused("mail_nested")
        kind = part.header.get_content_type() if "Content-Type" in part.header else default
        if kind.startswith("multipart/"):
            boundary = part.header.get_boundary()
            if not boundary:
                return []
            inner = _MESSAGE if kind == _DIGEST else _PLAIN
            parts = _parts(self.raw, part, boundary.encode(errors="surrogateescape"))
            found = [self.texts(each, inner, level + 1) for each in parts]
            return _best(found) if kind == _ALTERNATIVE else [text for texts in found for text in texts]
        if kind == _MESSAGE:
            return self.texts(_part(self.raw, part.begin, part.end), level=level + 1)
        shown = _value(part.header, "Content-Disposition").strip().lower()
        if kind not in (_PLAIN, _HTML) or shown.startswith("attachment"):
            return []
        return [_Text(_decoded(self.raw, part), kind == _HTML)]


def _body_text(raw: bytes, whole: _Part, counted: Callable[[str], str]) -> str:
    """Return what counts of the text of a message, part by part. Raises ``_Refused``."""
    found = _Reading(raw).texts(whole)
    if not found:
        raise _Refused("mail_no_text")
    texts = [counted(text_of_markup(one.text) if one.is_markup else one.text) for one in found]
    return "\n".join([text for text in texts if text.strip()] or texts[:1])


def _best(forms: list[list[_Text]]) -> list[_Text]:
    """Return the form of a text that has its content: the plain one, unless it only says that there is another one."""
    plain = next((texts for texts in forms if any(not one.is_markup and one.text.strip() for one in texts)), None)
    markup = next((texts for texts in reversed(forms) if any(one.is_markup for one in texts)), None)
    if plain is None or markup is None:
        return markup or plain or next(filter(None, forms), [])
    size = sum(len(one.text.strip()) for one in plain)
    if size > _STUB_CHARACTERS_MAX:
        return plain
    shown = sum(len(text_of_markup(one.text) if one.is_markup else one.text) for one in markup)
    return markup if shown > _STUB_RATIO * size else plain


def _parts(raw: bytes, part: _Part, boundary: bytes) -> Iterator[_Part]:
    """Yield the parts between the lines of a boundary. The last part may lack its closing line."""
    line = re.compile(rb"^--" + re.escape(boundary) + rb"(--)?[ \t]*\r?$\n?", re.MULTILINE)
    begin = -1
    at = part.begin
    while (match := line.search(raw, at, part.end)) is not None:
        if begin >= 0:  # the line feed before a boundary belongs to the boundary
            end = max(begin, match.start() - 1)
            yield _part(raw, begin, end - (end > begin and raw[end - 1 : end] == b"\r"))
        if match[1]:
            return
        begin = at = match.end()
    if begin >= 0:
        yield _part(raw, begin, part.end)


def _part(raw: bytes, begin: int, end: int) -> _Part:
    """Return the part in these bytes. Raises ``_Refused`` if its header is longer than the bounds."""
    if raw[begin : begin + 2] == b"\r\n" or raw[begin : begin + 1] == b"\n":
        return _Part(Message(), begin + (1 if raw[begin : begin + 1] == b"\n" else 2), end)
    match = _HEADER_END.search(raw, begin, min(end, begin + HEADER_BYTES_MAX))
    if match is None and end - begin > HEADER_BYTES_MAX:
        raise _Refused("mail_header_too_long")
    body = match.end() if match else end
    header = BytesHeaderParser().parsebytes(raw[begin:body])
    if len(_value(header, "Content-Type")) > CONTENT_TYPE_CHARACTERS_MAX:
        raise _Refused("mail_header_too_long")
    return _Part(header, body, end)


def _value(header: Message, name: str) -> str:
    """Return the first field of a name, empty if there is none."""
    return str(header.get(name, ""))


def _decoded(raw: bytes, part: _Part) -> str:
    """Return the text of a part, in its charset as pages are read."""
    encoding = _value(part.header, "Content-Transfer-Encoding").strip().lower()
    content = _TRANSFER.get(encoding, bytes)(raw[part.begin : part.end])
    return _without_surrogates(decoded(content, part.header.get_content_charset()))


def _without_surrogates(text: str) -> str:
    """Return a text without lone surrogates, which UTF-7 can spell."""
    return text.encode(errors="replace").decode()


def _base64(body: bytes) -> bytes:
    """Decode base64; what follows the last whole group of four characters is dropped if the padding is wrong."""
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        kept = _NOT_BASE64.sub(b"", body)
        return binascii.a2b_base64(kept[: len(kept) // 4 * 4])


# Content-Transfer-Encoding -> its decoder; any other leaves the bytes as they are.
_TRANSFER: dict[str, Callable[[bytes], bytes]] = {"base64": _base64, "quoted-printable": binascii.a2b_qp}


def _date(value: str) -> str | None:
    """Return a date in ISO 8601; the value itself if it is none, ``None`` without a value."""
    return (date_text(value) or value) if value.strip() else None
