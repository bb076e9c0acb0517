"""Recall of every scheme: the scenario that compares it with the guarantee.

``python -m benchmarks --recall SCHEME`` runs it. Sets of exactly known similarity, vectors at exactly known distances
and prints of known overlap are generated; records are real ones with labels; exact schemes are compared with brute
force.
"""

from __future__ import annotations

from benchmarks.pages import quotes
from benchmarks.recall import entities, exact, passages, sets
from benchmarks.speed import vectors

# Scheme -> the id of its scenario.
RECALL: dict[str, str] = {
    "one_permutation": sets.ID,
    "minhash": sets.ID,
    "permutation": sets.ID,
    "partial_minhash": sets.ID,
    "grouped": sets.ID,
    "prefix": exact.RECALL,
    "identical": exact.RECALL,
    "passages": passages.ID,
    "parts": quotes.LAW,
    "signals": sets.ID,
    "hyperplane": vectors.RECALL,
    "hyperplane_dot": vectors.RECALL,
    "p_stable": vectors.RECALL,
    "bit_sampling": vectors.RECALL,
    "records": entities.RECORDS,
    "grid": entities.FINGERPRINTS,
}
