"""UTF-8 -> code points, 16 bytes at a time, in vector code.

Blocks of ASCII are only widened. In another block, each byte is read as the first of its code point, together with the
three bytes after it. The results that begin at a continuation byte are then removed. Two rules decide whether the bytes
are UTF-8: continuation bytes stand exactly where the first bytes require them, and each code point has the shortest
form, is no surrogate and is at most 0x10FFFF.

Source: The Unicode Standard, 3.9, table 3-7 ("Well-Formed UTF-8 Byte Sequences").
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inner
from neardup.machine.utf8 import BLOCK, READ, decode_block, is_ascii, widen

# The result of ``decode_utf8`` for bytes that are not UTF-8.
NOT_UTF8 = -1
# The last bytes of a text are decoded from a copy, with zeros behind them.
TAIL_BYTES = 3 * BLOCK
# Code points that are written behind the end of a result.
DECODED_SPARE = 3 * BLOCK
_ZERO, _WHOLE = np.uint64(0), np.uint64(BLOCK)
# After a block with so many code points, the next one is examined for being ASCII: most texts that are mostly ASCII
# have such blocks only, and most others have none, so the branch is seldom mispredicted.
_PLAIN = np.uint64(13)


@inner
def decode_utf8(data, first, end, tail, out):
    """Decode the bytes from ``first`` to ``end`` of ``data`` (``uint8``) to ``out`` (``uint32``).

    ``tail`` is scratch (``uint8[TAIL_BYTES]``). ``out`` has room for ``DECODED_SPARE`` more code points than the text
    has. Returns how many it has, or ``NOT_UTF8``.
    """
    required, faults, at = _ZERO, _ZERO, _ZERO
    index, is_plain = first, True  # whether the next block may well be ASCII
    while index + BLOCK <= end and index + READ <= len(data):
        if is_plain and required == _ZERO and is_ascii(data, index):
            widen(data, index, out, at)
            count = _WHOLE
        else:
            count, required, wrong = decode_block(data, index, required, out, at)
            faults |= wrong
            is_plain = count >= _PLAIN
        at += count
        index += BLOCK
    rest = end - index
    tail[:] = 0  # a zero is a code point of its own, and no continuation byte
    for i in range(rest):
        tail[i] = data[index + i]
    for begin in range(0, 2 * BLOCK, BLOCK):
        count, required, wrong = decode_block(tail, begin, required, out, at)
        faults |= wrong
        at += count
    return np.int64(at) - (2 * BLOCK - rest) if faults == _ZERO else np.int64(NOT_UTF8)
