"""The ledger of sources in the service: what each source published, who was first, and which one repeats itself."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from ledger_replay import One, check, replay
from quick_parameters import quick_first
from service_world import NEAR, NOW, TEXT, World, edited, opened, world_in
from starlette.requests import Request

from neardup import Document
from neardup.stories.sources.names import source_of
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store import reading
from neardup_workers.outside.store.extra import sources
from neardup_workers.outside.store.extra.sources import ORDERS, load
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import StoreFull
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics
from neardup_workers.outside.telemetry.sources import SOURCES_SHOWN, measure_sources

URL = "https://www.first.example/a"


def test_a_document_keeps_source_url_and_title(tmp_path: Path) -> None:
    """The answer, the stored version, its cluster and its event have them; a removal erases them."""
    with world_in(tmp_path / "state") as world:
        shown = {"source": "first.example", "url": URL, "title": "Rain ?"}
        body = json.dumps({"id": "a", "text": TEXT, "url": URL, "title": "Rain \ud800"})
        answer = world.ask("POST", "/v1/check", content=body, headers={"Content-Type": "application/json"}).json()
        assert {name: answer[name] for name in shown} == shown
        second = world.check("b", NEAR, source="The  Wire", url="u" * 3_000, title="t" * 600)
        assert (second["source"], len(second["url"]), len(second["title"])) == ("the wire", 2_000, 500)
        [event] = world.events._after(-1, 1)
        for found in (
            event, world.ask("GET", "/v1/documents/a").json(), world.ask("GET", "/v1/clusters").json()["clusters"][0],
            world.ask("GET", "/v1/clusters/0").json()["members"][0],
        ):  # fmt: skip
            assert {name: found[name] for name in shown} == shown
        assert world.ask("DELETE", "/v1/documents/a").json()["removed"] == 1
        world.keeper.log.checkpoint()
        stored = world.keeper.log.path.read_bytes()
        assert URL.encode() not in stored
        assert b"Rain ?" not in stored


def test_the_requests_say_what_each_source_published(tmp_path: Path) -> None:
    """First by arrival and first by date are two answers; a refused document counts; names are read as sources are."""
    with world_in(tmp_path / "state") as world:
        world.check("1", TEXT, url=URL, timestamp=NOW - 60)
        world.check("2", NEAR, source="wire", timestamp=NOW - 3_660)
        world.check("3", " ", source="wire")
        found = world.ask("GET", "/v1/sources").json()
        assert (found["repeating"], found["exceeded"]) == ([], {})
        wire, first = found["sources"]
        assert (wire["source"], wire["documents"], wire["refused"], wire["duplicates"]) == ("wire", 2, 1, 1)
        assert (first["first_by_arrival"], first["first_by_date"], wire["first_by_date"]) == (1, 0, 1)
        assert wire["earlier_in"] == [{"source": "first.example", "documents": 1}]
        assert first["later_in"] == [{"source": "wire", "documents": 1}]
        assert wire["lag_seconds_by_arrival"] == 0
        assert wire["lag_seconds_by_date"] == pytest.approx(-3_600, rel=0.05)
        one = world.ask("GET", "/v1/sources/WWW.First.example.").json()
        assert {name: value for name, value in one.items() if name != "hours"} == first
        assert [hour["hour"] for hour in one["hours"]] == [NOW // 3600 * 3600]
        assert world.ask("GET", "/v1/sources?limit=1").json()["sources"] == [wire]
        assert world.ask("GET", "/v1/sources?limit=1&skip=1").json()["sources"] == [first]
        for order in ORDERS:
            listed = world.ask("GET", f"/v1/sources?sort={order}").json()["sources"]
            value = {"copies": lambda one: one["duplicates"] / one["documents"]}.get(order, itemgetter(order))
            kept = [value(one) for one in listed if value(one) is not None]
            assert kept == sorted(kept, reverse=order != "source"), order
            assert (len(listed), [value(one) for one in listed[len(kept) :]]) == (2, [None] * (2 - len(kept)))
        for path in ("/v1/sources/unknown", "/v1/sources/%ff", "/v1/sources/"):
            assert world.ask("GET", path).json()["reason"] == "unknown_source"


def test_a_story_says_how_many_sources_tell_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, and none where a member has none; a removed member tells nothing. A list counts those of the first
    members."""
    with world_in(tmp_path / "state") as world:
        for n, source in enumerate((None, "wire", "Wire", "post", "herald")):
            world.check(f"d{n}", TEXT, source=source)
        [story] = world.ask("GET", "/v1/clusters").json()["clusters"]
        assert (story["sources"], story["other_sources"]) == (3, ["wire", "wire", "post", "herald"])
        assert world.ask("GET", "/v1/clusters/0").json()["sources"] == 3
        monkeypatch.setattr(reading, "SOURCES_OF_MAX", 2)
        assert world.ask("GET", "/v1/clusters").json()["clusters"][0]["sources"] == 1
        assert world.ask("DELETE", "/v1/documents/d3").status_code == 200
        assert world.ask("GET", "/v1/clusters/0").json()["sources"] == 2


