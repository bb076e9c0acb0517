"""``neardup run`` and ``neardup probe``: read and decode | sign | match | write, in order and in bounded memory.

A thread of its own matches and writes while others read and sign. While no input is available, all read documents are
finished first. So a pair is written as soon as it is known, even if documents arrive slowly. A batch is matched in
slices, and the pairs of a slice are written before the next slice: memory does not grow with the pairs of a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

from neardup.pairs.across import bare_batch, matcher_across, pairs_across
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.json_lines import encode_matches
from neardup.pairs.pair_rule import Matches
from neardup.pairs.pipeline import Matcher, match_steps
from neardup.pairs.quotes import covered
from neardup.pairs.signing import Signed, Signer
from neardup.stories.sources.losses import count_losses
from neardup.window.steps import step
from neardup_workers.doing.session.checks import check_across, check_top
from neardup_workers.doing.session.session import Chunk, Session
from neardup_workers.doing.session.token_order import with_order
from neardup_workers.outside.options.documents import ProbeOptions, RunOptions
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.output import STANDARD
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.interpreter import share_interpreter
from neardup_workers.outside.settings.files import Settings, with_file_window

# Of the overview: ids that are counted at most, later ones are not; ids shown, bins, and columns of the longest bar.
IDS_MAX = 1_000_000
_SHOWN, _BINS, _BAR_COLUMNS = 10, 10, 40


def probe(options: ProbeOptions, settings: Settings) -> Exit:
    """Run to the end without adding documents to the index; returns the exit code. Raises ``Failure`` as ``run``."""
    asked = RunOptions(**{name: value for name, value in vars(options).items() if name != "index"})
    return run(asked, settings, index=options.index)


def run(options: RunOptions, settings: Settings, index: Sequence[str] | None = None) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for a path or an output that cannot be used.

    ``index``: paths of documents that are added first; the documents of ``options.paths`` are then not added.
    """
    settings = with_file_window(settings)
    if options.truth:
        from neardup_workers.doing.audit.measuring import check_truth

        others = {"--follow": options.follow, "--top": options.top is not None, "--candidates": options.candidates}
        others["--window-from"] = options.window_from is not None
        check_truth(options, settings, options.output, "--output", others=others)
    with (
        Session(settings, options, before=index or (), follow=options.follow, prints=options.output is None) as session,
        ExitStack() as stack,
    ):
        if options.top is not None:
            check_top(options.top, settings, candidates=options.candidates, overview=options.overview)
        if options.across:
            check_across(
                settings, top=options.top, truth=options.truth, keep=options.keep, window_from=options.window_from
            )
        output = stack.enter_context(
            LinesFile(STANDARD if options.output is None else options.output, follow=options.follow)
        )
        overview = Overview()
        share_interpreter()
        window_files = options.keep is not None or options.window_from is not None
        settings = with_order(
            session, index or options.paths, settings, follow=options.follow, window_files=window_files
        )
        make = matcher_across if options.across else Matcher
        matcher, signer = make(settings, candidates=options.candidates), Signer(settings)
        if options.window_from is not None:
            from neardup_workers.outside.outputs.window_file import fill

            fill(matcher, options.window_from, salvage=options.salvage)
        for signed in session.signed(index or (), signer):
            with step(matcher.table):
                matcher.match(signed.batch, probe=False, rows=signed.rows)
            session.bound_window(matcher.table)
        asking = Signer(settings, queries=True) if index is not None else signer
        answer = partial(_answer, session, matcher, options, overview, output, index is None)
        # A strict run ends before it answers the chunk of what it refuses.
        apart = (lambda *_: None) if settings.strict else answer
        for chunk, signed, _ in session.answered_chunks(options.paths, asking, apart, follow=options.follow):
            if settings.strict:
                answer(chunk, signed)
    if options.keep is not None and not session.cut:
        from neardup_workers.outside.outputs.window_file import keep

        keep(options.keep, matcher)
    session.notes += _notes(options, overview, looks_back=index is None)
    if options.truth:
        from neardup_workers.doing.audit.measuring import add_truth

        add_truth(session, settings, pairs=options.output)
    return session.end(matcher.table.counts())


def _notes(options: RunOptions, overview: Overview, *, looks_back: bool) -> Iterator[str]:
    """Yield what the options add to the summary."""
    if options.overview:
        yield "\n".join(overview.lines())
    if options.top is not None and looks_back:
        yield (
            "note: run looks back only: the neighbours of a document are among those before it, and the first has "
            "none; batch --top looks at all"
        )
    if options.output is not None:
        yield f"the pairs stand in {options.output}"


def _answer(
    session: Session, matcher: Matcher, options: RunOptions, overview: Overview, output: LinesFile, add: bool,
    _: Chunk, signed: Signed,
) -> None:  # fmt: skip
    """Write the answers to a signed chunk."""
    for pairs, lines in _answers(matcher, signed, options, overview, session.losses, add=add):
        session.report.pairs += pairs
        output.write(lines)
    session.bound_window(matcher.table)


def _answers(
    matcher: Matcher, signed: Signed, options: RunOptions, overview: Overview, losses: LossAccounts, *, add: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield the answers to a batch, slice by slice: the number of pairs or neighbours, and their lines."""
    batch = signed.batch
    if options.top is not None:
        from neardup.pairs.neighbours.nearest import encode_nearest, ranked

        for one in ranked(matcher, batch, options.top, add=add):
            yield sum(map(len, one.neighbours)), encode_nearest(one.ids, one.neighbours, one.collections)
        return
    batch, rows = (bare_batch(batch), None) if options.across else (batch, signed.rows)
    for part in match_steps(matcher, batch, rows, add=add):
        count_losses(losses, matcher, batch, part)
        across = pairs_across(matcher, batch, part) if options.across else None
        matches, named = across or (covered(part.matches, part.items), None)
        if matches.older:
            if options.overview:
                overview.add(matches)
            yield len(matches.older), encode_matches(matches, named)


class Overview:
    """Counts the pairs of a run: the documents with the most near-duplicates, and a histogram of similarities."""

    def __init__(self) -> None:
        self.pairs_of: Counter[str] = Counter()
        self.similarities = np.zeros(_BINS + 1, np.int64)  # bins of a tenth; the last one is for 1

    def add(self, matches: Matches) -> None:
        """Count pairs."""
        for id_ in (*matches.older, *matches.newer):
            if id_ in self.pairs_of or len(self.pairs_of) < IDS_MAX:
                self.pairs_of[id_] += 1
        bins = np.floor(matches.similarity * _BINS).astype(np.int64)
        self.similarities += np.bincount(bins, minlength=_BINS + 1)

    def lines(self) -> list[str]:
        """Return the overview as lines of text, empty without a pair."""
        if not self.pairs_of:
            return []
        out = ["documents with the most near-duplicates:"]
        out += [f"{count:>8,}  {id_}" for id_, count in self.pairs_of.most_common(_SHOWN)]
        out.append("pairs by similarity:")
        most = int(self.similarities.max())
        for n in np.flatnonzero(self.similarities).tolist():
            count = int(self.similarities[n])
            name = "1.0 (copies)" if n == _BINS else f"{n / _BINS:.1f} to {(n + 1) / _BINS:.1f}"
            out.append(f"{name:>12} {'#' * max(1, round(_BAR_COLUMNS * count / most))} {count:,}")
        return out
