"""The messages of ``arrivals``: the records of ``documents`` in the order of decisions. Signers write, linkers read.

A row is a record of ``documents``: a document, the removal of an id, or a refusal. The topic has one partition, and the
order of its rows is the order of arrival. Within a partition of ``documents``, this is the order of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.bands_message import WireError
from neardup.stream.scheme_interface import select_ragged
from neardup.stream.verdicts.representatives import NO_RANK
from neardup.workers.topics.columns import decode_columns, encode_columns

_MAGIC = b"NDUA"
# Bytes of a row without its id, at least.
ROW_BYTES_MIN = 27
_DTYPES = ("<i8", "u1", "<i8", "<u8", "<u2", "u1", "<f8")
# Maximum rows of a message. A linker takes whole messages, so it is not above the least ``undecided_max``.
_ROWS_MAX = 1_000
_ID_BYTES_MAX = 256 << 10


class ArrivalRows(NamedTuple):
    """n arrivals as columns.

    ``places`` (``int64[n]``); ``kinds`` (``uint8[n]``) are the kinds of ``neardup.stream.verdicts.rule``; ``times``
    (``int64[n]``) are event times in microseconds, ``NO_TIME`` for other kinds than documents; ``contents``
    (``uint64[n]``) are hashes of the compared content; ``ids`` (``uint8``) the UTF-8 bytes of all ids, id i at
    ``id_starts[i]:id_starts[i + 1]``; a refusal has no id. ``ranks`` (``float64[n]``) are the ranks of documents,
    ``NO_RANK`` for none; a message in which no row has one does not hold them.
    """

    places: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.float64]

    def select(self, rows: npt.NDArray[np.int64]) -> ArrivalRows:
        """Return some rows, in the given order."""
        ids, starts = select_ragged(self.ids, self.id_starts, rows)
        return ArrivalRows(
            self.places[rows], self.kinds[rows], self.times[rows], self.contents[rows], ids, starts, self.ranks[rows]
        )


def encode_arrivals(rows: ArrivalRows, fingerprint: str) -> Iterator[bytes]:
    """Return the messages that hold these rows: one, or several if one would be too long."""
    parts = np.maximum(np.arange(len(rows.places)) // _ROWS_MAX, rows.id_starts[1:] // _ID_BYTES_MAX)
    for part in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(parts)) + 1):
        places, kinds, times, contents, ids, starts, ranks = rows.select(part)
        lengths = np.diff(starts).astype("<u2")
        ranks = ranks[:0] if np.isnan(ranks).all() else ranks
        yield encode_columns(_MAGIC, (places, kinds, times, contents, lengths, ids, ranks), fingerprint)


def decode_arrivals(data: bytes, fingerprint: str) -> ArrivalRows:
    """Return the rows of a message; raises ``WireError``."""
    places, kinds, times, contents, lengths, ids, ranks = decode_columns(data, _MAGIC, _DTYPES, fingerprint)
    ranks = ranks if len(ranks) else np.full(len(places), NO_RANK)
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    if starts[-1] != len(ids) or len(set(map(len, (places, kinds, times, contents, lengths, ranks)))) > 1:
        raise WireError("the columns of a message of arrivals have different lengths")
    return ArrivalRows(places, kinds, times, contents, ids, starts, ranks)


def join_arrivals(parts: list[ArrivalRows]) -> ArrivalRows:
    """Return the rows of all parts, one after the other; at least one part."""
    if len(parts) == 1:
        return parts[0]
    places, kinds, times, contents, ids, starts, ranks = zip(*parts, strict=True)
    lengths = np.concatenate([np.diff(part) for part in starts])
    joined = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=joined[1:])
    return ArrivalRows(
        np.concatenate(places), np.concatenate(kinds), np.concatenate(times), np.concatenate(contents),
        np.concatenate(ids), joined, np.concatenate(ranks),
    )  # fmt: skip
