"""The parameters of requests: what handlers read, and what the description says of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request

from neardup.pairs.batches import MICROSECONDS
from neardup_workers.doing.http.access.guard import check_collection
from neardup_workers.doing.http.bodies import Refused
from neardup_workers.outside.store.extra.feeds import FEEDS_MAX
from neardup_workers.outside.store.extra.sources import ORDERS
from neardup_workers.outside.store.listing import DOCUMENT_ORDERS, STORY_ORDERS, PageCursor, cursor_of
from neardup_workers.outside.store.reading import MEMBERS_MAX

_TEXT = {"type": "string", "minLength": 1}


class Parameter(NamedTuple):
    """A parameter of a request, with its bounds and its default as a schema of JSON."""

    name: str
    description: str
    schema: dict[str, Any]
    where: str = "query"
    required: bool = False

    def described(self) -> dict[str, Any]:
        """Return the parameter as OpenAPI has it."""
        return {
            "name": self.name,
            "in": self.where,
            "required": self.required,
            "description": self.description,
            "schema": self.schema,
        }


def _flag(name: str, description: str, default: bool = False) -> Parameter:
    return Parameter(name, description, {"type": "boolean", "default": default})


def _number(name: str, description: str, least: int, most: int, default: int | None) -> Parameter:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(name, description, schema if default is None else {**schema, "default": default})


def flag(request: Request, parameter: Parameter) -> bool:
    """Return a parameter that is true or false. Raises ``Refused``."""
    value = _given(request, parameter)
    if value is None:
        return bool(parameter.schema.get("default", False))
    return {"true": True, "false": False}[_one_of(parameter.name, value, ("true", "false"))]


def _given(request: Request, parameter: Parameter) -> str | None:
    """Return what a request gives a parameter; most requests have no query, which need not be parsed."""
    return request.query_params.get(parameter.name) if request.scope["query_string"] else None


def choice(request: Request, parameter: Parameter) -> str:
    """Return a parameter that has one of some values. Raises ``Refused``."""
    value = _given(request, parameter)
    return _one_of(parameter.name, parameter.schema["default"] if value is None else value, parameter.schema["enum"])


def number(request: Request, parameter: Parameter, default: int = -1) -> int:
    """Return a parameter that is a whole number between bounds; ``default`` is used if its schema has none.

    Raises ``Refused``.
    """
    value = _given(request, parameter)
    if value is None:
        return int(parameter.schema.get("default", default))
    least, most = parameter.schema["minimum"], parameter.schema["maximum"]
    if not (value.isascii() and value.isdecimal() and len(value) < 12 and least <= int(value) <= most):
        raise Refused("parameter", parameter.name, f"it must be a whole number from {least} to {most}")
    return int(value)


def text(request: Request, parameter: Parameter) -> str | None:
    """Return a parameter that is a text; ``None`` without one, or if it is empty. Raises ``Refused``."""
    value = _given(request, parameter) or None
    most = parameter.schema.get("maxLength", len(value or ""))
    if value is not None and len(value) > most:
        raise Refused("parameter", parameter.name, f"it must have at most {most:,} characters")
    return value


def microseconds(request: Request, parameter: Parameter) -> int | None:
    """Return a parameter that is a time in seconds since the epoch, in microseconds. Raises ``Refused``."""
    value = _given(request, parameter)
    if value is None:
        return None
    least, most = parameter.schema["minimum"], parameter.schema["maximum"]
    try:
        seconds = float(value)
    except ValueError:
        seconds = float("nan")
    if not least <= seconds <= most:
        raise Refused("parameter", parameter.name, f"it must be seconds since the epoch, from {least} to {most}")
    return round(seconds * MICROSECONDS)


def cursor(request: Request) -> PageCursor | None:
    """Return where a page begins; ``None`` for the first one. Raises ``Refused``."""
    value = request.query_params.get(CURSOR.name)
    after = None if value is None else cursor_of(value)
    if value is not None and after is None:
        raise Refused("parameter", CURSOR.name, "it must be next of the page before")
    return after


def collection_named(request: Request, *, separate: bool) -> str | None:
    """Return the collection that a request names, empty for that of documents that name none; ``None`` without one.
    Raises ``Refused`` unless documents have collections, and the token may use it."""
    named = request.query_params.get(COLLECTION.name)
    if named and not separate:
        raise Refused("no_collections", COLLECTION.name)
    named = named if separate else None
    check_collection(request.scope, named)
    return named


def two_ids(request: Request) -> list[str]:
    """Return the ids that a request names as a and b. Raises ``Refused`` unless it names both."""
    ids = [text(request, parameter) or "" for parameter in (A, B)]
    if "" in ids:
        raise Refused("parameter", "b" if ids[0] else "a", "name two ids as a and b")
    return ids


def _one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise Refused("parameter", name, f"it must be one of {', '.join(values)}")
    return value


ADD = _flag("add", "false: only look, and answer the pairs without a verdict", True)
NEAREST = _number(
    "nearest", "with add=false: so many of the most similar documents too, also those below the least score", 0, 100, 0
)
ID = Parameter("id", "the id of the document", _TEXT, required=True)
ONE_ID = ID._replace(description="only this document, with its versions", required=False)
COLLECTION = Parameter(
    "collection",
    "the collection of the ids; of a list, that of its documents, empty for those that name none (setting fields)",
    {"type": "string"},
)
NEAR = _flag("near", "true: its pairs, as of /v1/documents/{id}/near")
BLOCK = _flag(
    "block",
    "true also blocks the id and the contents of its versions and stories: they go to the file of --blocked first, and "
    "their documents are refused from then on. An id without a version is blocked, too.",
)
WHY = Parameter("why", "the reason, for the audit log", {"type": "string", "maxLength": 500})
REPLACE = _flag("replace", "true: also if the opposite was said of the two before")
AUDITED = Parameter("id", "lines about this id alone", {"type": "string"})  # empty: all lines
BEFORE = _number("before", "lines with a number below: that of the last one of the page before", 1, 10**11 - 1, None)
MUTED = _flag("muted", "true: stories that are muted, instead of those that are not")
MUTE, FOLLOW = (
    Parameter(name, f"{description}; without it, that stays", {"type": "boolean"})
    for name, description in (
        ("muted", "whether lists, the Atom feed and the web hook leave the story out"),
        ("followed", "whether each new document of the story is an event joined"),
    )
)
TO = Parameter(
    "to",
    "with followed=true: where these events go, a public address, or one with host and port of the web hook; without "
    "it that of the web hook",
    {"type": "string", "pattern": "^(https?://[!-~]+)?$", "maxLength": 2_000},
)
READER = Parameter("reader", "who a signed address is for", {"type": "string"})
SIGNATURE = Parameter("signature", "that of a signed address: rel=self of the feed has it", {"type": "string"})
SORT = Parameter(
    "sort",
    "largest first; those with the newest document (recent), with the most copies in the last hours (growth), or that "
    "began last (newest)",
    {"enum": tuple(STORY_ORDERS), "default": "size"},
)
BY_TIME = Parameter(
    "sort", "in the order of their arrival, or backwards", {"enum": tuple(DOCUMENT_ORDERS), "default": "newest"}
)
LIMIT = _number("limit", "how many", 1, 1000, 50)
SIZE_MIN = _number("size_min", "documents of a cluster at least", 1, 10**9, 2)
SIZE_MAX = _number("size_max", "documents of a cluster at most", 1, 10**9, None)
Q = Parameter(
    "q",
    "the beginning of an id, a source, or words of a kept document: of its id, source and title and, if texts are "
    "stored, of its first 100,000 characters; the last word may be incomplete",
    {"type": "string", "maxLength": 200},
)
PART = Parameter("q", "a part of the name, or a host in its script", {"type": "string", "maxLength": 200})
BY_SOURCE = Parameter("sort", "largest first, or by name", {"enum": tuple(ORDERS), "default": "documents"})
SKIP = _number("skip", "so many sources are left out: those of the pages before", 0, 10**9, 0)
SOURCE = Parameter("source", "with a document of this source; empty for any", {"type": "string"})
_TIME = {"type": "number", "minimum": -(10**11), "maximum": 10**11}
SINCE = Parameter("since", "with a document of this time (seconds since the epoch) or later", _TIME)
UNTIL = Parameter("until", "with a document of this time or earlier", _TIME)
STATUS = Parameter("status", "documents of this status", {"enum": ("original", "update", "duplicate")})
CURSOR = Parameter(
    "cursor", "where the page begins: next of the page before", {"type": "string", "pattern": r"^-?\d{1,18}\.\d{1,18}$"}
)
STRIP = _flag("strip", "true: how many documents arrived in each of 48 spans")
AFTER = _number("after", "position behind which the members begin: next of the page before", 0, 10**11 - 1, None)
MEMBERS = _number("limit", "members at most", 1, MEMBERS_MAX, MEMBERS_MAX)
FEEDS = _number("limit", "feeds at most", 1, FEEDS_MAX, 1000)
SOURCES_MIN = _number("min_sources", "sources of a story at least, as far as documents have one", 0, 10**6, 0)
AFTER_LETTER = _number("after", "number of the last dead event of the page before", 0, 10**11 - 1, 0)
LETTERS = _number("limit", "dead events, or lines, at most", 1, 1000, 100)
A = Parameter("a", "an id", _TEXT, required=True)
B = Parameter("b", "another id", _TEXT, required=True)
OLDER, NEWER = (
    Parameter(name, f"the place of the {name} version", _number(name, "", 0, 10**11 - 1, None).schema, required=True)
    for name in ("older", "newer")
)
PATH_ID = Parameter("id", "the id, with a slash as %2F", _TEXT, "path", True)
PATH_SOURCE = Parameter("name", "the source: a name or a host, with a slash as %2F", _TEXT, "path", True)
PATH_CLUSTER = Parameter("cluster", "the number of the cluster", {"type": "integer", "minimum": 0}, "path", True)
LAST_EVENT = Parameter(
    "Last-Event-ID",
    "number of the last event that the client has; browsers send it when they connect again",
    {"type": "integer", "minimum": -1},
    "header",
)
AFTER_EVENT = Parameter(
    "after", "the same as a parameter; -1 for all verdicts that are stored", {"type": "integer", "minimum": -1}
)
OF = Parameter(
    "of",
    "verdicts, or the present figures instead: at most four times a second",
    {"enum": ("verdicts", "figures"), "default": "verdicts"},
)
