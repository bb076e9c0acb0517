"""WARC archives (ISO 28500) -> records; those of pages and texts are documents.

Each record is split here by its header and its length, so that reading goes on after damage, and parsed by FastWARC. A
record is damaged if its header does not say its length, if the next record does not follow it, or if the archive ends
inside it. Damage is one refusal, however long it is: the next record begins at the next line that begins with
``WARC/``, searched from just after the damaged header.

Responses, resources and conversions (as in WET archives) are documents if they hold HTML or plain text. Requests,
metadata and the like are passed over. Every other record is refused with its reason. So is a resource that a crawler
made from a page, such as its text or a picture of it (``described``): it would be a copy of its page.

Memory holds one record of at most ``bytes_max`` bytes and its payload, unpacked to at most ``bytes_max`` bytes.
A longer record is passed on in parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from neardup.errors import Reason
from neardup_workers.outside.readers.lines import IDLE, RECORD, Line
from neardup_workers.outside.web.charsets import CHARSET
from neardup_workers.outside.web.content_encoding import decoded_content
from neardup_workers.outside.web.markup import LOOKS_LIKE_HTML
from neardup_workers.outside.web.pages import Page

# Bytes of a record's header at most: FastWARC's own bound on a header.
_HEADER_BYTES_MAX = 1 << 16
_MAGIC = b"WARC/"
_END = b"\r\n\r\n"
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"HTTP/\d(?:\.\d)?[ \t]{1,8}(\d{3})\b", re.ASCII)
# The size of a chunk in hexadecimal digits, and extensions, which say nothing about the content.
_CHUNK = re.compile(rb"[ \t]{0,8}([0-9a-fA-F]{1,15})[ \t]{0,8}(?:;[^\n]{0,4096})?\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_PLAIN = frozenset(("text/plain", "text/markdown", "text/x-markdown"))
_SUCCESS = 200
# The address of a record that describes a page: urn:text:https://..., and screenshot:https://... of older crawlers.
_DESCRIBED = re.compile(r"<?(?:urn:[a-z][a-z0-9-]{0,31}|screenshot|thumbnail):(https?://[^\s>#]+)", re.IGNORECASE)
# Values that ``_Archive._end`` returns instead of a position.
_UNKNOWN, _DAMAGED = -1, -2
# Kind of a record -> why it is no document; empty if it can be one. Any other kind is passed over.
_KINDS = {"response": "", "resource": "", "conversion": "", "revisit": "warc_revisit"}
# A value of ``warc_id`` -> the id of a document.
WARC_IDS: dict[str, Callable[[Page], str]] = {"uri": lambda page: page.id, "record-id": lambda page: page.record_id}
# Reasons of records that are no documents.
WARC_REASONS: dict[str, str] = {
    "warc_damaged": "the WARC record is damaged or cut off; reading goes on at the next one",
    "warc_too_large": "the WARC record is longer than line_bytes_max",
    "warc_truncated": "the crawler cut the record off (WARC-Truncated)",
    "warc_not_text": "the record holds neither HTML nor plain text",
    "warc_status": "the server did not answer with success (its status is not 200)",
    "warc_revisit": "a revisit record repeats an earlier payload and holds none",
    "warc_description": "the record describes a page (as urn:text: and urn:thumbnail: do) and is no page itself",
    "warc_encoding": "the payload cannot be unpacked as its Content-Encoding says, or unpacks to more than "
    "line_bytes_max",
}


def warc_lines(blocks: Iterable[bytes | None], bytes_max: int) -> Iterator[Line]:
    """Each record of an archive as a line with its ``record``, and with its ``page`` if it is a document.

    Numbered from 1; damage has a number of its own. An empty block becomes ``IDLE``; ``None`` says that bytes are
    missing here. A record that is no document has a reason.
    """
    archive = _Archive(bytes_max)
    for block in blocks:
        if block is None:
            yield from archive.end(is_missing=True)
        elif not block:
            yield IDLE
        else:
            archive.held += block
            yield from archive.lines(at_end=False)
    yield from archive.end(is_missing=False)


class _Archive:
    """The state between two blocks: ``held`` are the bytes that are not used yet, from ``at`` on.

    ``left`` bytes of a record that is too long to hold are still to come. ``is_searching``: the next record begins at a
    line somewhere behind ``at``. ``has_gap``: bytes before it belong to no record. ``is_damaged``: they are refused.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = bytearray()
        self.at = 0
        self.number = 0
        self.left = 0
        self.is_searching = self.is_damaged = self.has_gap = False

    def lines(self, *, at_end: bool) -> Iterator[Line]:
        """The records that are complete, and damage."""
        while self.left or self._find():
            yield from self._damage()
            if self.left:
                part = bytes(memoryview(self.held)[self.at : self.at + self.left])
                self.at, self.left = self.at + len(part), self.left - len(part)
                yield Line(self.number, b"", True, not self.left, Reason("warc_too_large"), record=part)
                if self.left:
                    break
                continue
            end = self._end(at_end)
            if end == _UNKNOWN:
                break
            if end == _DAMAGED:
                self.at, self.is_searching, self.has_gap = self.at + len(_MAGIC), True, True
            elif not self.left:
                record = bytes(memoryview(self.held)[self.at : end])
                self.at, self.number, self.is_damaged = end, self.number + 1, False
                yield _line(self.number, record, self.bytes_max)
        yield from self._damage()
        del self.held[: self.at]
        self.at = 0

    def end(self, *, is_missing: bool) -> Iterator[Line]:
        """The rest, before bytes that are missing or after the last ones."""
        yield from self.lines(at_end=True)
        if self.left:
            self.left, self.is_damaged = 0, True
            yield Line(self.number, b"", True, reason=Reason("warc_damaged"), record=b"")
        else:
            self.has_gap = is_missing or bool(self.held.strip(b"\r\n"))
            yield from self._damage()
        self.held.clear()
        self.is_searching = False

    def _find(self) -> bool:
        """Move to the beginning of the next record; returns whether it is there."""
        held = self.held
        if not self.is_searching:
            while self.at < len(held) and held[self.at] in _END:
                self.at += 1
            begin = held[self.at : self.at + len(_MAGIC)]
            if begin == _MAGIC or _MAGIC.startswith(begin):
                return begin == _MAGIC
            self.is_searching = self.has_gap = True
        index = held.find(b"\n" + _MAGIC, self.at)
        self.is_searching = index < 0
        self.at = max(self.at, len(held) - len(_MAGIC)) if index < 0 else index + 1
        return index >= 0

    def _end(self, at_end: bool) -> int:
        """Return where the present record ends, or one of the values below 0; a long record sets ``left``."""
        stop = self.at + _HEADER_BYTES_MAX
        following = self.held.find(b"\n" + _MAGIC, self.at, stop)  # no search reads behind it: time stays linear
        match = _HEAD_END.search(self.held, self.at, stop if following < 0 else following + 1)
        if match is None:
            is_whole = at_end or following >= 0 or len(self.held) - self.at >= _HEADER_BYTES_MAX
            return _DAMAGED if is_whole else _UNKNOWN
        head, begin = match.span()
        length = _LENGTH.search(self.held, self.at, head + 1)
        if length is None:
            return _DAMAGED
        size = int(length[1])
        if size > self.bytes_max:
            self.number, self.left, self.is_damaged = self.number + 1, begin - self.at + size, False
            return begin
        end = begin + size
        if self.held.startswith(_END, end):
            return end
        after = bytes(self.held[end : end + len(_END) + len(_MAGIC)]).lstrip(_END)
        if after.startswith(_MAGIC):
            return end
        if not _MAGIC.startswith(after) or (at_end and after):
            return _DAMAGED
        if not at_end:
            return _UNKNOWN
        return end if len(self.held) >= end else _DAMAGED

    def _damage(self) -> Iterator[Line]:
        """Refuse the bytes of a gap, unless they belong to damage that is refused already."""
        is_new, self.has_gap = self.has_gap and not self.is_damaged, False
        if is_new:
            self.number, self.is_damaged = self.number + 1, True
            yield Line(self.number, b"", reason=Reason("warc_damaged"))


