"""Two texts side by side, with the passages that both have in colour; and the pairs nearest to a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from neardup.pairs.explanations.passages import passages
from neardup_workers.outside.process.printable import printable

# Characters of a passage that are shown; of a longer one, the first and the last half of them.
_SHOWN = 240
_CUT = " […] "
# Kind of a passage -> its style.
_STYLES = {"both": "cyan", "first": "bold red", "second": "bold green"}


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


def side_by_side(pair: PairLine, older: str, newer: str) -> Table:
    """Return the two texts as columns: what both have in one colour, what one has in another.

    >>> table = side_by_side(PairLine("a", "b", 0.5), "a red house", "a blue house")
    >>> [str(column.header) for column in table.columns], [str(column._cells[0]) for column in table.columns]
    (['a', 'b'], ['a red house', 'a blue house'])
    """
    sides = Text(), Text()
    for passage in passages(older, newer):
        text = passage.text
        shown = text if len(text) <= _SHOWN + len(_CUT) else text[: _SHOWN // 2] + _CUT + text[-_SHOWN // 2 :]
        if passage.kind != "second":
            sides[0].append(printable(shown), _STYLES[passage.kind])
        if passage.kind != "first":
            sides[1].append(printable(shown), _STYLES[passage.kind])
    table = Table(title=f"similarity {pair.similarity:.4f}", expand=True)
    for id_ in pair[:2]:
        table.add_column(Text(printable(id_)), ratio=1, overflow="fold")
    table.add_row(*sides)
    return table
