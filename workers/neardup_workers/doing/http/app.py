"""The ASGI application: routes, the requests that read verdicts, and how errors become answers.

The requests here read the log, in a thread of their own, and do not wait for a writer. Requests that need a window are
functions of ``window``, or of ``view`` if a deployment has the window; ``application`` gets them as a table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from neardup.documents.document import Pair
from neardup.documents.ids import full_id
from neardup.pairs.explanations.passages import passages
from neardup.pairs.json_lines import named_collection
from neardup_workers.doing.http.access.guard import check_collection, holder_of
from neardup_workers.doing.http.answers.delivery import delivered
from neardup_workers.doing.http.answers.direct import PATH
from neardup_workers.doing.http.bodies import Bodies, Decoding, Refused
from neardup_workers.doing.http.described import parameters as of
from neardup_workers.doing.http.described.parameters import choice, cursor, flag, microseconds, number, text
from neardup_workers.doing.http.described.requests import description, query_names
from neardup_workers.doing.http.events import Events, verdicts_of
from neardup_workers.doing.http.feeds import listing
from neardup_workers.doing.http.figures import operation, shown_settings
from neardup_workers.doing.http.outgoing.atom import TYPE, feed_of
from neardup_workers.doing.http.page import page
from neardup_workers.doing.http.problems import about, json_response, problem
from neardup_workers.doing.http.writer import Broken, Busy
from neardup_workers.outside.settings.serve import LIMITS, ServeLimits, ServeSettings
from neardup_workers.outside.store import extra
from neardup_workers.outside.store.answers import Answer, pair_values
from neardup_workers.outside.store.listing import Filters
from neardup_workers.outside.store.log import StoreFull
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.telemetry.metrics import Metrics


class Service(NamedTuple):
    """What the requests use.

    ``near`` returns the pairs of an id, ``None`` for an unknown one. ``alive`` says whether the service works,
    ``ready`` what it can do, ``None`` until it knows all that is committed, and ``measure`` sets the gauges of
    ``observer`` before they are read. ``now`` is the clock in seconds since the epoch. ``limits`` bound requests.
    """

    settings: ServeSettings
    reader: StoreReader
    events: Events
    observer: Metrics
    decoding: Decoding
    near: Callable[[str, str | None], Awaitable[Sequence[Pair] | None]]
    alive: Callable[[], bool]
    ready: Callable[[], Mapping[str, Any] | None]
    measure: Callable[[], None]
    now: Callable[[], float] = time.time
    limits: ServeLimits = LIMITS


class _Anything(PathConvertor):
    """A path with line feeds, which ids may hold."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())
Handler = Callable[[Service, Request], Awaitable[Response]]
Answering = Callable[[Request], Awaitable[Response]]
# The answers whose clients ask again and again.
_TAGGED = (
    "/v1/documents", "/v1/clusters", "/v1/clusters/{number:int}", "/v1/stories.atom", "/", "/docs", "/page/{name}",
)  # fmt: skip
# Method and path -> function.
Handlers = Mapping[tuple[str, str], Handler]


def publisher(
    observer: Metrics, events: Events, take_repeating: Callable[[], list[dict[str, Any]]] = list
) -> Callable[[list[Answer]], None]:
    """Return a function that counts the answers of a step, and sends its verdicts as events, with the hours in which
    sources have begun to repeat themselves."""

    def publish(answers: list[Answer]) -> None:
        if answers:
            observer.sample("service_step_documents", [len(answers)])
        counts: dict[str, int] = {}
        for each in answers:
            status = "refused" if each.refused else "repeated" if each.verdict["repeated"] else each.verdict["status"]
            counts[status] = counts.get(status, 0) + 1
        for status, count in counts.items():
            observer.count("service_answers", count, status)
        events.publish(verdicts_of(answers), take_repeating())

    return publish


