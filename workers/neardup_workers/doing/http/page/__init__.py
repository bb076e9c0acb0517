"""The page for a person who watches a feed: static files of the package, without scripts or styles of other hosts.

The browser gets rules that make data harmless even if the page had an error: no script and no style outside these
files, no other hosts, no frame around the page, and no string that becomes HTML (Trusted Types).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from neardup_workers.doing.http.bodies import Refused

_FOLDER = Path(__file__).parent
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
# Path -> the file that it shows.
_VIEWS = {"/": "index.html", "/docs": "docs.html"}
_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)  # fmt: skip
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class _File(NamedTuple):
    content: bytes
    type: str


def page(request: Request) -> Response:
    """Return the file of a path. Raises ``Refused`` if there is none."""
    name = request.path_params.get("name") or _VIEWS[request.scope["path"]]
    file = _files().get(name)
    if file is None:
        raise Refused("not_found")
    return Response(file.content, headers=_HEADERS, media_type=file.type)


@cache
def _files() -> dict[str, _File]:
    """Return the files by name; only these names are ever opened."""
    return {
        path.name: _File(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(_FOLDER.iterdir())
        if path.suffix in _TYPES
    }
