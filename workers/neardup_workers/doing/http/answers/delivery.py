"""How an answer travels: compressed if the client takes that, and not at all if the client has it already."""

from __future__ import annotations

import gzip
import hashlib

from starlette.requests import Request
from starlette.responses import Response

# Shorter answers fit into a packet as they are. The level is where time begins to grow faster than the answer shrinks.
_BYTES_MIN, _LEVEL = 1000, 5
_BYTES_OF_TAG = 12


def delivered(request: Request, response: Response, *, is_tagged: bool) -> Response:
    """Return an answer as it travels; ``is_tagged``: with the header ``ETag``, which ``If-None-Match`` compares.

    A stream stays as it is. The tag is weak: it names the content, compressed or not.
    """
    body = getattr(response, "body", b"")
    if response.status_code != 200 or not body:
        return response
    if is_tagged:
        tag = f'W/"{hashlib.blake2b(body, digest_size=_BYTES_OF_TAG).hexdigest()}"'
        response.headers["ETag"] = tag
        known = [one.strip() for one in request.headers.get("if-none-match", "").split(",")]
        if "*" in known or tag in known or tag.removeprefix("W/") in known:
            unchanged = Response(status_code=304, headers=response.headers)
            for name in ("content-length", "content-type"):
                del unchanged.headers[name]
            return unchanged
    if len(body) >= _BYTES_MIN:
        response.headers.append("Vary", "Accept-Encoding")
        if _takes_gzip(request):
            response.body = gzip.compress(body, _LEVEL, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Length"] = str(len(response.body))
    return response


def _takes_gzip(request: Request) -> bool:
    """Whether the client takes gzip: it names it, and not with a weight of zero."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
