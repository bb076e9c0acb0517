"""Stopping: a first signal ends the reading, and everything read so far is answered; a second one ends at once.

States: running, stopping (``signal`` is set). Only the handler changes the state. While the process waits for input,
the handler interrupts the wait, which then looks like the end of the input. At any other moment it only sets
``signal``, so that no step of the table and no line of output is interrupted. In the state stopping, another signal
raises ``KeyboardInterrupt``. Before a ``Stop`` is installed nothing has begun, and ``leave_at_once`` serves.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from workers.process.exits import Exit

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def leave_at_once() -> None:
    """Let a signal end the process with success until a ``Stop`` is installed: nothing has begun."""
    _take_over(lambda number, frame: os._exit(0))


def leave(code: int) -> NoReturn:
    """End the process now: everything is closed, and what was written is flushed.

    The interpreter's own end waits for threads of libraries, and a worker that has stopped could hang in it.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader has what it wants
    except (OSError, ValueError) as error:
        sys.stderr.write(f"neardup: cannot write to standard output: {error}\n")
        code = code or Exit.OUTPUT
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _take_over(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


class Stop:
    """The state (``signal`` is the number of the first signal, or 0), and waits that a signal interrupts."""

    def __init__(self) -> None:
        self.signal = 0
        self._waiting = False

    def install(self) -> None:
        """Take over the signals, except those that the parent process has set to be ignored."""
        _take_over(self._handle)

    def read(self, descriptor: int, size: int) -> bytes:
        """Read like ``os.read``; a signal looks like the end of the input."""
        try:
            self._waiting = True
            return b"" if self.signal else os.read(descriptor, size)
        except KeyboardInterrupt:
            return b""
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal comes, ``seconds`` at most."""
        try:
            self._waiting = True
            if not self.signal:
                time.sleep(seconds)
        except KeyboardInterrupt:
            pass
        finally:
            self._waiting = False

    def nap(self, seconds: float) -> None:
        """Sleep ``seconds``, also after the first signal; a second signal raises ``KeyboardInterrupt``."""
        time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal, number
        if again or self._waiting:
            raise KeyboardInterrupt
