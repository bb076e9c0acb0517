"""``neardup dedup``: read | sign | match | decide | write, in order, in one pass and bounded memory.

Each line of the input goes to exactly one of three outputs, byte for byte: kept, removed, rejects. Blank lines go to
the kept output. A table has its header in each output. The verdicts of a chunk are written before the next chunk is
matched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.pairs.pipeline import Matcher, Signed, Signer
from neardup.stories.sources.losses import count_losses
from neardup.stories.verdicts.decider import Decided, Decider
from neardup.stories.verdicts.representatives import FIRST, ranks_of
from neardup.stories.verdicts.rule import DUPLICATE, KEPT, REFUSED, STATUSES, UNCHANGED, decide
from neardup_workers.doing.audit.measuring import add_truth, check_truth
from neardup_workers.doing.session.session import Chunk, Session, judged
from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.outputs.clusters import Clusters
from neardup_workers.outside.outputs.lines_file import LinesFile, is_table
from neardup_workers.outside.outputs.output import STANDARD, Lines
from neardup_workers.outside.outputs.sources import Sources, sources_of
from neardup_workers.outside.outputs.table_file import TableFile, columns_of, verdict_columns
from neardup_workers.outside.outputs.verdict_lines import VERDICT_KEY, annotated, counts_of, verdict_lines
from neardup_workers.outside.outputs.window_file import fill, keep
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.interpreter import share_interpreter
from neardup_workers.outside.process.table_compiler import TableCompiler, compile_pairs, compile_verdicts
from neardup_workers.outside.readers.entries import PASSED, Entry, LineRows, Rows, TableRows
from neardup_workers.outside.settings.files import Settings, with_file_window
from neardup_workers.running.commands.dedup.archive import Archive

Write = Callable[[bytes], None]


def run(options: DedupOptions, settings: Settings) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for a path or an output that cannot be used."""
    settings = with_file_window(settings)
    if options.truth:
        others = {"--follow": options.follow, "--window-from": options.window_from is not None}
        check_truth(options, settings, options.verdicts, "--verdicts", others=others)
    archive = None if options.warc_out is None else Archive(options.warc_out, drops=options.warc_drop)
    spill_record = None if archive is None else archive.add_part
    with (
        Session(
            settings,
            options,
            follow=options.follow,
            prints=options.output is None and archive is None,
            every_line=True,
            spill_record=spill_record,
            sources=options.sources is not None,
        ) as session,
        ExitStack() as stack,
    ):
        outputs = _Outputs(options, settings, archive, stack)
        share_interpreter()
        matcher, signer = Matcher(settings), Signer(settings)
        decider = Decider(matcher)
        compiler = stack.enter_context(TableCompiler(session.compiling, decide))
        if options.window_from is not None:
            compiler.wait()
            fill(matcher, options.window_from, decider, salvage=options.salvage)
        for chunk, signed in session.signed_chunks(options.paths, signer, follow=options.follow):
            compiler.wait(partial(compile_pairs, settings, signed.batch), partial(compile_verdicts, settings))
            outputs.add(chunk, signed, decider, partial(count_losses, session.losses, matcher, signed.batch))
            session.bound_window(matcher.table)
            session.report.pairs = outputs.statuses[DUPLICATE] + outputs.statuses[UNCHANGED]
        outputs.clusters.close()
    if options.keep is not None:
        keep(options.keep, matcher, decider)
    if archive is not None:
        near = "left out" if options.warc_drop else "with their verdicts"
        session.notes.append(
            f"archive: {archive.revisits:,} copies as revisits, {archive.near:,} near-duplicates {near}"
        )
    values = outputs.found()
    if values["largest_clusters"]:
        named = [f"{cluster['size']:>8,}  {cluster['id']}" for cluster in values["largest_clusters"]]
        session.notes.append("\n".join(["largest clusters:", *named]))
    session.notes.extend(outputs.notes())
    if options.truth:
        add_truth(session, settings, verdicts=options.verdicts)
    return session.end(matcher.table.counts(), values)


