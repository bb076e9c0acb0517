"""``/v1/feeds``: how feeds are, as processes that watch them report it."""

import json
import sqlite3

import pytest
from service_world import NOW, world_in

from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.store.extra import feeds

GOOD = Condition(
    0, NOW - 900, 3600.0, NOW - 60, NOW - 60, NOW - 900, 200, "", "https://a.example/feed.xml", 600.0
)._asdict()
FAILING = Condition(2, None, None, NOW - 5, NOW - 4000, NOW - 9000, 404, "fetch_status", "", 1800.0)._asdict()


def report(world, *reported, unlisted=()):
    body = {"feeds": [{"url": url, **condition} for url, condition in reported], "unlisted": list(unlisted)}
    return world.ask("POST", "/v1/feeds", json=body)


def test_feeds_are_listed_as_they_were_reported_the_worst_first(tmp_path):
    """With state and meaning, also after a restart; a later report replaces the one before, an unlisted feed leaves."""
    with world_in(tmp_path) as world:
        assert world.ask("GET", "/v1/feeds").json()["feeds"] == []
        reported = report(world, ("https://a.example/", GOOD), ("https://b.example/", GOOD), ("https://c/", GOOD))
        assert reported.json() == {"feeds": 3}
        assert report(world, ("https://b.example/", FAILING), unlisted=["https://c/"]).json() == {"feeds": 1}
    with world_in(tmp_path) as world:
        found = world.ask("GET", "/v1/feeds").json()
        assert found["counts"] == {"gone": 0, "failing": 1, "unreported": 0, "silent": 0, "ok": 1}
        said = {"reported": NOW, "meaning": "the server answered with an error: 404 Not Found", "state": "failing"}
        assert found["feeds"][0] == {"url": "https://b.example/", **FAILING, **said}
        said = {"reported": NOW, "meaning": "the feed was read", "state": "ok"}
        assert found["feeds"][1] == {"url": "https://a.example/", **GOOD, **said}
        assert world.ask("GET", "/v1/feeds?limit=1").json() == {**found, "feeds": found["feeds"][:1]}
        assert world.ask("GET", "/v1/feeds?limit=0").json()["field"] == "limit"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("no JSON", None),
        ({"feeds": [{}]}, "feeds.0.url"),
        ({"feeds": [{"url": "https://a/", "failures": -1}]}, "feeds.0.failures"),
        ({"feeds": [{"url": "https://a/", "newest": "1e999"}]}, "feeds.0.newest"),
        ({"feeds": [{"url": "https://a/", "surprise": 1}]}, "feeds.0.surprise"),
        ({"unlisted": [""]}, "unlisted.0"),
    ],
)
def test_a_report_that_cannot_be_is_refused_whole(tmp_path, body, field):
    """The problem names the field; nothing is stored."""
    content = body if isinstance(body, str) else json.dumps(body)
    with world_in(tmp_path) as world:
        response = world.ask("POST", "/v1/feeds", content=content, headers={"Content-Type": "application/json"})
        assert (response.status_code, response.json()["reason"]) == (422, "feed_report")
        assert response.json().get("field") == field
        assert world.ask("GET", "/v1/feeds").json()["feeds"] == []


def test_the_feeds_that_are_kept_are_bounded(monkeypatch):
    """Those that were reported last stay; what was not reported for a month leaves."""
    monkeypatch.setattr(feeds, "FEEDS_MAX", 3)
    connection = sqlite3.connect(":memory:")
    connection.executescript(feeds.TABLES)
    for second in range(5):
        feeds.store(connection, {f"https://{second}/": "{}"}, (), NOW + second)
    assert [url for url, _, _ in feeds.read(connection)] == ["https://2/", "https://3/", "https://4/"]
    feeds.store(connection, {}, ["https://4/"], NOW + 3 + feeds.KEPT_SECONDS)
    assert [url for url, _, _ in feeds.read(connection)] == ["https://3/"]
