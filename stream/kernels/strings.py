"""Python strings for kernels: where their characters are in memory, and how runs of one character become short.

No bounds checks: the caller guarantees the characters that are read, and keeps each string alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once, get_or_insert_function, pack_array

from neardup.stream.kernels.compile import machine_code, raw_inner
from neardup.stream.kernels.vector_code import address_of, all_lanes

# Characters that are compared or moved at a time.
_BLOCK = 64
_ONE, _LAST = np.uint64(1), np.uint64(_BLOCK - 1)
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@machine_code
def string_parts(context, string):
    """Address and number of the characters of the Python string at an address, the bytes of each, and whether all are
    ASCII (``int64``, 4 times).

    A kernel that calls this holds the interpreter lock. Numba reads the strings that it is called with in this way.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        length, kind, is_ascii, hash_ = (alloca_once(builder, part) for part in (_I64, _I32, _I32, _I64))
        address = ir.IntType(8).as_pointer()
        read = get_or_insert_function(
            builder.module,
            ir.FunctionType(address, [address, length.type, kind.type, is_ascii.type, hash_.type]),
            "numba_extract_unicode",
        )
        data = builder.call(read, [builder.inttoptr(arguments[0], address), length, kind, is_ascii, hash_])
        parts = [builder.ptrtoint(data, _I64), builder.load(length)]
        parts += [builder.zext(builder.load(part), _I64) for part in (kind, is_ascii)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.int64, 4)(types.int64), code


def _view(dtype: Any) -> Any:
    """A function that returns the array of ``length`` numbers at an address."""

    @machine_code
    def view(context, address, length):
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            view = context.make_array(signature.return_type)(context, builder)
            size = ir.Constant(_I64, dtype.bitwidth // 8)
            view.data = builder.inttoptr(arguments[0], view.data.type)
            view.itemsize, view.nitems = size, arguments[1]
            view.shape, view.strides = (pack_array(builder, [number]) for number in (arguments[1], size))
            view.meminfo, view.parent = (ir.Constant(owner.type, None) for owner in (view.meminfo, view.parent))
            return view._getvalue()

        return types.Array(dtype, 1, "C")(types.int64, types.int64), code

    return view


bytes_at, halves_at, words_at = map(_view, (types.uint8, types.uint16, types.uint32))


@machine_code
def _equal_bits(context, codes, place, value):
    """Which of the 64 numbers of ``codes`` from ``place`` on are ``value``, as bits of a ``uint64``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = _vector(signature)
        found = builder.load(address_of(context, builder, signature, arguments, 0, 1, block), align=1)
        equal = builder.icmp_unsigned("==", found, all_lanes(builder, arguments[2], _BLOCK))
        return builder.bitcast(equal, _I64)

    return types.uint64(codes, place, codes.dtype), code


def _vector(signature: Any) -> ir.VectorType:
    return ir.VectorType(ir.IntType(signature.args[0].dtype.bitwidth), _BLOCK)


@raw_inner
def shorten_runs(codes, value):
    """Leave one ``value`` of each run of it, none at the ends, in place; returns the new length. Most texts have no
    run."""
    n = len(codes)
    if n == 0:
        return n
    whole = n - n % _BLOCK
    runs, before = np.uint64(0), np.uint64(codes[0] == value)
    for p in range(0, whole, _BLOCK):
        found = _equal_bits(codes, p, value)
        runs |= found & (found << _ONE | before)
        before = found >> _LAST
    for p in range(max(whole, 1), n):
        runs |= np.uint64((codes[p] == value) & (codes[p - 1] == value))
    if runs or codes[0] == value:
        return _drop_runs(codes, value)
    return n - (codes[n - 1] == value)


@raw_inner
def _drop_runs(codes, value):
    """Leave one ``value`` of each run of it, none at the ends, in place; returns the new length."""
    j = 0
    before = value  # a run at the start is dropped, later ones leave one value
    for p in range(len(codes)):
        c = codes[p]
        codes[j] = c  # the next one overwrites it if it must be dropped: no branch to mispredict at each word
        j += (c != value) | (before != value)
        before = c
    return j - 1 if j > 0 and before == value else j
