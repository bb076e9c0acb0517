"""``python -m benchmarks.typed.lost [--data FOLDER] [--write FILE] [PROGRAM]...``: what a drop loses.

Each program reads a whole stream as its user types it. People have read pairs of that stream: of some the newer
document repeats the older one (label C), the others say something new. A pair counts as dropped if its newer document
is not among those that a program kept; if a program keeps any one of those that are alike, also if its older one is
not. *Precision* is the fraction of the dropped pairs that are copies, *recall* the fraction of the copies that are
dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.typed.programs import PEERS, Peer, installed, parsed, print_table, run
from neardup import Document

COPY = "C"
_OTHERS = ("datasketch", "text-dedup", "datatrove", "rensa", "semhash", "fastsketchlsh")
PROGRAMS: dict[str, Peer] = {
    "neardup": PEERS["neardup"],
    "news-off": Peer("`--preset news --novelty off`", "neardup_news_off.sh"),
    "news-numbers": Peer("`--preset news --novelty numbers`", "neardup_news_numbers.sh"),
    "news": Peer("`--preset news`", "neardup_news.sh"),
    **{name: PEERS[name] for name in _OTHERS},
}


class Judged(NamedTuple):
    """Pairs of a stream that people judged: the folder of the stream, and the file of pairs in it."""

    title: str
    folder: str
    pairs: str


# The pairs were drawn at random from what ``dedup --preset news`` did before it asked what is new: two sets from what
# it dropped for its overlap, one from what it kept and what shares runs with an older report.
SETS: tuple[Judged, ...] = (
    Judged("wire", "reuters_wire", "dropped.jsonl"),
    Judged("blurbs", "itn_multilingual", "judged.jsonl"),
    Judged("cut copies", "reuters_wire", "kept.jsonl"),
)
HEAD = (
    f"| program | {' | '.join(one.title for one in SETS)} |",
    "|---" * (len(SETS) + 1) + "|",
)


def scored(peer: Peer, kept: set[str], pairs: Iterable[dict[str, Any]]) -> str:
    """Precision and recall of a program that kept these documents, and how many it dropped."""
    sides = ("newer",) if peer.first else ("newer", "older")
    judged = [(any(pair[side] not in kept for side in sides), pair["label"] == COPY) for pair in pairs]
    dropped, copies = (sum(pair[side] for pair in judged) for side in (0, 1))
    right = judged.count((True, True))
    precision = f"{right / dropped:.3f}" if dropped else "-"
    return f"{precision}/{right / max(1, copies):.3f} ({dropped})"


def rows_of(names: Sequence[str], data: Path, environments: Path, seconds_max: float) -> Iterator[str]:
    """The rows of programs; one that cannot run has a row that says why.

    Raises:
        FileNotFoundError: a set is not in the folder ``data``.
    """
    streams = {folder: documents_of(data / folder / "docs.jsonl") for folder in {one.folder for one in SETS}}
    judged = [(one.folder, list(rows_in(data / one.folder / one.pairs))) for one in SETS]
    for name in names:
        peer, kept = PROGRAMS[name], {}
        title = peer.title
        try:
            title, environment = installed(peer, environments)
            for folder, documents in streams.items():
                kept[folder] = run(peer, documents, environment, seconds_max).kept
        except RuntimeError as error:
            yield f"| {title} | {str(error).replace('|', '/')} {'| ' * len(SETS)}".rstrip()
        else:
            yield f"| {title} | {' | '.join(scored(peer, kept[folder], pairs) for folder, pairs in judged)} |"


def documents_of(path: Path) -> list[Document]:
    """The documents of a stream, in their order. Raises ``FileNotFoundError``."""
    return [Document(row["id"], row["text"], row.get("timestamp")) for row in rows_in(path)]


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of JSON Lines. Raises ``FileNotFoundError``."""
    return map(json.loads, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it into a document if it is named; without the sets say so, and change nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed.lost", description=__doc__)
    options = parsed(parser, PROGRAMS, arguments)
    try:
        rows = rows_of(options.names, options.data, options.environments, options.seconds)
        print_table(options, "lost", HEAD, rows)
    except FileNotFoundError as error:
        sys.stderr.write(f"what was lost: not run: {error.filename} is not there; --data names the folder of sets\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
