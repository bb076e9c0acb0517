"""UTF-8 -> code points, 16 bytes at a time, in vector code.

Blocks of ASCII are only widened. In another block, each byte is read as the first of its code point, together with the
three bytes after it. The results that begin at a continuation byte are then removed. Two rules decide whether the bytes
are UTF-8: continuation bytes stand exactly where the first bytes require them, and each code point has the shortest
form, is no surrogate and is at most 0x10FFFF.

Source: The Unicode Standard, 3.9, table 3-7 ("Well-Formed UTF-8 Byte Sequences").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from neardup.stream.kernels.compile import machine_code, raw_inner
from neardup.stream.kernels.vector_code import address_of

# The result of ``decode_utf8`` for bytes that are not UTF-8.
NOT_UTF8 = -1
# Bytes that ``_decode_block`` decodes, and that it reads.
_BLOCK, _READ = 16, 19
# The last bytes of a text are decoded from a copy, with zeros behind them.
TAIL_BYTES = 3 * _BLOCK
# Code points that are written behind the end of a result.
DECODED_SPARE = 3 * _BLOCK
_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_WORDS = ir.VectorType(_I32, _BLOCK)
# First bytes of two, three and four bytes begin here; the least code point of each.
_FIRST_BYTES = 0xC0, 0xE0, 0xF0
_LEAST = 0x80, 0x800, 0x10000
_ZERO, _WHOLE = np.uint64(0), np.uint64(_BLOCK)
# After a block with so many code points, the next one is examined for being ASCII: most texts that are mostly ASCII
# have such blocks only, and most others have none, so the branch is seldom mispredicted.
_PLAIN = np.uint64(13)


@machine_code
def _decode_block(context, data, place, required, out, at):
    """Decode the 16 bytes of ``data`` (``uint8``) from ``place`` on to ``out`` (``uint32``), from ``at`` on.

    Bit i of ``required``: whether byte i must be a continuation byte because of the bytes before. Returns the number of
    code points, ``required`` of the next block, and whether something is wrong (``uint64``, 3 times). No bounds checks:
    19 bytes are read, and 16 code points are written.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = address_of(context, builder, signature, arguments, 0, 1, _I8)
        first, *further = (_bytes_at(builder, source, n) for n in range(4))
        one, two, three = (builder.xor(byte, _all(0x80)) for byte in further)  # the six bits of continuation bytes
        begins = [builder.icmp_unsigned(">=", first, _all(least)) for least in _FIRST_BYTES]
        found, least = first, _all(0)
        parts = ((0x1F, (one,)), (0x0F, (one, two)), (0x0F, (one, two, three)))
        for is_first, (mask, bytes_), smallest in zip(begins, parts, _LEAST, strict=True):
            made = builder.and_(first, _all(mask))
            for byte in bytes_:
                made = builder.or_(builder.shl(made, _all(6)), byte)
            found = builder.select(is_first, made, found)
            least = builder.select(is_first, _all(smallest), least)
        is_surrogate = builder.icmp_unsigned("==", builder.and_(found, _all(0xFFFFF800)), _all(0xD800))
        wrong = builder.or_(
            builder.or_(builder.icmp_unsigned("<", found, least), is_surrogate),
            builder.icmp_unsigned(">", found, _all(0x10FFFF)),
        )
        continues = builder.icmp_unsigned("==", builder.and_(first, _all(0xC0)), _all(0x80))
        needed = arguments[2]
        for n, is_first in enumerate(begins, 1):
            needed = builder.or_(needed, builder.shl(_bits(builder, is_first), ir.Constant(_I64, n)))
        misplaced = builder.xor(builder.trunc(needed, _I16), builder.bitcast(continues, _I16))
        faults = builder.or_(misplaced, builder.bitcast(wrong, _I16))
        begun = builder.not_(continues)
        compress = get_or_insert_function(
            builder.module,
            ir.FunctionType(_WORDS, [_WORDS, begun.type, _WORDS]),
            f"llvm.experimental.vector.compress.v{_BLOCK}i32",
        )
        target = address_of(context, builder, signature, arguments, 3, 4, _WORDS)
        builder.store(builder.call(compress, [found, begun, ir.Constant(_WORDS, ir.Undefined)]), target, align=4)
        results = [
            builder.ctpop(_bits(builder, begun)),
            builder.lshr(needed, ir.Constant(_I64, _BLOCK)),
            builder.zext(faults, _I64),
        ]
        return context.make_tuple(builder, signature.return_type, results)

    return types.UniTuple(types.uint64, 3)(data, place, types.uint64, out, at), code


def _bytes_at(builder: Any, source: Any, n: int) -> Any:
    """16 bytes as numbers of 32 bits, from the n-th on."""
    kind = ir.VectorType(_I8, _BLOCK)
    address = builder.bitcast(builder.gep(source, [ir.Constant(_I64, n)]), kind.as_pointer())
    return builder.zext(builder.load(address, align=1), _WORDS)


def _all(value: int) -> Any:
    return ir.Constant(_WORDS, [value] * _BLOCK)


def _bits(builder: Any, choices: Any) -> Any:
    """The choices as bits of a word."""
    return builder.zext(builder.bitcast(choices, _I16), _I64)


@machine_code
def _is_ascii(context, data, place):
    """Whether the 16 bytes of ``data`` (``uint8``) from ``place`` on are ASCII."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_I8, _BLOCK)
        found = builder.load(address_of(context, builder, signature, arguments, 0, 1, kind), align=1)
        high = builder.bitcast(builder.icmp_signed("<", found, ir.Constant(kind, [0] * _BLOCK)), _I16)
        return builder.icmp_unsigned("==", high, ir.Constant(_I16, 0))

    return types.boolean(data, place), code


@machine_code
def _widen(context, data, place, out, at):
    """Write the 16 bytes of ``data`` (``uint8``) from ``place`` on to ``out`` (``uint32``), from ``at`` on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _bytes_at(builder, address_of(context, builder, signature, arguments, 0, 1, _I8), 0)
        builder.store(found, address_of(context, builder, signature, arguments, 2, 3, _WORDS), align=4)
        return context.get_dummy_value()

    return types.void(data, place, out, at), code


@raw_inner
def decode_utf8(data, first, end, tail, out):
    """Decode the bytes from ``first`` to ``end`` of ``data`` (``uint8``) to ``out`` (``uint32``).

    ``tail`` is scratch (``uint8[TAIL_BYTES]``). ``out`` has room for ``DECODED_SPARE`` more code points than the text
    has. Returns how many it has, or ``NOT_UTF8``.
    """
    required, faults, at = _ZERO, _ZERO, _ZERO
    place, is_plain = first, True  # whether the next block may well be ASCII
    while place + _BLOCK <= end and place + _READ <= len(data):
        if is_plain and required == _ZERO and _is_ascii(data, place):
            _widen(data, place, out, at)
            count = _WHOLE
        else:
            count, required, wrong = _decode_block(data, place, required, out, at)
            faults |= wrong
            is_plain = count >= _PLAIN
        at += count
        place += _BLOCK
    rest = end - place
    tail[:] = 0  # a zero is a code point of its own, and no continuation byte
    for i in range(rest):
        tail[i] = data[place + i]
    for begin in range(0, 2 * _BLOCK, _BLOCK):
        count, required, wrong = _decode_block(tail, begin, required, out, at)
        faults |= wrong
        at += count
    return np.int64(at) - (2 * _BLOCK - rest) if faults == _ZERO else np.int64(NOT_UTF8)
