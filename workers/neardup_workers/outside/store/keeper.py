"""A deduplicator whose window is on disk: each step is committed to the log before its answers are sent.

The parts of a step, in order:

1. The step of the table and of the decisions opens. *A crash loses no answered document.*
2. The rows go to the log, and COMMIT. *If the disk is full, 1 is undone and the caller gets an error. On any other
   error the outcome is unknown: the process ends, and the next process restores the log.*
3. The step of the table closes. *A crash loses only memory.*
4. The answers are sent. *A crash loses answers. The same documents, sent again, get the same answers, with*
   ``repeated``.

At start the log is replayed: the signed documents are added to the table, the stored decisions are applied, and the
stories and the ledger of sources go on. So the answers after a restart equal the answers of a process that never
stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Explanation, Pair
from neardup.documents.ids import stored_id
from neardup.pairs.batches import CONTENT_HALF, MICROSECONDS, Batch, accepted_of, references_of
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.explanations.explain import explain
from neardup.pairs.neighbours.nearest import ranked
from neardup.pairs.pipeline import Matcher, Slice
from neardup.pairs.signing import Signed, Signer
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.stories.canaries.allowance import Allowance
from neardup.stories.canaries.canaries import Canaries
from neardup.stories.sources.ledger import SOURCES_MAX
from neardup.stories.sources.losses import NamedLosses, named_losses
from neardup.stories.sources.names import Shown, shown_by, source_of
from neardup.stories.sources.reports import Reports, refusals
from neardup.stories.verdicts.decider import Decider
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.fields import Verdicts, new_verdicts
from neardup.stories.verdicts.rule import Arrivals
from neardup.window import NO_TIME
from neardup.window.steps import step
from neardup_workers.outside.process.interpreter import uncollected
from neardup_workers.outside.store.answers import Answer, decision_of, newest, shown_in, verdict_of
from neardup_workers.outside.store.blocked import NOTHING_BLOCKED, BlockList
from neardup_workers.outside.store.extra import audit, quotes, sources
from neardup_workers.outside.store.extra.audit import Noted
from neardup_workers.outside.store.extra.outbox import NOTHING_ANNOUNCED, Outbox
from neardup_workers.outside.store.log import Log, StoreFull
from neardup_workers.outside.store.rows import StoredRow, batch_of, columns_of, joined_rows, restored_rows, stored_rows

_NOTHING_LOST = refusals((), 0)
# Of the newest documents of a restored window, so many have canaries: the last step among them.
_RESTORED_NEWEST = 64


class _EndedError(Exception):
    """The story that a document should join has ended."""


class Keeper:
    """The deduplicator of the service. One thread at a time may use it.

    Args:
        config: the settings of the window.
        log: the log of the window; the constructor replays it.
        keep_texts: store the texts, for ``why``.
        history_seconds: how long verdicts stay readable after their documents have left the window.
        clock: gives documents the time of their arrival, in seconds since the epoch; their own time is their date.
            Without it, each document must have a time.
        blocked: the ids and contents whose documents are refused.
        sources_max: sources that the ledger knows at most.
        announced: stores the events of each step for the web hook.
        canaries_every: of one document in so many an edited copy is looked up; 0 for none.
        canaries_allowance: bounds them by time.
    """

    def __init__(
        self,
        config: Config,
        log: Log,
        *,
        keep_texts: bool = False,
        history_seconds: float = 0.0,
        clock: Callable[[], float] | None = None,
        blocked: BlockList = NOTHING_BLOCKED,
        sources_max: int = SOURCES_MAX,
        announced: Outbox = NOTHING_ANNOUNCED,
        canaries_every: int = 0,
        canaries_allowance: Allowance | None = None,
    ) -> None:
        self.config, self.log, self._keep_texts, self._clock, self.blocked = config, log, keep_texts, clock, blocked
        self._announced = announced
        self._history = int(history_seconds * MICROSECONDS)
        self.signer, self.matcher = Signer(config), Matcher(config)
        self._decider, self._verdicts = Decider(self.matcher), new_verdicts(0)
        self.canaries = Canaries(self.matcher, canaries_every, allowance=canaries_allowance)
        self._sources, self.losses = sources.Sources(sources_max), LossAccounts()
        self._ledger = self._sources.ledger
        self._repeating: list[dict[str, Any]] = []
        self._knows_shared = SCHEMES[config.scheme].shared is not None
        self._replay()

    # Changes

    def check(self, documents: Sequence[Document]) -> list[Answer]:
        """Decide documents and add them as one step.

        Raises:
            StoreFull: the disk is full; no document was added.
            sqlite3.Error: the outcome is unknown; the process must end.
        """
        signed = self.blocked.refuse(self.signer.sign(documents))
        refused = {refusal.position: refusal.reason for refusal in signed.refusals}
        accepted = accepted_of(documents, signed.refusals)
        lost = refusals([source_of(documents[n]) or "" for n in refused], self._present()) if refused else _NOTHING_LOST
        answers = iter(self._added(accepted, signed, lost) if accepted else ())
        if not accepted:
            self.count_sources(lost)
        self.signer.fill_again(signed)
        return [
            Answer(str(document.id), refused[position]) if position in refused else next(answers)
            for position, document in enumerate(documents)
        ]

    def count_sources(self, lost: Reports = _NOTHING_LOST) -> None:
        """Count for the ledger of sources the documents that wait for it, and refused ones."""
        if lost.sources or self._sources.waits:
            with suppress(StoreFull), self._step():  # a full disk changes no answer about what is not stored
                self._sources.report(lost)

    def remove(
        self, id_: str, collection: str | None = None, *, block: bool = False, noted: Noted | None = None
    ) -> int:
        """Remove every version of an id of a collection and erase the id from the log; returns the number of versions,
        or of its stories where these have outlived the versions.

        ``block`` first adds the id, the contents of its versions in the window and those of its stories to the block
        list: a crash between the two leaves the id blocked. On a full disk it takes the room that the log holds for
        that. ``noted`` goes to the audit log. Raises as ``check``, and ``OSError`` if the list cannot be written; then
        nothing was removed.
        """
        try:
            return self._removed(id_, collection, noted, block=block)
        except (StoreFull, OSError):
            with self.log.reserved_room():
                return self._removed(id_, collection, noted, block=block)

    def _removed(self, id_: str, collection: str | None, noted: Noted | None, *, block: bool) -> int:
        id_bytes = self._stored_id(id_, collection)
        if block:
            contents = np.frombuffer(b"".join(self.log.contents(id_bytes, self._oldest)), "<u8").reshape(-1, 2)
            of_versions = contents[:, CONTENT_HALF].astype(np.uint64)
            self.blocked.append(id_, np.union1d(of_versions, self._decider.contents_of(id_bytes)), collection)
        with self._step():
            self._decider.remove(id_bytes)
            changes = self._decider.story_changes()
            self._announced.removed(self.log.writer, id_bytes, changes.ended, changes.ids)
            left = len(changes.ended) + len(changes.ids) or len(changes.dropped)
            count = self.log.erase(id_bytes) or left
            if noted is not None and (count or block):
                what = {"id_sha256": audit.hash_of(id_), "collection": collection, "removed": count, "blocked": block}
                audit.add(self.log.writer, noted.time, noted.who, "remove", what, noted.why)
        self.losses.forget(id_)
        if count:
            self.log.checkpoint()
        return count

    def judge(
        self, ids: Sequence[str], collection: str | None, *, same: bool, replace: bool, noted: Noted
    ) -> StoredRow | str | tuple[str, float, str]:
        """Make what a person says of two ids hold: that they tell the same story, or not. The one that arrived later
        is decided again, as a version of now; later copies of it follow.

        Returns:
            The row of that one, whether it moved or was there already; or why not: the reason of a problem, or what was
            said of the two before, if it contradicts and ``replace`` is not set. Raises as ``check``.
        """
        said, pair = audit.TOGETHER if same else audit.APART, audit.pair_of(ids, collection)
        found = [self.log.latest(self._stored_id(id_, collection)) for id_ in ids]
        kept = [one for one in found if one is not None and one[0].place >= self._oldest]
        stored = sorted(kept, key=lambda one: one[0].place)
        if len(stored) < 2:
            return "unknown_id"
        (older, _), (row, text) = stored
        if older.id == row.id or (not same and older.content == row.content):
            return "same_content"
        before = audit.last_said(self.log.writer, pair)
        if before is not None and before[0] != said and not replace:
            return before
        self.log.keep_room()
        with suppress(_EndedError), self._step():
            why = self.why(ids[0], ids[1], collection)
            similarity, by_signal = why.similarity, why.by_signal
            if (older.cluster == row.cluster) != same:
                row = self._moved(row, text, older.place if same else None, similarity or 0.0)
                if same and row.cluster != older.cluster:
                    raise _EndedError  # the step is undone
            what = {**pair, "cluster": row.cluster, "similarity": similarity} | (
                {"by_signal": by_signal} if by_signal else {}
            )
            audit.add(self.log.writer, noted.time, noted.who, said, what, noted.why)
            return row
        return "ended_story"

    def _moved(self, row: StoredRow, text: str | None, place: int | None, similarity: float) -> StoredRow:
        """Decide a stored version again, as ``Decider.judge``; return its new row."""
        batch = batch_of(columns_of(row), self.config.plan.width)
        batch = batch._replace(times=np.array([max(self._present(), self.matcher.table.stream_time)]))
        date = row.time if self._clock is None else row.date
        dates = np.array([NO_TIME if date is None else date])
        decided = self._decider.judge(batch, place, similarity)
        self.log.erase(row.id)
        [moved] = self._rows(batch, dates, decided, [(row.source, row.url, row.title)])
        self._sources.begin(columns_of(moved), decided.verdicts, batch.times, has_arrivals=self._clock is not None)
        self._store([moved], [] if text is None else [text])
        quotes.move(self.log.writer, row.place, moved.place)
        return moved

    # Looks

    def probe(self, documents: Sequence[Document], nearest: int = 0) -> list[Answer]:
        """Return the pairs of each document, and its ``nearest`` most similar ones, without adding it. A scheme that
        cannot rank has no ``nearest``."""
        answers = []
        for document in documents:  # one by one: they must not be paired with each other
            signed = self.blocked.refuse(self.signer.sign([self._now(document)]))
            if signed.refusals:
                answers.append(Answer(str(document.id), signed.refusals[0].reason))
            else:
                pairs = self.matcher.match(signed.batch, add=False).pairs()
                name = document.collection or None
                ranks = ranked(self.matcher, signed.batch, nearest) if nearest else ()
                near = tuple(one for part in ranks for one in part.neighbours[0])
                answers.append(Answer(document.id, pairs=newest(document.id, pairs), nearest=near, collection=name))
        return answers

    def near(self, id_: str, collection: str | None = None) -> tuple[Pair, ...] | None:
        """Return the pairs of the latest version of an id of a collection, with earlier and later documents; ``None``
        if it is not in the window."""
        stored = self.log.latest(self._stored_id(id_, collection))
        if stored is None or stored[0].place < self._oldest:
            return None
        return newest(
            id_, self.matcher.match(batch_of(columns_of(stored[0]), self.config.plan.width), add=False).pairs()
        )

    def why(self, a: str | Document, b: str, collection: str | None = None) -> Explanation:
        """Explain why an id, or a document that is not added, is a pair with another id or not; with passages of their
        texts if texts are stored. Ids are of the collection."""
        explanation = explain(self.matcher, self.signer, self._now(a) if isinstance(a, Document) else a, b, collection)
        if isinstance(a, Document):
            other = self.log.latest(self._stored_id(b, collection))
            known = {a.id: a.text, b: None if other is None else other[1]}
            texts = [known[id_] for id_ in explanation[:2]]
        else:
            ids = [self._stored_id(id_, collection) for id_ in explanation[:2]]
            explanation, places = decision_of(self.log, ids, explanation)
            texts = [None if place is None else self.log.text(place) for place in places]
        return shown_in(explanation, texts, self.signer)

    def take_repeating(self) -> list[dict[str, Any]]:
        """Return the hours in which sources have begun to repeat themselves since the last call."""
        repeating, self._repeating = self._repeating, []
        return repeating

    def counts(self) -> dict[str, int]:
        """Return documents and bytes of the window, and the counters of the table."""
        table = self.matcher.table
        used, allocated = table.memory_bytes()
        sizes = {"documents": table.documents, "bytes_used": used, "bytes_allocated": allocated}
        return {**table.counts(), **sizes, "stream_time": table.stream_time}

    # How

    def _stored_id(self, id_: str, collection: str | None) -> bytes:
        """Return an id as the table and the log have it."""
        return stored_id(id_, collection, separate=self.config.separate)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Run a step of the table, the decisions and the log atomically."""
        self._sources.open()
        with self._decider.step, self._ledger.step():
            with self.log.transaction():
                yield
                changes, oldest = self._decider.story_changes(), self._oldest
                self.log.follow(changes)
                self._sources.follow(self.log.writer, changes, oldest, self._decider.places)
            self._sources.settle(oldest)
            self._repeating += self._ledger.began_repeating()

    def _now(self, document: Document) -> Document:
        """Return a document that is only looked up, with the time that it would have."""
        return document if self._clock is None else document._replace(timestamp=None)

    def _arrived(self, signed: Signed) -> Signed:
        """Return documents with the time of now. It never falls, also if the clock is set back or in a new process."""
        if self._clock is None:
            return signed
        times = np.array([self._present()] * signed.batch.size, np.int64)
        times.setflags(write=False)  # as all columns of a batch: another mix would compile the kernels again
        return signed._replace(batch=signed.batch._replace(times=times))

    def _present(self) -> int:
        """The time of arrival in microseconds, ``NO_TIME`` without a clock."""
        if self._clock is None:
            return int(NO_TIME)
        return max(round(self._clock() * MICROSECONDS), self.matcher.table.stream_time)

    def _added(self, documents: Sequence[Document], signed: Signed, lost: Reports) -> list[Answer]:
        pairs: list[list[Pair]] = [[] for _ in documents]
        dates = signed.batch.times if self._clock is not None else np.full(signed.batch.size, NO_TIME)
        batch = (signed := self._arrived(signed)).batch
        shown, losses = list(map(shown_by, documents)), list[NamedLosses]()

        def seen(part: Slice) -> None:
            if len(part.losses.items):
                losses.append(named_losses(self.matcher, batch, part, lambda item: shown[item][0] or ""))
            for item, pair in zip(part.items.tolist(), part.matches.pairs(), strict=True):
                pairs[item].append(pair)

        self.log.keep_room()
        self._verdicts = new_verdicts(batch.size, self._verdicts)
        with self._step():
            decided = self._decider.decide_columns(
                np.ones(batch.size, np.bool_), signed, seen, lambda at: [documents[n].text for n in at],
                references_of(documents), named=True, verdicts=self._verdicts,
            )  # fmt: skip
            rows, originals = self._rows(batch, dates, decided, shown), iter(decided.ids)
            self._store(rows, [document.text for document in documents] if self._keep_texts else ())
            near = [newest(document.id, pairs_of) for document, pairs_of in zip(documents, pairs, strict=True)]
            if self._knows_shared:
                quotes.store(self.log.writer, rows, near, separate=self.config.separate)
            kept = int((self.config.window_seconds or 0.0) * MICROSECONDS) + self._history
            since = self.matcher.table.stream_time - kept if self._history else None
            self.log.expire(self._oldest, since, self.matcher.rarity)
            found, sources_of = decided.verdicts, [one[0] or "" for one in shown]
            when = (batch.times, dates) if self._clock is not None else (dates, batch.times)
            self._sources.report(lost, Reports(sources_of, found.statuses, found.clusters, found.late, *when))
        for one in losses:
            self.losses.add(*one)
        self.canaries.after(documents, batch)
        verdicts = [verdict_of(row, None if row.original is None else next(originals)) for row in rows]
        return [
            Answer(document.id, None, verdict, near_of, (), document.collection or None)
            for document, verdict, near_of in zip(documents, verdicts, near, strict=True)
        ]

    def _store(self, rows: Sequence[StoredRow], texts: Sequence[str]) -> None:
        """Add the rows of a step to the log, with their texts if there are some."""
        kept = list(zip([row.place for row in rows], texts, strict=True)) if texts else ()
        self.log.append(rows, kept, self._decider.places, self.matcher.table.stream_time)
        self._announced.added(self.log.writer, rows)

    @property
    def _oldest(self) -> int:
        """The place of the oldest document of the table."""
        return self._decider.places - self.matcher.table.documents

    def _rows(
        self, batch: Batch, dates: npt.NDArray[np.int64], decided: Decided, shown: Sequence[Shown]
    ) -> list[StoredRow]:
        return stored_rows(batch, dates, decided, shown, self._decider.decisions, self.log.row)

    @uncollected()
    def _replay(self) -> None:
        meta, table = self.log.meta(), self.matcher.table
        if meta["stream_time"] is not None:
            table.set_stream_time(meta["stream_time"])
        parts: list[tuple[Arrivals, Verdicts]] = []
        gone, expected = dict[bytes, None](), 0
        for rows in self.log.rows(self.matcher.rarity):
            batch, first = batch_of(rows, self.config.plan.width), table.slot_end
            left = meta["places"] - 1 - rows["place"][-1]
            with step(table):
                self.matcher.match(batch, probe=False)
            self.canaries.restored(batch, first, max(0, _RESTORED_NEWEST - left))
            parts.append(restored_rows(rows, batch))
            has_arrivals, counted = self._clock is not None, sources.first_waiting(meta)
            self._sources.begin(rows, parts[-1][1], batch.times, has_arrivals=has_arrivals, counted=counted)
            if table.documents > expected:  # not of all at once: the first rows share less than many do
                expected = table.documents + min(left, 3 * table.documents)
                table.expect(expected)
            gone.update(dict.fromkeys(compress(rows["id"], rows["gone"])))
        with step(table):
            for id_ in gone:
                self.matcher.remove(id_)
        self._decider.restore(*joined_rows(parts, list(gone)), meta["places"], stories := self.log.stories())
        self._sources.resume(self.log.writer, stories, self._oldest)
