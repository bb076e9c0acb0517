"""Marks articles in miniflux as read that say nearly the same as an earlier one, of whatever feed.

    NEARDUP_SERVICE=http://127.0.0.1:8470 MINIFLUX_TOKEN=... python miniflux.py https://miniflux.example [SECONDS]

It asks for unread entries, oldest first, checks each with the service, and marks the duplicates. With SECONDS it asks
again and again. It keeps nothing: the service gives an entry that it knows the same verdict once more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from html.parser import HTMLParser
from typing import Any
from urllib.request import Request, urlopen

SERVICE = os.environ.get("NEARDUP_SERVICE", "http://127.0.0.1:8470")
ENTRIES = 100  # of one request


def ask(method: str, url: str, value: Any = None, **header: str) -> Any:
    """Send a request with JSON, and return the JSON of the answer."""
    body = None if value is None else json.dumps(value).encode()
    sent = Request(url, body, {"Content-Type": "application/json", **header}, method=method)
    with urlopen(sent, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


class Text(HTMLParser):
    """The text of markup."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.feed(markup)
        self.close()

    def handle_data(self, data: str) -> None:
        """Take a stretch of text."""
        self.parts.append(data)


def mark(reader: str, token: str, after: int) -> int:
    """Check the unread entries behind an entry, mark the duplicates as read, and return the last entry."""
    header = {"X-Auth-Token": token}
    while True:
        query = f"status=unread&order=id&direction=asc&limit={ENTRIES}&after_entry_id={after}"
        entries = ask("GET", f"{reader}/v1/entries?{query}", **header)["entries"]
        copies = []
        for entry in entries:
            text = " ".join(Text(entry["content"]).parts).strip() or entry["title"]
            document = {"id": entry["url"], "text": text}
            verdict = ask("POST", f"{SERVICE}/v1/check", {**document, "timestamp": entry["published_at"]})
            if verdict["status"] == "duplicate":
                copies.append(entry["id"])
                print(f"{entry['url']} is read: {verdict['similarity']} as {verdict['duplicate_of']}", flush=True)
        if copies:
            ask("PUT", f"{reader}/v1/entries", {"entry_ids": copies, "status": "read"}, **header)
        if not entries:
            return after
        after = entries[-1]["id"]


if __name__ == "__main__":
    last = mark(sys.argv[1].rstrip("/"), os.environ["MINIFLUX_TOKEN"], 0)
    while len(sys.argv) > 2:
        time.sleep(float(sys.argv[2]))
        last = mark(sys.argv[1].rstrip("/"), os.environ["MINIFLUX_TOKEN"], last)
