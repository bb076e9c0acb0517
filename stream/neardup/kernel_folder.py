"""A folder for compiled code if neither the installation nor the user's home is writable.

``ensure_kernel_folder`` must be called before the first import of a kernel: the compiler chooses its folder when a
kernel is declared. The files are loaded as code, so the folder must belong to this user alone.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"


def ensure_kernel_folder() -> None:
    """If the usual folders are not writable, choose a private folder in the system's temporary folder, with one
    warning."""
    package = Path(__file__).parent / "machine" / "kernels" / "__pycache__"
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


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
