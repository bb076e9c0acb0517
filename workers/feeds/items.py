"""A feed (RSS, Atom, RDF) -> its items as JSON, in a process of its own, which has a bound on memory and time.

The parser of feeds needs several seconds for some hostile feeds of 300 kB, and it may fail in ways that it does not
document. So the program runs this module once for each feed that has changed: the address of the feed is the argument,
its content the input, and the output is a line of JSON: a list of items, or an object with a reason.

An item has ``id`` (the guid, or else the link), ``time`` (published, or else updated, in ISO 8601), ``title``, ``url``
and ``text`` (content, or else summary, or else title).
"""

from __future__ import annotations

import io
import resource
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from neardup.workers.readers.markup import text_of_markup

# Bytes of memory of the process: many times what the largest feed of the default limits needs.
_MEMORY_BYTES_MAX = 1 << 30


class Item(NamedTuple):
    """An item of a feed, see the module. ``time`` is ``None`` without a time that a calendar has."""

    id: str | None
    time: str | None
    title: str
    url: str | None
    text: str


def items_of(content: bytes, url: str, content_type: str, seconds_max: float) -> list[Item] | str:
    """Return the items of a feed in its order, or the reason why it has none (a key of ``FEED_REASONS``).

    ``url`` is the address that answered, ``content_type`` the field of the answer that brought it. The process is ended
    after ``seconds_max``.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "neardup.workers.feeds.items",
        url,
        content_type,
        str(max(1, round(seconds_max))),
    ]
    try:
        done = subprocess.run(
            command, input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds_max,
            check=False, start_new_session=True,
        )  # fmt: skip
        found = orjson.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return "feed_slow"
    except orjson.JSONDecodeError:
        return "feed_damaged"
    return str(found) if isinstance(found, str) else [Item(*row) for row in found]


def read_items(content: bytes, url: str, content_type: str) -> list[Item] | str:
    """Return the items of a feed, or the reason why it has none; never raises."""
    try:
        return parse(content, url, content_type)
    except Exception:  # whatever the parser raises: the feed is not read
        return "feed_damaged"


def parse(content: bytes, url: str, content_type: str) -> list[Item] | str:
    """Return the items of a feed in its order, or the reason why it has none."""
    import feedparser

    header = {"content-type": content_type, "content-location": url}
    found = feedparser.parse(
        io.BytesIO(content), response_headers=header, sanitize_html=False, resolve_relative_uris=False
    )
    if not found.get("version") and not found.entries:
        return "feed_format"
    return [_item(entry) for entry in found.entries]


def _item(entry: Any) -> Item:
    guid, link = _text(entry.get("id")), _text(entry.get("link"))
    title = text_of_markup(_text(entry.get("title")))
    contents = [*entry.get("content", ()), entry.get("summary_detail") or {"value": entry.get("summary")}]
    text = next(filter(None, map(_plain, contents)), title)
    return Item(guid or link or None, _time(entry), title, link or None, text)


def _plain(content: Any) -> str:
    """Return the text of a content, which is markup unless its type says otherwise."""
    value = _text(content.get("value"))
    return value.strip() if content.get("type") == "text/plain" and "<" not in value else text_of_markup(value)


def _text(value: Any) -> str:
    """Return a string of the parser without lone surrogates; empty for anything else."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _time(entry: Any) -> str | None:
    for name in ("published_parsed", "updated_parsed"):
        if name in entry:  # a plain get of the second name would warn and give the first
            found = entry[name]
            try:
                year, month, day, hour, minute, second = found[:6]
                return datetime(year, month, day, hour, minute, second, tzinfo=UTC).isoformat()
            except (ValueError, TypeError, OverflowError):
                continue
    return None


def main(arguments: list[str]) -> None:
    """Read a feed from standard input and write its items to standard output."""
    url, content_type, seconds = arguments
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    # If the parent ends, nothing else would end a parser that hangs.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    found = read_items(sys.stdin.buffer.read(), url, content_type)
    sys.stdout.buffer.write(orjson.dumps(found if isinstance(found, str) else [list(item) for item in found]))


if __name__ == "__main__":
    main(sys.argv[1:])
