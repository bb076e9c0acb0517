"""The requests on a view of a deployment: documents and removals go to a topic, and the answer is their verdict."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from neardup.documents.document import Document, Pair
from neardup.documents.ids import stored_id
from neardup.errors import Reason
from neardup.pairs.json_lines import named_collection
from neardup_workers.doing.http.access.guard import admitted
from neardup_workers.doing.http.answers.batches import BUSY_SECONDS, Deciding, Outcome, check_batch
from neardup_workers.doing.http.app import Handlers, Service, answer_values, path_of, refused
from neardup_workers.doing.http.bodies import JSON, Refused, read_body
from neardup_workers.doing.http.described.parameters import (
    ADD,
    BLOCK,
    REPLACE,
    WHY,
    collection_named,
    flag,
    two_ids,
)
from neardup_workers.doing.http.problems import json_response
from neardup_workers.doing.http.view.follower import Follower, Resolved
from neardup_workers.doing.http.view.outbox import ProducerQueue, Sendable, Sent, Unsent
from neardup_workers.doing.http.window import WINDOW_REQUESTS
from neardup_workers.doing.http.writer import Broken, Busy
from neardup_workers.outside.store.view import ViewReader
from neardup_workers.outside.topics.messages import key_of, key_of_document
from neardup_workers.outside.topics.places import place_name
from neardup_workers.outside.transport.protocol import Headers, Record, sent_bytes

# Maximum lines of a transaction.
_GROUP = 500
# Bytes of a message in addition to its value, key and headers.
_OVERHEAD_BYTES = 1_000


class Sending(NamedTuple):
    """What the requests use: where documents go, where verdicts come from, the view, how the document of a
    stored id at a place is read again (``None`` if it is gone), the longest wait, the largest message."""

    outbox: ProducerQueue
    follower: Follower
    reader: ViewReader
    sent_at: Callable[[int, bytes], Record | None]
    seconds_max: float
    message_bytes_max: int


def view_requests(sending: Sending) -> Handlers:
    """Return the requests that need a window, with the window of a deployment."""
    return {
        **dict.fromkeys(WINDOW_REQUESTS, lacking),
        ("POST", "/v1/check"): partial(check, sending),
        ("POST", "/v1/check:batch"): partial(check_lines, sending),
        ("DELETE", "/v1/documents"): partial(remove, sending),
        ("DELETE", "/v1/documents/{rest:anything}"): partial(remove, sending),
        ("POST", "/v1/together"): partial(judge, sending, same=True),
        ("POST", "/v1/apart"): partial(judge, sending, same=False),
        ("POST", "/v1/feeds"): report_feeds,
    }


async def near(reader: ViewReader, id_: str, collection: str | None) -> Sequence[Pair] | None:
    """Return the pairs of an id, with earlier and later documents; ``None`` for an unknown id."""
    return await run_in_threadpool(reader.near, stored_id(id_, collection, separate=reader.separate))


async def lacking(service: Service, request: Request) -> Response:
    """What a service without a window of its own cannot answer: as ``/v1/why``, which compares signatures."""
    raise Refused("needs_window")


async def report_feeds(service: Service, request: Request) -> Response:
    """``POST /v1/feeds``: a view holds only what came from topics."""
    raise Refused("needs_window", detail="report feeds to a service with a window of its own (neardup serve --state)")


async def check(sending: Sending, service: Service, request: Request) -> Response:
    """``POST /v1/check``: the verdict about one document, when the deployment has committed it."""
    started = time.perf_counter()
    if not flag(request, ADD):
        raise Refused("needs_window", "add")
    body = await read_body(request, service.limits, JSON)
    decoded = admitted(request.scope, _decoded(sending, service, body))
    if isinstance(decoded, Reason):
        return refused(service, decoded)
    [sent] = await _sent(sending, [(key_of_document(decoded, separate=service.settings.separate), body, ())])
    decided = await _decided(sending, sent, time.monotonic() + sending.seconds_max)
    if decided is None:
        return json_response(_undecided(decoded.id, sent, decoded.collection), 202)
    if decided.answer.refused:
        return refused(service, decided.answer.refused, decoded.text)
    service.observer.sample("service_check_seconds", [time.perf_counter() - started])
    return json_response(answer_values(decided.answer))


async def remove(sending: Sending, service: Service, request: Request) -> Response:
    """``DELETE /v1/documents/{id}``, or the id in the query: removes all versions.

    It answers when the deployment has committed the removal.
    """
    id_, *rest = path_of(request)
    if rest or not id_:
        raise Refused("not_found")
    if flag(request, BLOCK):
        raise Refused("no_block_list", "block", "add the id to the file that the signers read (--blocked)")
    separate = service.settings.separate
    collection = collection_named(request, separate=separate)
    key = key_of(stored_id(id_, collection, separate=separate), separate=separate)
    [sent] = await _sent(sending, [(key, None, ())])
    decided = await _decided(sending, sent, time.monotonic() + sending.seconds_max)
    if decided is None:
        return json_response(_undecided(id_, sent, collection), 202)
    if not decided.removed:
        raise Refused("unknown_id", "id")
    return json_response({"id": id_, "removed": decided.removed, **named_collection(collection)})


async def judge(sending: Sending, service: Service, request: Request, *, same: bool) -> Response:
    """``POST /v1/together`` and ``/v1/apart``: the later one of two documents is sent again, with the header that says
    what a person says of it and the other one. It answers when the deployment has decided."""
    separate, ids = service.settings.separate, two_ids(request)
    collection = collection_named(request, separate=separate)
    for parameter in (REPLACE, WHY):  # no log of a view outlives it
        if parameter.name in request.query_params:
            raise Refused("needs_window", parameter.name)
    stored = [stored_id(id_, collection, separate=separate) for id_ in ids]
    versions = await run_in_threadpool(lambda: list(map(sending.reader.latest, stored)))
    found = sorted((one, id_) for one, id_ in zip(versions, ids, strict=True) if one is not None)
    if len(found) < 2:
        raise Refused("unknown_id", "a")
    (older, other), (later, id_) = found
    if older.place == later.place or (not same and older.content == later.content):
        raise Refused("same_content", "a")
    cluster = later.cluster
    if (cluster == older.cluster) != same:
        own = stored_id(id_, collection, separate=separate)
        record = await run_in_threadpool(sending.sent_at, later.document, own)
        if record is None:
            raise Refused("unknown_id", "a", "its topic has it no longer: send it there again with the header")
        header = ("neardup-together" if same else "neardup-apart", other.encode())
        message = key_of(own, separate=separate), record.value, (header,)
        if not _fits(sending, *message):
            raise Refused("message_too_large")
        [sent] = await _sent(sending, [message])
        decided = await _decided(sending, sent, time.monotonic() + sending.seconds_max)
        if decided is None:
            return json_response(_undecided(id_, sent, collection), 202)
        cluster = decided.answer.verdict.get("cluster", cluster)
    if (cluster == older.cluster) != same:
        raise Refused("ended_story", "a")
    return json_response({"id": id_, "cluster": cluster, **named_collection(collection)})


async def check_lines(sending: Sending, service: Service, request: Request) -> Response:
    """``POST /v1/check:batch``: each group is a transaction, and waits ``seconds_max`` for its verdicts."""

    async def submitted(group: list[tuple[Document, bytes]]) -> AsyncIterator[Outcome]:
        separate = service.settings.separate
        messages: list[Sendable] = [(key_of_document(one, separate=separate), line, ()) for one, line in group]
        try:
            sent: list[Sent] | Reason = await _sent(sending, messages, patient=True)
        except Refused as error:
            sent = error.reason
        return outcomes(group, sent, time.monotonic() + sending.seconds_max)

    async def outcomes(
        group: list[tuple[Document, bytes]], sent: list[Sent] | Reason, deadline: float
    ) -> AsyncIterator[Outcome]:
        for n, (document, _) in enumerate(group):
            if isinstance(sent, Reason):
                yield sent
            else:
                decided = await _decided(sending, sent[n], deadline)
                yield decided.answer if decided else _undecided(document.id, sent[n], document.collection)

    deciding = Deciding(partial(_decoded, sending, service), submitted, _GROUP, math.inf)
    return await check_batch(deciding, service, request)


def _decoded(sending: Sending, service: Service, line: bytes) -> Document | Reason:
    """Return the document of a line, or the reason of its refusal: also of what no message can hold."""
    decoded = service.decoding.document(line)
    if isinstance(decoded, Reason):
        return decoded
    try:
        key = key_of_document(decoded, separate=service.settings.separate)
    except UnicodeEncodeError:
        return Reason("id_surrogate")
    return decoded if _fits(sending, key, line) else Reason("message_too_large")


def _fits(sending: Sending, key: bytes, value: bytes | None, headers: Headers = ()) -> bool:
    return sent_bytes(key, value, headers) + _OVERHEAD_BYTES <= sending.message_bytes_max


async def _sent(sending: Sending, messages: list[Sendable], *, patient: bool = False) -> list[Sent]:
    """Send messages in one transaction; ``patient`` waits for a full queue. Raises ``Busy``, ``Refused``."""
    while True:
        try:
            return await asyncio.wrap_future(sending.outbox.send(messages))
        except Busy:
            if not patient:
                raise
            await asyncio.sleep(BUSY_SECONDS)
        except Unsent:
            raise Refused("unsent") from None
        except Broken:
            raise Refused("ended") from None


async def _decided(sending: Sending, sent: Sent, deadline: float) -> Resolved | None:
    """Wait for a verdict; ``None`` if it is not there at the deadline (of ``time.monotonic``)."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(sent.decided), max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        sending.follower.forget([sent.place])
        return None


def _undecided(id_: str, sent: Sent, collection: str | None = None) -> dict[str, object]:
    return {"id": id_, "decided": False, "place": place_name(sent.place), **named_collection(collection)}