class _Outputs:
    """The outputs of lines, verdicts and clusters. ``statuses`` counts the verdicts."""

    def __init__(self, options: DedupOptions, settings: Settings, archive: Archive | None, stack: ExitStack) -> None:
        def opened(path: str | None, what: str) -> Write | None:
            if path is None:
                return None
            return stack.enter_context(LinesFile(path, what, follow=options.follow)).write

        def table(path: str | None, option: str, what: str, adds: tuple[str, ...]) -> TableFile | None:
            if path is None or not is_table(path):
                return None
            return stack.enter_context(TableFile(path, option, what, adds))

        kept = "the kept documents"
        self._scheme = settings.scheme
        verdicts = columns_of(self._scheme)
        adds = verdicts if options.annotate else ()
        self._kept_table = table(options.output, "--output", kept, adds)
        self._removed_table = table(options.removed, "--removed", "the removed documents", verdicts)
        printed = STANDARD if archive is None else None
        self._write_kept = (
            None if self._kept_table else opened(printed if options.output is None else options.output, kept)
        )
        self._archive = None if archive is None else stack.enter_context(archive)
        self._write_removed = None if self._removed_table else opened(options.removed, "the removed documents")
        self._write_verdicts = opened(options.verdicts, "the verdicts")
        self._annotate = options.annotate
        self._kept = Lines(VERDICT_KEY if options.annotate else "")
        self._removed = Lines(VERDICT_KEY)
        self._representative = settings.representative if options.clusters is not None else FIRST
        self.clusters = Clusters(opened(options.clusters, "the clusters"))
        self._sources: Sources | None = None
        if options.sources is not None:
            self._sources = stack.enter_context(Sources(options.sources, settings.sources_max))
        self._texts = GivenTexts.of(settings)
        self.statuses: Counter[int] = Counter()

    def add(self, chunk: Chunk, signed: Signed, decider: Decider, lose: Callable[..., None]) -> None:
        """Decide a chunk and write its lines, verdicts and clusters; ``lose`` gets each slice, and where sources are
        known the function that names the source of a document."""
        entries, reasons = judged(chunk, signed)
        accepted = np.ones(len(entries), np.bool_)
        accepted[list(reasons)] = False
        source = None if self._sources is None else _source_of(entries, accepted)
        texts = partial(_texts, entries) if self._annotate or self._write_verdicts is not None else None
        decided = decider.decide_columns(accepted, signed, lambda part: lose(part, source), texts)
        statuses = decided.verdicts.statuses
        for status, count in enumerate(np.bincount(statuses, minlength=len(STATUSES)).tolist()):
            self.statuses[status] += count
        if isinstance(entries, TableRows):
            self._write_rows(entries, decided)
        self._write_lines(chunk.entries, entries, reasons, decided)
        if self._sources is not None:
            self._sources.add(entries, accepted, signed, decided)
        ranks = None
        if self._representative != FIRST:
            given = [entry.found for entry, is_accepted in zip(entries, accepted.tolist(), strict=True) if is_accepted]
            ranks = ranks_of([one for one in given if isinstance(one, Document)], self._representative)
        self.clusters.add(decided, accepted, _ids(entries), partial(_collection, entries), ranks)
        self.clusters.close(decider.decisions)

    def found(self) -> dict[str, Any]:
        """Return the counts of a summary, and the largest clusters."""
        return {
            **counts_of(self.statuses),
            "largest_clusters": self.clusters.largest(),
            **({} if self._sources is None else {"sources_exceeded": dict(self._sources.ledger.exceeded)}),
        }

    def notes(self) -> list[str]:
        """Return what the ledger of sources has to say, if sources are counted."""
        return [] if self._sources is None else self._sources.notes()

    def _write_rows(self, rows: TableRows, decided: Decided) -> None:
        """Write the rows that go to Parquet files."""
        statuses = decided.verdicts.statuses
        columns = (
            verdict_columns(rows, decided, self._scheme) if self._annotate or self._removed_table is not None else {}
        )
        if self._kept_table is not None:
            chosen = statuses != REFUSED if self._annotate else np.isin(statuses, KEPT)
            self._kept_table.add(rows, chosen, columns if self._annotate else None)
        if self._removed_table is not None and not self._annotate:
            self._removed_table.add(rows, (statuses == DUPLICATE) | (statuses == UNCHANGED), columns)

    def _write_lines(
        self, lines: Sequence[Entry], entries: Sequence[Entry], reasons: dict[int, str], decided: Decided
    ) -> None:
        in_table, writes_kept = isinstance(entries, TableRows), self._kept_table is None
        if not in_table:
            self._check_no_table(lines)
        elif not (writes_kept or self._archive or self._write_removed or self._write_verdicts):
            return
        verdicts: list[bytes] = []
        shows = self._annotate or self._write_removed is not None
        if self._archive or self._write_verdicts is not None or (shows and self._texts is None):
            verdicts = list(verdict_lines(entries, reasons, decided))
        elif not shows and isinstance(entries, LineRows):
            self._kept.add_lines(entries.raws, np.isin(decided.verdicts.statuses, KEPT))
            lines = ()
        shown = verdicts
        if shows and self._texts is not None:
            shown = list(verdict_lines(entries, reasons, decided, self._texts))
        statuses = decided.verdicts.statuses.tolist()
        n = 0
        for entry in lines:
            if isinstance(entry.found, Reason) and entry.found in PASSED:
                if entry.record is None:
                    self._kept.add(entry)
                elif self._archive is not None:
                    self._archive.add_passed(entry.record)
                continue
            status, n = statuses[n], n + 1
            if self._archive is not None:
                _archive(self._archive, entry, verdicts[n - 1] if status in (DUPLICATE, UNCHANGED) else None)
            if writes_kept and (status in KEPT or (self._annotate and status in (DUPLICATE, UNCHANGED))):
                self._kept.add(entry, annotated(entry, shown[n - 1]) if self._annotate else None)
            elif status in (DUPLICATE, UNCHANGED) and self._write_removed is not None and not self._annotate:
                self._removed.add(entry, annotated(entry, shown[n - 1]))
        kept = self._kept.taken()
        if self._write_kept is not None:
            self._write_kept(kept)
        if self._write_removed is not None:
            self._write_removed(self._removed.taken())
        if self._write_verdicts is not None:
            self._write_verdicts(b"".join(chain.from_iterable((verdict, b"\n") for verdict in verdicts)))

    def _check_no_table(self, lines: Sequence[Entry]) -> None:
        """Raise ``Failure`` if a Parquet file is to receive an entry that is no row of a table."""
        for table in (self._kept_table, self._removed_table):
            if table is not None:
                table.check(lines)


