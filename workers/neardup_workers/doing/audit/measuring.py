"""What a run missed, measured on a sample of contents with their earlier neighbours.

The documents are read twice. The first reading draws two samples: of the contents that the run found, and of those that
it did not find although they can have an earlier neighbour (``sample``). The second one compares their possible
neighbours with them, exactly, by the reading, the measure and the window of the settings. The samples have contents,
not pairs: pairs come in lumps, and an interval over lumps is too narrow.
"""

from __future__ import annotations

import math
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from neardup.deduplicator import Deduplicator
from neardup.documents.document import Document
from neardup.pairs.batches import Batch, select
from neardup.pairs.comparing import is_novel
from neardup.pairs.estimates.intervals import Stratum, effective_units, recall_of, share_of
from neardup.pairs.evaluation.judging import Proportion, proportion
from neardup.pairs.explanations.explain import EXPLANATIONS, explain
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup.schemes.theory.tuning import probabilities
from neardup.window.steps import step
from neardup_workers.doing.audit.claims import ClaimedPairs, ClaimedVerdicts
from neardup_workers.doing.audit.neighbours import NearestNeighbour, Neighbours, plan_of
from neardup_workers.doing.audit.sample import Drawn, FirstReading, Part, divided, signing_of
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.session.whole import whole
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
    ``late`` contents are not counted. ``new`` contents of the sample were kept because what they say is new."""

    sampled: int
    contents: int
    recall: Proportion
    units: int
    pairs: Proportion
    effective_units: float
    precision: Proportion
    dropped: int
    misses: list[Miss]
    new: int
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
    settings, left_out = with_file_window(settings), Counter[str]()
    signing = signing_of(settings, options.draw)
    claims: ClaimedPairs | ClaimedVerdicts
    if options.pairs is not None:
        claims = ClaimedPairs(options.pairs, left_out, separate=settings.separate)
    else:
        claims = ClaimedVerdicts(str(options.verdicts), left_out, separate=settings.separate)
    first, late = FirstReading(settings, signing), 0
    found, others = (Part(options.sample, options.draw) for _ in range(2))
    with whole(settings, options.paths, "" if quiet else "audit, reading 1 of 2") as session:
        for chunk, signed in session.signed_chunks(options.paths, Signer(signing.settings)):
            read = first.read(chunk, signed)
            said = claims.see(read)
            can_be_unit = first.can_be_unit(read, said.kept)
            promised = read.is_first & read.in_time & ~said.updates
            late += int((read.is_first & ~read.in_time).sum())
            found.add(read, np.flatnonzero(promised & said.found))
            others.add(read, np.flatnonzero(promised & can_be_unit & ~said.found))
    claims.check()
    of_found, of_others = divided(options.sample, found.size, others.size)
    drawn = [*found.drawn(of_found), *others.drawn(of_others)]
    sample = [(one, claims.named(one)) for one in drawn]
    novel = options.verdicts is not None and is_novel(settings)
    neighbours = Neighbours(sample, settings, first.facts(), has_keys=signing.has_keys, novel=novel)
    with whole(settings, options.paths, "" if quiet else "audit, reading 2 of 2") as session:
        for read_again in session.unsigned_chunks(options.paths):
            neighbours.add(read_again.documents)
    units = neighbours.has_earlier
    strata = (
        Stratum(int(units[:of_found].sum()), of_found, found.size),
        Stratum(int(units[of_found:].sum()), of_others, others.size),
    )
    pairs, effective = _UNKNOWN, 0.0
    confirmed = Stratum(0, 0, 0)
    if isinstance(claims, ClaimedPairs):
        pairs, effective = _of_pairs(neighbours, strata)
    else:
        dropped = [n for n in range(of_found) if claims.is_duplicate(drawn[n])]
        confirmed = Stratum(int(neighbours.confirmed[dropped].sum()), len(dropped), claims.duplicates)
    missed = [n for n in range(of_found, len(drawn)) if units[n]]
    new = int((neighbours.near & ~units)[of_found:].sum())
    return Audit(
        len(drawn), first.contents, recall_of(*strata, signing.seen_min), int(units.sum()), pairs, effective,
        share_of(confirmed, signing.seen_min), confirmed.sampled,
        _misses([(drawn[n], neighbours.nearest[n]) for n in missed], options.paths, settings, quiet=quiet), new,
        late, dict(left_out),
    )  # fmt: skip


def _of_pairs(neighbours: Neighbours, strata: Sequence[Stratum]) -> tuple[Proportion, float]:
    """Return the fraction of the pairs that was found, and the effective units. A content of the sample stands for as
    many as its part has for each drawn one."""
    weights = np.concatenate([np.full(one.sampled, one.size / max(1, one.sampled)) for one in strata])
    true = weights * neighbours.pairs
    effective = effective_units(true)
    if not effective:
        return _UNKNOWN, 0.0
    value = float((weights * neighbours.found).sum() / true.sum())
    low_high = proportion(round(effective * value), round(effective))
    if effective < _UNITS_MIN:
        low_high = _UNKNOWN
    return low_high._replace(value=value), effective


def check_truth(
    options: SessionOptions, settings: Settings, output: str | None, option: str, *, others: Mapping[str, bool]
) -> None:
    """Raise ``Failure`` if a run cannot be audited at its end: without the file of pairs or verdicts (``output``), or
    with one of the ``others``, options that exclude an audit."""
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
    asked = AuditOptions(paths=list(session.options.paths), pairs=pairs, verdicts=verdicts)
    session.report.end_bar()
    try:
        audited = audit(asked, settings, quiet=session.options.quiet)
    except KeyboardInterrupt:
        session.stop.signal = signal.SIGINT
        return
    kind = "pairs" if pairs is not None else "verdicts"
    session.measured["audit"] = summary_of(audited, kind, settings)
    session.notes.append(line_of(audited, kind))


def _misses(
    missed: list[tuple[Drawn, NearestNeighbour]], paths: Sequence[str], settings: Settings, *, quiet: bool
) -> list[Miss]:
    """Return the misses with the most similar neighbours, and why each pair was not found."""
    missed = sorted(missed, key=lambda one: -one[1].similarity)[:_MISSES]
    config = Config(**{name: getattr(settings, name) for name in Config.model_fields})
    dedup, out = Deduplicator(config.model_copy(update={"window_seconds": None, "lateness_seconds": 0.0})), []
    for drawn, (similarity, older) in missed:
        why = dedup.explain(older._replace(id="older"), drawn.document._replace(id="newer"))
        chance = float(probabilities(config.tuning, np.array([similarity]))[1][0])
        out.append(Miss(older, drawn.document, similarity, why.reason, chance))
    shared = {drawn.place: at for at, (drawn, _) in enumerate(missed) if out[at].reason == "pair"}
    if shared:
        asked = {place: out[at] for place, at in shared.items()}
        for place, reason in _replayed(asked, paths, config, settings, quiet=quiet):
            out[shared[place]] = out[shared[place]]._replace(reason=reason)
    return out


def _replayed(
    misses: Mapping[int, Miss], paths: Sequence[str], config: Config, settings: Settings, *, quiet: bool
) -> Iterator[tuple[int, str]]:
    """Add the documents again, and yield why each miss (by the place of its newer document) was not found when it came:
    two documents alone know neither limits of candidates nor what has left the window."""
    matcher, signer, place, left = Matcher(config), Signer(config), 0, sorted(misses, reverse=True)
    with whole(settings, paths, "" if quiet else f"audit, why {len(misses)} were missed") as session:
        for _, (batch, *_) in session.signed_chunks(paths, signer):
            begin, last = 0, place + batch.size
            while left and left[-1] < last:
                end = left[-1] - place
                _added(matcher, batch, begin, end)
                begin, miss = end, misses[left[-1]]
                yield left.pop(), explain(matcher, signer, miss.older.id, miss.newer, miss.older.collection).reason
            if not left:
                session.report.advance(session.reader.bytes_read)
                return
            _added(matcher, batch, begin, batch.size)
            place = last


def _added(matcher: Matcher, batch: Batch, begin: int, end: int) -> None:
    with step(matcher.table):
        matcher.match(select(batch, np.arange(begin, end)), probe=False)


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
        values["verdicts"] |= {"precision": audited.precision._asdict(), "dropped": audited.dropped, "new": audited.new}
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
    new = f"; {audited.new:,} others are near one and new" if audited.new else ""
    if not audited.units:
        return f"audit: none of {audited.sampled:,} contents has {whose}{new}"
    return (
        f"audit of {audited.sampled:,} of {audited.contents:,} contents: of {audited.units:,} with {whose}, "
        f"{value:.4f} {what} ({low:.4f} to {high:.4f}){new}"
    )
