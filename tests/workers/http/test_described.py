"""The description of the requests agrees with the handlers and declares each response once."""

from collections import Counter
from typing import Any, cast

import jsonschema
from service_world import world_in
from starlette.routing import Match, Route

from neardup_workers.doing.http.described.requests import REQUESTS, RESPONSES, description
from neardup_workers.doing.http.view.requests import view_requests
from neardup_workers.doing.http.window import window_requests

# The page describes itself.
PAGE = {"/", "/docs", "/page/{name}"}


def test_every_request_is_described_and_every_description_has_a_handler(tmp_path):
    """A window answers what is described, and nothing else but the page; a view has handlers for the same requests."""
    with world_in(tmp_path) as world:
        routes = [route for route in world.app.routes if isinstance(route, Route) and route.path not in PAGE]
        handled = {(method, route.path) for route in routes for method in (route.methods or set()) - {"HEAD"}}
        described = set()
        for method, path in REQUESTS:
            asked = {"type": "http", "method": method.upper(), "path": path.format(id="a", cluster=1, name="a")}
            found = next(route.path for route in routes if route.matches(asked)[0] == Match.FULL)
            described.add((method.upper(), found))
    assert described == handled
    nothing = cast("Any", None)
    assert view_requests(nothing).keys() == window_requests(nothing).keys()


def test_a_parameter_that_a_request_does_not_have_is_refused(tmp_path):
    """A name with a letter wrong, or a second value, would add a document that was to be looked up. Each request says
    its own names."""
    with world_in(tmp_path) as world:
        paths = [(method.upper(), path) for method, path in REQUESTS if path.startswith("/v1/")]
        assert len(paths) > 15
        for method, path in paths:
            answer = world.ask(method, path.format(id="a", cluster=1, name="a") + "?ad=false", content=b"{}")
            assert (answer.status_code, answer.json()["reason"], answer.json()["field"]) == (422, "parameter", "ad")
        assert "this request has add, nearest" in world.ask("POST", "/v1/check?ad=false").json()["detail"]
        doubled = world.ask("POST", "/v1/check?add=false&add=true").json()
        assert (doubled["field"], doubled["detail"]) == ("add", "give it once")
        assert world.ask("GET", "/v1/documents").json()["documents"] == []
        for open_path in ("/?story=1", "/metrics?name=x", "/healthz?by=probe"):
            assert world.ask("GET", open_path).status_code == 200


def test_a_report_of_feeds_is_described_with_its_bounds(tmp_path):
    """What the description forbids is refused, so a client that follows it is understood."""
    schema = description()["components"]["schemas"]["FeedReports"]
    for body, fits in (
        ({"feeds": [{"url": "https://a.example", "failures": 0}], "unlisted": ["https://b.example"]}, True),
        ({"unlisted": [""]}, False), ({"feeds": [{"url": ""}]}, False), ({"more": 1}, False),
        ({"feeds": [{"url": "a", "failures": -1}]}, False), ({"feeds": [{"url": "a", "status": 12}]}, False),
        ({"feeds": [{"url": "a", "failures": "1"}]}, False),
    ):  # fmt: skip
        assert jsonschema.Draft202012Validator(schema).is_valid(body) == fits, body
        with world_in(tmp_path / str(fits)) as world:
            assert (world.ask("POST", "/v1/feeds", json=body).status_code == 200) == fits, body


def test_each_response_is_declared_once():
    """No two are equal, each belongs to a request, and a request has one for each status."""
    assert Counter(map(repr, RESPONSES.values())).most_common(1)[0][1] == 1
    assert {name for asked in REQUESTS.values() for name in asked.responses} == set(RESPONSES)
    for asked in REQUESTS.values():
        statuses = [RESPONSES[name].status for name in asked.responses]
        assert len(set(statuses)) == len(statuses), asked.name


def test_every_reference_of_the_description_leads_to_a_component():
    """A misspelled name of a schema or response is found."""
    described = description()
    links = list(_links(described))
    assert len(links) > 100
    for link in links:
        _, _, kind, name = link.split("/")
        assert name in described["components"][kind], link


def _links(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        for one in value.values():
            yield from _links(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _links(one)
