"""The one path of a document: normalise, shingle, sign | probe, add, score | pair.

``Signer`` is the left half and has no state. ``Matcher`` is the right half and holds the table. ``Deduplicator`` is
both in one process. Workers run the halves on different machines, with a topic between them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import check_type
from neardup.documents.ids import same_collection
from neardup.features.tokens.rarity import Rarity
from neardup.pairs import at_once
from neardup.pairs.at_once import OneCall
from neardup.pairs.batches import Batch, removal_batch, table_items
from neardup.pairs.comparing import LEAD_MIN, NO_LEADS, NO_ROWS, Leads, compared, is_lead, may_lead
from neardup.pairs.estimates.limits import NO_LOSSES, Losses, lone_of, losses_of
from neardup.pairs.pair_rule import NO_MATCHES, Matches, joined, judge, named, shared_of
from neardup.pairs.shards import WHOLE_STREAM, Shard, StreamRows, shared_limits, stream_rows, table_limits
from neardup.schemes.config import Config, checked, is_weighted
from neardup.schemes.interface import NO_SHARED, Common, Evidence, in_parts, nothing, regular_keys
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.stored_sets import evidence_in
from neardup.window import BandTable, Candidates, Items, Limits
from neardup.window.chains import FINISHED
from neardup.window.steps import step

# A slice of a batch ends at so many candidates: each takes about a kilobyte until it is a line of output.
SLICE_CANDIDATES = 1 << 13
# Candidates are compared in parts of so many bytes, with the evidence of both sides: so it stays in the second cache.
_COMPARED_BYTES = 1 << 20


class Slice(NamedTuple):
    """Consecutive items of a batch that were matched.

    ``matches`` are their m pairs, with ids if asked for; ``items`` and ``slots`` (``int32[m]``, ``int64[m]``) are the
    two documents of each: the position in the batch, and the number in the table. ``losses`` is what limits cost.
    ``end`` is the position of the item after them, ``probed`` the item of each of their candidates (``int32[c]``).
    ``leads`` are for verdicts, where they are asked for.
    """

    matches: Matches
    items: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    losses: Losses
    leads: Leads
    end: int
    probed: npt.NDArray[np.int32]


# Calls of the named tuples themselves take three times as long.
_new_slice, _new_evidence = functools.partial(tuple.__new__, Slice), functools.partial(tuple.__new__, Evidence)


@functools.lru_cache(maxsize=16)
def _nothing(end: int) -> Slice:
    """A slice without candidates."""
    items = np.empty(0, np.int32)
    return Slice(NO_MATCHES, items, np.empty(0, np.int64), NO_LOSSES, NO_LEADS, end, items)


def found_by(once: OneCall | None, batch: Batch, end: int, named: bool) -> Slice:
    """The slice before item ``end`` with the pairs that the last call has found."""
    found = None if once is None else once.found(batch, is_named=named)
    if found is None:
        return _nothing(end)
    matches, items, slots, probed = found
    return _new_slice((matches, items, slots, NO_LOSSES, NO_LEADS, end, probed))


class Matcher:
    """Batches -> matches against everything in the window. It holds one table; one thread at a time may use it.

    Every call that adds or removes belongs to a step of ``table``: ``begin`` before it, ``commit`` or ``undo`` after.

    Args:
        config: the settings; batches must be signed under the same ``signing_fingerprint``.
        shard: the part of the documents that this matcher holds; by default all, in one table. A shard reads every row
            of the stream, and returns the pairs whose older document it holds.
        candidates: return candidates below the least score too.
        limits: the bounds of the table; by default those of ``config``.

    Raises:
        CapacityError: in ``match``, if more postings would be in the window than a table can number.

    Example:
        >>> from neardup import Document, Signer
        >>> matcher, signer = Matcher(Config()), Signer(Config())
        >>> batch = signer.sign([Document("a", "the same text"), Document("b", "the same text")]).batch
        >>> with step(matcher.table):
        ...     matcher.match(batch).pairs()
        [Pair(older='a', newer='b', similarity=1.0, buckets=18)]
    """

    def __init__(
        self, config: Config, *, shard: Shard | None = None, candidates: bool = False, limits: Limits | None = None
    ) -> None:
        self.config = checked(config)
        self.score_min = 0.0 if candidates else config.tuning.score_min
        self.shard = WHOLE_STREAM if shard is None else shard
        self.scheme = SCHEMES[config.scheme]
        self._limits = limits or table_limits(config, self.scheme)
        shared = shared_limits(self._limits, self.shard.of)
        self.rarity = Rarity() if is_weighted(config) else None  # of the documents of the table
        self.table = BandTable(config.plan.width, shared, is_shard=shard is not None, rarity=self.rarity)
        self._exact_score, self._text_min = config.tuning.exact_score, config.tuning.score_min
        self._separate = config.separate
        is_exact = config.tuning.exact_score or self.scheme.common_in is nothing
        is_estimated = not is_exact and not config.separate and self.rarity is None
        bounds = self.score_min, config.buckets_shared_min
        # What finds pairs in one call, also with leads; ``None`` where more is asked of candidates.
        self._once = OneCall(self.table, config.tuning, *bounds) if is_estimated else None
        self.once_with_leads = self._once
        if is_estimated and config.novelty == "words":
            self.once_with_leads = OneCall(self.table, config.tuning, *bounds, LEAD_MIN)
        self._shared = self.shard  # with which the limits of the table were shared last

    def match(self, batch: Batch, *, probe: bool = True, add: bool = True, rows: StreamRows | None = None) -> Matches:
        """Probe the table with each item, then add it; score the candidates; return the pairs. ``rows`` are those of
        the batch, where they are known."""
        rows = self.rows(batch) if rows is None else rows
        items = rows.items if self.shard is WHOLE_STREAM else self.items(rows)
        part = self.slice(rows, items, 0, probe, add)
        if part.end == len(items.times):
            return part.matches
        parts = [part.matches]
        while part.end != len(items.times):
            part = self.slice(rows, items, part.end, probe, add)
            parts.append(part.matches)
        return joined(parts)

    def slices(
        self, batch: Batch, *, probe: bool = True, add: bool = True, candidates_max: int = SLICE_CANDIDATES,
        removals: npt.NDArray[np.bool_] | None = None, leads: bool = False, named: bool = True,
        references: npt.NDArray[np.bool_] | None = None,
    ) -> Iterator[Slice]:  # fmt: skip
        """Match a batch in slices of consecutive items; together they lead to what the batch leads to in one.

        Rows in ``removals`` (``bool[n]``) remove their id from what came before them (``removal_batch``), those in
        ``references`` (``bool[n]``) make no pairs with it. A slice ends after the item that brings its candidates to
        ``candidates_max``, and is matched when the caller asks for it. An empty batch is one slice. With ``leads`` a
        slice has those too. Without ``named`` pairs have no ids, unless the scheme finds what texts share.
        """
        rows = self.rows(batch, references, removals)
        return self.slices_of(rows, probe=probe, add=add, candidates_max=candidates_max, leads=leads, named=named)

    def slices_of(
        self, rows: StreamRows, *, first: int = 0, probe: bool = True, add: bool = True,
        candidates_max: int = SLICE_CANDIDATES, leads: bool = False, named: bool = True,
    ) -> Iterator[Slice]:  # fmt: skip
        """The same for rows that ``stream_rows`` has made, from row ``first`` on: shards of a member share them."""
        items = self.items(rows)
        while True:
            part = self.slice(rows, items, first, probe, add, candidates_max, leads, named)
            yield part
            first = part.end
            if first == len(items.times):
                return

    def rows(
        self, batch: Batch, references: npt.NDArray[np.bool_] | None = None,
        removals: npt.NDArray[np.bool_] | None = None,
    ) -> StreamRows:  # fmt: skip
        """The rows of a batch; those in ``removals`` and ``references`` as for ``slices``."""
        check_type(batch, Batch, "a matcher takes what a signer signed: signer.sign(documents).batch")
        return stream_rows(batch, self.config, removals, references)

    def items(self, rows: StreamRows) -> Items:
        """Rows as the table reads them."""
        shard = self.shard
        return rows.items if shard is WHOLE_STREAM else rows.items_of(shard, by_content=self.scheme.by_content)

    def slice(
        self, rows: StreamRows, items: Items, first: int, probe: bool = True, add: bool = True,
        candidates_max: int = SLICE_CANDIDATES, leads: bool = False, named: bool = True,
        ended: tuple[int, ...] | None = None,
    ) -> Slice:  # fmt: skip
        """The slice of rows from row ``first`` on, as ``slices``; ``items`` are theirs. ``ended``: what the kernel has
        returned that was called before."""
        shard, table = self.shard, self.shared_table()
        settled = shard.settled if shard.grown else 0
        once = None if rows.references is not None else self.once_with_leads if leads else self._once
        if once is None and ended is None:
            candidates = self.probe_add(rows.batch, items, probe, add, first, candidates_max, settled)
        else:
            if ended is None:
                assert once is not None
                assert table.is_open or not add, "no step is open"
                ended = at_once.run(
                    once.address, table.at(), table.items_at(items), first, probe, add, candidates_max, settled
                )
            end, why, _, count, table.oldest, table.slot_end, table.posting_end = ended
            if why == FINISHED and not count:
                return found_by(once, rows.batch, end, named)
            run = None if once is None else once.run
            candidates = table.probe_add(items, probe, add, first, candidates_max, settled, run, ended)
        if len(candidates.items):
            return self._judged(rows, candidates, leads=leads, is_named=named)
        return found_by(once, rows.batch, candidates.end, named)

    def shared_table(self) -> BandTable:
        """The table, with its share of the limits."""
        shard, table = self.shard, self.table
        if shard is not self._shared or shard.grown:
            shards = shard.fewest(table.oldest) if shard.grown else shard.of
            table.limits, self._shared = shared_limits(self._limits, shards, table.limits), shard
        return table

    def probe_add(
        self, batch: Batch, items: Items, probe: bool = True, add: bool = True, first: int = 0,
        candidates_max: int = SLICE_CANDIDATES, settled: int = 0, limits: Limits | None = None,
    ) -> Candidates:  # fmt: skip
        """``BandTable.probe_add`` of the items of a batch; where rarity counts, to the end of its epoch at most."""
        rarity, elements = self.rarity, self.scheme.elements
        if rarity is None or elements is None or not add:
            return self.table.probe_add(items, probe, add, first, candidates_max, settled, limits=limits)
        rarity.freeze()
        until = items.until(first + rarity.left)
        found = self.table.probe_add(until, probe, add, first, candidates_max, settled, limits=limits)
        # Removals have no elements, nor have rows that were damaged.
        rows = first + np.flatnonzero(np.diff(batch.ragged_starts[first : found.end + 1]))
        rarity.add(*elements(batch.evidence.select(rows), self.config.plan))
        return found

    @property
    def plan(self) -> Any:
        """The plan of the settings, with the weights that the stream has now."""
        plan: Any = self.config.plan
        return plan if self.rarity is None else plan._replace(weights=self.rarity.weights)

    def grow(self, shards: int) -> None:
        """Divide the documents that come next among more shards. What undoes the step restores ``shard``."""
        self.shard = self.shard.grow(shards, self.table.slot_end, self.table.oldest)

    def _judged(self, read: StreamRows, candidates: Candidates, *, leads: bool, is_named: bool) -> Slice:
        """The candidates that are pairs, with their positions and slots; what limits cost; the leads that are asked
        for."""
        probed, every_slot, identical, uncompared, end = candidates
        batch, config, losses = read.batch, self.config, NO_LOSSES
        common = self.common(batch, probed, every_slot)
        judged = judge(
            common, identical, self.score_min, config.buckets_shared_min, exact_score=self._exact_score,
            text_min=self._text_min, of=(probed, uncompared, self.table.store.state),
        )  # fmt: skip
        _, similarity, keys, signals, rows, is_near, is_cut = judged
        if is_cut:
            losses = losses_of(probed, every_slot, uncompared, is_near)
            self.table.count_missed(losses.missed, lone_of(probed, is_near, losses))
        rows = self._usable(rows, read, candidates)
        met = self._usable(may_lead(config, common, judged), read, candidates) if leads else NO_ROWS
        items, slots, shared = probed, every_slot, None
        if len(rows) != len(probed):
            items, slots, identical, similarity = probed[rows], every_slot[rows], identical[rows], similarity[rows]
            keys, signals = keys[rows], signals[rows] if len(signals) else signals
        if self.scheme.shared is not None:
            shared = NO_SHARED
            if len(items):
                sides = self.evidence(slots), batch.evidence.select(items)
                shared = shared_of(self.scheme, *sides, identical, config.plan)
        known: tuple[Any, ...] = similarity, keys, shared, None, signals if len(signals) else None
        if is_named or shared is not None:
            pairs = named(self.table, batch, items, slots, known, separate=self._separate)
        else:
            pairs = Matches([], [], *NO_MATCHES[2:4], *known)
        found = NO_LEADS
        if len(met):
            found = self._leads(batch, Leads(probed, every_slot, judged.similarity, judged.keys).select(met))
        return _new_slice((pairs, items, slots, losses, found, end, probed))

    def _usable(self, rows: npt.NDArray[np.int64], read: StreamRows, candidates: Candidates) -> npt.NDArray[np.int64]:
        """Those of some candidates, by their positions, that may be pairs or leads."""
        if len(rows) and self._separate:  # two keys of different collections share a chain with probability 2^-41
            ids = read.batch.ids_at(candidates.items[rows]), self.table.ids(candidates.slots[rows])
            rows = rows[same_collection(*ids)]
        return rows if read.references is None else rows[~read.references[candidates.items[rows]]]

    def _leads(self, batch: Batch, met: Leads) -> Leads:
        """The leads among candidates that are no pairs."""
        parts = (
            rows[is_lead(self.config, batch.evidence.select(met.items[rows]), self.sets(met.slots[rows]))]
            for rows in self._parts(batch, met.items, met.slots)
        )
        return met.select(np.concatenate([*parts]))

    def common(self, batch: Batch, items: npt.NDArray[Any], slots: npt.NDArray[np.int64]) -> Common:
        """Return what items of a batch have in common with documents of the table."""
        # ``common_in`` counts the common keys of pairs alone, if it knows the sets.
        is_short = self.score_min == self.config.tuning.score_min or not self._exact_score
        if is_short:
            common = self.scheme.common_in(self.table, slots, _new_evidence(batch[4:]), items, self.config.plan)
            if common is not None:
                return common
        parts = []
        for rows in self._parts(batch, items, slots):
            older = self.evidence(slots[rows])
            parts.append(self.scheme.common(batch.evidence.select(items[rows]), older, self.plan))
        return parts[0] if len(parts) == 1 else Common(*map(np.concatenate, zip(*parts, strict=True)))

    def evidence(self, slots: npt.NDArray[np.int64]) -> Evidence:
        """Return the evidence of documents of the table."""
        return evidence_in(self.table, slots, self.scheme.derive, self.config.plan)

    def sets(self, slots: npt.NDArray[np.int64]) -> Evidence:
        """The same without the fixed part, which may have to be derived: for what reads words alone."""
        return Evidence(np.empty((len(slots), 0), np.uint8), *self.table.ragged(slots))

    def compared(
        self, batch: Batch, items: npt.NDArray[np.int64], older: npt.NDArray[np.int64] | Evidence
    ) -> npt.NDArray[np.float32]:
        """Compare m items with m others for a verdict (``neardup.pairs.comparing``), whether or not they share a key.
        ``older`` are slots of the table or evidence."""
        if isinstance(older, Evidence):
            return compared(self.config, batch.evidence.select(items), older, self.plan)
        each = ((batch.evidence.select(items[at]), self.evidence(older[at])) for at in self._parts(batch, items, older))
        return np.concatenate([compared(self.config, *sides, self.plan) for sides in each])

    def _parts(
        self, batch: Batch, items: npt.NDArray[Any], slots: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.int64]]:
        """Divide comparisons of items with documents of the table, because evidence may be large."""
        if not len(batch.ragged) and 2 * len(items) * batch.fixed.shape[1] <= _COMPARED_BYTES:
            return [np.arange(len(items))]
        sizes = self.table.ragged_lengths(slots) + batch.ragged_starts[items + 1] - batch.ragged_starts[items]
        return in_parts(sizes + 2 * batch.fixed.shape[1], _COMPARED_BYTES)

    def remove(self, id_: bytes) -> int:
        """Remove every version of an id (UTF-8; a full id, if there are collections); return how many there were."""
        check_type(id_, bytes, "an id of a matcher is UTF-8: matcher.remove('a'.encode())")
        batch = removal_batch([id_], self.config.plan.width)
        return self.table.remove(table_items(batch, regular_keys(np.empty((1, 0), np.uint64))))


def match_step(matcher: Matcher, batch: Batch, rows: StreamRows | None = None) -> Matches:
    """Match one batch as one step: the table adds all of it or, on any exception, nothing."""
    try:
        matcher.table.begin()
        matches = matcher.match(batch, rows=rows)
        matcher.table.commit()
    except BaseException:
        matcher.table.undo()
        raise
    return matches


def match_steps(
    matcher: Matcher, batch: Batch, rows: StreamRows | None = None, *, add: bool = True
) -> Iterator[Slice]:  # fmt: skip
    """One batch in slices, each a step of its own: the caller can write the pairs of a slice before the next one is
    matched, so its memory does not grow with the pairs of a batch. An exception undoes the slice that raised it alone.
    ``rows`` as for ``match``.
    """
    slices, end = matcher.slices_of(matcher.rows(batch) if rows is None else rows, add=add), -1
    while end != batch.size:
        with step(matcher.table) if add else nullcontext():
            part = next(slices)
        end = part.end
        yield part
