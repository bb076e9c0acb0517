"""The examples of the service run against a real ``neardup serve``: curl, a crawl, a feed reader."""

from __future__ import annotations

import doctest
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from command import PROCESS_SECONDS_MAX, ROOT, clean_environment
from debian_packages import absent
from service_process import Serving

EXAMPLES = ROOT / "docs" / "examples"
HARBOUR = (
    "The harbour of Vellin reopens on Monday after nine weeks of repairs. Two cranes were replaced and the northern "
    "pier was raised by forty centimetres, the port authority said. The first ferry leaves at seven in the morning."
)
LIBRARY = (
    "The library in the old mill opens its reading room on Sundays, too. Volunteers look after the desk, and the "
    "council pays for light and heating until the end of the winter, when the figures will be looked at again."
)
CHOIR = "The town choir of Ostby sings on Thursday in the old brewery, and the entrance is free for children under ten."
Site = Callable[[dict[str, str]], str]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A running service with an empty window."""
    serving = Serving(tmp_path, "--durability", "normal", "--threshold", "0.8")
    yield serving
    serving.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    """Serve pages (path, body) on a free port until the end of the test; returns the address."""
    servers = []

    def serve(pages: dict[str, str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = pages.get(self.path, "").encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/xml" if body.startswith(b"<?xml") else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Write no log."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an example as a process of its own, with these variables."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True, check=True, env=clean_environment() | environment, text=True, timeout=PROCESS_SECONDS_MAX,
    )  # fmt: skip


@pytest.mark.processes
def test_the_curl_lines_of_the_front_page_print_what_the_page_shows(serving: Serving) -> None:
    """Each line runs in a shell against a new window; only the address differs, and ``...`` matches anything."""
    if shutil.which("curl") is None:
        absent("no curl on the path")
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Over HTTP\n")[1].split("\n## ")[0]
    shown = [line.removeprefix("    ") for line in section.splitlines() if line.startswith("    ")]
    commands = [line.removeprefix("$ ") for line in shown if "| curl" in line or line.startswith("$ curl")]
    script = "\n".join(commands).replace("localhost:8470", serving.url.removeprefix("http://"))
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, cwd=ROOT, check=True, env=os.environ)
    assert len(commands) == 3
    expected = "".join(f"{line}\n" for line in shown if not line.startswith("$ "))
    assert doctest.OutputChecker().check_output(expected, done.stdout.decode(), doctest.ELLIPSIS), done.stdout


def page(title: str, text: str, links: tuple[str, ...] = ()) -> str:
    """A page of HTML with links to paths."""
    anchors = " ".join(f'<a href="{link}">{link}</a>' for link in links)
    return f"<html><title>{title}</title><body><nav>{anchors}</nav><p>{escape(text)}</p></body></html>"


@pytest.fixture
def reader() -> Iterator[ThreadingHTTPServer]:
    """The part of miniflux's interface that the example uses: ``entries`` by id, with a key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            behind = [entry for id_, entry in sorted(entries.items()) if id_ > int(query["after_entry_id"])]
            found = [entry for entry in behind if entry["status"] == query["status"]]
            self.answer(url.path, {"total": len(found), "entries": found[: min(2, int(query["limit"]))]})

        def do_PUT(self) -> None:
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for id_ in value["entry_ids"]:
                entries[id_]["status"] = value["status"]
            self.answer(self.path, None)

        def answer(self, path: str, value: object) -> None:
            """Answer with JSON; with no value, without a body."""
            body = b"" if value is None else json.dumps(value).encode()
            known = path == "/v1/entries" and self.headers["X-Auth-Token"] == "key"
            self.send_response((200 if body else 204) if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    entries: dict[int, dict[str, str]] = {}
    server.entries = entries  # type: ignore[attr-defined]
    Thread(target=server.serve_forever).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.processes
def test_copies_in_a_feed_reader_are_marked_as_read(serving: Serving, reader: ThreadingHTTPServer) -> None:
    """Over several answers of the reader; the first article of a story and others stay unread, also when the example
    runs again and after the user has marked a copy as unread and read the first article."""
    texts = (HARBOUR, LIBRARY, HARBOUR.replace("Monday", "Sunday"), CHOIR, LIBRARY)
    entries: dict[int, dict[str, Any]] = reader.entries  # type: ignore[attr-defined]
    for id_, text in enumerate(texts, 1):
        entries[id_] = {
            "id": id_, "url": f"https://paper{id_}.example/a", "title": "News", "content": f"<p>{escape(text)}</p>",
            "status": "unread", "published_at": f"2024-03-04T07:30:0{id_}Z",
        }  # fmt: skip
    address = f"http://127.0.0.1:{reader.server_port}"
    said = run("miniflux.py", address, NEARDUP_SERVICE=serving.url, MINIFLUX_TOKEN="key").stdout.splitlines()
    assert [entry["status"] for entry in entries.values()] == ["unread", "unread", "read", "unread", "read"]
    assert said[1] == "https://paper5.example/a is read: 1.0 as https://paper2.example/a"
    assert len(said) == 2
    entries[1]["status"], entries[3]["status"] = "read", "unread"
    run("miniflux.py", address, NEARDUP_SERVICE=serving.url, MINIFLUX_TOKEN="key")
    assert [entry["status"] for entry in entries.values()] == ["read", "unread", "read", "unread", "read"]


@pytest.fixture
def google_reader() -> Iterator[ThreadingHTTPServer]:
    """The part of the interface of Google Reader that the example uses, as FreshRSS serves it: two articles a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if url.path == f"{base}/reader/api/0/token":
                self.answer(b"writing\n")
            elif url.path == f"{base}/reader/api/0/stream/contents/reading-list" and query["r"] == "o":
                behind = int(query.get("c", 0))
                left = [one for n, one in articles.items() if n > behind and query["xt"] not in one["categories"]]
                more = {"continuation": left[1]["id"]} if len(left) > 2 else {}
                self.answer(json.dumps({"items": left[:2], **more}).encode())
            else:
                self.answer(None)

        def do_POST(self) -> None:
            values = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if self.path == f"{base}/accounts/ClientLogin":
                is_known = (values["Email"], values["Passwd"]) == (["ann"], ["its own"])
                self.answer(b"SID=x\nAuth=ann/key=\n" if is_known else None, is_open=True)
                return
            for id_ in values["i"] if values["T"] == ["writing"] else ():
                articles[int(id_)]["categories"].append(values["a"][0])
            self.answer(b"OK")

        def answer(self, body: bytes | None, is_open: bool = False) -> None:
            """Answer, to a request that is signed in; without a body, that there is nothing."""
            is_known = is_open or self.headers["Authorization"] == "GoogleLogin auth=ann/key="
            self.send_response((404 if body is None else 200) if is_known else 401)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *arguments: object) -> None:
            """Write no log."""

    base = "/api/greader.php"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    articles: dict[int, dict[str, Any]] = {}
    server.articles = articles  # type: ignore[attr-defined]
    Thread(target=server.serve_forever).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.processes
def test_copies_in_freshrss_are_marked_as_read(serving: Serving, google_reader: ThreadingHTTPServer) -> None:
    """Over several pages; the first article of a story and others stay unread, also when the example runs again."""
    articles: dict[int, dict[str, Any]] = google_reader.articles  # type: ignore[attr-defined]
    for id_, text in enumerate((HARBOUR, LIBRARY, HARBOUR.replace("Monday", "Sunday"), CHOIR, LIBRARY), 1):
        articles[id_] = {
            "id": str(id_), "canonical": [{"href": f"https://paper{id_}.example/a"}], "title": "News", "categories": [],
            "summary": {"content": f"<p>{escape(text)}</p>"}, "published": 1_709_537_400 + id_,
        }  # fmt: skip
    address, known = f"http://127.0.0.1:{google_reader.server_port}", {"FRESHRSS_USER": "ann"}
    for _ in range(2):
        environment = {**known, "FRESHRSS_PASSWORD": "its own", "NEARDUP_SERVICE": serving.url}
        said = run("freshrss.py", address, **environment).stdout.splitlines()
        read = [bool(article["categories"]) for article in articles.values()]
        assert read == [False, False, True, False, True]
    assert said == []  # what is read is asked for no more


@pytest.mark.processes
def test_the_crawl_keeps_each_text_once(serving: Serving, site: Site) -> None:
    """A near-copy and a copy are dropped, with the page that each resembles; a second crawl keeps the same pages."""
    paths = ("/harbour", "/harbour-amp", "/library", "/library?print", "/missing")
    start = site(
        {
            "/": page("front", CHOIR, paths),
            "/harbour": page("harbour", HARBOUR),
            "/harbour-amp": page("harbour, short", HARBOUR.replace("Monday", "Sunday")),
            "/library": page("library", LIBRARY),
            "/library?print": page("library, printed", LIBRARY),
        }
    )
    first = run("crawl.py", serving.url, f"{start}/")
    kept = {item["url"].removeprefix(start): item for item in map(json.loads, first.stdout.splitlines())}
    groups = [{"/"}, {"/harbour", "/harbour-amp"}, {"/library", "/library?print"}]
    assert [len(group & kept.keys()) for group in groups] == [1, 1, 1]
    assert len(kept) == 3
    assert first.stderr.count("Dropped: nearly the same as http") == 2
    for path in set().union(*groups):
        address = f"{serving.url}/v1/documents/{quote(start + path, safe='')}"
        [version] = httpx.get(address, timeout=60).json()["versions"]
        assert version["status"] == ("original" if path in kept else "duplicate")
    again = run("crawl.py", serving.url, f"{start}/")
    assert {json.loads(line)["url"] for line in again.stdout.splitlines()} == {start + path for path in kept}


def feed(title: str, entries: dict[str, tuple[str, str]]) -> str:
    """A feed (RSS 2.0) of entries: link to title and text."""
    items = "".join(
        f"<item><link>{link}</link><title>{name}</title><description>{escape(f'<b>{text}</b>')}</description>"
        "<pubDate>Mon, 04 Mar 2024 07:30:00 GMT</pubDate></item>"
        for link, (name, text) in entries.items()
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title>{items}</channel></rss>'


@pytest.mark.processes
def test_the_feed_reader_prints_one_card_a_story(serving: Serving, site: Site) -> None:
    """The copy stands below its original; a feed that is read later joins the card of the earlier run."""
    address = site(
        {
            "/post": feed(
                "Post",
                {
                    "http://post.example/1": ("Harbour reopens", HARBOUR),
                    "http://post.example/2": ("Choir sings", CHOIR),
                    "http://post.example/3": ("", ""),
                },
            ),
            "/wire": feed("Wire", {"http://wire.example/9": ("Harbour reopens", HARBOUR.replace("seven", "eight"))}),
            "/mirror": feed("Mirror", {"http://mirror.example/1": ("Harbour reopens", HARBOUR)}),
        }
    )
    cards = ["Harbour reopens (post.example)", "  also from wire.example", "Choir sings (post.example)"]
    printed = run("feeds.py", serving.url, f"{address}/post", f"{address}/wire").stdout.splitlines()
    assert printed == [*cards, " (post.example)"], "an entry without text has a card of its own"
    later = run("feeds.py", serving.url, f"{address}/mirror").stdout.splitlines()
    assert later == ["http://post.example/1 (post.example)", "  also from wire.example, mirror.example"]
