"""The numbers of a table: its bounds, what a step advances, and counters with their metrics and words in a summary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Counter(NamedTuple):
    """A row of ``COUNTERS``: a number that a table counts from its start on."""

    unit: str
    meaning: str  # the help text of the metric; empty: no metric, because another one says it better
    label: str = ""  # the words of a summary; empty: not in a summary


# In the order of their indices in ``Store.state``.
COUNTERS: dict[str, Counter] = {
    "items": Counter("documents", ""),
    "candidates": Counter(
        "candidates", "Candidates found in a bucket and scored, without identical contents.", "candidates"
    ),
    "copies": Counter("documents", "Documents whose content was in the window already.", "identical copies"),
    "late": Counter(
        "documents",
        "Documents that came later than lateness_seconds where there is a window: outside of what is promised.",
        "too late for the window",
    ),
    "expired": Counter("documents", "Documents that left the window by age.", "left the window by age"),
    "evicted": Counter(
        "documents",
        "Documents pushed out by window_documents before their time: pairs may have been missed.",
        "evicted by window_documents",
    ),
    "truncated": Counter(
        "documents",
        "Documents whose probe reached bucket_candidates_max or probe_candidates_max: pairs may have been missed.",
        "probes truncated",
    ),
    "cuts": Counter(
        "limits",
        "Times that a bucket reached bucket_candidates_max or a probe reached probe_candidates_max.",
        "limits of candidates reached",
    ),
    "uncompared": Counter(
        "documents",
        "Documents in the buckets of truncated probes that were not compared, up to 1,024 for each probe.",
        "documents not compared",
    ),
    "near_pairs": Counter("pairs", "Pairs of different contents that probes have found."),
    "missed_pairs": Counter(
        "pairs",
        "Pairs that limits are expected to have cost: the documents not compared times the fraction of pairs among "
        "those compared.",
        "pairs missed at limits, expected",
    ),
    "near_documents": Counter(
        "documents", "Documents whose probe has found a pair with an older document of other content."
    ),
    "lone_documents": Counter(
        "documents",
        "Documents whose probe did not compare all that share a bucket, and found no pair: all may be missed.",
    ),
    "removed": Counter("documents", ""),
    "versions": Counter("documents", "", "new versions of ids in the window"),
}

# The expected pairs that a truncated probe misses are counted in such parts of a pair.
PAIR_PARTS = 1 << 20
# Indices in ``Store.state``: the numbers that a step advances, and its counters.
STATE_FIELDS = (
    "oldest",  # the oldest live slot
    "slot_end",  # the next slot to give out
    "posting_end",  # the next posting
    "byte_end",  # the next number for a byte of an id or of evidence
    "link_end",  # the next link
    "live_bytes",  # of the live slots: ids and ragged evidence, without the gaps at the ends of pages
    "stream_time",  # the greatest event time seen, in microseconds, or NO_TIME
    "first_time",  # the first event time seen; all items before it count with this time
    "stream_items",  # the items of all shards so far
    "stream_bytes",  # their ids and ragged evidence
    "missed_part",  # what the missed pairs are above a whole number, in parts of ``PAIR_PARTS``
    *COUNTERS,
)
(OLDEST, SLOT_END, POSTING_END, BYTE_END, LINK_END, LIVE_BYTES, STREAM_TIME, FIRST_TIME, STREAM_ITEMS, STREAM_BYTES,
 MISSED_PART, ITEMS, CANDIDATES, COPIES, LATE, EXPIRED, EVICTED, TRUNCATED, CUTS, UNCOMPARED, NEAR_PAIRS,
 MISSED_PAIRS, NEAR_DOCUMENTS, LONE_DOCUMENTS, REMOVALS, VERSIONS) = (
    range(len(STATE_FIELDS)))  # fmt: skip


# More keys than an item has.
KEYS_MAX = 1 << 31


class Limits(NamedTuple):
    """The bounds of a table.

    ``window`` and ``lateness`` are microseconds. ``items`` and ``bytes`` bound the window, of the stream and not of a
    shard. ``bucket_candidates`` and ``probe_candidates`` bound the candidates of a bucket and of a probe, ``copies``
    the copies of a content that are read to find an eligible one. ``by_content``: copies are looked up by
    content. ``admit_ratio``: the bound on two payloads of a bucket (``admit``). ``ranking``: the buckets of an item
    with a copy are probed, too. ``counted``: the table has every key of an item, so a candidate must share as many keys
    as two payloads demand (``common_min``). What a limit leaves out by keys of an item behind the first ``pair_keys``
    is no loss and not counted: they make no pair.
    """

    window: int
    lateness: int
    items: int
    bytes: int
    bucket_candidates: int
    probe_candidates: int
    copies: int
    by_content: bool
    admit_ratio: float
    ranking: bool = False
    counted: bool = False
    pair_keys: int = KEYS_MAX


def count_missed(state: npt.NDArray[np.int64], missed: npt.NDArray[np.float64], lone: int) -> None:
    """Count missed pairs, in parts: sums of whole numbers do not depend on batches; and documents without a pair."""
    parts = int(np.rint(missed * PAIR_PARTS).sum())
    whole, state[MISSED_PART] = divmod(state.item(MISSED_PART) + parts, PAIR_PARTS)
    state[MISSED_PAIRS] += whole
    state[LONE_DOCUMENTS] += lone
