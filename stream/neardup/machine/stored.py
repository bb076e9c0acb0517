"""Compiled kernels on disk: opened when a kernel is first used, and loaded without the compiler. Tables that take long
to make are kept in such files too.

Numba opens the files of every kernel when it is declared: 200 folders checked before the first document. It also
prepares the whole compiler before it loads a compiled kernel, although the kernel needs nothing of it: two tenths of a
second of every start. Here a kernel opens its files at its first use, and gets only the addresses of the functions that
its machine code may call.

Numba keeps an index of the files and writes one after the other without a lock. Two processes that compile the same
kernel for different types can take one file for both, and one of them then runs the code of the other. Here a file is
named by its key and holds it, with the time of the source, and appears under its name when it is whole. What cannot be
read, or has another key or an older source, is made again. Processes may take turns (``take_turns``): then one of them
makes a file, however many need it at the same time.

This module uses private names of numba. They are those of version 0.68; with another version, numba prepares itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numba
from llvmlite import binding
from numba import _helperlib
from numba.core import runtime
from numba.core.caching import FunctionCache, NullCache

from neardup.machine.choice import MODELS

# The versions of numba that load a kernel as ``load_overload`` does here.
_KNOWN = numba.version_info.short == (0, 68)


class Turns(Protocol):
    """What keeps two processes from making the same file."""

    def begin(self, path: str) -> None:
        """Return when no other process makes this file."""

    def end(self, path: str) -> None:
        """Let other processes make or read this file. Nothing happens if this process did not begin it."""


_turns: Turns | None = None


def take_turns(turns: Turns | None) -> Turns | None:
    """Set how processes take turns.

    Args:
        turns: called before a file is made and afterwards; ``None`` if each process makes what it needs.

    Returns:
        What was set before.
    """
    global _turns
    before, _turns = _turns, turns
    return before


class StoredKernel:
    """The files of one kernel, with the methods that a dispatcher of numba calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @functools.cached_property
    def _files(self) -> Any:
        """Numba's files of this kernel; none if neither the folder of the package nor that of the user is writable."""
        try:
            return FunctionCache(self._function)
        except RuntimeError:
            warnings.warn(
                "compiled code cannot be kept on disk, so every start compiles it: set NUMBA_CACHE_DIR to a folder of "
                "your own that can be written",
                RuntimeWarning,
                stacklevel=2,
            )
            warnings.filterwarnings("ignore", message="compiled code cannot be kept on disk")
            return NullCache()

    @property
    def cache_path(self) -> str | None:
        """The folder of the files; ``None`` if there is none."""
        return self._files.cache_path  # type: ignore[no-any-return]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kernel for one signature, or ``None`` if it must be compiled."""
        files = self._files
        if not _KNOWN or isinstance(files, NullCache):
            return None if MODELS else files.load_overload(signature, target)
        _name_runtime()
        kept = _read_or_begin(files, _key(files, signature, target.codegen()))
        return None if kept is None else files._impl.rebuild(target, kept)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store the kernel for one signature. Without a folder on the disk it stays in memory alone."""
        files = self._files
        if not _KNOWN or isinstance(files, NullCache):
            if not MODELS:  # numba's own key does not contain them
                files.save_overload(signature, compiled)
            return
        key = _key(files, signature, compiled.codegen)
        try:
            if files._impl.check_cachable(compiled):
                _write(files, key, files._impl.reduce(compiled))
        finally:
            _end(files, key)


def stored(owner: Callable[..., Any], key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what ``make`` returns: made now, or read from the file in which an earlier process kept it.

    Args:
        owner: a function. The file is where a kernel of its module would be, and a change of the module makes the value
            again.
        key: everything else that decides the value. Equal keys print alike.
        make: called if no file has the value.
    """
    files: Any = StoredKernel(owner)._files
    if not _KNOWN or isinstance(files, NullCache):
        return make()
    value = _read_or_begin(files, key)
    if value is None:
        try:
            value = make()
            _write(files, key, value)
        finally:
            _end(files, key)
    return value


def _read_or_begin(files: Any, key: Hashable) -> Any:
    """Return the value of a key, which another process may be making; ``None`` if this process must make it."""
    value = _read(files, key)
    if value is None and _turns is not None:
        _turns.begin(_path(files, key))
        value = _read(files, key)
        if value is not None:
            _end(files, key)
    return value


def _end(files: Any, key: Hashable) -> None:
    """Let other processes make or read the value of a key."""
    if _turns is not None:
        _turns.end(_path(files, key))


def _key(files: Any, signature: Any, codegen: Any) -> Hashable:
    """What decides a kernel: its own code, the types, the processor, and which primitives run as their models."""
    return files._index_key(signature, codegen), MODELS


def _read(files: Any, key: Hashable) -> Any:
    """Return the value of a key, or ``None`` if no sound file has it."""
    try:
        stamp, value = files._cache_file._load_data(_name(files, key))
    except Exception:  # a damaged file, or one of an older tree, can raise anything
        return None
    return value if stamp == (files._cache_file._source_stamp, key) else None


def _write(files: Any, key: Hashable, value: Any) -> None:
    """Keep the value of a key, if the folder can be written."""
    with contextlib.suppress(OSError):
        files._impl.locator.ensure_cache_path()
        files._cache_file._save_data(_name(files, key), ((files._cache_file._source_stamp, key), value))


def _path(files: Any, key: Hashable) -> str:
    """Return the path of the file of a key."""
    return f"{files.cache_path}/{_name(files, key)}"


def _name(files: Any, key: Hashable) -> str:
    """Return the name of the file of a key: that of the function, and a hash of the key and of numba's version."""
    digest = hashlib.blake2b(repr((numba.__version__, key)).encode(), digest_size=8).hexdigest()
    return f"{files._impl.filename_base}.{digest}.nbc"


@functools.cache
def _name_runtime() -> None:
    """Give machine code the addresses of the functions that it calls: to allocate and to release arrays, and to read a
    string (``neardup.machine.memory``)."""
    helpers: dict[str, int] = vars(runtime)["_nrt_python"].c_helpers
    readers: dict[str, int] = vars(_helperlib)["c_helpers"]
    for name, address in helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    binding.add_symbol("numba_extract_unicode", readers["extract_unicode"])
