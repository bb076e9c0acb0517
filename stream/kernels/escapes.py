r"""Escapes of JSON strings (``\uXXXX``) to UTF-8, all of 59 bytes at once, without a branch for each.

Masks of 64 bits say where escapes begin, how many bytes of UTF-8 each needs, and what stops them. Vector code then
writes the bytes of UTF-8 over the digits that they come from, and moves together what is kept: three bytes are over the
digits 1, 2 and 4 of an escape, two over 2 and 4, one over 4. The bytes between escapes are kept as they are.

The escapes that begin in 59 bytes end in 64; masks keep the last five places for the next 59. So the next place to
read does not depend on what is found, and the processor begins with it early. Surrogates, the short escapes and faults
stop the loop, and the caller reads them one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from neardup.stream.kernels.bits import MASK_BITS, bit_count, mask_between, mask_of_breaks
from neardup.stream.kernels.compile import has_bit_extract, has_byte_compress, machine_code, raw_inner
from neardup.stream.kernels.vector_code import address_of

# Bytes that are read at once: the escapes that begin there, of six bytes, end in the 64 bytes.
_READ_BYTES = MASK_BITS - 5
_READ, _NEXT = np.uint64((1 << _READ_BYTES) - 1), np.uint64(_READ_BYTES)
_ONE, _TWO, _THREE, _FOUR, _FIVE = (np.uint64(places) for places in range(1, 6))
_BACKSLASH, _U, _0, _7, _8, _9, _A, _D, _F, _a, _d, _f = (np.uint8(code) for code in b"\\u0789ADFadf")
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, MASK_BITS)
_BITS = ir.VectorType(ir.IntType(1), MASK_BITS)


@raw_inner
def unescape(data, place, out, at):
    """Copy the bytes of ``data`` from ``place`` on to ``out``, from ``at`` on, while there are escapes and nothing
    stops; returns the places behind what was read and behind what was written.

    Quotes, control characters, and backslashes that do not begin the escape of a code point stop it. The digits of an
    escape are checked. No bounds checks: the caller guarantees a byte before ``place``, a control character and 64 more
    bytes behind the strings, and an ``out`` as long as ``data``.
    """
    # Bit n is of the byte ``place + n - 5``: escapes begin there; they need two bytes or one; they need one.
    starts = narrow = single = np.uint64(0)
    while True:
        # Digits, by value: any; below 8; 0; and the letter d, which with 8 or more behind it begins surrogates.
        low, zeros = mask_between(data, place, _0, _7), mask_between(data, place, _0, _0)
        digits = low | mask_between(data, place, _8, _9)
        digits |= mask_between(data, place, _A, _F) | mask_between(data, place, _a, _f)
        letters_d = mask_between(data, place, _D, _D) | mask_between(data, place, _d, _d)
        pairs = digits & (digits >> _ONE)
        found = mask_between(data, place, _BACKSLASH, _BACKSLASH) & (mask_between(data, place, _U, _U) >> _ONE)
        found &= (pairs >> _TWO) & (pairs >> _FOUR) & ~((letters_d >> _TWO) & ~(low >> _THREE)) & _READ
        stops = mask_of_breaks(data, place) & ~found & _READ
        before = ((stops & (~stops + _ONE)) - _ONE) & _READ
        found &= before
        is_narrow = found & (zeros >> _TWO) & (low >> _THREE)
        starts |= found << _FIVE
        narrow |= is_narrow << _FIVE
        single |= (is_narrow & (zeros >> _THREE) & (low >> _FOUR)) << _FIVE
        # Of each escape, the places of the last byte, of the byte before it, and of the first of three.
        middle, first = (starts & ~single) >> _TWO, (starts & ~narrow) >> _THREE
        escapes = starts | (starts >> _ONE)
        escapes |= (escapes >> _TWO) | (escapes >> _FOUR)
        kept = ((before & ~escapes) | starts | middle | first) & before
        _put(data, place, out, at, kept, first, middle, narrow >> _TWO, starts, single)
        at += np.int64(bit_count(kept))
        if stops or not starts:
            return place + np.int64(bit_count(before)), at
        place += _READ_BYTES
        starts, narrow, single = starts >> _NEXT, narrow >> _NEXT, single >> _NEXT


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
