"""The requests on a window of this process: each waits for the writer, which owns the window, but for those about
sources, which read what the writer has stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from neardup.documents.document import EXPLANATIONS, Document, Pair
from neardup.errors import ConfigError, Reason
from neardup.pairs.json_lines import named_collection, relation_values
from neardup.pairs.neighbours.nearest import check_ranks
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.stories.sources.names import name_of
from neardup_workers.doing.http.app import Handlers, Service, answer_values, parts_behind, path_of, refused
from neardup_workers.doing.http.bodies import JSON, JSON_LINES, Refused, lines_of, read_body
from neardup_workers.doing.http.described.parameters import ADD, BLOCK, LIMIT, NEAREST, collection_named, flag, number
from neardup_workers.doing.http.feeds import reports_of
from neardup_workers.doing.http.problems import field_of, json_line, json_response, problem_values, shown
from neardup_workers.doing.http.writer import STEP_CHARACTERS, STEP_DOCUMENTS, Broken, Busy, Writer
from neardup_workers.outside.store.answers import Answer
from neardup_workers.outside.store.extra import feeds
from neardup_workers.outside.store.extra.transactions import transaction
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import StoreFull

# Maximum steps of a batch that wait for the writer at the same time.
_AHEAD = 4
# The wait of a batch before it submits to a busy writer again.
_BUSY_SECONDS = 0.05


def window_requests(writer: Writer) -> Handlers:
    """Return the requests that need a window, with the window of a writer."""
    return {
        ("POST", "/v1/check"): partial(check, writer),
        ("POST", "/v1/check:batch"): partial(check_batch, writer),
        ("POST", "/v1/feeds"): partial(report_feeds, writer),
        ("DELETE", "/v1/documents"): partial(remove, writer),
        ("DELETE", "/v1/documents/{rest:anything}"): partial(remove, writer),
        ("GET", "/v1/why"): partial(why, writer),
        ("POST", "/v1/why"): partial(why, writer),
        ("GET", "/v1/sources"): sources,
        ("GET", "/v1/sources/{rest:anything}"): source,
    }


async def near(writer: Writer, id_: str, collection: str | None) -> Sequence[Pair] | None:
    """Return the pairs of an id, with earlier and later documents; ``None`` for an unknown id."""
    pairs: Sequence[Pair] | None = await writer.call(lambda keeper: keeper.near(id_, collection))
    return pairs


async def check(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/check``: the verdict about one document, and its pairs."""
    started = time.perf_counter()
    add = flag(request, ADD)
    body = await read_body(request, service.settings, JSON)
    decoded = service.decoding.document(body)
    if isinstance(decoded, Reason):
        return refused(service, decoded)
    if nearest := number(request, NEAREST):
        try:
            check_ranks(service.settings, nearest)
        except ConfigError:
            raise Refused("cannot_rank", "nearest") from None
    if add:
        [answer] = await writer.check([decoded])
    else:
        [answer] = await writer.call(lambda keeper: keeper.probe([decoded], nearest))
    if answer.refused:
        return refused(service, answer.refused)
    seconds = time.perf_counter() - started
    service.observer.sample("service_check_seconds", [seconds])
    service.events.figures.observe(seconds)
    return json_response(answer_values(answer) | ({} if add or not nearest else {"nearest": _neighbours(answer)}))


def _neighbours(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "similarity": round(one.similarity, 4), "probability": round(one.probability, 4)}
        for one in answer.nearest
    ]


