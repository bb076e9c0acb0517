"""Decorators that compile functions: plain loops over arrays, without the interpreter lock, cached on disk.

Python and other kernels call ``kernel``, ``raw_kernel`` and ``locked_kernel``. Only kernels call ``inner``,
``raw_inner`` and ``inlined``: these have no Python entry point, whose compilation took a third of a first run. A call
from Python would end the process, so a test searches for such calls (``tests/stream/machine/test_kernels.py``).

A stored kernel (``stored``) is found by all that it is compiled from (``closure``), so an edit of anything that it
reaches compiles it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from neardup.machine.stored import StoredKernel

Kernel = Callable[..., Any]


# numba declares no type for ``_nrt``.
_njit: Callable[..., Callable[[Kernel], Any]] = numba.njit


def kernel(function: Kernel) -> Kernel:
    """Compile a function of arrays and numbers."""
    return _compiled(function)


def raw_kernel(function: Kernel) -> Kernel:
    """Compile a function that allocates nothing, without reference counts, which are slow for many arrays."""
    return _compiled(function, _nrt=False)


def locked_kernel(function: Kernel) -> Kernel:
    """Compile as ``raw_kernel`` does, but keep the interpreter lock: for a short function that reads Python objects."""
    return _compiled(function, _nrt=False, nogil=False)


def inner(function: Kernel) -> Kernel:
    """Compile as ``kernel`` does, for kernels to call."""
    return _compiled(function, no_cpython_wrapper=True)


def raw_inner(function: Kernel) -> Kernel:
    """Compile as ``raw_kernel`` does, for kernels to call."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True)


def inlined(function: Kernel) -> Kernel:
    """Compile as ``raw_inner`` does, and copy the code into each caller: for small steps of an inner loop."""
    return _compiled(function, _nrt=False, forceinline=True, no_cpython_wrapper=True)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """Return a function that is compiled at its first call, and cached on disk if a folder is writable."""
    compiled = _njit(**{"nogil": True, "no_cfunc_wrapper": True, **options})(function)
    compiled._cache = StoredKernel(compiled)
    return compiled  # type: ignore[no-any-return]