def _archive(archive: Archive, entry: Entry, verdict: bytes | None) -> None:
    """Write the record of an entry. Raises ``Failure`` for a document that comes from no archive."""
    if entry.record is not None:
        archive.add(entry.record, verdict)
    elif isinstance(entry.found, Document):
        raise Failure(
            Exit.USAGE,
            f"--warc-out writes records, and {entry.source} is no WARC archive: name archives only, or use --output",
        )


def _source_of(entries: Sequence[Entry], accepted: npt.NDArray[np.bool_]) -> Callable[[int], str]:
    """Return the function that names the source of a document by its position among those that are ``accepted``."""
    rows = np.flatnonzero(accepted)
    sources = cache(lambda: sources_of(entries))  # most chunks need none
    return lambda item: sources()[rows[item]]


def _texts(entries: Sequence[Entry], at: Sequence[int]) -> list[str]:
    """Return the texts of the documents among entries at some places."""
    found = (entries[n].found for n in at)
    return [document.text for document in found if isinstance(document, Document)]


def _ids(entries: Sequence[Entry]) -> Callable[[int], str]:
    """Return the function that gives the id of an entry by its index."""
    if isinstance(entries, Rows):
        return entries.id

    def id_of(n: int) -> str:
        document = entries[n].found
        return document.id if isinstance(document, Document) else ""

    return id_of


def _collection(entries: Sequence[Entry], n: int) -> str | None:
    """Return the collection of an entry."""
    if isinstance(entries, Rows):
        return entries.collection(n)
    document = entries[n].found
    return document.collection if isinstance(document, Document) else None
