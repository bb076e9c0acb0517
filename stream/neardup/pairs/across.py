"""Pairs across collections: documents of different ones meet, those of one never do.

Two lists of customers, or what two agencies sent, are compared with each other, not each with itself. A signer names
documents by their collections (``neardup.documents.ids``). Here the collection is no part of keys and contents: all
documents meet, and pairs within a collection are left out. A copy does not stand for the contents before it, because
the two may be of one collection.

Source: Mining of Massive Datasets, 3.8.1 and 3.8.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neardup.documents.ids import collections_of, salts, same_collection, separated_contents
from neardup.errors import ConfigError
from neardup.pairs.batches import CONTENT_HALF, Batch
from neardup.pairs.pair_rule import Matches
from neardup.pairs.pipeline import Matcher, Slice
from neardup.pairs.quotes import covered
from neardup.pairs.shards import table_limits
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.window import again


class Across(NamedTuple):
    """Pairs across collections: ``matches`` names the collections of the newer documents."""

    matches: Matches
    older_collections: list[str | None]


def matcher_across(config: Config, *, candidates: bool = False) -> Matcher:
    """Return a matcher of all collections, for batches of ``bare_batch``; ``pairs_across`` reads its slices. Raises
    ``ConfigError`` if ``collection_field`` is not set."""
    if not config.separate:
        raise ConfigError("pairs across collections need collection_field: name the field that has the collection")
    limits = table_limits(config, SCHEMES[config.scheme])._replace(by_content=False)
    return Matcher(config.model_copy(update={"collection_field": None}), candidates=candidates, limits=limits)


def bare_batch(batch: Batch) -> Batch:
    """Return a signed batch with content hashes that do not depend on the collection."""
    salt = salts(batch.ids, batch.id_starts)
    return batch._replace(contents=separated_contents(batch.contents, salt))  # the inverse of itself


def pairs_across(matcher: Matcher, batch: Batch, part: Slice) -> Across:
    """Return the pairs of a slice of a ``bare_batch`` whose documents are of different collections. ``matcher`` is that
    of ``matcher_across``, in the step that matched the slice, or after it."""
    matches = part.matches
    rows = np.flatnonzero(~same_collection(matches.older, matches.newer))
    items, slots = part.items[rows], part.slots[rows]
    identical = batch.contents[items, CONTENT_HALF] == again.contents(matcher.table, slots)
    older, newer = ([side[row] for row in rows.tolist()] for side in (matches.older, matches.newer))
    found = Matches(
        older, newer, matches.older_times[rows], matches.newer_times[rows],
        np.where(identical, 1.0, matches.similarity[rows]), matches.buckets[rows],
        None if matches.shared is None else matches.shared.select(rows),
        signals=None if matches.signals is None else matches.signals[rows],
    )  # fmt: skip
    return Across(covered(found.within_collections(), items), collections_of(older))
