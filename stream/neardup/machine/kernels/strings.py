"""Runs of one character become short."""

from __future__ import annotations

import numpy as np

from neardup.machine.bits import MASK_BITS, mask_between
from neardup.machine.compile import inner

_ONE, _LAST = np.uint64(1), np.uint64(MASK_BITS - 1)


@inner
def shorten_runs(codes, value):
    """Leave one ``value`` of each run of it, none at the ends, in place; returns the new length. Most texts have no
    run."""
    n = len(codes)
    if n == 0:
        return n
    whole = n - n % MASK_BITS
    runs, before = np.uint64(0), np.uint64(codes[0] == value)
    for p in range(0, whole, MASK_BITS):
        mask = mask_between(codes, p, value, value)
        runs |= mask & (mask << _ONE | before)
        before = mask >> _LAST
    for p in range(max(whole, 1), n):
        runs |= np.uint64((codes[p] == value) & (codes[p - 1] == value))
    if runs or codes[0] == value:
        return _drop_runs(codes, value)
    return n - (codes[n - 1] == value)


@inner
def _drop_runs(codes, value):
    """Leave one ``value`` of each run of it, none at the ends, in place; returns the new length."""
    j = 0
    before = value  # a run at the start is dropped, later ones leave one value
    for p in range(len(codes)):
        c = codes[p]
        codes[j] = c  # the next one overwrites it if it must be dropped: no branch to mispredict at each word
        j += (c != value) | (before != value)
        before = c
    return j - 1 if j > 0 and before == value else j
