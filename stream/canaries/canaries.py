"""Canaries: edited copies of documents of the window, looked up as if they came now, to see what is found.

Theory of operation. Of one document in ``every`` an original is kept in the pool: its evidence, and an edited copy.
For each, one original of the pool is looked up. A third of them are new, a third are among the newest documents, a
sixth among the oldest of a full window, and the others anywhere. Its edited copy probes all buckets: the chance that it
is found follows from its similarity. Then the evidence of the original probes one band alone, in turn, and finds it.

What the two pieces of evidence have in common says whether the table must find the original. If it does not, there is
a cause that is counted (a limit, an eviction, a removal), or else the probe is tried once more and is a fault. The
chances are watched, too (``RateAlarm``). The window that an original must be in follows from the settings and the time
of the stream, not from the table.

A canary is never added. It has an id that no document has, and a content of its own, so it is no copy. A probe changes
no counter and no time of the table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import (
    CONTENT_HALF,
    MICROSECONDS,
    Batch,
    concatenate,
    joined,
    make_batch,
    select,
    table_items,
)
from neardup.stream.canaries.draws import Draws
from neardup.stream.canaries.edits import edited, has_canaries, similarities
from neardup.stream.documents import Document
from neardup.stream.estimates.intervals import clopper_pearson
from neardup.stream.estimates.limits import counted_recall
from neardup.stream.estimates.loss_accounts import LossAccounts
from neardup.stream.estimates.rate_alarm import RateAlarm
from neardup.stream.pair_rule import judge
from neardup.stream.pipeline import Matcher
from neardup.stream.scheme_interface import Evidence, Keys
from neardup.stream.schemes import SCHEMES
from neardup.stream.table import NO_TIME, again
from neardup.stream.theory.tuning import probabilities

EVERY = 100
# Hours, and sources, whose losses are among the values.
ACCOUNTS_SHOWN = 24
# Originals that are kept; beyond, half of them are dropped at random.
_POOL_MAX = 4_096
NEWEST, _OLDEST_PART = 20_000, 0.05
_PARTS = 1 << 20
# Canaries of one look, and documents that are edited together: they share the cost of calls.
_TOGETHER = 8
# Kinds of originals in turn.
_NEW, _NEAR, _OLD, _ANY = range(4)
_TURNS = (_NEW, _NEAR, _NEW, _NEAR, _OLD, _ANY)
# What came of a probe: found; missed because copy and original share too little; missed by a cause; without one.
OUTCOMES = ("found", "chance", "truncated", "evicted", "removed", "fault")
FOUND, CHANCE, TRUNCATED, EVICTED, REMOVED, FAULT = OUTCOMES
# No document has this id, for it is not UTF-8.
_ID = np.frombuffer(b"\xff", np.uint8)
# A similarity is asked for in decimal digits.
_ROUNDING = 1e-9
# What a curve may leave out: a chance that is computed for large sets.
_SLACK = 0.01


def recall_values(counts: Mapping[str, int], canaries: Canaries, losses: LossAccounts | None = None) -> dict[str, Any]:
    """Return what is known of recall as values of JSON, by the counters of a table, by its canaries, and by the
    accounts of what limits cost, if there are any."""
    limits = {
        "value": counted_recall(counts), "found": counts["near_pairs"], "missed": counts["missed_pairs"],
        "uncompared": counts["uncompared"], "truncated": counts["truncated"],
    }  # fmt: skip
    accounts = {} if losses is None else losses.values(ACCOUNTS_SHOWN)
    return {"limits": limits | accounts, "canaries": canaries.values()}


class Original(NamedTuple):
    """A document of the window and its edited copy: ``own`` and ``copy`` are the evidence of one item. ``evicted`` is
    how many documents had been evicted when it came."""

    slot: int
    content: int
    time: int
    evicted: int
    own: Evidence
    copy: Evidence
    similarity: float


class _Due(NamedTuple):
    """Documents that were just added and will be originals, with the rows of their batch."""

    documents: list[Document]
    batch: Batch
    slots: list[int]
    times: list[int]
    evicted: int


class Canaries:
    """The canaries of one matcher: ``trials`` and what was ``found`` by the similarity asked for, the ``outcomes`` of
    all probes, and the ``alarm`` of the chances.

    Args:
        matcher: holds the window.
        every: one document in so many; 0 for none.
        seed: draws originals and edits, with that of the configuration.
    """

    def __init__(self, matcher: Matcher, every: int = EVERY, seed: int = 0) -> None:
        config = matcher.config
        self._matcher, self._scheme, self._config = matcher, SCHEMES[config.scheme], config
        self._every = every if has_canaries(config) else 0
        self._draws = Draws(config.seed + seed)
        self._similarities = similarities(config) if self._every else ()
        self._pool: list[Original] = []
        self._kept_part, self._seen, self._sown, self._looks, self._probed_bands = 1.0, 0, 0, 0, 0
        self._due: list[_Due] = []
        self.trials: Counter[float] = Counter()
        self.found: Counter[float] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.alarm = RateAlarm()

    def after(self, documents: Sequence[Document], batch: Batch) -> None:
        """Take the documents that a step has added, ``documents[i]`` is row i of the batch; look up what is due."""
        if not self._every:
            return
        rows = np.arange(-self._seen % self._every, batch.size, self._every)
        self._seen += batch.size
        table = self._matcher.table
        slots = table.slot_end - batch.size + rows
        rows, slots = rows[slots >= table.oldest], slots[slots >= table.oldest]  # the others came late
        if len(rows):
            chosen, times = [documents[row] for row in rows.tolist()], again.counted_times(table, slots)
            evicted = table.counts()["evicted"]
            self._due.append(_Due(chosen, select(batch, rows), slots.tolist(), times.tolist(), evicted))
            if sum(len(due.slots) for due in self._due) >= _TOGETHER:
                self._sow_and_look()

    def restored(self, batch: Batch, first_slot: int, newest: int = 0) -> None:
        """Take signed documents that a store says are in the window, from ``first_slot`` on.

        Their copies are equal to them, because a store has no elements. Of the ``newest`` documents each one is kept:
        those that a restored table may lack.
        """
        if not self._every:
            return
        evicted = self._matcher.table.counts()["evicted"]
        for row in range(batch.size):
            self._seen += 1
            if self._seen % self._every == 0 or row >= batch.size - newest:
                own, content = _item(batch.evidence, row), int(batch.contents[row, CONTENT_HALF])
                self._keep(Original(first_slot + row, content, int(batch.times[row]), evicted, own, own, 1.0))

    def look(self, originals: Sequence[Original]) -> None:
        """Look up originals: the copy of each in all buckets, then the original in one band alone."""
        originals = [one for one in originals if self._is_promised(one)]
        if not originals:
            return
        copies, own = (self._probes(originals, list(map(attrgetter(name), originals))) for name in ("copy", "own"))
        keys = self._scheme.keys(copies.evidence, self._config.plan)
        chances = self._chances([one.similarity for one in originals])
        must = self._is_pair(copies, own.evidence)
        missed = self._missed(originals, copies, own.fixed, keys, must)
        for n, (one, chance) in enumerate(zip(originals, chances, strict=True)):
            is_found = bool(must[n]) and n not in missed
            least = max(asked for asked in self._similarities if asked <= one.similarity + _ROUNDING)
            self.trials[least] += 1
            self.found[least] += is_found
            if missed.get(n, FAULT) == FAULT:  # what a limit costs is counted, and no matter of the curve
                self.alarm.add(is_missed=not is_found, chance=chance)
        bands = self._one_band(self._scheme.keys(own.evidence, self._config.plan))
        self._missed(originals, own, own.fixed, bands, np.ones(len(originals), np.bool_))

    def values(self) -> dict[str, Any]:
        """Return what was found, as values of JSON."""
        trials, found = self.trials.total(), self.found.total()
        recall = clopper_pearson(found, trials)
        return {
            "every": self._every,
            "documents": self._sown,
            "trials": trials,
            "found": found,
            "recall": None if not trials else {"value": recall.value, "low": recall.low, "high": recall.high},
            "by_similarity": [
                {"similarity": one, "trials": self.trials[one], "found": self.found[one]} for one in self._similarities
            ],
            "outcomes": {one: self.outcomes[one] for one in OUTCOMES},
            "faults": self.outcomes[FAULT],
            "alarm": self.alarm.rings,
        }

    def _sow_and_look(self) -> None:
        """Keep the documents that are due as originals, and look up as many originals."""
        due, self._due = self._due, []
        documents = [document for one in due for document in one.documents]
        batch = concatenate([one.batch for one in due])
        turns = (self._sown + np.arange(batch.size)) % len(self._similarities)
        least = [self._similarities[turn] for turn in turns.tolist()]
        edits = edited(documents, batch.evidence, self._config, least, self._draws)
        contents, waiting = batch.contents[:, CONTENT_HALF].tolist(), list[Original]()
        came = [(slot, time, one.evicted) for one in due for slot, time in zip(one.slots, one.times, strict=True)]
        for n, (slot, time, evicted) in enumerate(came):
            if edits.exist[n] and self._horizon() <= time:
                self._sown += 1
                own, copy = _item(batch.evidence, n), _item(edits.evidence, n)
                self._keep(Original(slot, contents[n], time, evicted, own, copy, float(edits.similarities[n])))
            waiting += self._chosen()
        self.look(waiting)

    def _probes(self, originals: Sequence[Original], evidence: Sequence[Evidence]) -> Batch:
        """Return a batch of canaries: with an id and contents of their own, and the times of their originals."""
        n, times = len(originals), np.array([one.time for one in originals])
        contents = self._draws.numbers(2 * n).reshape(n, 2)
        return make_batch(np.repeat(_ID, n), np.arange(n + 1), times, contents, joined(evidence))

    def _keep(self, original: Original) -> None:
        if self._draws.below(_PARTS) < self._kept_part * _PARTS or not self._pool:
            self._pool.append(original)
        if len(self._pool) > _POOL_MAX:
            self._pool = [one for one in self._pool if self._is_promised(one)]
            if len(self._pool) > _POOL_MAX // 2:
                kept = np.sort(self._draws.some(_POOL_MAX // 2, len(self._pool)))
                self._pool = [self._pool[n] for n in kept.tolist()]
                self._kept_part /= 2

    def _chosen(self) -> list[Original]:
        """Return the next original to look up, or none: the kinds take turns."""
        kind = _TURNS[self._looks % len(_TURNS)]
        self._looks += 1
        first = 0
        while first < len(self._pool) and not self._is_promised(self._pool[first]):
            first += 1
        del self._pool[:first]
        if not self._pool:
            return []
        if kind == _NEW:
            return [self._pool[-1]]
        begin, end = 0, len(self._pool)
        if kind == _NEAR:
            begin = min(self._first_from(self._matcher.table.slot_end - NEWEST), end - 1)
        elif kind == _OLD:
            end = self._old_end()
        return [self._pool[begin + self._draws.below(end - begin)]]

    def _first_from(self, slot: int) -> int:
        """The index of the first original that is not older than a slot."""
        return bisect_left(self._pool, slot, key=lambda one: one.slot)

    def _old_end(self) -> int:
        """The end of the originals in the oldest part of a full window: by time, or by documents."""
        table, config = self._matcher.table, self._config
        if config.window_seconds is not None and table.stream_time != NO_TIME:
            until = self._horizon() + int(_OLDEST_PART * config.window_seconds * MICROSECONDS)
            end = next((n for n, one in enumerate(self._pool) if one.time > until), len(self._pool))
        else:
            end = self._first_from(table.slot_end - int((1 - _OLDEST_PART) * config.window_documents))
        return end or len(self._pool)

    def _horizon(self) -> int:
        """The time from which documents must be in the window, by the settings and the time of the stream."""
        config, now = self._config, self._matcher.table.stream_time
        if config.window_seconds is None or now == NO_TIME:
            return int(NO_TIME)
        return now - round(config.window_seconds * MICROSECONDS) - round(config.lateness_seconds * MICROSECONDS)

    def _is_promised(self, one: Original) -> bool:
        """Whether an original must be in the window."""
        within = self._matcher.table.slot_end - one.slot <= self._config.window_documents
        return within and one.time >= self._horizon()

    def _chances(self, reached: list[float]) -> list[float]:
        """The chances that copies are missed, by the curve of the settings; 1 where it is not known."""
        if self._scheme.partial:
            return [1.0] * len(reached)
        found = probabilities(self._config.tuning, np.array(reached))[1]
        return [1.0 if one != one else min(1 - one + _SLACK, 1.0) for one in found.tolist()]

    def _is_pair(self, copies: Batch, own: Evidence) -> npt.NDArray[np.bool_]:
        """Whether copies and their originals are pairs, by their evidence alone."""
        config = self._config
        common = self._scheme.common(copies.evidence, own, config.plan)
        none = np.zeros(copies.size, np.bool_)
        exact = config.tuning.exact_score
        return judge(common, none, config.tuning.score_min, config.buckets_shared_min, exact_score=exact).is_pair

    def _one_band(self, keys: Keys) -> Keys:
        """The key of one band of each item, the bands in turn."""
        counts = np.diff(keys.starts)
        turns = self._probed_bands + np.arange(len(counts))
        self._probed_bands += len(counts)
        rows = np.flatnonzero(counts)
        at = keys.starts[:-1][rows] + turns[rows] % counts[rows]
        starts = np.concatenate([[0], np.cumsum(counts > 0)])
        return Keys(keys.values[at], starts, keys.payloads[at] if len(keys.payloads) else keys.payloads)

    def _missed(
        self, originals: Sequence[Original], probes: Batch, own: npt.NDArray[np.uint8], keys: Keys,
        must: npt.NDArray[np.bool_],
    ) -> dict[int, str]:  # fmt: skip
        """Look originals up; return those that must be found and are not, with the cause, which is counted. What has
        no cause is looked up once more."""
        items = table_items(probes, keys)
        missed = {
            n: cause
            for n, cause in self._lookup(originals, own, items).items()
            if must[n] and keys.starts[n] < keys.starts[n + 1]
        }
        if FAULT in missed.values():
            second = self._lookup(originals, own, items)
            missed = {n: second[n] for n in missed if n in second}
        self.outcomes.update(missed.values())
        by_chance = int(np.count_nonzero(~must))
        self.outcomes.update({FOUND: len(originals) - len(missed) - by_chance, CHANCE: by_chance})
        return missed

    def _lookup(self, originals: Sequence[Original], own: npt.NDArray[np.uint8], items: Any) -> dict[int, str]:
        """Probe, and return the positions of originals that are not found, with their causes."""
        table = self._matcher.table
        found, cut = again.looked_up(table, items)
        contents = again.contents(table, found.slots)
        is_whole = (table.fixed(found.slots) == own[found.items]).all(axis=1)
        wanted = np.array([one.content for one in originals], np.uint64)
        is_met = np.zeros(len(originals), np.bool_)
        is_met[found.items[(contents == wanted[found.items]) & is_whole]] = True
        return {n: self._cause(originals[n], is_cut=bool(cut[n])) for n in np.flatnonzero(~is_met).tolist()}

    def _cause(self, one: Original, *, is_cut: bool) -> str:
        table = self._matcher.table
        if is_cut:
            return TRUNCATED
        if one.slot < table.oldest:
            return EVICTED if table.counts()["evicted"] > one.evicted else FAULT
        if one.slot < table.slot_end and again.removed(table, one.slot):
            return REMOVED
        return FAULT


def _item(evidence: Evidence, n: int) -> Evidence:
    """Return one item in arrays of its own."""
    ragged = evidence.ragged[evidence.starts[n] : evidence.starts[n + 1]].copy()
    return Evidence(evidence.fixed[n : n + 1].copy(), ragged, np.array([0, len(ragged)]))
