"""``neardup dedup``: read | sign | match | decide | write, in order, in one pass and bounded memory.

Each line of the input goes to exactly one of three outputs, byte for byte: kept, removed, rejects. Blank lines go to
the kept output. A table has its header in each output. A thread of its own matches and decides the next chunks while
the verdicts of a chunk are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.comparing import is_novel
from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signed, Signer
from neardup.stories.sources.losses import count_losses
from neardup.stories.verdicts.decider import Decider
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.rule import DUPLICATE, IS_KEPT_STATUS, KEPT, REFUSED, STATUSES, UNCHANGED
from neardup_workers.doing.session.session import Chunk, Session, judged
from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.outputs.clusters import Clusters
from neardup_workers.outside.outputs.falls import Falls, late_sources, loss_failure, mentions_in, text_of
from neardup_workers.outside.outputs.lines_file import LinesFile, is_table
from neardup_workers.outside.outputs.output import STANDARD, Lines
from neardup_workers.outside.outputs.sources import Sources, source_names
from neardup_workers.outside.outputs.table_file import TableFile, columns_of
from neardup_workers.outside.outputs.verdict_lines import VERDICT_KEY, annotated, counts_of, kept_as_new, verdict_lines
from neardup_workers.outside.outputs.window_file import fill, keep
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.interpreter import share_interpreter
from neardup_workers.outside.readers.entries import PASSED, Entry, LineRows, TableRows
from neardup_workers.outside.settings.files import Settings, fields_of, with_file_window
from neardup_workers.running.commands.dedup.archive import Archive

Write = Callable[[bytes], None]
_DROPPED = (DUPLICATE, UNCHANGED)


def run(options: DedupOptions, settings: Settings) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for a path or an output that cannot be used."""
    settings = with_file_window(settings)
    if options.truth:
        from neardup_workers.doing.audit.measuring import check_truth

        others = {"--follow": options.follow, "--window-from": options.window_from is not None}
        others["--against"] = bool(options.against)
        check_truth(options, settings, options.verdicts, "--verdicts", others=others)
    if options.against and options.window_from is not None:
        raise Failure(Exit.USAGE, "--window-from and --against both say what came before: leave one of them out")
    lost: list[str] = []
    archive = None if options.warc_out is None else Archive(options.warc_out, drops=options.warc_drop)
    session = Session(
        settings, options, before=options.against or (), follow=options.follow, every_line=True,
        prints=options.output is None and archive is None, sources=options.sources is not None,
        spill_record=None if archive is None else archive.add_part,
    )  # fmt: skip
    with session, ExitStack() as stack:
        outputs = _Outputs(options, settings, archive, stack)
        share_interpreter()
        matcher, signer = Matcher(settings), Signer(settings)
        decider = Decider(matcher)
        if options.window_from is not None:
            fill(matcher, options.window_from, decider, salvage=options.salvage)
        for signed in session.signed(options.against or (), signer):
            every = np.ones(signed.batch.size, np.bool_)
            decider.decide_columns(every, signed, references=every)
            outputs.against += signed.batch.size
            session.bound_window(matcher.table)

        def decide(chunk: Chunk, signed: Signed) -> _Answer:
            answer = outputs.decide(
                chunk, signed, decider, partial(count_losses, session.losses, matcher, signed.batch)
            )
            session.bound_window(matcher.table)
            return answer

        for chunk, signed, answer in session.answered_chunks(options.paths, signer, decide, follow=options.follow):
            outputs.add(chunk, signed, answer)
            session.report.pairs = outputs.statuses[DUPLICATE] + outputs.statuses[UNCHANGED]
        outputs.clusters.close()
        if not (options.allow_loss or options.loses is None or session.stop.signal):
            lost = outputs.lost()
        if lost and options.loses is not None and (archive, options.output) != (None, None):
            raise loss_failure(options.loses, lost)
    if options.keep is not None and not session.cut:  # it would hold documents that no output has
        keep(options.keep, matcher, decider)
    session.notes.extend(outputs.notes())
    if options.truth:
        from neardup_workers.doing.audit.measuring import add_truth

        add_truth(session, settings, verdicts=options.verdicts)
    ended = session.end(matcher.table.counts(), outputs.found())
    return Exit.REFUSED if lost and ended is Exit.SUCCESS else ended


