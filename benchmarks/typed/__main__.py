"""``python -m benchmarks.typed [--set SET] [--write FILE] [PROGRAM]...``: programs that drop near-duplicates.

Each is in an environment of its own. All of a set run one after another on the same documents; each runs once before on
a few, so that no first start, with what it compiles, is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.typed.data import FAR, SETS, THRESHOLD, Pairs, near_duplicates
from benchmarks.typed.programs import PEERS, Peer, Run, installed, lines_typed, parsed, print_table, run
from neardup import Document

_WARM_DOCUMENTS = 100
_TABLES = ("texts", "titles")  # the others take hours, and text-dedup 28 GB of memory
_TRUTH_DOCUMENTS = 200_000  # of larger sets the exact join would take hours: only time and memory
HEAD = (
    "| program | s | MB | lines typed | kept | left, characters | left, words | dropped below .8 | below .6 |",
    "|---|---|---|---|---|---|---|---|---|",
)


def row_of(peer: Peer, title: str, documents: Sequence[Document], truth: dict[str, Pairs], done: Run) -> str:
    """The row of a program: its cost, and what it kept and dropped against the exact pairs of each kind, if given.

    A pair of near-duplicates is *left* if both are kept. A dropped document is *below* a similarity if no kept document
    has it with this one, by either kind of shingle.
    """
    kept = [document.id in done.kept for document in documents]
    near = [[pair for pair, similarity in pairs.items() if similarity >= THRESHOLD] for pairs in truth.values()]
    best = list(map(float, kept))
    for pairs in truth.values():
        for (a, b), similarity in pairs.items():
            for one, other in ((a, b), (b, a)):
                best[one] = max(best[one], similarity * kept[other])
    found = [
        *(f"{sum(kept[a] and kept[b] for a, b in pairs):,} of {len(pairs):,}" for pairs in near),
        *(f"{sum(similarity < bound for similarity in best):,}" for bound in (THRESHOLD, FAR)),
    ] if truth else [""] * 4  # fmt: skip
    cells = (
        title, f"{done.seconds:.1f}", f"{done.resident / 1e6:,.0f}",
        lines_typed(peer.script), f"{sum(kept):,}", *found,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def rows_of(names: Sequence[str], documents: list[Document], environments: Path, seconds_max: float) -> Iterator[str]:
    """The rows of programs over the same documents; one that cannot run has a row that says why."""
    truth = near_duplicates(documents) if len(documents) <= _TRUTH_DOCUMENTS else {}
    for name in names:
        peer = PEERS[name]
        try:
            title, environment = installed(peer, environments)
            run(peer, documents[:_WARM_DOCUMENTS], environment, seconds_max)
            done = run(peer, documents, environment, seconds_max)
        except RuntimeError as error:
            said = str(error).replace("|", "/")
            yield f"| {peer.title} | {said} | | {lines_typed(peer.script)} | | | | | |"
        else:
            yield row_of(peer, title, documents, truth, done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into a document if it is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed", description=__doc__)
    parser.add_argument("--set", action="append", choices=SETS, help=f"{' and '.join(_TABLES)} by default")
    parser.add_argument("--documents", type=int, help="of each set at most")
    options = parsed(parser, PEERS, arguments)
    for name in options.set or _TABLES:
        documents = SETS[name](options.data)[: options.documents]
        rows = rows_of(options.names, documents, options.environments, options.seconds)
        print_table(options, f"peers-{name}", HEAD, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
