"""The sample of an audit: contents of the documents, drawn at random in one pass, each with its first document.

Copies are folded: a content is drawn once, however many documents have it. Drawn are the contents with the least hashes
of a hash function that the number of the draw names, so a sample is repeated by its number.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.machine.kernels.hashing import GOLDEN
from neardup.pairs.batches import CONTENT_HALF, MICROSECONDS, rows_of
from neardup.pairs.pipeline import Signed
from neardup.window import NO_TIME
from neardup_workers.doing.session.session import Chunk
from neardup_workers.outside.settings.files import Settings

Longs = npt.NDArray[np.int64]


class Read(NamedTuple):
    """The accepted documents of a chunk: themselves, their ids, contents, places (``int64[n]``, counted from 0 over
    all chunks), times and stream times at their arrival (``int64[n]``, microseconds)."""

    documents: Sequence[Document]
    ids: list[str]
    contents: npt.NDArray[np.uint64]
    places: Longs
    times: Longs
    streams: Longs


class Drawn(NamedTuple):
    """A content of the sample: its first document, the ids of all its documents; the content, and place, time and
    stream time of the first document."""

    document: Document
    ids: list[str]
    content: int
    place: int
    time: int
    stream: int


class Clock:
    """Numbers the documents of a stream and keeps its time."""

    def __init__(self) -> None:
        self._places, self._stream = 0, int(NO_TIME)

    def read(self, chunk: Chunk, signed: Signed) -> Read:
        """Return the accepted documents of the next chunk. One without a time has that of the stream."""
        batch, refused = signed.batch, {refusal.position for refusal in signed.refusals}
        accepted = [place for place in range(len(chunk.documents)) if place not in refused]
        streams = np.maximum.accumulate(np.append(self._stream, batch.times))[1:]
        times = np.where(batch.times == NO_TIME, streams, batch.times)
        places = np.arange(self._places, self._places + batch.size)
        self._places += batch.size
        self._stream = int(streams[-1]) if batch.size else self._stream
        documents = rows_of(chunk.documents, accepted)
        ids = batch.ids_at(np.arange(batch.size, dtype=np.int32))
        return Read(documents, ids, batch.contents[:, CONTENT_HALF], places, times, streams)


class WindowRule:
    """Which two documents of a stream lie in one window, as the settings bound it."""

    def __init__(self, settings: Settings) -> None:
        self._documents = settings.window_documents
        self._span = None if settings.window_seconds is None else round(settings.window_seconds * MICROSECONDS)
        self._lateness = round(settings.lateness_seconds * MICROSECONDS)

    def promises(self, times: Longs, streams: Longs) -> npt.NDArray[np.bool_]:
        """Return which documents came in time (``bool[n]``): the others are outside of what is promised."""
        in_time: npt.NDArray[np.bool_] = (times >= streams - self._lateness) | (times == NO_TIME)
        return in_time if self._span is not None else np.ones(len(times), np.bool_)

    def holds(self, places: Longs, times: Longs, place: int, time: int) -> npt.NDArray[np.bool_]:
        """Return which documents lie in one window with another one (``bool[n]``)."""
        near: npt.NDArray[np.bool_] = np.abs(places - place) < self._documents
        if self._span is not None and time != NO_TIME:
            near &= (np.abs(times - time) <= self._span) | (times == NO_TIME)
        return near


class Sample:
    """Draws contents; ``drawn`` are those so far, by content.

    Args:
        size: how many contents to draw, at least 1.
        draw: the number of the draw.
    """

    def __init__(self, size: int, draw: int) -> None:
        self._size, self._mask = size, np.uint64(draw * int(GOLDEN) % (1 << 64))
        self._ranks: list[tuple[int, int]] = []  # a heap: the content to drop first, which has the greatest hash
        self._contents: list[npt.NDArray[np.uint64]] = []
        self.drawn: dict[int, Drawn] = {}

    def add(self, read: Read) -> None:
        """Draw from the next documents."""
        self._contents.append(np.unique(read.contents))
        ranks = (read.contents ^ self._mask) * GOLDEN
        greatest = np.uint64(-self._ranks[0][0]) if len(self._ranks) == self._size else ~np.uint64(0)
        for n in np.flatnonzero(ranks <= greatest).tolist():
            content = int(read.contents[n])
            if content in self.drawn:
                self.drawn[content].ids.append(read.ids[n])
                continue
            rank = -int(ranks[n])
            if len(self._ranks) < self._size:
                heapq.heappush(self._ranks, (rank, content))
            elif rank < self._ranks[0][0]:
                continue
            else:
                del self.drawn[heapq.heapreplace(self._ranks, (rank, content))[1]]
            self.drawn[content] = Drawn(
                read.documents[n], [read.ids[n]], content, int(read.places[n]), int(read.times[n]), int(read.streams[n])
            )

    def contents(self) -> int:
        """Return how many distinct contents there were."""
        return len(np.unique(np.concatenate(self._contents))) if self._contents else 0

    def in_order(self) -> list[Drawn]:
        """Return the sample in order of arrival."""
        return sorted(self.drawn.values(), key=lambda drawn: drawn.place)