def application(service: Service, handlers: Handlers) -> Starlette:
    """The ASGI application; ``handlers`` are the requests that need a window. Its state has the endpoint ``check``."""
    every: Handlers = {**_READS, **handlers}
    by_path: dict[str, dict[str, Handler]] = {}
    for (method, path), function in every.items():
        by_path.setdefault(path, {})[method] = function
    answers = {path: _answer(service, path, functions) for path, functions in by_path.items()}
    routes = [Route(path, answer, methods=[*by_path[path]]) for path, answer in answers.items()]
    exact = {key: answers[key[1]] for key in every if "{" not in key[1]}
    middleware = [Middleware(Bodies, bytes_max=service.limits.bodies_bytes_max), Middleware(_Exact, answers=exact)]
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _http_error})  # type: ignore[dict-item]
    app.router.redirect_slashes = False
    app.state.check = answers[PATH]
    return app


class _Exact:
    """ASGI middleware that finds the answer of a path without parameters at once: a router tries one path after the
    other. Everything else goes to the router."""

    def __init__(self, app: ASGIApp, answers: Mapping[tuple[str, str], Answering]) -> None:
        self._app, self._answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = self._answers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        then = self._app if answer is None else await answer(Request(scope, receive, send))
        await then(scope, receive, send)


def _answer(service: Service, path: str, functions: Mapping[str, Handler]) -> Answering:
    """Make the endpoint of a path from its methods, and convert their errors to problems."""
    known = {method: query_names(method, path) for method in functions}

    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            _check_names(request, known[method])
            response = await functions[method](service, request)
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
        response = delivered(request, response, is_tagged=path in _TAGGED)
        service.observer.count("service_requests", 1, str(response.status_code))
        return response

    return answer


def _check_names(request: Request, known: Sequence[str] | None) -> None:
    """Refuse a parameter that the request does not have, because its default would stay, and one given twice."""
    if known is None or not request.scope["query_string"]:
        return
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise Refused("parameter", name, f"this request has {', '.join(known) or 'no parameters'}")
        if names.count(name) > 1:
            raise Refused("parameter", name, "give it once")


async def _http_error(request: Request, error: HTTPException) -> Response:
    response = problem("method" if error.status_code == 405 else "not_found", status=error.status_code)
    response.headers.update(error.headers or {})
    return response


def refused(service: Service, reason: str, text: str = "") -> Response:
    """Count a refused document; return its problem."""
    service.events.figures.refuse(reason)
    return problem(reason, **about(reason, service.decoding.fields, service.settings, text))


