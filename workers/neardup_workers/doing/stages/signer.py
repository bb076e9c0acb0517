"""The signer: records of ``documents`` in, messages for ``signed`` and dead letters out. It keeps nothing for later.

``sign_worker`` is the loop around them, with the steps of a transaction and what a crash leaves behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.chunks import CHUNK_CHARACTERS, CHUNK_DOCUMENTS
from neardup.documents.document import Column, Document, DocumentColumns, Refusal
from neardup.documents.ids import ID_BYTES_MAX, stored_id
from neardup.errors import Reason
from neardup.pairs.batches import accepted_of, references_of, sizes_of
from neardup.pairs.json_lines import Fields, decode_document
from neardup.pairs.signing import Signed, Signer
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.schemes.shortfall import documents_by_bands
from neardup.stories.sources.names import shown_by
from neardup.stories.sources.representatives import FIRST, ranks_of
from neardup_workers.doing.stages.canary_rows import encode_canaries
from neardup_workers.doing.stages.canary_writer import CanaryWriter
from neardup_workers.doing.stages.record_sizes import all_fit, bytes_of_utf8_byte
from neardup_workers.doing.stages.step_rows import StepRows, is_any_judged, judgement_in
from neardup_workers.outside.readers.json.columns import decode_columns
from neardup_workers.outside.readers.json.values import ValueReader
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.store.blocked import NOTHING_BLOCKED, BlockList, refuse_rows
from neardup_workers.outside.telemetry.observer import SILENT, Observer, stage
from neardup_workers.outside.topics.messages import (
    DEAD_KEY_BYTES_MAX,
    encode_dead,
    full_id_of_key,
    key_parts,
    partition_of_key,
)
from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.shown import columns_shown, encode_shown, select_shown
from neardup_workers.outside.topics.signed import PARTITION, encode_signed
from neardup_workers.outside.transport.protocol import UNBOUNDED, Message, Record, sent_bytes

# Columns are signed in chunks of about so many bytes: 4 kB take 7.1 microseconds to decode and sign, 8.0 with half.
_CHUNK_BYTES = CHUNK_CHARACTERS
_MILLISECONDS, _ROOM_BYTES = 1e3, 80 << 10  # and the room of a message for canaries, sources and titles


class SignPlan(NamedTuple):
    """What a signer needs in addition to the records."""

    config: Config
    fields: Fields
    topics: Topics
    dead_partitions: int
    skew_seconds: float  # how far an event time may lie ahead of the time of its record
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    step_bytes_max: int = LIMITS.step_bytes_max
    document_bytes_max: int = UNBOUNDED  # of key, value and headers; what a filter can send
    align_wait_seconds_max: float | None = None  # how long another partition may hold back records; None: forever
    verdicts: bool = False  # filters forward documents, so each must fit a message of theirs
    representative: str = FIRST  # what ranks the members of a cluster
    blocked: BlockList = NOTHING_BLOCKED  # ids and contents whose documents are refused
    canaries_every: int = 0  # one document in so many; none
    canaries_per_second_max: float = 1e9
    texts: str = ""  # what the constant texts are signed as
    allow_gap: bool = False  # go on behind documents that were deleted before they were read
    values: ValueReader = ValueReader(LIMITS.step_bytes_max)


class SignReport(NamedTuple):
    """Counts of a step: by the name of the metric; of refused documents by reason; and, of a scheme that omits bands of
    small documents, of documents by bands with a key."""

    counts: Counter[str]
    refused: Counter[str]
    bands: Counter[int]


class Signings(NamedTuple):
    """The messages of a step, and its counts."""

    messages: list[Message]
    report: SignReport


# Starts to sign documents, and returns the function that waits for the result.
StartSigning = Callable[[Sequence[Document]], Callable[[], Signed]]


class _Chunk(NamedTuple):
    """Documents in signing, what is shown of them, their indices among the records, and the function that waits for the
    result."""

    documents: Sequence[Document]
    shown: Column | None
    rows: npt.NDArray[np.int64]
    signed: Callable[[], Signed]


class _Columns(NamedTuple):
    """Documents as columns, what is shown of them, the number of clamped times, and the number of ids that are not
    their message's key."""

    documents: DocumentColumns
    shown: Column | None
    clamped: int
    misnamed: int


