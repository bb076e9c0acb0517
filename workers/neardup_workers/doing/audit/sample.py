"""What an audit keeps of its first reading: facts about all documents, and a sample of contents.

Copies are folded: a content is drawn once, with its first document. Two parts of the contents are drawn from: those
that the run found, and those that it did not find although they can have an earlier neighbour. The others cannot be
units, so none of the sample is spent on them. Drawn are the contents with the least hashes of a hash function that the
number of the draw names, so a sample is repeated by its number.

Which contents can have a neighbour is asked of buckets of the audit's own: hash functions that the run does not use, no
limit, no window. Two documents at the threshold share one with a probability of ``_SEEN_MIN`` at least.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.documents.ids import collections_of
from neardup.errors import ConfigError
from neardup.features.tokens.verify import SET_MEASURES
from neardup.machine.kernels.hashing import GOLDEN
from neardup.pairs.batches import CONTENT_HALF, MICROSECONDS, rows_of
from neardup.pairs.estimates.key_set import KeySet, short_keys
from neardup.pairs.signing import Signed
from neardup.schemes.kinds import sets
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import choose
from neardup.window import NO_TIME
from neardup_workers.doing.session.session import Chunk
from neardup_workers.outside.settings.files import Settings

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# With this probability at least, two documents at the threshold share a bucket of the audit.
_SEEN_MIN = 0.999
# Rows of a signature at most: it costs about as much as that of a run.
_ROWS_MAX, _SKETCH_BITS = 208, 16
# The part of a sample that what was found gets; it moves a high recall little.
_FOUND_PART = 1 / 3
_SEEDS = 1 << 63
# The shape of the buckets is given, so this recall is asked for only in form.
_LEAST_RECALL = 0.01


class Signing(NamedTuple):
    """The settings that the first reading signs by, and the probability with which a neighbour is seen. ``has_keys``:
    their buckets say what can be similar; otherwise every content can."""

    settings: Settings
    seen_min: float
    has_keys: bool


def signing_of(settings: Settings, draw: int) -> Signing:
    """Return how the documents of a run with ``settings`` are signed for an audit."""
    plan, threshold = settings.plan, settings.threshold
    every = Signing(settings, 1.0, has_keys=False)
    measure = SET_MEASURES[plan.measure] if isinstance(plan, SetPlan) else None
    if measure is None or SCHEMES[settings.scheme].keys is not sets.keys or not measure.share_min(threshold):
        return every
    try:
        shape = choose(threshold, _SEEN_MIN, _ROWS_MAX, _SKETCH_BITS, agreement=measure.agreement, exact_score=True)
    except ConfigError:  # the threshold is too low for so few rows
        return every
    own = {
        "bands": shape.bands, "rows": shape.rows, "rows_max": _ROWS_MAX, "sketch_bits": _SKETCH_BITS,
        "seed": (settings.seed + 1 + draw) % _SEEDS, "recall": _LEAST_RECALL, "false_weight": None,
        "min_similarity": None, "buckets_shared_min": 1,
    }  # fmt: skip
    return Signing(settings.model_copy(update=own), _SEEN_MIN, has_keys=True)


class Read(NamedTuple):
    """The accepted documents of a chunk: themselves and their ids; contents (``int64[n]``, numbered from 0 in order of
    arrival), their hashes (``uint64[n]``) and whether each is the first one of its content; places (``int64[n]``,
    counted from 0 over all chunks), times (``int64[n]``, microseconds), whether each came in time, and keys
    (``uint32[n, b]``)."""

    documents: Sequence[Document]
    ids: list[str]
    contents: Longs
    hashes: npt.NDArray[np.uint64]
    is_first: Flags
    places: Longs
    times: Longs
    in_time: Flags
    keys: npt.NDArray[np.uint32]


class Facts(NamedTuple):
    """What the second reading knows of all n accepted documents: contents, times, whether each can be an earlier
    neighbour, collections (all 0 if they are not separate), keys; and the places of refused ones among all."""

    contents: Longs
    times: Longs
    usable: Flags
    collections: Longs
    keys: npt.NDArray[np.uint32]
    refused: frozenset[int]


class Drawn(NamedTuple):
    """A content of the sample: its first document, its number, the id and the place of its first document."""

    document: Document
    content: int
    id: str
    place: int


class WindowRule:
    """Which two documents of a stream lie in one window, as the settings bound it."""

    def __init__(self, settings: Settings) -> None:
        self._documents = settings.window_documents
        self._span = None if settings.window_seconds is None else round(settings.window_seconds * MICROSECONDS)
        self._lateness = round(settings.lateness_seconds * MICROSECONDS)

    def promises(self, times: Longs, streams: Longs) -> Flags:
        """Return which documents came in time (``bool[n]``): the others are outside of what is promised."""
        in_time: Flags = (times >= streams - self._lateness) | (times == NO_TIME)
        return in_time if self._span is not None else np.ones(len(times), np.bool_)

    def holds(self, places: Longs, times: Longs, other_places: Longs, other_times: Longs) -> Flags:
        """Return which documents lie in one window with another one, pairwise (``bool[n]``)."""
        near: Flags = np.abs(places - other_places) < self._documents
        if self._span is not None:
            no_time = (times == NO_TIME) | (other_times == NO_TIME)
            near &= (np.abs(np.where(no_time, 0, times - other_times)) <= self._span) | no_time
        return near


class FirstReading:
    """Numbers the documents and the contents of a stream, and keeps its time and the facts."""

    def __init__(self, settings: Settings, signing: Signing) -> None:
        self._signing, self._window = signing, WindowRule(settings)
        self._places, self._stream, self._documents = 0, int(NO_TIME), 0
        self._separate = settings.separate
        self._numbers: dict[int, int] = {}
        self._names: dict[str | None, int] = {}
        self._refused: set[int] = set()
        self._kept: list[tuple[npt.NDArray[Any], ...]] = []
        self._keys = KeySet()

    @property
    def contents(self) -> int:
        """Return how many distinct contents there were."""
        return len(self._numbers)

    def read(self, chunk: Chunk, signed: Signed) -> Read:
        """Return the accepted documents of the next chunk. One without a time has that of the stream."""
        batch, refused = signed.batch, {refusal.position for refusal in signed.refusals}
        count = len(chunk.documents)
        self._refused.update(self._documents + position for position in refused)
        self._documents += count
        documents = chunk.documents
        if refused:
            documents = rows_of(documents, [place for place in range(count) if place not in refused])
        streams = np.maximum.accumulate(np.append(self._stream, batch.times))[1:]
        times = np.where(batch.times == NO_TIME, streams, batch.times)
        places = np.arange(self._places, self._places + batch.size)
        self._places += batch.size
        self._stream = int(streams[-1]) if batch.size else self._stream
        known, contents = len(self._numbers), np.empty(batch.size, np.int64)
        is_first = np.zeros(batch.size, np.bool_)
        hashes = batch.contents[:, CONTENT_HALF]
        for n, content in enumerate(hashes.tolist()):
            contents[n] = number = self._numbers.setdefault(content, known)
            if number == known:
                known, is_first[n] = known + 1, True
        ids = batch.ids_at(np.arange(batch.size, dtype=np.int32))
        keys = np.empty((batch.size, 0), np.uint32)
        if self._signing.has_keys and batch.size:
            own = self._signing.settings
            all_keys = SCHEMES[own.scheme].keys(batch.evidence, own.plan)
            keys = short_keys(all_keys.values[all_keys.starts[:-1, None] + np.arange(own.tuning.bands)])
        in_time = self._window.promises(times, streams)
        return Read(documents, ids, contents, hashes, is_first, places, times, in_time, keys)

    def can_be_unit(self, read: Read, kept: Flags) -> Flags:
        """Keep the facts of the next documents, and return which of them can have an earlier neighbour (``bool[n]``);
        ``kept`` says which can be one."""
        usable = kept & read.in_time
        own = np.zeros(len(read.ids), np.int64)
        if self._separate:
            names = collections_of(read.ids)
            own = np.array([self._names.setdefault(name, len(self._names)) for name in names], np.int64)
        self._kept.append((read.contents, read.times, usable, own, read.keys))
        return self._keys.meet(read.keys, usable) if self._signing.has_keys else np.ones(len(usable), np.bool_)

    def facts(self) -> Facts:
        """Return what was kept."""
        none = np.empty(0, np.int64), np.empty(0, np.bool_), np.empty((0, 0), np.uint32)
        kept = self._kept or [(none[0], none[0], none[1], none[0], none[2])]
        contents, times, usable, collections, keys = (np.concatenate(column) for column in zip(*kept, strict=True))
        return Facts(contents, times, usable, collections, keys, frozenset(self._refused))


class Part:
    """A part of the contents, of which ``most`` are drawn at most, by the number of the draw; ``size`` is how many
    there are."""

    def __init__(self, most: int, draw: int) -> None:
        self._most, self._mask = most, np.uint64(draw * int(GOLDEN) % (1 << 64))
        self._heap: list[tuple[int, int]] = []  # the content to drop first has the greatest hash
        self._drawn: dict[int, Drawn] = {}
        self.size = 0

    def add(self, read: Read, rows: Longs) -> None:
        """Draw from some of the next documents, the first ones of their contents."""
        self.size += len(rows)
        ranks = (read.hashes[rows] ^ self._mask) * GOLDEN
        greatest = np.uint64(-self._heap[0][0]) if len(self._heap) == self._most else ~np.uint64(0)
        for at in np.flatnonzero(ranks <= greatest).tolist():
            n, rank = int(rows[at]), -int(ranks[at])
            content = int(read.contents[n])
            if len(self._heap) < self._most:
                heapq.heappush(self._heap, (rank, content))
            elif rank < self._heap[0][0]:
                continue
            else:
                del self._drawn[heapq.heapreplace(self._heap, (rank, content))[1]]
            self._drawn[content] = Drawn(read.documents[n], content, read.ids[n], int(read.places[n]))

    def drawn(self, count: int) -> list[Drawn]:
        """Return ``count`` contents, drawn at random from the part."""
        return [self._drawn[content] for _, content in heapq.nlargest(count, self._heap)]


def divided(size: int, found: int, others: int) -> tuple[int, int]:
    """Return how many contents a sample of ``size`` takes of two parts; what one cannot give, the other one gets."""
    of_found = min(found, max(round(size * _FOUND_PART), size - others))
    return of_found, min(others, size - of_found)
