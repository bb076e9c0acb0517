"""Access control: a token if other machines reach the address; without a token, a check of the header ``Host``.

A web page in a browser can send requests to this machine under the page's own host name (DNS rebinding). So without a
token the header ``Host`` must be an address or ``localhost``. ``/healthz`` and ``/readyz`` need no token, because
probes have none; ``open_metrics`` opens ``/metrics`` too. Readers of feeds send no token: the address of the Atom feed
may be signed instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup_workers.doing.http.access.tokens import Holder, Tokens, signed_by, signed_query
from neardup_workers.doing.http.bodies import Refused
from neardup_workers.doing.http.problems import problem

OPEN_PATHS = ("/healthz", "/readyz")
# The page has no data in it. It asks for the token, and sends it with each request for data.
PAGE_PATHS = ("/", "/docs")
_FEED = "/v1/stories.atom"


class Access:
    """ASGI middleware that refuses requests without a token that may send them, or under a foreign name.

    ``on_refused`` is called with the status and the address of the client. The scope of a request has its ``holder``.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        *,
        any_host: bool = False,
        open_metrics: bool = False,
        on_refused: Callable[[int, str], None] = lambda status, client: None,
    ) -> None:
        self._app, self._any_host, self._on_refused = app, any_host, on_refused
        self._open = (*OPEN_PATHS, "/metrics") if open_metrics else OPEN_PATHS
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        refusal = self.refusal(scope) if scope["type"] == "http" and scope["path"] not in self._open else None
        await (refusal or self._app)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """Return the answer of a request that is refused, and count it; a scope that is admitted has its ``holder``."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._tokens is None:
            is_foreign = not self._any_host and not _is_address(headers.get(b"host", b"localhost"))
            reason, field = ("host" if is_foreign else None), "Host"
        else:
            reason, field = (None if _is_page(scope["path"]) else _lack(scope, headers, self._tokens)), "Authorization"
        if reason is None:
            return None
        response = problem(reason, field=field)
        self._on_refused(response.status_code, str((scope.get("client") or ["unknown"])[0]))
        return response


def _lack(scope: Scope, headers: dict[bytes, bytes], tokens: Tokens) -> str | None:
    """Return the reason why a request is refused; if it is not, its scope knows who sent it."""
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    path, query = scope["path"], scope["query_string"]
    holder = tokens.holder(given.strip()) if scheme.lower() == b"bearer" else None
    if holder is None and path == _FEED:
        holder = signed_by(query, path, tokens)
    if holder is None:
        return "no_token"
    if holder.lacks(scope["method"], path, query):
        return "no_right"
    if not holder.spends("requests"):
        return "quota"
    scope["holder"] = holder
    if path == _FEED:
        scope["query"] = signed_query(query, path, holder)
    return None


def holder_of(scope: Scope) -> Holder | None:
    """Return who sent a request; ``None`` where no token is needed."""
    return scope.get("holder")


def check_collection(scope: Scope, collection: str | None) -> None:
    """Refuse a request that names a collection which its token may not use; ``None`` names all of them."""
    holder = holder_of(scope)
    if holder is not None and not holder.may_name(collection):
        raise Refused("no_right", "collection", "name a collection that the token may use")


def admitted(scope: Scope, document: Document | Reason) -> Document | Reason:
    """Return a document that the token of its request may send, or the reason of its refusal."""
    holder = holder_of(scope)
    if holder is None or isinstance(document, Reason):
        return document
    if not holder.may_name(document.collection or ""):
        return Reason("no_right")
    return document if holder.spends("documents") else Reason("quota")


def _is_page(path: str) -> bool:
    return path in PAGE_PATHS or path.startswith("/page/")


@lru_cache(maxsize=64)  # clients send few, again and again
def _is_address(host: bytes) -> bool:
    name = host.decode("latin-1").strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name in ("localhost", "")
    return True
