"""What a person says of two documents: later copies obey, also after a restart."""

import random
import sqlite3
from contextlib import closing

import pytest
from service_world import TEXT, world_in

from neardup_workers.outside.store import extra
from neardup_workers.outside.store.extra import audit

OTHER = TEXT.replace("Friday", "Tuesday")
FAR = "The museum of clocks opens again after a year of repairs, with a tower clock that has one hand alone, in May."
NOVEL = {"novelty": "words", "verify": "exact", "threshold": 0.45}


def story(world, id_):
    """The story of an id, and its status."""
    [latest, *_] = world.ask("GET", f"/v1/documents/{id_}").json()["versions"]
    return latest["cluster"], latest["status"]


@pytest.mark.parametrize("settings", [{}, NOVEL])
def test_later_copies_of_a_document_that_was_taken_apart_follow_it(settings, tmp_path):
    """Copies of the other one stay with it. The same answers come after a restart."""
    with world_in(tmp_path, keep_texts=True, **settings) as world:
        first, second = world.check("a", TEXT)["cluster"], world.check("b", OTHER)["cluster"]
        assert first == second
        said = world.ask("POST", "/v1/apart?a=a&b=b&why=two+storms").json()
        assert (said["id"], said["cluster"] != first) == ("b", True)
        assert story(world, "b") == (said["cluster"], "original")
        assert world.check("b2", OTHER)["cluster"] == said["cluster"]
        judged = world.ask("GET", "/v1/why?a=b&b=a").json()["judged"]
        assert (judged["did"], judged["who"], judged["time"] > 1e9) == ("apart", "anyone", True)
        assert world.ask("GET", "/v1/why?a=b&b=b2").json()["judged"] is None
        assert world.check("a2", TEXT)["cluster"] == first
    with world_in(tmp_path, keep_texts=True, **settings) as world:
        assert world.check("b3", OTHER)["cluster"] == world.check("b4", f"{OTHER} More.")["cluster"] == said["cluster"]
        assert world.check("a3", TEXT)["cluster"] == world.check("a4", f"{TEXT} More.")["cluster"] == first
        [line] = world.ask("GET", "/v1/audit?id=b").json()["audit"]
        assert (line["did"], line["who"], line["why"]) == ("apart", "anyone", "two storms")


@pytest.mark.parametrize("settings", [{}, NOVEL])
def test_later_copies_of_documents_that_were_put_together_are_of_one_story(settings, tmp_path):
    """The one that came later moves, with its text. The story goes on without it when it is removed."""
    with world_in(tmp_path, keep_texts=True, **settings) as world:
        first, second = world.check("a", TEXT)["cluster"], world.check("b", FAR)["cluster"]
        assert first != second
        world.check("b1", f"{FAR} Entry is free.")
        assert world.ask("POST", "/v1/together?a=b&b=a").json() == {"id": "b", "cluster": first}
        assert story(world, "b") == (first, "update")
        assert world.check("b2", FAR)["cluster"] == first
    with world_in(tmp_path, keep_texts=True, **settings) as world:
        assert world.check("b3", FAR)["cluster"] == world.check("b4", f"{FAR} Today.")["cluster"] == first
        assert world.ask("GET", "/v1/why?a=b&b=b3").json()["passages"]
        assert world.ask("DELETE", "/v1/documents/b").json()["removed"] == 1
        assert world.check("a5", TEXT)["cluster"] == first


def test_the_opposite_of_what_was_said_is_a_contradiction(tmp_path):
    """With both, until ``replace``; nothing has changed then. Unknown, equal and one id are refused."""
    with world_in(tmp_path) as world:
        first = world.check("a", TEXT)["cluster"]
        world.check("b", FAR)
        world.check("c", TEXT)
        assert world.ask("POST", "/v1/together?a=a&b=b").json()["cluster"] == first
        no = world.ask("POST", "/v1/apart?a=b&b=a")
        assert (no.status_code, no.json()["reason"]) == (409, "contradicts")
        assert "together at" in no.json()["detail"]
        assert "now: apart, by anyone" in no.json()["detail"]
        assert story(world, "b") == (first, "update")
        assert world.ask("POST", "/v1/apart?a=b&b=a&replace=true").json()["cluster"] != first
        for query, status in (("a=a&b=x", 404), ("a=a&b=a", 409), ("a=a&b=c", 409), ("a=a", 422)):
            assert world.ask("POST", f"/v1/apart?{query}").status_code == status


