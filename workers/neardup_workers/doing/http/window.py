"""The requests on a window of this process: each waits for the writer, which owns the window, but for those about
sources, which read what the writer has stored."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from neardup.documents.document import Document, Pair
from neardup.documents.ids import split_id
from neardup.errors import ConfigError, Reason
from neardup.pairs.explanations.explain import EXPLANATIONS
from neardup.pairs.json_lines import named_collection, relation_values
from neardup.pairs.neighbours.nearest import check_ranks
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.sources.names import name_of
from neardup_workers.doing.http.access.guard import admitted, check_collection, holder_of
from neardup_workers.doing.http.answers.batches import BUSY_SECONDS, Deciding, Outcome, check_batch
from neardup_workers.doing.http.answers.judged import LINES_MAX, judged_values
from neardup_workers.doing.http.app import Handler, Handlers, Service, answer_values, parts_behind, path_of, refused
from neardup_workers.doing.http.bodies import JSON, Refused, read_body
from neardup_workers.doing.http.described import parameters as of
from neardup_workers.doing.http.described.parameters import choice, collection_named, flag, number, text, two_ids
from neardup_workers.doing.http.feeds import reports_of
from neardup_workers.doing.http.outgoing.hook import refusal_of
from neardup_workers.doing.http.problems import json_response
from neardup_workers.doing.http.writer import STEP_CHARACTERS, STEP_DOCUMENTS, Broken, Busy, Writer
from neardup_workers.outside.store import extra
from neardup_workers.outside.store.extra.audit import Noted
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import StoreFull
from neardup_workers.outside.store.rows import StoredRow


def window_requests(writer: Writer) -> Handlers:
    """Return the requests of ``WINDOW_REQUESTS``, with the window of a writer."""
    return {**READS, **{key: partial(function, writer) for key, function in _WITH_WRITER.items()}}


async def near(writer: Writer, id_: str, collection: str | None) -> Sequence[Pair] | None:
    """Return the pairs of an id, with earlier and later documents; ``None`` for an unknown id."""
    pairs: Sequence[Pair] | None = await writer.call(lambda keeper: keeper.near(id_, collection))
    return pairs


async def check(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/check``: the verdict about one document, and its pairs."""
    started = time.perf_counter()
    add = flag(request, of.ADD)
    body = await read_body(request, service.limits, JSON)
    decoded = admitted(request.scope, service.decoding.document(body))
    if isinstance(decoded, Reason):
        return refused(service, decoded)
    if nearest := number(request, of.NEAREST):
        try:
            check_ranks(service.settings, nearest)
        except ConfigError:
            raise Refused("cannot_rank", "nearest") from None
    if add:
        # Readers of events are open, too, and send nothing.
        requests = len(request.scope.get("state", {}).get("open", ())) - service.events.readers
        alone = request.scope.get("again", True) and requests == ("again" not in request.scope)
        [answer] = (writer.check_now([decoded]) if alone else None) or await writer.check([decoded])
    else:
        [answer] = await writer.call(lambda keeper: keeper.probe([decoded], nearest))
    if answer.refused:
        return refused(service, answer.refused, decoded.text)
    seconds = time.perf_counter() - started
    service.observer.sample("service_check_seconds", [seconds])
    service.events.figures.observe(seconds)
    values = answer_values(answer)
    if nearest and not add:
        values["nearest"] = [
            {"id": one.id, "similarity": round(one.similarity, 4), "probability": round(one.probability, 4)}
            for one in answer.nearest
        ]
    return json_response(values)


