"""One request over HTTP for a resource of strangers, with limits on address, redirects, size and time.

A request connects to an address that was resolved and checked here, and the server is still addressed, and its
certificate checked, by its name. So no second lookup can lead elsewhere. Each redirect is a new request with the same
checks. The time covers all redirects; a timer ends the connection, because a server that sends a byte now and then
never exceeds the time of one read. Nothing is sent through proxies of the environment.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http.client import HTTPException
from importlib.util import find_spec
from threading import Timer
from typing import Any, NamedTuple
from urllib.parse import urljoin

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.response import HTTPResponse
from urllib3.util import Url, parse_url

from neardup_workers.outside.feeds.addresses import Address, addresses_of, is_public
from neardup_workers.outside.readers.compression import Corrupt, decompressed
from neardup_workers.outside.web.content_encoding import decoded_content

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_FOR_GOOD = frozenset((301, 308))
# What is posted goes there, too; after the others, a client would get.
_POSTED_AGAIN = frozenset((307, 308))
_BLOCK_BYTES = 1 << 16
# Brotli has no first bytes to know it by, and is there with the extra of pages.
_BROTLI = "br"
_TAKEN = "gzip, zstd" + (f", {_BROTLI}" if find_spec("brotli") else "")
_PORTS = {"http": 80, "https": 443}


class FetchLimits(NamedTuple):
    """The limits of a request: bytes of an answer, unpacked; seconds with all redirects; redirects; and whether it may
    go to an address.

    The longest feeds of news have some megabytes. Sites move their feeds once or twice; after five redirects a feed
    goes in a circle.
    """

    bytes_max: int = 8 << 20
    seconds_max: float = 30.0
    redirects_max: int = 5
    is_allowed: Callable[[str], bool] = is_public


class Fetched(NamedTuple):
    """An answer: its status, its header by names in lower case, its body, the address after all redirects, and the
    address behind those that say that it holds for good (301, 308), as long as no other one came before."""

    status: int
    header: Mapping[str, str]
    body: bytes
    url: str
    moved: str = ""


class FetchError(Exception):
    """There is no answer; ``reason`` is a key of ``FEED_REASONS``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def fetch(
    url: str,
    header: Mapping[str, str],
    limits: FetchLimits,
    *,
    body: bytes | None = None,
    resolve: Any = socket.getaddrinfo,
    context: ssl.SSLContext | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Fetched:
    """Get a resource, or with a body post to one; returns the answer to the last of all redirects, whatever its status.
    The body of another status than 200 is empty. Raises ``FetchError`` if there is no answer, or it reaches a limit.

    ``resolve`` is like ``socket.getaddrinfo``; ``context`` says how certificates are checked, by default by those of
    the system; ``now`` is a clock that only grows.
    """
    ends, moved, is_for_good = now() + limits.seconds_max, "", True
    for _ in range(limits.redirects_max + 1):
        parsed = _parsed(url)
        connection = _connected(parsed, limits, resolve, context, lambda: ends - now())
        expired = _Timer(connection, ends - now())
        try:
            answer = _answer(connection, parsed, header, body, limits.bytes_max)
        except (HTTPError, HTTPException, OSError, ValueError):
            # ValueError: the client refuses what cannot stand in a request or a header.
            # The client's own limit of a read may end it just before the timer does.
            late = expired.fired or now() >= ends
            raise FetchError("fetch_time" if late else "fetch_connection") from None
        finally:
            expired.cancel()
            connection.close()
        if expired.fired:  # a body without a length ends as if it were whole
            raise FetchError("fetch_time")
        if answer.status not in _REDIRECTS:
            return answer._replace(url=url, moved=moved)
        location = answer.header.get("location")
        if not location or (body is not None and answer.status not in _POSTED_AGAIN):
            break
        try:
            url = urljoin(url, location)
            is_for_good = is_for_good and answer.status in _FOR_GOOD
            moved = url if is_for_good else moved
        except ValueError:
            break
    raise FetchError("fetch_redirects")


def _parsed(url: str) -> Url:
    """Return the parts of an address. Raises ``FetchError``."""
    try:
        parsed = parse_url(url)
    except LocationParseError:
        raise FetchError("fetch_url") from None
    if parsed.scheme not in _PORTS or not parsed.host or parsed.auth is not None:
        raise FetchError("fetch_url")
    return parsed


def _connected(
    url: Url, limits: FetchLimits, resolve: Any, context: ssl.SSLContext | None, left: Callable[[], float]
) -> HTTPConnection:
    """Return a connection to the first address that accepts one. Raises ``FetchError``."""
    host = (url.host or "").strip("[]")
    port = url.port or _PORTS[url.scheme or ""]
    try:
        addresses = addresses_of(host, port, resolve)
    except (OSError, UnicodeError):
        raise FetchError("fetch_unknown_host") from None
    addresses = [address for address in addresses if limits.is_allowed(address.number)]
    if not addresses:
        raise FetchError("fetch_private")
    for index, address in enumerate(addresses):
        seconds = left() / (len(addresses) - index)
        if seconds <= 0:
            raise FetchError("fetch_time")
        connection = _connection(url, host, port, address, seconds, context)
        try:
            connection.connect()
        except (HTTPError, HTTPException, OSError):
            connection.close()
            continue
        return connection
    raise FetchError("fetch_time" if left() <= 0 else "fetch_connection")


def _connection(
    url: Url, host: str, port: int, address: Address, seconds: float, context: ssl.SSLContext | None
) -> HTTPConnection:
    if url.scheme == "http":
        return HTTPConnection(address.number, port, timeout=seconds)
    context = context or ssl.create_default_context()
    return HTTPSConnection(address.number, port, timeout=seconds, ssl_context=context, server_hostname=host)


class _Timer:
    """Ends a connection after some seconds; ``fired`` says that it did."""

    def __init__(self, connection: HTTPConnection, seconds: float) -> None:
        self.fired = False
        # The client forgets the socket of an answer that ends with its connection.
        self._socket = connection.sock
        self._timer = Timer(max(0.0, seconds), self._fire)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """End nothing more."""
        self._timer.cancel()

    def _fire(self) -> None:
        self.fired = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _answer(
    connection: HTTPConnection, url: Url, header: Mapping[str, str], posted: bytes | None, bytes_max: int
) -> Fetched:
    """Return the answer of a connection, with its body if its status is 200. Raises ``FetchError`` and errors of the
    client."""
    sent = {"Host": url.netloc or "", "Accept-Encoding": _TAKEN, "Connection": "close", **header}
    method = "GET" if posted is None else "POST"
    connection.request(method, url.request_uri, posted, sent, preload_content=False, decode_content=False)
    with closing(connection.getresponse()) as response:
        received = {name.lower(): value for name, value in response.headers.items()}
        if "link" in received:
            received["link"] = response.headers["link"]  # all of them, as one list
        body = _body(response, bytes_max) if response.status == 200 else b""
        return Fetched(response.status, received, body, "")


def _body(response: HTTPResponse, bytes_max: int) -> bytes:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    parts: list[bytes] = []
    size = 0
    try:
        received = filter(None, response.stream(_BLOCK_BYTES, decode_content=False))
        for block in filter(None, decompressed(received)):
            parts.append(block)
            size += len(block)
            if size > bytes_max:
                raise FetchError("fetch_too_large")
    except Corrupt:
        raise FetchError("fetch_damaged") from None
    body = b"".join(parts)
    unpacked = decoded_content(body, encoding, bytes_max) if encoding == _BROTLI else body
    if unpacked is None:
        raise FetchError("fetch_damaged")
    return unpacked
