"""A folder for compiled code if neither the installation nor the user's home is writable, and the turns of processes
that compile into one folder.

``ensure_kernel_cache`` must be called before the first import of ``stream``: the compiler chooses its folder when a
kernel is declared. The files are loaded as code, so the folder must belong to this user alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_VARIABLE = "NUMBA_CACHE_DIR"
# Several times what the slowest kernel takes: a process that is stopped delays the others no longer than this.
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05


def ensure_kernel_cache() -> None:
    """If the usual folders are not writable, choose a private folder in the system's temporary folder, with one
    warning."""
    package = Path(__file__).parents[2] / "stream" / "kernels" / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"
    if os.environ.get(_VARIABLE) or _writable(package) or _writable(home):
        return
    folder = Path(tempfile.gettempdir()) / f"neardup-kernels-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            folder = Path(tempfile.mkdtemp(prefix="neardup-kernels-"))
    except OSError:
        return  # the library warns that it compiles at every start
    os.environ[_VARIABLE] = str(folder)
    if sys.stderr is not None:
        sys.stderr.write(
            f"neardup: neither the installation nor {home} can be written, so compiled code is kept in {folder}; set "
            f"{_VARIABLE} to choose another folder\n"
        )


def is_kept(kernel: Any) -> bool | None:
    """Return whether a compiled version of a kernel, possibly old, is on disk; ``None`` if none can be stored."""
    if kernel.stats.cache_path is None:
        return None
    name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__qualname__}"
    return any(Path(kernel.stats.cache_path).glob(f"{name}-*.nbc"))


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


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
