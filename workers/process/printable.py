"""Untrusted text (ids, names of files) made safe for a terminal or a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with control characters of terminals and of text direction escaped; line feeds stay.

    >>> printable("a\\x9b2J \\u202e é")
    'a\\\\x9b2J \\\\u202e é'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