async def check_lines(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/check:batch``: a verdict for each line, as it is decided."""
    submit = partial(_submitted, writer)
    deciding = Deciding(service.decoding.document, submit, STEP_DOCUMENTS, STEP_CHARACTERS)
    return await check_batch(deciding, service, request)


async def _submitted(writer: Writer, group: list[tuple[Document, bytes]]) -> AsyncIterator[Outcome]:
    """Submit a group of a batch; return its outcomes. If the store fails, each document of the group has the error."""
    while True:
        try:
            return _outcomes(writer.check([document for document, _ in group], batch=True), len(group))
        except Busy:
            await asyncio.sleep(BUSY_SECONDS)
        except Broken:
            return _outcomes(None, len(group))


async def _outcomes(future: Any, count: int) -> AsyncIterator[Outcome]:
    outcomes: list[Outcome] = ["ended"] * count
    try:
        outcomes = outcomes if future is None else await future
    except StoreFull:
        outcomes = ["store_full"] * count
    except Broken:
        pass
    for outcome in outcomes:
        yield outcome


async def remove(writer: Writer, service: Service, request: Request) -> Response:
    """``DELETE /v1/documents/{id}``, or the id in the query: removes all versions; ``block=true`` blocks them, too."""
    id_, *rest = path_of(request)
    if rest:
        raise Refused("not_found")
    block, collection = flag(request, of.BLOCK), collection_named(request, separate=service.settings.separate)
    if block and service.settings.blocked is None:
        raise Refused("no_block_list", "block")
    noted = _noted(service, request)

    def removed(keeper: Keeper) -> int | None:
        try:
            count = keeper.remove(id_, collection, block=block, noted=noted)
        except OSError as error:
            logging.getLogger(__name__).error("cannot write the block list %s: %s", service.settings.blocked, error)
            return None
        service.events.forget(id_, collection or None)
        return count

    count = await writer.call(removed)
    if count is None:
        raise Refused("block_list_unwritable", "block")
    if not count and not block:
        raise Refused("unknown_id", "id")
    return json_response({"id": id_, "removed": count, **named_collection(collection)})


async def judge(writer: Writer, service: Service, request: Request, *, same: bool) -> Response:
    """``POST /v1/together`` and ``/v1/apart``: what a person says of two ids holds, also for later copies."""
    ids = two_ids(request)
    collection, replace = collection_named(request, separate=service.settings.separate), flag(request, of.REPLACE)
    noted = _noted(service, request)
    said = await writer.call(
        lambda keeper: keeper.judge(ids, collection, same=same, replace=replace, noted=noted), batch=True
    )
    if isinstance(said, str):
        raise Refused(said, "a")
    if not isinstance(said, StoredRow):
        did, when, who = said
        at = datetime.fromtimestamp(when, UTC)
        now = f"{request.url.path.rpartition('/')[2]}, by {noted.who}"
        raise Refused(
            "contradicts", "a", f"before: {did} at {at:%Y-%m-%dT%H:%MZ}, by {who}; now: {now}; name replace=true"
        )
    id_ = split_id(said.id.decode())[1] if service.settings.separate else said.id.decode()
    return json_response({"id": id_, "cluster": said.cluster, **named_collection(collection)})


async def mark(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/clusters/{cluster}``: mute a story, or follow it."""
    story = request.path_params["number"]
    muted, followed = (flag(request, one) if one.name in request.query_params else None for one in (of.MUTE, of.FOLLOW))
    to, noted = text(request, of.TO) or "", _noted(service, request)
    if to and not re.fullmatch(of.TO.schema["pattern"], to):
        raise Refused("parameter", "to", "it must be an address of http or https")
    if followed and service.settings.webhook is None:
        raise Refused("no_web_hook", "followed")
    if to and (why := await run_in_threadpool(refusal_of, to, service.settings.webhook or "")):
        raise Refused("unreached", "to", why)
    known = await run_in_threadpool(service.reader.cluster, story, -1, 1) if story < 1 << 63 else None
    if known is None:
        raise Refused("unknown_cluster", "cluster")
    check_collection(request.scope, known.get("collection") or "")

    def marked(keeper: Keeper) -> extra.desk.Mark:
        writer = keeper.log.writer
        with keeper.log.transaction():
            before = extra.desk.mark_of(writer, story)
            now = extra.desk.Mark(
                before.muted if muted is None else muted,
                before.follow if followed is None else to if followed else None,
            )
            extra.desk.store(writer, story, now)
            what = {"cluster": story, "muted": now.muted, "followed": now.follow is not None}
            extra.audit.add(writer, noted.time, noted.who, "mark", what, noted.why)
        return now

    now = await writer.call(marked, batch=True)
    muted_now = service.events.figures.muted
    (muted_now.add if now.muted else muted_now.discard)(story)
    return json_response({"cluster": story, "muted": now.muted, "followed": now.follow is not None})


def _noted(service: Service, request: Request) -> Noted:
    holder = holder_of(request.scope)
    return Noted(service.now(), "anyone" if holder is None else holder.name, text(request, of.WHY))


async def report_feeds(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/feeds``: how feeds are, of a process that watches them."""
    reported = reports_of(await read_body(request, service.limits, JSON))

    def stored(keeper: Keeper) -> None:
        with keeper.log.transaction():
            extra.feeds.store(keeper.log.writer, reported.conditions, reported.unlisted, service.now())

    await writer.call(stored, batch=True)
    return json_response({"feeds": len(reported.conditions)})


async def why(writer: Writer, service: Service, request: Request) -> Response:
    """``GET /v1/why?a=&b=``: why two ids are a pair, or why not. ``POST``: the same with a document instead of a."""
    ids = {name: request.query_params.get(name, "") for name in ("b" if request.method == "POST" else "ab")}
    for name, id_ in ids.items():
        if not id_:
            raise Refused("parameter", name, "name two ids as a and b; a request with a document names b alone")
    a: str | Document = ids.get("a", "")
    b = ids["b"]
    if request.method == "POST":
        decoded = service.decoding.document(await read_body(request, service.limits, JSON))
        if isinstance(decoded, Reason):
            return refused(service, decoded)
        a = decoded
    collection = collection_named(request, separate=service.settings.separate)
    explanation = await writer.call(lambda keeper: keeper.why(a, b, collection))
    if explanation.reason == "refused" and isinstance(a, Document):
        [answer] = await writer.call(lambda keeper: keeper.probe([a]))
        return refused(service, answer.refused, a.text)
    values = explanation._asdict() | {"sentence": EXPLANATIONS[explanation.reason]}
    if request.method == "GET":
        pair = extra.audit.pair_of(list(ids.values()), collection)
        judged = await run_in_threadpool(service.reader.ask, extra.audit.last_said, pair)
        values["judged"] = None if judged is None else dict(zip(("did", "time", "who"), judged, strict=True))
    if explanation.similarity is not None:  # a rounded probability would be certain where it is not
        values["similarity"] = round(explanation.similarity, SIMILARITY_DIGITS)
    if explanation.by_signal is not None:
        rounded = {name: round(value, SIMILARITY_DIGITS) for name, value in explanation.by_signal.items()}
        values["by_signal"] = rounded
    del values["relation"], values["sides"], values["novelty"]
    if (added := explanation.novelty) is not None:
        new = [word._asdict() for word in added.new]
        values["novelty"] = added._asdict() | {"said": round(added.said, SIMILARITY_DIGITS), "new": new}
    if explanation.relation is not None:
        values["shared"] = relation_values(explanation.relation)
    if explanation.sides:
        values["sides"] = [[piece._asdict() for piece in side] for side in explanation.sides]
    return json_response(values | {"passages": [passage._asdict() for passage in explanation.passages]})


async def audit(service: Service, request: Request) -> Response:
    """``GET /v1/audit``: who removed what, when and why, and which settings have changed."""
    before, limit = number(request, of.BEFORE, 1 << 62), number(request, of.LETTERS)
    lines = await run_in_threadpool(service.reader.ask, extra.audit.read, before, limit, text(request, of.AUDITED))
    return json_response({"audit": lines})


async def judged(service: Service, request: Request) -> Response:
    """``GET /v1/judged``: the threshold that judged pairs propose, and those that contradict."""
    said = await run_in_threadpool(service.reader.ask, extra.audit.judged, LINES_MAX)
    return json_response(await run_in_threadpool(judged_values, said, service.settings.false_weight or 0.5))


async def sources(service: Service, request: Request) -> Response:
    """``GET /v1/sources``: the sources in an order, page by page."""
    limit, skip = number(request, of.LIMIT), number(request, of.SKIP)
    part, order = text(request, of.PART), choice(request, of.BY_SOURCE)
    query = partial(extra.sources.overview, limit=limit, part=part, order=order, skip=skip)
    return json_response(await run_in_threadpool(service.reader.ask, query))


async def source(service: Service, request: Request) -> Response:
    """``GET /v1/sources/{name}``: a source with its hours."""
    name = name_of("/".join(parts_behind("/v1/sources/", request, "unknown_source", "name")))
    account = None if name is None else await run_in_threadpool(service.reader.ask, extra.sources.one, name)
    if account is None:
        raise Refused("unknown_source", "name")
    return json_response(account)


async def counted(read: Handler, writer: Writer, service: Service, request: Request) -> Response:
    """A request about sources, when the ledger has counted all documents, as far as the writer can."""
    with suppress(Busy, Broken):
        await writer.call(Keeper.count_sources)
    return await read(service, request)


# The requests that change the window, or ask it: their functions get its writer first.
_WITH_WRITER: Mapping[tuple[str, str], Callable[..., Awaitable[Response]]] = {
    ("POST", "/v1/check"): check,
    ("POST", "/v1/check:batch"): check_lines,
    ("POST", "/v1/feeds"): report_feeds,
    ("DELETE", "/v1/documents"): remove,
    ("DELETE", "/v1/documents/{rest:anything}"): remove,
    ("GET", "/v1/why"): why,
    ("POST", "/v1/why"): why,
    ("POST", "/v1/together"): partial(judge, same=True),
    ("POST", "/v1/apart"): partial(judge, same=False),
    ("POST", "/v1/clusters/{number:int}"): mark,
    ("GET", "/v1/sources"): partial(counted, sources),
    ("GET", "/v1/sources/{rest:anything}"): partial(counted, source),
}
# Those that read what its writer stores.
READS: Handlers = {
    ("GET", "/v1/audit"): audit,
    ("GET", "/v1/judged"): judged,
    ("GET", "/v1/sources"): sources,
    ("GET", "/v1/sources/{rest:anything}"): source,
}
# All requests that need a window: a service without one answers what it can, the others with ``needs_window``.
WINDOW_REQUESTS = (*_WITH_WRITER, *READS)