def split_head(data: bytes) -> tuple[bytes, bytes]:
    """Return the lines of a head, each with CRLF, and what follows the blank line after it.

    Some crawlers end lines with a line feed alone.
    """
    end = _HEAD_END.search(data, 0, _HEADER_BYTES_MAX)
    head, rest = (data, b"") if end is None else (data[: end.start()], data[end.end() :])
    return b"".join(line.removesuffix(b"\r") + b"\r\n" for line in head.split(b"\n")), rest


def described(uri: str) -> str | None:
    """Return the address of the page that a record with this target URI describes, without its fragment; ``None`` if it
    describes none.

    >>> described("urn:text:https://a.example/1#top"), described("https://a.example/1"), described("urn:isbn:1")
    ('https://a.example/1', None, None)
    """
    found = _DESCRIBED.match(uri)
    return found[1] if found else None


def _line(number: int, raw: bytes, bytes_max: int) -> Line:
    """Return a record as a line with its page, or with the reason why it is no document."""
    from fastwarc.warc import WarcRecord

    line = Line(number, b"", record=raw)
    head, block = split_head(raw)
    try:
        record = WarcRecord.from_bytes(head + b"\r\n")
    except OSError:  # FastWARC cannot parse the header of the record
        return line._replace(reason=Reason("warc_damaged"), record=None)
    kind = _header(record, "WARC-Type").lower()
    reason = Reason(_KINDS.get(kind, RECORD))
    if not reason and _header(record, "WARC-Truncated"):
        reason = Reason("warc_truncated")
    if not reason and described(_header(record, "WARC-Target-URI")):
        reason = Reason("warc_description")
    if reason:
        return line._replace(reason=reason)
    page = _page(record, kind, block, bytes_max)
    return line._replace(reason=page) if isinstance(page, Reason) else line._replace(page=page)


