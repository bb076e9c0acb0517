"""Decorators that compile functions: plain loops over arrays, without the interpreter lock, cached on disk.

Python and other kernels call a ``kernel``, which says for which types of arguments it is compiled. Only kernels call
``inner`` and ``inlined``: these have no Python entry point, whose compilation took a third of a first run. A call from
Python would end the process, so a test searches for such calls (``tests/stream/machine/test_kernels.py``).

A kernel allocates nothing: its callers give it scratch. So its arrays have no reference counts, which are slow for many
arrays, and machine code that is made beforehand needs no runtime.

A stored kernel (``stored``) is found by all that it is compiled from (``closure``), so an edit of anything that it
reaches compiles it again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from neardup.kernel_folder import BUILT
from neardup.machine.choice import built_kernel

Kernel = Callable[..., Any]
# Functions whose names mean their machine code now, which lives as long as they do.
_called: list[Kernel] = []


def kernel(*declared: str, locked: bool = False, direct: bool = False) -> Callable[[Kernel], Kernel]:
    """Compile a function of arrays and numbers that Python calls.

    Args:
        declared: the types of the arguments, one text for each combination: ``"const u8[], i64[,], f64, Items"``. These
            are an array of bytes that is only read, a matrix, a number, and a named tuple whose annotations say its
            fields. Arrays are contiguous. An array that is only read may be writable. In tests, a call with other types
            fails; machine code that is made beforehand has these types alone.
        locked: keep the interpreter lock, for a function of microseconds for a chunk, because a thread that gives
            the lock up may wait long until it has it again; and for one that reads Python objects.
        direct: for one combination of arrays that the library made itself: Python calls the machine code without a look
            at their types, and kernels cannot call it.
    """

    def of(function: Kernel) -> Kernel:
        if BUILT:
            return built_kernel(function, locked)
        compiled: Any = _compiled(function, nogil=not locked)
        compiled.declared = declared
        return without_look(compiled) if direct else compiled

    return of


def without_look(compiled: Any) -> Kernel:
    """Return a function that calls the machine code of a kernel with one combination of types, whatever it is given.

    Numba looks at the type of each argument at each call. For a state of sixty arrays this takes 10 microseconds, and
    the call without it 1.3. In the tests numba looks nevertheless.
    """
    entry: Kernel | None = None
    names = compiled.py_func.__globals__

    @functools.wraps(compiled, updated=())
    def call(*arguments: Any) -> Any:
        nonlocal entry
        if entry is None:
            result = compiled(*arguments)
            entry = next(iter(compiled.overloads.values())).entry_point
            if names.get(compiled.__name__) is call:  # its module calls it without this function, too
                names[compiled.__name__] = entry
                _called.append(call)
            return result
        return entry(*arguments)

    return call


def inner(function: Kernel) -> Kernel:
    """Compile a function for kernels to call."""
    return _compiled(function, no_cpython_wrapper=True)


def inlined(function: Kernel) -> Kernel:
    """Compile as ``inner`` does, and copy the code into each caller: for small steps of an inner loop."""
    return _compiled(function, forceinline=True, no_cpython_wrapper=True)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """Return a function that is compiled at its first call, and cached on disk if a folder is writable; of a wheel the
    function itself, which only kernels call."""
    if BUILT:
        return function
    import numba

    from neardup.machine.stored import StoredKernel

    njit: Callable[..., Callable[[Kernel], Any]] = numba.njit  # it declares no type for ``_nrt``
    compiled = njit(**{"nogil": True, "no_cfunc_wrapper": True, "_nrt": False, **options})(function)
    compiled._cache = StoredKernel(compiled)
    return compiled  # type: ignore[no-any-return]
