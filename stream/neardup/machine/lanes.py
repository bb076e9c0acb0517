"""Vectors that are copied, chosen from and summed: the loops for which compilers find no vector instructions."""

from __future__ import annotations

import numpy as np

from neardup.machine.code import I8, I16, I32, I64, Code, Value, ir, primitive, types, vector, without_model
from neardup.machine.compile import inlined
from neardup.machine.words import WORD_BYTES, put_word, word_at

# Numbers that ``copy_bits``, ``copy_bytes`` and ``changes`` take.
LANES = 64
# Terms that ``running_sums`` adds, and numbers that ``keep_below`` reads.
SUM_LANES = np.uint64(8)
KEEP_LANES = 8
# Numbers of eight bytes that ``common_longs`` compares with as many others.
COMMON_LANES = 4
_SUMS = int(SUM_LANES)
_ONE, _U32, _LOW32 = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)


def _copy_bits(code: Code, data: Value, index: Value, bits: Value, out: Value, at: Value) -> None:
    loaded = code.load(data, index, vector(I32, LANES))
    code.store(code.builder.and_(loaded, code.spread(bits, LANES)), out, at)


@primitive(_copy_bits, types.void, bits=types.uint32)
def copy_bits(data, index, bits, out, at):
    """Write ``bits`` of the 64 numbers of ``data`` (``uint32``) from ``index`` on to ``out``, from ``at`` on. The two
    do not overlap."""
    for i in range(LANES):
        out[at + i] = data[index + i] & bits


def _copy_bytes(code: Code, data: Value, index: Value, out: Value, at: Value) -> None:
    code.store(code.load(data, index, vector(I8, LANES)), out, at)


@primitive(_copy_bytes, types.void)
def copy_bytes(data, index, out, at):
    """Copy the 64 bytes of ``data`` (``uint8``) from ``index`` on to ``out`` (``uint8``), from ``at`` on. The two do
    not overlap."""
    for i in range(LANES):
        out[at + i] = data[index + i]


@inlined
def copy_range(data, first, out, at, count):
    """Copy ``count`` bytes of ``data`` (``uint8``) from ``first`` on to ``out`` (``uint8``), from ``at`` on. The two do
    not overlap."""
    if count >= LANES:
        for i in range(0, count - LANES, LANES):
            copy_bytes(data, first + i, out, at + i)
        copy_bytes(data, first + count - LANES, out, at + count - LANES)  # writes some bytes twice
        return
    whole = count - count % WORD_BYTES
    for i in range(0, whole, WORD_BYTES):
        put_word(out, at + i, word_at(data, first + i))
    for i in range(whole, count):
        out[at + i] = data[first + i]


def _changes(code: Code, data: Value, first: Value, out: Value, at: Value) -> Value:
    bytes_, indices = vector(I8, LANES), vector(I16, LANES)
    here, next_ = code.load(data, first, bytes_), code.load(data, first, bytes_, 1)
    differ = code.builder.icmp_unsigned("!=", here, next_)
    found = code.chosen(ir.Constant(bytes_, list(range(LANES))), differ)
    base = code.spread(code.builder.trunc(first, I16), LANES)
    code.store(code.builder.add(code.builder.zext(found, indices), base), out, at)
    return code.builder.ctpop(code.bits(differ))


@primitive(_changes, types.uint64, first=types.uint64, at=types.uint64)
def changes(data, first, out, at):
    """Write the indices p of 64 from ``first`` on with ``data[p] != data[p + 1]`` to ``out``, from ``at`` on.

    ``data`` is ``uint8`` with 65 numbers from ``first`` on, ``out`` is ``uint16`` with room for 64 more, however
    few they are. Returns how many, as a ``uint64``.
    """
    count = np.int64(0)
    for index in range(np.int64(first), np.int64(first) + LANES):
        out[np.int64(at) + count] = index
        count += data[index] != data[index + 1]
    return np.uint64(count)


