"""The folder of compiled code: that of the user's caches, or a private one if it cannot be written.

``ensure_kernel_folder`` is called before the first kernel is used. The files are loaded as code, so the folder must
belong to this user alone.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"


def kernel_folder() -> Path:
    """Return the folder of all files, which may not be there yet: one for all installations and clones of a user."""
    caches = os.environ.get(_VARIABLE) or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches) / "neardup-kernels"


def kept_names() -> list[str]:
    """Return the names of all files in the folder."""
    try:
        return os.listdir(kernel_folder())  # as paths, hundreds of them would take as long as the start of a command
    except OSError:
        return []


def can_write(folder: Path) -> bool:
    """Return whether a folder can be written; it is made if it is not there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def ensure_kernel_folder() -> None:
    """If the usual folder cannot be written, choose a private one in the system's temporary folder, with one
    warning."""
    usual = kernel_folder()
    if os.environ.get(_VARIABLE) or can_write(usual):
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
            f"neardup: {usual} cannot be written, so compiled code is kept in {folder}; set {_VARIABLE} to choose "
            "another folder\n"
        )
