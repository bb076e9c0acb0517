"""A page, and what the modes of extraction are called."""

from __future__ import annotations

from typing import NamedTuple

# What is compared of a page. The first one is the default.
MODES = ("main", "text", "raw")
# The libraries that extract. The first one is the default.
EXTRACTORS = ("trafilatura", "resiliparse")


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


def page_document(content: bytes, name: str, unread: object = None) -> Page:
    """Return a whole content as a page whose id is its name."""
    return Page(name, content)
