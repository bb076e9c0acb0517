"""The requests of the service, one function each.

A request that changes or looks up the table waits for the writer. A request that reads verdicts reads the log, in a
thread of its own, and does not wait.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stream.documents import EXPLANATIONS, Document
from stream.errors import ConfigError
from stream.neighbours.nearest import check_ranks
from stream.theory.tuning import probabilities
from workers.http.bodies import JSON, JSON_LINES, Decoding, Refused, choice, decoding, flag, number, read_body
from workers.http.events import Events
from workers.http.metrics import ServiceMetrics
from workers.http.page import page
from workers.http.problems import field_of, json_line, json_response, problem, problem_values, shown
from workers.http.writer import STEP_CHARACTERS, STEP_DOCUMENTS, Broken, Busy, Writer
from workers.settings.serve import ServeSettings
from workers.store.keeper import Answer, Keeper
from workers.store.log import StoreFull
from workers.store.reading import MEMBERS_MAX, ORDERS, Reader

# Maximum steps of a batch that wait for the writer at the same time.
_AHEAD = 4
# The wait of a batch before it submits to a busy writer again.
_BUSY_SECONDS = 0.05
_LIMIT, _LIMIT_MAX = 50, 1000
_NEAREST_MAX = 100


class Service(NamedTuple):
    """What the requests use."""

    settings: ServeSettings
    writer: Writer
    reader: Reader
    metrics: ServiceMetrics
    events: Events
    decoding: Decoding


def application(
    settings: ServeSettings,
    writer: Writer,
    reader: Reader,
    metrics: ServiceMetrics,
    events: Events,
    now: Callable[[], float] = time.time,
) -> Starlette:
    """The ASGI application. ``now`` is the clock in seconds since the epoch."""
    service = Service(settings, writer, reader, metrics, events, decoding(settings, now))
    rows: list[tuple[str, str, Callable[[Service, Request], Awaitable[Response]]]] = [
        ("POST", "/v1/check", check),
        ("POST", "/v1/check:batch", check_batch),
        ("GET", "/v1/documents/{rest:path}", document),
        ("DELETE", "/v1/documents/{rest:path}", remove),
        ("GET", "/v1/clusters", clusters),
        ("GET", "/v1/clusters/{number:int}", cluster),
        ("GET", "/v1/why", why),
        ("POST", "/v1/why", why),
        ("GET", "/v1/figures", figures),
        ("GET", "/v1/events", verdict_events),
        ("GET", "/healthz", healthy),
        ("GET", "/readyz", healthy),
        ("GET", "/metrics", measured),
        ("GET", "/openapi.json", described),
        *((method, path, _page) for method, path in (("GET", "/"), ("GET", "/docs"), ("GET", "/page/{name}"))),
    ]
    paths = dict.fromkeys(path for _, path, _ in rows)
    routes = [
        Route(
            path,
            _answer(service, {m: f for m, p, f in rows if p == path}),
            methods=[m for m, p, _ in rows if p == path],
        )
        for path in paths
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})  # type: ignore[dict-item]
    app.router.redirect_slashes = False
    return app


def _answer(service: Service, functions: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
    """Make the endpoint of a path from its methods, and convert their errors to problems."""

    async def answer(request: Request) -> Response:
        try:
            response: Response = await functions["GET" if request.method == "HEAD" else request.method](
                service, request
            )
        except Refused as refused:
            response = problem(refused.reason, field=refused.field, detail=refused.detail)
        except Busy:
            response = problem("busy")
        except StoreFull:
            response = problem("store_full")
        except Broken:
            response = problem("ended")
        except ClientDisconnect:
            response = Response(status_code=400)
        service.metrics.requests.labels(f"{response.status_code // 100}xx").inc()
        return response

    return answer


async def _http_error(request: Request, error: HTTPException) -> Response:
    response = problem("method" if error.status_code == 405 else "not_found", status=error.status_code)
    response.headers.update(error.headers or {})
    return response


async def check(service: Service, request: Request) -> Response:
    """``POST /v1/check``: the verdict about one document, and its pairs."""
    started = time.perf_counter()
    add = flag(request, "add", True)
    body = await read_body(request, service.settings, JSON)
    decoded = service.decoding.document(body)
    if isinstance(decoded, str):
        return _refused(service, decoded)
    if nearest := number(request, "nearest", 0, _NEAREST_MAX, 0):
        try:
            check_ranks(service.settings, nearest)
        except ConfigError:
            raise Refused("cannot_rank", "nearest") from None
    if add:
        [answer] = await asyncio.wrap_future(service.writer.check([decoded]))
    else:
        [answer] = await asyncio.wrap_future(service.writer.call(lambda keeper: keeper.probe([decoded], nearest)))
    if answer.refused:
        return _refused(service, answer.refused)
    seconds = time.perf_counter() - started
    service.metrics.seconds.observe(seconds)
    service.events.figures.observe(seconds)
    return json_response(answer_values(answer) | ({} if add or not nearest else {"nearest": _neighbours(answer)}))


def _neighbours(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "similarity": round(one.similarity, 4), "probability": round(one.probability, 4)}
        for one in answer.nearest
    ]


def _refused(service: Service, reason: str) -> Response:
    return problem(reason, field=field_of(reason, service.decoding.fields))


async def check_batch(service: Service, request: Request) -> Response:
    """``POST /v1/check:batch``: lines of documents, a line of answer for each, and ``{"done": n}`` at the end."""
    body = await read_body(request, service.settings, JSON_LINES)
    lines = body.split(b"\n")
    if lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > service.settings.batch_lines_max:
        raise Refused("too_many_lines", detail=f"it has {len(lines):,}, at most {service.settings.batch_lines_max:,}")
    return StreamingResponse(_batch(service, lines), media_type="application/x-ndjson")


async def _batch(service: Service, lines: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of the answer. Groups of documents are decided in order, up to ``_AHEAD`` groups before the
    client reads."""
    pending: deque[tuple[list[Document | str], Any]] = deque()
    for group in _groups(service, lines):
        while len(pending) >= _AHEAD:
            yield await _answered(service, *pending.popleft())
        documents = [one for one in group if isinstance(one, Document)]
        pending.append((group, await _submitted(service, documents) if documents else None))
    while pending:
        yield await _answered(service, *pending.popleft())
    yield json_line({"done": len(lines)})