class _Answer(NamedTuple):
    """The verdicts about a chunk: the entries that have one, the reasons of refused ones by position, which are
    documents (``bool[n]``), the verdicts, the first row that the decisions hold, and the stories that ended."""

    entries: Sequence[Entry]
    reasons: dict[int, str]
    accepted: npt.NDArray[np.bool_]
    decided: Decided
    first_row: int
    ended: npt.NDArray[np.int64]


class _Outputs:
    """The outputs of lines, rows, verdicts, records, clusters and sources. ``statuses`` counts the verdicts."""

    def __init__(self, options: DedupOptions, settings: Settings, archive: Archive | None, stack: ExitStack) -> None:
        def lines(path: str | None, what: str) -> Write | None:
            if path is None:
                return None
            return stack.enter_context(LinesFile(path, what, follow=options.follow)).write

        def rows(path: str | None, option: str, what: str, adds: tuple[str, ...]) -> TableFile | None:
            return stack.enter_context(TableFile(path, option, what, adds)) if path and is_table(path) else None

        kept, removed = "the kept documents", "the removed documents"
        verdicts = columns_of(settings.scheme)
        self._annotate = options.annotate
        self._kept_table = rows(options.output, "--output", kept, verdicts if options.annotate else ())
        self._removed_table = rows(options.removed, "--removed", removed, verdicts)
        printed = STANDARD if archive is None else None
        self._write_kept = (
            None if self._kept_table else lines(printed if options.output is None else options.output, kept)
        )
        self._write_removed = None if self._removed_table else lines(options.removed, removed)
        self._write_verdicts = lines(options.verdicts, "the verdicts")
        self._archive = None if archive is None else stack.enter_context(archive)
        self._kept = Lines(VERDICT_KEY if options.annotate else "")
        self._removed = Lines(VERDICT_KEY)
        self._texts = GivenTexts.of(settings)
        self.clusters = Clusters(lines(options.clusters, "the clusters"), settings.representative)
        self._sources: Sources | None = None
        if options.sources is not None:
            self._sources = stack.enter_context(Sources(options.sources, settings.sources_max))
        self._falls, self._with_source = Falls(), fields_of(settings, sources=True)
        self.statuses: Counter[int] = Counter()
        self.against = 0  # documents that others are compared with, and that are not written
        self._kept_as_new: Counter[str] | None = Counter() if is_novel(settings) else None

    def decide(self, chunk: Chunk, signed: Signed, decider: Decider, lose: Callable[..., None]) -> _Answer:
        """Decide a chunk; ``lose`` gets each slice, and where sources are known the function that names the source of a
        document. It changes nothing of the outputs, which ``add`` writes meanwhile."""
        entries, reasons = judged(chunk, signed)
        accepted = np.ones(len(entries), np.bool_)
        accepted[list(reasons)] = False
        source = None if self._sources is None else source_names(entries, accepted)
        texts = partial(_texts, entries) if self._annotate or self._write_verdicts is not None else None
        decided = decider.decide_columns(accepted, signed, lambda part: lose(part, source), texts)
        ended = decider.decisions.pending(with_records=False).ended
        return _Answer(entries, reasons, accepted, decided, decider.decisions.first, ended)

    def add(self, chunk: Chunk, signed: Signed, answer: _Answer) -> None:
        """Write all that follows from the answer to a chunk."""
        entries, reasons, accepted, decided, first, ended = answer
        for status, count in enumerate(np.bincount(decided.verdicts.statuses, minlength=len(STATUSES)).tolist()):
            self.statuses[status] += count
        names, mentions = partial(late_sources, entries, self._with_source), mentions_in(entries)
        self._falls.add(decided.verdicts, partial(text_of, entries), names, mentions)
        if self._kept_as_new is not None:
            self._kept_as_new.update(kept_as_new(decided.verdicts))
        if isinstance(entries, TableRows):
            self._add_rows(entries, decided)
        else:
            for table in filter(None, (self._kept_table, self._removed_table)):
                table.check(chunk.entries)
        self._add_lines(chunk.entries, entries, reasons, decided)
        if self._sources is not None:
            self._sources.add(entries, accepted, signed, decided)
        self.clusters.add(entries, accepted, decided)
        self.clusters.close(first, ended)

    def found(self) -> dict[str, Any]:
        """Return the counts of a summary, and the largest clusters."""
        return {
            **({"against": self.against} if self.against else {}),
            **counts_of(self.statuses),
            "largest_clusters": self.clusters.largest(),
            **({} if self._kept_as_new is None else {"kept_as_new": dict(self._kept_as_new)}),
            **({} if self._sources is None else {"sources_exceeded": dict(self._sources.ledger.exceeded)}),
        }

    def lost(self) -> list[str]:
        """Return what nearly all documents of the run, and of each source, fall to."""
        return [fall.sentence() for fall in self._falls.found()]

    def notes(self) -> Iterator[str]:
        """Yield what the outputs have to say at the end of a run."""
        yield from (f"WARNING: {sentence}" for sentence in self.lost())
        if self._archive is not None:
            yield self._archive.note()
        named = [f"{cluster['size']:>8,}  {cluster['id']}" for cluster in self.clusters.largest()]
        if named:
            yield "\n".join(["largest clusters:", *named])
        if self._sources is not None:
            yield from self._sources.notes()
        if self._kept_as_new is not None:
            dropped, new = self.statuses[DUPLICATE] + self.statuses[UNCHANGED], self._kept_as_new
            parts = ", ".join(f"{name} {count:,}" for name, count in new.items())
            yield f"dropped {dropped:,}, kept because new {new.total():,} ({parts or 'none'})"

    def _add_rows(self, rows: TableRows, decided: Decided) -> None:
        """Write the rows that go to Parquet files."""
        statuses = decided.verdicts.statuses
        if self._kept_table is not None:
            self._kept_table.add(rows, statuses != REFUSED if self._annotate else IS_KEPT_STATUS[statuses], decided)
        if self._removed_table is not None and not self._annotate:
            self._removed_table.add(rows, np.isin(statuses, _DROPPED), decided)

    def _add_lines(
        self, lines: Sequence[Entry], entries: Sequence[Entry], reasons: dict[int, str], decided: Decided
    ) -> None:
        """Write the lines and the records of a chunk; ``entries`` are those of its ``lines`` that got a verdict."""
        keeps, removes = self._write_kept is not None, self._write_removed is not None and not self._annotate
        if not (keeps or removes or self._archive or self._write_verdicts):
            return  # all goes to files of rows
        shows = self._annotate or self._write_removed is not None
        verdicts: list[bytes] = []
        if self._archive or self._write_verdicts is not None or (shows and self._texts is None):
            verdicts = list(verdict_lines(entries, reasons, decided))
        shown = verdicts
        if shows and self._texts is not None:
            shown = list(verdict_lines(entries, reasons, decided, self._texts))
        statuses = decided.verdicts.statuses.tolist()
        if isinstance(entries, LineRows) and self._archive is None:
            if keeps and not self._annotate:
                self._kept.add_lines(entries.run, IS_KEPT_STATUS[decided.verdicts.statuses])
            at = [n for n, status in enumerate(statuses) if self._annotate or status in _DROPPED] if shows else []
            lines, statuses, shown = entries.lines(at), [statuses[n] for n in at], [shown[n] for n in at]
        n = 0
        for entry in lines:
            if isinstance(entry.found, Reason) and entry.found in PASSED:
                if entry.record is None:
                    self._kept.add(entry)
                elif self._archive is not None:
                    self._archive.add_passed(entry.record)
                continue
            status, n = statuses[n], n + 1
            is_dropped = status in _DROPPED
            if self._archive is not None:
                self._archive.add_entry(entry, verdicts[n - 1] if is_dropped else None)
            if keeps and (status in KEPT or (self._annotate and is_dropped)):
                self._kept.add(entry, annotated(entry, shown[n - 1]) if self._annotate else None)
            elif removes and is_dropped:
                self._removed.add(entry, annotated(entry, shown[n - 1]))
        kept, removed = self._kept.taken(), self._removed.taken()
        if self._write_kept is not None:
            self._write_kept(kept)
        if self._write_removed is not None:
            self._write_removed(removed)
        if self._write_verdicts is not None:
            self._write_verdicts(b"".join([verdict + b"\n" for verdict in verdicts]))


def _texts(entries: Sequence[Entry], at: Sequence[int]) -> list[str]:
    """Return the texts of the documents among entries at some places."""
    found = (entries[n].found for n in at)
    return [document.text for document in found if isinstance(document, Document)]
