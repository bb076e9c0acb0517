"""How feeds are: reports of processes that watch them, checked and stored, and the list of all with their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from neardup_workers.doing.http.bodies import Refused
from neardup_workers.outside.feeds.condition import STATES, Condition, values_of
from neardup_workers.outside.store.extra.feeds import FEEDS_MAX

_Url = Annotated[str, Field(min_length=1, max_length=2_000)]
# 3.0 is a whole number of JSON.
_Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
_Time = Annotated[float | None, Field(ge=0, le=1e11, allow_inf_nan=False)]


class _Report(BaseModel):
    """A feed and its condition."""

    model_config = ConfigDict(extra="forbid", strict=True)
    url: _Url
    failures: Annotated[int, Field(ge=0, le=10**9), _Whole] = 0
    newest: Annotated[float | None, Field(ge=-1e11, le=1e11, allow_inf_nan=False)] = None
    gap_seconds: _Time = None
    asked: _Time = None
    succeeded: _Time = None
    brought: _Time = None
    status: Annotated[int | None, Field(ge=100, le=999), _Whole] = None
    reason: Annotated[str, Field(max_length=100)] = ""
    address: Annotated[str, Field(max_length=2_000)] = ""
    wait_seconds: _Time = None


class _Body(BaseModel):
    """What a process says of its feeds."""

    model_config = ConfigDict(extra="forbid", strict=True)
    feeds: Annotated[list[_Report], Field(max_length=FEEDS_MAX)] = []
    unlisted: Annotated[list[_Url], Field(max_length=FEEDS_MAX)] = []


_BOUNDS = ("minimum", "maximum", "minLength", "maxLength")


def bounds_of_report(name: str) -> dict[str, Any]:
    """Return the bounds of a value of a report, as its schema has them."""
    schema = _Report.model_json_schema()["properties"][name]
    return {key: value for one in (schema, *schema.get("anyOf", ())) for key, value in one.items() if key in _BOUNDS}


class FeedConditions(NamedTuple):
    """Conditions as JSON, by address, and the addresses of feeds that are watched no longer."""

    conditions: dict[str, str]
    unlisted: list[str]


def reports_of(body: bytes) -> FeedConditions:
    """Return the reports of a request. Raises ``Refused``."""
    try:
        reported = _Body.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        raise Refused("feed_report", field, f"{first['msg']}; see FeedReports in /openapi.json") from None
    conditions = {feed.url: feed.model_dump_json(exclude={"url"}) for feed in reported.feeds}
    return FeedConditions(conditions, reported.unlisted)


def listing(stored: Sequence[tuple[str, float, str]], limit: int, now: float) -> dict[str, Any]:
    """Return the feeds with their states, the worst first, at most ``limit``, and how many have each state."""
    feeds = [
        {"url": url, **values_of(Condition(**orjson.loads(condition)), reported, now)}
        for url, reported, condition in stored
    ]
    counts = Counter(feed["state"] for feed in feeds)
    feeds.sort(key=lambda feed: STATES.index(feed["state"]))
    return {"feeds": feeds[:limit], "counts": {state: counts[state] for state in STATES}}
