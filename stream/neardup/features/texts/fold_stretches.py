"""General stretches of normalised texts: collected for ``unicodedata``, and inserted where they belong.

``neardup.features.texts.unicode_fold`` finds them. All stretches of a batch are normalised in one call.
"""

from __future__ import annotations

import numpy as np

from neardup.features.texts.raw_texts import copy_codes
from neardup.features.texts.unicode_fold import BLANK, INTERACTS
from neardup.features.texts.unicode_table import PAYLOAD, SEPARATOR
from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.strings import shorten_runs

_SEPARATOR = np.uint32(ord(SEPARATOR))


@kernel("RawTexts, i64[,], i64, u32[]")
def gather_stretches(texts, stretches, count, out):
    """Write the raw code points of the stretches to ``out``, each with a separator after it; returns how many."""
    at = 0
    for s in range(count):
        at += copy_codes(texts, stretches[s, 0], stretches[s, 1], stretches[s, 2], out[at:])
        out[at] = _SEPARATOR
        at += 1
    return at


@kernel("u32[], i64[], i64[], i64[], i64[,], i64, u32[], const u32[], bool, u32[]")
def splice(folded, widths, starts, lengths, stretches, count, results, entries, fold_space, out):
    """Write ``folded`` to ``out``, with the results of the stretches where they belong, each with a separator after it.

    ``starts`` and ``lengths`` describe the texts in ``folded``; the call overwrites them to describe the texts in
    ``out``. The table decides what white space in a result becomes. Texts of width 0 are elsewhere.
    """
    at = 0
    s = 0
    r = 0
    for i in range(len(starts)):
        if widths[i] == 0:
            continue
        first, read, before = at, 0, s
        while s < count and stretches[s, 0] == i:
            at = _copy(folded[starts[i] + read : starts[i] + stretches[s, 3]], out, at)
            read = stretches[s, 3]
            while results[r] != _SEPARATOR:
                entry = entries[results[r]]
                out[at] = results[r] if entry & INTERACTS else entry & PAYLOAD
                at += 1
                r += 1
            r += 1
            s += 1
        at = _copy(folded[starts[i] + read : starts[i] + lengths[i]], out, at)
        if fold_space and s > before:
            at = first + shorten_runs(out[first:at], BLANK)
        starts[i] = first
        lengths[i] = at - first


@inner
def _copy(codes, out, at):
    for p in range(len(codes)):
        out[at + p] = codes[p]
    return at + len(codes)
