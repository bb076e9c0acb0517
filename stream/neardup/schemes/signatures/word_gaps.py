"""Bits in units of 16, filled from the lowest on, and the gaps between words in them.

A *gap* is how many code points stand before a word. Most are *usual*: one blank, or nothing after an ideograph. How
many in a row are usual is a Rice code: a 1 behind a zero for each four, and the rest in two bits. Then an unusual one
follows: two is 0, the other one of nothing and one 10, a longer one 11 and how much longer than two it is, in Elias'
gamma code. Bits are written over zeros; what is written returns where the next bits are, what is read does also.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined

UNIT_BITS, UNIT_SIZE, IN_UNIT = 4, 16, 15
# A word has so many bits of a code of gaps at most, and each code point between words two.
GAP_BITS = 6
# A gap of so many or less has a code of its own; bits of a Rice code behind its unary part.
_SHORT_GAP, _RICE = 2, 2


@inlined
def put_bits(units, bit, count, number):
    """Write so many bits of a number."""
    for n in range(count):
        units[(bit + n) >> UNIT_BITS] |= np.uint16((number >> n & 1) << (bit + n & IN_UNIT))
    return bit + count


@inlined
def take_bits(units, bit, size):
    """Return the number of so many bits, 16 at most."""
    at, shift = bit >> UNIT_BITS, bit & IN_UNIT
    number = np.int64(units[at]) >> shift
    if shift + size > UNIT_SIZE:
        number |= np.int64(units[at + 1]) << (UNIT_SIZE - shift)
    return number & ((1 << size) - 1)


@inlined
def _skip_zeros(units, bit):
    """Return how many zeros stand before the next 1, and the bit behind it."""
    zeros = 0
    while not units[bit >> UNIT_BITS] >> (bit & IN_UNIT) & 1:
        zeros, bit = zeros + 1, bit + 1
    return zeros, bit + 1


@inlined
def put_run(units, bit, run):
    """Write how many gaps in a row are usual."""
    bit = put_bits(units, bit + (run >> _RICE), 1, 1)
    return put_bits(units, bit, _RICE, run)


@inlined
def put_gap(units, bit, gap):
    """Write an unusual gap."""
    if gap <= _SHORT_GAP:
        return bit + 1 if gap == _SHORT_GAP else put_bits(units, bit, 2, 1)
    longer, digits = gap - _SHORT_GAP, 0
    while longer >> (digits + 1):
        digits += 1
    bit = put_bits(units, bit, 2, 3)
    bit = put_bits(units, bit + digits, 1, 1)
    return put_bits(units, bit, digits, longer)


@inlined
def take_run(units, bit):
    """Return how many gaps in a row are usual."""
    fours, bit = _skip_zeros(units, bit)
    return np.int64(fours << _RICE | take_bits(units, bit, _RICE)), bit + _RICE


@inlined
def take_gap(units, bit):
    """Return an unusual gap."""
    if not take_bits(units, bit, 1):
        return np.int64(_SHORT_GAP), bit + 1
    if not take_bits(units, bit + 1, 1):
        return np.int64(0), bit + 2
    digits, bit = _skip_zeros(units, bit + 2)
    longer = np.int64(1) << digits
    for n in range(digits):
        longer |= take_bits(units, bit + n, 1) << n
    return longer + _SHORT_GAP, bit + digits
