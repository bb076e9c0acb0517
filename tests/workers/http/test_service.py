"""The service: verdicts over HTTP, from a window on disk."""

import asyncio
import json
import socket
import sqlite3
import threading
import time
from urllib.parse import quote

import pytest
from service_world import NEAR, NOW, TEXT, listening, world_in
from starlette.requests import Request
from starlette.routing import Route

from neardup.documents.document import REASONS
from neardup.errors import ConfigError
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.problems import SERVICE_REASONS
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.serve import LIMITS, ServeSettings


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path / "state", keep_texts=True) as world:
        yield world


def test_a_check_answers_the_verdict_and_the_pairs(world):
    """The service adds the document; the next document matches it."""
    assert world.check("a", TEXT)["status"] == "original"
    answer = world.check("b", NEAR)
    assert (answer["status"], answer["duplicate_of"], answer["cluster"], answer["place"]) == ("duplicate", "a", 0, 1)
    assert [pair["id"] for pair in answer["pairs"]] == ["a"]
    assert 0.7 < answer["similarity"] == answer["pairs"][0]["similarity"]


def test_a_check_parses_no_query_where_there_is_none(world, monkeypatch):
    """Nor does a router try one path after the other."""

    def never(*given):
        raise AssertionError("it is looked at")

    monkeypatch.setattr(Request, "query_params", property(never))
    monkeypatch.setattr(Route, "matches", never)
    assert world.check("a", TEXT)["status"] == "original"
    with pytest.raises(AssertionError, match="looked at"):
        world.check("b", NEAR, "?add=false")


def test_a_body_that_is_there_needs_no_timer(world, monkeypatch):
    """One that comes in parts has one, and the same answer."""
    timed, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: (timed.append(seconds), timeout(seconds))[1])
    body = json.dumps({"id": "a", "text": TEXT}).encode()
    head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    head %= len(body)

    def answered(reader):
        """Whether the next response is 200; reads all of it, which may come in parts."""
        first, *lines = iter(lambda: reader.readline().strip().lower(), b"")
        reader.read(int(dict(line.split(b": ") for line in lines)[b"content-length"]))
        return first.startswith(b"http/1.1 200")

    with listening(world.app) as address, socket.create_connection(address) as one, one.makefile("rb") as reader:
        one.sendall(head + body)
        assert answered(reader)
        assert not timed
        one.sendall(head)
        while not timed:  # until the service waits for the body
            time.sleep(0.001)
        one.sendall(body)
        assert answered(reader)
        assert timed == [LIMITS.body_seconds_max]


def test_a_look_adds_nothing(world):
    """``add=false`` returns the pairs alone."""
    world.check("a", TEXT)
    assert world.check("b", NEAR, "?add=false")["added"] is False
    assert [pair["id"] for pair in world.check("b", NEAR, "?add=false")["pairs"]] == ["a"]
    assert world.ask("GET", "/v1/documents/b").status_code == 404


