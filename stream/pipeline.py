"""The one path of a document: normalise, shingle, sign | probe, add, score | pair.

``Signer`` is the left half and keeps nothing; ``Matcher`` is the right half and keeps the table; ``Deduplicator`` is the
two of them in one process. Workers run the halves on different machines with a topic between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.batches import MICROSECONDS, Batch, id_columns, table_items, time_of
from stream.config import Config
from stream.documents import Document, Pair, Refusal
from stream.normalize import code_points
from stream.schemes import SCHEMES
from stream.table import NO_TIME, NO_WINDOW, BandTable, Candidates, Limits

# Texts are signed in chunks of about this many characters: enough that the calls cost little, few enough that their
# shingles (8 bytes each) stay in the last cache. Measured on 5 kB texts: 16 microseconds each, 22 with a quarter of it.
CHUNK_CHARACTERS = 1 << 18
# And of this many documents at most, so that a caller of short texts sees pairs soon.
CHUNK_DOCUMENTS = 512


class Signed(NamedTuple):
    """What a signer makes of documents: the batch, the refused ones, and how much was read."""

    batch: Batch
    refusals: list[Refusal]
    characters: int
    shingles: int


class Matches(NamedTuple):
    """Scored candidates of a batch as columns, in order of arrival; ``emitted`` are those at or above the cut."""

    older: list[str]
    newer: list[str]
    similarity: npt.NDArray[np.float64]
    buckets: npt.NDArray[np.int32]

    def pairs(self) -> list[Pair]:
        """The columns as pairs."""
        return list(map(Pair, self.older, self.newer, self.similarity.tolist(), self.buckets.tolist()))


_NO_MATCHES = Matches([], [], np.empty(0), np.empty(0, np.int32))


class Signer:
    """Documents -> batches. Keeps nothing between calls; the same document always gives the same row."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._scheme = SCHEMES[config.scheme]

    def sign(self, documents: Sequence[Document]) -> Signed:
        """Sign documents; those that cannot be used are refused with a reason, the others keep their order."""
        config, plan, scheme = self.config, self.config.plan, self._scheme
        refusals: list[Refusal] = []
        kept, ids, times = self._admit(documents, refusals)
        codes = code_points([documents[i].text for i in kept], config.normal_form)
        features = scheme.features(codes, plan)
        counts = np.diff(features.starts)
        if not counts.all():  # rare: leave out what has no features, and go on with the rest
            for i in np.flatnonzero(counts == 0).tolist():
                reason = "surrogate" if codes.surrogates[i] else "no_shingles" if codes.lengths[i] else "empty"
                refusals.append(Refusal(kept[i], documents[kept[i]].id, reason))
            some = np.flatnonzero(counts).tolist()
            ids, times = [ids[i] for i in some], [times[i] for i in some]
            features = features._replace(starts=np.append(features.starts[:-1][counts > 0], features.starts[-1:]))
        id_bytes, id_starts = id_columns(ids)
        batch = Batch(
            ids=id_bytes,
            id_starts=id_starts,
            times=np.array(times, np.int64),
            contents=scheme.contents(features),
            evidence=scheme.evidence(features, plan),
        )
        refusals.sort()
        return Signed(batch, refusals, int(codes.lengths.sum()), len(features.values))

    def _admit(
        self, documents: Sequence[Document], refusals: list[Refusal]
    ) -> tuple[list[int], list[bytes], list[int]]:
        """Which documents have an id, a time and a text that can be kept; their ids as bytes, their times."""
        kept, ids, times = [], [], []
        for i, document in enumerate(documents):
            time = time_of(document)
            reason = None
            try:
                id_ = document.id.encode()
            except UnicodeEncodeError:
                id_, reason = b"", "id_surrogate"
            if len(id_) > self.config.id_bytes_max:
                reason = "id_too_long"
            elif time is None:
                reason = "timestamp_range"
            elif len(document.text) > self.config.text_characters_max:
                reason = "text_too_long"
            if reason is not None or time is None:
                refusals.append(Refusal(i, document.id, reason or "timestamp_range"))
                continue
            kept.append(i)
            ids.append(id_)
            times.append(time)
        return kept, ids, times


