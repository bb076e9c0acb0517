"""Decorators that compile functions: plain loops over arrays, without the interpreter lock, cached on disk.

The cache notices a change of the file that holds a function, not of functions that it inlines. After an edit of a
function that others inline, delete the ``*.nbi`` files; the test suite does so itself.
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
    """Compile a function that allocates nothing, without reference counts, which are slow for many arrays."""
    return _njit(nogil=True, cache=True, _nrt=False)(function)


def inlined(function: Kernel) -> Kernel:
    """Compile as ``raw_kernel`` does, and copy the code into each caller: for small steps of an inner loop."""
    return _njit(nogil=True, cache=True, _nrt=False, forceinline=True)(function)


def machine_code(function: Kernel) -> Kernel:
    """Make a function whose machine code is generated here, for kernels to call."""
    return intrinsic(function)
