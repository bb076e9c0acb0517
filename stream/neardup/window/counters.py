"""The counters of a table, declared once: their indices in the state, their metrics and their words in a summary."""

from __future__ import annotations

from typing import NamedTuple


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
