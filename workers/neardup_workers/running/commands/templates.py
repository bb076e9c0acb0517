"""``neardup passages --templates``: lists the texts that a corpus repeats, for option ``templates`` of scheme passages.

It counts in how many contents each selected hash of scheme passages stands, over the whole corpus and by source: a copy
of a document counts once. The corpus is read twice: the second reading takes, from the first document that has them,
the text from the first to the last hash of each run of repeated hashes, and what half of the documents with these
hashes have around it. Counting takes 12 bytes a hash, and sorting them three times as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from neardup.features.texts.normalize import normalize
from neardup.pairs.signing import Signed, Signer
from neardup.schemes.interface import ragged_values
from neardup.schemes.kinds.passages import PassagePlan
from neardup.schemes.signatures.winnowing import POSITION_BITS, WINDOW_MAX
from neardup_workers.doing.session.session import Session, judged
from neardup_workers.doing.session.whole import whole
from neardup_workers.outside.options.judging import PassagesOptions
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.output import STANDARD
from neardup_workers.outside.outputs.sources import sources_of
from neardup_workers.outside.outputs.verdict_lines import encoded
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings

# A hash is a template of a source from so many contents and so large a part of its contents on.
_SOURCE_CONTENTS, _SOURCE_FRACTION = 8, 0.2


class Repeated(NamedTuple):
    """Hashes that a corpus repeats, ascending: in how many contents each stands, and the position among ``names`` of
    the source of which it is the largest part (-1 for none) with that part."""

    hashes: npt.NDArray[np.uint64]
    contents: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]
    fractions: npt.NDArray[np.float64]
    names: Sequence[str]

    def line(self, position: int) -> dict[str, Any]:
        """Return what is known of one of them."""
        source = int(self.sources[position])
        of = {"source": self.names[source], "source_fraction": round(float(self.fractions[position]), 4)}
        return {"documents": int(self.contents[position]), **(of if source >= 0 else {})}


def templates(options: PassagesOptions, settings: Settings) -> Exit:
    """Count, and write the templates; returns the exit code. Raises ``Failure``."""
    if not options.templates:
        raise Failure(Exit.USAGE, "passages answers one question so far: add --templates")
    if "-" in options.paths:
        raise Failure(Exit.USAGE, "passages --templates reads its input twice: name files, not standard input")
    with Session(settings, options, prints=options.output is None, sources=True) as session:
        repeats = repeated(*_hashes(session, settings), options.documents)
        lines = sorted(_texts(settings, options.paths, repeats), key=lambda line: (-line["documents"], line["text"]))
        with LinesFile(STANDARD if options.output is None else options.output, "the templates") as output:
            output.write(b"".join(encoded(line) + b"\n" for line in lines))
        session.report.say(
            f"{len(lines):,} templates of {session.report.documents:,} documents, "
            f"{session.report.refused.total():,} refused"
        )
    return session.ended


def repeated(
    hashes: npt.NDArray[np.uint64], sources: npt.NDArray[np.int32], counts: npt.NDArray[np.int64],
    names: Sequence[str], contents_min: int,
) -> Repeated:  # fmt: skip
    """Return the hashes of at least ``contents_min`` contents, or of 8 and a fifth of a source.

    Each content has each of its hashes once, with the position of its source among ``names``; the empty name is no
    source. ``counts`` are the contents of each source.
    """
    order = np.lexsort((sources, hashes))
    hashes, sources = hashes[order], sources[order]
    first = np.flatnonzero(np.r_[True, (hashes[1:] != hashes[:-1]) | (sources[1:] != sources[:-1])][: len(hashes)])
    numbers = np.diff(np.append(first, len(hashes)))
    named = np.array([name != "" for name in names], np.bool_)
    parts = np.where(named[sources[first]], numbers / np.maximum(counts[sources[first]], 1), 0.0)
    parts[numbers < _SOURCE_CONTENTS] = 0.0
    begins = np.flatnonzero(np.r_[True, hashes[first][1:] != hashes[first][:-1]][: len(first)])
    totals = np.add.reduceat(numbers, begins) if len(begins) else numbers
    best = np.lexsort((-parts, np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(first))))))[begins]
    chosen = (totals >= contents_min) | (parts[best] >= _SOURCE_FRACTION)
    best = best[chosen]
    positions = np.where(parts[best] > 0, sources[first][best], -1)
    return Repeated(hashes[first][begins][chosen], totals[chosen], positions, parts[best], names)


def _hashes(session: Session, settings: Settings) -> tuple[Any, Any, Any, list[str]]:
    """Read the corpus: the hashes of its contents, their sources, the contents of each source, and its name."""
    numbers: dict[str, int] = {"": 0}
    counts: list[int] = [0]
    seen: set[bytes] = set()
    hashes, sources = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    for chunk, signed in session.signed_chunks(session.options.paths, Signer(settings)):
        entries, refused = judged(chunk, signed)
        named = [name for position, name in enumerate(sources_of(entries)) if position not in refused]
        fresh = []
        for row, name in enumerate(named):
            content = signed.batch.contents[row].tobytes()
            if content not in seen:
                seen.add(content)
                fresh.append(row)
                number = numbers.setdefault(name, len(numbers))
                counts += [0] * (number == len(counts))
                counts[number] += 1
        values, starts = ragged_values(signed.batch.evidence.select(np.array(fresh, np.int64)), np.uint64)
        rows = np.repeat(np.arange(len(fresh)), np.diff(starts))
        order = np.lexsort((values >> POSITION_BITS, rows))
        once, rows = (values >> POSITION_BITS)[order], rows[order]
        kept = np.r_[True, (once[1:] != once[:-1]) | (rows[1:] != rows[:-1])][: len(once)]
        of = np.array([numbers[named[row]] for row in fresh], np.int32)
        hashes.append(once[kept])
        sources.append(of[rows[kept]])
    return np.concatenate(hashes), np.concatenate(sources), np.array(counts), list(numbers)


def _texts(settings: Settings, paths: Sequence[str], repeats: Repeated) -> list[dict[str, Any]]:
    """Read the corpus again, and return each run of repeated hashes of which one was in none before."""
    runs: list[_Run] = []
    missing = np.ones(len(repeats.hashes), np.bool_)
    edges: tuple[dict[int, list[_Run]], ...] = ({}, {})
    plan = cast(PassagePlan, settings.plan)
    form, characters_max = plan.normal_form, plan.gram + plan.window - 1
    with whole(settings, paths) as session:
        for chunk, signed in session.signed_chunks(paths, Signer(settings)):
            rows = np.setdiff1d(np.arange(len(chunk.documents)), [refusal.position for refusal in signed.refusals])
            for row, held, positions in _repeating(signed, repeats):
                document = chunk.documents[int(rows[row])]
                text = normalize(document.text, form)
                if len(text) < plan.gram:
                    continue  # the text has one hash, of all of it
                edges_of_series = np.flatnonzero(np.diff(np.r_[False, held >= 0, False].astype(np.int8)))
                for first, last in edges_of_series.reshape(-1, 2).tolist():
                    if missing[held[first:last]].any():
                        missing[held[first:last]] = False
                        rarest = held[first:last][np.argmin(repeats.contents[held[first:last]])]
                        line = {**repeats.line(int(rarest)), "example": document.id}
                        end = positions[last - 1] + plan.gram
                        run = _Run(text, positions[first], end, line, Counter(), Counter())
                        runs.append(run)
                        edges[0].setdefault(int(held[first]), []).append(run)
                        edges[1].setdefault(int(held[last - 1]), []).append(run)
                for hash_, position in zip(held.tolist(), positions, strict=True):
                    for run in edges[0].get(hash_, ()):
                        run.before[_agreeing(run.text[: run.begin][::-1], text[:position][::-1], characters_max)] += 1
                    for run in edges[1].get(hash_, ()):
                        run.after[_agreeing(run.text[run.end :], text[position + plan.gram :], characters_max)] += 1
    return [{"text": run.whole(), **run.line} for run in runs]


class _Run(NamedTuple):
    """A run of repeated hashes in the normalised text of its example, from ``begin`` to ``end``; the rest of its line;
    and on both sides how many characters more the documents share with it (number -> documents)."""

    text: str
    begin: int
    end: int
    line: dict[str, Any]
    before: Counter[int]
    after: Counter[int]

    def whole(self) -> str:
        """The text, with what half of the documents have around it; a blank at its end takes one character more, so
        that the text is its own normal form."""
        begin, end = self.begin - _of_half(self.before), self.end + _of_half(self.after)
        return self.text[begin - (begin > 0 and self.text[begin] == " ") : end + (self.text[end - 1] == " ")]


def _of_half(numbers: Counter[int]) -> int:
    """The greatest number that half of the documents reach."""
    ordered = sorted(numbers.elements(), reverse=True)
    return ordered[(len(ordered) - 1) // 2]


def _agreeing(one: str, other: str, characters_max: int) -> int:
    """How many characters two texts begin with alike; no more than a passage certainly has."""
    pairs = zip(one[:characters_max], other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _repeating(signed: Signed, repeats: Repeated) -> Iterator[tuple[int, npt.NDArray[np.int64], list[int]]]:
    """Yield the rows that have repeated hashes, each with the positions among these of its hashes (-1 for others), and
    the positions in its text."""
    if not len(repeats.hashes):
        return
    values, starts = ragged_values(signed.batch.evidence, np.uint64)
    at = np.minimum(np.searchsorted(repeats.hashes, values >> POSITION_BITS), len(repeats.hashes) - 1)
    held = np.where(repeats.hashes[at] == values >> POSITION_BITS, at, -1)
    steps = (values & np.uint64(WINDOW_MAX)).astype(np.int64)
    for row, (begin, end) in enumerate(pairwise(starts.tolist())):
        if (held[begin:end] >= 0).any():
            yield row, held[begin:end], np.cumsum(steps[begin:end]).tolist()
