"""An mbox (RFC 4155) -> its messages, each as a line of JSON. The bytes in memory are bounded.

A message begins with a line ``From `` at the beginning of the content, or after an empty line if the line ends with a
date and a line of a header follows: a sentence of a letter may begin with this word. Lines of a message that
begin with ``>From `` lose one ``>`` (the variant mboxrd). A ``Line`` is numbered by the number of its message, from 1.
``row`` holds the bytes of the message with its line ``From ``, and ``end`` the empty line after it: kept messages are
an mbox again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from neardup.documents.dates import date_seconds
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers.lines import IDLE, Line
from neardup_workers.outside.readers.mail.message import WHOLE, mail_object, read_mail

FROM = b"From "
# A message -> its line of JSON.
_Read = Callable[[bytes], bytes | Reason]
# The end of a message: an empty line before the next line From.
_NEXT = re.compile(rb"\n\r?\n(?=From )")
# Bytes at the end of a block that may be the beginning of the pattern.
_OVERLAP_BYTES = len(b"\n\r\nFrom ") - 1
# Bytes of a line From and of the name of the header behind it, at most.
_BEGIN_BYTES_MAX = 1_000
_HEADER = re.compile(rb">?[!-9;-~]+[ \t]*:|>From ")
# A zone between time and year whose name may stand for several, and the sender that old systems add.
_ZONE_NAME = re.compile(r"(?<=:\d\d) [A-Z]{2,5}(?= \d{4}\b)| remote from .*")
_QUOTED = re.compile(rb"^>(?=>*From )", re.MULTILINE)


def mbox_lines(
    blocks: Iterable[bytes | None], fields: Fields, bytes_max: int, mail_text: str = WHOLE
) -> Iterator[Line]:
    """Yield each message of an mbox as a line of JSON with id, timestamp and text, or with its reason.

    ``mail_text`` is that of ``read_mail``. An empty block becomes ``IDLE``. ``None`` marks the start of new content. A
    message of more than ``bytes_max`` bytes comes in parts.

    >>> begin = b"From a@a Tue Nov 14 22:13:20 2023\\n"
    >>> content = begin + b"Message-ID: <1@a>\\n\\nHello\\n\\n" + begin + b"Message-ID: <2@a>\\n\\nBye\\n\\n"
    >>> [line.raw for line in mbox_lines([content], Fields(), 999)]
    [b'{"id":"1@a","text":"Hello\\\\n"}', b'{"id":"2@a","text":"Bye\\\\n"}']
    """
    read = partial(_object, fields, mail_text)
    held = bytearray()
    number, searched, is_part = 1, 0, False
    for block in chain(blocks, (None,)):
        if block == b"":
            yield IDLE
            continue
        held += block or b""
        begin = 0
        while (match := _NEXT.search(held, searched)) is not None:
            begins = _begins(bytes(held[match.end() : match.end() + _BEGIN_BYTES_MAX]), is_whole=block is None)
            searched = match.end() if begins is False else match.start()
            if begins is None:
                break
            if not begins:
                continue
            row, end = bytes(held[begin : match.start() + 1]), bytes(held[match.start() + 1 : match.end()])
            yield from _message(number, row, end, read, bytes_max, is_part)
            begin = searched = match.end()
            number, is_part = number + 1, False
        searched = max(searched, len(held) - _OVERLAP_BYTES) if match is None else searched
        searched = max(0, searched - begin)
        del held[:begin]
        if block is None:
            yield from _last(number, bytes(held), read, bytes_max, is_part)
            held.clear()
            number, searched, is_part = 1, 0, False
        if searched > bytes_max:
            yield Line(number, bytes(held[:searched]), True, False)
            del held[:searched]
            searched, is_part = 0, True


def _begins(data: bytes, *, is_whole: bool) -> bool | None:
    """Whether a line ``From `` begins a message; ``None`` if that depends on bytes that are still to come."""
    line, newline, behind = data.partition(b"\n")
    follows, is_line = behind.partition(b"\n")[::2]
    if not is_whole and len(data) < _BEGIN_BYTES_MAX and not (newline and (is_line or b":" in behind)):
        return None
    if not newline or _HEADER.match(follows) is None:
        return False
    words = _ZONE_NAME.sub("", " ".join(line.decode("latin-1").split())).split(" ")
    dates = (" ".join(words[first:]) for first in range(1, min(len(words), 10)))
    return any(":" in date and date_seconds(date) is not None for date in dates)


def _object(fields: Fields, mail_text: str, content: bytes) -> bytes | Reason:
    """Return a message as a line of JSON."""
    mail = read_mail(content, mail_text)
    return mail if isinstance(mail, Reason) else mail_object(mail, fields)


def _last(number: int, raw: bytes, read: _Read, bytes_max: int, is_part: bool) -> Iterator[Line]:
    """The message at the end of the content. It gets the empty line that a message of an mbox has after it."""
    if not raw and not is_part:
        return
    end = b"\r\n" if raw.endswith(b"\n\r\n") else b"\n"
    row = raw.removesuffix(end) if raw.endswith(b"\n" + end) else raw if raw.endswith(b"\n") else raw + b"\n"
    yield from _message(number, row, end, read, bytes_max, is_part)


def _message(number: int, row: bytes, end: bytes, read: _Read, bytes_max: int, is_part: bool) -> Iterator[Line]:
    """A message as one line, or in parts if it is too long or a part of it was returned already (``is_part``)."""
    if is_part:
        yield Line(number, row, True, True, end=end)
        return
    if len(row) > bytes_max:
        yield Line(number, row, True, False)
        yield Line(number, b"", True, True, end=end)
        return
    content = row.partition(b"\n")[2] if row.startswith(FROM) else row
    value = read(_QUOTED.sub(b"", content))
    if isinstance(value, Reason):
        yield Line(number, row, reason=value, row=row, end=end)
    else:
        yield Line(number, value, row=row, end=end)
