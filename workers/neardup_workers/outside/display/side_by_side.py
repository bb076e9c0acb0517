"""Two texts side by side, with the passages that both have in colour and new words marked; and the pairs nearest to a
threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from neardup.documents.pieces import Novelty
from neardup.pairs.explanations.passages import passages
from neardup_workers.outside.process.printable import printable

# Characters of a passage that are shown; of a longer one, the first and the last half of them.
_SHOWN = 240
_CUT = " […] "
# Kind of a passage -> its style.
_STYLES = {"both": "cyan", "first": "bold red", "second": "bold green"}
_NEW = "reverse"


class PairLine(NamedTuple):
    """A line of the pairs."""

    older: str
    newer: str
    similarity: float
    collection: str | None = None


def nearest(pairs: Iterator[PairLine], threshold: float, number: int) -> list[PairLine]:
    """Return the pairs whose similarity is nearest to the threshold, in order of similarity."""
    ordered = sorted(pairs, key=lambda pair: (abs(pair.similarity - threshold), pair[:3]))
    return sorted(ordered[:number], key=lambda pair: (pair.similarity, pair[:3]))


def side_by_side(pair: PairLine, older: str, newer: str, *, added: Novelty | None = None) -> Table:
    """Return the two texts as columns: what both have in one colour, what one has in another; with ``added``, what the
    newer one adds: its new words are marked, and the title says how much of it was said.

    >>> table = side_by_side(PairLine("a", "b", 0.5), "a red house", "a blue house")
    >>> [str(column.header) for column in table.columns], [str(column._cells[0]) for column in table.columns]
    (['a', 'b'], ['a red house', 'a blue house'])
    """
    sides, at = (Text(), Text()), 0
    for passage in passages(older, newer):
        if passage.kind != "second":
            sides[0].append(_shown(passage.text), _STYLES[passage.kind])
        if passage.kind != "first":
            for text, is_new in _pieces(passage.text, at, added):
                sides[1].append(_shown(text), f"{_STYLES[passage.kind]} {_NEW if is_new else ''}")
            at += len(passage.text)
    said = "" if added is None else f", said {added.said:.4f}, new numbers {added.new_numbers}"
    table = Table(title=f"similarity {pair.similarity:.4f}{said}", expand=True)
    for id_ in pair[:2]:
        table.add_column(Text(printable(id_)), ratio=1, overflow="fold")
    table.add_row(*sides)
    return table


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN + len(_CUT) else text[: _SHOWN // 2] + _CUT + text[-_SHOWN // 2 :]
    return printable(cut)


def _pieces(passage: str, begin: int, added: Novelty | None) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a passage that begins at ``begin`` of its text, and whether each is new."""
    at = 0
    for word in sorted(() if added is None else added.new, key=lambda word: word.begin):
        first, end = max(word.begin - begin, at), min(word.end - begin, len(passage))
        if first < end:
            yield passage[at:first], False
            yield passage[first:end], True
            at = end
    yield passage[at:], False
