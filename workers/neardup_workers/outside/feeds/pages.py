"""The pages that items link -> their texts, by the extraction of pages, with the limits of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.message import Message

from neardup.errors import Reason
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.web.extraction import Extracted, Extraction
from neardup_workers.outside.web.pages import Page

_ACCEPT = {"Accept": "text/html, application/xhtml+xml, text/plain;q=0.5"}
# Characters of a Content-Type that are read.
_TYPE_CHARACTERS_MAX = 1_000
# Type of a page -> whether it is markup.
_TYPES = {"text/html": True, "application/xhtml+xml": True, "text/plain": False}


def page_text(url: str, get: Callable[[str, Mapping[str, str]], Fetched], extraction: Extraction) -> Extracted:
    """Return the text of the page at an address, or why it has none.

    Args:
        url: the address.
        get: gets a resource: address and header fields -> the answer; raises ``FetchError``.
        extraction: extracts the text.
    """
    try:
        answer = get(url, _ACCEPT)
    except FetchError as error:
        return Reason(error.reason)
    if answer.status != 200:
        return Reason("fetch_status")
    header = Message()
    header["Content-Type"] = answer.header.get("content-type", "text/html")[:_TYPE_CHARACTERS_MAX]
    kind = header.get_content_type()
    if kind not in _TYPES:
        return Reason("page_type")
    charset = header.get_content_charset()
    return extraction.text(Page(url, answer.body, charset=charset, is_markup=_TYPES[kind]))