class Matcher:
    """Batches -> matches, against everything in the window. One table; every call belongs to a step of it.

    ``candidates=True`` keeps the candidates below the cut as well.
    """

    def __init__(self, config: Config, *, candidates: bool = False) -> None:
        self.config = config
        self.cut = -1.0 if candidates else config.tuning.cut
        self._scheme = SCHEMES[config.scheme]
        self.table = BandTable(self._scheme.width(config.plan), table_limits(config, self._scheme.by_content))

    def match(self, batch: Batch, *, probe: bool = True, add: bool = True) -> Matches:
        """Probe the table with each item, then add it; score what was met; keep what passes the cut."""
        items = table_items(batch, self._scheme.keys(batch.evidence, self.config.plan))
        met = self.table.probe_add(items, probe=probe, add=add)
        if not len(met.items):
            return _NO_MATCHES
        similarity, buckets = self._score(batch, met)
        emitted = np.flatnonzero(similarity >= self.cut)
        at, slots = met.items[emitted], met.slots[emitted]
        names = batch.id_list()
        newer, older = [names[i] for i in at.tolist()], self.table.ids(slots)
        times, others = batch.times[at], self.table.times(slots)
        # Ties and items without a time go by arrival.
        for i in np.flatnonzero((times != NO_TIME) & (others != NO_TIME) & (times < others)).tolist():
            newer[i], older[i] = older[i], newer[i]
        return Matches(older, newer, similarity[emitted], buckets[emitted])

    def remove(self, id_: str) -> int:
        """Remove every version of an id; returns how many there were."""
        id_bytes, id_starts = id_columns([id_.encode()])
        contents, evidence = np.zeros((1, 2), np.uint64), np.zeros((1, self._scheme.width(self.config.plan)), np.uint8)
        batch = Batch(id_bytes, id_starts, np.array([NO_TIME]), contents, evidence)
        return self.table.remove(table_items(batch, np.empty((1, 0), np.uint64)))

    def _score(self, batch: Batch, met: Candidates) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
        common = self._scheme.common(batch.evidence[met.items], self.table.evidence(met.slots), self.config.plan)
        # Two different keys share a chain with probability 2^-41; the evidence knows better.
        met_truly = common.first_key >= 0
        similarity = np.where(met.identical, 1.0, np.where(met_truly, common.similarity, -2.0))
        return similarity, common.keys


class Deduplicator:
    """Near-duplicates in one process: give it documents as they come, get the pairs they make.

    >>> dedup = Deduplicator(Config(threshold=0.7))
    >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
    >>> dedup.process([Document("a", text), Document("b", text.replace("dog,", "cat,"))])[0][:2]
    ('a', 'b')
    """

    def __init__(self, config: Config | None = None, *, candidates: bool = False) -> None:
        self.config = config or Config()
        self.signer = Signer(self.config)
        self.matcher = Matcher(self.config, candidates=candidates)
        self.refusals: list[Refusal] = []
        self.refused = 0

    def process(self, documents: Iterable[Document]) -> list[Pair]:
        """Probe with each document, then add it; returns the pairs it makes with earlier ones, in order.

        Documents that cannot be used are in ``refusals`` afterwards, with the reason. What was taken stays taken if the
        iterable raises half-way, in chunks of ``CHUNK_DOCUMENTS``.
        """
        return self._run(documents, add=True)

    def probe(self, documents: Iterable[Document]) -> list[Pair]:
        """The pairs that ``process`` would report for each document alone; adds nothing, changes nothing."""
        return self._run(documents, add=False)

    def remove(self, id_: str) -> int:
        """Take away every version of an id: it is never reported again. Returns how many versions there were."""
        self.matcher.table.begin()
        removed = self.matcher.remove(id_)
        self.matcher.table.commit()
        return removed

    def counts(self) -> dict[str, int]:
        """What has happened so far: items, candidates, copies, late, expired, evicted, cuts, removed, refused."""
        return {**self.matcher.table.counts(), "refused": self.refused}

    def _run(self, documents: Iterable[Document], *, add: bool) -> list[Pair]:
        pairs: list[Pair] = []
        self.refusals = []
        first = 0
        for chunk in chunks(documents):
            signed = self.signer.sign(chunk)
            self.refusals += [refusal._replace(index=first + refusal.index) for refusal in signed.refusals]
            self.refused += len(signed.refusals)
            first += len(chunk)
            pairs += match_step(self.matcher, signed.batch, add=add).pairs()
        return pairs


def match_step(matcher: Matcher, batch: Batch, *, add: bool = True) -> Matches:
    """One batch as one step: it is taken whole or, on any exception, not at all."""
    if not add:
        return matcher.match(batch, add=False)
    matcher.table.begin()
    try:
        matches = matcher.match(batch)
    except BaseException:
        matcher.table.undo()
        raise
    matcher.table.commit()
    return matches


def chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Consecutive documents, ``CHUNK_CHARACTERS`` or ``CHUNK_DOCUMENTS`` at a time."""
    chunk: list[Document] = []
    characters = 0
    for document in documents:
        chunk.append(document)
        characters += len(document.text)
        if characters >= CHUNK_CHARACTERS or len(chunk) == CHUNK_DOCUMENTS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def table_limits(config: Config, by_content: bool) -> Limits:
    """The bounds of a table, from a configuration: seconds become microseconds."""
    window = NO_WINDOW if config.window_seconds is None else round(config.window_seconds * MICROSECONDS)
    return Limits(
        window=int(window),
        lateness=round(config.lateness_seconds * MICROSECONDS),
        items=config.window_documents,
        bucket_candidates=config.bucket_candidates_max,
        by_content=by_content,
    )
