"""A feed (RSS, Atom, RDF, JSON Feed) -> its items as JSON, in a process with a bound on memory and time.

The parser of feeds needs several seconds for some hostile feeds of 300 kB, and it may fail in ways that it does not
document. So it has processes of its own (``parsers``), which run this module and end with their input. A request is a
head (bytes of the content, of the address and of the content type) and these three; an answer is a head (its bytes) and
JSON: a list of items, an object with the address of the feed that a page names, or a reason.

An item has ``id`` (the guid, or else the link), ``time`` (published, or else updated, in ISO 8601), ``title``, ``url``,
``text`` (title and content, or else title and summary) and ``part``, which of these the text is. The title is a part of
the text because many contents are the same in all items ("submitted by ...", "The post appeared first on ...").

Where items of a feed have one guid, an id also has a hash of link and title; so has one without guid and link, of its
title and text.
"""

from __future__ import annotations

import io
import math
import re
import resource
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urljoin
from xml.sax import SAXException

import mmh3
import orjson

from neardup.documents.dates import date_seconds
from neardup.errors import Reason
from neardup_workers.outside.web.charsets import CHARSET, decoded
from neardup_workers.outside.web.markup import text_of_markup

# What names a feed in the head of a page, and how many bytes of a page are searched.
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json"})
_HEAD_BYTES = 1 << 19
# 1990 and 5000, and how seconds since the epoch are written between 1990 and 2286.
_EARLIEST_SECONDS, _LATEST_SECONDS = 631_152_000.0, 95_617_584_000.0
_EPOCH = re.compile(r"\d{9,10}(\.\d+)?", re.ASCII)
_QUERY = re.compile("[?;]")
# What opens and closes items in a feed that is not well-formed; comments and CDATA may mention them.
_ITEM_TAGS = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<(?P<end>/?)(?:item|entry)(?=[\s/>])[^<>]*?(?P<empty>/?)>",
    re.DOTALL | re.IGNORECASE,
)
# The heads of a request and of an answer.
REQUEST, ANSWER = struct.Struct("<QII"), struct.Struct("<Q")
# Bytes of memory of the process: many times what the largest feed of the default limits needs.
_MEMORY_BYTES_MAX = 1 << 30


# Characters of a date that is none.
_UNDATED_CHARACTERS_MAX = 100


# What stands between a title and the name of its site, and between the parts of a feed's title.
_TITLE_MARKS = (" | ", " - ", " – ", " — ", " :: ")
_TITLE_ENDS = "|-–—: \xa0\n"
_SITE_MARKS = re.compile(r" (?:[|\-–—>»]|::) ")


class Item(NamedTuple):
    """An item of a feed, see the module. ``time`` is ``None`` without a time that a calendar has; ``undated`` is what
    stands in its place then."""

    id: str | None
    time: str | None
    title: str
    url: str | None
    text: str
    part: str = "content"
    undated: str = ""


class Named(NamedTuple):
    """A page that is no feed, and the address of the feed that it names."""

    address: str


def read_items(content: bytes, url: str, content_type: str) -> list[Item] | Named | Reason:
    """Return the items of a feed, or what else it is (``parsers.Parsers.items_of``); never raises."""
    try:
        return parse(content, url, content_type)
    except Exception:  # whatever the parser raises: the feed is not read
        return Reason("feed_damaged")


