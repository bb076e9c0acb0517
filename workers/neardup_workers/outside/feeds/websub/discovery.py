"""What an answer says of its hubs: fields ``Link`` of its header first, then what stands before the items of the feed.

The links of XML are read by the parser of Python as far as a feed is well-formed: what it does not find there is no
hub. A feed that names hubs and not its own address (``self``) cannot be subscribed to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urljoin
from xml.parsers import expat

import orjson

from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.web.charsets import CHARSET, decoded

# Bytes of a feed that are searched: links stand before the items.
_HEAD_BYTES = 1 << 16
# Hubs of a feed that are remembered, one that does not answer is followed by the next; characters of an address.
_HUBS_MAX, _ADDRESS_CHARACTERS_MAX = 3, 2_000
_ITEMS = frozenset({"item", "entry"})
_LINK = re.compile(r"<([^<>]*)>((?:\s*;[^;,\"<>]*(?:\"[^\"]*\")?)*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_Links = list[tuple[str, str]]  # of each link: its relations, and its address


class Offer(NamedTuple):
    """What can be subscribed to: the address of a feed as its hubs know it, and these, the first one first."""

    topic: str
    hubs: tuple[str, ...]


def offer_of(answer: Fetched) -> Offer | None:
    """Return what an answer offers to subscribe to, ``None`` if there is nothing.

    >>> offer_of(Fetched(200, {"link": '<https://hub.example/>; rel=hub, </feed>; rel="self"'}, b"", "http://a.example/"))
    Offer(topic='http://a.example/feed', hubs=('https://hub.example/',))
    """
    links = [(rel[1] or rel[2], link[1]) for link in _LINK.finditer(answer.header.get("link", ""))
             if (rel := _REL.search(link[2]))]  # fmt: skip
    hubs, topics = (_named(links, name, answer.url) for name in ("hub", "self"))
    if not (hubs and topics):
        links = list(_of_body(answer))
        hubs, topics = hubs or _named(links, "hub", answer.url), topics or _named(links, "self", answer.url)
    # Those over TLS first: who subscribes tells the hub a secret.
    hubs.sort(key=lambda hub: not hub.startswith("https:"))
    return Offer(topics[0], tuple(hubs[:_HUBS_MAX])) if hubs and topics else None


def _named(links: _Links, relation: str, url: str) -> list[str]:
    """Return the addresses of a relation, each once."""
    found = []
    for relations, address in links:
        if relation in relations.lower().split():
            try:
                absolute = urljoin(url, address.strip())
            except ValueError:
                continue
            if absolute.startswith(("https://", "http://")) and len(absolute) <= _ADDRESS_CHARACTERS_MAX:
                found.append(absolute)
    return list(dict.fromkeys(found))


def _of_body(answer: Fetched) -> Iterator[tuple[str, str]]:
    """Return the links that stand before the items of a feed."""
    if answer.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _of_json(answer.body)
    named = CHARSET.search(answer.header.get("content-type", ""))
    text = decoded(answer.body[:_HEAD_BYTES], named[1] if named else None)
    return iter(_of_xml(text.lstrip("\ufeff \t\r\n")))


def _of_json(body: bytes) -> Iterator[tuple[str, str]]:
    """Return the links of a JSON Feed (version 1.1 names its hubs by their protocol)."""
    try:
        feed = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return
    yield "self", str(feed.get("feed_url") or "")
    hubs = feed.get("hubs")
    for hub in hubs if isinstance(hubs, list) else ():
        if isinstance(hub, dict) and str(hub.get("type")).lower() == "websub":
            yield "hub", str(hub.get("url") or "")


def _of_xml(text: str) -> _Links:
    links: _Links = []
    parser = expat.ParserCreate("utf-8")  # the text is no more in the charset that it declares

    def start(name: str, values: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        if local in _ITEMS:
            raise StopIteration
        if local == "link" and "href" in values:
            links.append((values.get("rel", ""), values["href"]))

    parser.StartElementHandler = start
    with suppress(expat.ExpatError, StopIteration):  # what stands before an error counts
        parser.Parse(text.encode(errors="replace"), False)
    return links
