"""Marks articles in FreshRSS as read that say nearly the same as an earlier one, of whatever feed.

    export FRESHRSS_USER=... FRESHRSS_PASSWORD=...    # the password of the interface, from the profile
    NEARDUP_SERVICE=http://127.0.0.1:8470 python freshrss.py https://freshrss.example [SECONDS]

It asks for unread articles, oldest first, checks each with the service, and marks the duplicates. With SECONDS it asks
again and again. It keeps nothing: the service gives an article that it knows the same verdict once more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from html.parser import HTMLParser
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

SERVICE = os.environ.get("NEARDUP_SERVICE", "http://127.0.0.1:8470")
READ = "user/-/state/com.google/read"
ARTICLES = 100  # of one request


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


def ask(url: str, body: bytes | None = None, **header: str) -> bytes:
    """Send a request, with a body as POST, and return the content of the answer."""
    with urlopen(Request(url, body, header), timeout=30) as answer:
        content: bytes = answer.read()
    return content


def sign_in(reader: str) -> dict[str, str]:
    """Return the header that the other requests need."""
    given = {"Email": os.environ["FRESHRSS_USER"], "Passwd": os.environ["FRESHRSS_PASSWORD"]}
    lines = ask(f"{reader}/accounts/ClientLogin", urlencode(given).encode()).decode().splitlines()
    return {"Authorization": f"GoogleLogin auth={dict(line.split('=', 1) for line in lines)['Auth']}"}


def mark(reader: str, header: dict[str, str]) -> None:
    """Check the unread articles, and mark the duplicates as read."""
    continuation = ""
    while True:
        query = f"xt={READ}&r=o&n={ARTICLES}" + (f"&c={quote(continuation)}" if continuation else "")
        found = json.loads(ask(f"{reader}/reader/api/0/stream/contents/reading-list?{query}", None, **header))
        copies = []
        for article in found["items"]:
            text = " ".join(Text(article["summary"]["content"]).parts).strip() or article["title"]
            url = article["canonical"][0]["href"]
            document = {"id": url, "title": article["title"], "text": text, "timestamp": article["published"]}
            body = json.dumps(document).encode()
            verdict = json.loads(ask(f"{SERVICE}/v1/check", body, **{"Content-Type": "application/json"}))
            if verdict["status"] == "duplicate":
                copies.append(article["id"])
                print(f"{url} is read: {verdict['similarity']} as {verdict['duplicate_of']}", flush=True)
        if copies:
            token = ask(f"{reader}/reader/api/0/token", None, **header).decode().strip()
            values = [("a", READ), ("T", token), *(("i", id_) for id_ in copies)]
            ask(f"{reader}/reader/api/0/edit-tag", urlencode(values).encode(), **header)
        continuation = found.get("continuation", "")
        if not continuation:
            return


if __name__ == "__main__":
    address, *seconds = sys.argv[1:]
    api = f"{address.rstrip('/')}/api/greader.php"
    signed = sign_in(api)
    mark(api, signed)
    while seconds:
        time.sleep(float(seconds[0]))
        mark(api, signed)
