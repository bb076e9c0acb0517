"""The k most similar documents of each document: probe, score all candidates, keep the best k.

A search has no threshold: every document that shares a bucket is ranked, however low its similarity. So ``threshold``
and ``recall`` have another meaning here: bands and rows are chosen so that a neighbour of similarity ``threshold`` is
found with probability ``recall``. Each neighbour comes with the probability at its own similarity. An exact scheme
finds all neighbours at or above the threshold, and no others.

The copies of a content are one neighbour, the newest eligible copy, so copies do not fill the ranks.
``bucket_candidates_max`` bounds the candidates of a bucket. A probe stops after ``probe_candidates_max`` only if this
setting is given, because the best candidate may be the last.

Source: Chakrabarti, Mining the Web, the closest K documents; Mining of Massive Datasets, 3.1.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.document import Neighbour, check_type
from neardup.documents.ids import bare_ids, collections_of, same_collection
from neardup.errors import ConfigError
from neardup.pairs.batches import Batch, batch_items
from neardup.pairs.json_lines import escape_unprintable, named_collection
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, judge
from neardup.pairs.pipeline import SLICE_CANDIDATES, Matcher
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import probabilities
from neardup.window import NO_LIMIT, Candidates
from neardup.window.steps import step


class Ranked(NamedTuple):
    """Consecutive items of a batch with their neighbours, how many candidates were scored for them, and their
    collections, if there are any."""

    ids: list[str]
    neighbours: list[list[Neighbour]]
    candidates: int
    collections: list[str | None] | None = None


def check_ranks(config: Config, k: int) -> None:
    """Raise ``ConfigError`` if ``k`` is below 1, or if the scheme has no probability to find a neighbour."""
    check_type(k, int, "the number of neighbours is a whole number")
    if k < 1:
        raise ConfigError(f"top is {k}, but there must be a neighbour to name: set it to 1 or more")
    if not (config.tuning.bands or SCHEMES[config.scheme].exact):
        raise ConfigError(
            f"scheme {config.scheme} cannot rank: its candidates do not depend on their similarity; take a scheme of "
            "sets or of vectors"
        )


def chance_found(config: Config, similarity: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probability that a neighbour of each similarity (``float64[m]``, in [0, 1]) is found, ``float64[m]``.

    >>> import numpy as np
    >>> chance_found(Config(threshold=0.8), np.array([0.5, 0.8, 1.0])).round(2).tolist()
    [0.14, 0.99, 1.0]
    """
    return probabilities(config.tuning, similarity)[0]


def best(
    items: npt.NDArray[np.int32], similarity: npt.NDArray[np.float64], slots: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.int64]:
    """The positions of the ``k`` most similar candidates of each item, by item, best first, then newest first."""
    order = np.lexsort((-slots, -similarity, items))
    owners = items[order]
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    return np.asarray(order[rank < k])


def ranked(matcher: Matcher, batch: Batch, k: int, *, add: bool = False) -> Iterator[Ranked]:
    """Yield the items of a batch with their ``k`` most similar earlier documents, in slices; ``add`` adds them then.

    With ``add`` a slice is a step of its own; an exception undoes the slice that raised it alone.
    """
    config, table = matcher.config, matcher.table
    limits = table.limits._replace(probe_candidates=config.probe_candidates_max or NO_LIMIT, ranking=True)
    items, end = batch_items(batch, config), 0
    while end < batch.size:
        first = end
        with step(table) if add else nullcontext():
            met = matcher.probe_add(batch, items, add=add, first=first, candidates_max=SLICE_CANDIDATES, limits=limits)
            end = met.end
            neighbours = _neighbours(matcher, batch, met, k, first)
        ids, collections = batch.ids_at(np.arange(first, end)), None
        if config.separate:
            ids, collections = bare_ids(ids), collections_of(ids)
        yield Ranked(ids, neighbours, len(met.items), collections)


def _neighbours(matcher: Matcher, batch: Batch, met: Candidates, k: int, first: int) -> list[list[Neighbour]]:
    """The best candidates of the items from ``first`` on."""
    if not len(met.items):
        return [[] for _ in range(first, met.end)]
    config = matcher.config
    score_min = config.tuning.score_min if SCHEMES[config.scheme].exact else 0.0
    judged = judge(
        matcher.common(batch, met.items, met.slots), met.identical, score_min, config.buckets_shared_min,
        exact_score=config.tuning.exact_score,
    )  # fmt: skip
    rows = judged.pairs
    if config.separate:
        rows = rows[same_collection(batch.ids_at(met.items[rows]), matcher.table.ids(met.slots[rows]))]
    rows = rows[best(met.items[rows], judged.similarity[rows], met.slots[rows], k)]
    similarity = judged.similarity[rows]
    chances = np.where(met.identical[rows], 1.0, chance_found(config, similarity))
    ids = matcher.table.ids(met.slots[rows])
    named = list(map(Neighbour, bare_ids(ids) if config.separate else ids, similarity.tolist(), chances.tolist()))
    starts = np.searchsorted(met.items[rows], np.arange(first, met.end + 1)).tolist()
    return [named[a:b] for a, b in pairwise(starts)]


def encode_nearest(
    ids: Sequence[str], neighbours: Sequence[Sequence[Neighbour]], collections: Sequence[str | None] | None = None
) -> bytes:
    """Documents with their neighbours as lines of compact JSON, one each: id, nearest (id, similarity, probability),
    and the collection, if it has one.

    Numbers are rounded to 4 digits. The lines are safe to show, see ``escape_unprintable``.

    >>> encode_nearest(["a"], [[Neighbour("b", 0.93, 0.99912)]])
    b'{"id":"a","nearest":[{"id":"b","similarity":0.93,"probability":0.9991}]}\\n'
    """
    rows = zip(ids, neighbours, collections or [None] * len(ids), strict=True)
    return escape_unprintable(b"".join([_encode_nearest(*row) for row in rows]))


def _encode_nearest(id_: str, neighbours: Sequence[Neighbour], collection: str | None) -> bytes:
    nearest = [
        {
            "id": one.id,
            "similarity": round(one.similarity, SIMILARITY_DIGITS),
            "probability": round(one.probability, SIMILARITY_DIGITS),
        }
        for one in neighbours
    ]
    line = {"id": id_, "nearest": nearest, **named_collection(collection)}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
