"""``neardup up``: signers and matchers as child processes of one, started again when they die, ended in order.

Theory of operation. A child is *running*, or *waiting* (it died, and is started again after a wait that grows with each
death in a row; ``_STEADY_SECONDS`` of life end the row). Only ``Supervisor`` moves them, in ``look``.

- A child that ended for a reason that starting it again cannot mend (``FINAL``) ends everything; the reason is its own
  sentence on standard error, and the code is its code.
- The end: signers first, so that nothing new comes, then matchers; each is asked by SIGTERM, and killed by its process
  id when it has not ended in ``STOP_SECONDS_MAX``. Nothing else is ever signalled.
- A supervisor that dies itself, however that comes, closes the pipes that are the children's standard input; a child
  that was started with ``--supervised`` then stops as if asked to (``watch_parent``).
- Children are in sessions of their own: Ctrl-C in the terminal reaches the supervisor alone, which ends them in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

from workers.process.backoff import backoff_seconds
from workers.process.exits import Exit
from workers.settings import option_name
from workers.topics.names import MATCH, SIGN

# What a new start cannot mend.
FINAL = (Exit.USAGE, Exit.TOPIC, Exit.GAP, Exit.GENERATION, Exit.CAPACITY)
STOP_SECONDS_MAX = 30.0
_STEADY_SECONDS = 60.0
_LOOK_SECONDS = 0.2


class Process(Protocol):
    """What is used of ``subprocess.Popen``."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, once it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


class Stopping(Protocol):
    """What is used of ``workers.process.stop.Stop``."""

    signal: int

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond a signal."""

    def nap(self, seconds: float) -> None:
        """Wait, beyond the first signal too; a second signal raises ``KeyboardInterrupt``."""


class Job(NamedTuple):
    """A child to be: its role, its name in the log, its command line."""

    role: str
    name: str
    command: list[str]


Spawn = Callable[[Job], Process]


class _Child:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.process: Process | None = None
        self.started = 0.0
        self.due = 0.0  # when it is to be started again
        self.deaths = 0  # in a row


class Supervisor:
    """Keeps the jobs running until a signal; see the module. Processes, clock and waits are the caller's: ``spawn``,
    ``now`` and ``stop``."""

    def __init__(
        self,
        jobs: Sequence[Job],
        spawn: Spawn,
        stop: Stopping,
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = [_Child(job) for job in jobs]
        self._spawn, self._stop, self._say, self._now = spawn, stop, say, now

    def run(self) -> int:
        """Look after the children until a signal or a final end; returns the exit code."""
        code: int | None = None
        try:
            while not self._stop.signal and code is None:
                code = self.look()
                if code is None:
                    self._stop.sleep(_LOOK_SECONDS)
            self._end_in_order()
        except BaseException:  # a second signal: at once
            for child in self._children:
                if child.process is not None and child.process.poll() is None:
                    child.process.kill()
            raise
        return Exit.SUCCESS if code is None else code

    def look(self) -> int | None:
        """Start what is due, note what died; returns the exit code of a child that no start can mend."""
        for child in self._children:
            if child.process is None:
                if self._now() >= child.due:
                    child.process, child.started = self._spawn(child.job), self._now()
                continue
            code = child.process.poll()
            if code is None:
                continue
            if code in FINAL:
                self._say(f"{child.job.name} ended with {_told(code)}, which a new start cannot mend: stopping all")
                return code
            child.deaths = 1 if self._now() - child.started > _STEADY_SECONDS else child.deaths + 1
            wait = backoff_seconds(child.deaths, child.job.name)
            child.process, child.due = None, self._now() + wait
            self._say(f"{child.job.name} ended with {_told(code)}; starting it again in {wait:.1f} s")
        return None

    def _end_in_order(self) -> None:
        for role in (SIGN, MATCH):
            running = [child for child in self._children if child.job.role == role and child.process is not None]
            alive = [child.process for child in running if child.process is not None and child.process.poll() is None]
            for process in alive:
                process.terminate()
            deadline = self._now() + STOP_SECONDS_MAX
            while any(process.poll() is None for process in alive):
                if self._now() > deadline:
                    for process in alive:
                        if process.poll() is None:
                            self._say(f"process {process.pid} has not ended in {STOP_SECONDS_MAX:g} s: killing it")
                            process.kill()
                    break
                self._stop.nap(_LOOK_SECONDS / 4)


def _told(code: int) -> str:
    """An exit code in words: its name, or the signal that ended the process."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"code {code} ({Exit(code).name.lower()})" if code in list(Exit) else f"code {code}"


def jobs_of(signers: int, matchers: int, settings: Mapping[str, Any], config: str | None, port: int) -> list[Job]:
    """The children: their instances from 0 in each role, their health ports one after the other (all 0 if that is 0).

    ``settings`` are those of the command line, which children get as they came; environment and file they share.
    """
    passed = arguments({name: value for name, value in settings.items() if name not in ("instance", "health_port")})
    if config is not None:
        passed += ["--config", config]
    jobs: list[Job] = []
    for role, count in ((SIGN, signers), (MATCH, matchers)):
        for instance in range(count):
            own = ["--supervised", "--instance", str(instance), "--health-port", str(port + len(jobs) if port else 0)]
            command = [sys.executable, "-m", "workers", role, *own, *passed]
            jobs.append(Job(role, f"{role}-{instance}", command))
    return jobs


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the command line that gives them."""
    out = []
    for name, value in settings.items():
        option = "--from" if name == "start" else option_name(name)
        if isinstance(value, bool):
            out.append(option if value else f"--no-{option[2:]}")
        else:
            # One word, so that a value may begin with a dash.
            out.append(f"{option}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
    return out


def spawn(job: Job) -> Process:
    """Start a child whose lines on standard error and output come out here, each after its name."""
    process = subprocess.Popen(
        job.command,
        stdin=subprocess.PIPE,  # never written: closed when this process ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    threading.Thread(target=_relay, args=(job.name, process.stdout), name=job.name, daemon=True).start()
    return process


def _relay(name: str, lines: IO[bytes]) -> None:
    for line in lines:
        sys.stderr.write(f"{name} | {line.decode(errors='replace')}")
        sys.stderr.flush()


def watch_parent() -> None:
    """Stop this process as if asked to, once its standard input is closed: the supervisor is gone."""

    def run() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="parent", daemon=True).start()
