"""The reading session that ``run``, ``probe``, ``batch``, ``load``, ``learn-order`` and ``tune --sample`` share.

A session checks the paths, takes over the signals, opens the file of rejects and starts the report. It then returns the
input as entries, as chunks of documents, or as signed batches in order. It counts and reports refusals, and writes them
to the file of rejects. It ends with the summary and the exit code.

A first signal ends the reading, and the input read so far is answered. A second signal ends the session at once, with
its summary. Compiled code releases the interpreter's lock, so signing runs on separate threads, and what is asked of
signed chunks on one more; about ``2 x sign_threads`` chunks are in progress.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from neardup.documents.chunks import CHUNK_CHARACTERS, CHUNK_DOCUMENTS
from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.batches import Batch
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.signing import Signed, Signer
from neardup.pairs.values import without_future
from neardup.schemes.rows import SCHEMES
from neardup.window.band_table import BandTable
from neardup.window.window import bound
from neardup_workers.doing.session.checks import check_follow, check_origin
from neardup_workers.doing.session.in_order import in_order
from neardup_workers.doing.session.report import Rejects, Report, sentence_of, sentences, summary_of, with_bound
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.outputs.output import check_later, check_outputs, write_summary
from neardup_workers.outside.outputs.table_file import reject_table
from neardup_workers.outside.process.compiling import Compiling
from neardup_workers.outside.process.exits import EXIT_OF_SIGNAL, Exit, Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.compression import over_file
from neardup_workers.outside.readers.entries import LEFT_OUT, PASSED, Entry, Rows, TableRows
from neardup_workers.outside.readers.lines import Line
from neardup_workers.outside.readers.paths import check_paths, total_bytes
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import WINDOW_MOST, Settings, fields_of

Answer = TypeVar("Answer")


class Chunk(NamedTuple):
    """Consecutive entries, and the documents among them; rows whose documents are columns are a chunk of their own."""

    entries: Sequence[Entry]
    documents: Sequence[Document]


def judged(chunk: Chunk, signed: Signed) -> tuple[Sequence[Entry], dict[int, str]]:
    """Return the entries of a chunk that get a verdict, and the reasons of refused ones, by their index."""
    if isinstance(chunk.entries, Rows):
        return chunk.entries, chunk.entries.refused({position: reason for position, _, reason in signed.refusals})
    if len(chunk.documents) == len(chunk.entries):
        return chunk.entries, {position: reason for position, _, reason in signed.refusals}
    refused = {position: reason for position, _, reason in signed.refusals}
    entries: list[Entry] = []
    reasons: dict[int, str] = {}
    position = 0
    for entry in chunk.entries:
        if isinstance(entry.found, Document):
            if position in refused:
                reasons[len(entries)] = refused[position]
            position += 1
        elif entry.found in PASSED:
            continue
        else:
            reasons[len(entries)] = entry.found
        entries.append(entry)
    return entries, reasons


class Ahead(NamedTuple):
    """Chunks that were read ahead, and the iterator of the remaining chunks."""

    paths: Sequence[str]
    seen: list[Chunk | None]
    rest: Iterator[Chunk | None]


class Session:
    """One reading of paths, as a context manager. Raises ``Failure`` for a path or an output that cannot be used.

    ``before``: paths that are read before ``options.paths``. ``follow``: the input has no end, so a bar shows no part
    of it, and the rejects are written in place. ``prints``: results go to standard output, where a bar on the same
    terminal would be in their way. ``every_line``: blank lines and headers of tables are entries too. ``spill_record``:
    records of archives are entries too, and this function gets the parts of records that are too long. ``sources``:
    documents have source, URL and title. ``title`` names one of several readings, whose progress is shown although the
    session is quiet. Entering installs the handlers of ``stop``.
    """

    def __init__(
        self,
        settings: Settings,
        options: SessionOptions,
        *,
        before: Sequence[str] = (),
        follow: bool = False,
        prints: bool = True,
        every_line: bool = False,
        spill_record: Callable[[Line], object] | None = None,
        sources: bool = False,
        stop: Stop | None = None,
        title: str = "",
    ) -> None:
        paths = [*before, *options.paths]
        check_paths(paths)
        check_origin(settings)
        check_follow(options.paths, settings, follow=follow)
        check_outputs(paths, options.outputs, prints=prints)
        check_later(options.outputs.get("keep"), "the window")
        check_later(options.summary_json, "the summary")
        self.settings = settings
        self.options = options
        self._files = ExitStack()
        table = reject_table(options.rejects)
        self._reject_table = None if table is None else self._files.enter_context(table)
        self.rejects = self._files.enter_context(Rejects(options.rejects if table is None else None, follow=follow))
        self.stop = stop or Stop(lambda line: self.report.say(line, always=True))
        self._reader_left = self.cut = False  # cut: a signal ended the work, so some answers are not written
        self._ahead: Ahead | None = None
        self._bands = np.zeros(settings.tuning.bands + 1, np.int64)  # documents by number of bands with a key
        self.notes: list[str] = []  # sentences for the end of the summary
        if short := getattr(settings.plan, "short_templates", 0):
            self.notes.append(f"note: texts of parts:templates with fewer than 6 words count for nothing: {short:,}")
        self.losses = LossAccounts()  # what limits cost
        self.measured: dict[str, Any] = {}  # what the summary has besides counts
        on_screen = prints and sys.stdout is not None and sys.stdout.isatty()
        bar = sys.stderr.isatty() and (bool(title) or not (options.quiet or on_screen))
        total = total_bytes(paths) if (bar or title) and not follow else None
        self.report = Report(quiet=options.quiet, total=total, bar=bar, title=title)
        self.compiling = Compiling(self.report.say)
        self._spill_record = spill_record
        self.reader = EntryReader(
            settings, fields_of(settings, sources=sources), self.stop, self._spill, every_line=every_line,
            records=spill_record is not None,
        )  # fmt: skip

    def __enter__(self) -> Session:
        self.stop.install()
        self.compiling.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        self.compiling.__exit__()
        self.reader.close()
        self.report.end_bar()
        self._files.__exit__(kind, error, trace)
        self.stop.release()
        self._reader_left = isinstance(error, BrokenPipeError)
        self.cut = isinstance(error, KeyboardInterrupt) and bool(self.stop.signal)
        return self._reader_left or self.cut

    @property
    def ended(self) -> Exit:
        """The exit code of the session: a signal, no usable input, or success."""
        if not self.stop.signal and self.report.refused and not self.report.documents:
            return Exit.UNUSABLE
        return EXIT_OF_SIGNAL[self.stop.signal]

    def entries(self, paths: Sequence[str]) -> Iterator[Entry | None]:
        """Yield the entries of paths in order; ``None`` while no input is available."""
        return self.reader.read(paths)

    def documents(self, paths: Sequence[str]) -> Iterator[Document]:
        """Yield the documents of paths in order; what is refused is left out."""
        return (one.found for one in self.entries(paths) if one is not None and isinstance(one.found, Document))

    def _spill(self, line: Line) -> None:
        """Receive a part of a line that is too long to hold, or of a record of an archive, which is no reject."""
        if line.record is None:
            self.rejects.spill(line)
        elif self._spill_record is not None:
            self._spill_record(line)

    def chunks(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Chunk | None]:
        """Yield the entries in chunks of the size that the library signs; ``None`` ends a chunk early.

        Chunks that ``look_ahead`` has read of the same paths are returned again.
        """
        if self._ahead is None or self._ahead.paths != paths:
            return chunked(self.reader.parts(paths, follow=follow))
        ahead, self._ahead = self._ahead, None
        return chain(ahead.seen, ahead.rest)

    def look_ahead(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Chunk | None]:
        """Yield the first chunks of paths, as far as the caller reads them; ``chunks`` then returns all chunks."""
        ahead = self._ahead = Ahead(paths, [], chunked(self.reader.parts(paths, follow=follow)))
        for chunk in ahead.rest:
            ahead.seen.append(chunk)
            yield chunk

    def signed(self, paths: Sequence[str], signer: Signer) -> Iterator[Signed]:
        """Yield the signed documents of paths, in order; refusals are counted, reported and written to the rejects."""
        return (signed for _, signed in self.signed_chunks(paths, signer))

    def signed_chunks(
        self, paths: Sequence[str], signer: Signer, *, follow: bool = False
    ) -> Iterator[tuple[Chunk, Signed]]:
        """Yield the same, with the chunks that hold the documents."""
        answered = self.answered_chunks(paths, signer, lambda _, signed: signed, follow=follow)
        return ((chunk, signed) for chunk, signed, _ in answered)

    def answered_chunks(
        self, paths: Sequence[str], signer: Signer, answer: Callable[[Chunk, Signed], Answer], *, follow: bool = False
    ) -> Iterator[tuple[Chunk, Signed, Answer]]:
        """Yield the same, with what ``answer`` returns of each chunk, in order; it has a thread of its own, so that the
        answer to a chunk is made while others are read, signed and written. What needs no state is done with signing.
        """

        def sign(chunk: Chunk) -> tuple[Signed, list[tuple[str, str]]]:
            ahead: list[tuple[str, str]] = []
            signed = signer.sign(chunk.documents)
            batch = without_future(signed.batch, time.time(), lambda *unread: ahead.append(unread))
            return signed._replace(batch=batch).with_rows(signer.config), ahead

        def answered(
            chunk: Chunk, made: Future[tuple[Signed, list[tuple[str, str]]]]
        ) -> tuple[Signed, list[tuple[str, str]], Answer]:
            signed, ahead = made.result()
            return signed, ahead, answer(chunk, signed)

        chunks = self.chunks(paths, follow=follow)
        for chunk, (signed, ahead, found) in in_order(chunks, sign, self.settings.sign_threads, answered):
            for unread in ahead:
                self.reader.unread(*unread)
            self.refuse(chunk, {position: reason for position, _, reason in signed.refusals})
            self.report.documents += signed.batch.size
            self._count_bands(signed.batch)
            yield chunk, signed, found
            self.report.advance(self.reader.bytes_read)

    def unsigned_chunks(self, paths: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of paths that have an end, without a signature."""
        for chunk in self.chunks(paths):
            if chunk is not None:
                yield chunk
                self.report.documents += len(chunk.documents)
                self.report.advance(self.reader.bytes_read)

    def _count_bands(self, batch: Batch) -> None:
        """Count documents by the number of bands that have a key, if the scheme omits bands of small documents."""
        scheme, plan = SCHEMES[self.settings.scheme], self.settings.plan
        if scheme.partial:
            from neardup.schemes.shortfall import documents_by_bands

            self._bands += documents_by_bands(scheme.keys(batch.evidence, plan), plan.tuning.bands)

    def _warn_of_small_documents(self) -> None:
        """Warn if the recall is less than promised, because documents are too small for the scheme."""
        if not self._bands.any():
            return
        from neardup.schemes.shortfall import shortfall

        settings = self.settings
        if warning := shortfall(settings.scheme, settings.tuning, settings.recall_promised, self._bands):
            self.report.say(f"warning: {warning}")

    def refuse(self, chunk: Chunk, reasons: Mapping[int, str]) -> None:
        """Report the refused entries of a chunk and write them to the rejects, in the order of the input.

        ``reasons``: reasons of refused documents of the chunk, by their index among its documents.
        """
        if isinstance(chunk.entries, Rows):
            rows, refused = chunk.entries, chunk.entries.refused(reasons)
            if self._reject_table is not None and isinstance(rows, TableRows):
                self._reject_table.add_refused(rows, refused)
                for position, why in refused.items():
                    self._refuse(rows[position], why, written=True)
            else:
                for position, why in refused.items():
                    self.refuse_entry(rows[position], why)
            self.rejects.flush()
            return
        if not reasons and len(chunk.documents) == len(chunk.entries):
            return
        position = 0
        for entry in chunk.entries:
            if isinstance(entry.found, Reason):
                reason: str | None = None if entry.found in PASSED else entry.found
            else:
                reason = reasons.get(position)
                position += 1
            if reason is not None:
                self.refuse_entry(entry, reason)
        self.rejects.flush()

    def refuse_entry(self, entry: Entry, reason: str) -> None:
        """Report one refused entry and write it to the rejects. Raises ``Failure`` if the settings are ``strict``."""
        if self._reject_table is not None and entry.raw is not None:
            self._reject_table.refuse(entry.source)
        self._refuse(entry, reason, written=False)

    def _refuse(self, entry: Entry, reason: str, *, written: bool) -> None:
        entry = with_bound(entry, reason, self.settings)
        self.report.refuse(entry, reason)
        if not written:
            self.rejects.write(entry, reason)
        if self.settings.strict and reason not in LEFT_OUT:
            raise Failure(Exit.REFUSED, f"{sentence_of(entry, reason)}; --strict ends at the first refusal")

    def end(self, counts: Mapping[str, int], found: Mapping[str, Any] | None = None) -> Exit:
        """Write the summary, with these counters of the table and other results than pairs; returns the exit code.

        If the reader of standard output has closed the pipe, there is no summary, and the exit code is success.
        """
        if self._reader_left:
            return Exit.SUCCESS
        ended = self.ended
        if counts["evicted"] and self.settings.strict and ended is Exit.SUCCESS:
            ended = Exit.REFUSED
        summary: dict[str, Any] = self.report.summary(
            self.reader.bytes_read, self.reader.blank_lines, counts, ended.name.lower(), self.compiling.seconds,
            found,
        )  # fmt: skip
        summary |= self.measured
        if unread := sum(self.reader.unread.counts.values()):
            summary["times_unread"] = unread
        if self.reader.ids_changed is not None:
            summary["ids_changed"] = self.reader.ids_changed
        summary |= summary_of(counts, self.losses)
        self.report.print_summary(summary)
        self._warn_of_small_documents()
        if files := self.reader.meant_as.get("json"):
            self.report.say(
                f"note: files that begin like JSON were read as one text each: {len(files):,}, such as {files[0]}; "
                "--input-format says how to read them"
            )
        if summary["documents"] == 1 and (files := self.reader.meant_as.get("lines")):
            made = over_file("jq -cR '{text: .}'", files[0], shlex.quote(files[0]))
            self.report.say(f"note: {files[0]} is one text; {made} makes a document of each line")
        if replaced := self.reader.replaced_characters:
            self.report.say(f"note: {replaced:,} characters of pages could not be read in their charset and are U+FFFD")
        for note, count in self.reader.notes.items():
            self.report.say(f"note: {note}".replace("{}", f"{count:,}"))
        for note in (*(f"note: {times}" for times in self.reader.unread.notes()), *self.notes):
            self.report.say(note)
        probe = self.settings.probe_limit
        named = f"bucket_candidates_max ({self.settings.bucket_candidates_max:,})"
        if counts["truncated"] and probe is not None:
            named += f" or probe_candidates_max ({probe:,})"
        for sentence in sentences(counts, named, self.losses):
            self.report.say(sentence)
        if counts["evicted"]:
            values = {name: getattr(self.settings, name) for name in WINDOW_MOST}
            limits = [f"{name} ({value:,})" for name, value in values.items() if value not in (None, WINDOW_MOST[name])]
            self.report.say(
                f"WARNING: duplicates may be missing: the first {counts['evicted']:,} documents left the window before "
                "the end of the input, and no later document was compared with them. Raise what is too small of "
                f"{' and '.join(limits)}; --strict fails in this case"
            )
        write_summary(self.options.summary_json, summary)
        return ended

    def bound_window(self, table: BandTable) -> None:
        """Keep a table within ``window_bytes_max``, if the settings have it; call it after each chunk."""
        if self.settings.window_bytes_max is not None:
            bound(table, self.settings.window_bytes_max, self.settings.window_documents)


def chunked(parts: Iterable[Entry | Rows | None]) -> Iterator[Chunk | None]:
    """Yield entries in chunks of the size that the library signs; ``None`` ends a chunk early and is passed on."""
    entries: list[Entry] = []
    documents: list[Document] = []
    characters = 0
    for part in parts:
        if isinstance(part, Entry):
            entries.append(part)
            if isinstance(part.found, Document):
                documents.append(part.found)
                characters += len(part.found.text)
            characters += len(part.record or b"")
            if characters < CHUNK_CHARACTERS and len(entries) < CHUNK_DOCUMENTS:
                continue
        if entries:
            yield Chunk(entries, documents)
            entries, documents, characters = [], [], 0
        if part is None:
            yield None
        elif not isinstance(part, Entry):
            yield Chunk(part, part.documents)
    if entries:
        yield Chunk(entries, documents)
