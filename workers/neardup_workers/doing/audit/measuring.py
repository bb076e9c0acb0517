"""What a run missed, measured on a sample of contents with all their neighbours.

The documents are read twice. The first reading draws the sample; the second one compares every document with the
sample, exactly, by the reading, the measure and the window of the settings. Then what the run wrote is compared with
that. The sample has contents, not pairs: pairs come in lumps, and an interval over lumps is too narrow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from neardup.deduplicator import Deduplicator
from neardup.documents.document import EXPLANATIONS, Document
from neardup.pairs.estimates.intervals import clopper_pearson, effective_units
from neardup.pairs.evaluation.judging import Proportion, proportion
from neardup.pairs.explanations.explain import explain
from neardup.pairs.pipeline import Matcher, Signer
from neardup.schemes.config import Config
from neardup.schemes.theory.tuning import probabilities
from neardup.window.steps import step
from neardup_workers.doing.audit.claims import ClaimedPairs, ClaimedVerdicts
from neardup_workers.doing.audit.neighbours import Neighbours, plan_of
from neardup_workers.doing.audit.sample import Clock, Drawn, Read, Sample
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.judging import AuditOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.outputs.output import descriptor_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.blocks import STDIN
from neardup_workers.outside.settings.files import Settings, with_file_window

# The misses that are shown, those of the most similar neighbours.
_MISSES = 10
# The reasons for which a pair of a similarity is found or not by chance.
_BY_CHANCE = ("no_bucket", "few_buckets", "score")
# Fewer effective units give no interval.
_UNITS_MIN = 100
_UNKNOWN = Proportion(math.nan, math.nan, math.nan)


class Miss(NamedTuple):
    """A document with an earlier neighbour that the run did not find; ``reason`` is a key of ``EXPLANATIONS``, and
    ``chance`` the probability that a pair of this similarity is found, NaN where the scheme does not say."""

    older: Document
    newer: Document
    similarity: float
    reason: str
    chance: float


class Audit(NamedTuple):
    """The figures: ``documents`` and ``verdicts`` with the units of their fractions, ``pairs`` with effective units;
    ``late`` contents of the sample are not counted."""

    sampled: int
    contents: int
    recall: Proportion
    units: int
    pairs: Proportion
    effective_units: float
    precision: Proportion
    dropped: int
    misses: list[Miss]
    late: int
    left_out: dict[str, int]


def check(paths: Sequence[str], settings: Settings) -> None:
    """Raise ``Failure`` for documents that cannot be audited."""
    if STDIN in paths:
        raise Failure(Exit.USAGE, "an audit reads the documents twice, and standard input only once: name files")
    plan_of(settings)


def audit(options: AuditOptions, settings: Settings, *, quiet: bool = True) -> Audit:
    """Compare what a run wrote with the neighbours of a sample, in two readings of the documents, whose progress is
    shown unless ``quiet``. Raises ``Failure`` for files that cannot be used."""
    if (options.pairs is None) == (options.verdicts is None):
        raise Failure(Exit.USAGE, "audit looks at one output: give --pairs of run, or --verdicts of dedup")
    check(options.paths, settings)
    settings = with_file_window(settings)
    sample, left_out = Sample(options.sample, options.draw), Counter[str]()
    for read in _readings(options.paths, settings, "" if quiet else "audit, reading 1 of 2"):
        sample.add(read)
    contents, drawn = sample.contents(), sample.in_order()
    apart = settings.separate
    pairs = None if options.pairs is None else ClaimedPairs(options.pairs, drawn, left_out, separate=apart)
    verdicts = None if options.verdicts is None else ClaimedVerdicts(options.verdicts, drawn, left_out, separate=apart)
    neighbours = Neighbours(drawn, settings, pairs, verdicts)
    for read in _readings(options.paths, settings, "" if quiet else "audit, reading 2 of 2"):
        neighbours.add(read)
    for said in (pairs, verdicts):
        if said is not None:
            said.check()
    true, hits = neighbours.pairs[neighbours.promised], neighbours.found[neighbours.promised]
    effective = effective_units(true)
    of_pairs = _UNKNOWN
    if pairs is not None and true.sum():
        of_pairs = proportion(round(effective * min(1.0, hits.sum() / true.sum())), round(effective))
        of_pairs = of_pairs._replace(value=float(hits.sum() / true.sum()))
        if effective < _UNITS_MIN:
            of_pairs = of_pairs._replace(low=math.nan, high=math.nan)
    units = neighbours.has_earlier
    dropped = neighbours.is_duplicate
    return Audit(
        len(drawn), contents, clopper_pearson(int((units & neighbours.is_found).sum()), int(units.sum())),
        int(units.sum()), of_pairs, effective,
        clopper_pearson(int((dropped & neighbours.confirmed).sum()), int(dropped.sum())), int(dropped.sum()),
        _misses(drawn, neighbours, options.paths, settings), neighbours.late,
        dict(left_out),
    )  # fmt: skip


def check_truth(
    options: SessionOptions, settings: Settings, output: str | None, option: str, *, others: Mapping[str, bool]
) -> None:
    """Raise ``Failure`` if a run cannot be audited at its end.

    Args:
        options: those of the run.
        settings: those of the run.
        output: the file of pairs or verdicts.
        option: the option that names it.
        others: options that exclude an audit, and whether they are given.
    """
    if output is None or descriptor_of(output) is not None:
        raise Failure(Exit.USAGE, f"--truth compares what is written with the documents: give {option} FILE")
    for name, is_given in others.items():
        if is_given:
            raise Failure(Exit.USAGE, f"--truth and {name} are both given: leave one of them out")
    check(options.paths, settings)


def add_truth(session: Session, settings: Settings, *, pairs: str | None = None, verdicts: str | None = None) -> None:
    """Audit what a run wrote, and put the figures into its summary; nothing if a signal ended the run."""
    if session.stop.signal:
        return
    session.report.end_run()
    asked = AuditOptions(list(session.options.paths), pairs=pairs, verdicts=verdicts)
    session.report.end_bar()
    audited = audit(asked, settings, quiet=session.options.quiet)
    kind = "pairs" if pairs is not None else "verdicts"
    session.measured["audit"] = summary_of(audited, kind, settings)
    session.notes.append(line_of(audited, kind))


def _readings(paths: Sequence[str], settings: Settings, title: str = "") -> Iterator[Read]:
    """Yield the documents of paths as a run reads them; ``title`` names the reading for who waits."""
    clock = Clock()
    with Session(settings, SessionOptions(list(paths), quiet=True), title=title) as session:
        for chunk, signed in session.signed_chunks(paths, Signer(settings)):
            yield clock.read(chunk, signed)
        if session.stop.signal:
            raise Failure(session.ended, "interrupted: an audit of a part of the documents would say nothing")


def _misses(drawn: Sequence[Drawn], neighbours: Neighbours, paths: Sequence[str], settings: Settings) -> list[Miss]:
    """Return the misses with the most similar neighbours, and why each pair was not found."""
    missed = np.flatnonzero(neighbours.has_earlier & ~neighbours.is_found).tolist()
    missed.sort(key=lambda n: -neighbours.nearest[n].similarity)
    config = Config(**{name: getattr(settings, name) for name in Config.model_fields})
    dedup, out = Deduplicator(config.model_copy(update={"window_seconds": None, "lateness_seconds": 0.0})), []
    for n in missed[:_MISSES]:
        similarity, older = neighbours.nearest[n]
        why = dedup.explain(older._replace(id="older"), drawn[n].document._replace(id="newer"))
        chance = float(probabilities(config.tuning, np.array([similarity]))[1][0])
        out.append(Miss(older, drawn[n].document, similarity, why.reason, chance))
    shared = {drawn[n].place: at for at, n in enumerate(missed[:_MISSES]) if out[at].reason == "pair"}
    for at, reason in _replayed({place: out[at] for place, at in shared.items()}, paths, config, settings):
        out[shared[at]] = out[shared[at]]._replace(reason=reason)
    return out


def _replayed(
    misses: Mapping[int, Miss], paths: Sequence[str], config: Config, settings: Settings
) -> Iterator[tuple[int, str]]:
    """Add the documents again, and yield why each miss (by the place of its newer document) was not found when it came:
    two documents alone know neither limits of candidates nor what has left the window."""
    if not misses:
        return
    matcher, signer, left = Matcher(config), Signer(config), len(misses)
    for read in _readings(paths, settings):
        begin, places = 0, read.places.tolist()
        for n in [*(n for n, place in enumerate(places) if place in misses), len(places)]:
            with step(matcher.table):
                added = [read.documents[at] for at in range(begin, n)]
                matcher.match(signer.sign(added).batch, probe=False)
            if n < len(places):
                begin, left, miss = n, left - 1, misses[places[n]]
                yield places[n], explain(matcher, signer, miss.older.id, miss.newer, miss.older.collection).reason
            if not left:
                return


def sentence_of(miss: Miss) -> str:
    """Return why a pair was not found, in words."""
    if miss.reason == "pair":
        return "they share a bucket, and nothing that is known hid them: the older one may have left a window by bytes"
    by_chance = miss.reason in _BY_CHANCE and not math.isnan(miss.chance)
    chance = f"; {100 * min(miss.chance, 1.0):.1f} % of such pairs are found" if by_chance else ""
    return EXPLANATIONS[miss.reason] + chance


def summary_of(audited: Audit, kind: str, settings: Settings) -> dict[str, Any]:
    """Return plain values; an unknown value is null."""
    values: dict[str, Any] = {
        "contents": audited.contents, "sampled": audited.sampled, "threshold": settings.threshold,
        "documents" if kind == "pairs" else "verdicts": {"recall": audited.recall._asdict(), "units": audited.units},
    }  # fmt: skip
    if kind == "pairs":
        values["pairs"] = {"recall": audited.pairs._asdict(), "effective_units": round(audited.effective_units, 1)}
    else:
        values["verdicts"] |= {"precision": audited.precision._asdict(), "dropped": audited.dropped}
    values["misses"] = [
        {
            "older": miss.older.id, "newer": miss.newer.id, "similarity": round(miss.similarity, 4),
            "reason": miss.reason, "sentence": sentence_of(miss), "older_text": miss.older.text,
            "newer_text": miss.newer.text,
        }
        for miss in audited.misses
    ]  # fmt: skip
    return {**values, "late": audited.late, "left_out": audited.left_out}


def line_of(audited: Audit, kind: str) -> str:
    """Return the figures of documents as a sentence, for the end of a summary."""
    value, low, high = audited.recall
    what = "have a pair" if kind == "pairs" else "are dropped"
    whose = "an earlier neighbour" if kind == "pairs" else "an earlier kept neighbour"
    if not audited.units:
        return f"audit: none of {audited.sampled:,} contents has {whose}"
    return (
        f"audit of {audited.sampled:,} of {audited.contents:,} contents: of {audited.units:,} with {whose}, "
        f"{value:.4f} {what} ({low:.4f} to {high:.4f})"
    )
