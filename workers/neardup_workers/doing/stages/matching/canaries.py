"""The canaries of a matcher: each shard looks them up after the step that passes their message is committed.

The shard that owns the original of a canary must find it (``neardup.stories.canaries.looks``). Canaries are looked up
between steps, once, by the shard that passed them; a restore does not look. What a process counted ends with it, as all
of its metrics do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np

from neardup.pairs.batches import select
from neardup.pairs.shards import kinds_of
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import has_canaries
from neardup.stories.canaries.looks import EVICTED, FAULT, LATE, REMOVED, Looks
from neardup.stories.canaries.pool import Probes, horizon
from neardup.window import OWN, again
from neardup_workers.doing.stages.canary_rows import CanaryRows, join_canaries
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import Stretch
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.telemetry.recall import count_canaries
from neardup_workers.outside.topics.places import partitions_of

# Of a restored shard, so many of the newest documents are looked up.
_RESTORED_NEWEST = 64
_log = logging.getLogger(__name__)
_LOST = (
    "shard %d did not find %s documents of its window, although they share a bucket with what looked for them: pairs "
    "of others may be missed, too; restart this matcher without its tables, and report this"
)
_RARE = "canaries are found less often than the settings promise: look at neardup_canary_probes_total"


class ShardLooks:
    """What the canaries of all shards of a matcher have found."""

    def __init__(self, config: Config, observer: Observer, *, on: bool) -> None:
        self._config, self._observer = config, observer
        self._on = on and has_canaries(config)
        self._by_content = SCHEMES[config.scheme].by_content
        self.looks = Looks(config, Draws(config.seed), None if self._on else ())
        self._said = False

    def look(self, table: ShardTable, first: int, stretches: Iterable[Stretch]) -> None:
        """Look up the canaries whose messages a shard has passed since the position ``first``."""
        if not self._on:
            return
        end = table.position
        parts = [rows for one in stretches for behind, rows in one.canaries if first < behind <= end]
        if parts:
            self._look(table, join_canaries(parts))

    def restored(self, table: ShardTable, stretches: Iterable[Stretch]) -> None:
        """Look up the newest documents of a shard whose restore has ended, of those in the last stretches."""
        if not self._on:
            return
        newer, left = 0, _RESTORED_NEWEST
        for one in reversed(list(stretches)):
            rows = np.flatnonzero(~one.rows.removals & (one.positions < table.position))
            batch = select(one.rows.batch, rows)
            is_own = (kinds_of(batch, table.shard, self._by_content) == OWN) & table.came_since(one.places[rows])
            is_own[: max(0, newer + len(rows) - self._config.window_documents)] = False
            is_own &= batch.times >= horizon(self._config, table.matcher.table.stream_time)
            own = np.flatnonzero(is_own)[max(0, np.count_nonzero(is_own) - left) :]
            newer, left = newer + len(rows), left - len(own)
            if len(own):
                documents = select(batch, own)
                probes = Probes(documents, documents.evidence, np.ones(len(own)))
                self._look(table, CanaryRows(one.places[rows[own]], probes))

    def _look(self, table: ShardTable, rows: CanaryRows) -> None:
        """Look up canaries in a shard, and report what came of them."""
        looks, inner, originals = self.looks, table.matcher.table, rows.probes.originals
        before, bands_before = looks.outcomes.copy(), looks.bands.copy()
        in_window = originals.times >= horizon(self._config, inner.stream_time)
        is_own = kinds_of(originals, table.shard, self._by_content) == OWN
        sought = in_window & table.came_since(rows.places)  # another shard may own what came before a growth
        own = np.flatnonzero(sought & is_own)
        looks.outcomes[LATE] += int(np.count_nonzero(~in_window & is_own))
        if len(own):
            chosen = rows.at(own)
            looks.look(table.matcher, chosen.probes, lambda n: _cause(table, int(chosen.places[n])))
        lost = looks.outcomes[FAULT] - before[FAULT]
        if lost:
            _log.error(_LOST, table.shard.number, f"{lost:,}")
        count_canaries(self._observer, looks.outcomes - before, looks.bands - bands_before)
        if looks.alarm.rings and not self._said:
            self._said = True
            _log.error(_RARE)


def _cause(table: ShardTable, place: int) -> str:
    """Why the original at a place was not met by a probe, without a limit."""
    inner = table.matcher.table
    slots = np.arange(inner.oldest, inner.slot_end)
    places = table.places(slots)
    at = slots[places == place]
    if len(at):
        return REMOVED if any(again.removed(inner, slot) for slot in at.tolist()) else FAULT
    # What leaves the window leaves in order of arrival, which is certain for documents of one partition of documents.
    is_older_there = bool(((partitions_of(places) == partitions_of(np.array([place]))) & (places < place)).any())
    return EVICTED if again.is_full(inner) and not is_older_there else FAULT