async def check_batch(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/check:batch``: lines of documents, a line of answer for each, and ``{"done": n}`` at the end."""
    body = await read_body(request, service.settings, JSON_LINES)
    lines = lines_of(body, service.settings.batch_lines_max)
    return StreamingResponse(_batch(writer, service, lines), media_type="application/x-ndjson")


async def _batch(writer: Writer, service: Service, lines: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of the answer. Groups of documents are decided in order, up to ``_AHEAD`` groups before the
    client reads."""
    pending: deque[tuple[list[Document | Reason], Any]] = deque()
    for group in _groups(service, lines):
        while len(pending) >= _AHEAD:
            yield await _answered(service, *pending.popleft())
        documents = [one for one in group if isinstance(one, Document)]
        pending.append((group, await _submitted(writer, documents) if documents else None))
    while pending:
        yield await _answered(service, *pending.popleft())
    yield json_line({"done": len(lines)})


def _groups(service: Service, lines: list[bytes]) -> list[list[Document | Reason]]:
    """Decode lines and group them by the size of a step."""
    groups: list[list[Document | Reason]] = [[]]
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


async def _submitted(writer: Writer, documents: list[Document]) -> Any:
    """Return the future of a group, or the reason of its refusal."""
    while True:
        try:
            return writer.check(documents, batch=True)
        except Busy:
            await asyncio.sleep(_BUSY_SECONDS)
        except Broken:
            return Reason("ended")


async def _answered(service: Service, group: list[Document | Reason], future: Any) -> bytes:
    """Return the lines of a group. If the store fails, each document of the group gets a line with the error."""
    answers: list[Answer] = []
    failed: str | None = future if isinstance(future, Reason) else None
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
        answer = None if isinstance(one, Reason) or failed else next(left)
        reason = one if isinstance(one, Reason) else failed if answer is None else answer.refused
        if reason:
            service.events.figures.refuse(reason)
            problems = problem_values(reason, field=field_of(reason, service.decoding.fields))
            named = {} if isinstance(one, Reason) else {"id": shown(one.id)}
            out.append(json_line({**named, "error": problems}))
        elif answer is not None:
            out.append(json_line(answer_values(answer)))
    return b"".join(out)


async def remove(writer: Writer, service: Service, request: Request) -> Response:
    """``DELETE /v1/documents/{id}``, or the id in the query: removes all versions; ``block=true`` blocks them, too."""
    id_, *rest = path_of(request)
    if rest:
        raise Refused("not_found")
    block, collection = flag(request, BLOCK), collection_named(request, separate=service.settings.separate)
    if block and service.settings.blocked is None:
        raise Refused("no_block_list", "block")

    def removed(keeper: Keeper) -> int | None:
        try:
            count = keeper.remove(id_, collection, block=block)
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


async def report_feeds(writer: Writer, service: Service, request: Request) -> Response:
    """``POST /v1/feeds``: how feeds are, of a process that watches them."""
    reported = reports_of(await read_body(request, service.settings, JSON))

    def stored(keeper: Keeper) -> None:
        with transaction(keeper.log):
            feeds.store(keeper.log.writer, reported.conditions, reported.unlisted, service.now())

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
        decoded = service.decoding.document(await read_body(request, service.settings, JSON))
        if isinstance(decoded, Reason):
            return refused(service, decoded)
        a = decoded
    collection = collection_named(request, separate=service.settings.separate)
    explanation = await writer.call(lambda keeper: keeper.why(a, b, collection))
    values = explanation._asdict() | {"sentence": EXPLANATIONS[explanation.reason]}
    if explanation.similarity is not None:  # a rounded probability would be certain where it is not
        values["similarity"] = round(explanation.similarity, SIMILARITY_DIGITS)
    del values["relation"], values["sides"]
    if explanation.relation is not None:
        values["shared"] = relation_values(explanation.relation)
    if explanation.sides:
        values["sides"] = [[piece._asdict() for piece in side] for side in explanation.sides]
    return json_response(values | {"passages": [passage._asdict() for passage in explanation.passages]})


async def sources(service: Service, request: Request) -> Response:
    """``GET /v1/sources``: the sources with the most documents."""
    return json_response(await run_in_threadpool(service.reader.sources, number(request, LIMIT)))


async def source(service: Service, request: Request) -> Response:
    """``GET /v1/sources/{name}``: a source with its hours."""
    name = name_of("/".join(parts_behind("/v1/sources/", request, "unknown_source", "name")))
    account = None if name is None else await run_in_threadpool(service.reader.source, name)
    if account is None:
        raise Refused("unknown_source", "name")
    return json_response(account)
