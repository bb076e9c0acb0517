"""The answer of the service about a document, and its pairs as an answer lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from neardup.documents.document import CollectionPair, Neighbour, Pair
from neardup.pairs.json_lines import relation_values
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, turned
from neardup.stories.verdicts.fields import NAMES


class Answer(NamedTuple):
    """The answer about one document: the reason of its refusal (a key of ``REASONS``), or its verdict and its pairs.

    ``status`` is ``original``, ``update`` or ``duplicate``. With ``repeated``, it is the status of an earlier version
    with the same content. ``pairs`` are the earlier near-duplicates, with similarity and common buckets. ``time`` and
    ``date`` are in seconds; a ``late`` document came after its window, and has no effect. ``nearest`` are the most
    similar documents, if requested. ``source`` tells the document, at ``url``, with a headline. ``collection`` is that
    of the document, and of all that its answer names.
    """

    id: str
    refused: str | None = None
    status: str | None = None
    duplicate_of: str | None = None
    similarity: float | None = None
    cluster: int | None = None
    related: int | None = None
    previous: int | None = None
    matched: int | None = None
    place: int | None = None
    repeated: bool = False
    pairs: tuple[Pair, ...] = ()
    time: float | None = None
    date: float | None = None
    late: bool = False
    nearest: tuple[Neighbour, ...] = ()
    source: str | None = None
    url: str | None = None
    title: str | None = None
    collection: str | None = None


# What an answer, an event and a stored version show of a document, in this order.
SHOWN = (*NAMES, "place", "repeated", "source", "url", "title")


def newest(id_: str, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of one document, the most similar first, with the document as the newer one."""
    if not pairs:  # so it is for most documents
        return ()
    return tuple(sorted((_turned(id_, pair) for pair in pairs), key=lambda pair: -pair.similarity))


def _turned(id_: str, pair: Pair) -> Pair:
    """Return a pair of a document with the document as the newer one."""
    if pair.newer == id_:
        return pair
    relation = None if pair.relation is None else turned(pair.relation, pair.newer)
    return CollectionPair(pair.newer, id_, pair.similarity, pair.buckets, pair.collection, relation)


def pair_values(pair: Pair) -> dict[str, Any]:
    """Return a pair of a document as values of JSON: the other document, and what both share."""
    shared = {} if pair.relation is None else relation_values(pair.relation)
    return {
        "id": pair.older,
        "similarity": round(pair.similarity, SIMILARITY_DIGITS),
        "buckets": pair.buckets,
        **shared,
    }
