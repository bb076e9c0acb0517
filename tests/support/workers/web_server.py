"""An HTTP server on the loopback whose answers are functions, also such as no server should give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


class WebServer:
    """``answers`` holds a function for each path, ``posts`` those for what is posted; ``requests`` the paths and
    headers in order; ``ended`` is set at the end of the test, for answers that wait. ``context`` holds the certificate
    of a server over TLS."""

    def __init__(self, address="127.0.0.1", context=None):
        self.answers: dict[str, Answer] = {}
        self.posts, self.requests = {}, []
        self.ended = threading.Event()
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                world.requests.append((self.path, dict(self.headers)))
                try:
                    world.answers[self.path](self)
                except OSError:  # the client has gone
                    self.close_connection = True

            def do_POST(self):
                world.posts[self.path](self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = False
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def url(self, path, host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def give(self, path, body=b"", status=200, **header):
        """Answer with a body; underscores of names in the header are hyphens."""

        def answer(handler):
            handler.send_response(status)
            for name, value in {"Content_Length": len(body), **header}.items():
                handler.send_header(name.replace("_", "-"), str(value))
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer

    def close(self):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def web():
    server = WebServer()
    yield server
    server.close()
