"""Canaries of a service are seen in no answer, no row, no event and no metric but their own: a session runs twice,
with and without canaries, and everything that anyone can read of it is compared byte for byte."""

import asyncio
import itertools
import random
import sqlite3
import uuid
from contextlib import closing

import httpx
import orjson
import pytest
from service_world import NOW, opened

from neardup_workers.doing.http.events import Events
from neardup_workers.doing.http.server import started
from neardup_workers.outside.process.clock import ArrivalClock
from neardup_workers.outside.settings.serve import LIMITS, ServeSettings

STEPS = 120
READS = (
    "/v1/documents?limit=1000", "/v1/documents?status=duplicate&q=w1", "/v1/documents?id=d40",
    "/v1/documents?id=d41&near=true", "/v1/clusters?limit=1000", "/v1/clusters?sort=newest&strip=true",
    "/v1/clusters/0", "/v1/sources", "/v1/sources/s1", "/v1/stories.atom", "/v1/webhook", "/v1/feeds",
    "/v1/why?a=d40&b=d41", "/v1/differences?older=1&newer=2", "/healthz", "/readyz",
)  # fmt: skip
# Fields of the present figures, of the history and of metrics that are times of this machine.
TIMES = {"seconds_median", "seconds_p99"}
METRICS_OF_TIME = ("neardup_service_check_seconds", "process_", "python_")
METRICS_OF_CANARIES = ("neardup_canary_", "neardup_recall_alarm")


def parts():
    """Steps of documents, each with requests behind it: copies, edits, floods, new versions, refused and late ones."""
    rng = random.Random(7)
    bases = [" ".join(f"w{rng.randrange(900)}" for _ in range(rng.randint(3, 60))) for _ in range(60)]
    names, sent = itertools.count(), dict[str, str]()
    for step in range(STEPS):
        lines = []
        for _ in range(rng.choice([1, 3, 12])):
            n = next(names)
            text = rng.choice([bases[rng.randrange(60)], bases[rng.randrange(4)] + f" more{n % 50}", f"x{n} " * 9])
            id_ = f"d{n}"
            if n % 9 == 8:  # a new version
                id_ = rng.choice(list(sent)[-20:])
                text = sent[id_] + rng.choice(["", " corrected", " and other words" * 20])
            time = NOW + 30.0 * step - rng.choice([0, 0, 0, 0, 2_500, 9_000])
            text = "" if n % 23 == 11 else text
            sent[id_] = text
            line = {"id": id_, "text": text, "timestamp": time, "source": f"s{n % 5}", "title": f"t{n % 7} of {n}"}
            lines.append(line)
        yield step, lines


def requests():
    """The requests of a session in order, each with its second."""
    for step, lines in parts():
        at = NOW + 30.0 * step
        body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        if len(lines) == 1:
            yield at, "POST", "/v1/check", "application/json", body
            yield at, "POST", "/v1/check?add=false&nearest=3", "application/json", body
        else:
            yield at, "POST", "/v1/check:batch", "application/x-ndjson", body
        if step % 10 == 9:
            yield at, "DELETE", f"/v1/documents/{lines[0]['id']}", None, None
            yield at, "DELETE", f"/v1/documents?id={lines[-1]['id']}&block=true", None, None
        if step % 30 == 29:
            for path in (*READS, "/v1/figures", "/metrics"):
                yield at, "GET", path, None, None


