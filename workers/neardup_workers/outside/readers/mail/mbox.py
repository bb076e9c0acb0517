"""An mbox (RFC 4155) -> its messages, each as a line of JSON. The bytes in memory are bounded.

A message begins with a line ``From `` at the beginning of the content or after an empty line. Lines of a message that
begin with ``>From `` lose one ``>`` (the variant mboxrd). A ``Line`` is numbered by the number of its message, from 1.
``row`` holds the bytes of the message with its line ``From ``, and ``end`` the empty line after it: kept messages are
an mbox again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers.lines import IDLE, Line
from neardup_workers.outside.readers.mail.message import mail_object, read_mail

FROM = b"From "
# The end of a message: an empty line before the next line From.
_NEXT = re.compile(rb"\n\r?\n(?=From )")
# Bytes at the end of a block that may be the beginning of the pattern.
_OVERLAP_BYTES = len(b"\n\r\nFrom ") - 1
_QUOTED = re.compile(rb"^>(?=>*From )", re.MULTILINE)


def mbox_lines(blocks: Iterable[bytes | None], fields: Fields, bytes_max: int) -> Iterator[Line]:
    """Yield each message of an mbox as a line of JSON with id, timestamp and text, or with its reason.

    An empty block becomes ``IDLE``. ``None`` marks the start of new content. A message of more than ``bytes_max`` bytes
    comes in parts.

    >>> content = b"From a 2023\\nMessage-ID: <1@a>\\n\\nHello\\n\\nFrom b 2023\\nMessage-ID: <2@a>\\n\\nBye\\n\\n"
    >>> [line.raw for line in mbox_lines([content], Fields(), 999)]
    [b'{"id":"1@a","text":"Hello\\\\n"}', b'{"id":"2@a","text":"Bye\\\\n"}']
    """
    held = bytearray()
    number, searched, is_part = 1, 0, False
    for block in blocks:
        if block == b"":
            yield IDLE
            continue
        held += block or b""
        begin = 0
        while (match := _NEXT.search(held, searched)) is not None:
            row, end = bytes(held[begin : match.start() + 1]), bytes(held[match.start() + 1 : match.end()])
            yield from _message(number, row, end, fields, bytes_max, is_part)
            begin = searched = match.end()
            number, is_part = number + 1, False
        del held[:begin]
        if block is None:
            yield from _last(number, bytes(held), fields, bytes_max, is_part)
            held.clear()
            number, is_part = 1, False
        searched = max(0, len(held) - _OVERLAP_BYTES)
        if searched > bytes_max:
            yield Line(number, bytes(held[:searched]), True, False)
            del held[:searched]
            searched, is_part = 0, True
    yield from _last(number, bytes(held), fields, bytes_max, is_part)


def _last(number: int, raw: bytes, fields: Fields, bytes_max: int, is_part: bool) -> Iterator[Line]:
    """The message at the end of the content. It gets the empty line that a message of an mbox has after it."""
    if not raw and not is_part:
        return
    end = b"\r\n" if raw.endswith(b"\n\r\n") else b"\n"
    row = raw.removesuffix(end) if raw.endswith(b"\n" + end) else raw if raw.endswith(b"\n") else raw + b"\n"
    yield from _message(number, row, end, fields, bytes_max, is_part)


def _message(number: int, row: bytes, end: bytes, fields: Fields, bytes_max: int, is_part: bool) -> Iterator[Line]:
    """A message as one line, or in parts if it is too long or a part of it was returned already (``is_part``)."""
    if is_part:
        yield Line(number, row, True, True, end=end)
        return
    if len(row) > bytes_max:
        yield Line(number, row, True, False)
        yield Line(number, b"", True, True, end=end)
        return
    content = row.partition(b"\n")[2] if row.startswith(FROM) else row
    mail = read_mail(_QUOTED.sub(b"", content))
    if isinstance(mail, Reason):
        yield Line(number, row, reason=mail, row=row, end=end)
    else:
        yield Line(number, mail_object(mail, fields), row=row, end=end)
