"""Pieces of texts, as explanations and verdicts show them."""

from typing import NamedTuple


class NewWord(NamedTuple):
    """A word or a number of a text that an earlier text does not have: as it stands in the given text, where it begins
    and ends there (code points), and whether it is a number or a word of correction."""

    text: str
    begin: int
    end: int
    is_number: bool


class Passage(NamedTuple):
    """A passage of two texts: ``kind`` is ``both`` for what they share, ``first`` or ``second`` for what one has."""

    kind: str
    text: str


class Marked(NamedTuple):
    """A piece of a text: ``passage`` is the number of the passage that it belongs to, from 0, ``None`` for none;
    ``exact`` says that the passage is equal letter by letter."""

    text: str
    passage: int | None = None
    exact: bool = False


class Novelty(NamedTuple):
    """What the newer of two texts adds: the part of it that the older one has said, and the least such part of a copy
    (``None`` where words do not count); how many of its numbers are new; whether it says something new; and, where its
    text is at hand, the new words as they stand there."""

    said: float
    said_min: float | None
    new_numbers: int
    is_new: bool
    new: tuple[NewWord, ...] = ()
