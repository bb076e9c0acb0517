"""The oracles of the simulation: brute force over sketches, and lists instead of tables.

Two models answer two questions. *Did the matchers follow the log of ``signed``?* ``replayed`` plays the log through a
list, in order, as one table would; the output must be equal to the last digit. *Does the output keep the promise?*
``promised`` uses the documents alone, without their order, and lists the pairs of contents that must occur exactly
once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from sim_documents import Truth

from neardup.documents.document import Document
from neardup.pairs.pair_rule import ESTIMATE_MAX
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config

MICROSECONDS = 1_000_000


class Row(NamedTuple):
    """One document in ``signed``."""

    id: str
    time: int
    content: bytes


class Said(NamedTuple):
    """One pair as ``candidates`` reports it; times in microseconds."""

    older: str
    newer: str
    older_time: int
    newer_time: int
    similarity: float
    buckets: int

    def versions(self) -> frozenset[tuple[str, int]]:
        """The two versions of the pair, without order."""
        return frozenset({(self.older, self.older_time), (self.newer, self.newer_time)})


class Event(NamedTuple):
    """One row of ``signed``: a document, or a removed id."""

    row: Row | None
    removed: str = ""
    shards: int = 1  # how many there were


class Sketches:
    """The agreement of any two contents, computed from their sketches byte by byte."""

    def __init__(self, config: Config, texts: Iterable[str]) -> None:
        self.texts = sorted(set(texts))
        tuning = config.tuning
        assert tuning.sketch_bits == 8, "a row is a byte here"
        batch = Signer(config).sign([Document(str(i), text) for i, text in enumerate(self.texts)]).batch
        assert batch.size == len(self.texts)
        self.content_of = {text: row.tobytes() for text, row in zip(self.texts, batch.contents, strict=True)}
        self.number = {row.tobytes(): i for i, row in enumerate(batch.contents)}
        equal = batch.fixed[:, None, :] == batch.fixed[None, :, :]
        bands = equal.reshape(*equal.shape[:2], tuning.bands, tuning.rows).all(axis=3)
        self.buckets = bands.sum(axis=2)
        chance = 2.0**-tuning.sketch_bits
        self.similarity = np.clip((equal.mean(axis=2) - chance) / (1 - chance), 0, ESTIMATE_MAX)
        self.pairs = (self.buckets > 0) & (self.similarity >= tuning.score_min)


@dataclass
class _Entry:
    row: Row
    content: int
    shards: int
    removed: bool = False


@dataclass
class Replayed:
    """The output of one table, and its final state. ``copied`` are the versions that had a copy when they arrived."""

    said: list[Said] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    live: list[_Entry] = field(default_factory=list)
    copied: set[tuple[str, int]] = field(default_factory=set)
    stream: int | None = None
    late: int = 0
    expired: int = 0
    evicted: int = 0
    copies_max: int = 0


def replayed(events: Sequence[Event], config: Config, sketches: Sketches) -> Replayed:
    """Play the log through a list, without table and buckets: compare every content with every other."""
    out = Replayed()
    window, lateness = (round((seconds or 0) * MICROSECONDS) for seconds in _spans(config))
    for row, removed, shards in events:
        if row is None:
            for entry in out.live:
                entry.removed |= entry.row.id == removed
            out.notices.append(removed)
            continue
        content = sketches.number[row.content]
        _pass_time(out, row.time, window, lateness, config.window_documents)
        horizon = (out.stream or 0) - window - lateness
        standing = [entry for entry in out.live if entry.row.time >= horizon]
        for found in _met(standing, row, content, window, sketches):
            out.said.append(_said(row, content, found, sketches))
            if found.content == content:
                out.copied.add((row.id, row.time))
        out.live.append(_Entry(row, content, shards))
    return out


def _spans(config: Config) -> tuple[float, float]:
    assert config.window_seconds is not None
    return config.window_seconds, config.lateness_seconds


def _pass_time(out: Replayed, time: int, window: int, lateness: int, items: int) -> None:
    out.stream = time if out.stream is None else max(out.stream, time)
    out.late += time < out.stream - lateness
    _expire(out, window, lateness)
    while len(out.live) >= items:
        out.live.pop(0)
        out.evicted += 1


def _expire(out: Replayed, window: int, lateness: int) -> None:
    assert out.stream is not None
    while out.live and out.live[0].row.time < out.stream - window - lateness:
        out.live.pop(0)
        out.expired += 1


def _met(live: list[_Entry], row: Row, content: int, window: int, sketches: Sketches) -> list[_Entry]:
    """Return the partners of a new item: the newest eligible copy, or the newest item of each other content."""
    newest: dict[int, _Entry] = {}
    for entry in live:
        if not entry.removed and entry.row.id != row.id and abs(entry.row.time - row.time) <= window:
            newest[entry.content] = entry
    if content in newest:
        return [newest[content]]
    return [entry for other, entry in newest.items() if sketches.pairs[content, other]]


def _said(row: Row, content: int, found: _Entry, sketches: Sketches) -> Said:
    older, newer = sorted([found.row, row], key=lambda r: r.time)  # of equal times the one that arrived first
    similarity = 1.0 if found.content == content else float(np.round(sketches.similarity[content, found.content], 4))
    buckets = int(sketches.buckets[content, found.content])
    return Said(older.id, newer.id, older.time, newer.time, similarity, buckets)


@dataclass
class Promise:
    """The output that the documents alone require."""

    pairs: set[frozenset[int]]  # pairs of contents that must be published once, by any of their documents
    none: set[frozenset[int]]  # pairs of contents that must not be published
    links: dict[int, list[Truth]]  # contents whose copies must be joined into one tree


def promised(truths: Sequence[Truth], config: Config, sketches: Sketches) -> Promise:
    """Pairs of contents that must be published in any order of arrival.

    A content is *settled* if every document with it has its own id, which no other document and no tombstone uses. The
    promise covers the settled contents whose documents all lie within one window of each other. For the rest (versions,
    removals, copies at the edge of a window) the order decides which document represents a content.
    """
    ids = Counter(truth.id for truth in truths if truth.reason is None)
    documents: dict[int, list[Truth]] = defaultdict(list)
    for truth in truths:
        if truth.reason is None and truth.text is not None:
            documents[sketches.number[sketches.content_of[truth.text]]].append(truth)
    window = round((config.window_seconds or 0) * MICROSECONDS)
    settled = {content for content, group in documents.items() if all(ids[truth.id] == 1 for truth in group)}
    out = Promise(set(), set(), {})
    for content in settled:
        if _apart(documents[content]) <= window:
            out.links[content] = documents[content]
    for a, b in combinations(sorted(settled), 2):
        together = documents[a] + documents[b]
        if not sketches.pairs[a, b]:
            out.none.add(frozenset((a, b)))
        elif _apart(together) <= window:
            out.pairs.add(frozenset((a, b)))
    return out


def _apart(documents: Sequence[Truth]) -> int:
    times = [truth.time for truth in documents]
    return max(times) - min(times)


def trees(edges: Iterable[tuple[str, str]]) -> Counter[str]:
    """The sizes of connected components by their root; the links of n copies must make one component of n."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    for a, b in edges:
        root[find(a)] = find(b)
    return Counter(find(name) for name in list(root))