def test_a_retry_gets_the_stored_status_and_never_unchanged(world):
    """This holds for an original, for a duplicate, twice, and in one batch; cluster and related document stay too."""
    world.check("a", TEXT)
    world.check("b", NEAR)
    for _ in range(2):
        again = [world.check("a", TEXT), world.check("b", NEAR)]
        assert [(answer["status"], answer["repeated"], answer["cluster"]) for answer in again] == [
            ("original", True, 0),
            ("duplicate", True, 0),
        ]
    lines = "\n".join(json.dumps({"id": "c", "text": "Other words, its own ones."}) for _ in range(3))
    response = world.ask("POST", "/v1/check:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    answers = [json.loads(line) for line in response.content.splitlines()]
    assert [answer.get("status") for answer in answers] == ["original", "original", "original", None]
    assert [answer.get("repeated") for answer in answers] == [False, True, True, None]
    assert world.ask("GET", "/v1/documents/c").json()["status"] == "original"


def test_content_that_comes_back_after_another_is_no_repetition(world):
    """X, Y, X of one id are three versions."""
    answers = [world.check("a", text) for text in (TEXT, "Quarterly earnings were flat, said the chairman.", TEXT)]
    assert [answer["repeated"] for answer in answers] == [False, False, False]
    assert len(world.ask("GET", "/v1/documents/a").json()["versions"]) == 3


@pytest.mark.long
def test_of_racing_copies_one_is_the_original(world):
    """All requests are sent at the same time; the other copies are duplicates of the original."""
    requests = [("POST", "/v1/check", {"json": {"id": f"d{n}", "text": TEXT}}) for n in range(200)]
    answers = [response.json() for response in world.ask_all(requests)]
    [original] = [answer["id"] for answer in answers if answer["status"] == "original"]
    assert [answer["duplicate_of"] for answer in answers if answer["status"] == "duplicate"] == [original] * 199
    [cluster] = world.ask("GET", "/v1/clusters").json()["clusters"]
    assert (cluster["size"], cluster["representative"]) == (200, original)


def test_a_batch_answers_each_line_in_order_and_ends_with_done(world):
    """A bad line gets an error line; an empty line is a bad line; the rest continues."""
    lines = [
        json.dumps({"id": "a", "text": TEXT}).encode(), b"not JSON", b"", b'{"text": "no id"}',
        b'{"id": "\\ud800", "text": "x"}',
        *(json.dumps({"id": f"b{n}", "text": NEAR}).encode() for n in range(150)),
    ]  # fmt: skip
    headers = {"Content-Type": "application/x-ndjson"}
    response = world.ask("POST", "/v1/check:batch", content=b"\n".join(lines), headers=headers)
    answers = [json.loads(line) for line in response.content.splitlines()]
    assert [answer["error"]["reason"] for answer in answers[1:5]] == ["not_json", "not_json", "no_id", "id_surrogate"]
    assert [answer["id"] for answer in answers[5:-1]] == [f"b{n}" for n in range(150)]
    assert {answer["duplicate_of"] for answer in answers[5:-1]} == {"a"}
    assert answers[-1] == {"done": len(lines)}
    empty = world.ask("POST", "/v1/check:batch", content=b"", headers=headers)
    assert empty.content == b'{"done":0}\n'


def test_documents_clusters_and_reasons_can_be_read(world):
    """An id with a slash is encoded; members and ``why`` have the similarity of the answer; ``why`` shows passages."""
    world.check("https://a/1", TEXT)
    similarity = world.check("b", NEAR)["similarity"]
    assert world.ask("GET", "/v1/documents/https%3A%2F%2Fa%2F1").json()["status"] == "original"
    assert world.ask("GET", "/v1/documents/https%3A%2F%2Fa%2F1/near").json()["pairs"][0]["id"] == "b"
    [cluster] = world.ask("GET", "/v1/clusters?sort=recent").json()["clusters"]
    members = world.ask("GET", f"/v1/clusters/{cluster['cluster']}").json()["members"]
    assert [(one["id"], one["similarity"]) for one in members] == [("https://a/1", None), ("b", similarity)]
    why = world.ask("GET", "/v1/why", params={"a": "b", "b": "https://a/1"}).json()
    assert (why["older"], why["reason"], why["similarity"]) == ("https://a/1", "pair", similarity)
    assert [passage["text"] for passage in why["passages"] if passage["kind"] != "both"] == ["Sunday", "Monday"]
    assert world.ask("GET", "/v1/why", params={"a": "b", "b": "never"}).json()["reason"] == "unknown"


def test_two_versions_are_compared_by_their_places(world):
    """Also versions of one id; a place without a version is unknown, and so is that of a removed one."""
    places = [world.check(id_, text)["place"] for id_, text in (("a", TEXT), ("b", TEXT), ("a", NEAR))]
    asked = {"older": places[0], "newer": places[2]}
    passages = world.ask("GET", "/v1/differences", params=asked).json()["passages"]
    assert [one["text"] for one in passages if one["kind"] != "both"] == ["Sunday", "Monday"]
    assert world.ask("GET", "/v1/differences", params=asked | {"newer": 99}).json()["reason"] == "unknown_place"
    assert world.ask("GET", "/v1/differences", params={"older": 0}).json()["field"] == "newer"
    world.ask("DELETE", "/v1/documents/a").raise_for_status()
    assert world.ask("GET", "/v1/differences", params=asked).status_code == 404


def test_a_deleted_document_is_gone_from_the_answers_and_from_the_files(world, tmp_path):
    """No file of the state contains its id or its text; its duplicates stay, without its name."""
    world.check("secret-id", TEXT + " secret-text")
    world.check("b", TEXT + " other")
    assert world.ask("DELETE", "/v1/documents/secret-id").json() == {"id": "secret-id", "removed": 1}
    assert world.ask("DELETE", "/v1/documents/secret-id").status_code == 404
    assert world.ask("GET", "/v1/documents/secret-id").status_code == 404
    answer = world.ask("GET", "/v1/documents/b").json()
    assert (answer["status"], answer["duplicate_of"]) == ("duplicate", None)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert b"secret-id" not in stored
    assert b"secret-text" not in stored
    answer = world.check("c", TEXT + " other!")
    assert (answer["status"], answer["duplicate_of"], answer["cluster"]) == ("duplicate", "b", 0)


def test_a_blocked_document_stays_out_also_after_a_restart(tmp_path):
    """Its id with another text, and its text under another id, are refused: by the service that removed it at once, and
    by the next one."""
    blocked = str(tmp_path / "blocked.jsonl")
    with world_in(tmp_path / "state", blocked=blocked) as world:
        world.check("a b/\né", TEXT)
        removed = world.ask("DELETE", "/v1/documents", params={"id": "a b/\né", "block": "true"})
        assert (removed.status_code, removed.json()) == (200, {"id": "a b/\né", "removed": 1})
        unknown = world.ask("DELETE", "/v1/documents/never?block=true")
        assert (unknown.status_code, unknown.json()) == (200, {"id": "never", "removed": 0})
        assert world.ask("DELETE", "/v1/documents/never").status_code == 404
        _check_blocked(world)
    with world_in(tmp_path / "state", blocked=blocked) as world:
        _check_blocked(world)
        assert world.check("b", NEAR)["status"] == "original"


def _check_blocked(world):
    for id_, text in (("a b/\né", NEAR), ("other", TEXT), ("never", NEAR)):
        for query in ("", "?add=false"):
            problem = world.check(id_, text, query)
            assert (problem["reason"], problem["status"]) == ("blocked", 422)
            assert "--blocked" in problem["detail"]
    lines = "\n".join(json.dumps({"id": id_, "text": NEAR + " Again."}) for id_ in ("never", "free"))
    response = world.ask("POST", "/v1/check:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    first, second, done = map(json.loads, response.text.splitlines())
    assert (first["id"], first["error"]["reason"], second["added"], done) == ("never", "blocked", True, {"done": 2})
    assert world.ask("DELETE", "/v1/documents/free").json()["removed"] == 1


def test_a_removal_without_a_block_list_it_could_write_removes_nothing(tmp_path, world):
    """The problem says how to name one; where the list cannot be written, the document stays, too."""
    world.check("a", TEXT)
    problem = world.ask("DELETE", "/v1/documents/a?block=true").json()
    assert (problem["status"], problem["reason"], problem["field"]) == (409, "no_block_list", "block")
    assert "--blocked FILE" in problem["detail"]
    assert world.ask("DELETE", "/v1/documents/a?block=maybe").json()["reason"] == "parameter"
    assert world.ask("GET", "/v1/documents/a").status_code == 200
    folder = tmp_path / "lists"
    folder.mkdir()
    with world_in(tmp_path / "other", blocked=str(folder / "blocked.jsonl")) as other:
        other.check("a", TEXT)
        (folder / "blocked.jsonl").unlink()
        folder.rmdir()
        problem = other.ask("DELETE", "/v1/documents/a?block=true").json()
        assert (problem["status"], problem["reason"]) == (507, "block_list_unwritable")
        assert other.check("a", TEXT)["repeated"]


@pytest.mark.long
def test_a_full_disk_answers_507_and_loses_nothing(world):
    """The step is undone; when there is room again, the same document is an original."""
    world.check("a", TEXT)
    connection = world.keeper.log._writer
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    statuses = []
    for n in range(100):
        response = world.ask("POST", "/v1/check", json={"id": f"b{n}", "text": f"{NEAR} {n}" * 50})
        statuses.append(response.status_code)
    assert statuses[-1] == 507
    assert response.headers["Retry-After"] == "30"
    ready = world.ask("GET", "/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "full")
    counted = statuses.count(200) + 1
    assert world.keeper.matcher.table.documents == counted
    connection.execute("PRAGMA max_page_count = 1000000")
    assert world.check("after", "Words of its own, which nothing else has.")["place"] == counted
    assert world.check("a", TEXT)["repeated"]
    assert world.ask("GET", "/readyz").json() == {"status": "ok"}


def test_an_unknown_outcome_of_a_commit_ends_the_writer(world, monkeypatch):
    """This request and later ones get 503, and the process ends."""

    def fail():
        raise sqlite3.OperationalError("disk I/O error")

    world.check("a", TEXT)
    monkeypatch.setattr(world.keeper.log, "commit", fail)
    assert world.ask("POST", "/v1/check", json={"id": "b", "text": NEAR}).status_code == 503
    assert world.ask("POST", "/v1/check", json={"id": "b", "text": NEAR}).status_code == 503
    assert world.ask("GET", "/readyz").status_code == 503
    world.writer.stop()  # the thread answers the requests first, and says afterwards that it ended
    assert world.broken == [1]


def test_a_full_queue_answers_429(tmp_path):
    """The answer gives the time for a retry."""
    with world_in(tmp_path, queue_documents_max=1) as world:
        entered, leave = (threading.Event() for _ in range(2))
        world.writer.call(lambda keeper: (entered.set(), leave.wait()))
        entered.wait()
        waiting = world.writer.call(lambda keeper: None)
        response = world.ask("POST", "/v1/check", json={"id": "a", "text": TEXT})
        leave.set()
        waiting.result()
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")


JSON = {"Content-Type": "application/json"}
HOSTILE = {
    "not JSON": (b"{", JSON, 422, "not_json"),
    "an array": (b"[]", JSON, 422, "not_object"),
    "too deep": (b"[" * 100_000, JSON, 422, "too_deep"),
    "not UTF-8": (b'{"id": "\xff"}', JSON, 422, "not_utf8"),
    "no id": (b'{"text": "x"}', JSON, 422, "no_id"),
    "empty id": (b'{"id": "", "text": "x"}', JSON, 422, "no_id"),
    "id of a wrong type": (b'{"id": {}, "text": "x"}', JSON, 422, "id_type"),
    "lone surrogate": (b'{"id": "\\ud800", "text": "x"}', JSON, 422, "id_surrogate"),
    "id of 64 kB": (b'{"id": "%s", "text": "x"}' % (b"x" * 65_536), JSON, 422, "id_too_long"),
    "text of a wrong type": (b'{"id": "a", "text": 7}', JSON, 422, "text_type"),
    "empty text": (b'{"id": "a", "text": " "}', JSON, 422, "empty"),
    "text too long": (b'{"id": "a", "text": "%s"}' % (b"x" * 1001), JSON, 422, "text_too_long"),
    "milliseconds": (b'{"id": "a", "text": "x", "timestamp": %d}' % (NOW * 1000), JSON, 422, "timestamp_unit"),
    "a form": (b"id=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "content_type"),
    "no type": (b"{}", {}, 415, "content_type"),
    "compressed": (b"{}", {**JSON, "Content-Encoding": "gzip"}, 415, "encoding"),
    "too large": (b" " * 70_000, JSON, 413, "body_too_large"),
}


def test_hostile_bodies_get_a_problem_that_names_rule_and_remedy(tmp_path):
    """The service continues. A length that is too great is said with its bound."""
    with world_in(tmp_path, body_bytes_max=1 << 17, clock="event", text_characters_max=1000) as world:
        requests = []
        for name, (body, headers, _, _) in HOSTILE.items():
            requests.append(
                ("POST", "/v1/check", {"content": body * (2 if name == "too large" else 1), "headers": headers})
            )
        for response, (name, (_, _, status, reason)) in zip(world.ask_all(requests), HOSTILE.items(), strict=True):
            problem = response.json()
            assert (response.status_code, problem["reason"]) == (status, reason), name
            assert response.headers["content-type"] == "application/problem+json"
            assert problem["title"]
            bound = "it has 1,001 characters, at most 1,000 are read: --set text_characters_max=NUMBER"
            assert problem["detail"] == bound if reason == "text_too_long" else problem["detail"]
        assert world.check("a", TEXT)["status"] == "original"


@pytest.mark.parametrize("clock", ["arrival", "event"])
def test_a_time_that_is_none_costs_no_document(tmp_path, clock):
    """One that cannot be read or lies ahead of the clock counts as none, as in files and on topics, and is counted."""
    times = {"noon": "undated", "3/4/2026": "undated", "4999-01-01": "clamped", NOW + 301: "clamped"}
    with world_in(tmp_path, clock=clock) as world:
        for n, (time, counted) in enumerate(times.items()):
            assert world.check(f"d{n}", f"{TEXT} {n * n} of {n}", timestamp=time)["id"] == f"d{n}"
            version = world.ask("GET", f"/v1/documents/d{n}").json()
            assert (version["time"], version.get("date")) == (NOW, None), time
            assert world.observer.value(counted) == 1 + n % 2
        assert world.check("infinite", TEXT + " without an end", timestamp=float("1e300"))["id"] == "infinite"
        assert world.check("in", f"{TEXT} in time", timestamp=NOW + 299)["id"] == "in"


@pytest.mark.parametrize("id_", ["a\0b", "\u202eevil", "<script>alert(1)</script>", "..", "a b\n", "é" * 400])
def test_strange_ids_are_data(world, id_):
    """Answers return them unchanged; direction marks are escaped."""
    assert world.check(id_, TEXT)["id"] == id_
    path = f"/v1/documents/{quote(id_, safe='')}".replace("/..", "/%2E%2E")
    response = world.ask("GET", path)
    assert (id_ == "..") or response.json()["id"] == id_
    assert "\u202e".encode() not in response.content


def test_every_problem_has_a_rule_and_a_remedy():
    """The problems of the service and of the library have different names."""
    assert not SERVICE_REASONS.keys() & REASONS.keys()
    assert all(400 <= status < 600 and rule and remedy for status, rule, remedy in SERVICE_REASONS.values())


TOKEN = "a-token-of-enough-characters"


def test_without_the_token_no_request_is_answered(tmp_path, monkeypatch):
    """The token is missing, wrong, in the query string, or of another scheme; probes need none."""
    with world_in(tmp_path, token=TOKEN) as world:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            assert world.ask("GET", "/v1/clusters", headers=headers).status_code == 401
        assert world.ask("GET", f"/v1/clusters?token={TOKEN}").status_code == 401
        assert world.ask("GET", "/nothing").status_code == 401
        assert world.ask("GET", "/healthz").status_code == 200
        right = world.ask("GET", "/v1/clusters", headers={"Authorization": f"Bearer {TOKEN}"})
        assert right.status_code == 200


def test_metrics_can_be_opened_for_a_scraper_without_the_token(tmp_path):
    """Nothing else is opened by it."""
    with world_in(tmp_path, token=TOKEN, open_metrics=True) as world:
        response = world.ask("GET", "/metrics")
        assert (response.status_code, "neardup_ready 1.0" in response.text) == (200, True)
        assert world.ask("GET", "/v1/clusters").status_code == 401


def test_without_a_token_the_host_must_be_this_machine(world):
    """The service refuses a page of another site whose name resolves to this machine."""
    assert world.ask("GET", "/v1/clusters", headers={"Host": "evil.example:8470"}).status_code == 421
    for host in ("localhost:8470", "127.0.0.1", "[::1]:8470"):
        assert world.ask("GET", "/v1/clusters", headers={"Host": host}).status_code == 200


def test_an_address_that_others_reach_needs_a_token(tmp_path):
    """``insecure`` replaces the token. A token is long, has one source, and is never shown."""
    with pytest.raises(ConfigError, match="which others can reach"):
        tokens_of(ServeSettings(host="0.0.0.0"))
    assert tokens_of(ServeSettings(host="0.0.0.0", insecure=True)) is None
    assert tokens_of(ServeSettings(host="::1")) is None
    assert tokens_of(ServeSettings(host="0.0.0.0", token=TOKEN)).holder(TOKEN.encode())
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert tokens_of(ServeSettings(token_file=str(tmp_path / "token"))).holder(TOKEN.encode())
    with pytest.raises(ConfigError, match="16 ASCII characters"):
        tokens_of(ServeSettings(token="short"))
    with pytest.raises(ConfigError, match="leave out one"):
        tokens_of(ServeSettings(token=TOKEN, token_file="x"))
    with pytest.raises(Failure, match="cannot read"):
        tokens_of(ServeSettings(token_file=str(tmp_path / "missing")))
    with pytest.raises(ConfigError, match="tls="):
        ServeSettings(tls=("certificate", "key", "another"))
    assert TOKEN not in repr(ServeSettings(token=TOKEN))
