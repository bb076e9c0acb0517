"""A plain check gets the answer that the application gives, with the same rules."""

import hashlib
import io
import json

import httpx
import pytest
from service_world import NEAR, TEXT, listening, world_in

from neardup_workers.doing.http.access.log import RequestLog
from neardup_workers.doing.http.answers.direct import Direct

TOKEN = "a-token-of-some-letters"
# A header with which a request is not plain.
OTHER = {"X-Forwarded-Proto": "http"}
LINE = {
    "name": "one", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "roles": ["write"],
    "documents_per_minute": 4, "bytes_per_minute": 2_000,
}  # fmt: skip
GIVEN = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
ASKED = [
    (200, GIVEN, {"id": "é", "text": TEXT}),
    (
        200,
        {**GIVEN, "Content-Type": "Application/JSON;a=b", "X-Request-ID": "mine"},
        {"id": 1, "text": NEAR},
    ),
    (500, GIVEN, {"id": "fails", "text": TEXT}),
    (422, GIVEN, {"id": "b", "text": ""}),
    (429, GIVEN, {"id": "c", "text": TEXT}),
    (429, GIVEN, {"id": "d", "text": "word " * 400}),
    (415, {**GIVEN, "Content-Type": "text/plain"}, {}),
    (415, {**GIVEN, "Content-Encoding": "gzip"}, {}),
    (401, {**GIVEN, "Authorization": "Bearer another"}, {}),
]


def failing(check):
    """A check that fails for one document."""
    return lambda documents: 1 / 0 if documents[0].id == "fails" else check(documents)


@pytest.mark.parametrize("more", [{}, OTHER], ids=["plain", "other"])
def test_both_ways_answer_alike(more, tmp_path, monkeypatch):
    """Status, headers, values, counts, and a line of the log; what is refused or fails, too."""
    (tmp_path / "tokens").write_text(json.dumps(LINE))
    monkeypatch.setattr("neardup_workers.doing.http.access.tokens._MINUTE", 1e9)  # none begins between two requests
    stream, plain = io.StringIO(), []
    with world_in(tmp_path / "state", token_file=str(tmp_path / "tokens"), host="0.0.0.0") as world:
        for name in ("check", "check_now"):
            monkeypatch.setattr(world.writer, name, failing(getattr(world.writer, name)))
        log = RequestLog(world.guarded, "all", stream)
        direct = Direct(world.app.state.check, world.guarded, log)

        async def answered(scope, body):
            plain.append(body)
            return await direct(scope, body)

        apart = httpx.Limits(max_keepalive_connections=0)  # the application ends a connection behind an error
        with (
            listening(log, answered) as (host, port),
            httpx.Client(base_url=f"http://{host}:{port}", limits=apart) as client,
        ):
            answers = [
                client.post("/v1/check", content=json.dumps(body), headers=headers | more)
                for _, headers, body in ASKED
            ]  # fmt: skip
        requests = {status: world.observer.value("service_requests", str(status)) for status in (200, 422, 415)}
        assert (requests, world.observer.value("service_check_seconds")) == ({200: 2, 422: 1, 415: 2}, 2)
    assert [one.status_code for one in answers] == [status for status, _, _ in ASKED]
    assert len(plain) == (0 if more else len(ASKED))
    lines = list(map(json.loads, stream.getvalue().splitlines()))
    assert [(one["request"], one["status"], one["path"], one["bytes"]) for one in lines] == [
        (one.headers["X-Request-ID"], one.status_code, "/v1/check", int(one.headers["Content-Length"]))
        for one in answers
    ]
    assert [one["token"] for one in lines] == ["one"] * 8 + [None]
    assert answers[1].headers["X-Request-ID"] == "mine"
    assert [name.lower() for name, _ in answers[0].headers.raw] == [
        b"date", b"server", b"content-length", b"content-type", b"x-request-id",
    ]  # fmt: skip
    assert (answers[2].text, answers[2].headers["Content-Type"]) == (
        "Internal Server Error",
        "text/plain; charset=utf-8",
    )
    assert "Connection" not in answers[2].headers
    assert 1 <= int(answers[4].headers["Retry-After"]) <= 60
    assert [one.json().get("reason") for one in answers[3:]] == [
        "empty", "quota", "quota", "content_type", "encoding", "no_token",
    ]  # fmt: skip
    assert [one.json()["id"] for one in answers[:2]] == ["é", "1"]
    assert answers[1].json()["duplicate_of"] == "é"
