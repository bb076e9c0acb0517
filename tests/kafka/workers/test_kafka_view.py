"""``neardup serve --from-kafka`` on a real broker: one process that shows a deployment and sends documents to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from import_path import SOURCES
from kafka_world import World, stories

from neardup.documents.document import Document
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.names import LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run

ROOT = Path(__file__).resolve().parents[3]
Worlds = Callable[..., World]


# The command; a request waits longer for its verdict than a slow machine takes for it.
_PATIENT = """
import sys
from neardup_workers.outside.settings import serve
serve.LIMITS = serve.LIMITS._replace(verdict_seconds_max=60.0)
from neardup_workers.main import main
sys.exit(main())
"""


class Serving:
    """A process of the service; ``url`` is its address. ``stop`` ends it."""

    def __init__(self, world: World, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        given = {f"NEARDUP_{name.upper()}": str(value) for name, value in world.given.items()}
        command = [sys.executable, "-c", _PATIENT, "serve", "--from-kafka", "--state", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--bootstrap-servers", world.kafka.bootstrap_servers],
            cwd=folder.parent, env={**kept, "PYTHONPATH": SOURCES, **given}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        said: list[str] = []
        for line in self.process.stderr:
            said.append(line)
            if "serving on" in line:
                break
        else:
            self.process.kill()
            pytest.fail("".join(said))
        self.url = said[-1].split()[-1]

    def stop(self) -> int:
        """End the process by SIGTERM; return its code."""
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode


@pytest.fixture
def serve() -> Iterator[Callable[[World, Path], Serving]]:
    """Start services; the end of the test kills those that still run."""
    started: list[Serving] = []

    def start(world: World, folder: Path) -> Serving:
        started.append(Serving(world, folder))
        return started[-1]

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.process.kill()
            serving.process.communicate()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def committed(world: World) -> dict[str, dict[str, Any]]:
    """The committed verdict of each id."""
    lines = [line for record in world.records(world.topics.verdicts) for line in parse_run(record.value)]
    return {line["id"]: line for line in lines}


def test_a_view_answers_with_the_verdicts_that_the_deployment_commits(
    worlds: Worlds, tmp_path: Path, pool: ThreadPoolExecutor, serve: Callable[[World, Path], Serving]
) -> None:
    """It reads what was there before it, sends documents and removals, and goes on after a restart. A copy is said to
    be apart: its later copies follow it, by another linker."""
    world = worlds(verdicts=True)
    for role in (SIGN, MATCH, LINK):
        world.place(role)
    documents = stories(60)
    world.load(documents[:30])
    world.run(lambda: len(committed(world)) == 30, "the first thirty have a verdict")
    serving = serve(world, tmp_path / "view")
    client = httpx.Client(base_url=serving.url, timeout=120)

    def ask(method: str, path: str, **options: Any) -> Future[httpx.Response]:
        return pool.submit(client.request, method, path, **options)

    def answered(requests: list[Future[httpx.Response]]) -> list[Any]:
        world.run(lambda: all(request.done() for request in requests), "all are answered")
        return [request.result().json() for request in requests]

    sent = [{"id": d.id, "text": d.text, "timestamp": d.timestamp} for d in documents[30:45]]
    checked = answered([ask("POST", "/v1/check", json=document) for document in sent])
    lines = "\n".join(json.dumps({"id": d.id, "text": d.text, "timestamp": d.timestamp}) for d in documents[45:])
    request = ask("POST", "/v1/check:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    world.run(request.done, "the batch is answered")
    *batch, last = map(json.loads, request.result().content.splitlines())
    assert last == {"done": 15}
    verdicts = committed(world)
    assert len(verdicts) == 60
    assert [answer["id"] for answer in [*checked, *batch]] == [document.id for document in documents[30:]]
    for answer in [*checked, *batch]:
        line = verdicts[answer["id"]]
        assert (answer["status"], answer["duplicate_of"], answer["place"]) == (
            line["status"], line.get("duplicate_of"), line["arrival"],
        )  # fmt: skip
    assert {answer["status"] for answer in checked} == {"original", "duplicate"}
    paired = next(answer for answer in [*checked, *batch] if answer["status"] == "duplicate")
    assert paired["duplicate_of"] in [pair["id"] for pair in paired["pairs"]]
    [removed] = answered([ask("DELETE", f"/v1/documents/{documents[0].id}")])
    assert removed == {"id": documents[0].id, "removed": 1}
    client.close()
    assert serving.stop() == Exit.TERMINATED
    serving = serve(world, tmp_path / "view")
    with httpx.Client(base_url=serving.url, timeout=120) as client:
        world.run(lambda: client.get("/readyz").status_code == 200, "the view has everything")
        assert client.get(f"/v1/documents/{documents[0].id}").status_code == 404
        for document in documents[1:]:
            [version] = client.get(f"/v1/documents/{document.id}").json()["versions"]
            assert version["place"] == verdicts[document.id]["arrival"]
        assert client.get("/v1/why", params={"a": "d1", "b": "d2"}).status_code == 501
        _check_judged(world, documents[1:], lambda path, **options: answered([ask("POST", path, **options)])[0])
    assert serving.stop() == Exit.TERMINATED


def _check_judged(world: World, documents: list[Document], post: Callable[..., Any]) -> None:
    """A copy that was said to be apart leads its later copies, by another linker."""
    verdicts, texts = committed(world), {document.id: document.text for document in documents}
    duplicates = ((id_, str(line.get("duplicate_of"))) for id_, line in verdicts.items())
    copy, first = next((id_, of) for id_, of in duplicates if of in texts and texts[id_] != texts[of])
    said = post("/v1/apart", params={"a": first, "b": copy})
    assert (said["id"], committed(world)[copy]["judged"]) == (copy, True)
    world.places[2].kill()
    later = post("/v1/check", json={"id": "later", "text": texts[copy]})
    assert (later["duplicate_of"], later["cluster"]) == (copy, said["cluster"])
