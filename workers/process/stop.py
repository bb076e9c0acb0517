"""Stopping: a first signal ends the reading, so that all that was read is answered; a second one ends at once.

States: running, stopping (``signal`` set). Only the handler moves from one to the other. While the process waits for
input the handler breaks the wait, which then looks like the end of the input; at any other moment it only sets
``signal``, so that no step of the table and no line of output is cut in two. In stopping, a further signal raises
``KeyboardInterrupt``. Before a ``Stop`` is installed there may be nothing to answer: ``leave_at_once``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def leave_at_once() -> None:
    """Until a ``Stop`` is installed, let a signal end the process with success: nothing was begun."""
    _take_over(lambda number, frame: os._exit(0))


def _take_over(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


class Stop:
    """Whether a signal has asked for the end (``signal`` is its number, else 0), and waits that it breaks."""

    def __init__(self) -> None:
        self.signal = 0
        self._waiting = False

    def install(self) -> None:
        """Take over the signals, except those that whoever started the process wants ignored."""
        _take_over(self._handle)

    def read(self, descriptor: int, size: int) -> bytes:
        """``os.read``, which ends as if at the end of the input when a signal comes."""
        try:
            self._waiting = True
            return b"" if self.signal else os.read(descriptor, size)
        except KeyboardInterrupt:
            return b""
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        """``time.sleep``, which ends when a signal comes."""
        try:
            self._waiting = True
            if not self.signal:
                time.sleep(seconds)
        except KeyboardInterrupt:
            pass
        finally:
            self._waiting = False

    def nap(self, seconds: float) -> None:
        """``time.sleep``, which lasts its time after the first signal too; a second signal raises."""
        time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal, number
        if again or self._waiting:
            raise KeyboardInterrupt
