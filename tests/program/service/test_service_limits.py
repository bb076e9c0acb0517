"""Ids that a path cannot hold, bodies beyond memory, and what the metrics and the page of the service leave out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from service_process import Serving

from neardup_workers.doing.http.server import bound

TOKEN = "a-token-that-is-long-enough"
TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a window of 20 documents and a threshold of .55."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "token").write_text(TOKEN)
    serving = Serving(folder, "--window-documents", "20", "--token-file", "token", "--threshold", ".55")
    with httpx.Client(base_url=serving.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60.0) as client:
        yield client
    serving.kill()


def test_a_port_that_cannot_answer_yet_is_closed() -> None:
    """While the service compiles and restores, clients are refused; they do not wait in a queue."""
    with bound("127.0.0.1", 0) as address, socket.socket() as client:
        assert client.connect_ex(address.getsockname()) != 0


@pytest.mark.parametrize("id_", ["a\nb", "\n", ".", "..", "near", "a/../b", "c?d&id=e"])
def test_every_id_that_is_stored_can_be_read_and_removed(service: httpx.Client, id_: str) -> None:
    """The query takes any id; the path takes those with line feeds, too."""
    named = {"id": id_}
    added = service.post("/v1/check", json=named | {"text": f"{TEXT} {id_!r} {len(id_)}"})
    assert added.status_code == 200
    for parameters in (named, named | {"near": "true"}):
        found = service.get("/v1/documents", params=parameters)
        assert (found.status_code, found.json()["id"]) == (200, id_)
    if "\n" in id_:
        assert service.get(f"/v1/documents/{quote(id_, safe='')}").status_code == 200
    removed = service.delete("/v1/documents", params=named)
    assert (removed.status_code, removed.json()) == (200, {"id": id_, "removed": 1})
    assert service.get("/v1/documents", params=named).status_code == 404


def test_what_degrades_and_who_is_refused_is_counted(service: httpx.Client) -> None:
    """Evictions of the window and requests without a token are metrics of the service."""
    for n in range(30):
        document = {"id": f"n{n}", "text": f"{n} is the number of this text {n * n}"}
        assert service.post("/v1/check", json=document).status_code == 200
    guess = {"Authorization": "Bearer a-guess-of-the-token"}
    assert [service.get("/v1/figures", headers=guess).status_code for _ in range(3)] == [401] * 3
    metrics = service.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("neardup_"))
    assert float(values["neardup_evicted_total"]) >= 10
    assert float(values['neardup_service_requests_total{status="401"}']) == 3
    assert {"neardup_late_total", "neardup_truncated_total"} <= values.keys()
    assert 'neardup_service_requests_total{status="421"}' in values


def test_the_page_knows_the_chance_of_a_pair_at_the_threshold(service: httpx.Client) -> None:
    """Ask says it where nothing is near."""
    threshold, chance = service.get("/v1/figures").json()["settings"]["chances"][0]
    assert threshold == 0.55
    assert chance > 0.9
