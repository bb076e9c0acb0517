"""The messages of ``signed``: the log of a stream. Signers write it; matchers and linkers read it.

A row is a record of ``documents``, in the order of arrival: a document with its evidence, the removal of an id, or a
refusal. The topic has one partition, so every reader below the last stable offset sees the same rows in the same order.
A control row, ``GROWTH``, is alone in its message: from there on the stream has more shards.

A message has the columns of every row first, then those of its documents, evidence last: a reader that needs no
evidence skips the end of the message. Behind them are canaries (``neardup_workers.doing.stages.canary_rows``), if any.
A document of which a person says whose story it tells (``JUDGED``) has that behind its id, from the first byte on that
UTF-8 never has.
Without evidence outside the fixed part and without ranks, their columns are empty: a document takes 55 bytes, its id,
and its sketch.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column
from neardup.pairs.batches import CONTENT_HALF, Batch, held_sizes, id_columns, joined, make_batch, sizes_of
from neardup.pairs.window_message import WireError
from neardup.schemes.interface import Evidence, select_ragged, starts_of_lengths
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.rule import JUDGED, REFERENCE, REMOVAL, is_document
from neardup.window import NO_TIME
from neardup_workers.outside.topics.arrivals import NOT_JUDGED, ArrivalRows
from neardup_workers.outside.topics.columns import decode_columns, encode_columns
from neardup_workers.outside.topics.shown import join_shown, select_shown

# The one partition of the topic.
PARTITION = 0
# The kind of a control row, next to those of arrivals. Its place has the two numbers of shards, before and after.
GROWTH = 3
_SHARDS_BITS = 32
_MAGIC = b"NDUS"
# Of every row: kind, place, length of the id, ids, ranks. Of documents: time, content, length of the ragged evidence,
# length of what is shown, what is shown, fixed evidence, ragged evidence. Canaries.
_DTYPES = ("u1", "<i8", "<u2", "u1", "<f8", "<i8", "<u8", "<u4", "<u4", "u1", "u1", "u1", "u1")
_NO_CANARIES = np.empty(0, np.uint8)
# What begins a judgement behind an id: the same story as the id that follows, or not.
TOGETHER, APART = b"\xff", b"\xfe"
# Rows and bytes of a message at most, unless one row is larger: a member holds whole messages.
ROWS_MAX, BYTES_MAX = 4_000, 512 << 10
# Bytes of a row without its id and its evidence: kind, place, length of the id.
ROW_BYTES_MIN = 11
# Bits of a row's number in a position of the log (``neardup_workers.doing.stages.matching.stretches``).
ROW_BITS = 16


def position_of(offset: int, row: int = 0) -> int:
    """Return the position in the log that has ``row`` rows of the message at ``offset`` before it."""
    return offset << ROW_BITS | row


def offset_and_row(position: int) -> tuple[int, int]:
    """Return the offset of the next message, and how many of its rows are before the position."""
    return position >> ROW_BITS, position & ((1 << ROW_BITS) - 1)


class SignedRows(NamedTuple):
    """n rows of the log as columns.

    ``kinds`` (``uint8[n]``) are the kinds of ``neardup.stories.verdicts.rule``; ``places`` (``int64[n]``); ``ids``
    (``uint8``) the UTF-8 bytes of all ids, id i at ``id_starts[i]:id_starts[i + 1]``; a refusal has none. ``ranks``
    (``float64[n]``) are ``NO_RANK`` where a row has none. ``times``, ``contents`` and ``evidence`` are those of the
    documents alone, in order, as in a ``Batch``; so is ``shown``, their sources, URLs and titles
    (``neardup_workers.outside.topics.shown``). ``canaries`` (``uint8``) are those of one message, encoded: no rows.
    ``judged`` has what is said of judged documents by place, maybe of more than these: ``TOGETHER`` or ``APART``, and
    the other id.
    """

    kinds: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    evidence: Evidence
    shown: Column | None = None
    canaries: npt.NDArray[np.uint8] = _NO_CANARIES
    judged: Mapping[int, bytes] = NOT_JUDGED

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.kinds)

    @property
    def growth(self) -> tuple[int, int] | None:
        """The numbers of shards before and after a message that is a control row; ``None`` for others."""
        if not self.size or self.kinds[0] != GROWTH:
            return None
        place = int(self.places[0])
        return place >> _SHARDS_BITS, place & ((1 << _SHARDS_BITS) - 1)

    def select(self, first: int, end: int) -> SignedRows:
        """Return the rows from ``first`` to before ``end``, without canaries."""
        before, count = (int(np.count_nonzero(is_document(self.kinds[:at]))) for at in (first, end))
        rows, documents = np.arange(first, end), np.arange(before, count)
        ids, starts = select_ragged(self.ids, self.id_starts, rows)
        return SignedRows(
            self.kinds[first:end], self.places[first:end], ids, starts, self.ranks[first:end],
            self.times[before:count], self.contents[before:count], self.evidence.select(documents),
            select_shown(self.shown, documents), judged=self.judged,
        )  # fmt: skip

    def documents(self) -> Batch:
        """Return the documents as a batch."""
        ids, starts = select_ragged(self.ids, self.id_starts, np.flatnonzero(is_document(self.kinds)))
        return make_batch(ids, starts, self.times, self.contents, self.evidence)

    def arrivals(self) -> ArrivalRows:
        """Return all rows without evidence, as copies: a view would keep the evidence of its message in memory."""
        held, n = is_document(self.kinds), self.size
        times, contents, sizes = np.full(n, NO_TIME), np.zeros(n, np.uint64), np.zeros(n, np.int64)
        times[held], contents[held] = self.times, self.contents[:, CONTENT_HALF]
        sizes[held] = held_sizes(self.documents())
        shown = None
        if self.shown is not None:
            lengths = np.zeros(n, np.int64)
            lengths[held] = np.diff(self.shown.starts)
            shown = Column(self.shown.data.copy(), starts_of_lengths(lengths))
        return ArrivalRows(
            self.places.copy(), self.kinds.copy(), times, contents, self.ids.copy(), self.id_starts, self.ranks.copy(),
            sizes, shown, self.judged,
        )  # fmt: skip

    def references(self, read: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some rows are documents that are compared with nothing, ``bool[m]``."""
        return np.asarray(self.kinds[read] >= REFERENCE)

    def stream(self) -> tuple[Batch, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Return what a table reads: documents and removals as the rows of a batch, which of them are removals, and
        their places in this message (``int64[m]``). A judged document is two rows: its id is removed before."""
        read = np.flatnonzero(is_document(self.kinds) | (self.kinds == REMOVAL))
        read = np.repeat(read, 1 + (self.kinds[read] == JUDGED))
        removals = self.kinds[read] == REMOVAL
        removals[:-1] |= read[:-1] == read[1:]
        if not removals.any():
            return self.documents(), removals, read
        ids, starts = select_ragged(self.ids, self.id_starts, read)
        n, held = len(read), ~removals
        times, contents = np.full(n, NO_TIME), np.zeros((n, 2), np.uint64)
        fixed, lengths = np.zeros((n, self.evidence.fixed.shape[1]), np.uint8), np.zeros(n, np.int64)
        times[held], contents[held], fixed[held] = self.times, self.contents, self.evidence.fixed
        lengths[held] = np.diff(self.evidence.starts)
        evidence = Evidence(fixed, self.evidence.ragged, starts_of_lengths(lengths))
        return make_batch(ids, starts, times, contents, evidence), removals, read


def growth_row(before: int, after: int, width: int) -> SignedRows:
    """Return the control row for a growth from ``before`` to ``after`` shards; ``width`` is that of the evidence."""
    evidence = Evidence(np.empty((0, width), np.uint8), np.empty(0, np.uint8), np.zeros(1, np.int64))
    return SignedRows(
        np.array([GROWTH], np.uint8), np.array([before << _SHARDS_BITS | after]), np.empty(0, np.uint8),
        np.zeros(2, np.int64), np.array([NO_RANK]), np.empty(0, np.int64), np.empty((0, 2), np.uint64), evidence,
    )  # fmt: skip


def encode_signed(rows: SignedRows, fingerprint: str) -> Iterator[bytes]:
    """Return the messages that hold these rows: one, or several if one would be too long. The last one has the
    canaries, which do not decide where a message ends."""
    if rows.judged:
        said = [rows.judged.get(place, b"") for place in rows.places.tolist()]
        ids, starts = id_columns([one + more for one, more in zip(_ids(rows), said, strict=True)])
        rows = rows._replace(ids=ids, id_starts=starts)
    sizes = ROW_BYTES_MIN + np.diff(rows.id_starts)
    sizes[is_document(rows.kinds)] += sizes_of(rows.documents())
    if rows.shown is not None:
        sizes[is_document(rows.kinds)] += np.diff(rows.shown.starts)
    first = size = 0
    for row, bytes_ in enumerate(sizes.tolist()):
        if row > first and (size + bytes_ > BYTES_MAX or row - first == ROWS_MAX):
            yield _encode(rows.select(first, row), fingerprint)
            first, size = row, 0
        size += bytes_
    if rows.size:
        yield _encode(rows.select(first, rows.size)._replace(canaries=rows.canaries), fingerprint)


def _ids(rows: SignedRows) -> list[bytes]:
    data = rows.ids.tobytes()
    return [data[first:end] for first, end in pairwise(rows.id_starts.tolist())]


def _encode(rows: SignedRows, fingerprint: str) -> bytes:
    ranks = rows.ranks[:0] if np.isnan(rows.ranks).all() else rows.ranks
    fixed, ragged, starts = rows.evidence
    lengths = np.diff(starts).astype("<u4")
    shown = Column(np.empty(0, np.uint8), np.empty(0, np.int64)) if rows.shown is None else rows.shown
    columns = (
        rows.kinds, rows.places, np.diff(rows.id_starts).astype("<u2"), rows.ids, ranks,
        rows.times, rows.contents, lengths if len(ragged) else lengths[:0],
        np.diff(shown.starts).astype("<u4"), shown.data, fixed, ragged, rows.canaries,
    )  # fmt: skip
    return encode_columns(_MAGIC, columns, fingerprint)


def decode_signed(data: bytes, fingerprint: str, width: int) -> SignedRows:
    """Return the rows of a message; ``width`` is that of the fixed evidence.

    Raises:
        WireError: the message is not of this format, is of another generation, or its columns do not fit each other.
    """
    kinds, places, id_lengths, ids, ranks, times, contents, lengths, shown_lengths, shown, fixed, ragged, canaries = (
        decode_columns(data, _MAGIC, _DTYPES, fingerprint)
    )
    n, documents = len(kinds), int(np.count_nonzero(is_document(kinds)))
    ranks = ranks if len(ranks) else np.full(n, NO_RANK)
    lengths = lengths if len(ragged) else np.zeros(documents, np.int64)
    rows_fit = {len(places), len(id_lengths), len(ranks)} == {n} and int(id_lengths.sum(dtype=np.int64)) == len(ids)
    documents_fit = (len(times), len(contents), len(lengths), len(fixed)) == (
        documents, 2 * documents, documents, width * documents,
    )  # fmt: skip
    documents_fit &= len(shown_lengths) in (0, documents) and int(shown_lengths.sum(dtype=np.int64)) == len(shown)
    greatest = int(kinds.max(initial=0))
    if greatest > JUDGED or (n > 1 and (kinds == GROWTH).any()):
        raise WireError(f"a message of signed has a row of kind {greatest}: update the program of this reader")
    if not rows_fit or not documents_fit or int(lengths.sum(dtype=np.int64)) != len(ragged):
        raise WireError("the columns of a message of signed have different lengths: write the message again")
    evidence = Evidence(fixed.reshape(documents, width), ragged, starts_of_lengths(lengths))
    rows = SignedRows(
        kinds, places, ids, starts_of_lengths(id_lengths), ranks, times, contents.reshape(documents, 2), evidence,
        Column(shown, starts_of_lengths(shown_lengths)) if len(shown) else None, canaries,
    )  # fmt: skip
    return rows if greatest < JUDGED else _with_judged(rows)


def _with_judged(rows: SignedRows) -> SignedRows:
    """Return the rows of a message with what is said of judged documents taken from behind their ids."""
    ids, judged = _ids(rows), {}
    for row in np.flatnonzero(rows.kinds == JUDGED).tolist():
        at = max(ids[row].find(TOGETHER), ids[row].find(APART))
        if at < 0:
            raise WireError(f"the judged document {ids[row]!r} names no other one: write the message again")
        judged[int(rows.places[row])], ids[row] = ids[row][at:], ids[row][:at]
    data, starts = id_columns(ids)
    return rows._replace(ids=data, id_starts=starts, judged=judged)


def join_signed(parts: list[SignedRows]) -> SignedRows:
    """Return the rows of all parts, one after the other, without canaries; at least one part."""
    if len(parts) == 1:
        return parts[0]._replace(canaries=_NO_CANARIES)
    kinds, places, ids, starts, ranks, times, contents, evidence, shown, _, judged = zip(*parts, strict=True)
    return SignedRows(
        np.concatenate(kinds), np.concatenate(places), np.concatenate(ids),
        starts_of_lengths(np.concatenate([np.diff(part) for part in starts])), np.concatenate(ranks),
        np.concatenate(times), np.concatenate(contents), joined(evidence),
        join_shown(shown, list(map(len, times))), judged=dict(ChainMap(*judged)) if any(judged) else NOT_JUDGED,
    )  # fmt: skip