class _Chunks:
    """Documents in chunks. The signing of a chunk starts as soon as the chunk is full."""

    def __init__(self, start: StartSigning, *, shows: bool) -> None:
        self.chunks: list[_Chunk] = []
        self._start, self._shows = start, shows
        self._documents: list[Document] = []
        self._rows: list[int] = []
        self._characters = 0

    def add(self, row: int, document: Document) -> None:
        """Add a document, whose record has the index ``row``."""
        self._documents.append(document)
        self._rows.append(row)
        self._characters += len(document.text)
        if self._characters >= CHUNK_CHARACTERS or len(self._rows) == CHUNK_DOCUMENTS:
            self.end()

    def add_columns(self, first: int, documents: DocumentColumns, shown: Column | None) -> None:
        """Add documents, whose records have the indices from ``first`` on, as a chunk."""
        self.end()
        self.chunks.append(_Chunk(documents, shown, np.arange(first, first + len(documents)), self._start(documents)))

    def end(self) -> None:
        """Start to sign the last chunk."""
        if self._rows:
            started = self._start(self._documents)
            shown = encode_shown(list(map(shown_by, self._documents))) if self._shows else None
            self.chunks.append(_Chunk(self._documents, shown, np.array(self._rows), started))
        self._documents, self._rows, self._characters = [], [], 0


def sign_records(
    records: Sequence[Record],
    signer: Signer,
    plan: SignPlan,
    observer: Observer = SILENT,
    now_seconds: float = math.inf,
    start_signing: StartSigning | None = None,
    canaries: CanaryWriter | None = None,
) -> Signings:
    """Sign records of ``documents`` and return all messages to send. Deterministic, no I/O.

    An event time counts as none if it cannot be read, or lies far ahead of the time of its record; the document has
    that then. A time of a record that is far ahead of ``now_seconds``, or missing, is ``now_seconds``. A document is
    refused if neither it nor its record has a time.
    ``start_signing`` signs while this thread decodes; by default the signing waits for the end of the decoding.
    ``canaries`` has begun a step.
    """
    start = start_signing or (lambda rows: partial(signer.sign, rows))
    step = _Step(records, plan, now_seconds, start, canaries or CanaryWriter(plan.config, 0))
    with stage(observer, "decode"):
        step.decode()
    with stage(observer, "sign"):
        step.sign()
    return Signings(step.messages, step.report)


