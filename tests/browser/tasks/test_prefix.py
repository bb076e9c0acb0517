"""The page behind a proxy that takes a prefix off the path."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree as ET

import httpx
from open_page import TOKEN

PREFIX = "/news/desk/"
TEXT = "A storm closes the harbour of Vellin on Friday, the ferries stay in port, and the council opens two halls."
MAIN = "document.querySelector('main').innerText"


@contextmanager
def proxied(url):
    """A proxy that knows the token; yields the address of the page, and the paths outside of it that were asked for."""
    strays = []

    class Proxy(BaseHTTPRequestHandler):
        def forward(self):
            if not self.path.startswith(PREFIX):
                strays.append(self.path)
                return self.send_error(404)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": self.headers.get("Content-Type", "")}
            asked = self.command, url + "/" + self.path.removeprefix(PREFIX)
            with httpx.stream(*asked, content=body, headers=headers, timeout=60) as answer:
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
                self.end_headers()
                with suppress(OSError, httpx.HTTPError):  # the reader of events leaves, or the service
                    for part in answer.iter_bytes():
                        self.wfile.write(part)
            return None

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}", strays
        server.shutdown()


def test_the_page_works_under_a_prefix(page):
    """Its files, its requests, its events, its links, the examples of requests, and the address of the Atom feed."""
    browser = page.browser
    with proxied(page.url) as (address, strays):
        browser.open(f"{address}#/now")
        browser.wait("document.getElementById('live').dataset.state === 'live'")
        for n, source in enumerate(("Wire", "Post")):
            done = httpx.post(
                f"{address}v1/check", json={"id": f"p{n}", "text": TEXT, "source": source, "title": "Port"}
            )
            done.raise_for_status()
        browser.wait(f"{MAIN}.includes('post')")
        browser.open(f"{address}#/stories")
        browser.wait("document.querySelector('.card a')")
        browser.evaluate("document.querySelector('.card a').click()")
        browser.wait("document.querySelector('.members')")
        browser.evaluate("[...document.querySelectorAll('a')].find((link) => link.hash.startsWith('#/pair?')).click()")
        browser.wait("document.querySelector('.pair .verdict')")
        browser.open(browser.evaluate("document.querySelector('.links a').href"))
        browser.wait("document.getElementById('view').dataset.ready")
        examples = browser.evaluate("[...document.querySelectorAll('pre')].map((one) => one.textContent)")
        assert examples
        assert all(f" '{address}" in one for one in examples)
        asked = f"{address}v1/stories.atom?size_min=1"
        [own] = [one for one in ET.fromstring(httpx.get(asked).content) if one.get("rel") == "self"]
        found = urljoin(asked, own.get("href"))
        assert found.startswith(f"{address}v1/stories.atom?size_min=1&")
        assert httpx.get(
            page.url + urlsplit(found)._replace(scheme="", netloc="").geturl()[len(PREFIX) - 1 :]
        ).is_success
        browser.open(f"{page.url}/#/now")
    assert not strays
