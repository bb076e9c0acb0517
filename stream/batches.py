"""Columnar batches: what a signer makes of documents and a table takes; the one form in which items travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stream.documents import Document
from stream.hashing import hash_strings
from stream.kernels import kernel
from stream.table import NO_TIME, Items

MICROSECONDS = 1_000_000
# Times this many seconds from the epoch (146,000 years) are refused: differences in microseconds must fit 64 bits.
_SECONDS_MAX = (1 << 62) / MICROSECONDS - 1
# Tells the hash of an id apart from every other 64-bit hash in the table.
_ID_SEED = np.uint64(0x1D5EED)


class Batch(NamedTuple):
    """n signed documents as columns.

    ``ids`` are the UTF-8 bytes of all ids, id i at ``id_starts[i]:id_starts[i + 1]`` (``uint8``, ``int64[n + 1]``);
    ``times`` are event times in microseconds, ``NO_TIME`` for none (``int64[n]``); ``contents`` are 128-bit hashes
    (``uint64[n, 2]``); ``evidence`` is what the scheme keeps (``uint8[n, width]``). Made by ``make_batch``.
    """

    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    evidence: npt.NDArray[np.uint8]

    @property
    def size(self) -> int:
        """How many documents."""
        return len(self.times)

    def ids_at(self, rows: npt.NDArray[np.integer]) -> list[str]:
        """The ids of some rows, as strings."""
        data, starts, ends = (
            self.ids.tobytes(),
            self.id_starts[rows].tolist(),
            self.id_starts[rows + 1].tolist(),
        )
        return [data[a:b].decode() for a, b in zip(starts, ends, strict=True)]


def make_batch(
    ids: npt.NDArray[np.uint8],
    id_starts: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    contents: npt.NDArray[np.uint64],
    evidence: npt.NDArray[np.uint8],
) -> Batch:
    """A batch of these columns, read-only: kernels are compiled anew for each mix of arrays that may be written."""
    batch = Batch(ids.view(), id_starts.view(), times.view(), contents.view(), evidence.view())
    columns: tuple[npt.NDArray[Any], ...] = batch
    for column in columns:
        column.flags.writeable = False
    return batch


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Several batches of one scheme, one after the other, as one; at least one."""
    if len(batches) == 1:
        return batches[0]
    ends = np.cumsum([0, *(len(batch.ids) for batch in batches)])
    id_starts = [batch.id_starts[:-1] + end for batch, end in zip(batches, ends, strict=False)]
    return make_batch(
        ids=np.concatenate([batch.ids for batch in batches]),
        id_starts=np.concatenate([*id_starts, ends[-1:]]),
        times=np.concatenate([batch.times for batch in batches]),
        contents=np.concatenate([batch.contents for batch in batches]),
        evidence=np.concatenate([batch.evidence for batch in batches]),
    )


def id_columns(ids: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Ids as one array of bytes and the starts in it, ``uint8[m]`` and ``int64[n + 1]``."""
    starts = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(id_) for id_ in ids], out=starts[1:])
    return np.frombuffer(b"".join(ids), np.uint8), starts


def time_of(document: Document) -> int | None:
    """Event time in microseconds, ``NO_TIME`` for none, or ``None`` if it is not a time that can be kept."""
    seconds = document.timestamp
    if seconds is None:
        return int(NO_TIME)
    if not abs(seconds) < _SECONDS_MAX:  # nor are infinity and what is no number
        return None
    return round(seconds * MICROSECONDS)


def table_items(batch: Batch, keys: npt.NDArray[np.uint64]) -> Items:
    """A batch as the table takes it: ``keys`` are the bucket keys, ``uint64[n, b]``; content and id go before them."""
    n, width = keys.shape
    all_keys = np.empty((n, width + 2), np.uint64)
    hash_strings(batch.ids, batch.id_starts, _ID_SEED, all_keys[:, 1])
    _fill_keys(batch.contents, keys, all_keys)
    return Items(
        keys=all_keys.reshape(-1),
        key_starts=np.arange(0, (n + 1) * (width + 2), width + 2),
        contents=batch.contents[:, 1].copy(),
        times=batch.times,
        ids=batch.ids,
        id_starts=batch.id_starts,
        evidence=batch.evidence,
    )


@kernel
def _fill_keys(contents, keys, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i, 0] = contents[i, 0]
        for j in range(keys.shape[1]):
            out[i, 2 + j] = keys[i, j]
