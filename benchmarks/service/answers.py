"""S23: answered documents of ``neardup serve``, next to a bare service that does nothing but store them.

The bare service is what a user types in their place: one handler of Starlette, which decodes the body, inserts id and
text into a table of SQLite, commits, and answers with JSON. It compares nothing. Both have the same server (uvicorn),
the same journal of SQLite and the same durability, a process each, and answer the same documents in turns.

The client keeps its connections open and sends a document on each as soon as the one before is answered. It has its own
share of two cores, so the processor time of the service alone is reported as well.

``python -m benchmarks.service.answers bare FOLDER SYNCHRONOUS`` is the bare service.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.measure import processor_seconds
from benchmarks.report import Result, Size, Target
from benchmarks.texts import documents
from neardup import Document
from neardup_workers.outside.store.log import DURABILITIES

SEED = 23
ID = "S23-serve"
_ROOT = Path(__file__).resolve().parents[2]
_DOCUMENTS: dict[Size, int] = {"smoke": 40, "default": 4_000, "large": 20_000}
_TURNS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}
_CONNECTIONS = (1, 16, 64)
# Durability and connections -> the goal: least fraction of the bare service's throughput. One connection without a wait
# for the disk has none: there each document pays a whole step.
_RATIOS_MIN = {("full", 1): 0.6, ("full", 16): 0.75, ("full", 64): 0.8, ("normal", 16): 0.75, ("normal", 64): 0.8}
_KIND = "300w"


class Turn(NamedTuple):
    """One turn of a service: documents answered a second, and its own processor time for each in microseconds."""

    rate: float
    microseconds: float


def run(size: Size) -> Iterator[Result]:
    """The throughput of the service as a fraction of the bare one's, by durability and connections."""
    for durability in DURABILITIES:
        for connections in _CONNECTIONS:
            turns: dict[str, list[Turn]] = {"bare": [], "serve": []}
            for turn in range(_TURNS[size]):
                bodies = _bodies(documents(_KIND, _DOCUMENTS[size], SEED + turn))
                for name, taken in turns.items():
                    taken.append(_turn(name, durability, connections, bodies))
            details = {
                f"{name} {field}": statistics.median(getattr(turn, field) for turn in taken)
                for name, taken in turns.items()
                for field in Turn._fields
            }
            ratios = sorted(serve.rate / bare.rate for bare, serve in zip(*turns.values(), strict=True))
            details |= {"least ratio": ratios[0], "greatest ratio": ratios[-1]}
            details["by own processor time"] = details["bare microseconds"] / details["serve microseconds"]
            bound = _RATIOS_MIN.get((durability, connections))
            target = Target("at least", bound) if bound and size != "smoke" else None
            named = f"{durability}, {connections} connection{'s' * (connections > 1)}"
            yield Result(ID, named, statistics.median(ratios), "times the bare service", target, details)


def _bodies(stream: list[Document]) -> list[bytes]:
    return [orjson.dumps({"id": document.id, "text": document.text}) for document in stream]


def _turn(name: str, durability: str, connections: int, bodies: list[bytes]) -> Turn:
    """Start a service on an empty store, and send documents until all are answered; a few more come before."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            _command(name, folder, durability), cwd=folder, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
        )  # fmt: skip
        try:
            address = _address(process)
            _send(
                address, connections, [orjson.dumps({"id": f"w{n}", "text": f"warm {n}"}) for n in range(connections)]
            )
            before, begin = processor_seconds(process.pid), time.perf_counter()
            _send(address, connections, bodies)
            seconds = time.perf_counter() - begin
            own = processor_seconds(process.pid) - before
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    return Turn(len(bodies) / seconds, own / len(bodies) * 1e6)


def _command(name: str, folder: str, durability: str) -> list[str]:
    if name == "bare":
        return [sys.executable, "-m", __spec__.name, "bare", folder, DURABILITIES[durability][0]]
    options = ["--state", folder, "--port", "0", "--durability", durability]
    return [sys.executable, "-m", "neardup", "serve", *options]


def _address(process: subprocess.Popen[str]) -> tuple[str, int]:
    assert process.stderr is not None, "the process has a pipe"
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return "127.0.0.1", int(found[1])
    raise RuntimeError(f"the service ended with {process.wait()}")


def _send(address: tuple[str, int], connections: int, bodies: list[bytes]) -> None:
    """Send documents over connections that stay open, one at a time on each; return when all are answered."""
    head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    requests = iter([(head % len(body)).encode() + body for body in bodies])
    with selectors.DefaultSelector() as selector:
        for request in (next(requests, None) for _ in range(connections)):
            if request is not None:
                connection = socket.create_connection(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(request)
                selector.register(connection, selectors.EVENT_READ, bytearray())
        while selector.get_map():
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket), "only sockets are registered"
                connection, received = key.fileobj, key.data
                part = connection.recv(1 << 16)
                if not part:
                    raise RuntimeError("the service closed a connection")
                received += part
                if not _is_whole(received):
                    continue
                received.clear()
                request = next(requests, None)
                if request is None:
                    selector.unregister(connection)
                    connection.close()
                else:
                    connection.sendall(request)


def _is_whole(response: bytearray) -> bool:
    """Whether a response is there to its end. Raises ``RuntimeError`` if it is an error."""
    head, end, body = response.partition(b"\r\n\r\n")
    if not end:
        return False
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the service answered {bytes(response[:300])!r}")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None, "an answer of one document has a length"
    return len(body) >= int(length[1])


def bare(folder: str, synchronous: str) -> None:
    """The bare service, until a signal."""
    connection = sqlite3.connect(Path(folder) / "bare.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE documents (id TEXT PRIMARY KEY, text TEXT NOT NULL)")

    async def check(request: Request) -> JSONResponse:
        document = await request.json()
        connection.execute("INSERT INTO documents VALUES (?, ?)", (document["id"], document["text"]))
        connection.commit()
        return JSONResponse({"id": document["id"], "added": True})

    app = Starlette(routes=[Route("/v1/check", check, methods=["POST"])])
    uvicorn.run(app, port=0, access_log=False)


SCENARIOS = {ID: run}


if __name__ == "__main__":
    bare(sys.argv[2], sys.argv[3])
