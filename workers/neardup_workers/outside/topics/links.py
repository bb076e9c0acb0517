"""The messages of ``links``: pairs by place, and the progress of a shard. Matchers write, linkers read.

Partition s holds what shard s publishes, in the order of ``signed``. Progress comes after the pairs of the documents
that it covers. So a reader that reads progress up to ``end`` has read all pairs of these documents in this partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.window_message import WireError
from neardup_workers.outside.topics.columns import decode_columns, encode_columns

_MAGIC = b"NDUK"
_DTYPES = ("<i8", "<i8", "<i8", "<u8", "<u8", "<u2")
# Maximum pairs of a message: 510 kB.
_PAIRS_MAX = 15_000
# Similarities are stored and compared in steps of 1 / 10,000, the precision of ``candidates``.
SIMILARITY_STEPS = 10_000


class Links(NamedTuple):
    """m pairs as columns: the places of the document that arrived later and of the other one (``int64[m]``), hashes of
    the two contents (``uint64[m]``), and similarities in steps (``uint16[m]``)."""

    later: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]
    later_contents: npt.NDArray[np.uint64]
    earlier_contents: npt.NDArray[np.uint64]
    similarities: npt.NDArray[np.uint16]

    def at(self, rows: npt.NDArray[np.generic]) -> Links:
        """Return a selection of pairs, by index or by mask."""
        return Links(*(column[rows] for column in self))


class LinkMessage(NamedTuple):
    """The content of a message: pairs, and the positions in ``signed`` from which on and up to which the shard has
    published; without progress, both are ``NO_PROGRESS``."""

    links: Links
    first: int
    end: int


NO_PROGRESS = -1
_NO_PLACES, _NO_CONTENTS = np.empty(0, np.int64), np.empty(0, np.uint64)
NO_LINKS = Links(_NO_PLACES, _NO_PLACES, _NO_CONTENTS, _NO_CONTENTS, np.empty(0, np.uint16))


def join_links(parts: list[Links]) -> Links:
    """Concatenate the pairs of several ``Links``."""
    if len(parts) == 1:
        return parts[0]
    return Links(*map(np.concatenate, zip(NO_LINKS, *parts, strict=True)))


def similarity_steps(similarities: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Return similarities in [0, 1] in steps, rounded from ``float32`` as one process rounds those of its verdicts."""
    return np.rint(similarities.astype(np.float32).astype(np.float64) * SIMILARITY_STEPS).astype(np.uint16)


def encode_links(message: LinkMessage, fingerprint: str) -> Iterator[bytes]:
    """Return the messages that hold this content: one or several; the last one has the progress."""
    links, first, end = message
    count = len(links.later)
    for at in range(0, max(1, count), _PAIRS_MAX):
        part = links.at(np.arange(at, min(at + _PAIRS_MAX, count)))
        progress = [first, end] if at + _PAIRS_MAX >= count else [NO_PROGRESS, NO_PROGRESS]
        yield encode_columns(_MAGIC, (np.array(progress, np.int64), *part), fingerprint)


def decode_links(data: bytes, fingerprint: str) -> LinkMessage:
    """Return the content of a message; raises ``WireError``."""
    progress, *columns = decode_columns(data, _MAGIC, _DTYPES, fingerprint)
    if len(progress) != 2 or len(set(map(len, columns))) > 1:
        raise WireError("the columns of a message of links have different lengths")
    return LinkMessage(Links(*columns), int(progress[0]), int(progress[1]))
