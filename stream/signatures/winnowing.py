"""Robust winnowing: a few of the hashes of a text, chosen by the text around them, so that common runs share some.

The hashes are those of all runs of g characters, in order. In every window of w consecutive hashes the last selected
hash is kept while it is in the window and as small as the least one; otherwise the rightmost of the least ones is
selected. Two texts that share w + g - 1 characters share a window. The least hash of a window is selected in both, so
they share a selected hash with certainty, wherever the run stands. On random hashes 2 / (w + 1) of them are selected.
In a text of one repeated character all hashes are equal, and one in w is selected; plain winnowing selects them all.

A selected hash keeps its upper 48 bits, and its position as the difference to the position before, in the lower 16
bits. Two different runs have the same hash with probability 2^-48. A difference is at most w.

Source: Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import inlined, kernel, raw_inner

# The widest window: a difference of positions has 16 bits.
WINDOW_MAX = (1 << 16) - 1
POSITION_BITS = np.uint64(16)
_HASH = ~np.uint64(WINDOW_MAX)
# Hashes compared at once.
_BLOCK = 16


def winnow(
    hashes: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], window: int, seed: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Select hashes of n texts, in order.

    Args:
        hashes: of every position of every text, well mixed; those of text i are ``hashes[starts[i]:starts[i + 1]]``.
        starts: ``int64[n + 1]``.
        window: hashes of a window, 1 to ``WINDOW_MAX``. A text with fewer hashes is one window.
        seed: 64 bits, by which texts of other seeds select other positions.

    Returns:
        The selected hashes in the upper 48 bits and the differences of positions in the lower 16, ``uint64[m]``; and
        their starts, ``int64[n + 1]``.

    >>> import numpy as np
    >>> numbers = [77, 74, 42, 17, 98, 50, 17, 98, 8, 88, 67, 39, 77, 74, 42, 17, 98]
    >>> hashes = np.array(numbers, np.uint64) << POSITION_BITS
    >>> selected, starts = winnow(hashes, np.array([0, 17]), window=4, seed=0)
    >>> (selected >> POSITION_BITS).tolist(), np.cumsum(selected & np.uint64(WINDOW_MAX)).tolist()
    ([17, 17, 8, 39, 17], [3, 6, 8, 11, 15])
    """
    out, out_starts = np.empty(len(hashes), np.uint64), np.zeros(len(starts), np.int64)
    scratch = np.empty(int(np.diff(starts).max(initial=0)), np.uint64)
    _winnow(hashes, starts, window, np.uint64(seed), scratch, out, out_starts)
    return out[: out_starts[-1]].copy(), out_starts


@kernel
def _winnow(hashes, starts, window, seed, scratch, out, out_starts):
    at = 0
    for i in range(len(starts) - 1):
        row, masked = hashes[starts[i] : starts[i + 1]], scratch[: starts[i + 1] - starts[i]]
        for j in range(len(row)):
            masked[j] = (row[j] ^ seed) & _HASH
        at += _select(masked, window, out[at:])
        out_starts[i + 1] = at


@raw_inner
def _select(row, window, out):
    """Write the selected hashes of one text; returns how many."""
    n = len(row)
    if n == 0:
        return 0
    position = min(window, n)
    chosen = _least(row[:position])
    out[0] = row[chosen] | np.uint64(chosen)
    count = 1
    while True:
        end = min(chosen + window, n)  # the windows that end before it hold the chosen position
        position += _not_less(row[position:end], row[chosen])
        if position == n:
            return count
        following = (
            position if position < end else position - window + 1 + _least(row[position - window + 1 : position + 1])
        )
        out[count] = row[following] | np.uint64(following - chosen)
        count += 1
        chosen = following
        position += 1


@inlined
def _not_less(row, least):
    """The number of hashes before the first that is less; blocks of them are compared at once."""
    position = 0
    while position + _BLOCK <= len(row):
        less = False
        for j in range(_BLOCK):
            less |= row[position + j] < least
        if less:
            break
        position += _BLOCK
    while position < len(row) and row[position] >= least:
        position += 1
    return position


@inlined
def _least(row):
    """The rightmost position of the least hash. The search for the hash compiles to vector code; that for its position
    ends early."""
    least = row[0]
    for j in range(len(row)):
        least = min(least, row[j])
    position = len(row) - 1
    while row[position] != least:
        position -= 1
    return position
