"""Errors as problem details (RFC 9457): the field, the rule and the remedy."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from neardup.documents.document import REASONS
from neardup.pairs.json_lines import Fields, escape_unprintable
from neardup_workers.outside.settings.files import bound_in
from neardup_workers.outside.settings.serve import LIMITS

PROBLEM_TYPE = "application/problem+json"
# Reasons of the service, in addition to those of the library: the rule, and the remedy.
SERVICE_REASONS: dict[str, tuple[int, str, str]] = {
    "busy": (429, "so many documents wait that no more are taken", "try again after the time in Retry-After"),
    "cannot_rank": (422, "the scheme cannot rank neighbours", "leave nearest out, or serve with a scheme of sets"),
    "too_many_readers": (
        429, f"{LIMITS.event_readers_max} clients read events already", "close a connection, or try again later",
    ),
    "store_full": (507, "the disk has no room; nothing has changed", "make room, then send the request again"),
    "ended": (503, "the service restarts, because it does not know what is on the disk", "send the document again"),
    "restoring": (503, "the view does not hold all verdicts yet", "try again after the time in Retry-After"),
    "unsent": (503, "the broker has not confirmed the document: it may be in the topic, or not", "send it again"),
    "refused": (422, "a signer has refused the document", "see its letter in the topic of dead letters"),
    "message_too_large": (
        413, "the document is larger than a message to the broker may be", "send less, or raise max.request.size",
    ),
    "needs_window": (
        501, "this service shows what others decide, and has no window of its own",
        "ask a service with a window of its own (neardup serve --state)",
    ),
    "unreached": (409, "no event would reach the address", "name another one"),
    "no_web_hook": (
        409, "the service has no web hook to follow with", "start it with --webhook URL and NEARDUP_WEBHOOK_SECRET",
    ),
    "no_collections": (
        409, "documents have no collections here",
        "leave collection out, or start the service with --fields collection=NAME",
    ),
    "contradicts": (409, "the opposite was said of the two", "name replace=true if it no longer holds"),
    "same_content": (409, "the two are one id, or equal in content", "name two documents that differ"),
    "ended_story": (409, "the story of the older one has ended", "it is no longer in the window"),
    "near_of_none": (409, "near is asked for, and no id", "name the id of a document: /v1/documents?id=ID&near=true"),
    "no_block_list": (409, "the service has no block list to write", "start it with --blocked FILE"),
    "block_list_unwritable": (
        507, "the block list cannot be written; nothing was removed",
        "make room, or correct the rights of the file, then send the request again",
    ),
    "not_found": (404, "there is nothing under this path", "see /openapi.json; a slash in an id is %2F"),
    "unknown_id": (404, "no version of the id is in the window", "it was never added, or has left the window"),
    "unknown_place": (404, "no version has this place", "it was removed, or has left the window"),
    "unknown_cluster": (404, "no such cluster is in the window", "list those that are with GET /v1/clusters"),
    "unknown_source": (404, "no document named this source", "list those with the most documents: GET /v1/sources"),
    "method": (405, "the path has no such method", "see the header Allow"),
    "no_right": (403, "the token has not the role or the collection for this", "ask who writes the file of tokens"),
    "quota": (429, "the token has used what it may in this minute", "try again after the time in Retry-After"),
    "no_token": (401, "the request has no valid token", "send the header Authorization: Bearer TOKEN"),
    "host": (421, "the host of the request is not this machine", "use localhost or the address, or set a token"),
    "body_too_large": (413, f"the body has more than {LIMITS.body_bytes_max:,} bytes", "send less at a time"),
    "bodies_full": (
        503, f"the requests hold {LIMITS.bodies_bytes_max:,} bytes already", "try again after the time in Retry-After",
    ),
    "too_many_lines": (413, f"the batch has more than {LIMITS.batch_lines_max:,} lines", "send fewer at a time"),
    "content_type": (415, "the content type is not one that the path takes", "set the header Content-Type"),
    "body_slow": (408, f"the body did not arrive within {LIMITS.body_seconds_max:g} seconds", "send it faster"),
    "encoding": (415, "the body has a content encoding", "send it as it is, without Content-Encoding"),
    "feed_report": (422, "a report of feeds has a value that it cannot have", "see FeedReports in /openapi.json"),
    "parameter": (
        422, "a parameter of the query is unknown, or has a value that is not one of its values", "see /openapi.json",
    ),
}  # fmt: skip

# Status -> after so many seconds it may be another one.
_RETRY_SECONDS = {429: "1", 503: "1", 507: "30"}
# Reasons of the library that no correction of the document can mend -> the remedy.
_REMEDIES = {"blocked": "to accept it, take its lines out of the file of --blocked, and start the service again"}


def problem(reason: str, *, status: int | None = None, field: str | None = None, detail: str | None = None) -> Response:
    """Return the response for a reason of the service or of the library (``REASONS``)."""
    values = problem_values(reason, status=status, field=field, detail=detail)
    seconds = _minute_left() if reason == "quota" else _RETRY_SECONDS.get(values["status"])
    headers = {"Retry-After": seconds} if seconds else {}
    if values["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(orjson.dumps(values), values["status"], headers, PROBLEM_TYPE)


def _minute_left() -> str:
    """Return after how many seconds the next minute of quotas begins."""
    return str(math.ceil(60.0 - time.monotonic() % 60.0))


def problem_values(
    reason: str, *, status: int | None = None, field: str | None = None, detail: str | None = None
) -> dict[str, Any]:
    """Return the members of a problem: its type, the rule, the remedy, the field."""
    if reason in SERVICE_REASONS:
        own, rule, remedy = SERVICE_REASONS[reason]
    else:
        own, rule, remedy = 422, REASONS[reason], _REMEDIES.get(reason, "correct the document and send it again")
    return {
        "type": f"urn:neardup:{reason}",
        "title": rule,
        "status": status or own,
        "detail": detail or remedy,
        "reason": reason,
        **({"field": field} if field else {}),
    }


def about(reason: str, fields: Fields, settings: object, text: str = "") -> dict[str, Any]:
    """Return the field of a document that a reason is about, by its name in the request, and of a bound the remedy."""
    begins = reason.partition("_")[0]
    named = {"text": fields.text, "id": fields.id, "timestamp": fields.timestamp, "vector": fields.vector}
    named |= {"tokens": fields.tokens, "token": fields.tokens, "rating": fields.tokens, "square": fields.tokens}
    named |= {"picture": "picture"}
    alone = {"no_id": fields.id, "no_text": fields.text, "empty": fields.text, "surrogate": fields.text}
    alone |= {"no_shingles": fields.text, "no_vector": fields.vector, "no_tokens": fields.tokens}
    bound = bound_in(REASONS.get(reason, ""), settings, text)
    return {"field": alone.get(reason) or named.get(begins), "detail": bound}


class _Json(Response):
    """JSON. Its headers are made at once: most answers have no others."""

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set length and type."""
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as JSON, without control characters of terminals or of text direction."""
    return _Json(json_line(value), status)


def json_line(value: Any) -> bytes:
    """A value as one line of JSON."""
    return escape_unprintable(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


def shown(id_: str) -> str:
    """Return an id in a form valid in JSON: a refused id may hold a lone surrogate."""
    return id_.encode("utf-8", "backslashreplace").decode()