def _groups(service: Service, lines: list[bytes]) -> list[list[Document | str]]:
    """Decode lines and group them by the size of a step."""
    groups: list[list[Document | str]] = [[]]
    characters = 0
    for line in lines:
        decoded = service.decoding.document(line)
        size = len(decoded.text) if isinstance(decoded, Document) else 0
        if groups[-1] and (len(groups[-1]) == STEP_DOCUMENTS or characters + size > STEP_CHARACTERS):
            groups.append([])
            characters = 0
        groups[-1].append(decoded)
        characters += size
    return groups if groups[0] else []


async def _submitted(service: Service, documents: list[Document]) -> Any:
    """Return the future of a group, or the reason of its refusal."""
    while True:
        try:
            return asyncio.wrap_future(service.writer.check(documents, batch=True))
        except Busy:
            await asyncio.sleep(_BUSY_SECONDS)
        except Broken:
            return "ended"


async def _answered(service: Service, group: list[Document | str], future: Any) -> bytes:
    """Return the lines of a group. If the store fails, each document of the group gets a line with the error."""
    answers: list[Answer] = []
    failed = future if isinstance(future, str) else None
    if failed is None and future is not None:
        try:
            answers = await future
        except StoreFull:
            failed = "store_full"
        except Broken:
            failed = "ended"
    left = iter(answers)
    out = []
    for one in group:
        answer = None if isinstance(one, str) or failed else next(left)
        reason = one if isinstance(one, str) else failed if answer is None else answer.refused
        if reason:
            problems = problem_values(reason, field=field_of(reason, service.decoding.fields))
            named = {} if isinstance(one, str) else {"id": shown(one.id)}
            out.append(json_line({**named, "error": problems}))
        elif answer is not None:
            out.append(json_line(answer_values(answer)))
    return b"".join(out)


