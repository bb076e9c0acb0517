"""A model of the table by brute force over a list, random streams for model and table, and walks of the arrays.

Seeds are parameters of the tests, so that the name of a failed test contains its seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from python_calls import from_python

from neardup.window import COUNTERS, NO_LIMIT, NO_TIME, NO_WINDOW, BandTable, Candidates, Items, Limits, chains
from neardup.window.chains import SUPERSEDED
from neardup.window.counters import BYTE_END, LINK_END, OLDEST, POSTING_END, SLOT_END
from neardup.window.heads import NONE, locate

_first_posting, _slot_of = from_python(chains.first_posting), from_python(chains.slot_of)
_slot_index, _locate, _link_at = map(from_python, (chains.slot_index, locate, chains.link_at))
OPEN = Limits(
    window=int(NO_WINDOW), lateness=0, items=NO_LIMIT, bytes=NO_LIMIT, bucket_candidates=NO_LIMIT,
    probe_candidates=NO_LIMIT, copies=NO_LIMIT, by_content=True, admit_ratio=0.0,
)  # fmt: skip
# Starts near which the 32-bit numbers of postings, slots and links wrap; postings start with a group of 32.
_END = 2**32
WRAP = {POSTING_END: _END - 992, SLOT_END: _END - 300, OLDEST: _END - 300, BYTE_END: _END - 700, LINK_END: _END - 200}


class Item(NamedTuple):
    """An item of the tests: the first key is the content, the second the id; the others are bucket keys, of which the
    last ``probed`` are not added."""

    id: str
    content: int
    keys: tuple[int, ...]
    time: int | None = None
    probed: int = 0

    @property
    def held(self) -> tuple[int, ...]:
        return self.keys[: len(self.keys) - self.probed]


@lru_cache(100_000)
def spread(kind: str, value: object) -> int:
    """A 64-bit key, the same in every run."""
    return int.from_bytes(blake2b(f"{kind}/{value}".encode(), digest_size=8).digest(), "little")


def item(name: object, content: object, buckets: Iterable[object] = (), time: int | None = None) -> Item:
    keys = (spread("content", content), spread("id", name), *(spread("bucket", b) for b in buckets))
    return Item(str(name), spread("half", content), keys, time)


def ragged_of(x: Item) -> bytes:
    """Return the ragged evidence of an item; it follows from the content."""
    return ragged_bytes(x.content)


@lru_cache(1_000)
def ragged_bytes(content: int) -> bytes:
    """Up to 300 bytes; a few reach over several pages."""
    return np.random.default_rng(content).bytes(content % 300 if content % 97 else 150_000)


def payload_of(x: Item, key: int) -> tuple[int, int]:
    """Return a position and a suffix length for a key in a content."""
    mixed = spread("payload", (x.content, key))
    return mixed % 5, mixed // 5 % 9 + 1


def batch(items: list[Item], *, ragged: bool = False, payloads: bool = False) -> Items:
    """The items as columns, with or without the columns that only some schemes have."""
    parts = [ragged_of(x) if ragged else b"" for x in items]
    bounds = [payload_of(x, key) for x in items for key in x.keys] if payloads else []
    ids = [x.id.encode() for x in items]
    contents = np.array([x.content for x in items], np.uint64)
    return Items(
        kinds=np.zeros(len(items), np.uint8),
        keys=np.array([key for x in items for key in x.keys], np.uint64),
        key_starts=np.cumsum([0, *(len(x.keys) for x in items)]).astype(np.int64),
        added=np.array([len(x.held) for x in items], np.int64),
        contents=contents,
        times=np.array([NO_TIME if x.time is None else x.time for x in items], np.int64),
        ids=np.frombuffer(bytearray(b"".join(ids)), np.uint8),
        id_starts=np.cumsum([0, *map(len, ids)]).astype(np.int64),
        payloads=np.array([position << 32 | suffix for position, suffix in bounds], np.uint64),
        fixed=contents.view(np.uint8).reshape(-1, 8),
        ragged=np.frombuffer(bytearray(b"".join(parts)), np.uint8),
        ragged_starts=np.cumsum([0, *map(len, parts)]).astype(np.int64),
    )


def listed(found: Candidates) -> list[tuple[int, int, bool]]:
    return list(zip(found.items.tolist(), found.slots.tolist(), found.identical.tolist(), strict=True))


def in_slices(table: BandTable, items: Items, candidates_max: int, probe: bool, add: bool) -> Candidates:
    """One batch in slices; each slice except the last ends at the item that brings it to ``candidates_max``."""
    found, first = [], 0
    while first < len(items.times) or not found:
        found.append(table.probe_add(items, probe=probe, add=add, first=first, candidates_max=candidates_max))
        assert found[-1].end > first or not len(items.times)
        first = found[-1].end
    for part in found:
        counts = np.bincount(part.items) if len(part.items) else np.zeros(1, int)
        assert len(part.items) - counts[-1] < candidates_max, "the slice goes on after its last item was reached"
        assert part.end == len(items.times) or len(part.items) >= candidates_max, "the slice ends too early"
    return Candidates(*(np.concatenate(column) for column in zip(*(part[:4] for part in found), strict=True)), first)


def add(table: BandTable, *items: Item, probe: bool = True) -> list[tuple[int, int, bool]]:
    """One step with one batch."""
    table.begin()
    found = listed(table.probe_add(batch(list(items)), probe=probe))
    table.commit()
    return found


@dataclass
class Entry:
    """An item in the window of the model; ``time`` is its effective time, None before any item had one."""

    slot: int
    item: Item
    time: int | None
    size: int
    superseded: bool = False
    removed: bool = False


@dataclass
class Model:
    """The meaning of the table, by brute force over a list in order of arrival."""

    limits: Limits
    slot_end: int = 0
    ragged: bool = False
    live: list[Entry] = field(default_factory=list)
    stream: int | None = None
    first: int | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def copy(self) -> Model:
        return replace(self, live=[replace(entry) for entry in self.live], counts=dict(self.counts))

    def probe_add(self, items: list[Item], probe: bool, add: bool) -> list[tuple[int, int, bool]]:
        return [(i, *found) for i, x in enumerate(items) for found in self._one(x, probe, add)]

    def _one(self, x: Item, probe: bool, add: bool) -> list[tuple[int, bool]]:
        if add:
            self._pass_time(x)
        time = self.stream if x.time is None else x.time
        copies = [e for e in self.live if e.item.content == x.content] if self.limits.by_content else []
        top = copies[-1] if copies else None
        found, cuts = [], self.counts["cuts"]
        if probe:
            copy = self._eligible_copy(top, x, time) if top else None
            found = [(copy.slot, True)] if copy else self._walk(x, time, top)
            self.counts["copies" if copy else "candidates"] += len(found)
            self.counts["truncated"] += self.counts["cuts"] > cuts
        if add:
            self.counts["versions"] += any(entry.item.id == x.id for entry in self.live)
            self.live.append(Entry(self.slot_end, x, time, self._size(x)))
            self.slot_end += 1
            if top:
                top.superseded = True
        return found

    def _pass_time(self, x: Item) -> None:
        time, size = x.time, self._size(x)
        self.counts["items"] += 1
        if time is not None:
            self.first = time if self.first is None else self.first
            self.stream = time if self.stream is None else max(self.stream, time)
            self.counts["late"] += self.limits.window != NO_WINDOW and time < self.stream - self.limits.lateness
        while self.live and self.stream is not None and self.limits.window != NO_WINDOW:
            if self._time(self.live[0]) >= self.stream - self.limits.window - self.limits.lateness:
                break
            self.live.pop(0)
            self.counts["expired"] += 1
        while self.live and (
            len(self.live) >= self.limits.items or sum(entry.size for entry in self.live) + size > self.limits.bytes
        ):
            self.live.pop(0)
            self.counts["evicted"] += 1

    def _size(self, x: Item) -> int:
        return len(x.id.encode()) + (len(ragged_of(x)) if self.ragged else 0)

    def _time(self, entry: Entry) -> int | None:
        return self.first if entry.time is None else entry.time

    def _in_window(self, entry: Entry, time: int | None) -> bool:
        """Whether an entry may pair with an item of a time: an entry that its own time puts outside may not."""
        other, limits = self._time(entry), self.limits
        if other is None or time is None or self.stream is None or limits.window == NO_WINDOW:
            return True
        return abs(time - other) <= limits.window and other >= self.stream - limits.window - limits.lateness

    def _eligible_copy(self, entry: Entry, x: Item, time: int | None) -> Entry | None:
        """The newest copy of an entry's content, from the entry on, that may pair with an item."""
        copies = [entry]
        if self.limits.by_content:
            older = [e for e in reversed(self.live) if e.slot <= entry.slot]
            copies = [e for e in older if e.item.content == entry.item.content]
        for n, copy in enumerate(copies):
            if n == self.limits.copies:
                self.counts["cuts"] += 1
                return None
            if not copy.removed and self._in_window(copy, time) and copy.item.id != x.id:
                return copy
        return None

    def _walk(self, x: Item, time: int | None, top: Entry | None) -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        seen: set[int] = set()
        limits = self.limits
        old, cuts = min(limits.bucket_candidates // 4, limits.probe_candidates // 4, 64), self.counts["cuts"]
        for key in x.keys[2:]:
            bucket = [e for e in reversed(self.live) if key in e.item.held]
            standing = [e for e in bucket if not e.superseded and e is not top]
            if len(found) == limits.probe_candidates:
                continue
            newest = 0
            while (
                newest < min(len(standing), limits.bucket_candidates - old)
                and len(found) < limits.probe_candidates - old
            ):
                self._consider(x, time, key, standing[newest], found, seen)
                newest += 1
            rest = standing[newest:]
            if old:
                rest = [entry for entry in rest if self._in_window(entry, time)]
            self.counts["cuts"] += len(rest) > old and (old > 0 or len(found) < limits.probe_candidates)
            for entry in rest[max(0, len(rest) - old) :]:
                if len(found) < limits.probe_candidates:
                    self._consider(x, time, key, entry, found, seen)
        self.counts["cuts"] += len(found) == self.limits.probe_candidates
        if self.counts["cuts"] > cuts:
            self._count_uncompared(x, time, top, seen)
        return found

    def _count_uncompared(self, x: Item, time: int | None, top: Entry | None, seen: set[int]) -> None:
        cuts = self.counts["cuts"]
        for entry in self.live:
            is_standing = entry.slot not in seen and not entry.superseded and entry is not top
            if is_standing and any(key in entry.item.held and self._admits(x, entry.item, key) for key in x.keys[2:]):
                self.counts["uncompared"] += self._eligible_copy(entry, x, time) is not None
        self.counts["cuts"] = cuts

    def _consider(
        self, x: Item, time: int | None, key: int, entry: Entry, found: list[tuple[int, bool]], seen: set[int]
    ) -> None:
        if entry.slot not in seen and self._admits(x, entry.item, key):
            seen.add(entry.slot)
            speaker = self._eligible_copy(entry, x, time)
            found += [(speaker.slot, False)] if speaker else []

    def _admits(self, a: Item, b: Item, key: int) -> bool:
        if not self.limits.admit_ratio:
            return True
        (at_a, suffix_a), (at_b, suffix_b) = payload_of(a, key), payload_of(b, key)
        return min(suffix_a, suffix_b) >= self.limits.admit_ratio * (at_a + at_b + max(suffix_a, suffix_b))

    def remove(self, name: str) -> int:
        versions = [e for e in self.live if e.item.id == name and not e.removed]
        for entry in versions:
            entry.removed = True
        self.counts["removed"] += len(versions)
        return len(versions)


def chain(table: BandTable, key: int) -> Iterator[int]:
    """The live postings of a bucket from its head on, read from the arrays."""
    store = table.store
    state = store.state
    live = int(_first_posting(store, int(state[OLDEST]), table._base))
    posting, _ = _locate(store.heads, np.uint64(key), table._base, int(state[POSTING_END]))
    while posting >= live:
        yield int(posting)
        at = int(_link_at(store, posting))
        posting = posting - int(store.links[at]) if at != NONE and store.links[at] else -1


def hidden_in(table: BandTable, postings: Iterable[int]) -> int:
    """How many of these postings belong to slots that a newer copy has superseded."""
    indices = [_slot_index(table.store, int(_slot_of(table.store, p, table._base))) for p in postings]
    return sum(bool(table.store.flags[index] & SUPERSEDED) for index in indices)


def check_chains(table: BandTable, model: Model, hidden_may_remain: bool) -> None:
    """Every chain is strictly newest first and holds one key only; no posting is missing."""
    key_of, standing, superseded = {}, set(), set()
    for entry in model.live:
        start = int(_first_posting(table.store, entry.slot, table._base))
        key_of.update({start + j: key for j, key in enumerate(entry.item.held)})
        flags = table.store.flags[_slot_index(table.store, entry.slot)]
        assert bool(flags & SUPERSEDED) == entry.superseded
        (superseded if entry.superseded else standing).update(range(start + 2, start + len(entry.item.held)))
        standing.update((start, start + 1))
    reached: set[int] = set()
    for key in set(key_of.values()):
        postings = list(chain(table, key))
        assert all(a > b for a, b in pairwise(postings)), postings
        assert {key_of[posting] for posting in postings} == {key} if postings else True
        reached.update(postings)
    assert standing <= reached
    assert hidden_may_remain or not superseded & reached


def check_answers(table: BandTable, model: Model) -> None:
    slots = np.array([e.slot for e in model.live], np.int64)
    assert table.counts() == model.counts
    assert table.documents == len(slots)
    assert table.stream_time == (NO_TIME if model.stream is None else model.stream)
    assert table.ids(slots) == [e.item.id for e in model.live]
    times = [NO_TIME if e.item.time is None else e.item.time for e in model.live]
    assert table.times(slots).tolist() == times
    evidence = table.fixed(slots).copy().view(np.uint64).ravel().tolist()
    assert evidence == [e.item.content for e in model.live]
    data, starts = table.ragged(slots[::-1])
    parts = [data[first:end].tobytes() for first, end in pairwise(starts)]
    assert parts == [ragged_of(e.item) if model.ragged else b"" for e in reversed(model.live)]


@dataclass
class World:
    """Random items of one seed: few contents, few ids, few buckets, and one pattern of times."""

    rng: random.Random
    one_key_space: bool = False
    now: int = 1_000
    habit: str = "ordered"

    def __post_init__(self) -> None:
        rng = self.rng
        self.habit = rng.choice(["ordered", "disordered", "late", "missing", "mixed"])
        contents, buckets = rng.choice([3, 30, 500]), rng.choice([2, 6, 40])
        longest = min(5, buckets)
        self.buckets = [tuple(rng.sample(range(buckets), rng.randint(0, longest))) for _ in range(contents)]
        self.probed = [rng.choice([0, 0, rng.randint(0, len(held))]) for held in self.buckets]
        self.names = rng.choice([3, 40, 10_000])

    def item(self) -> Item:
        content, name = self.rng.randrange(len(self.buckets)), self.rng.randrange(self.names)
        made = item(name, content, self.buckets[content], self._time())._replace(probed=self.probed[content])
        if self.one_key_space:
            numbers = (content % 5, name % 7, *self.buckets[content])
            made = made._replace(keys=tuple(spread("any", n) for n in numbers))
        return made

    def items(self) -> list[Item]:
        return [self.item() for _ in range(self.rng.randint(0, 20))]

    def _time(self) -> int | None:
        rng, habit = self.rng, self.habit
        if habit == "mixed":
            habit = rng.choice(["ordered", "disordered", "late", "missing"])
        self.now += rng.choice([0, 0, 1, 3]) if rng.random() < 0.99 else 60
        if habit == "missing" and rng.random() < 0.7:
            return None
        back = {"disordered": rng.randint(-9, 9), "late": rng.choice([0, 0, 10, 80])}
        return self.now - back.get(habit, 0)


def run_random(table: BandTable, model: Model, world: World, steps: int, hidden_may_remain: bool) -> Model:
    """Run steps of random operations on table and model, compare them after each step, return the model."""
    rng = world.rng
    kinds = {"ragged": model.ragged, "payloads": model.limits.admit_ratio > 0}
    for _ in range(steps):
        before = model.copy()
        table.begin()
        for _ in range(rng.randint(0, 4)):
            if rng.random() < 0.2:
                gone = world.item()
                assert table.remove(batch([gone])) == model.remove(gone.id)
            else:
                probes, adds = rng.choice([(True, True)] * 4 + [(True, False), (False, True)])
                items = world.items()
                found = listed(in_slices(table, batch(items, **kinds), rng.choice([1, 3, NO_LIMIT]), probes, adds))
                assert found == model.probe_add(items, probes, adds)
            check_answers(table, model)
        if rng.random() < 0.3:
            table.undo()
            model = before
        else:
            table.commit()
        check_answers(table, model)
        if not world.one_key_space:
            check_chains(table, model, hidden_may_remain)
        items = world.items()
        assert listed(table.probe_add(batch(items, **kinds), add=False)) == model.probe_add(items, True, False)
    return model
