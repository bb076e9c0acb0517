"""A feed reader that groups: one card for each story, with "also from" for its copies, by a running ``neardup serve``.

The reader sends the entries of all feeds to ``POST /v1/check:batch``, and asks for the members of each cluster that an
entry belongs to. Nothing is removed: a copy stands below the entry that came first. The service keeps its window after
the reader ends, so an entry joins a card that an earlier run has begun.

Usage: python docs/examples/feeds.py SERVICE FEED..., for example http://127.0.0.1:8470 https://www.example.com/rss
The environment variable NEARDUP_TOKEN holds the token, if the service needs one.
"""

from __future__ import annotations

import calendar
import json
import os
import re
import sys
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import feedparser


def entries(feed: str) -> Iterator[dict[str, Any]]:
    """The entries of a feed as documents; ``title`` stays with the reader."""
    for entry in feedparser.parse(feed).entries:
        body = entry.content[0].value if "content" in entry else entry.get("summary", "")
        text = unescape(re.sub(r"<[^>]*>", " ", body))
        document = {"id": entry.get("link") or entry.get("id"), "text": f"{entry.get('title', '')}\n{text}"}
        if entry.get("published_parsed"):
            document["timestamp"] = calendar.timegm(entry.published_parsed)
        yield {**document, "title": entry.get("title", "")}


def asked(service: str, path: str, body: bytes | None = None) -> bytes:
    """What the service answers; lines of JSON go in with ``body``."""
    token = os.environ.get("NEARDUP_TOKEN")
    headers = {"Content-Type": "application/x-ndjson"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with urlopen(Request(f"{service}{path}", body, headers)) as response:
        answer: bytes = response.read()
        return answer


def cards(service: str, documents: list[dict[str, Any]]) -> list[list[str]]:
    """The ids of each story, the first to arrive first; an entry without a verdict has a card of its own."""
    lines = "\n".join(json.dumps(document) for document in documents)
    *answers, last = map(json.loads, asked(service, "/v1/check:batch", lines.encode()).splitlines())
    if last != {"done": len(documents)}:
        sys.exit("the answer of the service is truncated: run the reader again")
    alone = [[document["id"]] for document, answer in zip(documents, answers, strict=True) if "error" in answer]
    numbers = dict.fromkeys(answer["cluster"] for answer in answers if "error" not in answer)
    clusters = [json.loads(asked(service, f"/v1/clusters/{number}")) for number in numbers]
    return [list(dict.fromkeys(member["id"] for member in cluster["members"])) for cluster in clusters] + alone


def main(service: str, feeds: list[str]) -> None:
    """Print a card for each story of the feeds, the one with most sources first."""
    documents = [entry for feed in feeds for entry in entries(feed)]
    titles = {document["id"]: document["title"] for document in documents}
    for first, *others in sorted(cards(service, documents), key=len, reverse=True):
        print(f"{titles.get(first, first)} ({urlsplit(first).netloc})")
        sources = dict.fromkeys(urlsplit(other).netloc for other in others)
        if sources:
            print(f"  also from {', '.join(sources)}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("the address of the service and of at least one feed are needed")
    main(sys.argv[1].rstrip("/"), sys.argv[2:])
