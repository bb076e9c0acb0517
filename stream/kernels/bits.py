"""Bits of words, and comparisons of 64 numbers at a time, each with a few instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from neardup.stream.kernels.compile import has_avx512, machine_code
from neardup.stream.kernels.vector_code import address_of, all_lanes

# Numbers that ``mask_below`` compares.
MASK_BITS = 64
# Numbers that ``keep_below`` reads.
KEEP_LANES = 8


@machine_code
def mask_below(context, data, place, bound):
    """Which of the 64 numbers of ``data`` (``uint32``) from ``place`` on are below ``bound``, as bits of a ``uint64``.

    No bounds checks: the caller guarantees 64 numbers.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = ir.VectorType(ir.IntType(32), MASK_BITS)
        found = builder.load(address_of(context, builder, signature, arguments, 0, 1, numbers), align=4)
        bounds = all_lanes(builder, arguments[2], MASK_BITS)
        return builder.bitcast(builder.icmp_unsigned("<", found, bounds), ir.IntType(64))

    return types.uint64(data, place, types.uint32), code


@machine_code
def copy_bits(context, data, place, bits, out, at):
    """Write ``bits`` of the 64 numbers of ``data`` (``uint32``) from ``place`` on to ``out``, from ``at`` on.

    No bounds checks: the caller guarantees 64 numbers in both, which do not overlap.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = ir.VectorType(ir.IntType(32), MASK_BITS)
        source, target = (address_of(context, builder, signature, arguments, n, n + 1, numbers) for n in (0, 3))
        kept = all_lanes(builder, arguments[2], MASK_BITS)
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
        codes = ir.VectorType(ir.IntType(8), MASK_BITS)
        found = builder.load(address_of(context, builder, signature, arguments, 0, 1, codes), align=1)
        quote, backslash, blank = (ir.Constant(codes, [one] * MASK_BITS) for one in b'"\\ ')
        breaks = builder.or_(builder.icmp_unsigned("==", found, quote), builder.icmp_unsigned("==", found, backslash))
        breaks = builder.or_(breaks, builder.icmp_unsigned("<", found, blank))
        return builder.bitcast(breaks, ir.IntType(64))

    return types.uint64(data, place), code


@machine_code
def mask_between(context, data, place, least, greatest):
    """Which of the 64 bytes of ``data`` (``uint8``) from ``place`` on are in a range, as bits of a ``uint64``.

    No bounds checks: the caller guarantees 64 bytes.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes = ir.VectorType(ir.IntType(8), MASK_BITS)
        found = builder.load(address_of(context, builder, signature, arguments, 0, 1, codes), align=1)
        least, greatest = (all_lanes(builder, bound, MASK_BITS) for bound in arguments[2:])
        is_in = builder.icmp_unsigned("<=", builder.sub(found, least), builder.sub(greatest, least))
        return builder.bitcast(is_in, ir.IntType(64))

    return types.uint64(data, place, types.uint8, types.uint8), code


@machine_code
def copy_bytes(context, data, place, out, at):
    """Copy the 64 bytes of ``data`` (``uint8``) from ``place`` on to ``out`` (``uint8``), from ``at`` on.

    No bounds checks: the caller guarantees 64 bytes in both, which do not overlap.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes = ir.VectorType(ir.IntType(8), MASK_BITS)
        source, target = (address_of(context, builder, signature, arguments, n, n + 1, codes) for n in (0, 2))
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


@machine_code
def has_compress(context):
    """Whether the processor has AVX-512, whose compressing instruction makes ``keep_below`` fast.

    A constant of the machine code: the compiler removes the branch that is not taken. The cache keeps the code of each
    processor apart.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(ir.IntType(1), has_avx512(context))

    return types.boolean(), code


@machine_code
def keep_below(context, data, place, factor, bound, out, at):
    """Write those of the 8 numbers of ``data`` (``uint64``) from ``place`` on to ``out``, from ``at`` on, whose high
    half times ``factor`` has a low half below ``bound`` (``uint32``); returns how many, as a ``uint64``.

    All 8 places of ``out`` are written. ``factor`` is below 2^32. No bounds checks.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        halves, numbers, choices = (ir.VectorType(ir.IntType(bits), KEEP_LANES) for bits in (32, 64, 1))
        source, target = (address_of(context, builder, signature, arguments, n, n + 1, numbers) for n in (0, 4))
        found = builder.load(source, align=8)
        factor, half = arguments[2], ir.Constant(ir.IntType(64), (1 << 32) - 1)
        product = builder.mul(
            builder.lshr(found, ir.Constant(numbers, [32] * KEEP_LANES)),
            all_lanes(builder, builder.and_(factor, half), KEEP_LANES),
        )
        bounds = all_lanes(builder, arguments[3], KEEP_LANES)
        chosen = builder.icmp_unsigned("<", builder.trunc(product, halves), bounds)
        compress = get_or_insert_function(
            builder.module,
            ir.FunctionType(numbers, [numbers, choices, numbers]),
            f"llvm.experimental.vector.compress.v{KEEP_LANES}i64",
        )
        kept = builder.call(compress, [found, chosen, ir.Constant(numbers, ir.Undefined)])
        builder.store(kept, target, align=8)
        return builder.zext(builder.ctpop(builder.bitcast(chosen, ir.IntType(KEEP_LANES))), ir.IntType(64))

    return types.uint64(data, place, types.uint64, types.uint32, out, at), code
