"""The parameters of requests: what handlers read, and what the description says of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request

from neardup.workers.http.bodies import Refused
from neardup.workers.store.extra.feeds import FEEDS_MAX
from neardup.workers.store.reading import MEMBERS_MAX, ORDERS

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
    value = request.query_params.get(parameter.name, str(parameter.schema["default"]).lower())
    return {"true": True, "false": False}[_one_of(parameter.name, value, ("true", "false"))]


def choice(request: Request, parameter: Parameter) -> str:
    """Return a parameter that has one of some values. Raises ``Refused``."""
    value = request.query_params.get(parameter.name, parameter.schema["default"])
    return _one_of(parameter.name, value, parameter.schema["enum"])


def number(request: Request, parameter: Parameter, default: int = -1) -> int:
    """Return a parameter that is a whole number between bounds; ``default`` is used if its schema has none.

    Raises ``Refused``.
    """
    value = request.query_params.get(parameter.name)
    if value is None:
        return int(parameter.schema.get("default", default))
    least, most = parameter.schema["minimum"], parameter.schema["maximum"]
    if not (value.isascii() and value.isdecimal() and len(value) < 12 and least <= int(value) <= most):
        raise Refused("parameter", parameter.name, f"it must be a whole number from {least} to {most}")
    return int(value)


def _one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise Refused("parameter", name, f"it must be one of {', '.join(values)}")
    return value


ADD = _flag("add", "false: only look, and answer the pairs without a verdict", True)
NEAREST = _number(
    "nearest", "with add=false: so many of the most similar documents too, also those below the least score", 0, 100, 0
)
ID = Parameter("id", "the id of the document", _TEXT, required=True)
NEAR = _flag("near", "true: its pairs, as of /v1/documents/{id}/near")
BLOCK = _flag(
    "block",
    "true also blocks the id and the contents of its versions and stories: they go to the file of --blocked first, and "
    "their documents are refused from then on. An id without a version is blocked, too.",
)
SORT = Parameter("sort", "largest first, or those that grew last", {"enum": tuple(ORDERS), "default": "size"})
LIMIT = _number("limit", "how many", 1, 1000, 50)
SIZE_MIN = _number("size_min", "documents of a cluster at least", 1, 10**9, 2)
STRIP = _flag("strip", "true: how many documents arrived in each of 48 spans")
AFTER = _number("after", "position behind which the members begin: next of the page before", 0, 10**11 - 1, None)
MEMBERS = _number("limit", "members at most", 1, MEMBERS_MAX, MEMBERS_MAX)
FEEDS = _number("limit", "feeds at most", 1, FEEDS_MAX, 1000)
A = Parameter("a", "an id", _TEXT, required=True)
B = Parameter("b", "another id", _TEXT, required=True)
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
