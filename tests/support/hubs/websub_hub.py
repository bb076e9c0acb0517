"""A publisher of feeds with a hub (WebSub) on the loopback, which may lie, deny, be slow, and forget."""

from __future__ import annotations

import hmac
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def rss(items, head=""):
    """A feed of RSS; ``items``: names with their texts, the newest first."""
    listed = "".join(
        f"<item><guid>urn:{name}</guid><pubDate>{DATE}</pubDate><description>{text}</description></item>"
        for name, text in items
    )
    return f'<rss version="2.0"><channel><title>News</title>{head}{listed}</channel></rss>'.encode()


class Hub:
    """Feeds at ``/feed/NAME`` and a hub at ``/hub``.

    ``feeds`` holds the items of each feed by name, ``asked`` the requests for feeds, ``forms`` those to the hub,
    ``subscriptions`` callback and secret by name, ``said`` the status of each answer to a verification. ``at`` is where
    callbacks are, whatever the public address says; ``behaves`` is what the hub does: ``well``, ``deny``, ``late``
    (verifies when a test says so), ``refuse``, ``redirect``, ``elsewhere`` (a redirect that posts do not follow).
    """

    def __init__(self):
        self.feeds, self.asked, self.forms, self.subscriptions, self.said = {}, [], [], {}, []
        self.at, self.behaves, self.lease, self.later = "", "well", 600, []
        self.changed = threading.Condition()
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.rpartition("/")[2]
                body = rss(world.feeds[name])
                with world.changed:
                    world.asked.append(name)
                    world.changed.notify_all()
                self.answer(200, body, Link=f'<{world.url("/hub")}>; rel="hub", <{world.topic(name)}>; rel="self"')

            def do_POST(self):
                size = int(self.headers["Content-Length"])
                form = {name: value for name, [value] in parse_qs(self.rfile.read(size).decode()).items()}
                if world.behaves in ("redirect", "elsewhere") and self.path == "/hub":
                    self.answer(307 if world.behaves == "redirect" else 302, Location="/hub/moved")
                    return
                with world.changed:
                    world.forms.append(form)
                    world.changed.notify_all()
                self.answer(400 if world.behaves == "refuse" else 202)
                if world.behaves == "late":
                    world.later.append(form)
                elif world.behaves != "refuse":
                    world.verify(form)

            def answer(self, status, body=b"", **header):
                self.send_response(status)
                for name, value in {
                    "Content-Length": len(body),
                    "Content-Type": "application/rss+xml",
                    **header,
                }.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def topic(self, name):
        return self.url(f"/feed/{name}")

    def until(self, holds, seconds=60.0):
        """Wait until something holds after a request to the hub."""
        with self.changed:
            assert self.changed.wait_for(holds, seconds), (self.forms, self.said, self.asked)

    def verify(self, form, challenge="c-1"):
        """Ask a subscriber back, or deny it."""
        mode, name = form["hub.mode"], form["hub.topic"].rpartition("/")[2]
        query = {"hub.mode": mode, "hub.topic": form["hub.topic"], "hub.challenge": challenge}
        if mode == "subscribe":
            query["hub.lease_seconds"] = str(self.lease)
        if self.behaves == "deny":
            query = {"hub.mode": "denied", "hub.topic": form["hub.topic"], "hub.reason": "no"}
        status, body = self.request("GET", f"{form['hub.callback']}?{urlencode(query)}")
        with self.changed:
            self.said.append((mode, status, body))
            if status == 200 and body == challenge.encode():
                if mode == "subscribe":
                    self.subscriptions[name] = form
                else:
                    self.subscriptions.pop(name, None)
            self.changed.notify_all()

    def push(self, name, items=None, method="sha256", signature=None, callback=None):
        """Push a feed, or items of it; returns the status of the answer."""
        form, body = self.subscriptions[name], rss(self.feeds[name] if items is None else items)
        right = f"{method}={hmac.digest(form['hub.secret'].encode(), body, method).hex()}"
        header = {"Content-Type": "application/rss+xml", "X-Hub-Signature": right if signature is None else signature}
        return self.request("POST", callback or form["hub.callback"], body, header)[0]

    def request(self, method, callback, body=b"", header=None):
        """Send a request to a callback; returns the status and the body of the answer."""
        parts = urlsplit(callback)
        connection = http.client.HTTPConnection(self.at or parts.netloc, timeout=60)
        try:
            connection.request(method, f"{parts.path}?{parts.query}", body, header or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hub():
    world = Hub()
    yield world
    world.close()
