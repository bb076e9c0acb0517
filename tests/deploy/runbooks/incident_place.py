"""Where an incident of a runbook happens: what Prometheus scrapes there, and the commands of the runbook, run there.

A place shows the metrics of one process under the job of its alert. Workers are the real ones, on the twin of Kafka in
memory; a service and a watcher of feeds are the real ones on loopback. Each place has a job of its own, so an alert
there is about the incident there.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from memory_transport import MemoryCluster, MemoryTransport
from rich.console import Console
from shell_harness import Bench, Until
from typer.testing import CliRunner

from neardup_workers.outside.telemetry.health import Health, application
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import SIGN
from neardup_workers.running.cli.app import app
from neardup_workers.running.service.roles import ROLES

COMMAND_SECONDS_MAX = 180.0
ABSENT = 127  # what a shell says of a program that is not there
# A table as wide as this folds no sentence.
COLUMNS = 400


class Ran(NamedTuple):
    """What a command did; code ``ABSENT`` with the name of a program that this machine lacks."""

    command: str
    code: int
    output: str


class Done(NamedTuple):
    """What a command of neardup did: its code, its standard output, and all that it said."""

    code: int
    stdout: bytes
    output: str


class _Until(Until):
    """The stop signal of a worker that has taken all that there is; one that cannot ends by its turns."""

    def __init__(self, bench: Bench, role: str) -> None:
        super().__init__(lambda: role in ROLES and bench.has_taken_all(role), bench.cluster)

    def install(self) -> None:
        """Take over no signal: this is the process of the tests."""


class _Staffed(MemoryTransport):
    """A client that finds a member in each group: the workers took turns here, and left. Absent ones are not there."""

    def __init__(self, cluster: MemoryCluster, absent: set[str], wait: Callable[[float], None]) -> None:
        super().__init__(cluster, wait)
        self._absent = absent

    def members(self, group: str) -> int:
        return 0 if group in self._absent else max(1, super().members(group))


class Place:
    """One row's deployment. ``is_down``: the process that is scraped here does not answer.

    ``moments``: each scrape sees another one, for a rule that fires when nothing changes between two scrapes: moments
    that come by themselves come too seldom on a busy machine.
    """

    def __init__(self, alert: str, job: str, folder: Path) -> None:
        self.alert, self.job, self.folder = alert, job, folder
        self.is_down = False
        self.target = ""  # host and port of a process that serves itself; else the exporter shows what is here
        self.bench = Bench()
        self.absent: set[str] = set()  # roles that have no member
        self.tick: Callable[[], object] = lambda: None  # what goes on while a command waits
        self.moments: Iterator[None] = itertools.repeat(None)
        self._turn = threading.Lock()  # scrapes come from threads of their own
        self.closing = ExitStack()
        self.show(Metrics(SIGN), Health(1e9))

    def show(self, metrics: Metrics, health: Health) -> None:
        """Let Prometheus scrape this process."""
        self.metrics, self.answer = metrics, application(metrics.registry, health)

    def show_worker(self, role: str, **changes: object) -> Bench:
        """Make a deployment in memory, and show its worker of a role."""
        self.bench = Bench(**changes)
        self.bench.health[role] = Health(1e9)  # it takes turns when its incident has one
        self.show(self.bench.metrics[role], self.bench.health[role])
        return self.bench

    def scraped(self, asked: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        """The answer to a scrape, a moment later than the one before."""
        with self._turn:
            next(self.moments)
            return self.answer(asked, start)

    def stand_still(self) -> None:
        """Let scrapes see no further moments."""
        with self._turn:
            self.moments = itertools.repeat(None)

    def run(self, command: str, exporter: str) -> Ran:
        """Run a line of a runbook with the addresses of this place."""
        shown = f"{exporter}/{self.alert}"
        here = {"WORKER:9464": shown, "SERVICE:8470": self.target or shown, "FEED:PORT": self.target}
        for name, address in {**here, "FOLDER": str(self.folder)}.items():
            command = command.replace(name, address)
        first, _, rest = command.partition(" | ")
        for program in (part.split()[0] for part in command.split(" | ")):
            if program != "neardup" and shutil.which(program) is None:
                return Ran(command, ABSENT, program)
        if not first.startswith("neardup "):
            return self._shell(command, command)
        done = self._neardup(first.split()[1:])
        if not rest:
            return Ran(command, done.code, done.output)
        return self._shell(command, rest, done.stdout)

    def _shell(self, command: str, line: str, given: bytes = b"") -> Ran:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        return Ran(command, done.returncode, done.stdout.decode())

    def _neardup(self, words: list[str]) -> Done:
        """Run the command in this process, with the settings of the deployment and its broker in memory.

        A worker works until it has taken all that there is; its log belongs to the output.
        """
        settings = self.bench.settings
        given = {name: getattr(settings, name) for name in settings.model_fields_set if name != "start"}
        kept = {name: None for name in os.environ if name.startswith("NEARDUP_")}
        environment = {**kept, "NEARDUP_HEALTH_PORT": "0"}
        environment |= {f"NEARDUP_{k.upper()}": str(v) for k, v in given.items()}
        log = io.StringIO()
        handler, root = logging.StreamHandler(log), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        try:
            with ExitStack() as patches:
                for name, stand_in in (
                    ("outside.transport.kafka.connect.connect", lambda settings: self.transport()),
                    ("running.commands.tail.connect", lambda settings: self.transport()),
                    ("outside.display.printing.Console", lambda **given: Console(**{**given, "width": COLUMNS})),
                    ("outside.process.stop.Stop", lambda: _Until(self.bench, words[0])),
                    ("running.commands.tail.Stop", lambda: _Until(self.bench, words[0])),
                    ("outside.process.logs.start_log", lambda log_format, worker: None),
                    ("outside.process.interpreter.settle", lambda: None),
                ):
                    patches.enter_context(mock.patch(f"neardup_workers.{name}", stand_in))
                done = CliRunner().invoke(app, words, env=environment)
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout_bytes, done.output + log.getvalue())

    def transport(self) -> MemoryTransport:
        """A client of the deployment; the incident goes on while it waits."""
        absent = {self.bench.names.group(role) for role in self.absent}
        return _Staffed(self.bench.cluster, absent, lambda seconds: self.tick())


class Exporter:
    """Serves what the places show: ``/ALERT/metrics``, ``/ALERT/readyz`` and ``/ALERT/healthz``."""

    def __init__(self, places: dict[str, Place]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, name, path = self.path.split("/", 2)
                place = places[name]
                if place.is_down:
                    self.close_connection = True  # without an answer
                    return
                started: list[Any] = []
                asked = {"PATH_INFO": f"/{path}", "REQUEST_METHOD": "GET", "QUERY_STRING": ""}
                body = b"".join(place.scraped(asked, lambda *given: started.extend(given)))
                self.send_response(int(started[0].split()[0]))
                for header in started[1]:
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Say nothing of a scrape that took too long."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