def _running_sums(code: Code, codes: Value, factors: Value, first: Value, total: Value, out: Value) -> Value:
    builder, numbers = code.builder, vector(I64, _SUMS)
    narrow = vector(codes.data.type.pointee, _SUMS)
    terms = builder.add(builder.zext(code.load(codes, first, narrow), numbers), code.full(numbers, 1))
    sums = builder.mul(terms, code.load(factors, first, numbers))
    zeros = code.full(numbers, 0)
    for distance in (1, 2, 4):  # sums of 2, 4 and 8 terms that end in each lane
        lanes = [_SUMS + i - distance if i >= distance else 0 for i in range(_SUMS)]
        sums = builder.add(sums, builder.shuffle_vector(zeros, sums, ir.Constant(vector(I32, _SUMS), lanes)))
    last = builder.extract_element(sums, I32(_SUMS - 1))
    code.store(builder.add(sums, code.spread(total, _SUMS)), out, builder.add(first, I64(1)))
    return builder.add(total, last)


@primitive(_running_sums, types.uint64, first=types.uint64, total=types.uint64)
def running_sums(codes, factors, first, total, out):
    """Add eight terms (code + 1) * factor from index ``first`` on to ``total``; returns the sum, modulo 2^64.

    The sum up to the term of index p goes to ``out[p + 1]``. ``codes`` are ``uint8`` or ``uint32``, the others
    ``uint64``.
    """
    for index in range(np.int64(first), np.int64(first) + _SUMS):
        total += (np.uint64(codes[index]) + _ONE) * factors[index]
        out[index + 1] = total
    return total


def _keep_below(code: Code, data: Value, index: Value, factor: Value, bound: Value, out: Value, at: Value) -> Value:
    builder, numbers = code.builder, vector(I64, KEEP_LANES)
    loaded = code.load(data, index, numbers)
    low = builder.and_(factor, I64((1 << 32) - 1))
    product = builder.mul(builder.lshr(loaded, code.full(numbers, 32)), code.spread(low, KEEP_LANES))
    below = builder.trunc(product, vector(I32, KEEP_LANES))
    kept = builder.icmp_unsigned("<", below, code.spread(bound, KEEP_LANES))
    code.store(code.chosen(loaded, kept), out, at)
    return builder.zext(builder.ctpop(builder.bitcast(kept, I8)), I64)


@primitive(_keep_below, types.uint64, factor=types.uint64, bound=types.uint32)
def keep_below(data, index, factor, bound, out, at):
    """Write those of the 8 numbers of ``data`` (``uint64``) from ``index`` on to ``out``, from ``at`` on, whose high
    half times ``factor`` has a low half below ``bound`` (``uint32``); returns how many, as a ``uint64``.

    All 8 numbers of ``out`` are written. ``factor`` is below 2^32.
    """
    count = np.int64(0)
    for i in range(KEEP_LANES):
        number = data[np.int64(index) + i]
        out[np.int64(at) + count] = number
        count += np.int64((((number >> _U32) * factor) & _LOW32) < bound)
    return np.uint64(count)


def _common_longs(code: Code, a: Value, i: Value, b: Value, j: Value) -> Value:
    builder, kind, lanes = code.builder, vector(I64, COMMON_LANES), [*range(COMMON_LANES)]
    numbers, others = code.load(a, i, kind), code.load(b, j, kind)
    turns = [ir.Constant(vector(I32, COMMON_LANES), lanes[n:] + lanes[:n]) for n in lanes]
    equal = [builder.icmp_unsigned("==", numbers, builder.shuffle_vector(others, others, turn)) for turn in turns]
    return builder.zext(builder.ctpop(builder.bitcast(code.any_of(*equal), ir.IntType(COMMON_LANES))), I64)


@primitive(_common_longs, types.uint64)
def common_longs(a, i, b, j):
    """How many of the 4 numbers of eight bytes in ``a`` (``uint8``) from ``i`` on are among the 4 in ``b`` (``uint8``)
    from ``j`` on, as a ``uint64``; the numbers on a side differ."""
    common = np.uint64(0)
    for k in range(COMMON_LANES):
        for n in range(COMMON_LANES):
            common += np.uint64(word_at(a, i + WORD_BYTES * k) == word_at(b, j + WORD_BYTES * n))
    return common


@without_model(lambda code: ir.Constant(ir.IntType(1), code.has_avx512), types.boolean)
def has_compress():
    """Whether the processor has AVX-512, whose compressing instruction makes ``keep_below`` fast: a constant, so the
    compiler removes the branch that is not taken."""