def answer_values(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON values; the answer of a lookup has no verdict."""
    pairs = [
        {"id": pair.older, "similarity": round(pair.similarity, 4), "buckets": pair.buckets} for pair in answer.pairs
    ]
    if answer.status is None:
        return {"id": answer.id, "added": False, "pairs": pairs}
    return {
        "id": answer.id,
        "added": True,
        "status": answer.status,
        "duplicate_of": answer.duplicate_of,
        "similarity": None if answer.similarity is None else round(answer.similarity, 4),
        "cluster": answer.cluster,
        "related": answer.related,
        "previous": answer.previous,
        "place": answer.place,
        "repeated": answer.repeated,
        "pairs": pairs,
    }


def _path_of(request: Request) -> list[str]:
    """Return the parts of the path after ``/v1/documents/``, decoded one by one: an id may hold an encoded slash."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    parts = raw.decode("latin-1").partition("?")[0].removeprefix("/v1/documents/").split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise Refused("unknown_id", "id") from None


async def document(service: Service, request: Request) -> Response:
    """``GET /v1/documents/{id}`` and ``GET /v1/documents/{id}/near``."""
    id_, *rest = _path_of(request)
    if rest not in ([], ["near"]):
        raise Refused("not_found")
    if rest:
        pairs = await asyncio.wrap_future(service.writer.call(lambda keeper: keeper.near(id_)))
        if pairs is None:
            raise Refused("unknown_id", "id")
        return json_response(answer_values(Answer(id_, pairs=pairs)) | {"added": True})
    versions = await run_in_threadpool(service.reader.document, id_.encode())
    if not versions:
        raise Refused("unknown_id", "id")
    return json_response({**versions[0], "versions": versions})


async def remove(service: Service, request: Request) -> Response:
    """``DELETE /v1/documents/{id}``: removes all versions."""
    id_, *rest = _path_of(request)
    if rest:
        raise Refused("not_found")

    def removed(keeper: Keeper) -> int:
        count = keeper.remove(id_)
        service.events.forget(id_)
        return count

    count = await asyncio.wrap_future(service.writer.call(removed))
    if not count:
        raise Refused("unknown_id", "id")
    return json_response({"id": id_, "removed": count})


async def clusters(service: Service, request: Request) -> Response:
    """``GET /v1/clusters``: the largest clusters, or the clusters that grew last."""
    order = choice(request, "sort", tuple(ORDERS), "size")
    limit = number(request, "limit", 1, _LIMIT_MAX, _LIMIT)
    least = number(request, "size_min", 1, 10**9, 2)
    found = await run_in_threadpool(service.reader.clusters, order, limit, least, strips=flag(request, "strip", False))
    return json_response({"clusters": found})


async def cluster(service: Service, request: Request) -> Response:
    """``GET /v1/clusters/{cluster}``: a cluster with its members, page by page."""
    number_, after = request.path_params["number"], number(request, "after", 0, 10**11 - 1, -1)
    limit = number(request, "limit", 1, MEMBERS_MAX, MEMBERS_MAX)
    found = await run_in_threadpool(service.reader.cluster, number_, after, limit) if number_ < 1 << 63 else None
    if found is None:
        raise Refused("unknown_cluster", "cluster")
    return json_response(found)


async def why(service: Service, request: Request) -> Response:
    """``GET /v1/why?a=&b=``: why two ids are a pair, or why not. ``POST``: the same with a document in place of a."""
    names = "b" if request.method == "POST" else "ab"
    ids = {name: request.query_params.get(name, "") for name in names}
    for name, id_ in ids.items():
        if not id_:
            raise Refused("parameter", name, "name two ids as a and b; a request with a document names b alone")
    a: str | Document = ids.get("a", "")
    if request.method == "POST":
        decoded = service.decoding.document(await read_body(request, service.settings, JSON))
        if isinstance(decoded, str):
            return _refused(service, decoded)
        a = decoded
    b = ids["b"]
    found = await asyncio.wrap_future(service.writer.call(lambda keeper: keeper.why(a, b)))
    values = found._asdict() | {"sentence": EXPLANATIONS[found.reason]}
    return json_response(values | {"passages": [passage._asdict() for passage in found.passages]})


async def figures(service: Service, request: Request) -> Response:
    """``GET /v1/figures``: what the service does now and did in the last hour, and the settings that matter for it."""
    counted = service.events.figures
    values = {"present": counted.present(), "history": counted.history(), "settings": _shown_settings(service.settings)}
    return json_response(values)


def _shown_settings(settings: ServeSettings) -> dict[str, Any]:
    """Return the settings that explain verdicts; ``curve`` is how likely a pair of a similarity is found."""
    similarities = np.linspace(0.0, 1.0, 51)
    names = ("scheme", "threshold", "recall", "window_seconds", "window_documents", "keep_texts")
    tuning = settings.tuning
    found = zip(similarities.tolist(), probabilities(tuning, similarities)[1].tolist(), strict=True)
    return {name: getattr(settings, name) for name in names} | {
        "score_min": tuning.score_min,
        "bands": tuning.bands or None,
        "curve": [[round(s, 2), round(min(p, 1.0), 4)] for s, p in found if p == p],  # no number where no law is known
    }


async def verdict_events(service: Service, request: Request) -> Response:
    """``GET /v1/events``: verdicts as they are made, as server-sent events."""
    return service.events.response(request)


async def healthy(service: Service, request: Request) -> Response:
    """``GET /healthz`` and ``GET /readyz``. Both have the same answer: the address opens after the window is
    restored."""
    return json_response({"status": "ok"}) if service.writer.alive else problem("ended")


async def measured(service: Service, request: Request) -> Response:
    """``GET /metrics``."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def described(service: Service, request: Request) -> Response:
    """``GET /openapi.json``."""
    return Response(openapi(), media_type="application/json")


async def _page(service: Service, request: Request) -> Response:
    """``GET /``, ``/docs`` and the files that both name."""
    return page(request)


@cache
def openapi() -> bytes:
    """Return the description of the requests, a file of the package."""
    text = Path(__file__).with_name("openapi.json").read_text(encoding="utf-8")
    return json.dumps(json.loads(text), separators=(",", ":")).encode()
