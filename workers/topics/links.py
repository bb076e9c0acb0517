"""The messages of ``links``: pairs by place, and the progress of a partition of ``bands``. Matchers write, linkers
read.

Partition p holds the pairs of the owner of partition p of ``bands``. Progress comes after the pairs of the documents
that it covers. So a reader that reads progress up to ``end`` has read all pairs of these documents in this partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.bands_message import WireError
from neardup.workers.topics.columns import decode_columns, encode_columns

_MAGIC = b"NDUL"
_DTYPES = ("<i8", "<i8", "<i8", "<u8", "<u8", "<u2")
# Maximum pairs of a message: 510 kB.
_PAIRS_MAX = 15_000
# Similarities are stored and compared in steps of 1 / 10,000, the precision of ``candidates``.
SIMILARITY_STEPS = 10_000


class Links(NamedTuple):
    """m pairs as columns, without orientation: two places (``int64[m]``), hashes of the two contents (``uint64[m]``,
    the same half as in ``arrivals``), and similarities in steps (``uint16[m]``)."""

    ones: npt.NDArray[np.int64]
    others: npt.NDArray[np.int64]
    one_contents: npt.NDArray[np.uint64]
    other_contents: npt.NDArray[np.uint64]
    similarities: npt.NDArray[np.uint16]

    def at(self, rows: npt.NDArray[np.generic]) -> Links:
        """Return a selection of pairs, by index or by mask."""
        ones, others, one_contents, other_contents, similarities = self
        return Links(ones[rows], others[rows], one_contents[rows], other_contents[rows], similarities[rows])


class LinkMessage(NamedTuple):
    """The content of a message: ``progress`` (``int64[k, 3]``) is partition of ``documents``, first offset, end."""

    links: Links
    progress: npt.NDArray[np.int64]


NO_PROGRESS: npt.NDArray[np.int64] = np.empty((0, 3), np.int64)
_NO_PLACES, _NO_CONTENTS = np.empty(0, np.int64), np.empty(0, np.uint64)
NO_LINKS = Links(_NO_PLACES, _NO_PLACES, _NO_CONTENTS, _NO_CONTENTS, np.empty(0, np.uint16))


def join_links(parts: list[Links]) -> Links:
    """Concatenate the pairs of several ``Links``."""
    if len(parts) == 1:
        return parts[0]
    ones, others, one_contents, other_contents, similarities = zip(NO_LINKS, *parts, strict=True)
    return Links(
        np.concatenate(ones), np.concatenate(others), np.concatenate(one_contents), np.concatenate(other_contents),
        np.concatenate(similarities),
    )  # fmt: skip


def similarity_steps(similarities: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Return similarities in [0, 1] in steps."""
    return np.rint(similarities * SIMILARITY_STEPS).astype(np.uint16)


def encode_links(message: LinkMessage, fingerprint: str) -> Iterator[bytes]:
    """Return the messages that hold this content: none if it is empty, or several; the last one has the progress."""
    links, progress = message
    if not len(links.ones) and not len(progress):
        return
    for first in range(0, max(1, len(links.ones)), _PAIRS_MAX):
        part = links.at(np.arange(first, min(first + _PAIRS_MAX, len(links.ones))))
        is_last = first + _PAIRS_MAX >= len(links.ones)
        yield encode_columns(_MAGIC, ((progress if is_last else NO_PROGRESS).ravel(), *part), fingerprint)


def decode_links(data: bytes, fingerprint: str) -> LinkMessage:
    """Return the content of a message; raises ``WireError``."""
    progress, *columns = decode_columns(data, _MAGIC, _DTYPES, fingerprint)
    if len(progress) % 3 or len(set(map(len, columns))) > 1:
        raise WireError("the columns of a message of links have different lengths")
    return LinkMessage(Links(*columns), progress.reshape(-1, 3))