def parse(content: bytes, url: str, content_type: str) -> list[Item] | Named | Reason:
    """Return the items of a feed in its order, the feed that a page names, or the reason why there are none."""
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        feed = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
        if "jsonfeed.org" not in str(feed.get("version")) or not isinstance(feed.get("items"), list):
            return Reason("feed_format")
        sites = _sites(feed.get("title"))
        return _named([_json_item(item, url, sites) for item in feed["items"] if isinstance(item, dict)])
    import feedparser

    named = CHARSET.search(content_type)
    # A feed grows: what is read of an item must not depend on how many characters are wrong in others.
    text = decoded(content, named[1] if named else None)
    # Without an address the parser leaves relative guids as they are: a redirect must not change the id of an item.
    header = {"content-type": "application/xml; charset=utf-8"}
    feed = feedparser.parse(
        io.BytesIO(text.encode(errors="replace")), response_headers=header, sanitize_html=False,
        resolve_relative_uris=False,
    )  # fmt: skip
    if feed.get("version") or feed.entries:
        is_cut = isinstance(feed.get("bozo_exception"), SAXException) and _ends_in_item(text)
        sites = _sites(feed.feed.get("title"))
        return _named([_item(entry, url, sites) for entry in feed.entries[: -1 if is_cut else None]])
    links = _Links()
    links.feed(text[:_HEAD_BYTES])
    return Named(urljoin(url, links.found)) if links.found else Reason("feed_format")


def _ends_in_item(text: str) -> bool:
    """Whether a feed that is not well-formed is cut within its last item, which has a part of its text then."""
    tags = [tag for tag in _ITEM_TAGS.finditer(text) if tag["end"] is not None and not tag["empty"]]
    return bool(tags) and not tags[-1]["end"]


def _named(items: list[Item]) -> list[Item]:
    """Return items with ids that differ; of several that a feed lists under one guid, link and title, the first."""
    counts = Counter(item.id for item in items)
    # Links may have a token of the fetch in their query, so it counts only where the rest names several items.
    links: dict[tuple[str | None, str, str], set[str]] = {}
    for item in items:
        links.setdefault((item.id, without_query(item.url or ""), item.title), set()).add(item.url or "")
    found: dict[str | None, Item] = {}
    for item in items:
        id_ = item.id
        if id_ is None and item.text:
            id_ = _hash(item.title, item.text)
        elif id_ is not None and counts[id_] > 1:
            short = without_query(item.url or "")
            link = short if len(links[item.id, short, item.title]) == 1 else item.url or ""
            id_ = f"{id_}#{_hash(link, item.title)}"
        # An item without anything has no id, and is refused.
        found.setdefault(id_ or f"#{len(found)}", item._replace(id=id_))
    return list(found.values())


def without_query(address: str) -> str:
    """Return an address without its query and the parameters of its path, where tokens stand.

    >>> without_query("http://a.example/x;jsessionid=AB?u=1")
    'http://a.example/x'
    """
    return _QUERY.split(address, 1)[0]


def _hash(*values: str) -> str:
    return mmh3.hash_bytes("\0".join(values)).hex()


