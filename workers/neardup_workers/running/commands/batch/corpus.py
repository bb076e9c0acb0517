"""``neardup batch``: the pairs of a corpus at rest, by the keys, the evidence and the rules of the stream.

Documents are signed as in ``run`` and stored in a folder: their evidence in plain files (``rows``), their times,
contents and keys in a database (``join``), which finds the candidates. Candidates are read a few thousand at a time,
and judged by the rule of ``Matcher``. Memory holds one chunk and the database up to its limit, but no table.

The pairs equal the pairs of ``run`` over the same input, if ``run`` truncates no bucket, evicts no document, and no
document is late by more than ``lateness_seconds``. Of the bounds of the table (``window_documents`` and others), only
``bucket_candidates_max`` applies, by first arrival of contents; truncations are counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Neighbour
from neardup.errors import install_command
from neardup.pairs.batches import Batch, bucket_keys
from neardup.pairs.explanations.relations import Relations
from neardup.pairs.json_lines import encode_matches, encode_nearest
from neardup.pairs.neighbours.nearest import Ranked, chance_found
from neardup.pairs.pair_rule import Matches, compares_directly, judge, orient, scored, shared_of
from neardup.pairs.pipeline import Signer, table_limits
from neardup.pairs.window_message import WindowMessage
from neardup.schemes.interface import NO_SHARED, Shared, in_parts, joined_shared
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.decisions import VerdictLimits
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.rule import REFUSED
from neardup.window import COUNTERS, NO_TIME, NO_WINDOW
from neardup_workers.doing.audit.measuring import add_truth, check_truth
from neardup_workers.doing.session.checks import check_top
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.session.token_order import with_order
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.outputs import window_file
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.output import check_apart, standard_output, write_pairs
from neardup_workers.outside.outputs.sources import Sources
from neardup_workers.outside.outputs.table_file import check_rows
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.batch.rows import RowFiles, Rows

try:
    import duckdb

    from neardup_workers.running.commands.batch import join as batch_join
    from neardup_workers.running.commands.batch import verdicts
    from neardup_workers.running.commands.batch.kept import check_twice, write_kept
    from neardup_workers.running.commands.batch.rank import Ranking
except ImportError:
    raise Failure(Exit.USAGE, f"batch needs duckdb, which is not installed: {install_command('batch')}") from None

# Rows judged together, and the maximum bytes of their evidence, unless one row has more.
_ROWS = 4096
_EVIDENCE_BYTES = 64 << 20
# Rows inserted into the database at a time.
_ARRIVALS = 1 << 15
# Documents in a message of a written window.
_MESSAGE_ROWS = 512
# The widest window for which every difference of times fits in 64 bits.
_ALWAYS = int(NO_WINDOW) - 1


def run(options: BatchOptions, settings: Settings) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for input, output or storage that cannot be used."""
    counts, values = batch_join.JoinCounts(0, 0, 0), None
    check_verdicts(options)
    if options.truth:
        check_truth(options, settings, options.verdicts, "--verdicts", others={})
    guards = options.output is not None and not options.allow_loss
    counts_sources = options.sources is not None
    with Session(settings, options, sources=guards or counts_sources) as session:
        output = standard_output()
        if options.top is not None:
            check_top(
                options.top, settings, candidates=options.candidates, verdicts=options.verdicts, output=options.output
            )
        settings = with_order(session, options.paths, settings, window_files=options.keep is not None)
        try:
            with (
                _folder(options) as folder,
                Corpus(Path(folder), settings, options.memory_max, candidates=options.candidates) as corpus,
            ):
                places = verdicts.Places(with_sources=guards or counts_sources)
                preference = verdicts.Preference(options.prefer or verdicts.FIRST)
                for chunk, signed in session.signed_chunks(options.paths, Signer(settings)):
                    check_rows(options.output, "--output", chunk.entries)
                    corpus.add(signed.batch)
                    if options.decides:
                        places.add(chunk, signed, preference)
                if not session.stop.signal:
                    counts = corpus.find()
                    if options.keep is not None:
                        corpus.keep(options.keep)
                    if options.decides:
                        corpus.link()
                    _write(_answers(corpus, options.top), output, session)
                    if options.decides and not session.stop.signal:
                        values = decide(corpus, places, preference, options, session)
        except duckdb.Error as error:
            raise _failure(error, options) from None
    if options.truth:
        add_truth(session, settings, verdicts=options.verdicts)
    if values is None:
        return session.end(dict.fromkeys(COUNTERS, 0) | counts._asdict())
    return session.end(dict.fromkeys(COUNTERS, 0) | counts._asdict(), {"pairs": session.report.pairs, **values})


