"""Decide the documents of one process: the matcher finds the pairs, and the rule of verdicts decides.

Theory of operation. Every document that the table adds has a row in the decisions, so that slot and row number differ
by a constant. A batch is one step of both: on any exception both have it, or neither. What the table no longer holds,
the decisions forget before the next step. A step that is committed copies from the table what leaves it and its stories
still need (``held``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Verdict
from neardup.documents.ids import bare_ids
from neardup.documents.pieces import NewWord
from neardup.errors import ConfigError
from neardup.pairs.batches import Batch, accepted_of, id_columns, id_hashes, references_of
from neardup.pairs.comparing import RESULT_FIELDS, Leads, is_novel, joined_leads, new_in
from neardup.pairs.explanations.relations import Relations, joined_relations, relations_in
from neardup.pairs.pair_rule import compares_directly, deciding_parts
from neardup.pairs.pipeline import SLICE_CANDIDATES, Matcher, Slice, found_by
from neardup.pairs.signing import Signed
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts import deciding, rule, saved
from neardup.stories.verdicts.deciding import Compare, Decided, new_decided, verdict_limits
from neardup.stories.verdicts.decisions import AHEAD_MAX, Decisions
from neardup.stories.verdicts.fields import NOTHING_NEW, NewWords, Verdicts, new_verdicts, originals_of, verdicts_of
from neardup.stories.verdicts.kept import (
    KeptStories,
    TableHoldings,
    changed,
    complete,
    in_table,
    joined_parts,
    parts_of,
    with_places,
    with_rows,
)
from neardup.stories.verdicts.leads import NO_ROW
from neardup.stories.verdicts.row_columns import NONE, NOTHING_FOUND, Found, Pairs
from neardup.stories.verdicts.rule import DOCUMENT, IS_KEPT_STATUS, JUDGED, REMOVAL, Arrivals
from neardup.window import NO_TIME
from neardup.window.steps import NestedSteps, step

# Returns the texts of some arrivals, by their indices.
Texts = Callable[[list[int]], list[str]]
_NO_REASONS: dict[int, str] = {}


class Decider(NestedSteps):
    """The decisions about what a matcher adds: all documents go to it through ``decide``. Used by one thread at a
    time."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__()
        self._matcher, config = matcher, matcher.config
        self.decisions = Decisions(verdict_limits(config, matcher.table.limits))
        # The columns of the last call, which the next one fills again; of as many arrivals, which are all accepted.
        self._holdings, self._arrivals, self._verdicts = TableHoldings(), rule.new_arrivals(0), new_verdicts(0)
        self._every = np.ones(0, np.bool_)
        self.step = step(self)  # of the table and of the decisions; all calls inside belong to it
        self._part_min = SCHEMES[config.scheme].part_min(config.plan)
        self._is_direct, self._is_novel = compares_directly(config), is_novel(config)
        self._has_candidates = matcher.score_min < config.tuning.score_min
        self._places = 0  # of the documents decided so far, refused ones included
        self._first_slot: int | None = None  # of the document with row number 0
        self._before: tuple[int, int | None] = 0, None

    @property
    def places(self) -> int:
        """The place that the next document will have."""
        return self._places

    def _begin(self) -> None:
        table, first, decisions = self._matcher.table, self._first_slot, self.decisions
        self._before, self._unfinished = (self._places, first), self._drop
        table.begin()
        # The rule evicts what the table evicts, but where the memory of the table bounds it (``window.bound``).
        if first is not None and (oldest := table.oldest - first) > decisions.first:
            decisions.forget(oldest)
        decisions.begin()

    def _keep(self) -> None:
        decisions, table = self.decisions, self._matcher.table
        decisions.commit()
        if decisions.changed or table.oldest or decisions.first:
            self._follow()
        table.commit()

    def _drop(self) -> None:
        self._places, self._first_slot = self._before
        self.decisions.undo()
        self._matcher.table.undo()

    def settle(self) -> None:
        """Also finish a step of the table alone."""
        if self._open or self._unfinished is not None:
            super().settle()
        if self._matcher.table.is_open:
            self._matcher.table.undo()

    def decide(self, documents: Sequence[Document], signed: Signed, *, reference: bool = False) -> list[Verdict]:
        """Match and decide documents, which the signer has signed, in order of arrival; returns a verdict for each.
        ``reference``: all are of an old set. Raises as ``decide_columns``."""
        if (n := len(documents)) != len(self._every):
            self._every, self._verdicts = np.ones(n, np.bool_), new_verdicts(n)
        accepted, given, reasons, references = self._every, documents, _NO_REASONS, None
        if signed.refusals:
            given, reasons = accepted_of(documents, signed.refusals), {at: why for at, _, why in signed.refusals}
            (accepted := accepted.copy())[[*reasons]] = False
        if reference or (sheet := signed.sheet) is None or sheet.references:
            references = np.ones(len(given), np.bool_) if reference else references_of(given)
        texts: Texts | None = (lambda at: [documents[n].text for n in at]) if self._is_novel else None
        made = self.decide_columns(accepted, signed, None, texts, references, verdicts=self._verdicts)
        if not (more := self.decisions.more) and made.relations is None:
            return originals_of(documents, made.first_place)
        related = {} if made.relations is None else dict(made.relations.values())
        return verdicts_of(documents, made.first_place, made.verdicts, made.ids, made.new, related, reasons, more)

    def decide_columns(
        self, accepted: npt.NDArray[np.bool_], signed: Signed, seen: Callable[[Slice], None] | None = None,
        texts: Texts | None = None, references: npt.NDArray[np.bool_] | None = None, *, named: bool = False,
        verdicts: Verdicts | None = None,
    ) -> Decided:  # fmt: skip
        """Match and decide arrivals, without an object for each: documents that the signer has signed, or refused ones.

        ``seen`` is called with each slice of the batch, which holds the pairs of its documents, with ids if ``named``.
        ``texts`` returns the texts of arrivals, to name what they say that is new. ``references`` says which documents
        are of an old set. ``verdicts`` receives the verdicts; by default there are new ones.

        Raises ``ConfigError`` if the table holds documents that were added in another way since the first decision, or
        the matcher keeps candidates that are no pairs.
        """
        decisions, place, count = self.decisions, self._places, len(accepted)
        relations: list[Relations] = []
        ids: list[str] = []
        verdicts = new_verdicts(count) if verdicts is None else verdicts
        new, decisions.more = NOTHING_NEW, 0
        try:
            self.begin()
            offset = self._offset()
            self._decide(accepted, signed, verdicts, offset, relations, seen, references, named)
            if decisions.more:
                ids = self._original_ids(verdicts)
                if texts is not None and self._is_novel:
                    new = self._new(verdicts, decisions.against, texts, offset)
            row = decisions.end - len(signed.batch.times)
            self._places += count
            self.commit()
        except BaseException:
            self.undo()
            raise
        return new_decided((verdicts, place, row, ids, joined_relations(relations) if relations else None, new))

    def remove(self, id_: bytes) -> int:
        """Remove all versions of an id (UTF-8; a full id, if there are collections); returns how many there were."""
        hashes = id_hashes(*id_columns([id_]))
        none, no_time = np.zeros(1, np.uint64), np.array([NO_TIME])
        arrivals = Arrivals(no_time, np.array([REMOVAL], np.uint8), hashes, no_time, none, np.zeros(1, np.int64))

        def removed() -> int:
            self.decisions.decide(arrivals, NOTHING_FOUND)
            return self._matcher.remove(id_)

        return self.in_step(removed)

    def judge(self, batch: Batch, place: int | None, similarity: float = 0.0) -> Decided:
        """Decide a version of an id, alone in its batch and not late, as a person says, whatever it is near; its
        versions before are removed. It tells the story of the document at a place (``None``: of none), to which it has
        this similarity.

        Returns its verdict: an update of that story, or an original, also if that story has ended.
        """

        def judged() -> Verdicts:
            self._offset()
            row = NONE if place is None else place - self._places + self.decisions.end
            found = Found(np.zeros(1, np.int64), np.array([row]), np.array([similarity], np.float32))
            arrivals = rule.arrival_of(batch, self._places, JUDGED)
            self._matcher.remove(batch.ids.tobytes())
            self._matcher.match(batch, probe=False)
            self._places += 1
            return self.decisions.decide(arrivals, NOTHING_FOUND if place is None else found)

        return Decided(self.in_step(judged), self._places - 1, self.decisions.end - 1, [])

    def contents_of(self, id_: bytes) -> npt.NDArray[np.uint64]:
        """Return the contents of the stories that an id (UTF-8) began, also of those that have outlived its versions,
        ``uint64[n]``: the halves of content hashes that verdicts compare."""
        return self.decisions.contents_of(id_hashes(*id_columns([id_]))[0])

    def save(self) -> Iterator[bytes]:
        """The decisions about what the table holds, in parts; none if it holds documents without a decision."""
        self.finish()
        table, decisions = self._matcher.table, self.decisions
        if self._first_slot is None or table.slot_end != self._first_slot + decisions.end:
            return iter(())
        decisions.forget(table.oldest - self._first_slot)
        held = saved.held_of(self._holdings, decisions.first, self._matcher.config.plan.width)
        return saved.encode(decisions.saved(self._places, held))

    def resume(self, parts: Sequence[bytes]) -> None:
        """Continue from what ``save`` gave, after the table holds its window. Raises ``WireError``."""
        resumed = saved.decode(parts)
        self.decisions.resume(resumed)
        held, width = resumed.held, self._matcher.config.plan.width
        self._holdings.resume(held.evidence(width), held.names())
        self._places = resumed.places
        self._first_slot = self._matcher.table.slot_end - self.decisions.end

    def restore(self, arrivals: Arrivals, decided: Verdicts, places: int, kept: KeptStories) -> None:
        """Continue from documents that were decided before, after the table holds them; before the first step.

        ``arrivals`` are all that the table holds, in order, and after them the removals of ids; ``places`` is how many
        places were given.
        """
        self._places = places
        kept, offset = complete(kept), places - int((arrivals.kinds == DOCUMENT).sum())
        kept = kept._replace(records=with_rows(kept.records, offset))
        there = in_table(kept.records, arrivals.contents[arrivals.kinds == DOCUMENT])
        evidence = {place - offset: part for place, part in kept.evidence.items() if place not in there}
        names = {place: id_ for place, id_ in kept.ids.items() if place not in there}
        self._holdings.resume(evidence, names)
        self.decisions.restore(arrivals, decided, self._matcher.table.stream_time, kept)
        self._first_slot = self._matcher.table.slot_end - self.decisions.end
        self._follow()

    def _follow(self) -> None:
        """Hold what stories need of the rows that leave the table at the end of the step, or the decisions."""
        if self._first_slot is None:
            return
        decisions, held = self.decisions, self._holdings
        first = max(decisions.first, self._matcher.table.oldest - self._first_slot, held.first)
        if first > held.first or (decisions.changed and (held.evidence or held.names)):
            rows, stories = decisions.contents_between(held.first, first)
            held.leave(decisions.pending(with_records=False), rows, stories, self._evidence, self._ids)
            held.first = first

    def story_changes(self) -> KeptStories:
        """Return what the open step has changed so far of the stories, by place, for a log that keeps them."""
        decisions = self.decisions
        kept = changed(decisions.pending(), self._evidence, self._ids)
        return kept._replace(records=with_places(kept.records, decisions.first, self._places - decisions.end))

    def _offset(self) -> int:
        """What to add to a row number to get the slot; in a step."""
        end, first = self._matcher.table.slot_end, self._first_slot
        if first is None:
            self._first_slot = first = end
        if end != first + self.decisions.end:
            raise ConfigError(
                f"{end - first - self.decisions.end} documents were processed and not decided: "
                "use either decide or process on one Deduplicator"
            )
        if self._has_candidates:
            raise ConfigError("candidates is on, so pairs below the least score would drop documents: leave it off")
        return first

    def _decide(
        self, accepted: npt.NDArray[np.bool_], signed: Signed, verdicts: Verdicts, offset: int,
        relations: list[Relations], seen: Callable[[Slice], None] | None, references: npt.NDArray[np.bool_] | None,
        named: bool,
    ) -> None:  # fmt: skip
        """Fill in the verdicts of the arrivals: those of a slice before the next slice is matched. ``relations``
        receives what they share."""
        batch, count, matcher, decisions = signed.batch, len(accepted), self._matcher, self.decisions
        if len(self._arrivals.places) != count:
            self._arrivals = rule.new_arrivals(count)
        arrivals, once = self._arrivals, matcher.once_with_leads
        read = (references is None and signed.rows) or matcher.rows(batch, references)
        items = matcher.items(read)
        is_every, part = count == len(batch.times), None
        if is_every and references is None and count <= AHEAD_MAX and matcher.rarity is None:
            table, where = matcher.shared_table(), decisions.ready(arrivals, verdicts, count, usable=self._is_direct)
            judging, place = 0 if once is None else once.address, self._places
            ended = deciding.run(
                judging, where, place, offset, table.at(), table.items_at(items), 0, True, True, SLICE_CANDIDATES, 0
            )
            if ended[7] == NONE:
                again = partial(deciding.run, judging, where, place, offset)
                ended = table.run_on(ended, items, again, True, True, SLICE_CANDIDATES)
            _, _, _, _, table.oldest, table.slot_end, table.posting_end, decided, end, more, changed = ended
            if decided != NONE:
                decisions.end, decisions.more, decisions.changed = end, more, changed
                if decided < count:
                    decisions.finish(decided, self._compare(batch, np.arange(count), offset))
                if seen is not None:
                    seen(found_by(once, batch, count, named))
                return
            part = matcher.slice(read, items, 0, leads=True, named=named, ended=ended[:7])
        rows = np.arange(count) if is_every else accepted.nonzero()[0]  # of the documents
        compare = self._compare(batch, rows, offset) if self._is_direct else None
        probe, old = (True, rule.NONE_OLD) if references is None else (not references.all(), references)
        first = at = 0
        while True:
            if part is None:
                part = matcher.slice(read, items, at, probe=probe, leads=True, named=named)
            end = count if part.end == len(rows) else int(rows[part.end])
            pairs: Found | Pairs = NOTHING_FOUND
            if len(part.items) or len(part.leads.items):
                pairs = rule.pairs_of(self._led(batch, part, rows, relations), rows, offset, count)
            arriving = rule.ARRIVED if first else (matcher.table.items_at(items), accepted, self._places, old)
            decisions.decide(arrivals, pairs, compare, verdicts, first, end, arriving)
            if seen is not None:
                seen(part)
            first, at, part = end, part.end, None
            if at == len(rows):
                return

    def _led(self, batch: Batch, part: Slice, rows: npt.NDArray[np.int64], relations: list[Relations]) -> Leads:
        """The leads of a slice, pairs among them; ``relations`` receives what its documents share with others."""
        similarity = part.matches.similarity
        if part.matches.shared is None:
            return joined_leads(Leads(part.items, part.slots, similarity, part.matches.buckets), part.leads)
        found, shared = relations_in(part, batch, rows)
        relations.append(found)
        similarity = deciding_parts(similarity, shared.fractions[:, 1], self._part_min)
        led = Leads(part.items, part.slots, similarity, part.matches.buckets)
        return joined_leads(led.select(np.flatnonzero(similarity >= 0)), part.leads)

    def _compare(self, batch: Batch, rows: npt.NDArray[np.int64], offset: int) -> Compare:
        """Return how arrivals are compared; ``rows[i]`` is the arrival of item i of the batch."""

        def compare(items: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
            positions, slots = rows.searchsorted(items), numbers + offset
            held = self._is_held(numbers, offset)
            if not held.any():
                return self._matcher.compared(batch, positions, slots)
            results = np.empty((len(items), RESULT_FIELDS), np.float32)
            results[held] = self._matcher.compared(batch, positions[held], self._held(numbers[held]))
            if not held.all():
                results[~held] = self._matcher.compared(batch, positions[~held], slots[~held])
            return results

        return compare

    def _is_held(self, numbers: npt.NDArray[np.int64], offset: int) -> npt.NDArray[np.bool_]:
        """Which rows have left the table, so that their evidence is held."""
        held: npt.NDArray[np.bool_] = numbers + offset < self._matcher.table.oldest
        # What left in this step is still in the table.
        held[held] = [row in self._holdings.evidence for row in numbers[held].tolist()]
        return held

    def _held(self, numbers: npt.NDArray[np.int64]) -> Evidence:
        parts = [self._holdings.evidence[row] for row in numbers.tolist()]
        return joined_parts(parts, self._matcher.config.plan.width)

    def _new(self, verdicts: Verdicts, against: npt.NDArray[np.int64], texts: Texts, offset: int) -> NewWords:
        """What kept arrivals say that the contents which they were compared with do not say."""
        arrivals = ((against != NO_ROW) & IS_KEPT_STATUS[verdicts.statuses]).nonzero()[0]
        if not len(arrivals):
            return NOTHING_NEW
        held, out = self._is_held(against[arrivals], offset), dict[int, tuple[NewWord, ...]]()
        for is_held in (False, True):
            at = arrivals[held == is_held]
            if len(at):
                older = self._held(against[at]) if is_held else self._matcher.sets(against[at] + offset)
                out |= zip(at.tolist(), new_in(self._matcher.config, texts(at.tolist()), older), strict=True)
        return out

    def _evidence(self, numbers: npt.NDArray[np.int64]) -> list[bytes]:
        return parts_of(self._matcher.evidence(numbers + (self._first_slot or 0)))

    def _ids(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        return self._matcher.table.ids(numbers, self._first_slot or 0)

    def _original_ids(self, verdicts: Verdicts) -> list[str]:
        """The ids of the originals of the verdicts that name one, in order."""
        ids = self._holdings.original_ids(verdicts.originals, verdicts.clusters, self._ids)
        return bare_ids(ids) if self._matcher.config.separate else ids
