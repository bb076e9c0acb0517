"""Scores of records, field by field: weights, penalties of edit distances, nicknames.

Each field has a weight, the points of two equal values (100 by default: three fields make a score of 300). Unequal
values lose ``penalty`` points for each square of their edit distance (insertions and deletions), never more
than the weight. Forms of one name ("bill" and "william") count as one edit. A field that neither record has is
left out of the sum; a field that only one record has is left out too, or earns a fixed fraction of its weight.

Source: Mining of Massive Datasets, 3.8.2 (scores, nicknames), 3.5.5 (edit distance).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Indel
from rapidfuzz.process import cpdist

from neardup.errors import ConfigError
from neardup_textbook.records.nicknames import NICKNAMES

WEIGHT_DEFAULT = 100.0
# Points for each square of the edit distance. With 4, one replaced letter (two edits) leaves 84 of 100
# points, and five insertions and deletions (bill and william) leave none.
PENALTY_DEFAULT = 4.0
# Largest weight and penalty: sums and products stay exact enough to compare.
NUMBER_MAX = 1e9
# Most edits that are counted: the limit of the library of edit distances.
_EDITS_MAX = (1 << 31) - 1

Floats = npt.NDArray[np.float64]
Values = tuple[str, ...]


class Field(NamedTuple):
    """A scored field: its name, the points of equal values, and the points lost for each square of the distance."""

    name: str
    weight: float
    penalty: float


class Nicknames(NamedTuple):
    """Groups of equivalent words: the groups of each word, and the word that represents each group."""

    groups: dict[str, frozenset[int]]
    names: tuple[str, ...]


def parse_fields(items: Sequence[str], penalty: float = PENALTY_DEFAULT) -> tuple[Field, ...]:
    """Parse fields written as ``name``, ``name:weight`` or ``name:weight:penalty``.

    Raises ``ConfigError`` for no field, a repeated field, a weight that is not positive, and a negative penalty.

    >>> parse_fields(["name", "phone:50:1.5"])
    (Field(name='name', weight=100.0, penalty=4.0), Field(name='phone', weight=50.0, penalty=1.5))
    """
    if not any(items):
        raise ConfigError("option fields is empty, but a record needs a field to be scored: name at least one")
    fields: list[Field] = []
    for item in items:
        name, *numbers = item.split(":")
        try:
            weight, cost = [*map(float, numbers), *(WEIGHT_DEFAULT, penalty)[len(numbers) :]]
        except ValueError:
            raise ConfigError(
                f"option fields={item!r} must be name, name:weight or name:weight:penalty, as in name:100:4"
            ) from None
        if not name or not (0 < weight <= NUMBER_MAX) or not (0 <= cost <= NUMBER_MAX):
            raise ConfigError(
                f"option fields={item!r} must have a name, a weight above 0 and a penalty of at least 0, both at most "
                f"{NUMBER_MAX:g}: write it as in name:100:4"
            )
        fields.append(Field(name, weight, cost))
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"option fields has {twice!r} twice, but a field is scored once: leave one out")
    return tuple(fields)


def parse_nicknames(groups: Sequence[str]) -> Nicknames:
    """Parse groups written as ``william=bill=will`` (the first word represents the group), or names of tables of
    groups.

    Raises ``ConfigError`` for a group of fewer than two words and for an unknown table.

    >>> parse_nicknames(["william=bill", "patricia=pat", "patrick=pat"]).groups["pat"]
    frozenset({1, 2})
    """
    numbers_of: dict[str, set[int]] = {}
    names: list[str] = []
    listed = [group for item in groups for group in NICKNAMES.get(item, (item,) if item else ())]
    for group in listed:
        words = [word.strip() for word in group.split("=")]
        if len(words) < 2 or not all(words):
            raise ConfigError(
                f"records:nicknames={group!r} must be two words or more, as in william=bill=will, or the name of a "
                f"table: {', '.join(NICKNAMES)}"
            )
        for word in words:
            numbers_of.setdefault(word, set()).add(len(names))
        names.append(words[0])
    return Nicknames({word: frozenset(numbers) for word, numbers in numbers_of.items()}, tuple(names))


def score(
    a: Sequence[Values],
    b: Sequence[Values],
    fields: Sequence[Field],
    nicknames: Nicknames,
    missing: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the points and the counted weights of m pairs of records, ``float64[m]`` each; the same for (b, a).

    ``missing`` is the fraction of a weight, 0 to 1, for a field that only one record has; ``None`` leaves it out.

    >>> fields, names = parse_fields(["name", "address", "phone"]), parse_nicknames(["william=bill"])
    >>> score([("bill", "1 elm st", "555")], [("william", "1 elm st", "555")], fields, names)
    (array([296.]), array([300.]))
    """
    points, weights = np.zeros(len(a)), np.zeros(len(a))
    for at, field in enumerate(fields):
        left, right = [record[at] for record in a], [record[at] for record in b]
        has_left, has_right = (np.array(list(map(bool, side)), np.bool_) for side in (left, right))
        both, one = has_left & has_right, has_left ^ has_right
        distance = edits(left, right, nicknames, _edits_that_count(field)).astype(np.float64)
        earned = np.maximum(field.weight - field.penalty * distance**2, 0.0)
        points += np.where(both, earned, 0.0)
        weights += np.where(both, field.weight, 0.0)
        if missing is not None:
            points += np.where(one, missing * field.weight, 0.0)
            weights += np.where(one, field.weight, 0.0)
    return points, weights


