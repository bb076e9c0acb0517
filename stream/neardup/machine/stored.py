"""Compiled kernels on disk: opened when a kernel is first used, and loaded without the compiler. Tables that take long
to make are kept in such files too.

Numba keeps an index of the files of each kernel, named by its folder, and opens it when the kernel is declared. It
compares the file of the kernel alone, so a kernel kept the code of functions of other files that had changed. It writes
without a lock, so two processes that compile one kernel for different types can take one file for both. And it prepares
the whole compiler before it loads a compiled kernel, which needs nothing of it: two tenths of a second of every start.

Here a file is named by hashes of all that decides its content: what the kernel reaches
(``neardup.machine.closure``), the types of the arguments, the processor, and the versions of what compiles. It
holds its name, and appears under it when it is whole. So all installations and clones of a user share one folder, and
none runs the code of other sources. A file that cannot be read is made again. Processes may take turns
(``take_turns``): then one of them makes a file, however many need it at the same time.

When the folder becomes large, its oldest files go.

This module uses private names of numba. They are those of version 0.68; with another version, numba prepares itself.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import uuid
import warnings
from collections.abc import Hashable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any, Protocol

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import _helperlib
from numba.core import runtime
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from neardup.kernel_folder import kernel_folder
from neardup.machine.closure import closure_key

# The versions of numba that load a kernel as ``load_overload`` does here.
_KNOWN = numba.version_info.short == (0, 68)
# What decides the machine code of any function, besides the function: the bytecode has Python's number.
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, MAGIC_NUMBER)
_ENDING = ".nbc"
# Some ten times what all kernels of one version take for one processor.
_FOLDER_BYTES_MAX = 1 << 29


class Turns(Protocol):
    """What keeps two processes from making the same file."""

    def begin(self, path: str) -> None:
        """Return when no other process makes this file."""

    def end(self, path: str) -> None:
        """Let other processes make or read this file. Nothing happens if this process did not begin it."""


_turns: Turns | None = None


def take_turns(turns: Turns | None) -> Turns | None:
    """Set what is called before a file is made and afterwards, ``None`` if each process makes what it needs; returns
    what was set before."""
    global _turns
    before, _turns = _turns, turns
    return before


class StoredKernel:
    """The files of one kernel, with the methods that a dispatcher of numba calls."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(kernel_folder())

    @functools.cached_property
    def stem(self) -> str:
        """The beginning of the names of its files: of all that are of the present sources and versions."""
        module = self._kernel.__module__.rpartition(".")[2]
        return f"{module}.{self._kernel.__qualname__}.{closure_key(self._kernel, _VERSIONS)}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kernel for one signature, or ``None`` if it must be compiled."""
        if _KNOWN:
            _name_runtime()
        else:
            target.refresh()
        kept = _read_or_begin(self._name(signature, target.codegen()))
        return None if kept is None else CompileResult._rebuild(target, *kept)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store the kernel for one signature. Without a folder on the disk it stays in memory alone."""
        name = self._name(signature, compiled.codegen)
        try:
            if not compiled.library.has_dynamic_globals:
                _write(name, compiled._reduce())
        finally:
            _end(name)

    def _name(self, signature: Any, codegen: Any) -> str:
        """The name of a file: types of named tuples and of functions count by what they are, as the kernel does."""
        return f"{self.stem}.{closure_key(signature, codegen.magic_tuple())}{_ENDING}"


def stored(name: str, make: functools.partial[Any], key: Hashable) -> Any:
    """Return what ``make`` returns: made now, or read from the file in which an earlier process kept it, whose name
    begins so. A change of anything that ``make`` calls makes the value again; ``key`` is all else that decides it."""
    file = f"{name}.{closure_key(make, key, _VERSIONS)}{_ENDING}"
    value = _read_or_begin(file)
    if value is None:
        try:
            value = make()
            _write(file, value)
        finally:
            _end(file)
    return value


def _read_or_begin(name: str) -> Any:
    """Return the value in a file, which another process may be making; ``None`` if this process must make it."""
    value = _read(name)
    if value is None and _turns is not None:
        _turns.begin(str(kernel_folder() / name))
        value = _read(name)
        if value is not None:
            _end(name)
    return value


def _end(name: str) -> None:
    """Let other processes make or read a file."""
    if _turns is not None:
        _turns.end(str(kernel_folder() / name))


def _read(name: str) -> Any:
    """Return the value in a file, or ``None`` if there is none or it is not sound."""
    try:
        kept, value = pickle.loads((kernel_folder() / name).read_bytes())
    except Exception:  # a damaged file can raise anything
        return None
    return value if kept == name else None


def _write(name: str, value: Any) -> None:
    """Keep a value, if the folder can be written."""
    folder = kernel_folder()
    unfinished = folder / f"{uuid.uuid4().hex}.unfinished"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_oldest(folder)
        try:
            unfinished.write_bytes(dumps((name, value)))
            unfinished.replace(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        _warn(folder, error.strerror)


@functools.cache
def _remove_oldest(folder: Path) -> None:
    """Remove the oldest half of the files, of sources that are gone, if they take too much room. Once a process."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    if sum(size for _, size, _ in found) > _FOLDER_BYTES_MAX:
        for _, _, path in sorted(found)[: len(found) // 2]:
            path.unlink(missing_ok=True)


@functools.cache
def _warn(folder: Path, reason: str) -> None:
    """Say once that every start compiles."""
    warnings.warn(
        f"compiled code cannot be kept on disk, so every start compiles it ({folder}: {reason}): set NUMBA_CACHE_DIR "
        "to a folder of your own that can be written",
        RuntimeWarning,
        stacklevel=2,
    )


@functools.cache
def _name_runtime() -> None:
    """Give machine code the addresses of the functions that it calls: to allocate and to release arrays, and to read a
    string (``neardup.machine.memory``)."""
    helpers: dict[str, int] = vars(runtime)["_nrt_python"].c_helpers
    readers: dict[str, int] = vars(_helperlib)["c_helpers"]
    for name, address in helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    binding.add_symbol("numba_extract_unicode", readers["extract_unicode"])
