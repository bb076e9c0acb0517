"""The one writer of the service: the order of work, the size of steps, failures half-way, and who does not wait."""

import asyncio
import contextlib
import json
import sqlite3
import threading
import time

import httpx
import pytest
from service_world import NEAR, NOW, TEXT, opened, world_in

from neardup import Document
from neardup_workers.doing.http.writer import STEP_CHARACTERS, STEP_DOCUMENTS
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.log import Log

JSON = {"Content-Type": "application/json"}
JSON_LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path / "state") as world:
        yield world


@contextlib.contextmanager
def held(world):
    """Hold the writer in the middle of a step."""
    entered, leave = (threading.Event() for _ in range(2))
    world.writer.call(lambda keeper: (entered.set(), leave.wait()))
    entered.wait()
    try:
        yield
    finally:
        leave.set()


def decoded(world, id_, text):
    return world.decoding.document(json.dumps({"id": id_, "text": text}).encode())


def test_single_documents_go_before_lines_of_batches_in_steps_of_bounded_size(world):
    """A step has at most 64 documents and 256 kB of text, but for one document that is larger alone."""
    large, steps, check = "word " * (STEP_CHARACTERS // 5 + 10), [], world.keeper.check

    def seen(documents):
        steps.append([document.id for document in documents])
        return check(documents)

    world.keeper.check = seen
    with held(world):
        batch = [world.writer.check([decoded(world, f"b{n}", f"{TEXT} {n}")], batch=True) for n in range(70)]
        single = [world.writer.check([decoded(world, f"s{n}", f"{NEAR} {n}")]) for n in range(3)]
        last = [world.writer.check([decoded(world, f"large{n}", f"{n} {large}")], batch=True) for n in range(2)]
    for future in (*batch, *single, *last):
        future.result()
    first = ["s0", "s1", "s2", *(f"b{n}" for n in range(STEP_DOCUMENTS - 3))]
    assert steps == [first, [f"b{n}" for n in range(STEP_DOCUMENTS - 3, 70)], ["large0"], ["large1"]]


def test_reads_do_not_wait_for_the_writer(world):
    """Verdicts, clusters, health and metrics are answered while a step runs; lookups wait for it."""
    world.check("a", TEXT)
    world.check("b", NEAR)
    with held(world):
        assert world.ask("GET", "/v1/documents/b").json()["duplicate_of"] == "a"
        assert world.ask("GET", "/v1/clusters").json()["clusters"][0]["size"] == 2
        assert world.ask("GET", "/v1/clusters/0").json()["members"][1]["id"] == "b"
        assert world.ask("GET", "/readyz").status_code == 200
        assert "neardup_service_requests_total" in world.ask("GET", "/metrics").text
        look = world.writer.call(lambda keeper: keeper.near("a"))
        assert not look.done()
    assert [pair.older for pair in look.result()] == ["b"]


def test_if_the_store_fails_half_way_each_line_that_is_left_gets_an_error(world):
    """The lines before it are answered and stay; the answer is complete, with ``done`` at its end."""
    commit, commits = world.keeper.log.commit, []

    def fills():
        commits.append(1)
        if len(commits) == 2:
            world.keeper.log._writer.execute("PRAGMA max_page_count = 1")
        commit()

    world.keeper.log.commit = fills
    lines = [json.dumps({"id": f"d{n}", "text": f"{TEXT} {n}"}) for n in range(4 * STEP_DOCUMENTS)]
    response = world.ask("POST", "/v1/check:batch", content="\n".join(lines), headers=JSON_LINES)
    *answers, last = map(json.loads, response.content.splitlines())
    assert last == {"done": len(lines)}
    failed = [answer["error"]["reason"] for answer in answers if "error" in answer]
    assert failed
    assert set(failed) == {"store_full"}
    kept = len(lines) - len(failed)
    assert kept >= STEP_DOCUMENTS
    assert [answer["id"] for answer in answers] == [f"d{n}" for n in range(len(lines))]
    assert all("error" in answer for answer in answers[kept:])
    assert world.keeper.matcher.table.documents == kept
    assert world.observer.value("service_full") > 0


def test_a_retry_renews_the_time_of_a_document(tmp_path):
    """It stays in the window, while a document that was not sent again leaves it."""
    with world_in(tmp_path, window_seconds=100.0, clock="event") as world:
        world.check("a", TEXT, timestamp=NOW - 150)
        world.check("b", "Other words, which nothing else has, in a text of their own.", timestamp=NOW - 149)
        assert world.check("a", TEXT, timestamp=NOW - 60)["repeated"]
        world.check("c", "A third text, which is like neither of the two before it at all.", timestamp=NOW)
        assert world.check("d", NEAR, timestamp=NOW)["duplicate_of"] == "a"
        assert world.ask("GET", "/v1/documents/b").status_code == 404


def test_a_document_without_a_timestamp_has_the_time_of_the_server(world):
    """It is in the verdict."""
    world.check("a", TEXT)
    assert world.ask("GET", "/v1/documents/a").json()["time"] == NOW


def test_the_time_of_arrival_decides_and_the_date_is_shown(tmp_path):
    """Forty requests race with one text and dates before the window: one is the original, the others and a near-copy
    are duplicates, and a retry is repeated. With ``event`` each of them is late."""
    dated = [{"id": f"d{n}", "text": TEXT, "timestamp": NOW - 1000 - n} for n in range(40)]
    requests = [("POST", "/v1/check", {"json": document}) for document in dated]
    with world_in(tmp_path / "arrival", window_seconds=100.0) as world:
        world.check("now", "A text of now, which moves the time of the stream.", timestamp=NOW + 200)
        answers = [response.json() for response in world.ask_all(requests)]
        assert sorted(answer["status"] for answer in answers) == ["duplicate"] * 39 + ["original"]
        again = [response.json() for response in world.ask_all(requests)]
        assert [answer["status"] for answer in again] == [answer["status"] for answer in answers]
        assert all(answer["repeated"] for answer in again)
        assert world.check("near", NEAR, timestamp=0.0)["duplicate_of"] in {document["id"] for document in dated}
        stored = world.ask("GET", "/v1/documents/d3").json()
        assert (stored["time"], stored["date"]) == (NOW, NOW - 1003)
        assert world.ask("GET", "/v1/documents/now").json()["date"] == NOW + 200
    with world_in(tmp_path / "event", window_seconds=100.0, clock="event") as world:
        world.check("now", "A text of now, which moves the time of the stream.", timestamp=NOW)
        answers = [response.json() for response in world.ask_all(requests)]
        assert [(answer["status"], answer["late"]) for answer in answers] == [("original", True)] * 40
        assert world.ask("GET", "/v1/documents/d3").json()["date"] is None


def test_a_removal_erases_a_story_that_has_outlived_its_original(tmp_path):
    """The document has left the window; after ``DELETE`` its id and text are in no file, and the id is unknown."""
    with world_in(tmp_path, keep_texts=True, window_documents=5) as world:
        world.check("secret-id", f"{TEXT} And a secret.")
        world.check("copy", TEXT)
        for n in range(8):
            world.check(f"d{n}", f"The number {n * n} is the only content of document {n}, and of no other.")
        assert world.ask("GET", "/v1/documents/secret-id").status_code == 404
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"secret-id" in kept
        assert b"a secret" in kept
        assert world.ask("DELETE", "/v1/documents/secret-id").json() == {"id": "secret-id", "removed": 1}
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"secret-id" not in kept
        assert b"a secret" not in kept
        assert world.check("near", TEXT)["status"] == "original"
        assert world.ask("DELETE", "/v1/documents/secret-id").status_code == 404


def test_a_takedown_blocks_the_contents_of_a_story_that_has_outlived_its_original(tmp_path):
    """The original and its correction have left the window; both contents are refused from then on, also after a
    restart before the takedown."""
    corrected, settings = f"{TEXT} With a correction.", {"window_documents": 5, "blocked": str(tmp_path / "blocked")}
    with world_in(tmp_path / "state", **settings) as world:
        statuses = [world.check(id_, text)["status"] for id_, text in (("a", TEXT), ("copy", TEXT), ("a", corrected))]
        assert statuses == ["original", "duplicate", "update"]
        for n in range(8):
            world.check(f"d{n}", f"The number {n * n} is the only content of document {n}, and of no other.")
    with world_in(tmp_path / "state", **settings) as world:
        assert world.ask("GET", "/v1/documents/a").status_code == 404
        assert world.ask("DELETE", "/v1/documents/a?block=true").json()["removed"] == 1
        for text in (TEXT, corrected):
            answer = world.ask("POST", "/v1/check", json={"id": "another", "text": text}).json()
            assert answer["reason"] == "blocked"
        assert world.check("near", f"{TEXT} Once more.")["status"] == "original"


def test_the_time_of_arrival_never_falls(tmp_path):
    """The clock is set back, also between two processes; the window does not."""
    times = iter((NOW, NOW - 500.0, NOW - 1000.0, NOW + 1.0))
    keeper = opened(tmp_path, ServeSettings(window_seconds=100.0), lambda: next(times))
    found = [keeper.check([Document(id_, TEXT)])[0].verdict["time"] for id_ in "ab"]
    keeper.log.close()
    keeper = opened(tmp_path, ServeSettings(window_seconds=100.0), lambda: next(times))
    found += [keeper.check([Document(id_, TEXT)])[0].verdict["time"] for id_ in "cd"]
    keeper.log.close()
    assert found == [NOW, NOW, NOW, NOW + 1.0]


def test_a_batch_of_too_many_lines_is_refused_whole(tmp_path):
    """The largest allowed one is answered."""
    with world_in(tmp_path, batch_lines_max=3) as world:
        for count, status in ((3, 200), (4, 413)):
            lines = "\n".join(json.dumps({"id": f"d{n}", "text": TEXT}) for n in range(count))
            response = world.ask("POST", "/v1/check:batch", content=lines, headers=JSON_LINES)
            assert response.status_code == status
        assert response.json()["reason"] == "too_many_lines"


def test_bodies_are_bounded_together(tmp_path):
    """Of two that arrive at the same time, the one that does not fit is refused; then there is room again."""
    with world_in(tmp_path, body_bytes_max=4000, bodies_bytes_max=5000) as world:
        body = json.dumps({"id": "a", "text": TEXT, "more": "x" * 3000}).encode()
        one_holds, other_is_answered = asyncio.Event(), asyncio.Event()

        async def slowly():
            yield body[:-1]
            one_holds.set()
            await other_is_answered.wait()
            yield body[-1:]

        async def run():
            transport = httpx.ASGITransport(app=world.guarded)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
                one = asyncio.create_task(client.post("/v1/check", content=slowly(), headers=JSON))
                await one_holds.wait()
                refused = await client.post("/v1/check", content=body, headers=JSON)
                other_is_answered.set()
                return [
                    refused,
                    await one,
                    await client.post("/v1/check", content=body, headers=JSON),
                ]

        refused, *answered = asyncio.run(run())
        assert (refused.status_code, refused.json()["reason"]) == (503, "bodies_full")
        assert [response.status_code for response in answered] == [200, 200]


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_durability_decides_when_sqlite_waits_for_the_disk(durability, synchronous, tmp_path):
    """``full`` waits at every commit, ``normal`` at a checkpoint."""
    log = Log(tmp_path, {}, durability)
    assert log._writer.execute("PRAGMA synchronous").fetchone()[0] == synchronous
    assert log._writer.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    log.close()


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A service whose event loop may run steps, and the names of the threads that ran them. Every step is short and
    recent, however busy the machine is, and requests come when the writer's thread waits: on its way there it would
    take them itself."""
    for bound in ("_RECENT_SECONDS", "_SHORT_SECONDS"):
        monkeypatch.setattr(f"neardup_workers.doing.http.writer.{bound}", 3600.0)
    with world_in(tmp_path / "state", durability="normal") as world:
        threads, check, ask_all = [], world.keeper.check, world.ask_all

        def seen(documents):
            threads.append((threading.current_thread().name, len(documents)))
            return check(documents)

        def ask_idle(requests):
            while world.writer.alive and not world.writer._changed._waiters:
                time.sleep(0.001)
            return ask_all(requests)

        world.keeper.check, world.ask_all = seen, ask_idle
        yield world, threads


def checks(texts):
    return [("POST", "/v1/check", {"json": {"id": f"d{n}", "text": text}}) for n, text in enumerate(texts)]


def test_the_event_loop_decides_small_documents_behind_a_short_step(quick):
    """The first step belongs to the thread; then requests that are read together are one step of the loop, with the
    answers that the thread gives."""
    world, threads = quick
    texts = [f"{TEXT if n % 3 else NEAR} {n // 2}" for n in range(40)]
    world.check("first", "A text of its own, which no other document repeats.")
    answers = [response.json() for response in world.ask_all(checks(texts))]
    assert threads[0] == ("writer", 1)
    assert {name for name, _ in threads[1:]} == {"MainThread"}
    assert sum(count for _, count in threads) == 41
    assert len(threads) < 41
    order = [answer["id"] for answer in sorted(answers, key=lambda answer: answer["place"])]
    with world_in(world.keeper.log.path.parent.parent / "thread") as other:
        other.check("first", "A text of its own, which no other document repeats.")
        again = [other.check(id_, texts[int(id_[1:])]) for id_ in order]
    assert sorted(again, key=lambda answer: answer["id"]) == sorted(answers, key=lambda answer: answer["id"])


def test_a_request_that_the_next_turn_reads_joins_the_step_of_the_loop(quick):
    """So a step has more documents for one COMMIT."""
    world, threads = quick
    world.check("first", TEXT)
    while not world.writer._changed._waiters:
        time.sleep(0.001)

    async def submitted(turn):
        for _ in range(turn):
            await asyncio.sleep(0)
        await world.writer.check([Document(f"turn{turn}", TEXT)])

    async def both():
        await asyncio.gather(submitted(0), submitted(1))

    asyncio.run(both())
    assert threads == [("writer", 1), ("MainThread", 2)]


def test_a_request_that_is_alone_is_decided_at_once(tmp_path, monkeypatch):
    """Also where COMMIT waits for the disk: the event loop decides it behind a short step, without a hand-off."""
    for bound in ("_RECENT_SECONDS", "_SHORT_SECONDS"):
        monkeypatch.setattr(f"neardup_workers.doing.http.writer.{bound}", 3600.0)

    async def submitted():
        return world.writer.check_now([Document("alone", TEXT, 1.0)]), world.writer.check([Document("not", TEXT, 1.0)])

    with world_in(tmp_path / "state", durability="full") as world:
        world.check("first", TEXT)
        while not world.writer._changed._waiters:
            time.sleep(0.001)
        [[answer], _] = asyncio.run(submitted())
        assert answer.verdict["duplicate_of"] == "first"
        assert world.writer.call(lambda keeper: 1).result() == 1
        assert world.writer.check_now([Document("large", "word " * 10_000, 1.0)]) is None


def test_the_thread_decides_what_may_take_long(quick, monkeypatch):
    """A large document, any document after a pause or a long step, and other work than a check."""
    world, threads = quick
    world.check("first", TEXT)
    world.check("large", "word " * 10_000)
    world.check("small", NEAR)
    assert [name for name, _ in threads] == ["writer", "writer", "MainThread"]
    on = world.writer.call(lambda keeper: threading.current_thread().name).result()
    assert on == "writer"
    for bound, value in (("_RECENT_SECONDS", -1.0), ("_SHORT_SECONDS", -1.0)):
        with monkeypatch.context() as context:
            context.setattr(f"neardup_workers.doing.http.writer.{bound}", value)
            world.check(f"before {bound}", f"{TEXT} {bound}")
        threads.clear()
        world.check(f"after {bound}", f"{NEAR} {bound}")
        assert [name for name, _ in threads] == ["writer"]


def test_an_unknown_outcome_on_the_event_loop_ends_the_writer(quick, monkeypatch):
    """The request and all later ones get 503, and the thread ends."""
    world, threads = quick

    def fail():
        raise sqlite3.OperationalError("disk I/O error")

    world.check("a", TEXT)
    monkeypatch.setattr(world.keeper.log, "commit", fail)
    for id_ in "bc":
        assert world.ask("POST", "/v1/check", json={"id": id_, "text": NEAR}).status_code == 503
    world.writer.stop()
    assert (world.broken, [name for name, _ in threads]) == ([1], ["writer", "MainThread"])
    assert not world.writer.alive


def test_work_of_other_threads_waits_for_a_step_of_the_event_loop(quick):
    """It runs when the step has ended, on the writer's thread."""
    world, threads = quick
    world.check("first", TEXT)
    check, submitted = world.keeper.check, []

    def meanwhile(documents):
        submit = threading.Thread(
            target=lambda: submitted.append(world.writer.call(lambda keeper: keeper.matcher.table.documents))
        )
        submit.start()
        submit.join()
        return check(documents)

    world.keeper.check = meanwhile
    world.check("second", NEAR)
    assert submitted[0].result() == 2
    assert [name for name, _ in threads] == ["writer", "MainThread"]
