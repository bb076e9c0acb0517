"""The one path of a document: normalise, shingle, sign | probe, add, score | pair.

``Signer`` is the left half and has no state. ``Matcher`` is the right half and holds the table. ``Deduplicator`` is
both in one process. Workers run the halves on different machines, with a topic between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column, Document, DocumentColumns, Refusal
from neardup.documents.ids import salts, same_collection, separated_contents
from neardup.errors import ConfigError
from neardup.features.tokens.rarity import Rarity
from neardup.pairs.batches import (
    Batch,
    bytes_of,
    make_batch,
    removal_batch,
    rows_of,
    select,
    sizes_of,
    sound_columns,
    table_items,
)
from neardup.pairs.comparing import NO_LEADS, Leads, compared, is_lead, may_lead
from neardup.pairs.estimates.limits import NO_LOSSES, Losses, documents_of, losses_of
from neardup.pairs.json_lines import Unread
from neardup.pairs.limits import table_limits
from neardup.pairs.pair_rule import NO_MATCHES, Matches, joined, judge, named, shared_of
from neardup.pairs.shards import WHOLE_STREAM, Shard, StreamRows, shared_limits, stream_rows
from neardup.pairs.values import PlainReaders, admitted, converted, wrong_values
from neardup.schemes.config import Config, is_weighted
from neardup.schemes.interface import Common, Evidence, in_parts, regular_keys, select_ragged
from neardup.schemes.rows import SCHEMES
from neardup.window import BandTable, Candidates, Items, Limits
from neardup.window.steps import step

# The C library of Linux returns freed memory to the system if more than twice the largest block that it ever mapped and
# freed is free at the end of its heap. Then each chunk gets new pages for its buffers, which doubles the time. A signer
# allocates and frees a block of this size: twice its size is more than the buffers of a chunk.
_FREED_BYTES = 16 << 20
# A slice of a batch ends at so many candidates: each takes about a kilobyte until it is a line of output.
SLICE_CANDIDATES = 1 << 13
# Candidates are compared in parts of so many bytes, with the evidence of both sides: so it stays in the second cache.
_COMPARED_BYTES = 1 << 20


class Signed(NamedTuple):
    """What a signer makes of documents: the batch, the refused ones, and how much was read."""

    batch: Batch
    refusals: list[Refusal]
    characters: int
    shingles: int


class Signer:
    """Documents -> batches, without state: the same document always gives the same row. Threads may share one.

    Args:
        config: the settings; ``config.signing_fingerprint`` names everything that decides a batch.
        item_bytes_max: bytes of a signed document at most, by default ``evidence_bytes_max``; larger ones are refused.
        queries: the documents only probe; by dot product those longer than ``norm_max`` are scaled to it.

    Example:
        >>> signed = Signer(Config()).sign([Document("a", "some text"), Document("b", "")])
        >>> signed.batch.size, signed.refusals
        (1, [Refusal(position=1, id='b', reason='empty')])
    """

    def __init__(self, config: Config, item_bytes_max: int | None = None, *, queries: bool = False) -> None:
        self.config, self._queries = config, queries
        self._item_bytes_max = item_bytes_max or config.evidence_bytes_max
        self._scheme = SCHEMES[config.scheme]
        self._plain = PlainReaders(config.text_characters_max, separate=config.separate)
        np.empty(_FREED_BYTES, np.uint8)  # freed at once

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Signer, queries=self._queries), (self.config, self._item_bytes_max)

    def sign(self, documents: Sequence[Document], unread: Unread | None = None) -> Signed:
        """Sign documents; those that cannot be used are refused with a reason, the others keep their order. With
        ``unread`` a list that is not plain becomes what ``converted`` makes of it."""
        if type(documents) is not list and isinstance(documents, DocumentColumns):
            return self._sign_columns(documents)
        signed = self._plain.read(documents, self._sign_admitted) if self.config.plan.kind == "text" else None
        if signed is None and unread is not None and isinstance(documents, list):
            documents[:] = converted(documents, unread)
            return self.sign(documents)
        return self._sign_any(documents) if signed is None else signed

    def _sign_any(self, documents: Sequence[Document]) -> Signed:
        """The same for documents that may have values of any types."""
        query = self._scheme.query
        if self._queries and query is not None:
            documents = [query(document, self.config.plan) for document in documents]
        wrong = wrong_values(documents, self.config.plan.kind, separate=self.config.separate)
        if not wrong:
            return self._sign(documents)
        good = [position for position in range(len(documents)) if position not in wrong]
        signed = self._sign([documents[position] for position in good])
        refusals = [refusal._replace(position=good[refusal.position]) for refusal in signed.refusals]
        refusals += [Refusal(position, str(documents[position].id), reason) for position, reason in wrong.items()]
        return signed._replace(refusals=sorted(refusals))

    def sign_columns(
        self, ids: Column, times: npt.NDArray[np.float64], texts: Column, collections: Column | None = None
    ) -> Signed:
        """Sign n documents that are columns (``neardup.stories.arrow.columns.column_of``), without an object for each.

        Args:
            ids: the ids, in UTF-8. Starts may have 32 bits.
            times: event times in seconds since the epoch, ``float64[n]``; not a number where there is none.
            texts: the texts, in UTF-8.
            collections: the collections, in UTF-8, empty for none; ``Config.collection_field`` must be set.

        Returns:
            What ``sign`` returns for the same documents. Texts and ids that are not UTF-8 are refused
            (``text_not_utf8``, ``id_not_utf8``).

        Raises:
            ConfigError: if the scheme does not compare texts, the columns have different lengths, an array has another
                type, or starts do not stay inside their data.

        Example:
            >>> column = Column(np.frombuffer(b"onetwo", np.uint8), np.array([0, 3, 6]))
            >>> Signer(Config()).sign_columns(column, np.full(2, np.nan), column).batch.size
            2
        """
        if collections is not None and not self.config.separate:
            raise ConfigError("documents have collections, but collection_field is not set: set it")
        return self._sign_columns(sound_columns(ids, times, texts, collections))

    def _sign_columns(self, documents: DocumentColumns) -> Signed:
        """The same for columns that are known to be sound."""
        if (kind := self.config.plan.kind) != "text":
            raise ConfigError(f"documents of {self.config.scheme} bring {kind}, but columns hold texts: call sign")
        return self._sign(documents)

    def _sign(self, documents: Sequence[Document]) -> Signed:
        """The same for documents whose values have the types that they should have."""
        return self._sign_admitted(documents, *admitted(documents, separate=self.config.separate))

    def _sign_admitted(
        self, documents: Sequence[Document], ids: Column, times: npt.NDArray[np.int64], refused: dict[int, str]
    ) -> Signed:
        """The same with their ids and times, and the reasons of unusable ones, by position."""
        plan, scheme = self.config.plan, self._scheme
        every = range(len(documents))
        positions: Sequence[int] = [i for i in every if i not in refused] if refused else every
        signing = scheme.sign(scheme, rows_of(documents, positions) if refused else documents, plan)
        if signing.refused:
            refused = refused | {positions[i]: why for i, why in signing.refused.items()}
        if refused:
            positions = [i for i in positions if i not in refused]
            ids, times = Column(*select_ragged(*ids, np.array(positions, np.int64))), times[positions]
        contents = signing.contents
        if self.config.separate:
            contents = separated_contents(contents, salts(*ids))
        batch = make_batch(ids.data, ids.starts, times, contents, signing.evidence)
        if bytes_of(batch) > self._item_bytes_max:
            too_large = sizes_of(batch) > self._item_bytes_max
            refused |= {positions[i]: "evidence_too_large" for i in np.flatnonzero(too_large).tolist()}
            batch = select(batch, np.flatnonzero(~too_large)) if too_large.any() else batch
        refusals = [Refusal(i, documents[i].id, refused[i]) for i in sorted(refused)] if refused else []
        return Signed(batch, refusals, signing.characters, signing.features)


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
        >>> matcher, signer = Matcher(Config()), Signer(Config())
        >>> batch = signer.sign([Document("a", "the same text"), Document("b", "the same text")]).batch
        >>> with step(matcher.table):
        ...     matcher.match(batch).pairs()
        [Pair(older='a', newer='b', similarity=1.0, buckets=18)]
    """

    def __init__(
        self, config: Config, *, shard: Shard | None = None, candidates: bool = False, limits: Limits | None = None
    ) -> None:
        self.config = config
        self.score_min = 0.0 if candidates else config.tuning.score_min
        self.shard = WHOLE_STREAM if shard is None else shard
        self.scheme = SCHEMES[config.scheme]
        self._limits = limits or table_limits(config, self.scheme)
        shared = shared_limits(self._limits, self.shard.of)
        self.rarity = Rarity() if is_weighted(config) else None  # of the documents of the table
        self.table = BandTable(config.plan.width, shared, is_shard=shard is not None, rarity=self.rarity)
        self._own: Items | None = None  # of the last call of ``slices``
        self._used: tuple[npt.NDArray[Any], ...] = ()  # columns of items, to fill again
        self._shared = self.shard.of, shared  # among how many shards the limits of the table were shared last

    def match(self, batch: Batch, *, probe: bool = True, add: bool = True) -> Matches:
        """Probe the table with each item, then add it; score the candidates; return the pairs."""
        return joined([part.matches for part in self.slices(batch, probe=probe, add=add)])

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
        used, self._used = self._used, ()  # a call before the last slice makes its own
        rows = stream_rows(batch, self.config, removals, references, used)
        self._own = rows.items if self.scheme.banded else None
        return self.slices_of(rows, probe=probe, add=add, candidates_max=candidates_max, leads=leads, named=named)

    def slices_of(
        self, rows: StreamRows, *, first: int = 0, probe: bool = True, add: bool = True,
        candidates_max: int = SLICE_CANDIDATES, leads: bool = False, named: bool = True,
    ) -> Iterator[Slice]:  # fmt: skip
        """The same for rows that ``stream_rows`` has made, from row ``first`` on: shards of a member share them."""
        items = rows.items_of(self.shard, by_content=self.scheme.by_content)
        table, size, end, settled = self.table, rows.batch.size, first, self.shard.settled
        while True:
            shared = self.shard.fewest(table.oldest), table.limits
            if shared != self._shared:
                table.limits = shared_limits(self._limits, *shared)
                self._shared = shared[0], table.limits
            candidates = self.probe_add(
                rows.batch, items, removals=rows.removals, probe=probe, add=add, first=end,
                candidates_max=candidates_max, settled=settled,
            )  # fmt: skip
            judged = self._judged(rows, candidates, leads=leads, is_named=named)
            yield Slice(*judged, end := candidates.end, candidates.items)
            if end == size:
                if items is self._own:
                    self._used, self._own = items[:6], None
                return

    def probe_add(
        self, batch: Batch, items: Items, *, first: int, add: bool, removals: npt.NDArray[np.bool_] | None = None,
        **options: Any,
    ) -> Candidates:  # fmt: skip
        """``BandTable.probe_add`` of the items of a batch; where rarity counts, to the end of its epoch at most."""
        rarity, elements = self.rarity, self.scheme.elements
        if rarity is None or elements is None or not add:
            return self.table.probe_add(items, first=first, add=add, **options)
        rarity.freeze()
        found = self.table.probe_add(items.until(first + rarity.left), first=first, add=add, **options)
        rows = np.arange(first, found.end)
        rows = rows if removals is None else rows[~removals[first : found.end]]
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

    def _judged(
        self, read: StreamRows, candidates: Candidates, *, leads: bool, is_named: bool
    ) -> tuple[Matches, npt.NDArray[np.int32], npt.NDArray[np.int64], Losses, Leads]:
        """The candidates that are pairs, with their positions and slots; what limits cost; the leads that are asked
        for."""
        if not len(candidates.items):
            return NO_MATCHES, candidates.items, candidates.slots, NO_LOSSES, NO_LEADS
        batch = read.batch
        common = self.common(batch, candidates.items, candidates.slots)
        judged = judge(
            common, candidates.identical, self.score_min, self.config.buckets_shared_min,
            exact_score=self.config.tuning.exact_score, text_min=self.config.tuning.score_min,
        )  # fmt: skip
        is_near = judged.is_pair & (judged.similarity >= self.config.tuning.score_min)
        is_near |= judged.signals > 0 if len(judged.signals) else False
        losses = losses_of(candidates.items, candidates.slots, candidates.uncompared, is_near)
        is_other = is_near & ~candidates.identical
        documents = documents_of(candidates.items[is_other], candidates.items[is_near], losses)
        self.table.count_pairs(int(np.count_nonzero(is_other)), losses.missed, *documents)
        rows = (judged.is_pair | may_lead(self.config, common, judged) if leads else judged.is_pair).nonzero()[0]
        if self.config.separate:  # two keys of different collections share a chain with probability 2^-41
            rows = rows[same_collection(batch.ids_at(candidates.items[rows]), self.table.ids(candidates.slots[rows]))]
        if read.references is not None:
            rows = rows[~read.references[candidates.items[rows]]]
        met, rows = rows[~judged.is_pair[rows]], rows[judged.is_pair[rows]]
        items, slots, shared, plan = candidates.items[rows], candidates.slots[rows], None, self.config.plan
        if self.scheme.shared is not None:
            sides = self.evidence(slots), batch.evidence.select(items)
            shared = shared_of(self.scheme, *sides, candidates.identical[rows], plan)
        signals = judged.signals[rows] if len(judged.signals) else None
        pairs = Matches([], [], *NO_MATCHES[2:4], judged.similarity[rows], judged.keys[rows], shared, None, signals)
        if is_named or shared is not None:
            pairs = named(self.table, batch, items, slots, pairs, separate=self.config.separate)
        every = Leads(candidates.items, candidates.slots, judged.similarity, judged.keys)
        return pairs, items, slots, losses, self._leads(batch, every.select(met)) if len(met) else NO_LEADS

    def _leads(self, batch: Batch, met: Leads) -> Leads:
        """The leads among candidates that are no pairs."""
        parts = (
            rows[is_lead(self.config, batch.evidence.select(met.items[rows]), self.evidence(met.slots[rows]))]
            for rows in self._parts(batch, met.items, met.slots)
        )
        return met.select(np.concatenate([*parts]))

    def common(self, batch: Batch, items: npt.NDArray[Any], slots: npt.NDArray[np.int64]) -> Common:
        """Return what items of a batch have in common with documents of the table."""
        parts = []
        for rows in self._parts(batch, items, slots):
            older = self.evidence(slots[rows])
            parts.append(self.scheme.common(batch.evidence.select(items[rows]), older, self.plan))
        return parts[0] if len(parts) == 1 else Common(*map(np.concatenate, zip(*parts, strict=True)))

    def evidence(self, slots: npt.NDArray[np.int64]) -> Evidence:
        """Return the evidence of documents of the table."""
        return Evidence(self.table.fixed(slots), *self.table.ragged(slots))

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
        batch = removal_batch([id_], self.config.plan.width)
        return self.table.remove(table_items(batch, regular_keys(np.empty((1, 0), np.uint64))))


def match_step(matcher: Matcher, batch: Batch, *, add: bool = True) -> Matches:
    """Match one batch as one step: the table adds all of it or, on any exception, nothing."""
    with step(matcher.table) if add else nullcontext():
        return matcher.match(batch, add=add)


def match_steps(matcher: Matcher, batch: Batch, *, add: bool = True) -> Iterator[Slice]:
    """One batch in slices, each a step of its own: the caller can write the pairs of a slice before the next one is
    matched, so its memory does not grow with the pairs of a batch. An exception undoes the slice that raised it alone.
    """
    slices, end = matcher.slices(batch, add=add), -1
    while end != batch.size:
        with step(matcher.table) if add else nullcontext():
            part = next(slices)
        end = part.end
        yield part
