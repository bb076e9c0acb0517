"""``neardup up``: runs workers of all roles as child processes, restarts those that die, and stops all in order.

Theory of operation. A child is *running* or *waiting*. A waiting child died, and restarts after a wait that grows with
each consecutive death. After ``_STEADY_SECONDS`` of life the count restarts. Only ``Supervisor.look`` changes these
states.

- If a child ends for a reason that no restart can repair (``FINAL``), the supervisor stops all children and exits with
  the same code. The child has written the reason to standard error.
- The supervisor stops signers first, so that no new input arrives, then matchers, linkers and filters. Each child gets
  SIGTERM, and SIGKILL if it has not ended after ``STOP_SECONDS_MAX``. The supervisor signals no other process.
- The standard input of each child is a pipe, which closes when the supervisor dies for any reason. A child that was
  started with ``--supervised`` then stops as after SIGTERM (``watch_parent``).
- Each child has its own session: Ctrl-C in the terminal reaches only the supervisor, which stops the children in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from neardup_workers.outside.process.backoff import backoff_seconds
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.topics.names import ROLES

# Exit codes that a restart cannot repair.
FINAL = (Exit.USAGE, Exit.TOPIC, Exit.GAP, Exit.GENERATION, Exit.CAPACITY, Exit.LOST)
STOP_SECONDS_MAX = 30.0
_STEADY_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_RELAY, _REST_SECONDS = "relay of ", 5.0


class ChildSpec(NamedTuple):
    """A child: its role, its name in the log, its command line."""

    role: str
    name: str
    command: list[str]


Process = subprocess.Popen[bytes]
Spawn = Callable[[ChildSpec], Process]


class _Child:
    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.process: Process | None = None
        self.started = 0.0
        self.due = 0.0  # when to start it again
        self.deaths = 0  # in a row


class Supervisor:
    """Keeps children running until a signal arrives; see the module. The caller provides ``spawn``, the clock and the
    waits."""

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        spawn: Spawn,
        stop: Stop,
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = [_Child(spec) for spec in specs]
        self._spawn, self._stop, self._say, self._now = spawn, stop, say, now

    def run(self) -> int:
        """Watch the children until a signal arrives or a child ends with a code of ``FINAL``; returns the exit code."""
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
        """Start children that are due, and schedule dead ones; returns the code of a child that ended with one of
        ``FINAL``."""
        for child in self._children:
            if child.process is None:
                if self._now() >= child.due:
                    child.process, child.started = self._spawn(child.spec), self._now()
                continue
            code = child.process.poll()
            if code is None:
                continue
            if code in FINAL:
                self._say(f"{child.spec.name} ended with {_in_words(code)}, which no restart can repair: stopping all")
                return code
            child.deaths = 1 if self._now() - child.started > _STEADY_SECONDS else child.deaths + 1
            wait = backoff_seconds(child.deaths, child.spec.name)
            child.process, child.due = None, self._now() + wait
            self._say(f"{child.spec.name} ended with {_in_words(code)}; restarting it in {wait:.1f} s")
        return None

    def _end_in_order(self) -> None:
        for role in ROLES:
            running = [child for child in self._children if child.spec.role == role and child.process is not None]
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


def _in_words(code: int) -> str:
    """Describe an exit code: its name, or the signal that ended the process."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"code {code} ({Exit(code).name.lower()})" if code in list(Exit) else f"code {code}"


def child_specs(
    counts: Mapping[str, int], settings: Mapping[str, Any], config: str | None, port: int
) -> list[ChildSpec]:
    """Return the children of each role, with instances from 0 and consecutive health ports (all 0 if ``port`` is 0).

    ``settings`` come from the command line and are passed on unchanged. All children share environment and settings
    file.
    """
    passed = arguments({name: value for name, value in settings.items() if name not in ("instance", "health_port")})
    if config is not None:
        passed += ["--config", config]
    specs: list[ChildSpec] = []
    for role, count in counts.items():
        for instance in range(count):
            own = ["--supervised", "--instance", str(instance), "--health-port", str(port + len(specs) if port else 0)]
            command = [sys.executable, "-m", "neardup", role, *own, *passed]
            specs.append(ChildSpec(role, f"{role}-{instance}", command))
    return specs


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as arguments of the command line, whether or not they have an option."""
    out = []
    for name, value in settings.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
        out.append(f"--from={text}" if name == "start" else f"--set={name}={text}")
    return out


def spawn(spec: ChildSpec) -> Process:
    """Start a child; each line of its output appears on standard error here: JSON as it is, the rest after its name."""
    process = subprocess.Popen(
        spec.command,
        stdin=subprocess.PIPE,  # this process writes nothing; the pipe closes when it ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    threading.Thread(target=_relay, args=(spec.name, process.stdout), name=f"{_RELAY}{spec.name}", daemon=True).start()
    return process


def relay_rest() -> None:
    """Wait until the last lines of children that have ended appear; not forever, since what a child has started may
    hold its output open."""
    for thread in threading.enumerate():
        if thread.name.startswith(_RELAY):
            thread.join(_REST_SECONDS)


def _relay(name: str, lines: IO[bytes]) -> None:
    for line in lines:
        text = line.decode(errors="replace")
        sys.stderr.write(text if text.startswith("{") else f"{name} | {text}")
        sys.stderr.flush()


def watch_parent() -> None:
    """Send SIGTERM to this process when its standard input closes, because the supervisor has ended."""

    def run() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="parent", daemon=True).start()
