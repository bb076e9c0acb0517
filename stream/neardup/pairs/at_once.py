"""Probe, add, compare and judge in one compiled call, where similarity is estimated from sketches.

The kernel leaves the pairs of a batch in columns that stay, so a document without a pair costs no array, and one with a
pair few. Where a limit has left out candidates, or more is asked of them, ``Matcher`` takes them one by one.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.memory import Kept, put, reader_of
from neardup.pairs.batches import Batch
from neardup.pairs.pair_rule import NO_MATCHES, Matches, greatest_estimate, judged, matches_of, new_matches
from neardup.schemes.signatures.banding import estimate_of
from neardup.schemes.theory.tuning import Tuning
from neardup.window import BandTable, step
from neardup.window.chains import BUDGET_REACHED, FINISHED
from neardup.window.counters import NEAR_DOCUMENTS, NEAR_PAIRS
from neardup.window.views import items_at, put_names, table_at

# Candidates for which there is room; more are judged by ``Matcher``.
CANDIDATES_MAX = 1 << 14
SLOT = 6  # the last row of ``Judging.numbers``


class Judging(NamedTuple):
    """How candidates are judged, and the pairs among the last ones, as columns.

    Bands and bits of sketches; the least similarity of a pair, that of one by its text, the greatest of different
    contents, and that from which a candidate that is no pair leads to a story; the least number of common keys.
    ``room`` is for a sketch. ``probed`` (``int32[c]``) receives the item of
    each candidate; of each pair, ``items`` and ``keys`` receive the item and the number of common keys (``int32[m]``),
    ``similarity`` the similarity (``float64[m]``), and ``numbers`` (``int64[7, m]``) what ``put_names`` says and the
    slot. ``counts`` receives how many pairs and candidates there are, and in how many pairs the newer document has the
    earlier time.
    """

    bands: int
    bits: int
    least: float
    near_least: float
    greatest: float
    lead_least: float
    keys_min: int
    room: npt.NDArray[np.uint8]
    probed: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    keys: npt.NDArray[np.int32]
    similarity: npt.NDArray[np.float64]
    numbers: Annotated[npt.NDArray[np.int64], "[,]"]
    counts: npt.NDArray[np.int64]


judging_at = reader_of(Judging)


@kernel("Judging, i64", locked=True, direct=True)
def _keep(judging, address):
    put(judging, address)


@kernel("i64, i64, i64, i64, bool, bool, i64, i64", direct=True)
def run(judging, table, rows, first, probe, add, candidates_max, settled):
    """``run_at`` for Python."""
    return run_at(judging, table, rows, first, probe, add, candidates_max, settled)


@inner
def run_at(judging, table, rows, first, probe, add, candidates_max, settled):
    """``step.run``; then the pairs of its candidates go to the ``Judging`` at an address, and no candidate is left; if
    there is none at the address 0, all candidates are left."""
    if judging == 0:
        return step.run_at(table, rows, first, probe, add, candidates_max, settled)
    pairs = judging_at(judging)
    pairs.counts[0] = pairs.counts[1] = 0
    at, why, segment, count, oldest, slots, postings = step.run_at(
        table, rows, first, probe, add, candidates_max, settled
    )
    if 0 < count <= len(pairs.items) and why in (FINISHED, BUDGET_REACHED):
        kept = table_at(table)
        store, work = kept.store, kept.work
        if put_pairs(pairs, store, work.found, items_at(rows), count):
            work.found.length[0] = count = np.int64(0)
    return at, why, segment, count, oldest, slots, postings


@inlined
def put_pairs(pairs, store, found, items, count):
    """Fill in the pairs among ``count`` candidates; return false if a limit has cut a probe, or if one of them leads to
    a story and is no pair."""
    for n in range(count):
        if found.left[n] != 0:
            return False
    at, turned, near, near_documents, last = 0, 0, 0, 0, np.int32(-1)
    for n in range(count):
        item, slot, identical = found.items[n], found.slots[n], found.identical[n]
        equal, estimate = estimate_of(store, slot, items.fixed[item], pairs.bands, pairs.bits, pairs.room)
        similarity, keys = judged(estimate, np.int32(equal), identical, pairs.greatest)
        pairs.probed[n] = item
        if not (identical or equal >= pairs.keys_min) or similarity < pairs.least:
            if similarity >= pairs.lead_least:
                return False
            continue
        if similarity >= pairs.near_least and not identical:
            near, near_documents, last = near + 1, near_documents + (item != last), item
        pairs.items[at], pairs.keys[at], pairs.similarity[at] = item, keys, similarity
        turned += put_names(pairs.numbers, at, store, slot, items.id_starts, items.times, item)
        pairs.numbers[SLOT, at] = slot
        at += 1
    store.state[NEAR_PAIRS] += near
    store.state[NEAR_DOCUMENTS] += near_documents
    pairs.counts[0], pairs.counts[1], pairs.counts[2] = at, count, turned
    return True


class OneCall:
    """The pairs of a table in one call; see the module. A candidate that is no pair may lead to a story from a
    similarity of ``lead_min``.
    """

    def __init__(
        self, table: BandTable, tuning: Tuning, score_min: float, keys_min: int, lead_min: float = math.inf
    ) -> None:
        greatest = greatest_estimate(score_min, exact_score=False)
        bounds = score_min, tuning.score_min, greatest, lead_min, keys_min
        probed, items, keys = np.empty((3, CANDIDATES_MAX), np.int32)
        self._pairs = Judging(
            tuning.bands, tuning.sketch_bits, *bounds, table.room, probed, items, keys, np.empty(CANDIDATES_MAX),
            np.empty((7, CANDIDATES_MAX), np.int64), np.zeros(3, np.int64),
        )  # fmt: skip
        self._table, self._kept = table, Kept[Judging](_keep)

    @property
    def address(self) -> int:
        """Where the ``Judging`` is."""
        if self._kept.value is None:
            self._kept.renew(self._pairs)
        return self._kept.address

    def run(
        self, table: int, items: int, first: int, probe: bool, add: bool, candidates_max: int, settled: int
    ) -> tuple[int, int, int, int, int, int, int]:
        """``step.run``, and the pairs of its candidates."""
        ended: tuple[int, int, int, int, int, int, int]
        ended = run(self.address, table, items, first, probe, add, candidates_max, settled)
        return ended

    def found(
        self, batch: Batch, *, is_named: bool
    ) -> tuple[Matches, npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]] | None:
        """The pairs that the last call has found in a batch, with ids if they are ``is_named``, the item and the slot
        of each, and the items of the candidates; ``None`` without a candidate."""
        pairs = self._pairs
        count, candidates, turned = pairs.counts.tolist()
        if not candidates:
            return None
        probed = pairs.probed[:candidates].copy()
        items, keys = probed if count == candidates else pairs.items[:count].copy(), pairs.keys[:count].copy()
        numbers, similarity = pairs.numbers[:, :count].copy(), pairs.similarity[:count].copy()
        known = similarity, keys, None, None, None
        if is_named:
            matches = matches_of(self._table, batch, numbers, known, turned)
        else:
            matches = new_matches(([], [], *NO_MATCHES[2:4], *known, None))
        return matches, items, numbers[SLOT], probed
