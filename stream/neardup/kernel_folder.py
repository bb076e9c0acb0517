"""Where machine code is: in the wheel, which has that of all kernels, or in a folder of what a clone has compiled.

``NEARDUP_KERNELS`` is ``built`` (the wheel's) or ``jit`` (numba compiles); without it, the wheel's where there is one.
A compiled kernel cannot call one that was built, so the choice holds for the process; it is read at the import.

The folder is that of the user's caches, or a private one if it cannot be written. ``ensure_kernel_folder`` is called
before the first kernel is used. The files are loaded as code, so the folder must belong to this user alone.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"
# What a wheel has and a clone has not: ``caller``, a file of machine code for each level of processors, and tables.
MADE = Path(__file__).parent / "machine" / "made"
KERNELS = "NEARDUP_KERNELS"
VARIABLE = "NEARDUP_MACHINE_CODE"
# Names of primitives that run as their models, or ``models``: a part of the key of every stored kernel.
MODELS = tuple(sorted({name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}))


def _is_built() -> bool:
    """Whether kernels are those of the wheel."""
    wanted = os.environ.get(KERNELS) or ("built" if MADE.is_dir() and not MODELS else "jit")
    if wanted not in ("built", "jit"):
        raise ImportError(f"{KERNELS} is {wanted!r}, which is neither built nor jit: give one of them, or nothing")
    if wanted == "built" and not MADE.is_dir():
        raise ImportError(f"{KERNELS} is built, and this installation has no machine code: install a wheel")
    if wanted == "jit" and find_spec("numba") is None:
        raise ImportError(
            "this installation has neither machine code nor a compiler for its kernels: install a wheel that has "
            "machine code for this system, or neardup[jit]"
        )
    if wanted == "built" and MODELS:
        raise ImportError(f"{VARIABLE} has no effect on kernels that are built: set {KERNELS} to jit")
    return wanted == "built"


BUILT = _is_built()


def kernel_folder() -> Path:
    """Return the folder of all files, which may not be there yet: one for all installations and clones of a user."""
    caches = os.environ.get(_VARIABLE) or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches) / "neardup-kernels"


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
    warning. A wheel needs none."""
    usual = kernel_folder()
    if BUILT or os.environ.get(_VARIABLE) or can_write(usual):
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
