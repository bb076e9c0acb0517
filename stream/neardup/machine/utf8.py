"""UTF-8 in blocks: read to code points, and written over the escapes of JSON strings."""

from __future__ import annotations

import numpy as np

from neardup.machine.code import I1, I8, I16, I32, I64, Code, Value, ir, primitive, types, vector
from neardup.machine.compile import inlined

# Bytes that ``decode_block`` decodes, and that it reads.
BLOCK, READ = 16, 19
_WORDS = vector(I32, BLOCK)
# First bytes of two, three and four bytes begin here; which bits of them count; the least code point of each.
_FIRST_BYTES, _FIRST_BITS, _LEAST = (0xC0, 0xE0, 0xF0), (0x1F, 0x0F, 0x0F), (0x80, 0x800, 0x10000)
_BITS_BY_LENGTH = np.array([0, 0xFF, *_FIRST_BITS], np.uint32)
_LEAST_BY_LENGTH = np.array([0, 0, *_LEAST], np.uint32)
_ONE, _WHOLE, _SIX = np.uint64(1), np.uint64(BLOCK), np.uint32(6)
_SURROGATES, _SURROGATE_BITS, _LAST = np.uint32(0xD800), np.uint32(0xFFFFF800), np.uint32(0x10FFFF)
# Bytes that ``put_escapes`` takes.
_LANES = 64
_BYTES = vector(I8, _LANES)


def _decode_block(code: Code, data: Value, index: Value, required: Value, out: Value, at: Value) -> Value:
    builder = code.builder
    first, *further = (_widened(code, data, index, n) for n in range(4))
    continued = [builder.xor(byte, code.full(_WORDS, 0x80)) for byte in further]
    begins = [builder.icmp_unsigned(">=", first, code.full(_WORDS, least)) for least in _FIRST_BYTES]
    found, least = first, code.full(_WORDS, 0)
    for n, (is_first, mask, smallest) in enumerate(zip(begins, _FIRST_BITS, _LEAST, strict=True), 1):
        made = builder.and_(first, code.full(_WORDS, mask))
        for byte in continued[:n]:
            made = builder.or_(builder.shl(made, code.full(_WORDS, 6)), byte)
        found = builder.select(is_first, made, found)
        least = builder.select(is_first, code.full(_WORDS, smallest), least)
    surrogates = builder.and_(found, code.full(_WORDS, 0xFFFFF800))
    wrong = code.any_of(
        builder.icmp_unsigned("<", found, least),
        builder.icmp_unsigned("==", surrogates, code.full(_WORDS, 0xD800)),
        builder.icmp_unsigned(">", found, code.full(_WORDS, 0x10FFFF)),
    )
    kinds = builder.and_(first, code.full(_WORDS, 0xC0))
    continues = builder.icmp_unsigned("==", kinds, code.full(_WORDS, 0x80))
    needed = required
    for n, is_first in enumerate(begins, 1):
        needed = builder.or_(needed, builder.shl(code.bits(is_first), I64(n)))
    misplaced = builder.xor(builder.trunc(needed, I16), builder.bitcast(continues, I16))
    faults = builder.or_(misplaced, builder.bitcast(wrong, I16))
    begun = builder.not_(continues)
    code.store(code.chosen(found, begun), out, at)
    return code.results([builder.ctpop(code.bits(begun)), builder.lshr(needed, I64(BLOCK)), builder.zext(faults, I64)])


def _widened(code: Code, data: Value, index: Value, further: int = 0) -> Value:
    """16 bytes as numbers of 32 bits."""
    return code.builder.zext(code.load(data, index, vector(I8, BLOCK), further), _WORDS)


@primitive(_decode_block, types.UniTuple(types.uint64, 3), required=types.uint64)
def decode_block(data, index, required, out, at):
    """Decode the 16 bytes of ``data`` (``uint8``) from ``index`` on to ``out`` (``uint32``), from ``at`` on.

    Bit i of ``required``: whether byte i must be a continuation byte because of the bytes before. Returns the number of
    code points, ``required`` of the next block, and the bytes at which something is wrong, as bits (``uint64``, 3
    times). 19 bytes are read, and 16 code points are written, however few they are.
    """
    count, faults = np.int64(0), np.uint64(0)
    for i in range(BLOCK):
        first = np.uint32(data[index + i])
        length = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
        found = first & _BITS_BY_LENGTH[length]
        for n in range(1, length):
            found = np.uint32(found << _SIX) | np.uint32(data[index + i + n] ^ 0x80)
            required |= _ONE << np.uint64(i + n)
        wrong = (found < _LEAST_BY_LENGTH[length]) | (found & _SURROGATE_BITS == _SURROGATES) | (found > _LAST)
        continues = first & 0xC0 == 0x80
        misplaced = continues != (required >> np.uint64(i)) & _ONE
        faults |= np.uint64(wrong | misplaced) << np.uint64(i)
        out[np.int64(at) + count] = found
        count += not continues
    return np.uint64(count), required >> _WHOLE, faults


