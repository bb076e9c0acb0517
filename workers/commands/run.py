"""The one path of a run: read and decode | sign | match | write, in order and in bounded memory.

The thread that reads also matches and writes; signing, which costs most and gives up the interpreter's lock, runs
beside it. At most ``2 x sign_threads`` chunks are under way. When there is nothing more to read right now, all that
is under way is finished first: a pair is out as soon as it is known, however slowly its documents come. A chunk
is matched in slices, and the pairs of a slice are written before the next slice: memory does not grow with the pairs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from stream.documents import Document
from stream.json_lines import encode_matches
from stream.pipeline import CHUNK_CHARACTERS, CHUNK_DOCUMENTS, Matcher, Signed, Signer, match_steps
from workers.commands.report import Rejects, Report
from workers.commands.window_file import fill
from workers.process.exits import Exit, Failure, output_failure
from workers.process.stop import Stop
from workers.settings.files import Settings, fields_of
from workers.sources.compression import COMPRESSED_ENDINGS
from workers.sources.paths import (
    Entry,
    Reader,
    check_paths,
    display,
    holds_lines,
    total_bytes,
)

# Seconds until a thread that decodes gives way to one that comes back from a kernel. The interpreter's 5 ms are longer
# than it takes to sign a chunk.
_SWITCH_SECONDS = 1e-4
# How a run ended, by the signal that ended it.
ENDED: dict[int, Exit] = {0: Exit.SUCCESS, signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@dataclass(frozen=True)
class Job:
    """What a run is asked for beside its settings."""

    paths: Sequence[str]
    index: Sequence[str] = ()
    probe: bool = False
    candidates: bool = False
    follow: bool = False
    quiet: bool = False
    rejects: str | None = None
    summary_json: str | None = None
    window_from: str | None = None


class Chunk(NamedTuple):
    """Consecutive entries, and the documents among them."""

    entries: list[Entry]
    documents: list[Document]


def run(job: Job, settings: Settings) -> Exit:
    """Do a job; returns how it ended. Raises ``Failure`` for a path or an output that cannot be used."""
    check_paths([*job.index, *job.paths])
    _check_follow(job, settings)
    output = standard_output()
    rejects = Rejects(job.rejects)
    stop = Stop()
    stop.install()
    sys.setswitchinterval(_SWITCH_SECONDS)
    bar = sys.stderr.isatty() and not job.quiet and not sys.stdout.isatty()
    total = total_bytes([*job.index, *job.paths], hidden=settings.hidden) if bar and not job.follow else None
    report = Report(quiet=job.quiet, walk_reports_max=settings.walk_reports_max, total=total, bar=bar)
    reader = Reader(settings, fields_of(settings), stop, rejects.spill)
    matcher = Matcher(settings, candidates=job.candidates)
    session = _Session(settings, reader, matcher, output, rejects, report)
    if job.window_from is not None:
        fill(matcher, job.window_from)
    try:
        if job.probe:
            session.process(job.index, pairs=False)
        session.process(job.paths, add=not job.probe, follow=job.follow)
        ended = ENDED[stop.signal]
    except KeyboardInterrupt:  # the second signal: at once
        ended = ENDED[stop.signal]
    except BrokenPipeError:
        report.end_bar()
        return closed_pipe()
    finally:
        report.end_bar()
        rejects.close()
    summary = report.summary(reader.bytes, reader.blank_lines, matcher.table.counts(), ended.name.lower())
    report.tell(summary)
    write_summary(job.summary_json, summary)
    return ended


class _Session:
    """The parts of a run, and the loop over them."""

    def __init__(
        self, settings: Settings, reader: Reader, matcher: Matcher, output: IO[bytes], rejects: Rejects, report: Report
    ) -> None:
        self.settings = settings
        self.reader = reader
        self.matcher = matcher
        self.output = output
        self.rejects = rejects
        self.report = report

    def process(self, paths: Sequence[str], *, add: bool = True, pairs: bool = True, follow: bool = False) -> None:
        """Read paths to their end; add their documents (``add``) and write the pairs they make (``pairs``)."""
        chunks = chunked(self.reader.read(paths, follow=follow))
        for chunk, signed in signed_in_order(chunks, Signer(self.settings), self.settings.sign_threads):
            refuse(chunk, signed, self.report, self.rejects)
            self.report.documents += signed.batch.size
            for matches in match_steps(self.matcher, signed.batch, add=add):
                if pairs and matches.older:
                    self.report.pairs += len(matches.older)
                    write_pairs(self.output, encode_matches(matches))
            self.report.advance(self.reader.bytes)


def refuse(chunk: Chunk, signed: Signed, report: Report, rejects: Rejects) -> None:
    """Report and keep what was refused, in the order of the input."""
    if not signed.refusals and len(chunk.documents) == len(chunk.entries):
        return
    reasons = {at: reason for at, _, reason in signed.refusals}
    place = 0
    for entry in chunk.entries:
        if isinstance(entry.found, str):
            reason: str | None = entry.found
        else:
            reason = reasons.get(place)
            place += 1
        if reason is not None:
            report.refuse(entry, reason)
            rejects.write(entry, reason)
    rejects.flush()


def write_pairs(output: IO[bytes], data: bytes) -> None:
    """Write lines of pairs at once; raises ``Failure`` when the output takes no more."""
    try:
        output.write(data)
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon_output()
        raise output_failure("the pairs to standard output", error) from None


def chunked(entries: Iterable[Entry | None]) -> Iterator[Chunk | None]:
    """Entries in chunks as the library takes them, cut short by ``None``, which is passed on."""
    chunk, characters = Chunk([], []), 0
    for entry in entries:
        if entry is not None:
            chunk.entries.append(entry)
            if isinstance(entry.found, Document):
                chunk.documents.append(entry.found)
                characters += len(entry.found.text)
            if characters < CHUNK_CHARACTERS and len(chunk.entries) < CHUNK_DOCUMENTS:
                continue
        if chunk.entries:
            yield chunk
            chunk, characters = Chunk([], []), 0
        if entry is None:
            yield None
    if chunk.entries:
        yield chunk


def signed_in_order(chunks: Iterable[Chunk | None], signer: Signer, threads: int) -> Iterator[tuple[Chunk, Signed]]:
    """Chunks with what a signer makes of them, in order; at ``None`` all that are under way."""
    pending: deque[tuple[Chunk, Future[Signed]]] = deque()
    with ThreadPoolExecutor(threads, "signer") as pool:
        for chunk in chunks:
            if chunk is not None:
                pending.append((chunk, pool.submit(signer.sign, chunk.documents)))
            while pending and (chunk is None or len(pending) >= 2 * threads or pending[0][1].done()):
                first, signed = pending.popleft()
                yield first, signed.result()
        for first, signed in pending:
            yield first, signed.result()


def closed_pipe() -> Exit:
    """The end of a run whose reader has gone: quiet, and a success."""
    _abandon_output()
    return Exit.SUCCESS


def _check_follow(job: Job, settings: Settings) -> None:
    if not job.follow:
        return
    last = job.paths[-1]
    is_lines = os.path.isfile(last) and holds_lines(last, settings.input_format)
    if not is_lines or last.lower().endswith(COMPRESSED_ENDINGS):
        raise Failure(
            Exit.USAGE,
            f"--follow goes on with the last path, but {display(last)} is no plain file of JSON Lines: name one "
            "that ends in .jsonl or .ndjson, or set --input-format lines",
        )


def standard_output() -> IO[bytes]:
    """Standard output as bytes; raises ``Failure`` if it is closed."""
    if sys.stdout is None:
        raise Failure(Exit.OUTPUT, "cannot write the pairs to standard output: it is closed")
    return sys.stdout.buffer


def _abandon_output() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not fail on it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_summary(path: str | None, summary: dict[str, Any]) -> None:
    """Write the summary of a run to a file, if one is named."""
    if path is None:
        return
    try:
        Path(path).write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise output_failure(f"the summary to {path}", error) from None
