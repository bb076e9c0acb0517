"""Robust winnowing: a few of the hashes of a text, chosen by the text around them, so that common runs share some.

The hashes are those of all runs of g characters, in order. In every window of w consecutive hashes the last selected
hash is kept while it is in the window and as small as the least one; otherwise the rightmost of the least ones is
selected. Two texts that share w + g - 1 characters share a window. The least hash of a window is selected in both, so
they share a selected hash with certainty, wherever the run stands. On random hashes 2 / (w + 1) of them are selected.
In a text of one repeated character all hashes are equal, and one in w is selected; plain winnowing selects them all.

Texts that a corpus repeats can be taken out afterwards (``without``): their hashes are dropped, so what is left makes
the same runs as before.

A selected hash keeps its upper 48 bits, and its position as the difference to the position before, in the lower 16
bits. Two different runs have the same hash with probability 2^-48. A difference is at most w.

Source: Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel

# The widest window: a difference of positions has 16 bits.
WINDOW_MAX = (1 << 16) - 1
POSITION_BITS = np.uint64(16)
_HASH = ~np.uint64(WINDOW_MAX)
# Hashes compared at once.
_BLOCK = 16


class Selected(NamedTuple):
    """Hashes with the differences of their positions (``uint64[m]``), and the starts of texts (``int64[n + 1]``)."""

    values: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]


class Texts(NamedTuple):
    """n texts: the hashes of all positions and their starts, as ``winnow`` takes them, the characters (``int64[n]``),
    and a hash that only this text has (``uint64[n]``)."""

    hashes: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    own: npt.NDArray[np.uint64]


def winnow(hashes: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], window: int, seed: int) -> Selected:
    """Select from the well mixed hashes of every position of n texts, in order: text i has
    ``hashes[starts[i]:starts[i + 1]]``. A text with fewer than ``window`` hashes is one window, which has
    ``WINDOW_MAX`` at most; texts of other seeds select other positions.

    Return the selected hashes in the upper 48 bits and the differences of positions in the lower 16, and their starts.

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
    return Selected(out[: out_starts[-1]].copy(), out_starts)


def listed(hashes: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Return the form that hashes have among the selected ones, without their positions: ascending, each once."""
    return np.unique((hashes ^ np.uint64(seed)) & _HASH)


def without(
    selected: Selected, texts: Texts, gram: int, seed: int, templates: npt.NDArray[np.uint64]
) -> tuple[Selected, npt.NDArray[np.int64]]:
    """Drop the selected hashes of templates, as ``listed`` returns them, and those that reach into one. ``gram``
    characters of a text have one hash.

    Returns the other hashes with their positions, and how many characters of each text are of templates, ``int64[n]``.
    Where positions are further apart than a difference can say, a hash stands between them that no other text has.

    >>> import numpy as np
    >>> hashes = np.arange(1, 101, dtype=np.uint64) << POSITION_BITS
    >>> texts = Texts(hashes, np.array([0, 100]), np.array([109]), np.array([7], np.uint64))
    >>> left, covered = without(winnow(hashes, texts.starts, 10, 0), texts, 10, 0, listed(hashes[40:60], 0))
    >>> (left.values >> POSITION_BITS).tolist()[29:33], covered.tolist()
    ([30, 31, 70, 71], [29])
    """
    out, out_starts = np.empty_like(selected.values), np.zeros_like(selected.starts)
    covered = np.zeros(len(out_starts) - 1, np.int64)
    spans = np.empty((int(np.diff(selected.starts).max(initial=0)), 2), np.int64)
    _without(selected, texts, gram, np.uint64(seed), templates, spans, out, out_starts, covered)
    return Selected(out[: out_starts[-1]].copy(), out_starts), covered


@kernel("Selected, Texts, i64, u64, u64[], i64[,], u64[], i64[], i64[]")
def _without(selected, texts, gram, seed, templates, spans, out, out_starts, covered):
    at = 0
    for i in range(len(covered)):
        values = selected.values[selected.starts[i] : selected.starts[i + 1]]
        hashes = texts.hashes[texts.starts[i] : texts.starts[i + 1]]
        count = _template_spans(values, hashes, gram, seed, templates, spans)
        for n in range(count):
            spans[n, 1] = min(spans[n, 1], texts.lengths[i])
            covered[i] += spans[n, 1] - (spans[n, 0] if n == 0 else max(spans[n, 0], spans[n - 1, 1]))
        position, kept, n = np.int64(0), np.int64(0), 0
        for j in range(len(values)):
            position += np.int64(values[j] & ~_HASH)
            while n < count and spans[n, 1] <= position:
                n += 1
            if n < count and spans[n, 0] < position + gram:
                continue
            while position - kept > WINDOW_MAX:
                out[at] = (texts.own[i] & _HASH) | ~_HASH
                kept += WINDOW_MAX
                at += 1
            out[at] = (values[j] & _HASH) | np.uint64(position - kept)
            kept = position
            at += 1
        out_starts[i + 1] = at


@inner
def _template_spans(values, hashes, gram, seed, templates, spans):
    """Write where a selected hash and all around it are of templates; returns how many spans, in order."""
    position, end, count = np.int64(0), np.int64(0), 0
    for j in range(len(values)):
        position += np.int64(values[j] & ~_HASH)
        if position < end or not _holds(templates, values[j] & _HASH):
            continue
        begin = position
        while begin > end and _holds(templates, (hashes[begin - 1] ^ seed) & _HASH):
            begin -= 1
        end = position + 1
        while end < len(hashes) and _holds(templates, (hashes[end] ^ seed) & _HASH):
            end += 1
        spans[count, 0], spans[count, 1] = begin, end - 1 + gram
        count += 1
    return count


@inlined
def _holds(values, wanted):
    """Whether ascending values hold one."""
    low, high = np.int64(0), np.int64(len(values))
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < len(values) and values[low] == wanted


@kernel("u64[], i64[], i64, u64, u64[], u64[], i64[]")
def _winnow(hashes, starts, window, seed, scratch, out, out_starts):
    at = 0
    for i in range(len(starts) - 1):
        row, masked = hashes[starts[i] : starts[i + 1]], scratch[: starts[i + 1] - starts[i]]
        for j in range(len(row)):
            masked[j] = (row[j] ^ seed) & _HASH
        at += _select(masked, window, out[at:])
        out_starts[i + 1] = at


@inner
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
