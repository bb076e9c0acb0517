"""Bits of words, and comparisons of 64 numbers at a time, each with a few instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from stream.kernels.compile import machine_code

# Numbers that ``mask_below`` compares.
MASK_BITS = 64


@machine_code
def mask_below(context, data, place, bound):
    """Which of the 64 numbers of ``data`` (``uint32``) from ``place`` on are below ``bound``, as bits of a ``uint64``.

    No bounds checks: the caller guarantees 64 numbers.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        numbers = ir.VectorType(ir.IntType(32), MASK_BITS)
        address = builder.gep(held.data, [arguments[1]])
        found = builder.load(builder.bitcast(address, numbers.as_pointer()), align=4)
        nothing = ir.Constant(numbers, ir.Undefined)
        first = builder.insert_element(nothing, arguments[2], ir.Constant(ir.IntType(32), 0))
        bounds = builder.shuffle_vector(first, nothing, ir.Constant(numbers, [0] * MASK_BITS))
        return builder.bitcast(builder.icmp_unsigned("<", found, bounds), ir.IntType(64))

    return types.uint64(data, place, types.uint32), code


@machine_code
def copy_bits(context, data, place, bits, out, at):
    """Write ``bits`` of the 64 numbers of ``data`` (``uint32``) from ``place`` on to ``out``, from ``at`` on.

    No bounds checks: the caller guarantees 64 numbers in both, which do not overlap.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = ir.VectorType(ir.IntType(32), MASK_BITS)
        source, target = (
            builder.bitcast(
                builder.gep(
                    context.make_array(signature.args[n])(context, builder, arguments[n]).data, [arguments[n + 1]]
                ),
                numbers.as_pointer(),
            )
            for n in (0, 3)
        )
        nothing = ir.Constant(numbers, ir.Undefined)
        first = builder.insert_element(nothing, arguments[2], ir.Constant(ir.IntType(32), 0))
        kept = builder.shuffle_vector(first, nothing, ir.Constant(numbers, [0] * MASK_BITS))
        builder.store(builder.and_(builder.load(source, align=4), kept), target, align=4)
        return context.get_dummy_value()

    return types.void(data, place, types.uint32, out, at), code


@machine_code
def mask_of_breaks(context, data, place):
    """Which of the 64 bytes of ``data`` (``uint8``) from ``place`` on end a plain stretch of a JSON string, as bits of
    a ``uint64``: a quote, a backslash or a control character.

    No bounds checks: the caller guarantees 64 bytes.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        codes = ir.VectorType(ir.IntType(8), MASK_BITS)
        address = builder.gep(held.data, [arguments[1]])
        found = builder.load(builder.bitcast(address, codes.as_pointer()), align=1)
        quote, backslash, blank = (ir.Constant(codes, [one] * MASK_BITS) for one in b'"\\ ')
        breaks = builder.or_(builder.icmp_unsigned("==", found, quote), builder.icmp_unsigned("==", found, backslash))
        breaks = builder.or_(breaks, builder.icmp_unsigned("<", found, blank))
        return builder.bitcast(breaks, ir.IntType(64))

    return types.uint64(data, place), code


@machine_code
def copy_bytes(context, data, place, out, at):
    """Copy the 64 bytes of ``data`` (``uint8``) from ``place`` on to ``out`` (``uint8``), from ``at`` on.

    No bounds checks: the caller guarantees 64 bytes in both, which do not overlap.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes = ir.VectorType(ir.IntType(8), MASK_BITS)
        source, target = (
            builder.bitcast(
                builder.gep(
                    context.make_array(signature.args[n])(context, builder, arguments[n]).data, [arguments[n + 1]]
                ),
                codes.as_pointer(),
            )
            for n in (0, 2)
        )
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return types.void(data, place, out, at), code


@machine_code
def lowest_bit(context, word):
    """The place of the lowest bit that is set in a ``uint64``, as a ``uint64``; 64 if there is none."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), code


@machine_code
def bit_count(context, word):
    """How many bits of a ``uint64`` are set, as a ``uint64``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code
