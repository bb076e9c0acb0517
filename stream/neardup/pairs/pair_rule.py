"""The pair rule: which candidates are pairs, and which document of a pair is the older one.

``Matcher`` applies the rule to what its table finds; ``neardup batch`` applies it to what a database finds. Both
functions are pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import HALF, RELATIONS, SIGNALS, CollectionPair, Pair, Relation
from neardup.documents.ids import bare_ids, collections_of, strings_at
from neardup.machine.compile import inlined, kernel
from neardup.pairs.batches import Batch
from neardup.schemes.config import Config
from neardup.schemes.interface import AnyScheme, Common, Evidence, Plan, Shared, joined_shared
from neardup.schemes.rows import SCHEMES
from neardup.window import NO_TIME, BandTable, views
from neardup.window.counters import NEAR_DOCUMENTS, NEAR_PAIRS

# The greatest similarity of two different contents that is an estimate: the output has four digits, and 1 means a copy.
ESTIMATE_MAX = 0.9999
# Digits of fractions and similarities, where they are shown: the standard error of an estimate is .01 at best (4,096
# rows at .5).
SIMILARITY_DIGITS = 4


class Judged(NamedTuple):
    """The result of ``judge`` for m candidates.

    ``is_pair`` (``bool[m]``); ``similarity`` (``float64[m]``, in [0, 1]); ``keys`` (``int32[m]``): how many keys are
    common. Identical content has similarity 1 and at least 1 common key. ``signals`` (``uint8[m]``): the one that makes
    the pair, 0 for the text; empty where the scheme has one. ``pairs`` are the pairs, in order (``int64[k]``);
    ``is_near`` (``bool[m]``) which are pairs by ``text_min`` or a signal; ``is_cut``: a probe left candidates out.
    """

    is_pair: npt.NDArray[np.bool_]
    similarity: npt.NDArray[np.float64]
    keys: npt.NDArray[np.int32]
    signals: npt.NDArray[np.uint8]
    pairs: npt.NDArray[np.int64]
    is_near: npt.NDArray[np.bool_]
    is_cut: bool


# ``Judged(...)`` and others without a call of Python, which takes three times as long.
_new_judged = functools.partial(tuple.__new__, Judged)
# What ``judge`` counts in, where it counts nothing.
_UNCOUNTED = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)


class Matches(NamedTuple):
    """m pairs as columns: ids, event times in microseconds (``NO_TIME`` where a document has no time), similarity in
    [0, 1], number of common keys; where they share something, of the older and of the newer text, if the scheme knows;
    and their collections, if there are any; and which signal makes each (``uint8[m]``, 0 for the text), if there are
    several; and whether it is in the cover of its newer text (``bool[m]``), where that is known."""

    older: list[str]
    newer: list[str]
    older_times: npt.NDArray[np.int64]
    newer_times: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]
    buckets: npt.NDArray[np.int32]
    shared: Shared | None = None
    collections: list[str | None] | None = None
    signals: npt.NDArray[np.uint8] | None = None
    cover: npt.NDArray[np.bool_] | None = None

    def pairs(self) -> list[Pair]:
        """Return the columns as pairs."""
        if not self.older:
            return []
        columns = self.older, self.newer, self.similarity.tolist(), self.buckets.tolist()
        if self.collections is None and self.shared is None and self.signals is None:
            return list(map(_new_pair, zip(*columns, strict=True)))
        nothing = [None] * len(self.older)
        relations = nothing if self.shared is None else relations_of(self.shared, self.older)
        return list(map(CollectionPair, *columns, self.collections or nothing, relations, self.signal_names()))

    def signal_names(self) -> list[str | None]:
        """Return the signal that makes each pair, ``None`` for the text."""
        if self.signals is None:
            return [None] * len(self.older)
        return [SIGNALS[number - 1] if number else None for number in self.signals.tolist()]

    def select(self, rows: npt.NDArray[np.int64]) -> Matches:
        """Return some pairs, in the given order."""
        at = rows.tolist()
        return Matches(
            [self.older[row] for row in at], [self.newer[row] for row in at], self.older_times[rows],
            self.newer_times[rows], self.similarity[rows], self.buckets[rows],
            None if self.shared is None else self.shared.select(rows),
            None if self.collections is None else [self.collections[row] for row in at],
            None if self.signals is None else self.signals[rows],
            None if self.cover is None else self.cover[rows],
        )  # fmt: skip

    def within_collections(self) -> Matches:
        """Return the same with ids and collections apart, where the ids are full ids (``collection_ids``)."""
        return self._replace(
            older=bare_ids(self.older), newer=bare_ids(self.newer), collections=collections_of(self.newer)
        )


_new_pair, new_matches = functools.partial(tuple.__new__, Pair), functools.partial(tuple.__new__, Matches)
_NO_TIMES = np.empty(0, np.int64)
NO_MATCHES = Matches([], [], _NO_TIMES, _NO_TIMES, np.empty(0), np.empty(0, np.int32))


def joined(parts: Sequence[Matches]) -> Matches:
    """Return the pairs of several ``Matches`` one after the other."""
    older, newer, older_times, newer_times, similarity, buckets, *more = zip(*parts, strict=True)
    known, named, of_signals, covers = ([part for part in column if part is not None] for column in more)
    return Matches(
        [id_ for part in older for id_ in part], [id_ for part in newer for id_ in part],
        np.concatenate(older_times), np.concatenate(newer_times), np.concatenate(similarity), np.concatenate(buckets),
        joined_shared(known) if known else None, [name for part in named for name in part] if named else None,
        np.concatenate(of_signals) if of_signals else None, np.concatenate(covers) if covers else None,
    )  # fmt: skip


def judge(
    common: Common, identical: npt.NDArray[np.bool_], score_min: float, shared_min: int, *, exact_score: bool,
    text_min: float | None = None,
    of: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]] = _UNCOUNTED,
) -> Judged:  # fmt: skip
    """Decide which of m candidates are pairs.

    A candidate is a pair if its similarity is at least ``score_min`` and if it is identical content or the two items
    share at least ``shared_min`` keys and meet the conditions of the scheme. Two different keys share a chain of the
    table with probability 2^-41; then the evidence has no common key, and the candidate is no pair.

    Similarity 1 says that the contents are equal or, with an exact score, that the measure is 1. An estimate of 1
    between different contents becomes ``ESTIMATE_MAX``.

    Args:
        common: what the evidence of the m candidates has in common.
        identical: ``bool[m]``, true where the table found identical content.
        score_min: least similarity of a pair, in [0, 1].
        shared_min: least number of common keys, at least 1.
        exact_score: whether the similarities in ``common`` are exact; else they are estimates from sketches.
        text_min: similarity from which the text makes a pair and no other signal does, by default ``score_min``.
        of: the columns ``items`` and ``uncompared`` of the ``Candidates``, and the state of their table, where the
            near ones of different contents are counted, and their items.
    """
    m, greatest = len(identical), greatest_estimate(score_min, exact_score=exact_score)
    out = np.empty(m, np.uint8) if len(common.signals) else common.signals
    is_pair, similarity, keys = np.empty(m, np.bool_), np.empty(m), np.empty(m, np.int32)
    pairs, is_near = np.empty(m, np.int64), np.empty(m, np.bool_)
    bounds = score_min, score_min if text_min is None else text_min, greatest, shared_min
    count, is_cut = _judge(common, identical, *of, *bounds, is_pair, similarity, keys, out, pairs, is_near)
    return _new_judged((is_pair, similarity, keys, out, pairs if count == m else pairs[:count], is_near, is_cut))


@kernel(
    "const Common, const bool[], const i32[], const i32[], i64[], f64, f64, f64, i64, "
    "bool[], f64[], i32[], u8[], i64[], bool[]",
    locked=True,
    direct=True,
)
def _judge(
    common, identical, items, uncompared, state, least, text_least, greatest, shared_min,
    pairs, similarity, keys, signals, rows, is_near,
):  # fmt: skip
    """Fill in the columns of ``Judged``; return how many pairs there are, and whether a probe was cut. ``greatest`` is
    the greatest similarity of different contents."""
    count, last, is_cut = 0, np.int32(-1), False
    for i in range(len(identical)):
        related = common.conditions[i] and common.keys[i] >= shared_min
        similarity[i], keys[i] = judged(common.similarity[i], common.keys[i], identical[i], greatest)
        pairs[i] = (related or identical[i]) and similarity[i] >= least
        is_near[i] = pairs[i] and similarity[i] >= text_least
        if len(signals):
            by_text = identical[i] or similarity[i] >= text_least
            signals[i] = np.uint8(0) if by_text or not related else common.signals[i]
            if signals[i] > 0:
                pairs[i], is_near[i], similarity[i] = True, True, min(common.strengths[i], ESTIMATE_MAX)
        if pairs[i]:
            rows[count] = i
            count += 1
        if len(state):
            is_cut |= uncompared[i] != 0
            if is_near[i] and not identical[i]:
                last = count_near(state, items[i], last)
    return count, is_cut


@inlined
def judged(similarity, keys, identical, greatest):
    """Return the similarity and the number of common keys of a candidate, as they are reported."""
    # Contents that are equal agree in every key; some schemes have none for so small a content.
    return (1.0, max(keys, np.int32(1))) if identical else (min(similarity, greatest), keys)


@inlined
def count_near(state, item, last):
    """Count a pair of different contents of an item; ``last`` is the item of the one before. Return the item."""
    state[NEAR_PAIRS] += 1
    state[NEAR_DOCUMENTS] += item != last
    return item


def scored(common: Common, score_min: float, *, exact_score: bool) -> npt.NDArray[np.float64]:
    """Return the similarities of m pairs of different contents that are compared directly, ``float64[m]``; -1 for those
    that are no pair. No common key is needed; the other arguments are as for ``judge``."""
    similarity = np.minimum(common.similarity, greatest_estimate(score_min, exact_score=exact_score))
    return np.where(common.conditions & (similarity >= score_min), similarity, -1.0)


def by_signal(
    common: Common, similarity: npt.NDArray[np.float64], signals: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float64]:
    """Return the similarities of m pairs by the signal that makes each, ``float64[m]``: ``similarity`` where it is the
    text (0). That of another signal is never 1, which says that the contents are equal."""
    return np.where(signals > 0, np.minimum(common.strengths, ESTIMATE_MAX), similarity)


def greatest_estimate(score_min: float, *, exact_score: bool) -> float:
    """The greatest similarity of different contents: an estimate is never 1, unless only 1 makes a pair."""
    return 1.0 if exact_score else max(ESTIMATE_MAX, score_min)


def shared_of(
    scheme: AnyScheme, older: Evidence, newer: Evidence, identical: npt.NDArray[np.bool_], plan: Plan
) -> Shared | None:
    """Return where m pairs share something, of the older and of the newer text; ``None`` if the scheme does not know.
    ``identical`` ones share the whole text."""
    if scheme.shared is None or scheme.lengths is None:
        return None
    shared = scheme.shared(older, newer, plan)
    if not identical.any():
        return shared
    ends = scheme.lengths(older)
    zeros = np.zeros(len(ends), np.int64)
    whole = Shared(np.ones((len(ends), 2)), np.column_stack([zeros, ends] * 2), np.arange(len(ends) + 1))
    rows = np.where(identical, len(ends), 0) + np.arange(len(ends))
    return joined_shared([shared, whole]).select(rows)


def nearest_pairs(
    items: npt.NDArray[np.int32], slots: npt.NDArray[np.int64], similarity: npt.NDArray[np.float64], most: int | None
) -> npt.NDArray[np.int64]:
    """Return which of m pairs, in order of their items, are among the ``most`` (``None``: all) of their item, as
    positions in ascending order: the most similar ones, of equal ones those whose other document (``slots``) arrived
    first.

    >>> nearest_pairs(np.array([0, 0, 0, 1], np.int32), np.array([4, 2, 3, 2]), np.array([0.9, 0.9, 0.8, 0.8]), 1)
    array([1, 3])
    """
    if most is None or len(items) <= most:
        return np.arange(len(items))
    kept = np.empty(len(items), np.int64)
    return np.sort(kept[: _nearest(items, slots, similarity, most, kept)])


@kernel("const i32[], const i64[], const f64[], i64, i64[]")
def _nearest(items, slots, similarity, most, kept):
    """Write the positions of ``nearest_pairs`` to ``kept``, those of an item the best first; returns how many they are.
    Few of a flood come before the last of them."""
    end, first = 0, 0
    for i in range(len(items)):
        if i > 0 and items[i] != items[i - 1]:
            first = end
        at = end
        while at > first and comes_before(similarity, slots, i, kept[at - 1]):
            at -= 1
        if at - first == most:
            continue
        end += end - first < most
        for j in range(end - 1, at, -1):
            kept[j] = kept[j - 1]
        kept[at] = i
    return end


@inlined
def comes_before(similarity, slots, one, other):
    """Whether a pair is more similar than another, or as similar, and its other document arrived before."""
    return similarity[one] > similarity[other] or (similarity[one] == similarity[other] and slots[one] < slots[other])


def deciding(scheme: AnyScheme, similarity: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which pairs of these similarities can make a duplicate, ``bool[m]``.

    Where a scheme finds what texts share, only copies do: the rest of a dropped document would be lost.
    """
    return np.ones(len(similarity), np.bool_) if scheme.shared is None else similarity == 1.0


