"""The answer of the service about a document, and its pairs as an answer lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neardup.stream.documents import Neighbour, Pair


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


def newest(id_: str, found: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of one document, the most similar first, with the document as the newer one."""
    if not found:  # so it is for most documents
        return ()
    turned = [
        Pair(pair.older if pair.newer == id_ else pair.newer, id_, pair.similarity, pair.buckets) for pair in found
    ]
    return tuple(sorted(turned, key=lambda pair: -pair.similarity))