class _Step:
    """The records of a step, and what is made of them: messages, refusals, counts, the rows of ``signed``."""

    def __init__(
        self, records: Sequence[Record], plan: SignPlan, now_seconds: float, start: StartSigning, canaries: CanaryWriter
    ) -> None:
        self.messages: list[Message] = []
        self._records, self._plan, self._now_seconds = records, plan, now_seconds
        self._read, self._undecoded = _plain(records, plan.values)
        self._rows, self._canaries = StepRows(records), canaries
        self._chunks = _Chunks(start, shows=plan.fields.source is not None)
        self._counts = Counter(bytes=sum(len(record.value or b"") for record in records))
        self.report = SignReport(self._counts, Counter(), Counter())

    def decode(self) -> None:
        """Read the records in order: those signed at once as columns, or one by one where some have another form."""
        values = [record.value or b"" for record in self._read]
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        bounds, ends, chunk_bytes = [0], np.cumsum(sizes), _CHUNK_BYTES * bytes_of_utf8_byte(values)
        while bounds[-1] < len(self._records):
            first = bounds[-1]
            full = int(np.searchsorted(ends, ends[first] - sizes[first] + chunk_bytes))
            bounds.append(min(full + 1, first + CHUNK_DOCUMENTS, len(self._records)))
        for first, end in pairwise(bounds):
            part = self._read[first:end]
            columns = _columns(part, self._plan, self._now_seconds)
            if columns is None:
                for row in range(first, end):
                    self._decode(row)
            else:
                self._chunks.add_columns(first, columns.documents, columns.shown)
                self._counts.update(clamped=columns.clamped, misnamed=columns.misnamed)
        self._chunks.end()

    def _decode(self, row: int) -> None:
        """Add a record to the chunks, or refuse it."""
        plan, record = self._plan, self._records[row]
        if record.refused is not None:
            self._refuse(record, "batch_too_large", record.offset + 1 - record.refused.first_offset)
        elif plan.verdicts and sent_bytes(record.key, record.value, record.headers) > plan.document_bytes_max:
            self._refuse(record, "message_too_large")
        elif row in self._undecoded:
            self._refuse(record, "not_decoded")
        elif record.value is None:
            config, id_ = self._plan.config, record.key
            if id_ is not None and config.separate:
                id_ = full_id_of_key(id_)
            reason = _no_removal(id_)
            if reason is not None:
                self._refuse(record, reason)
            elif id_ is not None:
                self._rows.remove(row, id_)
                self._canaries.remove(id_)
                self._counts["removals"] += 1
        else:
            collection, named = _named(record.key, plan)
            key = None if named is None else _as_text(named)
            document = decode_document(self._read[row].value or b"", plan.fields, key, self._count_undated)
            if isinstance(document, Reason):
                self._refuse(record, document)
            else:
                document = self._judged(row, document)
                is_other = key != document.id or collection != (document.collection or "").encode(errors="replace")
                self._add(row, record, document, is_misnamed=record.key is not None and is_other)

    def _judged(self, row: int, document: Document) -> Document:
        """Return a document, as one of now if its record says what a person judges."""
        headers, separate = self._records[row].headers, self._plan.config.separate
        if not (said := judgement_in(headers, document.collection, separate=separate)):
            return document
        self._rows.judge(row, said)
        self._canaries.remove(stored_id(document.id, document.collection, separate=separate))
        return document._replace(timestamp=None)

    def _count_undated(self, reason: str, value: object) -> None:
        """Count a time that cannot be read: its document has the time of its record."""
        self._counts["undated"] += 1

    def _add(self, row: int, record: Record, document: Document, *, is_misnamed: bool) -> None:
        """Add a document with its time: the time of its record if it has none, or one that is ahead of that."""
        is_timed = record.timestamp_ms >= 0  # -1: its producer left it out
        arrived = record.timestamp_ms / _MILLISECONDS if is_timed else self._now_seconds
        skew_seconds = self._plan.skew_seconds
        is_ahead = arrived > self._now_seconds + skew_seconds
        arrived = self._now_seconds if is_ahead else arrived
        if document.timestamp is None:
            if not is_timed:
                self._refuse(record, "no_time")
                return
            document = document._replace(timestamp=arrived)
        elif arrived + skew_seconds < document.timestamp < math.inf:
            document, is_ahead = document._replace(timestamp=arrived), True
        self._counts.update(clamped=is_ahead, misnamed=is_misnamed)
        self._chunks.add(row, document)

    def sign(self) -> None:
        """Make the messages of ``signed``."""
        plan = self._plan
        for chunk in self._chunks.chunks:
            self._sign(chunk)
        rows, fingerprint = self._rows.signed(plan.config.plan.width), plan.config.signing_fingerprint
        if (canaries := self._canaries.end()) is not None:
            rows = rows._replace(canaries=encode_canaries(canaries, fingerprint))
            self._counts["canaries"] = len(canaries.places)
        self.messages += [Message(plan.topics.signed, PARTITION, data) for data in encode_signed(rows, fingerprint)]

    def _sign(self, chunk: _Chunk) -> None:
        """Wait for the signed documents of a chunk, and add their rows; refuse the others."""
        signed = self._plan.blocked.refuse(chunk.signed())
        is_large = sizes_of(signed.batch) > self._plan.document_bytes_max - _ROOM_BYTES
        signed = refuse_rows(signed, is_large, "evidence_too_large")
        accepted = np.ones(len(chunk.rows), np.bool_)
        for refusal in signed.refusals:
            row = chunk.rows[refusal.position]
            self._refuse(self._records[row], _reason(self._read[row], refusal, chunk, self._plan))
            accepted[refusal.position] = False
        self._counts.update(shingles=signed.shingles, documents=signed.batch.size)
        self._count_bands(signed)
        ranks = ranks_of(chunk.documents, self._plan.representative)[accepted]
        shown, rows = select_shown(chunk.shown, np.flatnonzero(accepted)), chunk.rows[accepted]
        references = references_of(accepted_of(chunk.documents, signed.refusals))
        self._rows.add(rows, signed.batch, ranks, shown, references)
        self._canaries.take(chunk.documents, np.flatnonzero(accepted), signed.batch, self._rows.places_at(rows))

    def _count_bands(self, signed: Signed) -> None:
        scheme, plan = SCHEMES[self._plan.config.scheme], self._plan.config.plan
        if scheme.partial:
            counts = documents_by_bands(scheme.keys(signed.batch.evidence, plan), plan.tuning.bands)
            for bands in np.flatnonzero(counts).tolist():
                self.report.bands[bands] += int(counts[bands])

    def _refuse(self, record: Record, reason: str, documents: int = 1) -> None:
        """Count a refusal of so many documents, and add its dead letter."""
        plan = self._plan
        self.report.refused[reason] += documents
        partition = partition_of_key(record.key or b"", plan.dead_partitions)
        key = None if record.key is None else record.key[:DEAD_KEY_BYTES_MAX]
        dead = encode_dead(record, plan.topics.documents, reason, plan.config)
        self.messages.append(Message(plan.topics.dead, partition, dead, key))


