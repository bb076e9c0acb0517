"""A line of JSON for each request, and an id for each."""

import asyncio
import io
import json

import httpx
from service_world import TEXT, world_in

from neardup_workers.doing.http.access.log import RequestLog
from neardup_workers.outside.store.extra import audit

NAME = "X-Request-ID"


def test_requests_have_ids_and_lines_without_ids_of_documents(tmp_path):
    """The level says which requests have a line; an id that a client sends stays, unless it is none."""
    with world_in(tmp_path) as world:
        for level, logged in (("all", 4), ("refused", 1), ("errors", 0), ("off", 0)):
            stream = io.StringIO()
            app = RequestLog(world.guarded, level, stream)

            async def ask(app=app):
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
                    return [
                        await client.post("/v1/check", json={"id": "secret-id", "text": TEXT}, headers={NAME: "one.1"}),
                        await client.get("/v1/documents/secret-id?collection=", headers={NAME: "a b"}),
                        await client.get("/v1/sources?q=secret-id"),
                        await client.get("/v1/documents/other-id"),
                    ]

            answers = asyncio.run(ask())
            lines = list(map(json.loads, stream.getvalue().splitlines()))
            assert len(lines) == logged
            names = [one.headers[NAME] for one in answers]
            assert names[0] == "one.1"
            assert len(set(names)) == 4
            assert "a b" not in names
            assert "-id" not in stream.getvalue().replace(NAME, "")
            if level == "all":
                assert [one["request"] for one in lines] == names
                assert [(one["method"], one["path"], one["status"]) for one in lines][::3] == [
                    ("POST", "/v1/check", 200), ("GET", "/v1/documents/*", 404),
                ]  # fmt: skip


def test_a_start_with_other_settings_is_in_the_audit_log(tmp_path):
    """The first start says nothing, the same settings say nothing, and a change says both values."""
    with world_in(tmp_path) as world:
        writer = world.keeper.log.writer
        for n, settings in enumerate(({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 3, "b": 2})):
            with world.keeper.log.transaction():
                audit.start(writer, float(n), settings)
        [line] = world.ask("GET", "/v1/audit").json()["audit"]
    assert (line["who"], line["time"], line["did"], line["what"]) == ("start", 2.0, "settings", {"a": [1, 3]})
