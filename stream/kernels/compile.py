"""The decorators of the compiled functions: plain loops over arrays, without the interpreter lock, kept on disk.

The compiler looks only at a function's own file to see whether what is on disk is still good. Whoever edits a function
that others inline must delete the ``*.nbi`` files; the tests do that by themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba.extending import intrinsic

Kernel = Callable[..., Any]


# numba declares no type for ``_nrt``.
_njit: Callable[..., Callable[[Kernel], Kernel]] = numba.njit


def kernel(function: Kernel) -> Kernel:
    """Compile a function of arrays and numbers."""
    return _compiled(function)


def raw_kernel(function: Kernel) -> Kernel:
    """Compile a function that allocates nothing, without counting references: with many arrays that costs dear."""
    return _compiled(function, _nrt=False)


def inlined(function: Kernel) -> Kernel:
    """As ``raw_kernel``, and copied into each caller: for the small steps of an inner loop."""
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """A function to be compiled at its first call, and kept on disk where a folder can be written."""
    try:
        return _njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # no folder can be written: neither the package's nor that of the user
        warnings.warn(
            "compiled code cannot be kept on disk, so every start compiles it: set NUMBA_CACHE_DIR to a folder of your "
            "own that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
        warnings.filterwarnings("ignore", message="compiled code cannot be kept on disk")
        return _njit(nogil=True, **options)(function)


def machine_code(function: Kernel) -> Kernel:
    """A function for kernels to call whose code is generated, where the compiler finds no such form by itself."""
    return intrinsic(function)