@inlined
def is_ascii(data, index):
    """Whether the 16 bytes of ``data`` (``uint8``) from ``index`` on are ASCII."""
    all_bits = np.uint8(0)
    for i in range(BLOCK):
        all_bits |= data[index + i]
    return all_bits < 0x80


@primitive(lambda code, data, index, out, at: code.store(_widened(code, data, index), out, at), types.void)
def widen(data, index, out, at):
    """Write the 16 bytes of ``data`` (``uint8``) from ``index`` on to ``out`` (``uint32``), from ``at`` on."""
    for i in range(BLOCK):
        out[np.int64(at) + i] = data[index + i]


def _put_escapes(code: Code, data: Value, index: Value, out: Value, at: Value, *masks: Value) -> None:
    builder = code.builder
    kept, first, middle, narrow, last, single = (builder.bitcast(bits, vector(I1, _LANES)) for bits in masks)
    raw = code.load(data, index, _BYTES)
    before, digit, behind = (_hexadecimal(code, code.load(data, index, _BYTES, n)) for n in (-1, 0, 1))

    def all_(value: int) -> Value:
        return code.full(_BYTES, value)

    joined = builder.or_(builder.shl(before, all_(4)), digit)
    tail = builder.select(single, joined, builder.or_(builder.and_(joined, all_(0x3F)), all_(0x80)))
    marks = builder.select(narrow, all_(0xC0), all_(0x80))
    head = code.any_of(builder.shl(digit, all_(2)), builder.lshr(behind, all_(2)), marks)
    bytes_ = builder.select(last, tail, raw)
    bytes_ = builder.select(middle, head, bytes_)
    bytes_ = builder.select(first, builder.or_(digit, all_(0xE0)), bytes_)
    if code.has_bit_extract and not code.has_byte_compress:
        _store_kept_words(code, builder.bitcast(bytes_, vector(I64, _LANES // 8)), masks[0], out, at)
    else:
        code.store(code.chosen(bytes_, kept), out, at)


def _hexadecimal(code: Code, codes: Value) -> Value:
    """The values of hexadecimal digits."""
    is_letter = code.builder.icmp_unsigned(">", codes, code.full(_BYTES, 0x39))
    low = code.builder.and_(codes, code.full(_BYTES, 0x0F))
    return code.builder.add(low, code.builder.select(is_letter, code.full(_BYTES, 9), code.full(_BYTES, 0)))


def _store_kept_words(code: Code, words: Value, kept: Value, out: Value, at: Value) -> None:
    """Write the kept bytes of words one after the other, eight at a time."""
    builder, target = code.builder, code.address(out, at, I8)
    for n in range(_LANES // 8):
        bits = builder.and_(builder.lshr(kept, I64(8 * n)), I64(0xFF))
        one_a_byte = code.call("llvm.x86.bmi.pdep.64", I64, bits, I64(0x0101010101010101))
        word = builder.extract_element(words, ir.Constant(I32, n))
        word = code.call("llvm.x86.bmi.pext.64", I64, word, builder.mul(one_a_byte, I64(0xFF)))
        builder.store(word, builder.bitcast(target, I64.as_pointer()), align=1)
        target = builder.gep(target, [builder.ctpop(bits)])


_MASKS = dict.fromkeys(("kept", "first", "middle", "narrow", "last", "single"), types.uint64)


@primitive(_put_escapes, types.void, **_MASKS)
def put_escapes(data, index, out, at, kept, first, middle, narrow, last, single):
    """Write the kept ones of the 64 bytes of ``data`` (``uint8``) from ``index`` on to ``out``, one after the other,
    with the bytes of UTF-8 instead of hexadecimal digits.

    The masks have a bit for each byte. A ``last`` byte joins the digit before it and its own; it is a whole byte where
    it is ``single``. A ``middle`` byte joins its own digit and half of the next; it is the first of two where it is
    ``narrow``. A ``first`` byte is the first of three. All 64 bytes of ``out`` are written.
    """
    count = np.int64(0)
    for i in range(_LANES):
        at_i = np.int64(index) + i
        before, digit, behind = _digit(data[at_i - 1]), _digit(data[at_i]), _digit(data[at_i + 1])
        bit = np.uint64(i)
        byte, joined = np.int64(data[at_i]), before << 4 | digit
        if last >> bit & _ONE:
            byte = joined if single >> bit & _ONE else joined & 0x3F | 0x80
        if middle >> bit & _ONE:
            byte = digit << 2 | behind >> 2 | (0xC0 if narrow >> bit & _ONE else 0x80)
        if first >> bit & _ONE:
            byte = digit | 0xE0
        out[at + count] = np.uint8(byte)
        count += np.int64(kept >> bit & _ONE)


@inlined
def _digit(code):
    """The value of a hexadecimal digit."""
    return np.int64(code & 0x0F) + 9 * (code > 0x39)
