"""The description of the requests, as OpenAPI 3.1, from one row for each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from neardup_workers.doing.http.described import parameters as of
from neardup_workers.doing.http.described.parameters import Parameter
from neardup_workers.doing.http.described.schemas import SCHEMAS, link, listed, record
from neardup_workers.outside.settings.serve import LIMITS

JSON, JSON_LINES, PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"


class Answered(NamedTuple):
    """A response: its status, what it means, its media type and the schema of its content."""

    status: int
    description: str
    media: str | None = PROBLEM
    schema: Mapping[str, Any] = link("Problem")


class Asked(NamedTuple):
    """A request: its name, what it is for, the names of its responses, its parameters, the media type and the schema of
    its body.

    ``is_open``: it is answered without a token, and never refused for its load.
    """

    name: str
    summary: str
    responses: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None
    schema: str = "Document"
    description: str | None = None
    is_open: bool = False


_OBJECT, _OBJECT_OR_NONE = {"type": "object"}, {"type": ["object", "null"]}
_THRESHOLD: dict[str, Any] = {
    **{name: {"type": "integer"} for name in ("same", "different")},
    **{name: {"type": ["number", "null"]} for name in ("threshold", "low", "high")},
    **{name: {"type": ["integer", "null"]} for name in ("missed", "false")},
}
# Name -> response. Those of one request have its name.
RESPONSES: dict[str, Answered] = {
    "check": Answered(200, "The verdict. The document is on disk.", JSON, link("Answer")),
    "checkBatch": Answered(
        200, "One line for each line, in order: an Answer, or an object with error (a Problem); with --from-kafka also "
        "an Undecided. The last line is {\"done\": n}; without it the answer is truncated.",
        JSON_LINES, {"type": "string"},
    ),
    "documentByQuery": Answered(
        200, "documents and next; with an id its verdicts, the latest first, or with near its pairs.", JSON,
        {"anyOf": [link("Documents"), link("Versions"), link("Answer")]},
    ),
    "document": Answered(200, "The verdicts, the latest first.", JSON, link("Versions")),
    "near": Answered(200, "The pairs.", JSON, link("Answer")),
    "removed": Answered(
        200, "How many versions there were; 0 only with block=true.",
        JSON, record({"id": {"type": "string"}, "removed": {"type": "integer"}}),
    ),
    "clusters": Answered(
        200, "The clusters, and next, the cursor of the next page.",
        JSON, record({"clusters": listed(link("Cluster")), "next": {"type": ["string", "null"]}}),
    ),
    "cluster": Answered(200, "The cluster; the first 1,000 members.", JSON, link("Cluster")),
    "sources": Answered(
        200, "Sources in the order asked for, without their hours, and the count of all; the hours in which one "
        "repeated itself; and how often a bound of the ledger was exceeded: while that is empty, the counts are exact.",
        JSON, record({
            "sources": listed(link("Source")), "count": {"type": "integer"},
            "repeating": listed(link("Repeating")), "exceeded": _OBJECT,
        }),
    ),
    "source": Answered(200, "The source with its hours.", JSON, link("Source")),
    "why": Answered(200, "The reason; also that an id is unknown.", JSON, link("Explanation")),
    "differences": Answered(
        200, "What the two texts share, and what one alone has; empty if one of them is not stored.",
        JSON, record({"passages": listed(link("Passage"))}),
    ),
    "figures": Answered(
        200, "present, history (steps of ten seconds, the oldest first), operation (counts since the start, the disk), "
        "settings, token (its name, roles and collections), and recall: what limits cost and what canaries found; null "
        "with --from-kafka. A token of some collections gets settings and token alone.",
        JSON, record(
            {"settings": _OBJECT}
            | dict.fromkeys(("present", "history", "operation", "recall", "token"), _OBJECT_OR_NONE)
        ),
    ),
    "feeds": Answered(
        200, "The feeds, the worst first, and how many have each state.",
        JSON, record({"feeds": listed(link("Feed")), "counts": _OBJECT}),
    ),
    "storiesFeed": Answered(
        200, "An Atom feed. The id of an entry stays while its story grows.", "application/atom+xml", {"type": "string"}
    ),
    "audit": Answered(
        200, "The lines, the newest first: a removal (what has the SHA-256 of the id, and how many versions there "
        "were), what was said of two documents, or settings that a start has changed, before and after.",
        JSON, record({"audit": listed(link("Audited"))}),
    ),
    "webhook": Answered(
        200, "How many events wait, when the oldest was created, how many are dead, and the dead ones in order.",
        JSON, record({
            "waiting": {"type": "integer"}, "oldest": {"type": ["number", "null"]}, "dead": {"type": "integer"},
            "letters": listed(link("Letter")),
        }),
    ),
    "marked": Answered(
        200, "What holds of the cluster now.", JSON,
        record({"cluster": {"type": "integer"}} | {name: {"type": "boolean"} for name in ("muted", "followed")}),
    ),
    "no_hook": Answered(409, "There is no web hook, without which nothing is followed; or no event would reach to."),
    "judgedPairs": Answered(
        200, "The threshold with the fewest errors among the pairs that together and apart have judged, the ends "
        "between which 95 of 100 resamples have it, and its errors; null below ten pairs, or if all are of one kind. "
        "signals: the same of each signal but the text. contradictions: lines of the audit log that part what other "
        "lines join.",
        JSON, record({
            **_THRESHOLD, "signals": {"type": "object", "additionalProperties": record(_THRESHOLD)},
            "contradictions": listed(_OBJECT),
        }),
    ),
    "judged": Answered(
        200, "The one that arrived later, and the cluster that it belongs to now.", JSON,
        record({"id": {"type": "string"}, "cluster": {"type": "integer"}}),
    ),
    "contradicts": Answered(
        409, "The opposite was said of the two: detail says when and by whom; they are equal in content; the story of "
        "the older one has ended; or the service was started without collections."
    ),
    "reported": Answered(200, "How many feeds were taken.", JSON, record({"feeds": {"type": "integer"}})),
    "events": Answered(
        200, "Events: the number of the verdict as id, the name verdict, and a Version as data. A source that begins "
        "to repeat itself is an event with the name repeating, without id, and Repeating as data. A comment every 15 "
        "seconds.", "text/event-stream", {"type": "string"},
    ),
    "works": Answered(200, "Yes; cannot says what a full disk keeps it from.", JSON, _OBJECT),
    "metrics": Answered(200, "In the text format.", "text/plain", {"type": "string"}),
    "openapi": Answered(200, "This description.", JSON, _OBJECT),
    "undecided": Answered(
        202, "Only with --from-kafka: the document is in the topic of documents, and its verdict takes longer than "
        f"{LIMITS.verdict_seconds_max:g} seconds. GET /v1/documents/{id} has it later.", JSON, link("Undecided"),
    ),
    "unchanged": Answered(304, "The client has this answer: If-None-Match names its ETag.", None),
    "not_http": Answered(400, "The request is not HTTP.", None),
    "no_token": Answered(401, "The token is missing or wrong."),
    "no_right": Answered(403, "The token has not the role or the collection for this."),
    "unknown": Answered(404, "No such id, cluster, source or path."),
    "slow": Answered(408, "The body took too long."),
    "conflict": Answered(
        409, "The service was started without what the request names: collections (--fields collection=NAME), or a "
        "block list (--blocked); or near is asked for, and no id."
    ),
    "large": Answered(413, "The body or the batch is too large."),
    "media": Answered(415, "The content type or encoding is not accepted."),
    "host": Answered(421, "The host of the request is not this machine."),
    "value": Answered(422, "A value cannot be used; the problem names the field, the rule and the remedy."),
    "busy": Answered(429, "So many documents wait, or the token has used its minute; see Retry-After."),
    "readers": Answered(429, f"{LIMITS.event_readers_max} clients read events, or the token has used its minute."),
    "needs_window": Answered(501, "Only with --from-kafka: the request needs signatures or sources of a window."),
    "restarts": Answered(503, "The service restarts."),
    "full": Answered(507, "The disk is full; nothing was added. See Retry-After."),
    "unwritable": Answered(507, "The disk is full, or the block list cannot be written; nothing was removed."),
}  # fmt: skip

_ANY = ("no_token", "no_right", "host", "restarts", "not_http")
_BODY = ("slow", "large", "media")
_BY_QUERY = ", with the id in the query: for ids such as . and .., which a path cannot hold"
_REMOVED = ("removed", "undecided", "unknown", "conflict", "value", "busy", "unwritable", *_ANY)
_LATEST = "The latest verdict about an id, and its versions in the window"
_REMOVE = "Remove every version of an id, and erase it"

# Method and path -> request.
REQUESTS: dict[tuple[str, str], Asked] = {
    ("post", "/v1/check"): Asked(
        "check", "Decide about one document, and add it",
        ("check", "undecided", *_BODY, "value", "busy", "needs_window", "full", *_ANY),
        (of.ADD, of.NEAREST), JSON,
    ),
    ("post", "/v1/check:batch"): Asked(
        "checkBatch", "Decide about many documents, as JSON Lines", ("checkBatch", *_BODY, "value", "busy", *_ANY),
        body=JSON_LINES,
    ),
    ("get", "/v1/documents"): Asked(
        "documentByQuery", "Documents, page by page; with an id: " + _LATEST[0].lower() + _LATEST[1:],
        ("documentByQuery", "unchanged", "unknown", "conflict", "value", "busy", *_ANY),
        (of.ONE_ID, of.COLLECTION, of.NEAR, of.BY_TIME, of.LIMIT, of.CURSOR, of.Q, of.SOURCE, of.STATUS, of.SINCE,
         of.UNTIL),
    ),
    ("delete", "/v1/documents"): Asked(
        "removeByQuery", _REMOVE + _BY_QUERY, _REMOVED, (of.ID, of.COLLECTION, of.BLOCK, of.WHY)
    ),
    ("get", "/v1/documents/{id}"): Asked(
        "document", _LATEST, ("document", "unknown", "conflict", "value", "busy", *_ANY), (of.PATH_ID, of.COLLECTION)
    ),
    ("delete", "/v1/documents/{id}"): Asked(
        "remove", _REMOVE, _REMOVED, (of.PATH_ID, of.COLLECTION, of.BLOCK, of.WHY)
    ),
    ("get", "/v1/documents/{id}/near"): Asked(
        "near", "What is near the latest version of an id, also what came after it",
        ("near", "unknown", "conflict", "value", "busy", *_ANY), (of.PATH_ID, of.COLLECTION),
    ),
    ("get", "/v1/clusters"): Asked(
        "clusters", "Clusters of the window, page by page",
        ("clusters", "unchanged", "conflict", "value", "busy", *_ANY),
        (of.SORT, of.LIMIT, of.CURSOR, of.Q, of.SOURCE, of.COLLECTION, of.SIZE_MIN, of.SIZE_MAX, of.SINCE, of.UNTIL,
         of.STRIP, of.MUTED),
    ),
    ("get", "/v1/clusters/{cluster}"): Asked(
        "cluster", "One cluster with its members", ("cluster", "unchanged", "unknown", "value", "busy", *_ANY),
        (of.PATH_CLUSTER, of.AFTER, of.MEMBERS),
    ),
    ("post", "/v1/clusters/{cluster}"): Asked(
        "mark", "Mute a cluster, or follow it: later copies obey",
        ("marked", "unknown", "no_hook", "value", "busy", "needs_window", "full", *_ANY),
        (of.PATH_CLUSTER, of.MUTE, of.FOLLOW, of.TO, of.WHY),
    ),
    **{
        ("post", f"/v1/{name}"): Asked(
            name, f"Say that two documents tell {what}: later copies follow",
            ("judged", "undecided", "unknown", "contradicts", "value", "busy", "needs_window", "full", *_ANY),
            (of.A, of.B, of.COLLECTION, of.REPLACE, of.WHY),
        )
        for name, what in (("together", "the same story"), ("apart", "two stories"))
    },
    ("get", "/v1/judged"): Asked(
        "judged", "The threshold that judged pairs propose, with an interval", ("judgedPairs", "value", "busy",
        "needs_window", *_ANY),
    ),
    ("get", "/v1/sources"): Asked(
        "sources", "What each source published, and who was first", ("sources", "value", "busy", "needs_window", *_ANY),
        (of.LIMIT, of.PART, of.BY_SOURCE, of.SKIP),
    ),
    ("get", "/v1/sources/{name}"): Asked(
        "source", "One source, hour by hour", ("source", "unknown", "value", "busy", "needs_window", *_ANY),
        (of.PATH_SOURCE,),
    ),
    ("get", "/v1/why"): Asked(
        "why", "Why two ids are a pair, or why not", ("why", "conflict", "value", "busy", "needs_window", *_ANY),
        (of.A, of.B, of.COLLECTION),
    ),
    ("post", "/v1/why"): Asked(
        "why_document", "Why a document that is not added and an id are a pair, or why not",
        ("why", *_BODY, "conflict", "value", "busy", "needs_window", *_ANY), (of.B, of.COLLECTION), JSON,
    ),
    ("get", "/v1/differences"): Asked(
        "differences", "In what two versions differ, named by their places",
        ("differences", "unknown", "value", "busy", *_ANY), (of.OLDER, of.NEWER),
    ),
    ("get", "/v1/figures"): Asked(
        "figures", "What the service does now and did in the last hour, and the settings behind it",
        ("figures", "value", "busy", *_ANY),
    ),
    ("get", "/v1/feeds"): Asked(
        "feeds", "How the feeds are that neardup feed --to-serve watches", ("feeds", "value", "busy", *_ANY),
        (of.FEEDS,),
    ),
    ("post", "/v1/feeds"): Asked(
        "reportFeeds", "Say how feeds are", ("reported", *_BODY, "value", "busy", "needs_window", "full", *_ANY),
        body=JSON, schema="FeedReports",
    ),
    ("get", "/v1/stories.atom"): Asked(
        "storiesFeed", "The stories that grew last, as an Atom feed",
        ("storiesFeed", "unchanged", "conflict", "value", "busy", *_ANY),
        (of.SIZE_MIN, of.SOURCES_MIN, of.LIMIT, of.COLLECTION, of.READER, of.SIGNATURE),
    ),
    ("get", "/v1/webhook"): Asked(
        "webhook", "Events for the web hook: how many wait, and those that it has not taken",
        ("webhook", "value", "busy", *_ANY), (of.AFTER_LETTER, of.LETTERS),
    ),
    ("get", "/v1/audit"): Asked(
        "audit", "Who removed what, when and why, and which settings have changed",
        ("audit", "value", "busy", "needs_window", *_ANY), (of.AUDITED, of.BEFORE, of.LETTERS),
    ),
    ("get", "/v1/events"): Asked(
        "events", "Verdicts as they are made, as server-sent events", ("events", "value", "readers", *_ANY),
        (of.LAST_EVENT, of.AFTER_EVENT, of.OF),
        description="Without a number the stream begins with the next verdict. A client that reads too slowly is "
        "disconnected; it returns with the number of the last event that it has.",
    ),
    ("get", "/healthz"): Asked("healthz", "Whether the process works", ("works", "restarts"), is_open=True),
    ("get", "/readyz"): Asked("readyz", "Whether requests are answered", ("works", "restarts"), is_open=True),
    ("get", "/metrics"): Asked("metrics", "Metrics for Prometheus", ("metrics", "busy", *_ANY)),
    ("get", "/openapi.json"): Asked("openapi", "This description", ("openapi", "busy", *_ANY)),
}  # fmt: skip


def query_names(method: str, route: str) -> tuple[str, ...] | None:
    """Return the names of the parameters that the query of a route may have; ``None`` if it may have any, as those of
    pages and of monitoring. A route names its places in the path in another way than its description."""
    if not route.startswith("/v1/"):
        return None
    begin = route.partition("{")[0]
    asked = [one for key, one in REQUESTS.items() if key[0] == method.lower() and key[1].partition("{")[0] == begin]
    return tuple(dict.fromkeys(each.name for one in asked for each in one.parameters if each.where == "query"))


def description(*, needs_text: bool = False) -> dict[str, Any]:
    """Return the description of all requests. ``needs_text``: a document must have a text, under this name."""
    schemas = dict(SCHEMAS)
    if needs_text:
        schemas["Document"] = {**SCHEMAS["Document"], "required": ["id", "text"]}
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), asked in REQUESTS.items():
        paths.setdefault(path, {})[method] = _operation(asked)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "neardup",
            "version": "1",
            "description": "Near-duplicates in a stream of documents: verdicts over HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {_component(name): _response(each) for name, each in RESPONSES.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(asked: Asked) -> dict[str, Any]:
    by_status = sorted((RESPONSES[name].status, name) for name in asked.responses)
    operation: dict[str, Any] = {"operationId": asked.name, "summary": asked.summary}
    if asked.description:
        operation["description"] = asked.description
    operation["parameters"] = [parameter.described() for parameter in asked.parameters]
    if asked.body:
        schema = link(asked.schema) if asked.body == JSON else {"type": "string"}
        operation["requestBody"] = {"required": True, "content": {asked.body: {"schema": schema}}}
    operation["responses"] = {str(status): link(_component(name), "responses") for status, name in by_status}
    return {**operation, "security": []} if asked.is_open else operation


def _component(response: str) -> str:
    """Return the name of a response in the description: clients in Go make a type of it, next to those of schemas."""
    return f"{response}Answered"


def _response(answered: Answered) -> dict[str, Any]:
    content = {"content": {answered.media: {"schema": answered.schema}}} if answered.media else {}
    return {"description": answered.description, **content}
