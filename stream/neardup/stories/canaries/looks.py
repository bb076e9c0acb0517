"""Looks: canaries are probed, and what came of it is counted.

The edited copy of an original probes all buckets: the chance that it is found follows from its similarity. Then the
evidence of the original probes each band alone, and finds it in every one. The worst of these counts.

What the two pieces of evidence have in common says whether the table must find the original. If it does not, there is
a cause that is counted (a limit, an eviction, a removal), or else the probe is tried once more and is a fault. The
chances are watched, too (``RateAlarm``).

A canary is never added. It has an id that no document has, and a content of its own, so it is no copy. A probe changes
no counter and no time of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import CONTENT_HALF, Batch, make_batch, table_items
from neardup.pairs.estimates.intervals import clopper_pearson
from neardup.pairs.estimates.rate_alarm import RateAlarm
from neardup.pairs.pair_rule import judge
from neardup.pairs.pipeline import Matcher
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence, Keys
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import probabilities
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import similarities
from neardup.stories.canaries.pool import Probes
from neardup.window import Items, again

# What came of a probe: found; missed because copy and original share too little; missed by a cause; without one. Late
# originals are not probed: their time had left the window when they came, or were to be looked up.
OUTCOMES = ("found", "chance", "truncated", "evicted", "late", "removed", "fault")
FOUND, CHANCE, TRUNCATED, EVICTED, LATE, REMOVED, FAULT = OUTCOMES
# What came of the bands of an original.
BANDS = ("met", "missed")
MET, MISSED = BANDS
# Says why an original, by its position among the probes, was not met.
Cause = Callable[[int], str]
# No document has this id, for it is not UTF-8.
_ID = np.frombuffer(b"\xff", np.uint8)
# A similarity is asked for in decimal digits.
_ROUNDING = 1e-9
# What a curve may leave out: a chance that is computed for large sets.
_SLACK = 0.01


class Wanted(NamedTuple):
    """By what n originals are known among candidates: the stored half of their content (``uint64[n]``) and their fixed
    evidence (``uint8[n, width]``)."""

    contents: npt.NDArray[np.uint64]
    fixed: npt.NDArray[np.uint8]

    def at(self, rows: npt.NDArray[Any]) -> Wanted:
        """Return some of them."""
        return Wanted(self.contents[rows], self.fixed[rows])


class Looks:
    """What came of canaries: ``trials`` and what was ``found`` by the similarity asked for, the ``outcomes`` of all
    probes, the ``bands`` in which originals were met or missed, and the ``alarm`` of the chances."""

    def __init__(self, config: Config, draws: Draws, least: tuple[float, ...] | None = None) -> None:
        self._config, self._scheme, self._draws = config, SCHEMES[config.scheme], draws
        self._similarities = similarities(config) if least is None else least
        self.trials: Counter[float] = Counter()
        self.found: Counter[float] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.bands: Counter[str] = Counter()
        self.alarm = RateAlarm()

    def look(self, matcher: Matcher, probes: Probes, cause: Cause) -> None:
        """Look up one or more originals: the copy of each in all buckets, then the original in each band alone."""
        own, size = probes.originals.evidence, probes.originals.size
        copies = self._batch(probes.originals.times, probes.copies)
        must = self._is_pair(copies, own)
        keys = self._scheme.keys(copies.evidence, self._config.plan)
        rows = np.flatnonzero(must & (np.diff(keys.starts) > 0))
        missed = _missed(matcher, _wanted_of(probes.originals), table_items(copies, keys), rows, cause)
        by_chance = int(np.count_nonzero(~must))
        self.outcomes.update({FOUND: size - len(missed) - by_chance, CHANCE: by_chance})
        self.outcomes.update(missed.values())
        reached, chances = probes.similarities.tolist(), self._chances(probes.similarities)
        for n in range(size):
            is_found = bool(must[n]) and n not in missed
            least = max((asked for asked in self._similarities if asked <= reached[n] + _ROUNDING), default=0.0)
            self.trials[least] += 1
            self.found[least] += is_found
            if missed.get(n, FAULT) == FAULT:  # what a limit costs is counted, and no matter of the curve
                self.alarm.add(is_missed=not is_found, chance=chances[n])
        self._look_in_bands(matcher, probes.originals, cause)

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
            "bands": {one: self.bands[one] for one in BANDS},
            "faults": self.outcomes[FAULT],
            "alarm": self.alarm.rings,
        }

    def _batch(self, times: npt.NDArray[np.int64], evidence: Evidence) -> Batch:
        """Return a batch of canaries: with an id and contents of their own, and the times of their originals."""
        n = len(times)
        contents = self._draws.numbers(2 * n).reshape(n, 2)
        return make_batch(np.repeat(_ID, n), np.arange(n + 1), times, contents, evidence)

    def _chances(self, reached: npt.NDArray[np.float64]) -> list[float]:
        """The chances that copies are missed, by the curve of the settings; 1 where it is not known."""
        if self._scheme.partial:
            return [1.0] * len(reached)
        emitted = probabilities(self._config.tuning, reached)[1]
        return [1.0 if one != one else min(1 - one + _SLACK, 1.0) for one in emitted.tolist()]

    def _is_pair(self, copies: Batch, own: Evidence) -> npt.NDArray[np.bool_]:
        """Whether copies and their originals are pairs, by their evidence alone."""
        config = self._config
        common = self._scheme.common(copies.evidence, own, config.plan)
        none = np.zeros(copies.size, np.bool_)
        exact = config.tuning.exact_score
        return judge(common, none, config.tuning.score_min, config.buckets_shared_min, exact_score=exact).is_pair

    def _look_in_bands(self, matcher: Matcher, originals: Batch, cause: Cause) -> None:
        """Look up each original by each key that it has added alone."""
        keys = self._scheme.keys(originals.evidence, self._config.plan)
        owners = np.repeat(np.arange(originals.size), np.diff(keys.starts))
        added = np.flatnonzero(np.arange(len(owners)) - keys.starts[owners] < keys.counts_added[owners])
        owners, payloads = owners[added], keys.payloads[added] if len(keys.payloads) else keys.payloads
        wanted, count = _wanted_of(originals).at(owners), len(owners)
        without_elements = Evidence(wanted.fixed, originals.ragged[:0], np.zeros(count + 1, np.int64))
        alone = table_items(
            self._batch(originals.times[owners], without_elements),
            Keys(keys.values[added], np.arange(count + 1), payloads),
        )
        missed = _missed(matcher, wanted, alone, np.arange(count), lambda n: cause(int(owners[n])))
        self.bands.update({MET: count - len(missed), MISSED: len(missed)})
        worst: dict[int, str] = {}
        for n, why in missed.items():
            owner = int(owners[n])
            worst[owner] = max(why, worst.get(owner, FOUND), key=OUTCOMES.index)
        self.outcomes[FOUND] += originals.size - len(worst)
        self.outcomes.update(worst.values())


def _wanted_of(originals: Batch) -> Wanted:
    """Return by what originals are known."""
    return Wanted(originals.contents[:, CONTENT_HALF], originals.fixed)


def _missed(
    matcher: Matcher, wanted: Wanted, items: Items, rows: npt.NDArray[np.int64], cause: Cause
) -> dict[int, str]:  # fmt: skip
    """Look originals up by the probes of items; return those among ``rows`` that must be found and are not, with the
    cause. What has none is looked up once more."""
    missed = _looked_up(matcher, wanted, items, rows, cause)
    if FAULT in missed.values():
        second = _looked_up(matcher, wanted, items, rows, cause)
        missed = {n: second[n] for n in missed if n in second}
    return missed


def _looked_up(
    matcher: Matcher, wanted: Wanted, items: Items, rows: npt.NDArray[np.int64], cause: Cause
) -> dict[int, str]:  # fmt: skip
    table = matcher.table
    candidates = again.looked_up(table, items)
    contents = again.contents(table, candidates.slots)
    of_items = wanted.at(candidates.items)
    is_original = contents == of_items.contents
    same = np.flatnonzero(is_original)
    stored = matcher.evidence(candidates.slots[same]).fixed
    is_original[same] = (stored == of_items.fixed[same]).all(axis=1)
    is_met = np.zeros(len(wanted.contents), np.bool_)
    is_met[candidates.items[is_original]] = True
    missed = rows[~is_met[rows]]
    cut = again.cut(table, items, missed)
    return {n: TRUNCATED if is_cut else cause(n) for n, is_cut in zip(missed.tolist(), cut.tolist(), strict=True)}
