"""A page, its characters, and what the modes of extraction are called."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

# What is compared of a page. The first one is the default.
MODES = ("main", "text", "raw")
# The libraries that extract. The first one is the default.
EXTRACTORS = ("trafilatura", "resiliparse")
# Bytes at the start of a page that may declare its charset (the standard says 1,024; real pages are late).
_DECLARATION_BYTES = 4096
# Stands for bytes that are no character in the charset.
REPLACED = "\ufffd"
# Fewer in a page are damage, and say nothing of its charset.
_REPLACED_MIN = 4
# The charset of a page that declares none and is not UTF-8, as in browsers.
_DEFAULT_CHARSET = "cp1252"
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(rb"<meta[\s/][^>]*+")
_META_CHARSET = re.compile(rb"charset\s*+=\s*+[\"']?+\s*+([^\s\"'/>;]{1,40})")
_XML_ENCODING = re.compile(rb"\sencoding\s*+=\s*+[\"']([^\s\"']{1,40})")


class Page(NamedTuple):
    """A page, or a plain text of a crawl (``is_markup`` is false), before its text is known.

    ``timestamp`` is in seconds since the epoch. ``charset`` is the one that the server named.
    """

    id: str
    payload: bytes
    record_id: str = ""
    timestamp: float | None = None
    charset: str | None = None
    is_markup: bool = True


def page_document(content: bytes, name: str) -> Page:
    """Return a whole content as a page whose id is its name."""
    return Page(name, content)


def decoded(payload: bytes, charset: str | None = None) -> str:
    """Return the characters of a page, by its byte order mark, the named charset, its declaration, or its bytes.

    Never raises: an unknown charset is ignored, and bytes that are invalid in the charset become U+FFFD. A page that is
    UTF-8 is read so, whether it declares nothing, Windows-1252 or ISO-8859-1. One that is named UTF-8 and is not, in
    most characters beyond ASCII, is read in the charset that its bytes suggest.

    >>> decoded(b"<meta charset=shift_jis>\\x93\\xfa")[-1]
    '日'
    """
    for mark, name in _MARKS.items():
        if payload.startswith(mark):
            return payload[len(mark) :].decode(name, "replace")
    known = _codec(charset) if charset else None
    if known is None:
        known = _declared(payload)
        # Many sites moved to UTF-8 and kept the old declaration; a text in another charset is not UTF-8 by accident.
        if known in (None, _DEFAULT_CHARSET) and _is_utf8(payload):
            known = "utf-8"
    text = payload.decode(known or _detected(payload), "replace")
    replaced = text.count(REPLACED) if known == "utf-8" else 0
    if replaced >= _REPLACED_MIN and 2 * replaced > sum(character > "\x7f" for character in text):
        return payload.decode(_detected(payload), "replace")
    return text


_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def _declared(payload: bytes) -> str | None:
    """Return the codec that a page declares, as the HTML standard searches it; ``None`` if it declares none."""
    head = _COMMENT.sub(b"", payload[:_DECLARATION_BYTES].lower()).lstrip()
    match = _XML_ENCODING.search(head[: head.find(b">")]) if head.startswith(b"<?xml") else None
    for meta in _META.finditer(head):
        if match is None and (b"http-equiv" in meta[0] or b"content" not in meta[0]):
            match = _META_CHARSET.search(meta[0])
    name = match and _codec(match[1].decode("ascii", "replace"))
    # A declaration that can be read as ASCII is not in UTF-16.
    return "utf-8" if name and name.startswith("utf-16") else name


def _detected(payload: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    return _codec(detect_encoding(payload) or "") or _DEFAULT_CHARSET


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _codec(label: str) -> str | None:
    """Return Python's name of a charset as browsers understand its label, ``None`` if it is unknown."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    try:
        name = map_encoding_to_html5(label, fallback_utf8=False)
        return codecs.lookup(name).name if name else None
    except LookupError:
        return None
