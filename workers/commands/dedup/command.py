"""``neardup dedup``: read | sign | match | decide | write, in order, in one pass and bounded memory.

Each line of the input goes to exactly one of three outputs, byte for byte: kept, removed, rejects. Blank lines go to
the kept output. A table has its header in each output. The verdicts of a chunk are written before the next chunk is
matched.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import IO, Any

import numpy as np

from stream.documents import Document
from stream.pipeline import Matcher, Signed, Signer
from stream.verdicts.decider import Decided, Decider
from stream.verdicts.rule import DUPLICATE, ORIGINAL, STATUSES, UNCHANGED
from workers.commands.dedup.clusters import Clusters
from workers.commands.dedup.verdict_lines import VERDICT_KEY, annotated, verdict_lines
from workers.commands.output import Lines, output_file, standard_output, write_pairs
from workers.commands.run import check_follow
from workers.commands.session import Chunk, Session, SessionOptions
from workers.commands.window_file import fill, keep
from workers.process.exits import Exit, Failure
from workers.process.interpreter import share_interpreter
from workers.process.table_compiler import TableCompiler, compile_pairs, compile_verdicts
from workers.settings.files import Settings
from workers.sources.blocks import STDIN
from workers.sources.paths import display
from workers.sources.reader import PASSED, Entry

Write = Callable[[bytes], None]


@dataclass(frozen=True)
class DedupOptions(SessionOptions):
    """The arguments of a deduplication, in addition to its settings."""

    removed: str | None = None
    verdicts: str | None = None
    clusters: str | None = None
    annotate: bool = False
    follow: bool = False
    output: str | None = None
    window_from: str | None = None
    keep: str | None = None


def run(options: DedupOptions, settings: Settings) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for a path or an output that cannot be used."""
    _check_outputs(options)
    with Session(settings, options, sized=not options.follow, every_line=True) as session, ExitStack() as stack:
        check_follow(options.paths, settings, follow=options.follow)
        outputs = _Outputs(options, stack)
        share_interpreter()
        matcher, signer = Matcher(settings), Signer(settings)
        decider = Decider(matcher)
        compiler = stack.enter_context(TableCompiler(session.compiling))
        if options.window_from is not None:
            compiler.wait()
            fill(matcher, options.window_from, decider)
        for chunk, signed in session.signed_chunks(options.paths, signer, follow=options.follow):
            compiler.wait(partial(compile_pairs, settings, signed.batch), partial(compile_verdicts, settings))
            outputs.add(chunk, signed, decider)
            session.report.pairs = outputs.statuses[DUPLICATE] + outputs.statuses[UNCHANGED]
        outputs.clusters.close()
    if options.keep is not None:
        keep(options.keep, matcher, decider)
    found = outputs.found()
    ended = session.end(matcher.table.counts(), found)
    if found["largest_clusters"]:
        named = [f"{cluster['size']:>8,}  {cluster['id']}" for cluster in found["largest_clusters"]]
        session.report.say("\n".join(["largest clusters:", *named]))
    return ended