def comparable(path, body):
    """An answer without what canaries say of themselves, and without times of this machine."""
    if path == "/metrics":
        lines = body.decode().splitlines()
        kept = [line for line in lines if not line.startswith((*METRICS_OF_TIME, *METRICS_OF_CANARIES))]
        return [line for line in kept if 'estimate="canaries"' not in line and not line.startswith("#")]
    if path != "/v1/figures":
        return body
    values = orjson.loads(body)
    assert values["recall"].pop("canaries")["faults"] == 0
    for part in (values["present"], values["history"]):
        for name in TIMES:
            part.pop(name, None)
    values.pop("operation")  # bytes of the process, and of what is free on the disk
    return values


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A function that holds the session with one restart, and returns all that can be read of it, and what canaries
    have found before and after the restart; the random names of a store are counted instead."""
    names, published, publish = itertools.count(), [], Events.publish

    def noted(events, verdicts, repeating=()):
        published.append((list(verdicts), list(repeating)))
        publish(events, verdicts, repeating)

    monkeypatch.setattr("secrets.token_hex", lambda size: f"{next(names):0{2 * size}x}")
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(names)))
    monkeypatch.setattr(Events, "publish", noted)

    def hold(clock, every):
        nonlocal names
        names = itertools.count()
        published.clear()
        folder, now, answers, recall = tmp_path / str(every), [NOW], [], []
        folder.mkdir()
        settings = ServeSettings(
            clock=clock, threshold=0.7, keep_texts=True, window_seconds=2_000.0,
            lateness_seconds=300.0, history_seconds=600.0, bucket_candidates_max=4,
            probe_candidates_max=8, blocked=str(folder / "blocked"), webhook="http://localhost/hook",
            webhook_secret="a secret of the web hook",
        )  # fmt: skip
        asked = list(requests())
        for part in (asked[: len(asked) // 2], asked[len(asked) // 2 :]):
            keeper = opened(folder / "state", settings, (lambda: now[0]) if clock == "arrival" else None, every)
            read = ArrivalClock(None, lambda: now[0], lambda: now[0])
            running = started(settings, keeper, lambda: None, read, limits=LIMITS._replace(ahead_seconds=1e9))
            try:
                answers += asyncio.run(_answers(running.app, part, now, keeper))
            finally:
                running.stop()
                keeper.log.close()
            recall.append(keeper.canaries.values())
        return {"answers": answers, "events": list(published), "files": _files(folder)}, recall

    return hold


async def _answers(app, asked, now, keeper):
    out = []
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        for at, method, path, kind, body in asked:
            now[0] = at
            headers = {} if kind is None else {"Content-Type": kind}
            answer = await client.request(method, path, content=body, headers=headers)
            names = {name: value for name, value in answer.headers.items() if name != "content-length"}
            out.append((method, path, answer.status_code, names, comparable(path, answer.content)))
            counts = keeper.counts()
            out.append((counts, keeper.matcher.table.stream_time, keeper.losses.values()))
    return out


def _files(folder):
    """Every file: a database as all rows of all tables, those that are behind virtual ones included."""
    found = {}
    # Checksums of pages are those of a file, and depend on when its changes were moved.
    for path in sorted(one for one in folder.rglob("*") if one.is_file() and one.suffix != ".sums"):
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes()
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as connection:
                listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
                tables = connection.execute(listed).fetchall()
                found[name] = {table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for (table,) in tables}
    return found


@pytest.mark.long
@pytest.mark.parametrize("clock", ["arrival", "event"])
def test_nothing_that_can_be_read_of_a_service_depends_on_canaries(clock, held):
    """Answers, lists, events, stories, sources, stored rows, the outbox of the web hook, words, counters, metrics,
    losses and the stream time after each request; with times of arrival and with those of documents."""
    (plain, none), (watched, recall) = held(clock, 0), held(clock, 2)
    assert [found["trials"] for found in none] == [0, 0]
    assert all(found["trials"] > 40 and not found["faults"] and not found["alarm"] for found in recall)
    for one, other in zip(plain["answers"], watched["answers"], strict=True):
        assert one == other
    assert plain["events"] == watched["events"]
    for name, rows in plain["files"].items():
        assert rows == watched["files"][name], name
    assert plain["files"].keys() == watched["files"].keys()


@pytest.mark.long
def test_the_session_has_what_could_differ(held):
    """Every status, refused and late documents, limits, removals, sources that lose pairs, words, events that wait."""
    found, _ = held("event", 0)
    verdicts = [verdict for verdicts, _ in found["events"] for verdict in verdicts]
    assert {verdict["status"] for verdict in verdicts} == {"original", "duplicate", "update"}
    assert any(verdict["late"] for verdict in verdicts)
    *_, (counts, stream_time, losses) = found["answers"]
    assert min(counts[name] for name in ("truncated", "removed", "expired", "copies", "late")) > 0
    assert stream_time > NOW * 1e6
    assert losses["sources"]
    [tables] = [rows for rows in found["files"].values() if isinstance(rows, dict)]
    assert all(tables[name] for name in ("documents", "sources", "texts", "outbox", "headlines_data"))
    assert {status for _, _, status, *_ in found["answers"][::2]} == {200, 404, 422}
