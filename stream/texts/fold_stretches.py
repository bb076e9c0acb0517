"""General stretches of normalised texts: collected for ``unicodedata``, and inserted where they belong.

``stream.texts.unicode_fold`` finds them. All stretches of a batch are normalised in one call.
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import raw_inner, raw_kernel
from stream.texts.unicode_fold import INTERACTS
from stream.texts.unicode_table import PAYLOAD, SEPARATOR

_SEPARATOR = np.uint32(ord(SEPARATOR))


@raw_kernel
def gather_stretches(raw, starts, stretches, count, out):
    """Write the raw code points of the stretches to ``out``, each with a separator after it; returns how many.

    ``starts`` are the starts of the raw texts.
    """
    at = 0
    for s in range(count):
        first = starts[stretches[s, 0]]
        for p in range(first + stretches[s, 1], first + stretches[s, 2]):
            out[at] = raw[p]
            at += 1
        out[at] = _SEPARATOR
        at += 1
    return at


@raw_kernel
def splice(folded, starts, lengths, stretches, count, results, entries, out):
    """Write ``folded`` to ``out``, with the results of the stretches in their places, each with a separator after it.

    ``starts`` and ``lengths`` describe the texts in ``folded``; the call overwrites them to describe the texts in
    ``out``. The table decides what white space in a result becomes.
    """
    at = 0
    s = 0
    r = 0
    for i in range(len(starts)):
        first = at
        place = 0
        while s < count and stretches[s, 0] == i:
            at = _copy(folded[starts[i] + place : starts[i] + stretches[s, 3]], out, at)
            place = stretches[s, 3]
            while results[r] != _SEPARATOR:
                entry = entries[results[r]]
                out[at] = results[r] if entry & INTERACTS else entry & PAYLOAD
                at += 1
                r += 1
            r += 1
            s += 1
        at = _copy(folded[starts[i] + place : starts[i] + lengths[i]], out, at)
        starts[i] = first
        lengths[i] = at - first


@raw_inner
def _copy(codes, out, at):
    for p in range(len(codes)):
        out[at + p] = codes[p]
    return at + len(codes)