@pytest.mark.parametrize("settings", [{}, NOVEL])
def test_what_was_said_is_restored_as_it_was(settings, tmp_path):
    """A random stream of documents, versions, removals and judged pairs has the same answers with restarts and without
    them, and no row or content is left out."""
    rng = random.Random(len(settings))
    texts = [f"{start} {end}" for start in (TEXT, OTHER, FAR) for end in ("", "More.", "Entry is free.", "Read on.")]
    steps = []
    for n in range(120):
        a, b = (f"d{rng.randrange(14)}" for _ in "ab")
        kind = rng.choice(["check"] * 5 + ["together", "apart", "remove"])
        steps.append((kind, a, b if kind != "check" else rng.choice(texts), n))

    def done(world, kind, a, b):
        if kind == "check":
            return {name: value for name, value in world.check(a, b).items() if name != "pairs"}
        if kind == "remove":
            return world.ask("DELETE", f"/v1/documents/{a}").status_code
        return world.ask("POST", f"/v1/{kind}?a={a}&b={b}&replace=true").json()

    with world_in(tmp_path / "whole", keep_texts=True, **settings) as world:
        whole = [done(world, kind, a, b) for kind, a, b, _ in steps]
        assert world.broken == []
    parts = []
    for first in range(0, len(steps), 12):
        with world_in(tmp_path / "parts", keep_texts=True, **settings) as world:
            parts += [done(world, kind, a, b) for kind, a, b, _ in steps[first : first + 12]]
    assert parts == whole
    moved = [one for (kind, *_), one in zip(steps, whole, strict=True) if kind in ("together", "apart") and "id" in one]
    assert len(moved) > 9


def test_judged_pairs_give_a_threshold_with_an_interval_and_name_what_contradicts(tmp_path):
    """Of what was said last of each pair; a line that parts what others join is named. Few pairs give none."""
    with world_in(tmp_path, threshold=0.3) as world:
        for n in range(12):
            lines = [f"{word}{n}" for word in TEXT.split()]
            world.check(f"a{n}", " ".join(lines))
            edited = [*lines[: 6 + n], "new", *lines[7 + n :]]
            world.check(f"b{n}", " ".join(edited if n > 5 else lines[::-1]))
            kind = "together" if n > 5 else "apart"
            assert world.ask("POST", f"/v1/{kind}?a=a{n}&b=b{n}").status_code == 200
            if n == 8:
                found = world.ask("GET", "/v1/judged").json()
                assert (found["same"], found["different"], found["threshold"]) == (3, 6, None)
        found = world.ask("GET", "/v1/judged").json()
        assert found["contradictions"] == []
        assert (found["same"], found["different"], found["missed"], found["false"]) == (6, 6, 0, 0)
        assert 0 < found["low"] <= found["threshold"] <= found["high"] < 1
        for query in ("together?a=a0&b=a1", "together?a=a1&b=a2", "apart?a=a2&b=a0"):
            assert world.ask("POST", f"/v1/{query}").status_code == 200
        [line] = world.ask("GET", "/v1/judged").json()["contradictions"]
        assert line == {"number": 15, "time": line["time"], "who": "anyone"}


def test_each_signal_of_judged_pairs_has_a_threshold(tmp_path):
    """Their titles separate the stories and their texts do not; the answer to why has the similarity by each, of a
    pair by its title, too, and the audit log keeps them."""
    with world_in(tmp_path, scheme="signals:title=0.5,picture=0.9", threshold=0.9) as world:
        for n in range(12):
            words = [f"{word}{n}" for word in TEXT.split()]
            other = [*words[:-1], "new"] if n % 2 else [word[::-1] for word in words]
            for name, title in (("a", words), ("b", other)):
                text = " ".join(f"{name}{word}" for word in words[::-1])
                line = {"id": f"{name}{n}", "text": text, "title": " ".join(title)}
                assert world.ask("POST", "/v1/check", json=line).status_code == 200
            why = world.ask("GET", f"/v1/why?a=a{n}&b=b{n}").json()
            assert list(why["by_signal"]) == ["text", "title"]
            assert (why["by_signal"]["title"] > 0.8) == (n % 2 == 1)
            kind = "together" if n % 2 else "apart"
            assert world.ask("POST", f"/v1/{kind}?a=a{n}&b=b{n}").status_code == 200
        found = world.ask("GET", "/v1/judged").json()
        assert list(found["signals"]) == ["title"]
        title = found["signals"]["title"]
        assert (title["same"], title["different"], title["missed"], title["false"]) == (6, 6, 0, 0)
        assert 0 <= title["low"] <= title["threshold"] <= title["high"] < 1
        assert found["missed"] + found["false"] > 1


def test_what_was_said_is_found_without_a_look_at_every_line(tmp_path, monkeypatch):
    """Also in a store of before, which had no index: it gets one when it is opened."""
    with monkeypatch.context() as before:
        before.delitem(extra._SCRIPTS, "audit_pairs")
        with world_in(tmp_path) as world:
            for id_ in "ab":
                world.check(id_, f"{TEXT} {id_}")
            assert world.ask("POST", "/v1/apart?a=a&b=b").status_code == 200
    with world_in(tmp_path) as world:
        assert world.ask("GET", "/v1/why?a=b&b=a").json()["judged"]["did"] == "apart"
    lines, store = [], sqlite3.connect(tmp_path / "window.sqlite")
    with closing(store):
        store.set_trace_callback(lines.append)
        assert audit.last_said(store, audit.pair_of("ba", None))[0] == "apart"
        store.set_trace_callback(None)
        [(_, _, _, plan)] = store.execute(f"EXPLAIN QUERY PLAN {lines[-1]}")
    assert "USING INDEX audit_pairs (<expr>=? AND <expr>=? AND <expr>=?)" in plan
