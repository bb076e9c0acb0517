"""Collections in the service: answers, lists, removals and events of one are those of a service of its own."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest
from service_world import NEAR, NOW, TEXT, World, world_in

from neardup import Deduplicator, Document
from neardup_workers.outside.store.blocked import read_block_list

NAMES = ("ar", "de", None)
PLACES = "cluster", "related", "previous", "matched", "place"
# Of each collection: id and text.
OTHER = "Nothing of the kind was reported from the mountains, where it snows in every month."
STREAM = [("a", TEXT), ("b", NEAR), ("a", TEXT), ("c", OTHER), ("a", NEAR)]


def checked(world: World, id_: str, text: str, name: str | None) -> dict[str, Any]:
    found: dict[str, Any] = world.check(id_, text, lang=name)
    return found


def test_the_answers_are_those_of_a_service_for_each_collection(tmp_path: Path) -> None:
    """Interleaved, with the same ids in each; also after a restart. Each answer names its collection."""
    answers: dict[str | None, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for half in (STREAM[:2], STREAM[2:]):
        with world_in(tmp_path / "all", fields=("collection=lang",)) as world:
            for id_, text in half:
                for name in NAMES:
                    answers[name].append(checked(world, id_, text, name))
    with world_in(tmp_path / "alone") as alone:
        wanted = [alone.check(id_, text) for id_, text in STREAM]
    for n, name in enumerate(NAMES):
        found = [{**one, **{key: one[key] and one[key] // 3 for key in PLACES}} for one in answers[name]]
        assert found == [one | ({"collection": name} if name else {}) for one in wanted]
        assert all(one["place"] % 3 == n for one in answers[name])


def test_a_document_of_the_old_set_is_compared_with_nothing(tmp_path: Path) -> None:
    """New ones are compared with it, as one process decides, also after a restart; another value is refused."""
    texts = [(f"{k}-{n}", text, ("old", "new", None)[n % 3]) for k, (_, text) in enumerate(STREAM) for n in range(6)]
    answers = []
    for half in (texts[:13], texts[13:]):
        with world_in(tmp_path, fields=("origin=set",)) as world:
            answers += [world.check(id_, text, set=origin) for id_, text, origin in half]
            refused = world.ask("POST", "/v1/check", json={"id": "x", "text": TEXT, "set": "older"})
    assert (refused.status_code, refused.json()["reason"]) == (422, "origin")
    dedup = Deduplicator()
    verdicts = dedup.decide([Document(id_, text, 0.0, reference=origin == "old") for id_, text, origin in texts])
    assert [(one["status"], one["duplicate_of"], one["similarity"]) for one in answers] == [
        (one.status, one.duplicate_of, one.similarity and round(one.similarity, 4)) for one in verdicts
    ]
    of_old = [one for one, (_, _, origin) in zip(answers, texts, strict=True) if origin == "old"]
    assert [one["pairs"] for one in of_old] == [[]] * 10
    assert {one["status"] for one in of_old} == {"original"}
    assert {one["duplicate_of"] for one in answers} >= {"0-3", "1-0"}


def test_requests_name_the_collection_of_an_id(tmp_path: Path) -> None:
    """Documents, what is near, why, lists and removals; another collection keeps its documents."""
    with world_in(tmp_path / "state", fields=("collection=lang",), keep_texts=True) as world:
        for id_, text in STREAM[:2]:
            for name in NAMES:
                checked(world, id_, text, name)
        for query, name in (("?collection=ar", "ar"), ("", None)):
            found = world.ask("GET", f"/v1/documents/b{query}").json()
            assert (found["id"], found["duplicate_of"], found.get("collection")) == ("b", "a", name)
            near = world.ask("GET", f"/v1/documents/b/near{query}").json()
            assert ([one["id"] for one in near["pairs"]], near.get("collection")) == (["a"], name)
            assert world.ask("GET", f"/v1/why{query or '?'}&a=a&b=b").json()["reason"] == "pair"
        assert world.ask("GET", "/v1/documents/b?collection=xx").status_code == 404
        listed = world.ask("GET", "/v1/documents?collection=de&q=a").json()["documents"]
        assert [(one["id"], one["collection"]) for one in listed] == [("a", "de")]
        stories = world.ask("GET", "/v1/clusters?collection=de").json()["clusters"]
        assert [(one["representative"], one["others"], one["collection"]) for one in stories] == [("a", ["b"], "de")]
        assert len(world.ask("GET", "/v1/clusters").json()["clusters"]) == 3
        for query in ("collection=", "collection=&q=a"):  # documents that name none
            listed = world.ask("GET", f"/v1/documents?{query}").json()["documents"]
            assert {(one["id"], one.get("collection")) for one in listed} == {("a", None)} | {("b", None)} - (
                {("b", None)} if "q" in query else set()
            )
            stories = world.ask("GET", f"/v1/clusters?{query}").json()["clusters"]
            assert [(one["representative"], one["others"], one.get("collection")) for one in stories] == [
                ("a", ["b"], None)
            ]
        assert [one.get("collection") for one in world.events._after(-1, 9)] == [*NAMES, *NAMES]
        probed = world.check("q", TEXT, "?add=false", lang="de")
        assert ([one["id"] for one in probed["pairs"]], probed["collection"]) == (["a"], "de")
        removed = world.ask("DELETE", "/v1/documents/a?collection=ar").json()
        assert removed == {"id": "a", "removed": 1, "collection": "ar"}
        assert world.ask("GET", "/v1/documents/a?collection=ar").status_code == 404
        assert world.ask("GET", "/v1/documents/a?collection=de").status_code == 200
        atom = world.ask("GET", "/v1/stories.atom").text
        assert "<entry>" in atom
        assert "\x1f" not in atom


def test_an_id_is_blocked_in_its_collection_alone(tmp_path: Path) -> None:
    """The block list names the collection, also for the next process."""
    blocked = tmp_path / "blocked"
    settings = {"fields": ("collection=lang",), "blocked": str(blocked)}
    with world_in(tmp_path / "state", **settings) as world:
        for name in NAMES:
            checked(world, "a", TEXT, name)
        assert world.ask("DELETE", "/v1/documents/a?collection=ar&block=true").json()["removed"] == 1
    with world_in(tmp_path / "state", **settings) as world:
        assert [checked(world, "x", TEXT, name).get("reason") for name in NAMES] == ["blocked", None, None]
        assert checked(world, "a", OTHER, "ar")["reason"] == "blocked"
        assert checked(world, "a", OTHER, "de")["status"] == "original"
    first = json.loads(blocked.read_text().splitlines()[0])
    assert first == {"id": "a", "collection": "ar"}
    assert read_block_list(str(blocked)).path == blocked


def test_events_for_the_web_hook_name_the_collection(tmp_path: Path) -> None:
    """Also that of a removal."""
    settings = {"fields": ("collection=lang",), "webhook": "http://127.0.0.1:9/hook"}
    with world_in(tmp_path / "state", **settings) as world:
        checked(world, "a", TEXT, "ar")
        checked(world, "a", TEXT, "de")
        world.ask("DELETE", "/v1/documents/a?collection=de")
        path = world.keeper.log.path
    with sqlite3.connect(path) as connection:
        bodies = [
            orjson.loads(body)["document"] for (body,) in connection.execute("SELECT body FROM outbox ORDER BY number")
        ]
    assert [(one["id"], one["collection"]) for one in bodies] == [("a", "ar"), ("a", "de")]


@pytest.mark.parametrize("path", ["/v1/documents/a", "/v1/documents", "/v1/clusters"])
def test_without_the_setting_a_collection_is_refused(tmp_path: Path, path: str) -> None:
    """The problem names the parameter and the setting."""
    with world_in(tmp_path / "state") as world:
        checked(world, "a", TEXT, "ar")
        response = world.ask("GET", f"{path}?collection=ar")
        assert (response.status_code, response.json()["field"]) == (409, "collection")
        assert "--fields collection=NAME" in response.json()["detail"]


def test_times_of_a_collection_are_those_of_all(tmp_path: Path) -> None:
    """The clock of the window is one."""
    with world_in(tmp_path / "state", fields=("collection=lang",)) as world:
        assert checked(world, "a", TEXT, "ar")["late"] is False
        assert world.ask("GET", "/v1/documents/a?collection=ar").json()["time"] == NOW
