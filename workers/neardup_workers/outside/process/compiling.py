"""Watches the compiler: a first run reports the compilation, and its time does not count as reading.

The kernels of the library are compiled when they are first called, and stored on disk: a second run loads them. Of
several processes that need a kernel at the same time, one compiles it, and the others wait. The
compiler reports the beginning and the end of each function, on the thread that calls it. Compilations may be nested.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from neardup.machine.stored import Turns, take_turns
from neardup_workers.outside.process.kernel_cache import CompilerTurns

_EVENT = "numba:compile"
# Functions after which the progress is reported again.
_STEP_FUNCTIONS = 10
# The compiler's own package declares no types.
_register: Callable[[str, event.Listener], None] = event.register
_unregister: Callable[[str, event.Listener], None] = event.unregister


def say(line: str) -> None:
    """Write a line to standard error, now."""
    sys.stderr.write(f"neardup: {line}\n")
    sys.stderr.flush()


class Compiling(event.Listener):
    """Counts compiled functions, as a context manager; ``seconds`` is the time in which at least one was in
    compilation.

    Args:
        say: gets one line when the first function is compiled, and with ``steps`` a line for every ten.
        now: the clock.
        steps: whether somebody watches.
    """

    def __init__(
        self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic, *, steps: bool = False
    ) -> None:
        self.functions = 0
        self.seconds = 0.0
        self._say, self._now, self._steps = say, now, steps
        self._lock = threading.Lock()
        self._depth = 0
        self._since = 0.0
        self._has_waited = False
        self._turns = CompilerTurns(self._waiting_for_another)
        self._turns_before: Turns | None = None

    def __enter__(self) -> Compiling:
        _register(_EVENT, self)
        self._turns_before = take_turns(self._turns)
        return self

    def __exit__(self, *_: object) -> None:
        _unregister(_EVENT, self)
        take_turns(self._turns_before)
        self._turns.end_all()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a block as compilation: another process compiles during the block, and so may threads of
        this one."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def _waiting_for_another(self) -> Iterator[None]:
        """Say once that another process compiles, and count the wait as compilation."""
        if not self._has_waited:
            self._has_waited = True
            self._say("waiting for another process, which compiles for this machine")
        with self.waiting():
            yield

    def on_start(self, event: Any) -> None:
        """Handle the beginning of a compilation."""
        if self._begin() and not self.functions:
            self._say("compiling for this machine, once: up to 30 seconds on two idle cores; later runs load it")

    def on_end(self, event: Any) -> None:
        """Handle the end of a compilation."""
        with self._lock:
            self.functions += 1
            functions = self.functions
        if self._steps and functions % _STEP_FUNCTIONS == 0:
            self._say(f"compiled {functions} functions")
        self._end()

    def _begin(self) -> bool:
        """Count one more function or wait in progress; returns whether it is the only one."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._since = self._now()
            return self._depth == 1

    def _end(self) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self.seconds += self._now() - self._since
