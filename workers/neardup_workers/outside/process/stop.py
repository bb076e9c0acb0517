"""Stopping: a first signal ends the reading, and the input read so far is answered; a second signal ends the process at
once.

States: running, stopping (``signal`` is set). Only the handler changes the state. While the process waits for input,
the handler interrupts the wait, which then looks like the end of the input. At any other moment the handler only sets
``signal``, so it interrupts no step of the table and no line of output. Who still works ``SILENT_SECONDS`` later says
so. In the state stopping, another signal raises ``KeyboardInterrupt``, and so does the first one in ``at_once``. Before
a ``Stop`` is installed, ``leave_at_once`` handles signals.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from neardup_workers.outside.process.exits import Exit

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A signal that arrives between the last instruction of Python and the call of the system does not end the call: the
# wait for input is repeated after this time.
_UNSEEN_SECONDS = 1.0
# After a signal, who works for longer says what is left to do.
SILENT_SECONDS, LEFT = 0.8, "stopping: {} answered first; Ctrl-C once more ends at once"


def leave_at_once() -> None:
    """Until a ``Stop`` is installed, end the process with success at a signal: there is no work to finish."""
    _take_over(lambda number, frame: os._exit(0))


def leave(code: int) -> NoReturn:
    """End the process now. The caller has closed and flushed all files.

    The interpreter's own end waits for threads of libraries, and a worker that has stopped could hang in it.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader has closed the pipe
    except (OSError, ValueError) as error:
        if not code:  # else the command has said why it ends
            sys.stderr.write(f"neardup: cannot write to standard output: {error}\n")
        code = code or Exit.OUTPUT
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _take_over(handler: Callable[[int, FrameType | None], object]) -> dict[int, Any]:
    """Set a handler; returns those before."""
    taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor can be read; returns whether it can. ``select`` knows none from 1,024 on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))


class Stop:
    """The state (``signal`` is the number of the first signal, or 0), and waits that a signal interrupts. ``say`` gets
    the line that says what is left to do."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self.signal = 0
        self._waiting = False
        self._before: dict[int, Any] = {}
        self._left = threading.Timer(SILENT_SECONDS, say, (LEFT.format("what was read is"),))
        self._left.daemon = True

    def install(self) -> None:
        """Take over the signals, except those that the parent process has set to be ignored."""
        self._before = _take_over(self._handle)

    def release(self) -> None:
        """Set the handlers of before ``install`` again: a signal ends what follows, and nothing is left to do."""
        self._left.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Work that a signal cuts, because a part of it is no result."""
        try:
            self._waiting = True
            yield
        finally:
            self._waiting = False

    def read(self, descriptor: int, size: int) -> bytes:
        """Read like ``os.read``; a signal looks like the end of the input."""
        with suppress(KeyboardInterrupt), self.at_once():
            while not self.signal:
                if readable(descriptor, _UNSEEN_SECONDS):
                    return os.read(descriptor, size)
        return b""

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal arrives, at most ``seconds``."""
        with suppress(KeyboardInterrupt), self.at_once():
            if not self.signal:
                time.sleep(seconds)

    def nap(self, seconds: float) -> None:
        """Sleep ``seconds``, also after the first signal; a second signal raises ``KeyboardInterrupt``."""
        time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal, number
        if not again:
            self._left.start()
        if again or self._waiting:
            raise KeyboardInterrupt


class Uncaught(Stop):
    """Takes no signal over: the first one ends the command, whose result needs all documents."""

    def install(self) -> None:
        """Change nothing."""
