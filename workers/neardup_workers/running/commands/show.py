"""``neardup show``: the texts of pairs side by side, with the passages that both have in colour.

The pairs are those whose similarity is nearest to the threshold, in order of similarity: there a reader sees whether it
is right. What both have is the parts that the scheme found, and in a part, or where the scheme knows none, a longest
common subsequence of words (``neardup.pairs.explanations.passages``). Of a long piece the middle is left out. With
``novelty``, new words of the newer text are marked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import typer
from rich.console import Console

from neardup.deduplicator import Deduplicator
from neardup.documents.document import Document
from neardup.pairs.explanations.explain import explain
from neardup_workers.doing.session.whole import whole
from neardup_workers.outside.display.side_by_side import PairLine, nearest, side_by_side
from neardup_workers.outside.options.judging import ShowOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import json_objects
from neardup_workers.outside.settings.files import Settings, fields_of

# Width of the table where standard output is no terminal.
_COLUMNS = 120


def run(options: ShowOptions, settings: Settings) -> None:
    """Print the pairs. Raises ``Failure`` for files that cannot be used, and for documents without texts."""
    if fields_of(settings).kind != "text":
        raise Failure(Exit.USAGE, f"show compares texts, but documents of {settings.scheme} bring none: read the pairs")
    left_out = Counter[str]()
    chosen = nearest(_pairs(options.pairs, left_out), settings.threshold, options.number)
    if not chosen:
        raise Failure(Exit.UNUSABLE, f"{options.pairs} holds no pair: give the output of neardup run")
    texts = _texts(settings, options.paths, {(pair.collection, id_) for pair in chosen for id_ in pair[:2]})
    if not any((pair.collection, id_) in texts for pair in chosen for id_ in pair[:2]):
        raise Failure(
            Exit.UNUSABLE,
            f"no PATH holds a document of the pairs that {options.pairs} has, such as {chosen[0].older!r}: give the "
            "documents that run read",
        )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _COLUMNS)
    comparing = Deduplicator(settings)
    for pair in chosen:
        older, newer = (texts.get((pair.collection, id_)) for id_ in pair[:2])
        if older is not None and newer is not None:
            both = Document("older", older), Document("newer", newer)
            explained = explain(comparing.matcher, comparing.signer, *both, once=True)
            console.print(side_by_side(pair, older, newer, explained))
        else:
            left_out["pairs of documents that no PATH holds"] += 1
    for reason, count in left_out.items():
        typer.echo(f"left out: {count:,} {reason}")


def _pairs(path: str, left_out: Counter[str]) -> Iterator[PairLine]:
    for line in json_objects(path, left_out):
        older, newer, similarity, collection = (line.get(name) for name in PairLine._fields)
        if isinstance(older, str) and isinstance(newer, str) and isinstance(similarity, int | float):
            yield PairLine(older, newer, float(similarity), collection)
        else:
            left_out["lines of pairs without older, newer and similarity"] += 1


def _texts(settings: Settings, paths: list[str], ids: set[tuple[str | None, str]]) -> dict[tuple[str | None, str], str]:
    """Return the texts of some ids, with their collections; of several versions the last one."""
    texts: dict[tuple[str | None, str], str] = {}
    with whole(settings, paths) as session:
        for document in session.documents(paths):
            named = document.collection, document.id
            if named in ids:
                texts[named] = document.text
    return texts
