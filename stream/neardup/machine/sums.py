"""Four partial sums of a pair of rows, in a fixed order.

Component i goes to partial sum i % 4, over whole fours of components. A compiler does not keep the four sums in one
register, because it would have to change the order of additions. Several terms at a time hide each other's latency.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neardup.machine.code import (
    F64,
    I32,
    I64,
    Code,
    Instructions,
    Value,
    alloca_once_value,
    for_range,
    primitive,
    types,
    vector,
)
from neardup.machine.compile import inlined

# Number of partial sums. In a single sum each addition would wait for the addition before it.
SUMS = 4
_KIND = vector(F64, SUMS)


def _partial_sums(*terms: Callable[[Code, Value, Value], Value]) -> Instructions:
    """Writes the code of four partial sums for each term."""

    def write(code: Code, x: Value, y: Value) -> Value:
        builder = code.builder
        totals = [alloca_once_value(builder, code.full(_KIND, None)) for _ in terms]
        with for_range(builder, builder.udiv(builder.extract_value(x.shape, 0), I64(SUMS))) as loop:
            at = builder.mul(loop.index, I64(SUMS))
            u, v = _components(code, x, at), _components(code, y, at)
            for total, term in zip(totals, terms, strict=True):
                builder.store(builder.fadd(builder.load(total), term(code, u, v)), total)
        return code.results([builder.extract_element(builder.load(t), I32(i)) for t in totals for i in range(SUMS)])

    return write


def _components(code: Code, row: Value, at: Value) -> Value:
    """Four components as ``float64``."""
    number = row.data.type.pointee
    loaded = code.load(row, at, vector(number, SUMS))
    return loaded if number == F64 else code.builder.fpext(loaded, _KIND)


def _product(code: Code, u: Value, v: Value) -> Value:
    return code.builder.fmul(u, v)


def _squared_difference(code: Code, u: Value, v: Value) -> Value:
    difference = code.builder.fsub(u, v)
    return code.builder.fmul(difference, difference)


def _absolute_difference(code: Code, u: Value, v: Value) -> Value:
    return code.call(f"llvm.fabs.v{SUMS}f64", _KIND, code.builder.fsub(u, v))


_FOUR, _TWELVE = (types.UniTuple(types.float64, count * SUMS) for count in (1, 3))


@primitive(_partial_sums(_product), _FOUR)
def products(x, y):
    """Partial sums of ``x * y``, of rows ``float32[d]`` or ``float64[d]``."""
    return _products(x, y)


@primitive(
    _partial_sums(lambda code, u, v: _product(code, u, u), lambda code, u, v: _product(code, v, v), _product), _TWELVE
)
def squares_and_products(x, y):
    """Partial sums of ``x * x``, of ``y * y`` and of ``x * y``."""
    return _products(x, x) + _products(y, y) + _products(x, y)


@primitive(_partial_sums(_squared_difference), _FOUR)
def squared_differences(x, y):
    """Partial sums of ``(x - y) ** 2``."""
    a = b = c = d = 0.0
    for i in range(0, len(x) // SUMS * SUMS, SUMS):
        a += (np.float64(x[i]) - np.float64(y[i])) ** 2
        b += (np.float64(x[i + 1]) - np.float64(y[i + 1])) ** 2
        c += (np.float64(x[i + 2]) - np.float64(y[i + 2])) ** 2
        d += (np.float64(x[i + 3]) - np.float64(y[i + 3])) ** 2
    return a, b, c, d


@primitive(_partial_sums(_absolute_difference), _FOUR)
def absolute_differences(x, y):
    """Partial sums of ``abs(x - y)``."""
    a = b = c = d = 0.0
    for i in range(0, len(x) // SUMS * SUMS, SUMS):
        a += abs(np.float64(x[i]) - np.float64(y[i]))
        b += abs(np.float64(x[i + 1]) - np.float64(y[i + 1]))
        c += abs(np.float64(x[i + 2]) - np.float64(y[i + 2]))
        d += abs(np.float64(x[i + 3]) - np.float64(y[i + 3]))
    return a, b, c, d


@inlined
def _products(x, y):
    a = b = c = d = 0.0
    for i in range(0, len(x) // SUMS * SUMS, SUMS):
        a += np.float64(x[i]) * np.float64(y[i])
        b += np.float64(x[i + 1]) * np.float64(y[i + 1])
        c += np.float64(x[i + 2]) * np.float64(y[i + 2])
        d += np.float64(x[i + 3]) * np.float64(y[i + 3])
    return a, b, c, d
