"""The input of a simulated cluster, and the expected outcome of each record: known by construction, not by decoding.

The input has copies, near-duplicates, new versions of ids, tombstones, unreadable records, and late, early and
far-future times. An id always goes to the same partition of ``documents``, as takedowns require.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import NamedTuple

from memory_transport import MemoryCluster

from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.transport.protocol import Headers

MICROSECONDS = 1_000_000
FAR_SECONDS = 5e6

# (key, value) of unusable records, with the reason in their dead letter.
UNREADABLE: list[tuple[str, bytes | None, bytes | None]] = [
    ("not_json", b"k", b"{"),
    ("not_json", b"k", b""),
    ("not_utf8", b"k", b'{"text": "\xff"}'),
    ("not_object", b"k", b"[1, 2]"),
    ("no_text", b"k", b'{"id": "x"}'),
    ("text_type", b"k", b'{"text": 5}'),
    ("no_id", None, b'{"text": "something to read"}'),
    ("no_id", b"\xff\xfe", b'{"text": "something to read"}'),
    ("no_id", None, None),
    ("id_type", b"k", b'{"id": [7], "text": "something to read"}'),
    ("id_not_utf8", b"\xff\xfe", None),
    ("id_too_long", b"k" * 2000, None),
    ("id_too_long", b"k", json.dumps({"id": "k" * 2000, "text": "something to read"}).encode()),
    ("id_surrogate", b"k", b'{"id": "\\ud800", "text": "something to read"}'),
    ("surrogate", b"k", b'{"text": "some \\ud800 thing"}'),
    ("empty", b"k", b'{"text": " \\u3000 "}'),
    ("timestamp_unit", b"k", b'{"text": "something to read", "timestamp": 1700000000000}'),
    ("too_deep", b"k", b"[" * 2000),
]


class Truth(NamedTuple):
    """The expected content of a record of ``documents``. ``text`` is None for a tombstone; ``reason`` is set for a dead
    letter.
    """

    partition: int
    offset: int
    id: str
    time: int  # microseconds, as the signer must write it
    text: str | None
    reason: str | None = None


@dataclass
class Habits:
    """The habits of a feed: the chance of each kind of record, and the distance between times."""

    version: float = 0.0
    correction: float = 0.0
    resent: float = 0.0
    tombstone: float = 0.0
    unreadable: float = 0.03
    far_future: float = 0.0
    tie: float = 0.03
    late_seconds: float = 0.0
    early_seconds: float = 0.0
    skew_seconds: float = 60.0


def story_texts(rng: random.Random) -> list[str]:
    """A few stories in a few variants each. Variants differ in some words, so that some of them are pairs."""
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(120)]
    texts = []
    for _ in range(rng.randint(2, 6)):
        story = rng.choices(words, k=rng.randint(20, 40))
        for _ in range(rng.randint(1, 6)):
            variant = list(story)
            for place in rng.sample(range(len(story)), rng.randint(0, 7)):
                variant[place] = rng.choice(words)
            texts.append(" ".join(variant))
    return texts


def source_fields(name: str, number: int) -> dict[str, object]:
    """Who tells a document: a source by name, the host of an address, or none."""
    digit = sum(name.encode()) + number // 7
    return ({"source": f"Wire {digit % 4}"}, {"url": f"https://www.s{digit % 3}.example/{name}"}, {})[digit % 3]


@dataclass
class Feed:
    """The outside producer of one run. ``truths`` lists everything that it wrote, in order."""

    rng: random.Random
    cluster: MemoryCluster
    topic: str
    habits: Habits
    texts: list[str] = field(init=False)
    truths: list[Truth] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = story_texts(self.rng)
        self.partitions = self.cluster.partitions(self.topic)
        self._count = 0

    def send(self) -> Truth:
        """Write one record of a random kind."""
        rng, habits = self.rng, self.habits
        known = [truth for truth in self.truths if truth.text is not None and truth.reason is None]
        kinds = {
            "unreadable": habits.unreadable,
            "tombstone": habits.tombstone,
            "version": habits.version,
            "correction": habits.correction,
            "resent": habits.resent,
            "far": habits.far_future,
        }
        kind = rng.choices([*kinds, "fresh"], [*kinds.values(), max(0.0, 1 - sum(kinds.values()))])[0]
        self._count += 1
        if kind == "unreadable":
            reason, key, value = rng.choice(UNREADABLE)
            return self._append(key, value, "", 0, "", reason)
        if kind == "tombstone":
            name = rng.choice(known).id if known and rng.random() < 0.9 else f"unknown-{self._count}"
            return self.remove(name)
        if kind == "resent" and known:
            again = rng.choice(known)
            return self.document(again.id, again.text or "", again.time / MICROSECONDS)
        text = rng.choice(self.texts)
        now = self.cluster.now_seconds
        if kind == "correction" and known:
            before = rng.choice(known)
            words = (before.text or "").split()
            for _ in range(rng.randint(1, 3)):
                words[rng.randrange(len(words))] = rng.choice(text.split())
            return self.document(before.id, " ".join(words), round(now, 3) + self._count / MICROSECONDS)
        if kind == "far":
            return self.document(f"far-{self._count}", text, now + FAR_SECONDS * rng.random() + habits.skew_seconds)
        name = rng.choice(known).id if kind == "version" and known else f"d{self._count}"
        seconds: float | None = round(now + rng.uniform(-habits.late_seconds, habits.early_seconds), 3)
        seconds += self._count / MICROSECONDS  # so that (id, time) names a version
        if kind == "fresh" and rng.random() < 0.05:
            seconds = None
        elif kind == "fresh" and known and rng.random() < habits.tie:
            seconds = rng.choice(known).time / MICROSECONDS
        return self.document(name, text, seconds)

    def document(
        self, name: str, text: str, seconds: float | None = None, keyed: bool = True, **signals: object
    ) -> Truth:
        """Write one document; by default its time is the time of its record."""
        fields: dict[str, object] = {"id": name, "text": text, **source_fields(name, self._count), **signals}
        arrived = int(self.cluster.now_seconds * 1000) / 1000
        if seconds is not None:
            fields["timestamp"] = seconds
        kept = arrived if seconds is None or seconds > arrived + self.habits.skew_seconds else seconds
        if keyed and self.rng.random() < 0.5:
            del fields["id"]  # the key is the id
        return self._append(name.encode(), json.dumps(fields).encode(), name, round(kept * MICROSECONDS), text)

    def judge(self, name: str, text: str, other: str, *, same: bool) -> Truth:
        """Write a document again with what a person says of it and another id."""
        said = ("neardup-together" if same else "neardup-apart", other.encode())
        time, value = round(self.cluster.now_seconds * 1000) * 1000, json.dumps({"id": name, "text": text}).encode()
        return self._append(name.encode(), value, name, time, text, more=(said,))

    def remove(self, name: str) -> Truth:
        """Write a tombstone."""
        return self._append(name.encode(), None, name, 0, None)

    def unreadable(self) -> Truth:
        """Write one record that cannot be read."""
        reason, key, value = self.rng.choice(UNREADABLE)
        return self._append(key, value, "", 0, "", reason)

    def _append(
        self, key: bytes | None, value: bytes | None, name: str, time: int, text: str | None, reason: str | None = None,
        more: Headers = (),
    ) -> Truth:  # fmt: skip
        partition = partition_of_key(key or b"", self.partitions)
        headers = (("count", str(len(self.truths)).encode()), ("none", b"")) if len(self.truths) % 2 else ()
        offset = self.cluster.append(self.topic, partition, value, key, headers=(*headers, *more))
        self.truths.append(Truth(partition, offset, name, time, text, reason))
        return self.truths[-1]
