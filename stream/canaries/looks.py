"""Looks: canaries are probed, and what came of it is counted.

The edited copy of an original probes all buckets: the chance that it is found follows from its similarity. Then the
evidence of the original probes one band alone, in turn, and finds it.

What the two pieces of evidence have in common says whether the table must find the original. If it does not, there is
a cause that is counted (a limit, an eviction, a removal), or else the probe is tried once more and is a fault. The
chances are watched, too (``RateAlarm``).

A canary is never added. It has an id that no document has, and a content of its own, so it is no copy. A probe changes
no counter and no time of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import CONTENT_HALF, Batch, make_batch, table_items
from neardup.stream.canaries.draws import Draws
from neardup.stream.canaries.edits import similarities
from neardup.stream.canaries.pool import Probes
from neardup.stream.config import Config
from neardup.stream.estimates.intervals import clopper_pearson
from neardup.stream.estimates.rate_alarm import RateAlarm
from neardup.stream.pair_rule import judge
from neardup.stream.pipeline import Matcher
from neardup.stream.scheme_interface import Evidence, Keys
from neardup.stream.schemes import SCHEMES
from neardup.stream.table import again
from neardup.stream.theory.tuning import probabilities

# What came of a probe: found; missed because copy and original share too little; missed by a cause; without one.
OUTCOMES = ("found", "chance", "truncated", "evicted", "removed", "fault")
FOUND, CHANCE, TRUNCATED, EVICTED, REMOVED, FAULT = OUTCOMES
# Says why an original, by its position among the probes, was not met.
Cause = Callable[[int], str]
# No document has this id, for it is not UTF-8.
_ID = np.frombuffer(b"\xff", np.uint8)
# A similarity is asked for in decimal digits.
_ROUNDING = 1e-9
# What a curve may leave out: a chance that is computed for large sets.
_SLACK = 0.01


class Looks:
    """What came of canaries: ``trials`` and what was ``found`` by the similarity asked for, the ``outcomes`` of all
    probes, and the ``alarm`` of the chances."""

    def __init__(self, config: Config, draws: Draws, least: tuple[float, ...] | None = None) -> None:
        self._config, self._scheme, self._draws = config, SCHEMES[config.scheme], draws
        self._similarities = similarities(config) if least is None else least
        self._probed_bands: Counter[int] = Counter()  # by shard
        self.trials: Counter[float] = Counter()
        self.found: Counter[float] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.alarm = RateAlarm()

    def look(self, matcher: Matcher, probes: Probes, cause: Cause) -> None:
        """Look up one or more originals: the copy of each in all buckets, then the original in one band alone."""
        own, size = probes.originals.evidence, probes.originals.size
        copies = self._batch(probes.originals, probes.copies)
        must = self._is_pair(copies, own)
        keys = self._scheme.keys(copies.evidence, self._config.plan)
        missed = self._missed(matcher, probes, copies, keys, must, cause)
        reached, chances = probes.similarities.tolist(), self._chances(probes.similarities)
        for n in range(size):
            is_found = bool(must[n]) and n not in missed
            least = max((asked for asked in self._similarities if asked <= reached[n] + _ROUNDING), default=0.0)
            self.trials[least] += 1
            self.found[least] += is_found
            if missed.get(n, FAULT) == FAULT:  # what a limit costs is counted, and no matter of the curve
                self.alarm.add(is_missed=not is_found, chance=chances[n])
        bands = self._one_band(self._scheme.keys(own, self._config.plan), matcher.shard.number)
        originals = self._batch(probes.originals, own)
        self._missed(matcher, probes, originals, bands, np.ones(size, np.bool_), cause)

    def values(self) -> dict[str, Any]:
        """Return what was found, as values of JSON."""
        trials, found = self.trials.total(), self.found.total()
        recall = clopper_pearson(found, trials)
        return {
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

    def _batch(self, originals: Batch, evidence: Evidence) -> Batch:
        """Return a batch of canaries: with an id and contents of their own, and the times of their originals."""
        n = originals.size
        contents = self._draws.numbers(2 * n).reshape(n, 2)
        return make_batch(np.repeat(_ID, n), np.arange(n + 1), originals.times, contents, evidence)

    def _chances(self, reached: npt.NDArray[np.float64]) -> list[float]:
        """The chances that copies are missed, by the curve of the settings; 1 where it is not known."""
        if self._scheme.partial:
            return [1.0] * len(reached)
        found = probabilities(self._config.tuning, reached)[1]
        return [1.0 if one != one else min(1 - one + _SLACK, 1.0) for one in found.tolist()]

    def _is_pair(self, copies: Batch, own: Evidence) -> npt.NDArray[np.bool_]:
        """Whether copies and their originals are pairs, by their evidence alone."""
        config = self._config
        common = self._scheme.common(copies.evidence, own, config.plan)
        none = np.zeros(copies.size, np.bool_)
        exact = config.tuning.exact_score
        return judge(common, none, config.tuning.score_min, config.buckets_shared_min, exact_score=exact).is_pair

    def _one_band(self, keys: Keys, shard: int) -> Keys:
        """The key of one band of each item, the bands of a shard in turn."""
        counts = np.diff(keys.starts)
        turns = self._probed_bands[shard] + np.arange(len(counts))
        self._probed_bands[shard] += len(counts)
        rows = np.flatnonzero(counts)
        at = keys.starts[:-1][rows] + turns[rows] % counts[rows]
        starts = np.concatenate([[0], np.cumsum(counts > 0)])
        return Keys(keys.values[at], starts, keys.payloads[at] if len(keys.payloads) else keys.payloads)

    def _missed(
        self, matcher: Matcher, probes: Probes, batch: Batch, keys: Keys, must: npt.NDArray[np.bool_], cause: Cause
    ) -> dict[int, str]:
        """Look originals up; return those that must be found and are not, with the cause, which is counted. What has
        no cause is looked up once more."""
        items, size = table_items(batch, keys), batch.size
        may = must & (np.diff(keys.starts) > 0)
        missed = _lookup(matcher, probes.originals, items, may, cause)
        if FAULT in missed.values():
            second = _lookup(matcher, probes.originals, items, may, cause)
            missed = {n: second[n] for n in missed if n in second}
        self.outcomes.update(missed.values())
        by_chance = int(np.count_nonzero(~must))
        self.outcomes.update({FOUND: size - len(missed) - by_chance, CHANCE: by_chance})
        return missed


def _lookup(
    matcher: Matcher, originals: Batch, items: Any, may: npt.NDArray[np.bool_], cause: Cause
) -> dict[int, str]:  # fmt: skip
    """Probe, and return the positions of originals that may be found and are not, with their causes."""
    table = matcher.table
    found, cut = again.looked_up(table, items)
    contents = again.contents(table, found.slots)
    is_whole = (table.fixed(found.slots) == originals.fixed[found.items]).all(axis=1)
    wanted = originals.contents[:, CONTENT_HALF]
    is_met = np.zeros(originals.size, np.bool_)
    is_met[found.items[(contents == wanted[found.items]) & is_whole]] = True
    return {n: TRUNCATED if cut[n] else cause(n) for n in np.flatnonzero(may & ~is_met).tolist()}