def deciding_parts(
    similarity: npt.NDArray[np.float64], newer: npt.NDArray[np.float64], part_min: float | None
) -> npt.NDArray[np.float64]:
    """Return how alike m pairs are for the decision about the newer text, ``float64[m]``; -1 if it stays. It goes if it
    is a copy (``similarity`` 1), or if ``part_min`` of it, unless that is ``None``, stands in the older one."""
    is_part = newer >= (2.0 if part_min is None else part_min)
    return np.where(similarity == 1.0, 1.0, np.where(is_part, np.minimum(newer, ESTIMATE_MAX), -1.0))


def relation_kinds(fractions: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """Return what the second text of each pair is to the first, ``int8[m]``, as a position in ``RELATIONS``;
    ``fractions`` as in ``Shared``."""
    first, second = np.round(fractions, SIMILARITY_DIGITS).T
    return np.where(second >= HALF, 0, np.where(first >= HALF, 1, 2)).astype(np.int8)


def relations_of(shared: Shared, ids: Sequence[str]) -> Iterator[Relation]:
    """Yield the relations of the second texts to the first ones, which have these ids; fractions have 4 digits."""
    rounded = np.round(shared.fractions, SIMILARITY_DIGITS).tolist()
    kinds, passages = relation_kinds(shared.fractions).tolist(), list(map(tuple, shared.spans.tolist()))
    bounds = pairwise(shared.starts.tolist())
    for kind, id_, (older, newer), (first, end) in zip(kinds, ids, rounded, bounds, strict=True):
        yield Relation(RELATIONS[kind], id_, older, newer, tuple(passages[first:end]))


def turned(relation: Relation, id_: str) -> Relation:
    """Return the relation of the earlier document to the other one, which has this id."""
    older, newer = relation.newer_fraction, relation.older_fraction
    (kind,) = relation_kinds(np.array([[older, newer]])).tolist()
    return Relation(RELATIONS[kind], id_, older, newer, tuple((c, d, a, b) for a, b, c, d in relation.passages))


def orient(arrived: Matches) -> Matches:
    """Order the two documents of each pair, which are in order of arrival, by event time; equal times, and a document
    without a time, change nothing."""
    older, newer, older_times, newer_times, _, _, shared, *_ = arrived
    swap = (newer_times < older_times) & (newer_times != NO_TIME) & (older_times != NO_TIME)
    if not swap.any():
        return arrived
    older, newer = list(older), list(newer)
    for i in np.flatnonzero(swap).tolist():
        older[i], newer[i] = newer[i], older[i]
    times = np.where(swap, newer_times, older_times), np.where(swap, older_times, newer_times)
    swapped = Matches(older, newer, *times, arrived.similarity, arrived.buckets, shared and shared.swapped(swap))
    return swapped._replace(collections=arrived.collections, signals=arrived.signals)


def named(
    table: BandTable, batch: Batch, items: npt.NDArray[np.int32], slots: npt.NDArray[np.int64],
    known: tuple[Any, ...], *, separate: bool,
) -> Matches:  # fmt: skip
    """Return pairs of items of a batch and documents of a table, in the step that found them, with ids and times, the
    older one by time first.

    ``known`` has all fields of ``Matches`` from ``similarity`` on; ``separate``: ids are full ids, of collections.
    """
    out = np.empty((6, len(items)), np.int64)
    turned = views.name_pairs(table.at(), slots, items, batch.id_starts, batch.times, out)
    matches = matches_of(table, batch, out, known, turned)
    return matches.within_collections() if separate else matches


def matches_of(
    table: BandTable, batch: Batch, names: npt.NDArray[np.int64], known: tuple[Any, ...], turned: int
) -> Matches:
    """Return the same of ``names`` (``put_names``); in ``turned`` pairs the newer document has the earlier time."""
    first, end, begin, last = names[:4].tolist()
    older, newer = strings_at(table.store.bytes.data, first, end), strings_at(batch.ids.data, begin, last)
    arrived = new_matches((older, newer, names[4], names[5], *known, None))
    return orient(arrived) if turned else arrived


def compares_directly(config: Config) -> bool:
    """Return whether two documents may be a pair without a common key: not where the keys are a part of the rule, and
    not by containment, because the stub of a document would swallow others."""
    scheme = SCHEMES[config.scheme]
    return scheme.direct and config.buckets_shared_min == 1 and config.measure != "containment"
