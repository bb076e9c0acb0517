r"""Escapes of JSON strings (``\uXXXX``) to UTF-8, all of 59 bytes at once, without a branch for each.

Masks of 64 bits say where escapes begin, how many bytes of UTF-8 each needs, and what stops them. Vector code then
writes the bytes of UTF-8 over the digits that they come from, and moves together what is kept: three bytes are over the
digits 1, 2 and 4 of an escape, two over 2 and 4, one over 4. The bytes between escapes are kept as they are.

The escapes that begin in 59 bytes end in 64; masks keep the last five bits for the next 59. So the next byte to
read does not depend on what is found, and the processor begins with it early. Surrogates, the short escapes and faults
stop the loop, and the caller reads them one by one.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.bits import MASK_BITS, bit_count, mask_between, mask_of_breaks
from neardup.machine.compile import inner
from neardup.machine.utf8 import put_escapes

# Bytes that are read at once: the escapes that begin there, of six bytes, end in the 64 bytes.
_READ_BYTES = MASK_BITS - 5
_READ, _NEXT = np.uint64((1 << _READ_BYTES) - 1), np.uint64(_READ_BYTES)
_ONE, _TWO, _THREE, _FOUR, _FIVE = (np.uint64(bits) for bits in range(1, 6))
_BACKSLASH, _U, _0, _7, _8, _9, _A, _D, _F, _a, _d, _f = (np.uint8(code) for code in b"\\u0789ADFadf")


@inner
def unescape(data, index, out, at):
    """Copy the bytes of ``data`` from ``index`` on to ``out``, from ``at`` on, while there are escapes and nothing
    stops; returns the indices behind what was read and behind what was written.

    Quotes, control characters, and backslashes that do not begin the escape of a code point stop it. The digits of an
    escape are checked. No bounds checks: the caller guarantees a byte before ``index``, a control character and 64 more
    bytes behind the strings, and an ``out`` as long as ``data``.
    """
    # Bit n is of the byte ``index + n - 5``: escapes begin there; they need two bytes or one; they need one.
    starts = narrow = single = np.uint64(0)
    while True:
        # Digits, by value: any; below 8; 0; and the letter d, which with 8 or more behind it begins surrogates.
        low, zeros = mask_between(data, index, _0, _7), mask_between(data, index, _0, _0)
        digits = low | mask_between(data, index, _8, _9)
        digits |= mask_between(data, index, _A, _F) | mask_between(data, index, _a, _f)
        letters_d = mask_between(data, index, _D, _D) | mask_between(data, index, _d, _d)
        pairs = digits & (digits >> _ONE)
        found = mask_between(data, index, _BACKSLASH, _BACKSLASH) & (mask_between(data, index, _U, _U) >> _ONE)
        found &= (pairs >> _TWO) & (pairs >> _FOUR) & ~((letters_d >> _TWO) & ~(low >> _THREE)) & _READ
        stops = mask_of_breaks(data, index) & ~found & _READ
        before = ((stops & (~stops + _ONE)) - _ONE) & _READ
        found &= before
        is_narrow = found & (zeros >> _TWO) & (low >> _THREE)
        starts |= found << _FIVE
        narrow |= is_narrow << _FIVE
        single |= (is_narrow & (zeros >> _THREE) & (low >> _FOUR)) << _FIVE
        # Of each escape, the bits of the last byte, of the byte before it, and of the first of three.
        middle, first = (starts & ~single) >> _TWO, (starts & ~narrow) >> _THREE
        escapes = starts | (starts >> _ONE)
        escapes |= (escapes >> _TWO) | (escapes >> _FOUR)
        kept = ((before & ~escapes) | starts | middle | first) & before
        put_escapes(data, index, out, at, kept, first, middle, narrow >> _TWO, starts, single)
        at += np.int64(bit_count(kept))
        if stops or not starts:
            return index + np.int64(bit_count(before)), at
        index += _READ_BYTES
        starts, narrow, single = starts >> _NEXT, narrow >> _NEXT, single >> _NEXT