def answer_values(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON values; the answer of a lookup has no verdict."""
    values = {"id": answer.id, "added": bool(answer.verdict), **answer.verdict}
    if answer.verdict:
        del values["time"], values["date"]
    values["pairs"] = list(map(pair_values, answer.pairs))
    values.update(named_collection(answer.collection))
    return values


def path_of(request: Request) -> list[str]:
    """Return the id, and ``near`` if it is asked for: ``/v1/documents?id=ID&near=true``, or ``/v1/documents/ID/near``.

    The parts of a path are decoded one by one: an id may hold an encoded slash.
    """
    if request.scope["path"] == "/v1/documents":
        id_ = text(request, of.ID)
        if not id_:
            raise Refused("near_of_none" if flag(request, of.NEAR) else "parameter", "id", "name the id: ?id=ID")
        return [id_, "near"] if flag(request, of.NEAR) else [id_]
    return parts_behind("/v1/documents/", request, "unknown_id", "id")


def parts_behind(prefix: str, request: Request, reason: str, field: str) -> list[str]:
    """Return the parts of a path behind its begin, each decoded. Raises ``Refused`` for one that is not UTF-8."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    parts = raw.decode("latin-1").partition("?")[0].removeprefix(prefix).split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise Refused(reason, field) from None


async def document(service: Service, request: Request) -> Response:
    """``GET /v1/documents/{id}``, ``GET /v1/documents/{id}/near``, and both with the id in the query."""
    id_, *rest = path_of(request)
    if rest not in ([], ["near"]):
        raise Refused("not_found")
    collection = of.collection_named(request, separate=service.settings.separate)
    if rest:
        pairs = await service.near(id_, collection)
        if pairs is None:
            raise Refused("unknown_id", "id")
        answer = Answer(id_, pairs=tuple(pairs), collection=collection or None)
        return json_response(answer_values(answer) | {"added": True})
    stored = full_id(id_, collection) if service.settings.separate else id_
    versions = await run_in_threadpool(service.reader.document, stored.encode())
    if not versions:
        raise Refused("unknown_id", "id")
    return json_response({**versions[0], "versions": versions})


async def documents(service: Service, request: Request) -> Response:
    """``GET /v1/documents``: one document if the query names its id, else a list, page by page."""
    if of.ID.name in request.query_params or flag(request, of.NEAR):
        return await document(service, request)
    asked = choice(request, of.BY_TIME), number(request, of.LIMIT), _filters(service, request), cursor(request)
    page, follows = await run_in_threadpool(service.reader.documents, *asked)
    return json_response({"documents": page, "next": None if follows is None else str(follows)})


async def clusters(service: Service, request: Request) -> Response:
    """``GET /v1/clusters``: clusters in an order, page by page."""
    asked = choice(request, of.SORT), number(request, of.LIMIT), _filters(service, request), cursor(request)
    page, follows = await run_in_threadpool(service.reader.clusters, *asked, strips=flag(request, of.STRIP))
    return json_response({"clusters": page, "next": None if follows is None else str(follows)})


def _filters(service: Service, request: Request) -> Filters:
    size_max = number(request, of.SIZE_MAX)
    status = choice(request, of.STATUS) if of.STATUS.name in request.query_params else None
    times = microseconds(request, of.SINCE), microseconds(request, of.UNTIL)
    named = text(request, of.Q), text(request, of.SOURCE)
    return Filters(*named, *times, number(request, of.SIZE_MIN), None if size_max < 0 else size_max, status,
                   of.collection_named(request, separate=service.settings.separate),
                   muted=flag(request, of.MUTED))  # fmt: skip


async def cluster(service: Service, request: Request) -> Response:
    """``GET /v1/clusters/{cluster}``: a cluster with its members, page by page."""
    number_, after, limit = request.path_params["number"], number(request, of.AFTER), number(request, of.MEMBERS)
    story = await run_in_threadpool(service.reader.cluster, number_, after, limit) if number_ < 1 << 63 else None
    if story is None:
        raise Refused("unknown_cluster", "cluster")
    check_collection(request.scope, story.get("collection") or "")
    return json_response(story)


async def feeds(service: Service, request: Request) -> Response:
    """``GET /v1/feeds``: how the feeds are that processes have reported, the worst first."""
    reports = await run_in_threadpool(service.reader.ask, extra.feeds.read)
    return json_response(listing(reports, number(request, of.FEEDS), service.now()))


async def stories_feed(service: Service, request: Request) -> Response:
    """``GET /v1/stories.atom``: the stories that grew last, as an Atom feed."""
    name = of.collection_named(request, separate=service.settings.separate)
    asked = number(request, of.SIZE_MIN), number(request, of.SOURCES_MIN), number(request, of.LIMIT), name
    store, stories = await run_in_threadpool(service.reader.newest_stories, *asked)
    address = f"stories.atom?{request.scope.get('query', request.url.query)}"
    return Response(feed_of(stories, store, address, name), media_type=TYPE)


async def webhook(service: Service, request: Request) -> Response:
    """``GET /v1/webhook``: how many events wait for the web hook, and the dead ones."""
    after, limit = number(request, of.AFTER_LETTER), number(request, of.LETTERS)
    waiting, dead, oldest = await run_in_threadpool(service.reader.ask, extra.outbox.count)
    events = await run_in_threadpool(service.reader.ask, extra.outbox.dead, after, limit)
    letters = [
        {
            "number": event.number, "created": event.created, "attempts": event.attempts, "failure": event.failure,
            "event": orjson.loads(event.body),
        }
        for event in events
    ]  # fmt: skip
    return json_response({"waiting": waiting, "oldest": oldest, "dead": dead, "letters": letters})


async def differences(service: Service, request: Request) -> Response:
    """``GET /v1/differences``: in what two versions differ."""
    places = [number(request, parameter) for parameter in (of.OLDER, of.NEWER)]
    if min(places) < 0:
        raise Refused("parameter", "older" if places[0] < 0 else "newer", "name the places of two versions")
    for place in places:
        check_collection(request.scope, await run_in_threadpool(service.reader.collection_at, place))
    texts = await run_in_threadpool(service.reader.version_texts, places)
    if texts is None:
        raise Refused("unknown_place")
    older, newer = texts
    shared = () if older is None or newer is None else await run_in_threadpool(passages, older, newer)
    return json_response({"passages": [passage._asdict() for passage in shared]})


async def figures(service: Service, request: Request) -> Response:
    """``GET /v1/figures``: what the service does now and did in the last hour, and the settings that matter for it. A
    token of some collections gets the settings alone: the figures are of all."""
    holder, counted = holder_of(request.scope), service.events.figures
    values: dict[str, Any] = dict.fromkeys(("present", "history", "operation", "recall"))
    if holder is None or holder.may_name(None):
        operated = await run_in_threadpool(operation, service.observer, counted.refused, service.reader.path)
        values = {"present": counted.present(), "history": counted.history(), "operation": operated}
        values["recall"] = counted.recall()
    values["settings"] = shown_settings(service.settings, service.decoding.fields.collection)
    return json_response(values | {"token": None if holder is None else holder.rights()})


async def shown_page(service: Service, request: Request) -> Response:
    """``GET /``, ``/docs`` and the files that both name."""
    return page(request)


async def verdict_events(service: Service, request: Request) -> Response:
    """``GET /v1/events``: verdicts as they are made, as server-sent events."""
    return service.events.response(request)


async def healthy(service: Service, request: Request) -> Response:
    """``GET /healthz``."""
    return json_response({"status": "ok"}) if service.alive() else problem("ended")


async def ready(service: Service, request: Request) -> Response:
    """``GET /readyz``. A window is restored before the address opens; a view is filled while it answers."""
    if not service.alive():
        return problem("ended")
    return problem("restoring") if (can := service.ready()) is None else json_response(can)


async def measured(service: Service, request: Request) -> Response:
    """``GET /metrics``."""
    service.observer.set("ready", float(service.alive() and service.ready() is not None))
    service.observer.set("service_event_readers", service.events.readers)
    await run_in_threadpool(service.measure)
    return Response(generate_latest(service.observer.registry), media_type=CONTENT_TYPE_LATEST)


async def described(service: Service, request: Request) -> Response:
    """``GET /openapi.json``."""
    return Response(openapi(service.decoding.needs_text), media_type="application/json")


@cache
def openapi(needs_text: bool) -> bytes:
    """Return the description of the requests."""
    return json.dumps(description(needs_text=needs_text), separators=(",", ":")).encode()


_READS: Handlers = {
    ("GET", "/v1/documents"): documents,
    ("GET", "/v1/documents/{rest:anything}/near"): document,
    ("GET", "/v1/documents/{rest:anything}"): document,
    ("GET", "/v1/clusters"): clusters,
    ("GET", "/v1/clusters/{number:int}"): cluster,
    ("GET", "/v1/feeds"): feeds,
    ("GET", "/v1/stories.atom"): stories_feed,
    ("GET", "/v1/webhook"): webhook,
    ("GET", "/v1/differences"): differences,
    ("GET", "/v1/figures"): figures,
    ("GET", "/v1/events"): verdict_events,
    ("GET", "/healthz"): healthy,
    ("GET", "/readyz"): ready,
    ("GET", "/metrics"): measured,
    ("GET", "/openapi.json"): described,
    ("GET", "/"): shown_page,
    ("GET", "/docs"): shown_page,
    ("GET", "/page/{name}"): shown_page,
}
