"""Ids that a path cannot hold, bodies beyond memory, and what the metrics and the page of the service leave out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from program import Program

JSON = {"Content-Type": "application/json"}
TOKEN = "a-token-that-is-long-enough"
TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."


class Service:
    """A running service of the version under test."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: Any = None, token: str | None = TOKEN) -> tuple[int, Any]:
        """The status and the value of an answer."""
        connection = HTTPConnection(self.address, timeout=60)
        headers = JSON | ({} if token is None else {"Authorization": f"Bearer {token}"})
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if answer[:1] == b"{" else answer.decode()


@pytest.fixture(scope="module")
def service(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a window of 20 documents and a threshold of .55."""
    state = tmp_path_factory.mktemp("state")
    token = state / "token"
    token.write_text(TOKEN)
    options = ["--window-documents", 20, "--token-file", token, "--threshold", 0.55]
    with program.start("serve", "--state", state / "window", "--port", 0, *options) as process:
        assert process.stderr is not None
        address = next(line for line in process.stderr if "serving on" in line).split("//")[-1].strip()
        yield Service(address)
        process.terminate()


def test_a_port_that_cannot_answer_yet_is_closed(program: Program) -> None:
    """While the service compiles and restores, clients are refused; they do not wait in a queue."""
    code = """
import socket
from neardup_workers.doing.http.server import bound
with bound("127.0.0.1", 0) as address, socket.socket() as client:
    print(client.connect_ex(address.getsockname()) == 0)
"""
    assert program.code(code).stdout == b"False\n"


@pytest.mark.parametrize("id_", ["a\nb", "\n", ".", "..", "near", "a/../b", "c?d&id=e"])
def test_every_id_that_is_stored_can_be_read_and_removed(service: Service, id_: str) -> None:
    """The query takes any id; the path takes those with line feeds, too."""
    assert service.ask("POST", "/v1/check", {"id": id_, "text": f"{TEXT} {id_!r} {len(id_)}"})[0] == 200
    query = urlencode({"id": id_})
    status, found = service.ask("GET", f"/v1/documents?{query}")
    assert (status, found["id"]) == (200, id_)
    status, near = service.ask("GET", f"/v1/documents?{query}&near=true")
    assert (status, near["id"]) == (200, id_)
    if "\n" in id_:
        assert service.ask("GET", f"/v1/documents/{quote(id_, safe='')}")[0] == 200
    assert service.ask("DELETE", f"/v1/documents?{query}") == (200, {"id": id_, "removed": 1})
    assert service.ask("GET", f"/v1/documents?{query}")[0] == 404


def test_what_degrades_and_who_is_refused_is_counted(service: Service) -> None:
    """Evictions of the window and requests without a token are metrics of the service."""
    for n in range(30):
        document = {"id": f"n{n}", "text": f"{n} is the number of this text {n * n}"}
        assert service.ask("POST", "/v1/check", document)[0] == 200
    for _ in range(3):
        assert service.ask("GET", "/v1/figures", token="a-guess-of-the-token")[0] == 401
    _, metrics = service.ask("GET", "/metrics")
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("neardup_"))
    assert float(values["neardup_evicted_total"]) >= 10
    assert float(values['neardup_service_requests_total{status="401"}']) == 3
    assert {"neardup_late_total", "neardup_truncated_total"} <= values.keys()
    assert 'neardup_service_requests_total{status="421"}' in values


def test_the_page_knows_the_chance_of_a_pair_at_the_threshold(service: Service) -> None:
    """Ask says it where nothing is near. 0.1.0 took the nearest step of the curve, which lies below the threshold."""
    shown = service.ask("GET", "/v1/figures")[1]["settings"]
    step = min(shown["curve"], key=lambda point: abs(point[0] - 0.55))
    threshold, chance = shown.get("chances", [step])[0]
    assert threshold == 0.55
    assert chance > 0.9
