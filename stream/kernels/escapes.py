r"""Escapes of JSON strings (``\uXXXX``) to UTF-8, all of 64 bytes at once, without a branch for each.

Masks of 64 bits say where escapes begin, how many bytes of UTF-8 each needs, and where something else stops the plain
text. Vector code then writes the bytes of UTF-8 over the digits that they come from, and moves together what is kept:

    \u0627   becomes   ...(D8)(.)(A7)   three bytes over the digits 1, 2, 4; two over 2, 4; one over 4

Surrogates, the short escapes and faults stop it; the caller reads them one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from stream.kernels.bits import MASK_BITS, bit_count, lowest_bit, mask_between
from stream.kernels.compile import has_bit_extract, has_byte_compress, inlined, machine_code
from stream.kernels.vector_code import address_of

# An escape has six bytes, and begins so many places before the end of 64 bytes.
_ESCAPE_BYTES = 6
_STARTS = np.uint64((1 << (MASK_BITS - _ESCAPE_BYTES + 1)) - 1)
_ONE, _TWO, _THREE, _FOUR, _FIVE = (np.uint64(places) for places in range(1, 6))
_BACKSLASH, _U, _0, _7, _9, _A, _D, _F, _a, _d, _f = (np.uint8(code) for code in b"\\u079ADFadf")
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, MASK_BITS)
_BITS = ir.VectorType(ir.IntType(1), MASK_BITS)


@inlined
def unescape(data, place, breaks, out, at):
    """Copy the bytes of ``data`` from ``place`` on to ``out``, from ``at`` on, up to what stops; returns how many were
    read and how many were written.

    ``breaks`` are the quotes, backslashes and control characters of the 64 bytes. It stops at those that do not begin
    an escape of a code point, and at an escape that does not end in the 64 bytes. The digits of an escape are checked.
    No bounds checks: the caller guarantees a byte before the 64 bytes and one behind them, and 64 bytes in ``out``.
    """
    # Digits, by value: any; below 8; 0; and the letter d, which begins surrogates when a digit of 8 or more follows.
    low, zeros = mask_between(data, place, _0, _7), mask_between(data, place, _0, _0)
    digits = mask_between(data, place, _0, _9) | mask_between(data, place, _A, _F) | mask_between(data, place, _a, _f)
    letters_d = mask_between(data, place, _D, _D) | mask_between(data, place, _d, _d)
    pairs = digits & (digits >> _ONE)
    starts = mask_between(data, place, _BACKSLASH, _BACKSLASH) & (mask_between(data, place, _U, _U) >> _ONE) & _STARTS
    starts &= (pairs >> _TWO) & (pairs >> _FOUR) & ~((letters_d >> _TWO) & ~(low >> _THREE))
    stops = breaks & ~starts
    before = (stops & (~stops + _ONE)) - _ONE  # all bits if nothing stops
    starts &= before
    narrow = starts & (zeros >> _TWO) & (low >> _THREE)  # two bytes or one
    single = narrow & (zeros >> _THREE) & (low >> _FOUR)
    # Of each escape, the places of the last byte, of the byte before it, and of the first of three.
    last, middle, first = starts << _FIVE, (starts & ~single) << _THREE, (starts & ~narrow) << _TWO
    escapes = starts | (starts << _ONE)
    escapes |= (escapes << _TWO) | (escapes << _FOUR)
    kept = (before & ~escapes) | last | middle | first
    _put(data, place, out, at, kept, first, middle, narrow << _THREE, last, single << _FIVE)
    return np.int64(lowest_bit(stops)), np.int64(bit_count(kept))


@machine_code
def _put(context, data, place, out, at, kept, first, middle, narrow, last, single):
    """Write the kept ones of 64 bytes, one after the other, with the bytes of UTF-8 in the place of digits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (address_of(context, builder, signature, arguments, n, n + 1, _BYTES) for n in (0, 2))
        kept, first, middle, narrow, last, single = (builder.bitcast(bits, _BITS) for bits in arguments[4:])
        sources = [builder.gep(builder.bitcast(source, _BYTE.as_pointer()), [_WORD(n)]) for n in (-1, 0, 1)]
        raw = [builder.load(builder.bitcast(one, _BYTES.as_pointer()), align=1) for one in sources]
        before, digit, behind = (_value(builder, one) for one in raw)
        joined = builder.or_(_up(builder, before, 4), digit)
        tail = builder.or_(builder.and_(joined, _all(0x3F)), _all(0x80))
        tail = builder.select(single, joined, tail)
        head = builder.or_(_up(builder, digit, 2), builder.lshr(behind, _all(2)))
        head = builder.or_(head, builder.select(narrow, _all(0xC0), _all(0x80)))
        out = builder.select(last, tail, raw[1])
        out = builder.select(middle, head, out)
        out = builder.select(first, builder.or_(digit, _all(0xE0)), out)
        _put_kept(context, builder, out, kept, arguments[4], target)
        return context.get_dummy_value()

    return types.void(data, place, out, at, *[types.uint64] * 6), code


def _all(value: int) -> Any:
    """Return a vector of 64 equal bytes."""
    return ir.Constant(_BYTES, [value] * MASK_BITS)


def _up(builder: Any, values: Any, bits: int) -> Any:
    """Return bytes times a power of two."""
    return builder.shl(values, _all(bits))


def _value(builder: Any, codes: Any) -> Any:
    """Return the values of hexadecimal digits."""
    is_letter = builder.icmp_unsigned(">", codes, _all(0x39))
    low = builder.and_(codes, _all(0x0F))
    return builder.add(low, builder.select(is_letter, _all(9), _all(0)))


def _put_kept(context: Any, builder: Any, values: Any, kept: Any, bits: Any, target: Any) -> None:
    """Write the kept bytes of a vector one after the other."""
    if has_bit_extract(context) and not has_byte_compress(context):
        _put_words(builder, builder.bitcast(values, ir.VectorType(_WORD, MASK_BITS // 8)), bits, target)
        return
    compress = get_or_insert_function(
        builder.module,
        ir.FunctionType(_BYTES, [_BYTES, _BITS, _BYTES]),
        f"llvm.experimental.vector.compress.v{MASK_BITS}i8",
    )
    builder.store(builder.call(compress, [values, kept, ir.Constant(_BYTES, ir.Undefined)]), target, align=1)


def _put_words(builder: Any, words: Any, bits: Any, target: Any) -> None:
    """Write the kept bytes of words one after the other, eight at a time."""
    two_words = ir.FunctionType(_WORD, [_WORD, _WORD])
    extract = get_or_insert_function(builder.module, two_words, "llvm.x86.bmi.pext.64")
    deposit = get_or_insert_function(builder.module, two_words, "llvm.x86.bmi.pdep.64")
    at = builder.bitcast(target, _BYTE.as_pointer())
    for n in range(MASK_BITS // 8):
        chosen = builder.and_(builder.lshr(bits, _WORD(8 * n)), _WORD(0xFF))
        mask = builder.mul(builder.call(deposit, [chosen, _WORD(0x0101010101010101)]), _WORD(0xFF))
        word = builder.call(extract, [builder.extract_element(words, ir.Constant(ir.IntType(32), n)), mask])
        builder.store(word, builder.bitcast(at, _WORD.as_pointer()), align=1)
        at = builder.gep(at, [builder.ctpop(chosen)])
