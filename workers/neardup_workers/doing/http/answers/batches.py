"""``POST /v1/check:batch``: lines of documents in; for each a line of answer out, and ``{"done": n}`` at the end.

Groups of lines are decided in order. Up to ``_AHEAD`` groups wait for their answers, before the client reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup_workers.doing.http.access.guard import admitted
from neardup_workers.doing.http.app import Service, answer_values
from neardup_workers.doing.http.bodies import JSON_LINES, lines_of, read_body
from neardup_workers.doing.http.problems import about, json_line, problem_values, shown
from neardup_workers.outside.store.answers import Answer

# Maximum groups of a batch that wait at the same time.
_AHEAD = 4
# The wait of a batch before it submits to a busy queue again.
BUSY_SECONDS = 0.05
# What becomes of a document: its answer, the reason of its refusal, or the values of a line without a verdict.
Outcome = Answer | str | dict[str, Any]
# A document with its line, or the reason of its refusal.
_Line = tuple[Document | Reason, bytes]


class Deciding(NamedTuple):
    """Who decides the documents of a batch.

    ``decode`` returns the document of a line. ``submit`` takes the documents of a group with their lines, and returns
    their outcomes, in order. A group has ``lines_max`` lines and ``characters_max`` characters of text at most.
    """

    decode: Callable[[bytes], Document | Reason]
    submit: Callable[[list[tuple[Document, bytes]]], Awaitable[AsyncIterator[Outcome]]]
    lines_max: int
    characters_max: float


async def check_batch(deciding: Deciding, service: Service, request: Request) -> Response:
    """Answer the lines of a request; a document that its token may not send is refused."""
    body = await read_body(request, service.limits, JSON_LINES)
    lines = lines_of(body, service.limits.batch_lines_max)
    return StreamingResponse(_answers(deciding, service, lines, request.scope), media_type="application/x-ndjson")


async def _answers(deciding: Deciding, service: Service, lines: Sequence[bytes], scope: Scope) -> AsyncIterator[bytes]:
    pending: deque[tuple[list[_Line], AsyncIterator[Outcome] | None]] = deque()
    for group in _groups(deciding, lines, scope):
        while len(pending) >= _AHEAD:
            yield await _answered(service, *pending.popleft())
        documents = [(one, line) for one, line in group if isinstance(one, Document)]
        pending.append((group, await deciding.submit(documents) if documents else None))
    while pending:
        yield await _answered(service, *pending.popleft())
    yield json_line({"done": len(lines)})


def _groups(deciding: Deciding, lines: Sequence[bytes], scope: Scope) -> Iterator[list[_Line]]:
    group: list[_Line] = []
    characters = 0
    for line in lines:
        decoded = admitted(scope, deciding.decode(line))
        size = len(decoded.text) if isinstance(decoded, Document) else 0
        if group and (len(group) == deciding.lines_max or characters + size > deciding.characters_max):
            yield group
            group, characters = [], 0
        group.append((decoded, line))
        characters += size
    if group:
        yield group


async def _answered(service: Service, group: list[_Line], outcomes: AsyncIterator[Outcome] | None) -> bytes:
    out = []
    for one, _ in group:
        outcome = one if isinstance(one, Reason) or outcomes is None else await anext(outcomes)
        if isinstance(outcome, Answer):
            outcome = outcome.refused or answer_values(outcome)
        if not isinstance(outcome, dict):
            reason = str(outcome)
            service.events.figures.refuse(reason)
            text = "" if isinstance(one, Reason) else one.text
            problems = problem_values(reason, **about(reason, service.decoding.fields, service.settings, text))
            outcome = {**({} if isinstance(one, Reason) else {"id": shown(one.id)}), "error": problems}
        out.append(json_line(outcome))
    return b"".join(out)
