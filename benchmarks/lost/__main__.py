"""``python -m benchmarks.lost [--data FOLDER] [--write FILE] [PROGRAM]...``: what a drop finds, loses and costs.

Each program reads a whole stream as its user types it. A pair counts as dropped if its newer document is not among
those that a program kept; if a program keeps any one of those that are alike, also if its older one is not.
*Precision* is the fraction of the dropped pairs that are copies, *recall* the fraction of the copies that are dropped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lost.changed import COPIES, NEWS, Changed, stream
from benchmarks.lost.judged import COPY, LOST, SETS, documents_of, rows_in
from benchmarks.measure import ONE_THREAD
from benchmarks.typed.programs import PEERS, THRESHOLD, Peer, installed, parsed, print_table, run
from neardup import Document
from neardup.pairs.estimates.intervals import clopper_pearson

_NEWS = "from .45"
_BANDS = "C5"  # sets of 5 characters, 128 values
PROGRAMS: dict[str, Peer] = {
    "neardup": PEERS["neardup"]._replace(settings=f"{_BANDS}, .8"),
    "news-off": Peer("`--preset news --novelty off`", "neardup_news_off.sh", settings=_NEWS),
    "news-numbers": Peer("`--preset news --novelty numbers`", "neardup_news_numbers.sh", settings="no new number"),
    "news": Peer("`--preset news`", "neardup_news.sh", settings="no new number, few words"),
    "exact": Peer("exact hash", "dedup_exact.py.txt", settings="case, blanks folded"),
    "simhash": Peer("simhash", "dedup_simhash.py.txt", ("simhash",), settings="3 of 64 bits"),
    "tfidf": Peer("scikit-learn, tf-idf", "dedup_tfidf.py.txt", ("scikit-learn",), settings="cosine .8"),
    "datasketch": PEERS["datasketch"]._replace(settings=f"{_BANDS}, .8"),
    "text-dedup": PEERS["text-dedup"]._replace(settings="words, .8"),
    "datatrove": PEERS["datatrove"]._replace(settings="its own"),
    "rensa": PEERS["rensa"]._replace(settings=f"{_BANDS}, 16 bands"),
    "fastsketchlsh": PEERS["fastsketchlsh"]._replace(settings=f"{_BANDS}, 16 bands"),
    "semhash": PEERS["semhash"]._replace(settings="its own, vectors of WordLlama"),
}
JUDGED_HEAD = (
    f"| program | {' | '.join(one.title for one in SETS)} |",
    "|---" * (len(SETS) + 1) + "|",
)
_WARM_DOCUMENTS = 100


class Streams(NamedTuple):
    """What programs read: the judged streams by folder with the pairs of each set, and the changed articles; or why
    not."""

    judged: dict[str, list[Document]]
    pairs: list[list[dict[str, Any]]]
    changed: Changed | None


def streams_in(data: Path, articles: int | None, lacking: list[str]) -> Streams:
    """The streams of a folder of sets; what is not there is appended to ``lacking``."""
    judged, pairs, changed = {}, [], None
    try:
        judged = {folder: documents_of(data / folder / "docs.jsonl") for folder in {one.folder for one in SETS}}
        pairs = [list(rows_in(data / one.folder / one.pairs)) for one in SETS]
    except FileNotFoundError as error:
        judged = {}
        lacking.append(f"judged pairs: not run: {error.filename} is not there")
    try:
        changed = stream(data, articles)
    except FileNotFoundError as error:
        lacking.append(f"changed articles: not run: {error.filename} is not there; benchmarks.labelled.bring brings it")
    return Streams(judged, pairs, changed)


def judged_cell(peer: Peer, kept: set[str], pairs: Iterable[dict[str, Any]]) -> str:
    """Precision and recall with their intervals, and how many of each kind of news are lost, by its letter."""
    sides = ("newer",) if peer.first else ("newer", "older")
    judged = [(any(pair[side] not in kept for side in sides), pair["label"]) for pair in pairs]
    dropped = [label for is_dropped, label in judged if is_dropped]
    copies = sum(label == COPY for _, label in judged)
    right = dropped.count(COPY)
    lost = [f"{letter}{dropped.count(letter)}" for letter in LOST if letter in dropped]
    return f"{fraction(right, len(dropped))}/{fraction(right, copies)} {','.join(lost)}".rstrip()


def fraction(found: int, units: int) -> str:
    """A fraction with the interval of 95 percent; a dash for one of nothing."""
    if not units:
        return "-"
    estimate, low, high = clopper_pearson(found, units)
    return f"{estimate:.3f}({low:.2f}-{high:.2f})"


def changed_head(changed: Changed) -> tuple[str, str]:
    """The head of the table of changed articles; each kind with how many there are."""
    kinds = [f"{kind}, {len(changed.ids[kind])}" for kind in (*COPIES, *NEWS)]
    return f"| program | settings | {' | '.join(kinds)} | firsts | us/document |", "|---" * (len(kinds) + 4) + "|"


def changed_cells(peer: Peer, kept: set[str], changed: Changed) -> list[str]:
    """Of each kind the percentage that is dropped, and how many first versions are.

    Of a program that may keep the newer one of a pair, a version is dropped too if the first one is.
    """
    cells = []
    for kind in (*COPIES, *NEWS):
        ids = changed.ids[kind]
        lost = [id_ not in kept or (not peer.first and id_.replace("changed", "first") not in kept) for id_ in ids]
        cells.append(f"{100 * sum(lost) / max(1, len(ids)):.0f}")
    firsts = {document.id for document in changed.documents if document.id.startswith("first")}
    return [*cells, str(len(firsts - kept)) if peer.first else "-"]


def cost(
    peer: Peer, documents: Sequence[Document], environment: Path, seconds_max: float, turns: int
) -> tuple[set[str], float]:
    """The ids that a program kept, and microseconds of processor time of a document, of the least of so many turns,
    without those of the start."""
    few = documents[:_WARM_DOCUMENTS]
    runs = [[run(peer, part, environment, seconds_max) for part in (few, documents)] for _ in range(turns)]
    start, whole = (min(turn[part].processor for turn in runs) for part in (0, 1))
    return runs[0][1].kept, max(0.0, whole - start) / max(1, len(documents) - len(few)) * 1e6


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Programs that start meanwhile have one core, and are asked to use one thread."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    cores = os.sched_getaffinity(0)
    os.environ.update(ONE_THREAD)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def rows_of(
    names: Sequence[str], streams: Streams, environments: Path, seconds_max: float, turns: int, at: str = THRESHOLD
) -> Iterator[tuple[str, str]]:
    """The rows of programs in both tables, at a threshold; a program that cannot run has rows that say why."""
    for name in names:
        peer = PROGRAMS[name]
        peer = peer._replace(threshold=at, settings=peer.settings.replace(THRESHOLD[1:], at.removeprefix("0")))
        title, changed = peer.title, streams.changed
        typed = f"[{peer.settings}](../benchmarks/typed/scripts/{peer.script})"
        try:
            title, environment = installed(peer, environments)
            kept = {
                folder: run(peer, documents, environment, seconds_max).kept
                for folder, documents in streams.judged.items()
            }
            found = [
                judged_cell(peer, kept[one.folder], pairs) for one, pairs in zip(SETS, streams.pairs, strict=False)
            ] if streams.judged else []  # fmt: skip
            first = f"| {' | '.join([title, *found])} |"
            second = [title, typed]
            if changed:
                left, microseconds = cost(peer, changed.documents, environment, seconds_max, turns)
                second += [*changed_cells(peer, left, changed), f"{microseconds:,.0f}"]
        except RuntimeError as error:
            said = str(error).replace("|", "/")
            first = f"| {title} | {said} |{' |' * (len(SETS) - 1)}"
            second = [title, typed, said, *[""] * (len(COPIES) + len(NEWS) + 1)]
        yield first, f"| {' | '.join(second)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into a document if it is named; of a set that is not there, say so."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lost", description=__doc__)
    parser.add_argument("--articles", type=int, help="of the changed articles, at most; all by default")
    parser.add_argument("--turns", type=int, default=2, help="of which the least is the cost of a document")
    parser.add_argument("--threshold", default=THRESHOLD, help=f"of programs whose script has {THRESHOLD}")
    options = parsed(parser, PROGRAMS, arguments)
    lacking: list[str] = []
    streams = streams_in(options.data, options.articles, lacking)
    sys.stderr.writelines(f"{line}; --data names the folder of sets\n" for line in lacking)
    if not streams.judged and not streams.changed:
        return 0
    with one_core():
        rows = []
        common = streams, options.environments, options.seconds, options.turns
        for row in rows_of(options.names, *common, options.threshold):
            sys.stderr.writelines(f"{line}\n" for line in row)
            rows.append(row)
    if streams.judged:
        print_table(options, "lost", JUDGED_HEAD, [first for first, _ in rows])
    if streams.changed:
        print_table(options, "changed", changed_head(streams.changed), [second for _, second in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
