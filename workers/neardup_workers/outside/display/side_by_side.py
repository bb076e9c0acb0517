"""Two texts side by side, with what both have in colour and new words marked; and the pairs nearest to a threshold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from neardup.documents.document import Explanation
from neardup.documents.pieces import Marked, Novelty, Passage
from neardup.pairs.explanations.passages import passages
from neardup_workers.outside.process.printable import printable

# Characters of a passage that are shown; of a longer one, the first and the last half of them.
_SHOWN = 240
_CUT = " […] "
# Kind of a passage -> its style.
_STYLES = {"both": "cyan", "first": "bold red", "second": "bold green"}
_NEW = "reverse"
# Pieces of a text with their styles. Joined they are the text.
Styled = list[tuple[str, str]]


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


def side_by_side(pair: PairLine, older: str, newer: str, explained: Explanation | None = None) -> Table:
    """Return the two texts as columns: what both have in one colour, what one has in another; with an explanation, only
    the parts that the scheme found count as common, and what the newer text adds is marked and stands in the title.

    >>> table = side_by_side(PairLine("a", "b", 0.5), "a red house", "a blue house")
    >>> [str(column.header) for column in table.columns], [str(column._cells[0]) for column in table.columns]
    (['a', 'b'], ['a red house', 'a blue house'])
    """
    pieces, added = ((), None) if explained is None else (explained.sides, explained.novelty)
    sides = (Text(), Text())
    whole = passages(older, newer) if explained is None else explained.passages
    styled = _of_parts(*pieces) if pieces else _styled(whole)
    for text, style in styled[0]:
        sides[0].append(_shown(text), style)
    at = 0
    for text, style in styled[1]:
        for part, is_new in _pieces(text, at, added):
            sides[1].append(_shown(part), f"{style} {_NEW if is_new else ''}")
        at += len(text)
    said = "" if added is None else f", said {added.said:.4f}, new numbers {added.new_numbers}"
    table = Table(title=f"similarity {pair.similarity:.4f}{said}", expand=True)
    for id_ in pair[:2]:
        table.add_column(Text(printable(id_)), ratio=1, overflow="fold")
    table.add_row(*sides)
    return table


def _styled(found: Sequence[Passage]) -> tuple[Styled, Styled]:
    """Return both texts in pieces with their styles, from their passages."""
    first = [(passage.text, _STYLES[passage.kind]) for passage in found if passage.kind != "second"]
    return first, [(passage.text, _STYLES[passage.kind]) for passage in found if passage.kind != "first"]


def _of_parts(older: Sequence[Marked], newer: Sequence[Marked]) -> tuple[Styled, Styled]:
    """Return both texts in pieces with their styles: those of a part as texts of their own, others as of one text."""
    texts = [{piece.passage: piece.text for piece in side if piece.passage is not None} for side in (older, newer)]
    inside = {
        number: _styled(passages(texts[0].get(number, ""), texts[1].get(number, "")))
        for number in {**texts[0], **texts[1]}
    }
    sides: tuple[Styled, Styled] = ([], [])
    for n, (side, kind) in enumerate(zip((older, newer), ("first", "second"), strict=True)):
        for piece in side:
            sides[n].extend([(piece.text, _STYLES[kind])] if piece.passage is None else inside[piece.passage][n])
    return sides


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