class Corpus:
    """A corpus in a folder: ``add`` its documents, ``find`` its candidates, ``keep`` its window, read its ``matches``.

    Its database holds at most ``memory_max`` in memory, such as ``512MB``; ``candidates`` keeps candidates below
    ``score_min``.
    """

    def __init__(self, folder: Path, settings: Settings, memory_max: str = "1GB", *, candidates: bool = False) -> None:
        self.settings = settings
        self._score_min = 0.0 if candidates else settings.tuning.score_min
        self._scheme = SCHEMES[settings.scheme]
        self._limits = table_limits(settings, self._scheme)
        self.rows = RowFiles(folder, settings.plan.width, separate=settings.separate)
        self._database = batch_join.open_database(folder, memory_max, settings.sign_threads)
        self._first_time = self._stream_time = int(NO_TIME)
        self._links: verdicts.CorpusLinks | None = None

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self.rows.close()

    def add(self, batch: Batch) -> None:
        """Add signed documents, in order of arrival."""
        if self._first_time == NO_TIME:
            self._first_time = int(next(iter(batch.times[batch.times != NO_TIME]), NO_TIME))
        self.rows.append(batch)

    def arrive(self) -> None:
        """End the adding, and number the contents."""
        self.rows.seal()
        self._arrive()
        batch_join.name_contents(self._database, by_content=self._scheme.by_content)

    def find(self) -> batch_join.JoinCounts:
        """Find the candidates."""
        limits, database = self._limits, self._database
        self.arrive()
        payloads = False
        for first in range(0, self.rows.count, _ROWS):
            contents = batch_join.contents_between(database, first, first + _ROWS)
            for rows in self._parts(contents, contents):
                keys = bucket_keys(self.rows.batch(rows), self.settings)
                owners = np.repeat(rows, np.diff(keys.starts))
                batch_join.add_keys(database, owners, keys.values, keys.payloads)
                payloads |= len(keys.payloads) > 0
        window = min(limits.window, _ALWAYS)
        return batch_join.join(database, window, limits.bucket_candidates, limits.admit_ratio if payloads else None)

    def link(self) -> None:
        """Prepare to collect the pairs of ``matches`` for ``decide``."""
        shares, plan = self._scheme.shared is not None, self.settings.plan
        self._links = verdicts.CorpusLinks(self._database, shares=shares, part_min=self._scheme.part_min(plan))

    def add_links(self, newer: Rows, older: Rows, similarity: npt.NDArray[np.float64], shared: Shared | None) -> None:
        """Collect pairs of rows for ``decide``, after ``link``, with what they share."""
        if self._links is not None:
            self._links.add(newer, older, similarity, shared)

    def shared(self, newer: Rows, older: Rows, identical: npt.NDArray[np.bool_]) -> Shared | None:
        """Return what pairs of rows share; ``None`` if the scheme does not know."""
        if self._scheme.shared is None:
            return None
        rows, plan = self.rows, self.settings.plan
        parts = [
            shared_of(self._scheme, rows.evidence(older[at]), rows.evidence(newer[at]), identical[at], plan)
            for at in self._parts(np.arange(len(newer)), newer, older)
        ]
        known = [part for part in parts if part is not None]
        return joined_shared(known) if known else NO_SHARED

    def relations(self, order: Rows) -> verdicts.RelationsOf | None:
        """Return how to find the relations of rows, after ``decide`` in this order; ``None`` if the scheme knows
        none."""
        if self._links is None or self._scheme.shared is None:
            return None
        partners = self._links.partners(order)

        def relations_of(rows: Rows) -> Relations:
            at = np.flatnonzero(partners[rows] >= 0)
            later, others = rows[at], partners[rows[at]]
            shared = self.shared(later, others, np.zeros(len(at), np.bool_))
            return Relations(at, self.rows.ids(others), NO_SHARED if shared is None else shared)

        return relations_of

    def decide(self, order: Rows, places: Rows) -> Verdicts:
        """Return the verdicts of all rows, decided in this order. Call it after ``link`` and the last of
        ``matches``."""
        if self._links is None:
            raise AssertionError("link comes before decide")
        similarity = self._similarity if compares_directly(self.settings) else None
        return verdicts.decide(self._links, self.rows, order, places, VerdictLimits.of(self._limits), similarity)

    def matches(self) -> Iterator[Matches]:
        """Return the pairs in the form of ``Matcher``."""
        for candidates in batch_join.candidates(self._database, _ROWS):
            at = np.arange(len(candidates.newer))
            for part in self._parts(at, candidates.newer, candidates.older):
                yield self._judge(candidates.newer[part], candidates.older[part], candidates.identical[part])

    def nearest(self, k: int) -> Iterator[Ranked]:
        """Yield every document in order of arrival, some thousands at a time, with the ``k`` most similar other
        documents."""
        settings, rows = self.settings, self.rows
        exact = self._scheme.exact
        ranking = Ranking(self._database)
        for candidates in batch_join.candidates(self._database, _ROWS):
            at = np.flatnonzero(~candidates.identical)
            for part in self._parts(at, candidates.newer[at], candidates.older[at]):
                newer, older = candidates.newer[part], candidates.older[part]
                common = self._scheme.common(rows.evidence(newer), rows.evidence(older), settings.plan)
                score_min = settings.tuning.score_min if exact else 0.0
                judged = judge(
                    common, candidates.identical[part], score_min, settings.buckets_shared_min,
                    exact_score=settings.tuning.exact_score,
                )  # fmt: skip
                kept = judged.is_pair
                ranking.add(newer[kept], older[kept], judged.similarity[kept])
        window = min(self._limits.window, _ALWAYS)
        for best in ranking.best(rows.count, window, k, _ROWS):
            chances = chance_found(settings, best.similarity).tolist()
            named = list(map(Neighbour, rows.ids(best.others), best.similarity.tolist(), chances))
            starts = np.searchsorted(best.rows, np.arange(best.first, best.end + 1)).tolist()
            at = np.arange(best.first, best.end)
            yield Ranked(rows.ids(at), [named[a:b] for a, b in pairwise(starts)], len(named), rows.collections(at))

    def keep(self, path: str) -> None:
        """Write the documents that a table with these settings would hold now. Call it after ``find``."""
        limits, count = self._limits, self.rows.count
        first = max(0, count - limits.items)
        if limits.window != NO_WINDOW and self._stream_time != NO_TIME:
            horizon = self._stream_time - limits.window - limits.lateness
            first = max(first, batch_join.window_begin(self._database, horizon))
        time = int(NO_TIME) if self._first_time == NO_TIME else batch_join.stream_time_before(self._database, first)
        messages = (WindowMessage(batch, []) for batch in self._batches(first, count))
        window_file.write(path, messages, time, self.settings)

    def _arrive(self) -> None:
        """Add every row to the database. A row without a time gets the stream time at its arrival; rows before the
        first time get the first time."""
        so_far = 0 if self._first_time == NO_TIME else self._first_time
        for first in range(0, self.rows.count, _ARRIVALS):
            rows = np.arange(first, min(first + _ARRIVALS, self.rows.count))
            times = self.rows.times(rows)
            stream_times = np.maximum(np.maximum.accumulate(times), so_far)
            times = np.where(times == NO_TIME, stream_times, times)
            so_far = int(stream_times[-1])
            contents, ids = self.rows.contents(rows), self.rows.id_bytes(rows)
            batch_join.add_arrivals(self._database, rows, times, contents, ids)
        if self._first_time != NO_TIME:
            self._stream_time = so_far

    def _judge(self, newer: Rows, older: Rows, identical: npt.NDArray[np.bool_]) -> Matches:
        settings, rows = self.settings, self.rows
        common = self._scheme.common(rows.evidence(newer), rows.evidence(older), settings.plan)
        judged = judge(
            common, identical, self._score_min, settings.buckets_shared_min, exact_score=settings.tuning.exact_score
        )
        pairs = np.flatnonzero(judged.is_pair)
        newer, older = newer[pairs], older[pairs]
        shared = self.shared(newer, older, identical[pairs])
        self.add_links(newer, older, judged.similarity[pairs], shared)
        arrived = Matches(
            rows.ids(older), rows.ids(newer), rows.times(older), rows.times(newer),
            judged.similarity[pairs], judged.keys[pairs],
            shared, rows.collections(newer),
        )  # fmt: skip
        return orient(arrived)

    def _similarity(self, rows: Rows, others: Rows) -> npt.NDArray[np.float64]:
        """The similarity of rows that are compared directly, as of ``Matcher.similarity``."""
        at = np.arange(len(rows))
        sides = (
            (self.rows.evidence(rows[part]), self.rows.evidence(others[part])) for part in self._parts(at, rows, others)
        )
        plan, tuning = self.settings.plan, self.settings.tuning
        common = (self._scheme.common(*both, plan) for both in sides)
        parts = [scored(one, tuning.score_min, exact_score=tuning.exact_score) for one in common]
        return np.concatenate([np.empty(0), *parts])

    def _batches(self, first: int, end: int) -> Iterator[Batch]:
        for at in range(first, end, _MESSAGE_ROWS):
            rows = np.arange(at, min(at + _MESSAGE_ROWS, end))
            yield from map(self.rows.batch, self._parts(rows, rows))

    def _parts(self, items: Rows, *rows: Rows) -> Iterator[Rows]:
        """Yield items in parts whose rows have about ``_EVIDENCE_BYTES`` of evidence, or one item."""
        sizes = sum((self.rows.evidence_bytes(column) for column in rows), np.zeros(len(items), np.int64))
        return (items[part] for part in in_parts(sizes, _EVIDENCE_BYTES) if len(items))