class _Outputs:
    """The outputs of lines, verdicts and clusters. ``statuses`` counts the verdicts."""

    def __init__(self, options: DedupOptions, stack: ExitStack) -> None:
        def opened(path: str | None, what: str) -> Write | None:
            return None if path is None else _writer(stack.enter_context(output_file(path, what)), f"{what} to {path}")

        kept = "the kept documents"
        self._write_kept = opened(options.output, kept) or _writer(standard_output(kept), f"{kept} to standard output")
        self._write_removed = opened(options.removed, "the removed documents")
        self._write_verdicts = opened(options.verdicts, "the verdicts")
        self._annotate = options.annotate
        self._kept = Lines(VERDICT_KEY if options.annotate else "")
        self._removed = Lines(VERDICT_KEY)
        self.clusters = Clusters(opened(options.clusters, "the clusters"))
        self.statuses: Counter[int] = Counter()

    def add(self, chunk: Chunk, signed: Signed, decider: Decider) -> None:
        """Decide a chunk and write its lines, verdicts and clusters."""
        entries, reasons = _judged(chunk, signed)
        accepted = np.ones(len(entries), np.bool_)
        accepted[list(reasons)] = False
        decided = decider.decide_columns(accepted, signed)
        statuses = decided.verdicts.statuses
        for status, count in enumerate(np.bincount(statuses, minlength=len(STATUSES)).tolist()):
            self.statuses[status] += count
        self._write_lines(chunk.entries, entries, reasons, decided)
        self.clusters.add(decided, accepted, lambda n: _id(entries[n]))
        self.clusters.close(decider.decisions.first)

    def found(self) -> dict[str, Any]:
        """Return the counts of a summary, and the largest clusters."""
        kept, duplicates, unchanged = (self.statuses[status] for status in (ORIGINAL, DUPLICATE, UNCHANGED))
        return {
            "kept": kept,
            "duplicates": duplicates,
            "unchanged": unchanged,
            "duplicate_fraction": round((duplicates + unchanged) / max(1, kept + duplicates + unchanged), 4),
            "largest_clusters": self.clusters.largest(),
        }

    def _write_lines(
        self, lines: Sequence[Entry], entries: Sequence[Entry], reasons: dict[int, str], decided: Decided
    ) -> None:
        statuses = decided.verdicts.statuses.tolist()
        verdicts: list[bytes] = []
        if self._annotate or self._write_verdicts is not None or self._write_removed is not None:
            verdicts = list(verdict_lines(entries, reasons, decided))
        n = 0
        for entry in lines:
            if isinstance(entry.found, str) and entry.found in PASSED:
                self._kept.add(entry)
                continue
            status, n = statuses[n], n + 1
            if status == ORIGINAL:
                self._kept.add(entry, annotated(entry, verdicts[n - 1]) if self._annotate else None)
            elif status in (DUPLICATE, UNCHANGED):
                if self._annotate:
                    self._kept.add(entry, annotated(entry, verdicts[n - 1]))
                elif self._write_removed is not None:
                    self._removed.add(entry, annotated(entry, verdicts[n - 1]))
        self._write_kept(self._kept.taken())
        if self._write_removed is not None:
            self._write_removed(self._removed.taken())
        if self._write_verdicts is not None:
            self._write_verdicts(b"".join(chain.from_iterable((verdict, b"\n") for verdict in verdicts)))


def _judged(chunk: Chunk, signed: Signed) -> tuple[Sequence[Entry], dict[int, str]]:
    """Return the entries of a chunk that get a verdict, and the reasons of refused ones, by their index."""
    if len(chunk.documents) == len(chunk.entries):
        return chunk.entries, {place: reason for place, _, reason in signed.refusals}
    refused = {place: reason for place, _, reason in signed.refusals}
    entries: list[Entry] = []
    reasons: dict[int, str] = {}
    place = 0
    for entry in chunk.entries:
        if isinstance(entry.found, Document):
            if place in refused:
                reasons[len(entries)] = refused[place]
            place += 1
        elif entry.found in PASSED:
            continue
        else:
            reasons[len(entries)] = entry.found
        entries.append(entry)
    return entries, reasons


def _id(entry: Entry) -> str:
    return entry.found.id if isinstance(entry.found, Document) else ""


def _writer(file: IO[bytes], what: str) -> Write:
    def write(data: bytes) -> None:
        write_pairs(file, data, what)

    return write


def _check_outputs(options: DedupOptions) -> None:
    """Raise ``Failure`` if an output is also an input, or two outputs are the same file: writing would destroy data."""
    named = {name: getattr(options, name) for name in ("output", "removed", "verdicts", "clusters", "rejects", "keep")}
    seen: dict[str, str] = {os.path.realpath(path): "an input" for path in options.paths if path != STDIN}
    for name, path in named.items():
        if path is None:
            continue
        option = f"--{name}"
        real = os.path.realpath(path)
        if real in seen and not os.path.isdir(real) and real != os.devnull:
            raise Failure(Exit.USAGE, f"{option} {display(path)} is also {seen[real]}: name another file")
        seen[real] = option
