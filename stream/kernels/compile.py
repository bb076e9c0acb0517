"""The decorators of the compiled functions: plain loops over arrays, without the interpreter lock, kept on disk.

The compiler looks only at a function's own file to see whether what is on disk is still good. Whoever edits a function
that others inline must delete the ``*.nbi`` files; the tests do that by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.extending import intrinsic

Kernel = Callable[..., Any]


# numba declares no type for ``_nrt``.
_njit: Callable[..., Callable[[Kernel], Kernel]] = numba.njit


def kernel(function: Kernel) -> Kernel:
    """Compile a function of arrays and numbers."""
    return _njit(nogil=True, cache=True)(function)


def raw_kernel(function: Kernel) -> Kernel:
    """Compile a function that allocates nothing, without counting references: with many arrays that costs dear."""
    return _njit(nogil=True, cache=True, _nrt=False)(function)


def inlined(function: Kernel) -> Kernel:
    """As ``raw_kernel``, and copied into each caller: for the small steps of an inner loop."""
    return _njit(nogil=True, cache=True, _nrt=False, forceinline=True)(function)


def machine_code(function: Kernel) -> Kernel:
    """A function for kernels to call whose code is generated, where the compiler finds no such form by itself."""
    return intrinsic(function)
