"""``neardup batch``: the pairs of a corpus at rest, by the keys, the evidence and the rules of the stream.

Documents are signed as in ``run`` and stored in files of a folder (``rows``). They then pass the matcher of the stream,
one shard after another (``found``), so memory holds one table of bounded size. The table expires no document that may
still make a pair, and evicts none.

The pairs equal the pairs of ``run`` over the same input, if ``run`` evicts no document, ends no probe early, and no
document is late by more than ``lateness_seconds``. Of the bounds of the table (``window_documents`` and others), only
``bucket_candidates_max`` applies; each shard has its share of it. Truncations are counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Neighbour
from neardup.pairs.batches import Batch
from neardup.pairs.comparing import RESULT_FIELDS, compared, comparing_limits
from neardup.pairs.explanations.relations import Relations
from neardup.pairs.json_lines import encode_matches
from neardup.pairs.neighbours.nearest import Ranked, chance_found, encode_nearest
from neardup.pairs.pair_rule import Matches, compares_directly, judge, orient, shared_of
from neardup.pairs.quotes import covered
from neardup.pairs.shards import table_limits
from neardup.pairs.signing import Signer
from neardup.pairs.window_message import WindowMessage
from neardup.schemes.interface import NO_SHARED, Shared, in_parts, joined_shared
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.representatives import FIRST
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.row_columns import VerdictLimits
from neardup.stories.verdicts.rule import REFUSED
from neardup.window import COUNTERS, NO_LIMIT, NO_TIME, NO_WINDOW
from neardup_workers.doing.audit.measuring import add_truth, check_truth
from neardup_workers.doing.session.checks import check_top
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.session.token_order import with_order
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.outputs import window_file
from neardup_workers.outside.outputs.falls import loss_failure
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.output import STANDARD, OutputFile
from neardup_workers.outside.outputs.sources import Sources
from neardup_workers.outside.outputs.table_file import check_rows
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.memory import bytes_of
from neardup_workers.outside.settings.files import Settings, check_unweighted
from neardup_workers.running.commands.batch import verdicts
from neardup_workers.running.commands.batch.content_pairs import ContentPairs, Links, contents_of
from neardup_workers.running.commands.batch.found import EVIDENCE_BYTES, Found, PairCounts, RowPairs
from neardup_workers.running.commands.batch.kept import check_twice, with_texts, write_kept
from neardup_workers.running.commands.batch.rank import ranked_rows
from neardup_workers.running.commands.batch.rows import ColumnFiles, RowFiles, Rows, spans

# Documents in a message of a written window.
_MESSAGE_ROWS = 512
# The widest window for which every difference of times fits in 64 bits.
_ALWAYS = int(NO_WINDOW) - 1
# The greatest lateness for which a time without it fits in 64 bits.
_LATENESS_MAX = 1 << 61
# Adds the documents of the options to a corpus, and what decides them to places and preference.
Fill = Callable[[BatchOptions, Session, "Corpus", verdicts.Places, verdicts.Preference], None]


def run(options: BatchOptions, settings: Settings, fill: Fill | None = None) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for input, output or storage that cannot be used.

    ``fill`` reads and signs the documents, by default on this machine.
    """
    counts, values = PairCounts(0, 0, 0), None
    check_asked(options, settings)
    if options.truth:
        check_truth(options, settings, options.verdicts, "--verdicts", others={})
    with_sources = options.sources is not None or (options.output is not None and not options.allow_loss)
    with Session(settings, options, sources=with_sources) as session, OutputFile(STANDARD) as output:
        if options.top is not None:
            check_top(
                options.top, settings, candidates=options.candidates, verdicts=options.verdicts, output=options.output
            )
        settings = with_order(session, options.paths, settings, window_files=options.keep is not None)
        with _folder(options) as folder, Corpus(Path(folder), settings, options.memory_max) as corpus:
            places = verdicts.Places(with_sources=with_sources)
            preference = verdicts.Preference(options.prefer or FIRST)
            (fill or _fill)(options, session, corpus, places, preference)
            if not session.stop.signal:
                ranks = options.top is not None and not SCHEMES[settings.scheme].exact
                with session.stop.at_once():
                    counts = corpus.find(candidates=options.candidates or ranks, leads=options.decides)
                if options.keep is not None:
                    corpus.keep(options.keep)
                if options.decides:
                    corpus.link()
                _write(_answers(corpus, options.top), output, session)
                if options.decides and not session.stop.signal:
                    values = _decide(corpus, places, preference, options, session)
    if options.truth:
        add_truth(session, settings, verdicts=options.verdicts)
    found = None if values is None else {"pairs": session.report.pairs, **values}
    return session.end(dict.fromkeys(COUNTERS, 0) | counts._asdict(), found)