def _answers(corpus: Corpus, top: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield the number of pairs or neighbours and their lines, some thousands at a time."""
    if top is None:
        for matches in corpus.matches():
            yield len(matches.older), encode_matches(matches)
    else:
        for part in corpus.nearest(top):
            yield part.candidates, encode_nearest(part.ids, part.neighbours, part.collections)


def _write(answers: Iterator[tuple[int, bytes]], output: IO[bytes], session: Session) -> None:
    """Write the answers until their end or a signal."""
    for pairs, lines in answers:
        session.report.pairs += pairs
        write_pairs(output, lines)
        if session.stop.signal:
            return


def check_verdicts(options: BatchOptions) -> None:
    """Raise ``Failure`` for options that verdicts exclude."""
    for name in ("verdicts", "output", "sources", "keep"):
        check_apart(f"--{name}", getattr(options, name))
    if not options.decides and options.prefer is not None:
        raise Failure(
            Exit.USAGE, f"--prefer {options.prefer} says which documents are kept: add --verdicts FILE or --output FILE"
        )
    if options.sources is not None and options.prefer not in (None, verdicts.FIRST):
        raise Failure(
            Exit.USAGE,
            f"--sources says who was first by arrival, and --prefer {options.prefer} decides in another order: leave "
            "out one of them",
        )
    if options.decides and (options.top is not None or options.candidates):
        name = next(name for name in ("verdicts", "output", "sources") if getattr(options, name) is not None)
        raise Failure(Exit.USAGE, f"--{name} is decided by the pairs: leave out --top and --candidates")
    if options.output is not None:
        check_twice(options.output, options.paths)
    elif options.allow_loss:
        raise Failure(Exit.USAGE, "--allow-loss is about the lines of --output: add --output FILE")
    elif options.annotate:
        raise Failure(Exit.USAGE, "--annotate writes verdicts with the lines of --output: add --output FILE")


def decide(
    corpus: Corpus, places: verdicts.Places, preference: verdicts.Preference, options: BatchOptions, session: Session
) -> dict[str, Any]:
    """Decide, and write the verdicts and the kept documents; returns their part of the summary."""
    order, at = preference.order(), np.array(places.rows, np.int64)
    decided, relations = corpus.decide(order, at), corpus.relations(order)
    if options.verdicts is not None:
        with LinesFile(options.verdicts, "the verdicts") as file:
            verdicts.write(file, f"the verdicts to {options.verdicts}", corpus.rows, places, decided, relations)
    exceeded: dict[str, Any] = {}
    if options.sources is not None:
        with Sources(options.sources, session.settings.sources_max) as sources:
            verdicts.count_sources(sources, corpus.rows, places, decided)
        session.notes.extend(sources.notes())
        exceeded["sources_exceeded"] = dict(sources.ledger.exceeded)
    if options.output is not None:
        if not options.allow_loss and places.with_sources:
            verdicts.check_loss(places, order, decided)
        statuses = np.full(len(places), REFUSED, np.uint8)
        statuses[at] = decided.statuses
        between = None
        if options.annotate:
            between = partial(verdicts.decided_between, corpus.rows, places, decided, relations)
        write_kept(options.output, session, statuses, between)
    return verdicts.summary_of(corpus.rows, at, decided) | exceeded


def _folder(options: BatchOptions) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="neardup-", dir=options.temporary, ignore_cleanup_errors=True)
    except OSError as error:
        raise Failure(Exit.OUTPUT, f"cannot make a folder in {options.temporary}: {error.strerror}") from None


def _failure(error: duckdb.Error, options: BatchOptions) -> Failure:
    """Return the failure for a lack of room or an invalid setting. Any other error is a bug and is raised again."""
    if isinstance(error, duckdb.OutOfMemoryException):
        sentence = f"the database needs more than --memory-max {options.memory_max} or the disk holds: {error}"
        return Failure(Exit.CAPACITY, sentence)
    if isinstance(error, duckdb.IOException):
        return Failure(Exit.OUTPUT, f"cannot write to the temporary folder: {error}")
    if isinstance(error, duckdb.ParserException | duckdb.InvalidInputException):  # invalid settings of the database
        return Failure(Exit.USAGE, f"--memory-max {options.memory_max} is no size such as 512MB or 4GB: {error}")
    raise error