def _page(record: Any, kind: str, block: bytes, bytes_max: int) -> Page | Reason:
    """Return the page in a record, or the reason why it holds none."""
    content_type, payload = _header(record, "Content-Type"), block
    if kind == "response" and content_type.partition(";")[0].strip().lower() != "application/http":
        return Reason("warc_not_text")  # for example the answer of a name server
    if kind == "response":
        head, payload = split_head(block)
        line, *fields = head.decode("latin-1").split("\r\n")
        status = _STATUS.match(line)
        headers: dict[str, str] = {}  # the first field of each name
        for field in fields:
            name, _, value = field.partition(":")
            headers.setdefault(name.strip().lower(), value.strip())
        if status is None or int(status[1]) != _SUCCESS:
            return Reason("warc_status")
        content_type = headers.get("content-type") or _header(record, "WARC-Identified-Payload-Type")
        if "chunked" in headers.get("transfer-encoding", "").lower():
            payload = _joined(payload)
        unpacked = decoded_content(payload, headers.get("content-encoding", ""), bytes_max)
        if unpacked is None:
            return Reason("warc_encoding")
        payload = unpacked
    media, _, parameters = content_type.partition(";")
    media = media.strip().lower()
    is_markup = media in _HTML or (not media and LOOKS_LIKE_HTML.match(payload) is not None)
    if not is_markup and media not in _PLAIN:
        return Reason("warc_not_text")
    named = CHARSET.search(parameters)
    charset = named[1] if named else None
    record_id = _header(record, "WARC-Record-ID")
    id_ = _header(record, "WARC-Target-URI").strip("<>") or record_id
    date = record.record_date
    return (
        Page(id_, payload, record_id, date.timestamp() if date else None, charset, is_markup)
        if id_
        else Reason("no_id")
    )


def _joined(body: bytes) -> bytes:
    """Return the content of a chunked body; a body that is not chunked as it is, and of one that is cut off what is
    there. Many crawlers store bodies that are not chunked any more, and keep the header."""
    parts: list[bytes] = []
    at = 0
    while (size := _CHUNK.match(body, at)) is not None and int(size[1], 16):
        parts.append(body[size.end() : size.end() + int(size[1], 16)])
        at = size.end() + int(size[1], 16)
        at += 2 if body.startswith(b"\r\n", at) else body.startswith(b"\n", at)
    is_chunked = bool(parts) or _CHUNK.match(body) is not None
    rest = body[at:] if size is None else b""
    return b"".join(parts) + rest if is_chunked else body


def _header(record: Any, name: str) -> str:
    return (record.headers.get(name) or "").strip()
