"""Vector operations that no loop compiles to, each with a few instructions.

No bounds checks: the caller guarantees the numbers that are read and the room for those that are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from neardup.stream.kernels.compile import machine_code
from neardup.stream.kernels.vector_code import address_of, all_lanes

# Places that ``changes`` compares, and terms that ``running_sums`` adds.
LANES, SUM_LANES = 64, np.uint64(8)
_SUMS = int(SUM_LANES)
_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


@machine_code
def changes(context, data, first, out, at):
    """Write the places p of 64 from ``first`` on with ``data[p] != data[p + 1]`` to ``out``, from ``at`` on.

    ``data`` is ``uint8`` with 65 numbers from ``first`` on, ``out`` is ``uint16`` with room for 64 more places, however
    few they are. Returns how many, as a ``uint64``.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_, places = ir.VectorType(_I8, LANES), ir.VectorType(_I16, LANES)
        here = address_of(context, builder, signature, arguments, 0, 1, _I8)
        further = builder.gep(here, [ir.Constant(_I64, 1)])
        differ = builder.icmp_unsigned("!=", _load(builder, here, bytes_), _load(builder, further, bytes_))
        compress = get_or_insert_function(
            builder.module,
            ir.FunctionType(bytes_, [bytes_, differ.type, bytes_]),
            f"llvm.experimental.vector.compress.v{LANES}i8",
        )
        every = ir.Constant(bytes_, list(range(LANES)))
        chosen = builder.zext(builder.call(compress, [every, differ, ir.Constant(bytes_, ir.Undefined)]), places)
        base = all_lanes(builder, builder.trunc(arguments[1], _I16), LANES)
        target = address_of(context, builder, signature, arguments, 2, 3, places)
        builder.store(builder.add(chosen, base), target, align=1)
        return builder.ctpop(builder.bitcast(differ, _I64))

    return types.uint64(data, types.uint64, out, types.uint64), code


@machine_code
def running_sums(context, codes, factors, first, total, out):
    """Add eight terms (code + 1) * factor from place ``first`` on to ``total``; returns the sum, modulo 2^64.

    The sum up to the term of place p goes to ``out[p + 1]``. ``codes`` are ``uint8`` or ``uint32``, the others
    ``uint64``.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = ir.VectorType(_I64, _SUMS)
        narrow = ir.VectorType(ir.IntType(signature.args[0].dtype.bitwidth), _SUMS)
        codes, factors, target = (
            address_of(context, builder, signature, arguments, n, 2, kind)
            for n, kind in ((0, narrow), (1, numbers), (4, _I64))
        )
        ones = ir.Constant(numbers, [1] * _SUMS)
        terms = builder.add(builder.zext(builder.load(codes, align=1), numbers), ones)
        sums = builder.mul(terms, builder.load(factors, align=1))
        zeros = ir.Constant(numbers, [0] * _SUMS)
        for distance in (1, 2, 4):  # sums of 2, 4 and 8 terms that end in each lane
            lanes = [_SUMS + i - distance if i >= distance else 0 for i in range(_SUMS)]
            sums = builder.add(sums, builder.shuffle_vector(zeros, sums, _lanes(lanes)))
        last = builder.extract_element(sums, ir.Constant(_I32, _SUMS - 1))
        sums = builder.add(sums, all_lanes(builder, arguments[3], _SUMS))
        place = builder.bitcast(builder.gep(target, [ir.Constant(_I64, 1)]), numbers.as_pointer())
        builder.store(sums, place, align=1)
        return builder.add(arguments[3], last)

    return types.uint64(codes, factors, types.uint64, types.uint64, out), code


def _load(builder: Any, address: Any, vector: ir.VectorType) -> Any:
    return builder.load(builder.bitcast(address, vector.as_pointer()), align=1)


def _lanes(lanes: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
