"""The verdict on a torture: brute force over what is committed in ``documents``, against what is in ``candidates``.

Everything comes as librdkafka reads it. Bands are compared as bytes of the sketches and the similarity is counted from
them, so of the library only signing is trusted. A pair of contents is one of these:

- *promised*: every document of both lies within one window, and none is too late (below). It is there once; if one of
  the contents has copies, the shard of each content may publish it once, and once more if shards were added;
- *forbidden*: no two documents of them lie within one window, or one was removed before the other came;
- *undecided*: all else, and what meets more candidates than a probe may take (*crowded*): it may be there or not, but
  what is there is right.

Time. The clock of a document is its record time as a running maximum over its partition. Alignment promises that a
document is signed before any whose clock is later by more than half of ``lateness_seconds``. So the greatest event time
that can be signed before a document is known: the maximum over the documents up to its clock and that half. A document
below that maximum by more than ``lateness_seconds`` is *late*. Of two documents the first is known if they have one
partition, or clocks that far apart; only the second must not be late.

Contents of one document are judged with versions and removals; those of several (copies) only if every id came once and
was never removed: then n copies are promised n - 1 links that join them. Each removal is announced at least once by id.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np
import orjson
from torture_reader import Read

from neardup.documents.document import Document
from neardup.pairs.pair_rule import ESTIMATE_MAX
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup_workers.outside.settings.kafka import StreamSettings

MICROSECONDS = 1_000_000
EXAMPLES_MAX = 5


class Doc(NamedTuple):
    """One committed version of a document."""

    id: str
    time: int  # microseconds
    content: int
    partition: int
    offset: int
    clock_ms: int


class Removal(NamedTuple):
    """One committed removal."""

    partition: int
    offset: int
    clock_ms: int


@dataclass
class Verdict:
    """Counts of what the run held (``seen``), of what was published, and of faults; ``examples`` of each kind."""

    seen: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.lost and not self.repeated and not self.wrong

    def fault(self, kind: str, what: object, count: int = 1) -> None:
        if count > 0:
            setattr(self, kind, getattr(self, kind) + count)
            if sum(line.startswith(kind) for line in self.examples) < EXAMPLES_MAX:
                self.examples.append(f"{kind}: {what}")


class World:
    """The committed documents: versions, removals, poison, contents, and what time says of them."""

    def __init__(self, records: Sequence[Read], config: Config, shards: int) -> None:
        self.shards = shards
        self.window = round((config.window_seconds or 0) * MICROSECONDS)
        self.lateness = round(config.lateness_seconds * MICROSECONDS)
        self.span_ms = config.lateness_seconds * 1000 / 2
        self.removals: dict[str, list[Removal]] = defaultdict(list)
        self.poison: Counter[tuple[int, int, str]] = Counter()
        rows, places = self._read(records)
        signed = Signer(config).sign([Document(str(row["id"]), str(row["text"]), row["timestamp"]) for row in rows])
        assert not signed.refusals, signed.refusals[:3]
        numbers: dict[bytes, int] = {}
        first: list[int] = []  # the row that a content came with
        self.docs: list[Doc] = []
        contents = [row.tobytes() for row in signed.batch.contents]
        for i, (row, place, time) in enumerate(zip(rows, places, signed.batch.times.tolist(), strict=True)):
            number = numbers.setdefault(contents[i], len(first))
            if number == len(first):
                first.append(i)
            self.docs.append(Doc(str(row["id"]), time, number, *place))
        self._index()
        evidence = signed.batch.fixed[first].reshape(len(first), config.tuning.bands, config.tuning.rows)
        self._compare(evidence, config)

    def _read(self, records: Sequence[Read]) -> tuple[list[dict[str, object]], list[Removal]]:
        """Records by kind; of documents the rows, and their places."""
        rows, places = [], []
        clocks: dict[int, int] = defaultdict(int)  # the clock of each partition
        for record in records:
            clock = clocks[record.partition] = max(clocks[record.partition], record.timestamp_ms)
            key, place = (record.key or b"").decode(), Removal(record.partition, record.offset, clock)
            if key.startswith("poison-"):
                self.poison[record.partition, record.offset, key.split("-")[1]] += 1
            elif record.value is None:
                self.removals[key].append(place)
            else:
                rows.append(orjson.loads(record.value))
                places.append(place)
        return rows, places

    def _index(self) -> None:
        self.versions: dict[tuple[str, int], list[Doc]] = defaultdict(list)
        self.members: dict[int, list[Doc]] = defaultdict(list)
        for doc in self.docs:
            self.versions[doc.id, doc.time].append(doc)
            self.members[doc.content].append(doc)
        self.times_of_id = Counter(doc.id for doc in self.docs)
        ordered = sorted(self.docs, key=lambda doc: doc.clock_ms)
        self._clocks = [doc.clock_ms for doc in ordered]
        self._greatest = list(accumulate((doc.time for doc in ordered), max))

    def _compare(self, evidence: np.ndarray, config: Config) -> None:
        assert config.tuning.sketch_bits == 8, "a row is a byte here"
        self.pairs: dict[tuple[int, int], tuple[float, int]] = {}  # similarity and bands in common
        degrees: Counter[int] = Counter()
        self.neighbours: Counter[int] = Counter()
        for a, b in _sharing(evidence):
            equal = evidence[a] == evidence[b]
            similarity = float(np.clip((equal.mean() - 2.0**-8) / (1 - 2.0**-8), 0, ESTIMATE_MAX))
            degrees[a] += len(self.members[b])
            degrees[b] += len(self.members[a])
            if similarity >= config.tuning.score_min:
                self.pairs[a, b] = similarity, int(equal.all(axis=1).sum())
                self.neighbours.update((a, b))
        limit = min(config.bucket_candidates_max, config.probe_limit or config.bucket_candidates_max)
        share = limit / self.shards  # a shard takes its share and four deviations
        limit = min(limit, max(16, math.ceil(share + 4 * math.sqrt(share)))) if self.shards > 1 else limit
        self.crowded = {content for content, degree in degrees.items() if degree >= limit}

    def is_late(self, doc: Doc) -> bool:
        """Whether it may come later than ``lateness_seconds`` by the order that alignment allows."""
        before = bisect_right(self._clocks, doc.clock_ms + self.span_ms)
        return doc.time < self._greatest[before - 1] - self.lateness

    def is_first(self, one: Doc | Removal, other: Doc | Removal) -> bool:
        """Whether ``one`` is signed before ``other`` for certain."""
        if one.partition == other.partition:
            return one.offset < other.offset
        return one.clock_ms + self.span_ms < other.clock_ms

    def is_settled(self, content: int) -> bool:
        """Whether its ids came once and were never removed."""
        return all(self.times_of_id[doc.id] == 1 and doc.id not in self.removals for doc in self.members[content])

    def removal_of(self, doc: Doc) -> Removal | None:
        """The first removal of its id after it."""
        later = [removal for removal in self.removals.get(doc.id, ()) if removal.offset > doc.offset]
        return min(later, key=lambda removal: removal.offset, default=None)

    def promise(self, a: int, b: int) -> str:
        """What is said of a pair of contents that are alike: ``promised``, ``forbidden`` or ``undecided``."""
        if min(abs(x.time - y.time) for x in self.members[a] for y in self.members[b]) > self.window:
            return "forbidden"
        if len(self.members[a]) == len(self.members[b]) == 1:
            out = self._promise_single(self.members[a][0], self.members[b][0])
        elif self.is_settled(a) and self.is_settled(b):
            together = self.members[a] + self.members[b]
            is_whole = extent(together) <= self.window and not any(map(self.is_late, together))
            out = "promised" if is_whole else "undecided"
        else:
            out = "undecided"
        return "undecided" if out == "promised" and (a in self.crowded or b in self.crowded) else out

    def _promise_single(self, x: Doc, y: Doc) -> str:
        if x.id == y.id:
            return "forbidden"
        out = "promised"
        for one, other in ((x, y), (y, x)):
            if self.is_late(one) and not self.is_first(one, other):
                out = "undecided"
        for one, other in ((x, y), (y, x)):
            removal = self.removal_of(one)
            if removal is None or self.is_first(other, removal):
                continue
            if self.is_first(removal, other):
                return "forbidden"
            out = "undecided"
        return out


def _sharing(evidence: np.ndarray) -> set[tuple[int, int]]:
    """The pairs, smaller number first, that have the bytes of a band in common."""
    pairs: set[tuple[int, int]] = set()
    for band in range(evidence.shape[1]):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for number, rows in enumerate(evidence[:, band]):
            buckets[rows.tobytes()].append(number)
        for bucket in buckets.values():
            pairs.update(combinations(bucket, 2))
    return pairs


def judge(
    documents: Sequence[Read], candidates: Sequence[Read], dead: Sequence[Read], settings: StreamSettings, shards: int
) -> Verdict:
    """Compare the committed records of the three topics; at the end there are so many shards."""
    world, out = World(documents, settings, shards), Verdict()
    out.seen.update(documents=len(world.docs), poison=len(world.poison), late=sum(map(world.is_late, world.docs)))
    out.seen.update(versions=sum(count > 1 for count in world.times_of_id.values()), hot=len(world.crowded))
    _judge_dead(out, world, dead)
    published: Counter[tuple[int, int]] = Counter()
    links: dict[int, list[tuple[Doc, Doc]]] = defaultdict(list)
    notices: Counter[str] = Counter()
    for record in candidates:
        pair = orjson.loads(record.value or b"")
        if "removed" in pair:
            notices[pair["removed"]] += 1
            continue
        out.seen["published"] += 1
        found = _right(out, world, pair, settings)
        if found is not None and found[0].content == found[1].content:
            links[found[0].content].append(found)
        elif found is not None:
            a, b = sorted((found[0].content, found[1].content))
            published[a, b] += 1
    _judge_notices(out, world, notices)
    _judge_pairs(out, world, published, 4 if shards > settings.shards else 2)
    _judge_links(out, world, links)
    return out


def _judge_dead(out: Verdict, world: World, dead: Sequence[Read]) -> None:
    letters = [orjson.loads(record.value or b"") for record in dead]
    found = Counter((letter["partition"], letter["offset"], letter["reason"]) for letter in letters)
    for letter, count in (world.poison - found).items():
        out.fault("lost", f"dead letter {letter}", count)
    for letter, count in (found - world.poison).items():
        out.fault("repeated" if letter in world.poison else "wrong", f"dead letter {letter}", count)


def _right(out: Verdict, world: World, pair: dict[str, object], config: Config) -> tuple[Doc, Doc] | None:
    """The versions that a published pair is of, if all that it says is right."""
    seconds = (float(str(pair[name])) for name in ("older_timestamp", "newer_timestamp"))
    times = [round(second * MICROSECONDS) for second in seconds]
    older = world.versions.get((str(pair["older"]), times[0]))
    newer = world.versions.get((str(pair["newer"]), times[1]))
    if not older or not newer:
        out.fault("wrong", f"of a version that is not there: {pair}")
        return None
    a, b = sorted((older[0].content, newer[0].content))
    similarity, buckets = world.pairs.get((a, b), (0.0, 0)) if a != b else (1.0, config.tuning.bands)
    is_right = (
        buckets > 0
        and pair["older"] != pair["newer"]
        and abs(float(str(pair["similarity"])) - similarity) < 1e-3
        and pair["buckets"] == buckets
        and times[1] - times[0] <= world.window
        and times[0] <= times[1]
    )
    if not is_right:
        out.fault("wrong", f"{pair}; expected similarity {similarity}, buckets {buckets}; {older[0]} {newer[0]}")
    return (older[0], newer[0]) if is_right else None


def _judge_notices(out: Verdict, world: World, notices: Counter[str]) -> None:
    out.seen["removals"] = sum(map(len, world.removals.values()))
    for name, removals in world.removals.items():
        out.fault("lost", f"the notice of {name}", int(notices[name] == 0))
        out.fault("repeated", f"{notices[name]} notices of {name}", notices[name] - len(removals))
    for name in notices.keys() - world.removals.keys():
        out.fault("wrong", f"a notice of {name}", notices[name])


def _judge_pairs(out: Verdict, world: World, published: Counter[tuple[int, int]], copies_max: int) -> None:
    paired: set[int] = set()
    for a, b in world.pairs:
        found, said = published[a, b], world.promise(a, b)
        what = world.members[a], world.members[b]
        out.seen[said] += 1
        if found:
            paired.update((a, b))
        if said == "promised":
            out.fault("lost", what, int(found == 0))
            out.fault("repeated", f"{found} times: {what}", found - min(copies_max, len(what[0]) * len(what[1])))
        elif said == "forbidden":
            out.fault("wrong", f"apart in time, removed or of one id: {what}", found)
        elif len(what[0]) == len(what[1]) == 1:
            out.fault("repeated", f"{found} times: {what}", found - 1)
    for content in world.crowded:
        if world.neighbours[content] >= len(world.crowded) / 2:
            out.fault("lost", f"all pairs of a hot one: {world.members[content]}", int(content not in paired))


def _judge_links(out: Verdict, world: World, links: dict[int, list[tuple[Doc, Doc]]]) -> None:
    for content, group in world.members.items():
        if extent(group) > world.window or not world.is_settled(content) or any(map(world.is_late, group)):
            out.seen["undecided"] += len(group) > 1
            continue
        out.seen["links"] += len(group) - 1
        root = {doc.id: doc.id for doc in group}
        joined = 0
        for older, newer in links[content]:
            a, b = _root(root, older.id), _root(root, newer.id)
            out.fault("repeated", f"link {older.id} {newer.id} of {group}", int(a == b))
            joined += a != b
            root[a] = b
        out.fault("lost", f"links {links[content]} of {group}", len(group) - 1 - joined)


def _root(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name


def extent(group: Sequence[Doc]) -> int:
    """How far apart the event times of documents lie."""
    times = [doc.time for doc in group]
    return max(times) - min(times)