def _reason(record: Record, refusal: Refusal, chunk: _Chunk, plan: SignPlan) -> str:
    """Return why a document was refused: a line that was decoded to columns may have a fault that comes before."""
    if isinstance(chunk.documents, DocumentColumns):
        document = decode_document(record.value or b"", plan.fields, refusal.id, lambda reason, value: None)
        if isinstance(document, Reason):
            return document
    return refusal.reason


def _plain(records: Sequence[Record], values: ValueReader) -> tuple[Sequence[Record], set[int]]:
    """Return records with their values as JSON, and the rows of which the function of the user made nothing."""
    if not values.is_needed(record.value for record in records):
        return records, set()
    read = [None if record.value is None else values.read(record.value) for record in records]
    failed = {row for row, record in enumerate(records) if record.value is not None and read[row] is None}
    rows = zip(records, read, strict=True)
    return [one._replace(value=b"" if row in failed else value) for row, (one, value) in enumerate(rows)], failed


def _columns(records: Sequence[Record], plan: SignPlan, now_seconds: float) -> _Columns | None:
    """Decode records to columns; ``None`` if some of them have to be decoded one by one."""
    _, _, arrivals, keys, values, _, headers = zip(*records, strict=True)
    arrived = np.array(arrivals) / _MILLISECONDS
    if plan.config.plan.kind != "text" or None in values or arrived.min() < 0 or is_any_judged(headers):
        return None
    if plan.verdicts and not all_fit(keys, values, headers, plan.document_bytes_max):
        return None
    collections, ids = zip(*(_named(key, plan) for key in keys), strict=True)
    decoded = decode_columns(values, ids, plan.fields, titles=plan.fields.source is not None)
    if decoded is None:
        return None
    documents, misnamed, sources, urls, titles = decoded
    if documents.collections is not None:
        own = map(documents.collections.at, range(len(keys)))
        named = zip(keys, collections, own, strict=True)
        misnamed |= np.array([key is not None and name != collection for key, name, collection in named])
    ahead = arrived > now_seconds + plan.skew_seconds
    arrived[ahead] = now_seconds
    ahead |= documents.times > arrived + plan.skew_seconds
    given = documents.times <= arrived + plan.skew_seconds  # false where there is none
    documents.times[~given] = arrived[~given]
    shown = None
    if sources is not None and urls is not None and titles is not None:
        shown = columns_shown(documents.ids, sources, urls, titles)
    return _Columns(documents, shown, int(np.count_nonzero(ahead)), int(np.count_nonzero(misnamed)))


def _named(key: bytes | None, plan: SignPlan) -> tuple[bytes, bytes | None]:
    """Return collection and id that the key of a record names."""
    return (b"", key) if key is None or not plan.config.separate else key_parts(key)


def _no_removal(key: bytes | None) -> str | None:
    """Return why the key of a tombstone cannot be the id of an accepted document, or ``None``."""
    if key is None:
        return "no_id"
    if _as_text(key) is None:
        return "id_not_utf8"
    return "id_too_long" if len(key) > ID_BYTES_MAX else None


def _as_text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
