"""Why two documents are a pair, or why not: the steps of a document on its way to a pair, one after the other.

The first step that fails is the reason. The steps: both documents are there; they have different ids; they lie in one
window; they share enough buckets; they meet the conditions of the scheme; they reach ``score_min``; the probe of the
newer document finds the older one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import SIGNALS, Document, Explanation, Relation, check_type
from neardup.documents.ids import bare_ids, stored_id
from neardup.documents.pieces import Passage
from neardup.pairs.batches import CONTENT_HALF, Batch, batch_items, id_columns, make_batch, table_items
from neardup.pairs.comparing import new_in, novelty_of
from neardup.pairs.explanations.given_texts import marked
from neardup.pairs.explanations.passages import passages
from neardup.pairs.pair_rule import Judged, judge, relations_of, shared_of
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signer
from neardup.schemes.interface import Evidence, fixed_evidence, regular_keys
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import probabilities
from neardup.window import NO_TIME, NO_WINDOW, Items, again

# Every reason of an explanation, and its sentence.
EXPLANATIONS: dict[str, str] = {
    "pair": "they are a pair",
    "unknown": "no version of the id is in the window: it was never added, or has left the window",
    "removed": "the id was removed",
    "refused": "the document cannot be used",
    "same_id": "versions of one id are no pair",
    "collection": "they are in different collections",
    "window": "their times differ by more than window_seconds",
    "late": "the newer one came later than lateness_seconds, when the older one had left the window",
    "no_bucket": "they share no bucket",
    "few_buckets": "they share fewer buckets than buckets_shared_min",
    "conditions": "a condition of the scheme does not hold",
    "score": "their similarity is below the least score of a pair",
    "copy": "one of them has a copy in the window, which makes the pair instead",
    "truncated": "the probe of the newer one reached a limit of candidates before it came to the older one",
    "decided": "the decision compared the two directly; they met in no probe, or not within window_seconds",
    "version": "the decision compared the newer one with another version of the older one",
}


class _Side(NamedTuple):
    """One of the two documents: a batch that holds it alone, its slot (-1: not stored), its time in microseconds.

    If there is nothing to compare, ``reason`` says why.
    """

    id: str
    collection: str | None
    batch: Batch | None = None
    slot: int = -1
    time: int = int(NO_TIME)
    reason: str | None = None


def explain(
    matcher: Matcher, signer: Signer, a: str | Document, b: str | Document, collection: str | None = None,
    *, once: bool = False,
) -> Explanation:  # fmt: skip
    """Return why two documents are a pair, or why not; see ``Deduplicator.explain``. The table stays as it is. With
    ``once`` the texts are not compared word by word where the scheme marks what they share."""
    for one in (a, b):
        check_type(one, (str, Document), "explain takes two ids or documents")
    sides = [_given(matcher, signer, x) if isinstance(x, Document) else _stored(matcher, x, collection) for x in (a, b)]
    # A document that is not stored counts as the newer one.
    if sides[1].slot >= 0 and (sides[0].slot < 0 or sides[1].slot < sides[0].slot):
        sides.reverse()
        a, b = b, a
    older, newer = sides
    texts = tuple(x.text for x in (a, b) if isinstance(x, Document) and isinstance(x.text, str))
    missing = next((side for side in sides if side.reason), None)
    if missing is not None or older.batch is None or newer.batch is None:
        side = missing or older
        return Explanation(older.id, newer.id, side.reason or "unknown", side.id, passages=_passages(texts))
    judged = _judged(matcher, older.batch, newer.batch)
    reason, about = _reason(matcher, older, newer, judged)
    similarity, signal = float(judged.similarity[0]), int(judged.signals[0]) if len(judged.signals) else 0
    chances = probabilities(matcher.config.tuning, np.array([similarity]))
    candidate, emitted = (None if signal or math.isnan(p[0]) else min(float(p[0]), 1.0) for p in chances)
    if candidate is not None and emitted is not None:
        emitted = min(emitted, candidate)  # near 1 the two sums differ by rounding
    relation = _relation(matcher, older, newer)
    pieces = marked(*texts, relation, matcher.config.plan) if relation is not None and len(texts) == 2 else ()
    shared = () if once and pieces else _passages(texts)
    added = novelty_of(matcher.config, newer.batch.evidence, older.batch.evidence)
    if added is not None and isinstance(b, Document):
        added = added._replace(new=new_in(matcher.config, [b.text], older.batch.evidence)[0])
    return Explanation(
        older.id, newer.id, reason, about, similarity, int(judged.keys[0]), candidate, emitted, shared, relation,
        pieces, added, SIGNALS[signal - 1] if signal else None,
        _by_signal(matcher, older.batch.evidence, newer.batch.evidence),
    )  # fmt: skip


def _by_signal(matcher: Matcher, older: Evidence, newer: Evidence) -> dict[str, float] | None:
    """How similar they are by each signal that both have; ``None`` where there is one signal."""
    strengths = SCHEMES[matcher.config.scheme].strengths
    if strengths is None:
        return None
    found = strengths(newer, older, matcher.plan)
    return {name: float(values[0]) for name, values in found.items() if not math.isnan(values[0])}


def _passages(texts: tuple[str, ...]) -> tuple[Passage, ...]:
    """What two texts share word by word; nothing if not both were given."""
    return passages(*texts) if len(texts) == 2 else ()


def _given(matcher: Matcher, signer: Signer, document: Document) -> _Side:
    """A document that is not stored, as if it arrived now."""
    signed = signer.sign([document])
    if signed.refusals:
        return _Side(str(document.id), document.collection, reason="refused")
    time = int(signed.batch.times[0])
    time = matcher.table.stream_time if time == NO_TIME else time
    return _Side(document.id, document.collection or None, signed.batch, time=time)


def _stored(matcher: Matcher, id_: str, collection: str | None) -> _Side:
    """The latest version of an id in the window."""
    table, side = matcher.table, _Side(id_, collection)
    columns = id_columns([stored_id(id_, collection, separate=matcher.config.separate)])
    nothing = fixed_evidence(np.zeros((1, matcher.config.plan.width), np.uint8))
    named = make_batch(*columns, np.array([NO_TIME]), np.zeros((1, 2), np.uint64), nothing)
    slot = again.newest_version(table, table_items(named, regular_keys(np.empty((1, 0), np.uint64))))
    if slot < 0:
        return side._replace(reason="unknown")
    if again.removed(table, slot):
        return side._replace(reason="removed")
    slots = np.array([slot])
    contents = np.zeros((1, 2), np.uint64)
    contents[0, CONTENT_HALF] = again.contents(table, slots)[0]
    evidence = matcher.evidence(slots)
    time = int(again.counted_times(table, slots)[0])
    return side._replace(batch=make_batch(*columns, np.array([time]), contents, evidence), slot=slot, time=time)


def _items(matcher: Matcher, batch: Batch) -> Items:
    return batch_items(batch, matcher.config)


def _judged(matcher: Matcher, older: Batch, newer: Batch) -> Judged:
    scheme, config = SCHEMES[matcher.config.scheme], matcher.config
    equal = older.contents[:, CONTENT_HALF] == newer.contents[:, CONTENT_HALF]
    common = scheme.common(newer.evidence, older.evidence, matcher.plan)
    tuning = config.tuning
    return judge(
        common, equal & scheme.by_content, tuning.score_min, config.buckets_shared_min, exact_score=tuning.exact_score
    )


def _relation(matcher: Matcher, older: _Side, newer: _Side) -> Relation | None:
    """Return what the newer document is to the older one; ``None`` where nothing is known to be shared."""
    assert older.batch is not None
    assert newer.batch is not None
    identical = older.batch.contents[:, CONTENT_HALF] == newer.batch.contents[:, CONTENT_HALF]
    sides, plan = (older.batch.evidence, newer.batch.evidence), matcher.config.plan
    shared = shared_of(SCHEMES[matcher.config.scheme], *sides, identical, plan)
    if shared is None or not len(shared.spans):
        return None
    (relation,) = relations_of(shared, [older.id])
    return relation


def _reason(matcher: Matcher, older: _Side, newer: _Side, judged: Judged) -> tuple[str, str | None]:
    """Return the first step that fails, and the id of the document that causes it, if one does."""
    config = matcher.config
    if older.collection != newer.collection:
        return "collection", None
    if older.id == newer.id:
        return "same_id", None
    if older.time != NO_TIME and not _in_window(matcher, np.array([older.time]), newer)[0]:
        is_near = abs(older.time - newer.time) <= matcher.table.limits.window
        return ("late" if is_near else "window"), None
    if not judged.is_pair[0]:
        if judged.keys[0] < 1:
            return "no_bucket", None
        if judged.keys[0] < config.buckets_shared_min:
            return "few_buckets", None
        return ("score" if judged.similarity[0] < config.tuning.score_min else "conditions"), None
    return _met(matcher, older, newer)


def _met(matcher: Matcher, older: _Side, newer: _Side) -> tuple[str, str | None]:
    """Return whether the probe of the newer document found the older one; their evidence already makes them a pair.

    A probe meets only the newest copy of a content. Copies that came after the newer document have hidden nothing from
    it, though they hide it from a probe today.
    """
    table = matcher.table
    assert newer.batch is not None
    assert older.batch is not None
    if older.slot < 0:
        return "pair", None  # neither is stored: there is no probe
    items = _items(matcher, newer.batch)
    if table.limits.by_content:
        own = copy = _first_met(matcher, again.copies(table, items, newer.slot), newer)  # it ends the probe
        is_replaced = again.superseded(table, older.slot)
        if own < 0 and is_replaced:
            end = newer.slot if newer.slot >= 0 else table.slot_end
            copy = _first_met(matcher, again.later_copies(table, older.slot, end), newer)
        if copy >= 0 and copy != older.slot:
            return "copy", _id(matcher, copy)
        if own == older.slot or is_replaced:
            return "pair", None
    slots = table.probe_add(items, add=False).slots if newer.slot < 0 else again.found_again(table, items, newer.slot)
    return ("pair" if older.slot in slots else "truncated"), None


def _id(matcher: Matcher, slot: int) -> str:
    """Return the id of a document of the table, without its collection."""
    ids = matcher.table.ids(np.array([slot]))
    return bare_ids(ids)[0] if matcher.config.separate else ids[0]


def _first_met(matcher: Matcher, slots: npt.NDArray[np.int64], newer: _Side) -> int:
    """Return the first of these slots that lies in the window of the newer document under another id, or -1."""
    table = matcher.table
    slots = slots[_in_window(matcher, again.counted_times(table, slots), newer)]
    for slot in slots.tolist():
        if not again.removed(table, slot) and _id(matcher, slot) != newer.id:
            return int(slot)
    return -1


def _in_window(matcher: Matcher, times: npt.NDArray[np.int64], newer: _Side) -> npt.NDArray[np.bool_]:
    """Return which times lie in the window of the newer document, and have not left it if that arrives now."""
    window, lateness = matcher.table.limits.window, matcher.table.limits.lateness
    if window == NO_WINDOW or newer.time == NO_TIME:
        return np.ones(len(times), np.bool_)
    inside = np.abs(times - newer.time) <= window
    if newer.slot < 0 and matcher.table.stream_time != NO_TIME:
        inside &= times >= matcher.table.stream_time - window - lateness
    return inside
