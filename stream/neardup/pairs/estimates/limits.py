"""What limits cost: the pairs that truncated probes are expected to have missed. Pure functions of columns.

A probe that reaches a limit counts the documents in its buckets that it did not compare. The fraction of pairs among
those that it compared says how many of them would have been pairs. Buckets that reach a limit hold one large cluster,
or what shares a template, so the newest and the oldest of a bucket speak for those between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.evaluation.judging import Proportion


class Losses(NamedTuple):
    """What k truncated probes left out: the items (positions in the batch), how many documents were not compared, how
    many pairs with them are expected, and the oldest document that was compared, which names the cluster."""

    items: npt.NDArray[np.int32]
    uncompared: npt.NDArray[np.int32]
    missed: npt.NDArray[np.float64]
    oldest: npt.NDArray[np.int64]


NO_LOSSES = Losses(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty(0, np.int64))


def losses_of(
    items: npt.NDArray[np.int32],
    slots: npt.NDArray[np.int64],
    uncompared: npt.NDArray[np.int32],
    is_pair: npt.NDArray[np.bool_],
) -> Losses:
    """Return what the truncated probes among those of m candidates left out; there is one at least.

    Candidates are in order of their items; older documents have lower ``slots``. ``uncompared`` says, with one
    candidate of an item, how many documents its probe did not compare, and is 0 else.

    >>> items, slots = np.array([4, 4, 6], np.int32), np.array([10, 12, 3])
    >>> losses_of(items, slots, np.array([30, 0, 0], np.int32), np.array([True, False, True])).missed
    array([15.])
    """
    truncated = np.flatnonzero(uncompared)
    owners = items[truncated]
    firsts = np.searchsorted(items, owners)
    candidates = np.searchsorted(items, owners, "right") - firsts
    pairs = np.searchsorted(items[is_pair], owners, "right") - np.searchsorted(items[is_pair], owners)
    bounds = np.column_stack([firsts, firsts + candidates - 1]).ravel()
    oldest = np.minimum(np.minimum.reduceat(slots, bounds)[::2], slots[bounds[1::2]])
    return Losses(owners, uncompared[truncated], uncompared[truncated] * pairs / candidates, oldest)


def lone_of(items: npt.NDArray[np.int32], is_pair: npt.NDArray[np.bool_], losses: Losses) -> int:
    """Return how many of the documents of m candidates left out some, by ``losses``, and have no pair.

    >>> losses = NO_LOSSES._replace(items=np.array([6, 7]))
    >>> lone_of(np.array([4, 4, 6], np.int32), np.array([True, False, True]), losses)
    1
    """
    if not len(losses.items):
        return 0
    paired = items[is_pair]
    firsts, ends = np.searchsorted(paired, losses.items), np.searchsorted(paired, losses.items, "right")
    return int(np.count_nonzero(firsts == ends))


def counted_documents(counts: Mapping[str, int]) -> float | None:
    """Return the least fraction of documents that have a pair, of those that have an older near-duplicate as far as
    limits may hide it, of the counters of a table; ``None`` without such documents.

    It counts every document that may lack all of its pairs as if it had some to lose.
    """
    near, lone = counts["near_documents"], counts["lone_documents"]
    return near / (near + lone) if near + lone else None


def counted_recall(counts: Mapping[str, int]) -> float | None:
    """Return ``recall_by_limits`` of the counters of a table; ``None`` without pairs."""
    recall = recall_by_limits(counts["near_pairs"], counts["missed_pairs"]).value
    return None if np.isnan(recall) else recall


def recall_by_limits(pairs: int, missed: int) -> Proportion:
    """Return the fraction of pairs of different contents that limits have left, as far as they were counted; NaN
    without any. Its interval ends at it, because it draws no sample.

    ``missed`` is what limits are expected to have cost. A probe counts at most 1,024 documents, so it is a lower bound
    where a bucket holds more.

    >>> recall_by_limits(800, 200).value
    0.8
    """
    recall = pairs / (pairs + missed) if pairs + missed else float("nan")
    return Proportion(recall, recall, recall)
