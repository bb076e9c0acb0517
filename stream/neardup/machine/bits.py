"""Bits of words, and comparisons of many numbers at once whose results are bits."""

from __future__ import annotations

import numpy as np

from neardup.machine.code import I1, I8, I32, I64, Code, Value, primitive, types, vector

# Numbers that ``mask_below``, ``mask_between`` and ``mask_of_breaks`` compare.
MASK_BITS = 64
# Entries of a cache line, which ``mask_of_line`` compares.
LINE = 8
_ONE, _NONE = np.uint64(1), np.uint64(MASK_BITS)
_U32, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)


@primitive(lambda code, word: code.builder.cttz(word, I1(0)), types.uint64, word=types.uint64)
def lowest_bit(word):
    """The number of the lowest bit that is set in a ``uint64``, as a ``uint64``; 64 if there is none."""
    count = np.uint64(0)
    while count < _NONE and not (word >> count) & _ONE:
        count += _ONE
    return count


@primitive(lambda code, word: code.builder.ctpop(word), types.uint64, word=types.uint64)
def bit_count(word):
    """How many bits of a ``uint64`` are set, as a ``uint64``."""
    count = np.uint64(0)
    for bit in range(MASK_BITS):
        count += (word >> np.uint64(bit)) & _ONE
    return count


def _mask_below(code: Code, data: Value, index: Value, bound: Value) -> Value:
    loaded = code.load(data, index, vector(I32, MASK_BITS))
    return code.bits(code.builder.icmp_unsigned("<", loaded, code.spread(bound, MASK_BITS)))


@primitive(_mask_below, types.uint64, bound=types.uint32)
def mask_below(data, index, bound):
    """Which of the 64 numbers of ``data`` (``uint32``) from ``index`` on are below ``bound``, as bits of a
    ``uint64``."""
    mask = np.uint64(0)
    for i in range(MASK_BITS):
        mask |= np.uint64(data[np.int64(index) + i] < bound) << np.uint64(i)
    return mask


def _mask_between(code: Code, data: Value, index: Value, least: Value, greatest: Value) -> Value:
    loaded = code.load(data, index, vector(least.type, MASK_BITS))
    least, greatest = (code.spread(bound, MASK_BITS) for bound in (least, greatest))
    above = code.builder.sub(loaded, least)
    return code.bits(code.builder.icmp_unsigned("<=", above, code.builder.sub(greatest, least)))


@primitive(_mask_between, types.uint64, least=lambda data: data.dtype, greatest=lambda data: data.dtype)
def mask_between(data, index, least, greatest):
    """Which of the 64 numbers of ``data`` (unsigned) from ``index`` on are in a range, as bits of a ``uint64``."""
    mask = np.uint64(0)
    for i in range(MASK_BITS):
        mask |= np.uint64(least <= data[index + i] <= greatest) << np.uint64(i)
    return mask


def _mask_of_breaks(code: Code, data: Value, index: Value) -> Value:
    codes = vector(I8, MASK_BITS)
    loaded = code.load(data, index, codes)
    quote, backslash, blank = (code.full(codes, one) for one in b'"\\ ')
    compare = code.builder.icmp_unsigned
    return code.bits(
        code.any_of(compare("==", loaded, quote), compare("==", loaded, backslash), compare("<", loaded, blank))
    )


@primitive(_mask_of_breaks, types.uint64)
def mask_of_breaks(data, index):
    """Which of the 64 bytes of ``data`` (``uint8``) from ``index`` on end a plain stretch of a JSON string, as bits of
    a ``uint64``: a quote, a backslash or a control character."""
    mask = np.uint64(0)
    for i in range(MASK_BITS):
        byte = data[index + i]
        mask |= np.uint64((byte == 0x22) | (byte == 0x5C) | (byte < 0x20)) << np.uint64(i)
    return mask


def _mask_of_line(code: Code, entries: Value, line: Value, tag: Value, base: Value, alive: Value) -> Value:
    words, builder = vector(I64, LINE), code.builder
    loaded = code.load(entries, line, words)
    tags, bases, alives = (code.spread(value, LINE) for value in (tag, base, alive))
    equal = builder.icmp_unsigned("==", builder.lshr(loaded, code.full(words, 32)), tags)
    free = builder.icmp_unsigned("==", loaded, code.full(words, 0))
    after = builder.and_(builder.sub(loaded, bases), code.full(words, (1 << 32) - 1))
    expired = builder.icmp_unsigned(">=", after, alives)
    masks = (builder.shl(code.bits(one), I64(8 * n)) for n, one in enumerate((equal, free, expired)))
    return code.any_of(*masks)


@primitive(_mask_of_line, types.uint64, tag=types.uint64, base=types.uint64, alive=types.uint64)
def mask_of_line(entries, line, tag, base, alive):
    """Three masks of the eight entries (``uint64``) at ``line``: bits 0 to 7 say which have ``tag`` as their high half,
    bits 8 to 15 which are zero, bits 16 to 23 whose low half is not in ``[base, base + alive)``, modulo 2^32."""
    masks = np.uint64(0)
    for i in range(LINE):
        entry = entries[line + i]
        masks |= np.uint64(entry >> _U32 == tag) << np.uint64(i)
        masks |= np.uint64(entry == np.uint64(0)) << np.uint64(i + 8)
        masks |= np.uint64(((entry - base) & _LOW32) >= alive) << np.uint64(i + 16)
    return masks
