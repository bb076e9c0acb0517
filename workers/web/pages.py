"""A page, its characters, and what the modes of extraction are called."""

from __future__ import annotations

import codecs
from typing import NamedTuple

# What is compared of a page. The first one is the default.
MODES = ("main", "text", "raw")
# The libraries that extract. The first one is the default.
EXTRACTORS = ("trafilatura", "resiliparse")
# Bytes at the start of a page that may declare its charset (the standard says 1,024; real pages are late).
_DECLARATION_BYTES = 4096
# The charset of a page that declares none and is not UTF-8, as in browsers.
_DEFAULT_CHARSET = "cp1252"


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

    Never raises: an unknown charset is ignored, and bytes that are invalid in the charset become U+FFFD.

    >>> decoded(b"<meta charset=shift_jis>\\x93\\xfa")[-1]
    '日'
    """
    for mark, name in _MARKS.items():
        if payload.startswith(mark):
            return payload[len(mark) :].decode(name, "replace")
    known = _codec(charset) if charset else None
    if known is None:
        try:
            return _decoded_as_declared(payload)
        except UnicodeDecodeError:
            known = _detected(payload)
    return payload.decode(known, "replace")


_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def _decoded_as_declared(payload: bytes) -> str:
    """Decode by the declaration in the page, else as UTF-8. Raises ``UnicodeDecodeError`` if it is neither."""
    head = payload[:_DECLARATION_BYTES].lower()
    if b"charset" in head or b"encoding=" in head:
        from resiliparse.parse.encoding import detect_encoding

        named = detect_encoding(payload[:_DECLARATION_BYTES], from_html_meta=True)
        known = _codec(named) if named else None
        if known not in (None, "utf-8", "ascii", "cp1252"):
            return payload.decode(known or "utf-8", "replace")
    return payload.decode()


def _detected(payload: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    return _codec(detect_encoding(payload) or "") or _DEFAULT_CHARSET


def _codec(label: str) -> str | None:
    """Return Python's name of a charset as browsers understand its label, ``None`` if it is unknown."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    try:
        name = map_encoding_to_html5(label, fallback_utf8=False)
        return codecs.lookup(name).name if name else None
    except LookupError:
        return None
