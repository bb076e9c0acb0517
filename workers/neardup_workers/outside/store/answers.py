"""The answer of the service about a document, and its pairs as an answer lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from neardup.documents.document import CollectionPair, Document, Explanation, Neighbour, Pair
from neardup.pairs.batches import MICROSECONDS
from neardup.pairs.comparing import new_in
from neardup.pairs.explanations.given_texts import marked
from neardup.pairs.explanations.passages import passages
from neardup.pairs.json_lines import relation_values
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, turned
from neardup.pairs.quotes import covering_first
from neardup.pairs.signing import Signer
from neardup.stories.verdicts.fields import FIELDS, NAMES, rounded
from neardup.stories.verdicts.rule import STATUSES, UNCHANGED
from neardup_workers.outside.store.log import Log
from neardup_workers.outside.store.rows import LATE, StoredRow, values_of_more

# What an event and a stored version show of a document, in this order; an answer shows it without the times.
_NOTHING: dict[str, Any] = dict.fromkeys((
    *(name for name in NAMES if name != "late"), "place", "repeated", "late", "time", "date", "source", "url", "title",
))  # fmt: skip
# What is read of a row, by name or in its place.
_READ = (
    "status", "answered", "flags", "more", "time", "date", "similarity", "cluster", "related", "previous", "matched",
    "place", "source", "url", "title",
)  # fmt: skip
_FRACTIONS = tuple(field.name for field in FIELDS if field.kind == "fraction")
_by_name, _in_place = itemgetter(*_READ), itemgetter(*map(StoredRow._fields.index, _READ))


class Answer(NamedTuple):
    """The answer about one document: the reason of its refusal (a key of ``REASONS``), or its verdict and its pairs.

    ``verdict`` is what ``verdict_of`` returns, empty for a document that was not added. ``pairs`` are the earlier
    near-duplicates, with similarity and common buckets. ``nearest`` are the most similar documents, if requested.
    ``collection`` is that of the document, and of all that its answer names.
    """

    id: str
    refused: str | None = None
    verdict: Mapping[str, Any] = MappingProxyType({})
    pairs: tuple[Pair, ...] = ()
    nearest: tuple[Neighbour, ...] = ()
    collection: str | None = None


def verdict_of(row: Any, duplicate_of: str | None) -> dict[str, Any]:
    """Return what is shown of a document by its ``StoredRow``, or its columns by name, and the id of its original; with
    its ``time`` and ``date`` in seconds."""
    status, answered, flags, more, time, date, *values = (_in_place if type(row) is StoredRow else _by_name)(row)
    shown = _NOTHING.copy()  # and one value after the other: each document has these
    shown["similarity"], shown["cluster"], shown["related"], shown["previous"], shown["matched"] = values[:5]
    shown["place"], shown["source"], shown["url"], shown["title"] = values[5:]
    shown["status"], shown["duplicate_of"], shown["repeated"] = STATUSES[answered], duplicate_of, status == UNCHANGED
    shown["late"], shown["time"] = flags & LATE > 0, time / MICROSECONDS
    if date is not None:
        shown["date"] = date / MICROSECONDS
    if more is not None:
        shown.update(values_of_more(more))
    for name in _FRACTIONS:
        if shown[name] is not None:
            shown[name] = rounded(shown[name])
    return shown


def newest(id_: str, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of one document, the most similar first, with the document as the newer one; where it is known
    what they share, those first that together cover the document."""
    if not pairs:  # so it is for most documents
        return ()
    turned_ = [_turned(id_, pair) for pair in pairs]
    if pairs[0].relation is not None:
        return tuple(covering_first(turned_))
    return tuple(sorted(turned_, key=lambda pair: -pair.similarity))


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


def decision_of(log: Log, ids: Sequence[bytes], explanation: Explanation) -> tuple[Explanation, list[int | None]]:
    """Return the explanation of what the decision compared, if one of two ids is the original that the latest
    verdict about the other names; and the places of both versions, the older one first, ``None`` for an unknown
    id."""
    latest = [None if stored is None else stored[0].place for stored in map(log.latest, ids)]
    rows = [(log.decided(ids[1 - of], ids[of]), of) for of in (0, 1)]
    decided = [(row, of) for row, of in rows if row is not None and row.place == latest[1 - of]]
    if not decided:
        return explanation, latest
    row, of = max(decided, key=lambda one: one[0].place)
    is_latest = latest[of] in (row.matched, None)
    if is_latest and explanation.reason in ("pair", "copy"):
        return explanation, latest
    values = explanation._asdict() | {"older": explanation[of], "newer": explanation[1 - of], "about": None}
    values |= {"reason": "decided" if is_latest else "version", "similarity": row.similarity or 1.0}
    if not is_latest or explanation.reason == "unknown":  # the figures are of another version, or of none
        of_pair = ("novelty", "relation", "buckets", "candidate_probability", "pair_probability", "by_signal")
        values |= dict.fromkeys(of_pair)
    return Explanation(**values), [row.matched, row.place]


def shown_in(explanation: Explanation, texts: Sequence[str | None], signer: Signer) -> Explanation:
    """Return the explanation of two documents with what their texts, the older one first, share and do not."""
    older, newer = texts
    if older is None or newer is None:
        return explanation
    config, added = signer.config, explanation.novelty
    sides = () if explanation.relation is None else marked(older, newer, explanation.relation, config.plan)
    if added is not None:
        evidence = signer.sign([Document(explanation.older, older, 0.0)]).batch.evidence
        added = added._replace(new=new_in(config, [newer], evidence)[0])
    return explanation._replace(passages=passages(older, newer), sides=sides, novelty=added)