def similarity(points: Floats, weights: Floats, least: float = 0.0) -> Floats:
    """Return the score as a fraction of the counted weights, ``float64[m]`` in [0, 1]; 0 if no field counts, or fields
    of less weight than ``least``."""
    return np.divide(points, weights, out=np.zeros(len(points)), where=(weights > 0) & (weights >= least))


def edits(a: Sequence[str], b: Sequence[str], nicknames: Nicknames, most: int | None = None) -> npt.NDArray[np.int32]:
    """Return edit distances ``int32[m]`` by insertions and deletions; another form of the same name is one edit.

    A distance above ``most`` may be returned as ``most + 1``.

    >>> edits(["bill", "bill"], ["william", "will i am"], parse_nicknames(["william=bill"])).tolist()
    [1, 7]
    """
    out = cpdist(a, b, scorer=Indel.distance, dtype=np.int32, score_cutoff=most)
    for i in np.flatnonzero(out > 1).tolist():
        swapped = _swap_nicknames(a[i], b[i], nicknames)
        if swapped is not None:
            left, right, swaps = swapped
            out[i] = min(int(out[i]), swaps + Indel.distance(left, right))
    return np.asarray(out)


def _edits_that_count(field: Field) -> int | None:
    """Return the greatest distance that leaves a point; beyond it the score is 0."""
    if field.penalty == 0:
        return None
    edits = math.sqrt(field.weight) / math.sqrt(field.penalty)  # the quotient is infinite for a penalty near 0
    return min(math.ceil(edits), _EDITS_MAX)


def _swap_nicknames(a: str, b: str, nicknames: Nicknames) -> tuple[str, str, int] | None:
    """Return two values with words of one group made equal, and how many; ``None`` if there are none."""
    left, right = sorted((a, b))
    words, others = left.split(" "), right.split(" ")
    swaps = 0
    for i, word in enumerate(words):
        groups = nicknames.groups.get(word)
        if groups is None or word in others:
            continue
        for j, other in enumerate(others):
            common = groups & nicknames.groups.get(other, frozenset())
            if common and other not in words:
                words[i] = others[j] = nicknames.names[min(common)]
                swaps += 1
                break
    return (" ".join(words), " ".join(others), swaps) if swaps else None