def documents_of(name: str, folder: Path) -> list[Document]:
    """The documents of a real set: by language, or by the host of their address."""
    if name == "itn_multilingual":
        rows = map(json.loads, (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines())
        return [Document(row["id"], row["text"], source=row["lang"]) for row in rows]
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    articles = [(row["url"], row["articleBody"]) for row in truth.values()]
    return [Document(f"{url}#{n}", text) for n in range(2) for url, text in articles]


@pytest.mark.parametrize("name", quick_first(["html_articles", "itn_multilingual"], 1))
def test_the_ledger_equals_a_replay_of_the_answers(name: str, real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """On real texts, with copies, retries, removals, full disks and restarts: in memory, and as requests read it."""
    documents, rng, clock = documents_of(name, real_data(name)), random.Random(3), [NOW]
    settings = ServeSettings(threshold=0.6, window_documents=800)
    keeper = opened(tmp_path, settings, lambda: clock[0])
    ones: list[One] = []
    for first in range(0, len(documents), 50):
        clock[0] += 400
        step = [*documents[first : first + 50], *rng.sample(documents[: first + 50], 5), Document("x", "", source="x")]
        step = [each._replace(timestamp=NOW - rng.randrange(9_000)) for each in step]
        if rng.random() < 0.2:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(keeper.log, "commit", full)
                with pytest.raises(StoreFull):
                    keeper.check(step)
        parts = [step] if rng.random() < 0.5 else [[one] for one in step]
        answers = [answer for part in parts for answer in keeper.check(part)]
        for document, answer in zip(step, answers, strict=True):
            verdict = answer.verdict
            status = "refused" if answer.refused else "unchanged" if verdict["repeated"] else verdict["status"]
            cluster, late = verdict.get("cluster", -1), verdict.get("late", False)
            date = None if answer.refused else document.timestamp
            ones.append(One(source_of(document) or "", status, cluster, late, clock[0], date))
        if rng.random() < 0.5:
            keeper.remove(rng.choice(step).id)
        if rng.random() < 0.2:
            keeper.log.close()
            keeper = opened(tmp_path, settings, lambda: clock[0])
    assert sum(one.status == "duplicate" for one in ones) > 100
    keeper.count_sources()
    expected, reader = replay(ones), StoreReader(keeper.log.path)
    assert {one["source"] for one in reader.ask(sources.overview, 1_000)["sources"]} == {
        one["source"] for one in expected.values()
    }
    for source, values in expected.items():
        found = reader.ask(sources.one, source)
        assert found is not None
        check(found, values)
        assert found == keeper._ledger.source(source)
    assert not reader.ask(sources.overview, 1)["exceeded"]
    assert len(keeper._ledger._stories) < sum(one.status == "original" for one in ones), "stories that ended are gone"
    keeper.log.close()


def test_documents_that_wait_to_be_counted_are_counted_after_a_restart(tmp_path: Path) -> None:
    """One keeper restarts after every document, without an end; of a few documents the ledger counts none before."""
    rng, found = random.Random(5), []
    stream = [
        Document(f"d{n}", f"{TEXT} {rng.choice('abcd') * 40}", NOW - rng.randrange(9), source=rng.choice("xyz"))
        for n in range(60)
    ]
    words = [" ".join(map(str, rng.sample(range(9**6), 40))) for _ in range(29)]
    words.insert(20, words[0])  # the copy of a document waits while that one leaves the window
    stream += [Document(f"w{n}", text, NOW, source="xyz"[n % 3]) for n, text in enumerate(words)]
    for restarts in (False, True):
        keeper = opened(tmp_path / f"{restarts}", settings := ServeSettings(window_documents=25), lambda: NOW)
        for n, document in enumerate(stream):
            keeper.check([document])
            if n == 30:
                keeper.remove("d25")
            if restarts:
                if n in (10, 20, 40):
                    assert keeper._sources.waits
                keeper.log.close()
                keeper = opened(tmp_path / f"{restarts}", settings, lambda: NOW)
        keeper.count_sources()
        assert not keeper._sources.waits
        reader = StoreReader(keeper.log.path)
        ledger = [(keeper._ledger.source(one), reader.ask(sources.one, one)) for one in "xyz"]
        found.append([*ledger, sorted(one for one in load(keeper.log.writer) if one.kind != "account")])
        keeper.log.close()
    assert found[0] == found[1]
    for number, waits in ((sources.WAITING_MAX, False), (sources.WAITING_MAX - 1, True)):
        with edited(keeper.log.path) as stored:  # by an earlier version, which counts each at once
            stored.execute(sources.COUNTED, (len(stream) - number,))
        keeper = opened(tmp_path / "True", settings, lambda: NOW)
        assert keeper._sources.waits == waits
        keeper.log.close()


def full() -> None:
    """A disk without room."""
    raise StoreFull("database or disk is full")


def test_a_refused_document_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it is refused as ever; then the ledger does not count it."""
    keeper = opened(tmp_path, ServeSettings(), lambda: NOW)
    monkeypatch.setattr(keeper.log, "commit", full)
    assert keeper.check([Document("a", "", source="s")])[0].refused == "empty"
    assert StoreReader(keeper.log.path).ask(sources.overview, 9)["sources"] == []
    monkeypatch.undo()
    keeper.check([Document("a", "", source="s")])
    assert StoreReader(keeper.log.path).ask(sources.overview, 9)["sources"][0]["refused"] == 1
    keeper.log.close()


def flood(keeper: Keeper | World, first: int, count: int) -> Any:
    """Documents of one text from one source."""
    documents = [Document(f"d{n}", TEXT, source="page.example") for n in range(first, first + count)]
    return keeper.check(documents) if isinstance(keeper, Keeper) else keeper.writer.check(documents).result()


def test_a_source_that_repeats_itself_is_an_event(tmp_path: Path) -> None:
    """Once, when the hour reaches 200 documents, also after a restart; then it is listed and a metric counts it."""
    with world_in(tmp_path / "state") as world:
        seen: list[Any] = []
        publish = world.events.publish
        world.events.publish = lambda verdicts, repeating=(): (seen.extend(repeating), publish(verdicts, repeating))
        for first in range(0, 180, 60):
            flood(world, first, 60)
        assert not seen
        flood(world, 180, 40)
        hour = {"source": "page.example", "hour": NOW // 3600 * 3600, "documents": 220, "repeated": 219}
        assert seen == [hour]
        flood(world, 220, 10)
        assert seen == [hour]
        hour |= {"documents": 230, "repeated": 229}
        assert world.ask("GET", "/v1/sources").json()["repeating"] == [hour]
    with world_in(tmp_path / "state") as world:
        flood(world, 230, 10)
        assert world.keeper.take_repeating() == []
        assert world.ask("GET", "/v1/sources").json()["repeating"][0]["repeated"] == 239
    with world_in(tmp_path / "other") as world:
        for n in range(206):
            flood(world, n, 1)
    with world_in(tmp_path / "other") as world:  # what waits to be counted waits through a stop

        async def sent() -> Any:
            scope = {"type": "http", "method": "GET", "query_string": b"", "headers": []}
            stream = world.events.response(Request(scope)).body_iterator  # type: ignore[attr-defined]
            await anext(stream)
            await asyncio.to_thread(world.ask, "GET", "/v1/sources")
            return await anext(stream)

        assert asyncio.run(sent()).startswith(b'event: repeating\ndata: {"source":"page.example"')


def test_damaged_parts_of_the_ledger_are_left_out(tmp_path: Path) -> None:
    """The others are read."""
    keeper = opened(tmp_path, ServeSettings(), lambda: NOW)
    keeper.check([Document("a", TEXT, source="s"), Document("b", NEAR, source="t")])
    path = keeper.log.path
    keeper.log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sources SET documents = 'many' WHERE source = 's'")
        kept = list(load(connection))
    assert {one.key[0] for one in kept if one.kind == "account"} == {"t"}
    assert {one.kind for one in kept} == {"account", "pair", "stories"}


def test_metrics_name_the_largest_sources(tmp_path: Path) -> None:
    """Twenty by name, the others together; a source that is no longer among them loses its series."""
    keeper = opened(tmp_path, ServeSettings(), lambda: NOW)
    reader, observer = StoreReader(keeper.log.path), Metrics(SERVE)

    def series(name: str) -> dict[str, float]:
        keeper.count_sources()
        measure_sources(observer, reader, NOW + 3_600)
        [family] = [one for one in observer.collect() if one.name == f"neardup_{name}"]
        return {one.labels.get("source", ""): one.value for one in family.samples}

    keeper.check([Document(f"d{n}", f"Number {n}. " * 30, source=f"s{n:02}") for n in range(22)])
    found = series("source_documents")
    assert found == {**{f"s{n:02}": 1 for n in range(SOURCES_SHOWN)}, "(others)": 2}
    keeper.check([Document(f"e{n}", "None is named.") for n in range(3)] + [Document("f", "Another.", source="s21")])
    found = series("source_documents")
    assert (found["(none)"], found["s21"], found["(others)"], "s19" in found, "s20" in found) == (3, 2, 3, False, False)
    assert series("source_own_duplicates")["(none)"] == 2  # of one another, though no source says so
    assert series("sources_repeating") == {"": 0}
    flood(keeper, 0, 220)
    assert series("sources_repeating") == {"": 1}
    keeper.log.close()