def _fill(
    options: BatchOptions, session: Session, corpus: Corpus, places: verdicts.Places, preference: verdicts.Preference
) -> None:
    for chunk, signed in session.signed_chunks(options.paths, Signer(corpus.settings)):
        check_rows(options.output, "--output", chunk.entries)
        corpus.add(signed.batch)
        if options.decides:
            places.add(chunk, signed, preference)


class Corpus:
    """A corpus in a folder: ``add`` its documents, ``find`` its pairs, ``keep`` its window, read its ``matches``.

    A table holds at most ``memory_max`` in memory, such as ``512MB``.
    """

    def __init__(self, folder: Path, settings: Settings, memory_max: str = "1GB") -> None:
        self.settings = settings
        self._folder, self._memory_max = folder, bytes_of("--memory-max", memory_max)
        self._scheme = SCHEMES[settings.scheme]
        self._limits = table_limits(settings, self._scheme)
        self.rows = RowFiles(folder / "rows", settings.plan.width, separate=settings.separate)
        self._times = ColumnFiles(folder / "times", {"time": "<i8"})
        self._first_time = self._stream_time = int(NO_TIME)
        self._lateness = 0
        self._open = ExitStack()
        self._open.callback(self.rows.close)
        self._open.callback(self._times.close)
        self._found: Found | None = None
        self._links: verdicts.CorpusLinks | None = None

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, batch: Batch) -> None:
        """Add signed documents, in order of arrival."""
        if self._first_time == NO_TIME:
            self._first_time = int(next(iter(batch.times[batch.times != NO_TIME]), NO_TIME))
        self.rows.append(batch)

    def arrive(self) -> None:
        """End the adding, and give every row its effective time. A row without a time gets the stream time at its
        arrival; rows before the first time get the first time."""
        self.rows.seal()
        so_far = 0 if self._first_time == NO_TIME else self._first_time
        for first, end in spans(self.rows.count):
            times = self.rows.times(np.arange(first, end))
            stream_times = np.maximum(np.maximum.accumulate(times), so_far)
            times = np.where(times == NO_TIME, stream_times, times)
            so_far = int(stream_times[-1])
            self._lateness = max(self._lateness, int((stream_times - times).max()))
            self._times.append({"time": times})
        self._times.seal()
        if self._first_time != NO_TIME:
            self._stream_time = so_far

    def find(self, *, candidates: bool = False, leads: bool = False) -> PairCounts:
        """Find the pairs; with ``candidates``, those below the least score too, with ``leads`` what ``decide``
        needs."""
        self.arrive()
        limits = self._limits._replace(
            lateness=min(self._lateness, _LATENESS_MAX), items=NO_LIMIT, bytes=NO_LIMIT, probe_candidates=NO_LIMIT
        )
        if self._scheme.exact:
            limits = limits._replace(bucket_candidates=NO_LIMIT, copies=NO_LIMIT)
        self._found = Found(self._folder, self.rows, self.settings, limits, candidates=candidates, leads=leads)
        self._open.callback(self._found.close)
        return self._found.find(self._memory_max)

    def link(self) -> None:
        """Prepare to collect the pairs of ``matches`` for ``decide``."""
        shares, plan = self._scheme.shared is not None, self.settings.plan
        part_min = self._scheme.part_min(plan)
        self._links = verdicts.CorpusLinks(self._content_pairs(), self._times["time"], shares=shares, part_min=part_min)

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
        compare = self._compared if compares_directly(self.settings) else None
        limits = VerdictLimits.of(self._limits, **comparing_limits(self.settings))
        return verdicts.decide(self._links, self.rows, order, places, limits, compare)

    def matches(self) -> Iterator[Matches]:
        """Return the pairs in the form of ``Matcher``, in order of arrival; after ``link``, ``decide`` reads them too,
        and the leads among them."""
        return map(self._matches_of, self._pairs())

    def _matches_of(self, found: RowPairs) -> Matches:
        rows, identical = self.rows, self.rows.equal(*found[:2]) & self._scheme.by_content
        shared, signals = self.shared(*found[:2], identical), self._signals(*found[:2], identical)
        if self._links is not None:
            self._links.pairs.add(_links(found, shared))
            if shared is None:
                is_pair = found.similarity >= self.settings.tuning.score_min
                if signals is not None:
                    is_pair |= signals > 0
                    signals = signals[is_pair]
                found = RowPairs._make(column[is_pair] for column in found)
        newer, older, similarity, keys = found
        arrived = Matches(
            rows.ids(older), rows.ids(newer), rows.times(older), rows.times(newer), similarity, keys, shared,
            rows.collections(newer), signals,
        )  # fmt: skip
        return covered(orient(arrived), newer)

    def _signals(self, newer: Rows, older: Rows, identical: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8] | None:
        """Return the signal that makes each pair of rows, 0 for the text; ``None`` if the scheme has one."""
        scheme, settings, rows = self._scheme, self.settings, self.rows
        if not scheme.signals:
            return None
        out, least, met = np.zeros(len(newer), np.uint8), settings.tuning.score_min, settings.buckets_shared_min
        for at in self._parts(np.arange(len(newer)), newer, older):
            common = scheme.common(rows.evidence(newer[at]), rows.evidence(older[at]), settings.plan)
            out[at] = judge(common, identical[at], least, met, exact_score=settings.tuning.exact_score).signals
        return out

    def nearest(self, k: int) -> Iterator[Ranked]:
        """Yield every document in order of arrival, some thousands at a time, with the ``k`` most similar other
        documents."""
        rows, pairs = self.rows, self._content_pairs()
        for found in self._pairs():
            pairs.add(_links(found, None))
        pairs.seal()
        window = min(self._limits.window, _ALWAYS)
        for best in ranked_rows(pairs, rows, self._times["time"], window, k):
            chances = chance_found(self.settings, best.similarity).tolist()
            named = list(map(Neighbour, rows.ids(best.others), best.similarity.tolist(), chances))
            starts = np.searchsorted(best.rows, np.arange(best.first, best.end + 1)).tolist()
            at = np.arange(best.first, best.end)
            yield Ranked(rows.ids(at), [named[a:b] for a, b in pairwise(starts)], len(named), rows.collections(at))

    def keep(self, path: str) -> None:
        """Write the documents that a table with these settings would hold now. Call it after ``arrive``."""
        limits, count, times = self._limits, self.rows.count, self._times["time"]
        first = max(0, count - limits.items)
        if limits.window != NO_WINDOW and self._stream_time != NO_TIME:
            horizon = self._stream_time - limits.window - limits.lateness
            first = max(first, int(np.argmax(times >= horizon)))
        time = int(NO_TIME if self._first_time == NO_TIME else times[:first].max(initial=NO_TIME))
        messages = (WindowMessage(batch, []) for batch in self._batches(first, count))
        window_file.write(path, messages, time, self.settings)

    def _content_pairs(self) -> ContentPairs:
        pairs = ContentPairs(self._folder, contents_of(self.rows, by_content=self._scheme.by_content))
        self._open.callback(pairs.close)
        return pairs

    def _pairs(self) -> Iterator[RowPairs]:
        if self._found is None:
            raise AssertionError("find comes before the pairs")
        return self._found.pairs()

    def _compared(self, rows: Rows, others: Rows) -> npt.NDArray[np.float32]:
        """Compare rows for a verdict, as ``Matcher.compared`` does."""
        at = np.arange(len(rows))
        sides = (
            (self.rows.evidence(rows[part]), self.rows.evidence(others[part])) for part in self._parts(at, rows, others)
        )
        nothing = np.empty((0, RESULT_FIELDS), np.float32)
        return np.concatenate([nothing, *(compared(self.settings, *both) for both in sides)])

    def _batches(self, first: int, end: int) -> Iterator[Batch]:
        for at in range(first, end, _MESSAGE_ROWS):
            rows = np.arange(at, min(at + _MESSAGE_ROWS, end))
            yield from (self.rows.between(int(part[0]), int(part[-1]) + 1) for part in self._parts(rows, rows))

    def _parts(self, items: Rows, *rows: Rows) -> Iterator[Rows]:
        """Yield items in parts whose rows have about ``EVIDENCE_BYTES`` of evidence, or one item."""
        sizes = sum((self.rows.evidence_bytes(column) for column in rows), np.zeros(len(items), np.int64))
        return (items[part] for part in in_parts(sizes, EVIDENCE_BYTES) if len(items))


