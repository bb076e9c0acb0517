"""The representative of a cluster: the member that a page shows. It may change; verdicts do not.

A member has a *rank*, a number or none. The representative is the member of the highest rank; of equal ranks, the first
to join, so without ranks it is the original. A later version of a member with another rank replaces the earlier one.

A cluster keeps the ``BEST_MAX`` best members, so that the next one can follow when the representative is removed. If
all of them are removed, the cluster has no representative until a document joins. So the state of a cluster is bounded,
and the representative depends on the order of arrival only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document

# What a representative may be, in addition to the name of a field whose greatest number wins.
FIRST, LONGEST = "first", "longest"
# Members that a cluster keeps for the time after the removal of its representative.
BEST_MAX = 4
# The rank of a member without a number.
NO_RANK = math.nan


class Member(NamedTuple):
    """A member of a cluster: its place, its id, and its rank, ``NO_RANK`` for none."""

    place: int
    id: str
    rank: float = NO_RANK


def ranks_of(documents: Sequence[Document], representative: str) -> npt.NDArray[np.float64]:
    """Return the ranks of n documents, ``float64[n]``: ``NO_RANK`` with ``first``, the length with ``longest``, else
    ``Document.rank``.

    >>> ranks_of([Document("a", "four"), Document("b", rank=2.0)], "longest").tolist()
    [4.0, 0.0]
    """
    if representative == FIRST:
        return np.full(len(documents), NO_RANK)
    if representative == LONGEST:
        return np.array([length_of(document) for document in documents], np.float64)
    return np.array([NO_RANK if document.rank is None else document.rank for document in documents], np.float64)


def length_of(document: Document) -> float:
    """Return the number of characters of a text, or of tokens, components or fields."""
    for value in (document.text, document.tokens, document.vector, document.fields):
        if value is not None and len(value):
            return float(len(value))
    return 0.0


def join(best: tuple[Member, ...], member: Member) -> tuple[Member, ...]:
    """Return the best members of a cluster after a document has joined, best first.

    >>> join((Member(0, "a", 2.0), Member(1, "b", 1.0)), Member(2, "c", 1.5))[1].id
    'c'
    """
    order = _order(member)
    for one in best:
        if one.id == member.id:
            if _order(one) == order:
                return best
            best = without(best, member.id)
            break
    at = len(best) if order == -math.inf else sum(_order(one) >= order for one in best)
    return (*best[:at], member, *best[at:])[:BEST_MAX]


def without(best: tuple[Member, ...], id_: str) -> tuple[Member, ...]:
    """Return the best members of a cluster after the removal of an id."""
    return tuple(one for one in best if one.id != id_)


def _order(member: Member) -> float:
    return -math.inf if math.isnan(member.rank) else member.rank
