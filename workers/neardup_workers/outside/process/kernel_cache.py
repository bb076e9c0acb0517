"""The turns of processes that compile into one folder.

The files there are loaded as code, so the folder must belong to this user alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

# Several times what the slowest kernel takes: a process that is stopped delays the others no longer than this.
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05


class CompilerTurns:
    """Locks next to the compiled kernels: of several processes that need the same kernel, one compiles it.

    The system releases the locks of a process that ends. Different kernels are compiled at the same time. A process
    takes the lock of a kernel before those of the kernels that it calls, and no kernel calls itself, so two processes
    never wait for each other.
    """

    def __init__(self, waiting: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        """``waiting`` is entered while another process compiles."""
        self._waiting = waiting
        self._held: dict[str, int] = {}  # path of the kernel -> descriptor of its lock

    def begin(self, path: str) -> None:
        """Return when no other process compiles this kernel, or after two minutes, or if no lock can be made."""
        if path in self._held:
            return
        with contextlib.suppress(OSError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(_lock(path), os.O_RDWR | os.O_CREAT, 0o600)
            self._held[path] = descriptor
            if not _locked(descriptor):
                with self._waiting():
                    end = time.monotonic() + _WAIT_SECONDS_MAX
                    while not _locked(descriptor) and time.monotonic() < end:
                        time.sleep(_POLL_SECONDS)

    def end(self, path: str) -> None:
        """Let the processes that wait load the kernel. If it is not there, the next one compiles it."""
        descriptor = self._held.pop(path, None)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                Path(_lock(path)).unlink()  # a process that waits has it open; a later one finds the kernel
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked process may have a copy of the descriptor
            os.close(descriptor)

    def end_all(self) -> None:
        """Release every lock."""
        for path in list(self._held):
            self.end(path)


def _lock(path: str) -> str:
    return f"{path}.lock"


def _locked(descriptor: int) -> bool:
    """Lock a file unless another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
