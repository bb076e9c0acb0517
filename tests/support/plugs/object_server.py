"""A server of objects on the loopback: ranges, listings and uploads, as S3, GCS, Azure and plain servers give them.

``broken`` breaks the connection in the middle of so many further answers; ``ranges`` is whether it knows ranges.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>{}'
    "</ListBucketResult>"
)
_ROW = (
    "<Contents><Key>{}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>x</ETag><Size>{}</Size>"
    "<StorageClass>STANDARD</StorageClass></Contents>"
)


class ObjectServer:
    """The objects by their paths, and the requests that came: method, path, range, authorization."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.broken, self.ranges, self.url = 0, True, ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        parts = urlsplit(handler.path)
        path, query, method = unquote(parts.path).lstrip("/"), parse_qs(parts.query), handler.command
        wanted = handler.headers.get("Range")
        self.requests.append((method, handler.path, wanted, handler.headers.get("Authorization")))
        if method == "PUT":
            self.objects[path] = handler.rfile.read(int(handler.headers["Content-Length"]))
            self._send(handler, 200, b"", {"ETag": '"new"'})
        elif "list-type" in query:
            begin = f"{path.strip('/')}/{query.get('prefix', [''])[0]}"
            keys = {key.partition("/")[2]: len(data) for key, data in self.objects.items() if key.startswith(begin)}
            rows = "".join(_ROW.format(*row) for row in sorted(keys.items(), reverse=True))
            self._send(handler, 200, _LISTING.format(rows).encode(), {})
        elif path not in self.objects:
            self._send(handler, 404, b"", {})
        else:
            self._give(handler, self.objects[path], wanted)

    def _give(self, handler: BaseHTTPRequestHandler, data: bytes, wanted: str | None) -> None:
        tag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
        headers = {"ETag": tag, "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
        if handler.headers.get("If-Match", tag) != tag:
            self._send(handler, 412, b"", headers)
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted or "") if self.ranges else None
        if found is None:
            self._send(handler, 200, data, headers)
            return
        begin, end = int(found[1]), min(len(data), int(found[2] or len(data)) + 1)
        if begin >= len(data):
            self._send(handler, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        self._send(handler, 206, data[begin:end], headers | {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if self.broken and len(body) > 1:
            self.broken -= 1
            handler.wfile.write(body[: len(body) // 2])
            handler.close_connection = True
        else:
            handler.wfile.write(body)


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """A server that runs meanwhile; ``url`` is its address."""
    served = ObjectServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.answer(self)

        do_HEAD = do_PUT = do_GET

        def log_message(self, format: str, *values: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield served
        server.shutdown()
        thread.join()
