"""The messages of ``documents``, ``documents.dead`` and ``candidates``; ``signed`` and ``links`` have modules of their
own.

``documents``: JSON, keyed by id if removals are needed; a null value removes the id of its key. With collections a key
is the collection, U+001F and the id. ``documents.dead``: documents that were refused, with reason and origin.
``candidates``: pairs and removal notices, keyed as the newer document.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import mmh3
import numpy as np
import orjson

from neardup.documents.document import REASONS, Document
from neardup.documents.ids import SEPARATOR, full_id, split_id
from neardup.pairs.json_lines import named_collection, shared_values
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, Matches
from neardup_workers.outside.settings.files import bound_in
from neardup_workers.outside.topics.columns import Lines, number_spans, spans_of, text_spans
from neardup_workers.outside.transport.protocol import Record

# Maximum bytes of the document in a dead letter. The origin names the offset of the whole document.
DEAD_BYTES_MAX = 128 << 10
# Maximum bytes of its key, which is also the key of the dead letter: a record may consist of a large key.
DEAD_KEY_BYTES_MAX = 64 << 10
# Reasons of refused batches and messages, in addition to the reasons of the library.
MESSAGE_REASONS = {
    "batch_too_large": "the compressed batch of the message unpacks to more than an eighth of memory_max",
    "not_decoded": "the function of the setting decode raised an error, or returned no JSON",
    "message_too_large": "key, value and headers have more than max.request.size, so that no filter could send them",
}
REFUSAL_REASONS = {**REASONS, **MESSAGE_REASONS}
_MICROSECONDS = 1e6
_SEPARATOR = SEPARATOR.encode()


class Envelope(NamedTuple):
    """The origin of a candidate: scheme and generation."""

    scheme: str
    generation: str


def key_parts(key: bytes) -> tuple[bytes, bytes]:
    """Return collection and id of a key of ``documents``: the collection, U+001F, the id; without U+001F the id of a
    document that names no collection.

    >>> key_parts(b"news\\x1fa"), key_parts(b"a")
    ((b'news', b'a'), (b'', b'a'))
    """
    collection, separator, id_ = key.partition(_SEPARATOR)
    return (collection, id_) if separator else (b"", key)


def full_id_of_key(key: bytes) -> bytes:
    """Return the full id (``neardup.documents.ids``) that a key of ``documents`` names."""
    return _SEPARATOR.join(key_parts(key))


def key_of(full: bytes, *, separate: bool) -> bytes:
    """Return the key of the document with this id; a full id, if collections are ``separate``.

    >>> key_of(b"\\x1fa", separate=True), key_of(b"news\\x1fa", separate=True), key_of(b"a", separate=False)
    (b'a', b'news\\x1fa', b'a')
    """
    collection, id_ = key_parts(full) if separate else (b"", full)
    return full if collection or _SEPARATOR in id_ else id_


def key_of_document(document: Document, *, separate: bool) -> bytes:
    """Return the key of the message of a document; raises ``UnicodeEncodeError``."""
    full = full_id(document.id, document.collection) if separate else document.id
    return key_of(full.encode(), separate=separate)


def encode_candidates(matches: Matches, envelope: Envelope) -> list[tuple[bytes, bytes]]:
    """Return keys (those of the newer documents) and values of the messages of pairs; times are seconds since 1970."""
    if not matches.newer:
        return []
    newer_ids, is_separate = matches.newer, matches.collections is not None
    if matches.collections is not None:
        newer_ids = list(map(full_id, matches.newer, matches.collections))
    similarity = np.round(matches.similarity, SIMILARITY_DIGITS).astype(np.float64)
    lines = Lines(len(newer_ids))
    lines.add(b'{"older":', text_spans(matches.older))
    lines.add(b',"newer":', text_spans(matches.newer))
    lines.add(b',"similarity":', number_spans(similarity))
    lines.add(b',"buckets":', number_spans(matches.buckets), b',"scheme":' + orjson.dumps(envelope.scheme))
    lines.add(b',"older_timestamp":', number_spans(matches.older_times / _MICROSECONDS))
    generation = b',"generation":' + orjson.dumps(envelope.generation)
    lines.add(b',"newer_timestamp":', number_spans(matches.newer_times / _MICROSECONDS), generation)
    if is_separate or matches.shared is not None or matches.signals is not None:
        more = (orjson.dumps(shared)[1:-1] for shared in shared_values(matches))
        lines.add(b"", spans_of(b"," + one if one else one for one in more))
    lines.add_text(b"}")
    keys = {full: key_of(full.encode(), separate=is_separate) for full in set(newer_ids)}
    return list(zip(map(keys.__getitem__, newer_ids), lines.texts(), strict=True))


def encode_removal(id_: bytes, envelope: Envelope, *, separate: bool = False) -> tuple[bytes, bytes]:
    """Return key and value of the notice that an id was removed, so that readers can drop its pairs; a full id, if
    collections are ``separate``."""
    collection, removed = split_id(id_.decode()) if separate else (None, id_.decode())
    value = {"removed": removed, **named_collection(collection), "generation": envelope.generation}
    return key_of(id_, separate=separate), orjson.dumps(value)


def encode_dead(record: Record, topic: str, reason: str, settings: object = None) -> bytes:
    """Return a dead letter: reason, origin, and the document (its beginning, if it is long) in base64.

    For a refused batch it has the first and the last offset, and no document. The sentence has the bound that it names,
    of ``settings``.
    """
    key, value, refused = record.key or b"", record.value or b"", record.refused
    batch = {"offset_last": record.offset, "batch_bytes": refused.packed_bytes} if refused else {}
    sentence = REFUSAL_REASONS[reason]
    bound = bound_in(sentence, settings)
    return orjson.dumps({
        "reason": reason, "message": f"{sentence} ({bound})" if bound else sentence, "topic": topic,
        "partition": record.partition, "offset": refused.first_offset if refused else record.offset, **batch,
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else base64.b64encode(key[:DEAD_KEY_BYTES_MAX]).decode(),
        "key_bytes": len(key), "value": base64.b64encode(value[:DEAD_BYTES_MAX]).decode(), "value_bytes": len(value),
    })  # fmt: skip


def refused_batch_sentence(record: Record, topic: str) -> str:
    """Say where a refused batch is, why it was refused, and the remedy."""
    first = record.refused.first_offset if record.refused else record.offset
    return (
        f"offsets {first} to {record.offset} of partition {record.partition} of {topic} are a batch that unpacks to "
        "more than an eighth of memory_max: raise memory_max to read it, or find out who writes such batches there"
    )


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key: the same for equal keys, from 0 to ``partitions - 1``."""
    return mmh3.hash(key, signed=False) % partitions