def _answers(corpus: Corpus, top: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield the number of pairs or neighbours and their lines, some thousands at a time."""
    if top is None:
        for matches in corpus.matches():
            yield len(matches.older), encode_matches(matches)
    else:
        for part in corpus.nearest(top):
            yield part.candidates, encode_nearest(part.ids, part.neighbours, part.collections)


def _write(answers: Iterator[tuple[int, bytes]], output: OutputFile, session: Session) -> None:
    """Write the answers until their end or a signal."""
    for pairs, lines in answers:
        session.report.pairs += pairs
        output.write(lines)
        if session.stop.signal:
            return


def check_asked(options: BatchOptions, settings: Settings) -> None:
    """Raise ``Failure`` for options that verdicts exclude, ``ConfigError`` for similarity by counts of a stream."""
    check_unweighted(settings, "batch, which reads documents in no order")
    if not options.decides and options.prefer is not None:
        raise Failure(
            Exit.USAGE, f"--prefer {options.prefer} says which documents are kept: add --verdicts FILE or --output FILE"
        )
    if options.sources is not None and options.prefer not in (None, FIRST):
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


def _decide(
    corpus: Corpus, places: verdicts.Places, preference: verdicts.Preference, options: BatchOptions, session: Session
) -> dict[str, Any]:
    """Decide, and write the verdicts and the kept documents; returns their part of the summary."""
    order, at = preference.order(), np.array(places.rows, np.int64)
    decided, relations = corpus.decide(order, at), corpus.relations(order)
    if options.verdicts is not None:
        with LinesFile(options.verdicts, "the verdicts") as file:
            verdicts.write(file, corpus.rows, places, decided, relations)
    falls = with_texts(verdicts.falls_of(places, order, decided), session)
    session.notes.extend(f"WARNING: {fall.sentence()}" for fall in falls)
    exceeded: dict[str, Any] = {}
    if options.sources is not None:
        with Sources(options.sources, session.settings.sources_max) as sources:
            verdicts.count_sources(sources, corpus.rows, places, decided)
        session.notes.extend(sources.notes())
        exceeded["sources_exceeded"] = dict(sources.ledger.exceeded)
    if options.output is not None:
        if falls and not options.allow_loss:
            raise loss_failure("--output", [fall.sentence() for fall in falls])
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


def _links(found: RowPairs, shared: Shared | None) -> Links:
    """Return pairs of rows with the part of each text that stands in the other."""
    newer, older, similarity, _ = found
    if shared is None:
        return Links(newer, older, similarity, similarity, similarity)
    older_part, newer_part = shared.fractions.T
    return Links(newer, older, similarity, newer_part, older_part)
