"""Canaries in messages of ``signed``: a column behind the rows, which readers other than matchers do not look at.

A canary is an original, a document that was written before, and its edited copy. It is no row, so positions, places and
rows of the log are the same with and without canaries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import concatenate, joined, make_batch, select
from neardup.pairs.window_message import WireError
from neardup.schemes.interface import Evidence, starts_of_lengths
from neardup.stories.canaries.pool import Probes
from neardup_workers.outside.topics.columns import decode_columns, encode_columns

_MAGIC = b"NDUC"
# Place, length of the id, ids, time, content, similarity; of the originals, then of the copies: lengths of the ragged
# evidence, fixed evidence, ragged evidence.
_DTYPES = ("<i8", "<u2", "u1", "<i8", "<u8", "<f8", "<u4", "u1", "u1", "<u4", "u1", "u1")


class CanaryRows(NamedTuple):
    """n canaries: the places of the originals (``int64[n]``), and what is probed."""

    places: npt.NDArray[np.int64]
    probes: Probes

    def at(self, rows: npt.NDArray[np.int64]) -> CanaryRows:
        """Return some of them."""
        originals, copies, similarities = self.probes
        return CanaryRows(
            self.places[rows], Probes(select(originals, rows), copies.select(rows), similarities[rows])
        )  # fmt: skip


def join_canaries(parts: list[CanaryRows]) -> CanaryRows:
    """Return the canaries of one or more parts, one after the other."""
    originals, copies, similarities = zip(*(part.probes for part in parts), strict=True)
    probes = Probes(concatenate(originals), joined(copies), np.concatenate(similarities))
    return CanaryRows(np.concatenate([part.places for part in parts]), probes)


def encode_canaries(rows: CanaryRows, fingerprint: str) -> npt.NDArray[np.uint8]:
    """Return canaries as the column of a message."""
    originals, copies, similarities = rows.probes
    columns = [
        rows.places, np.diff(originals.id_starts).astype("<u2"), originals.ids, originals.times, originals.contents,
        similarities,
    ]  # fmt: skip
    for fixed, ragged, starts in (originals.evidence, copies):
        columns += [np.diff(starts).astype("<u4"), fixed, ragged]
    return np.frombuffer(encode_columns(_MAGIC, columns, fingerprint), np.uint8)


def decode_canaries(data: npt.NDArray[np.uint8], fingerprint: str, width: int) -> CanaryRows:
    """Return the canaries of a column that is not empty; raises ``WireError``."""
    places, id_lengths, ids, times, contents, similarities, *evidence = decode_columns(
        data.tobytes(), _MAGIC, _DTYPES, fingerprint
    )
    n = len(places)
    sizes = {len(id_lengths), len(times), len(similarities), len(contents) // 2, len(evidence[0]), len(evidence[3])}
    widths = {len(evidence[1]), len(evidence[4])}
    ragged_fits = all(int(evidence[at].sum(dtype=np.int64)) == len(evidence[at + 2]) for at in (0, 3))
    if sizes != {n} or widths != {n * width} or not ragged_fits or int(id_lengths.sum(dtype=np.int64)) != len(ids):
        raise WireError("the canaries of a message of signed have columns of different lengths: write it again")
    own, copies = (
        Evidence(evidence[at + 1].reshape(n, width), evidence[at + 2], starts_of_lengths(evidence[at])) for at in (0, 3)
    )
    originals = make_batch(ids, starts_of_lengths(id_lengths), times, contents.reshape(n, 2), own)
    return CanaryRows(places, Probes(originals, copies, similarities))
