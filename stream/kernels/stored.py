"""Compiled kernels on disk: numba's own files, opened when a kernel is first used, and loaded without the compiler.
Tables that take long to make are kept in such files too.

Numba opens the files of every kernel when it is declared: 200 folders checked before the first document. It also
prepares the whole compiler before it loads a compiled kernel, although the kernel needs nothing of it: two tenths of a
second of every start. Here a kernel opens its files at its first use, and gets only the addresses of the functions that
its machine code may call.

This module uses private names of numba. They are those of version 0.68; with another version, numba prepares itself.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import numba
from llvmlite import binding
from numba import _helperlib
from numba.core import runtime
from numba.core.caching import FunctionCache, NullCache

# The versions of numba that load a kernel as ``load_overload`` does here.
_KNOWN = numba.version_info.short == (0, 68)


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
            return files.load_overload(signature, target)
        _name_runtime()
        return files._load_overload(signature, target)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store the kernel for one signature."""
        self._files.save_overload(signature, compiled)


def stored(owner: Callable[..., Any], key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what ``make`` returns: made now, or read from the file in which an earlier process kept it.

    Args:
        owner: a function. The file is where a kernel of its module would be, and a change of the module makes the value
            again.
        key: everything else that decides the value.
        make: called if no file has the value.
    """
    files: Any = StoredKernel(owner)._files
    if not _KNOWN or isinstance(files, NullCache):
        return make()
    held = files._cache_file
    full_key = held._source_stamp, key
    try:
        found = held.load(key)
    except Exception:  # a damaged file can raise anything
        found = None
        with contextlib.suppress(OSError):
            held.flush()
    if found is None or found[0] != full_key:  # numba writes index and value one after the other, without a lock
        found = full_key, make()
        with contextlib.suppress(OSError):  # the folder cannot be written any more
            files._impl.locator.ensure_cache_path()
            held.save(key, found)
    return found[1]


@functools.cache
def _name_runtime() -> None:
    """Give machine code the addresses of the functions that it calls: to allocate and to release arrays, and to read a
    string (``neardup.stream.kernels.strings``)."""
    helpers: dict[str, int] = vars(runtime)["_nrt_python"].c_helpers
    readers: dict[str, int] = vars(_helperlib)["c_helpers"]
    for name, address in helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    binding.add_symbol("numba_extract_unicode", readers["extract_unicode"])