class _Links(HTMLParser):
    """The first feed that a page names in its head (``<link rel="alternate" type="application/rss+xml" href=...>``)."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and not self.found and values.get("type", "").strip().lower() in _FEED_TYPES:
            self.found = values.get("href", "") if "alternate" in values.get("rel", "").lower().split() else ""


def _json_item(item: dict[str, Any], url: str, sites: Sequence[str]) -> Item:
    id_, link, other = (str(item[name]) if item.get(name) else None for name in ("id", "url", "external_url"))
    link = link or other
    link = _absolute(url, link or "") or None
    content = _text(item.get("content_text")).strip() or text_of_markup(_text(item.get("content_html")))
    texts = content, _text(item.get("title")).strip(), _text(item.get("summary")).strip()
    dated = _time([item.get(name) for name in ("date_published", "date_modified")])
    return _with_text(id_ or link, dated, link, *texts, sites)


def _date(value: Any) -> str | None:
    """Return a date in ISO 8601, in UTC: one that is written, or seconds since the epoch. ``None`` for anything else,
    and for one before 1990, which no feed has: it would make its source the first of all."""
    if not isinstance(value, str):
        return None
    written = value.strip()
    seconds = float(written) if _EPOCH.fullmatch(written) else date_seconds(written)
    if seconds is None or not _EARLIEST_SECONDS <= seconds < _LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _item(entry: Any, url: str, sites: Sequence[str]) -> Item:
    guid, link = _text(entry.get("id")), _absolute(url, _text(entry.get("link")))
    title = text_of_markup(_text(entry.get("title")))
    content = next(filter(None, map(_plain, entry.get("content", ()))), "")
    summary = _plain(entry.get("summary_detail") or {"value": entry.get("summary")})
    # A plain get of the second name would warn and give the first.
    time = _time([entry[name] for name in ("published", "updated") if name in entry])
    # A feed of many sites names that of an item.
    sites = (*_sites((entry.get("source") or {}).get("title")), *sites)
    return _with_text(guid or link or None, time, link or None, content, title, summary, sites)


def _sites(title: Any) -> tuple[str, ...]:
    """Return the names by which the title of a feed names its site: the title, and its parts."""
    name = text_of_markup(_text(title))
    return tuple(dict.fromkeys(filter(None, (name, *map(str.strip, _SITE_MARKS.split(name))))))


def without_site(title: str, sites: Sequence[str]) -> str:
    """Return a title without the name of its site behind it: each site has its own, and the same title in all.

    >>> without_site("Rain in Bergen | The Daily", ["The Daily"]), without_site("The Daily", ["The Daily"])
    ('Rain in Bergen', 'The Daily')
    """
    for site in sites:
        head = title[: -len(site)]
        if title[len(head) :].casefold() == site.casefold() and head.endswith(_TITLE_MARKS):
            return head.rstrip(_TITLE_ENDS) or title
    return title


def _with_text(
    id_: str | None,
    dated: tuple[str | None, str],
    url: str | None,
    content: str,
    title: str,
    summary: str,
    sites: Sequence[str],
) -> Item:
    """Return an item whose text is its title and its content, or else its summary, neither twice."""
    (time, undated), (body, part) = dated, (content, "content") if content else (summary, "summary")
    short = without_site(title, sites)
    rest = body.removeprefix(short).strip(_TITLE_ENDS).casefold()
    is_title = title.startswith(body) or rest in map(str.casefold, sites)  # some repeat title and site as content
    if not short or (body.startswith(short) and not is_title):
        return Item(id_, time, title, url, body, part, undated)
    if is_title:
        return Item(id_, time, title, url, short, "title", undated)
    return Item(id_, time, title, url, f"{short}\n{body}", f"title and {part}", undated)


def _absolute(url: str, link: str) -> str:
    """Return the address that a link of a feed leads to; empty for none."""
    try:
        return urljoin(url, link) if link else ""
    except ValueError:
        return link


def _plain(content: Any) -> str:
    """Return the text of a content, which is markup unless its type says otherwise."""
    value = _text(content.get("value"))
    return value.strip() if content.get("type") == "text/plain" and "<" not in value else text_of_markup(value)


def _text(value: Any) -> str:
    """Return a string of the parser without lone surrogates; empty for anything else."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _time(written: Sequence[Any]) -> tuple[str | None, str]:
    """Return the first of dates that is one, and what stands in its place if none is. The parser's own reading of them
    is not used: it takes parts from today."""
    time = next(filter(None, map(_date, written)), None)
    given = next((one.strip() for one in written if isinstance(one, str) and one.strip()), "")
    return time, "" if time else _text(given)[:_UNDATED_CHARACTERS_MAX]


def main(arguments: list[str]) -> None:
    """Read feeds from standard input, one after the other, and write the items of each to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    given, [seconds] = sys.stdin.buffer, map(int, arguments)
    while len(head := given.read(REQUEST.size)) == REQUEST.size:
        content, url, content_type = map(given.read, REQUEST.unpack(head))
        # If the parent ends, nothing else would end a parser that hangs.
        used = resource.getrusage(resource.RUSAGE_SELF)
        ends = math.ceil(used.ru_utime + used.ru_stime) + seconds + 1
        resource.setrlimit(resource.RLIMIT_CPU, (ends, resource.RLIM_INFINITY))
        items = read_items(content, url.decode(), content_type.decode())
        if isinstance(items, Named):
            written: object = items._asdict()
        else:
            written = items if isinstance(items, Reason) else [list(item) for item in items]
        answer = orjson.dumps(written)
        sys.stdout.buffer.write(ANSWER.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
