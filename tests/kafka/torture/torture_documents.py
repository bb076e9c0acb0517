"""What the torture loads: a stream of documents with all that a stream has, made from one seed.

Two clocks. The *record time* of an item is when its producer sends it: it grows by a fixed stride, and lies in the past
for most of the run, so that alignment sees an archive; the last part is *live*, with the time of the wall clock. The
*event time* of a document differs from its record time by a delay, which ``Item.delay_seconds`` holds, because the
record time of a live item is known only when it is sent.

Kinds. *Plain* families hold a new text, near-copies and copies; their ids come once. Families of *singles* hold
near-copies only; their ids come again as new versions, and are removed. An echo of a family comes when a window is
over. *Late* documents come later than ``lateness_seconds``. *Hot* documents are near-copies of one text, all at once.
The key of *poison* holds the reason that its dead letter must give. With *templates* half of the new texts begin with
one of them, so that they share buckets with documents of every shard, and are no near-copies of one another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

WORDS = 60
TEMPLATE_WORDS = 40  # below the threshold
FAMILY_MAX = 24  # far below the limits of candidates, which may truncate nothing here
JITTER_SECONDS = 3.0
POISON: dict[str, bytes] = {
    "not_json": b"{",
    "not_utf8": b'{"text": "\xff"}',
    "not_object": b"[1, 2]",
    "no_text": b'{"title": "no text"}',
    "text_type": b'{"text": 5}',
    "empty": b'{"text": " "}',
}


class Shape(NamedTuple):
    """The sizes of a run, in event seconds, and how many documents are hot and live."""

    documents: int
    window: float
    lateness: float
    stride: float  # from one record time to the next
    hot: int
    live: int
    templates: int = 0

    @property
    def delay_max(self) -> float:
        """The delay of documents that are still on time: what alignment leaves of the lateness, less the jitter."""
        return min(self.lateness / 2 - 3 * JITTER_SECONDS, self.window / 4)


class Item(NamedTuple):
    """One record of ``documents``. ``text`` is ``None`` for a removal; poison has ``raw`` instead."""

    key: str
    text: str | None
    delay_seconds: float = 0.0
    raw: bytes | None = None

    def value(self, record_seconds: float) -> bytes | None:
        """The value of the record that is sent at that time."""
        if self.raw is not None or self.text is None:
            return self.raw
        event = round(record_seconds - self.delay_seconds, 3)
        return orjson.dumps({"id": self.key, "text": self.text, "timestamp": event})


@dataclass
class _Family:
    at: float
    is_plain: bool
    texts: list[list[str]]
    ids: list[str] = field(default_factory=list)
    echoed: bool = False


class _Stream:
    """The state of the making: families, by the record time of their first member."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape, self.chance = shape, random.Random(seed)
        self.lexicon = [f"word{i}" for i in range(4_000)]
        self.templates = [self.chance.choices(self.lexicon, k=TEMPLATE_WORDS) for _ in range(shape.templates)]
        self.families: list[_Family] = []
        self.recent = self.old = self.made = 0

    def item(self, at: float) -> Item:
        """The next item, sent at ``at``."""
        shape, chance = self.shape, self.chance
        self.made += 1
        spread = 0.85 * shape.window - shape.delay_max - 4 * JITTER_SECONDS
        while self.recent < len(self.families) and self.families[self.recent].at < at - spread:
            self.recent += 1
        gone = spread + shape.window + shape.delay_max + 4 * JITTER_SECONDS
        while self.old < len(self.families) and self.families[self.old].at < at - gone:
            self.old += 1
        draw = chance.random()
        if draw > 0.99:
            reason = chance.choice(list(POISON))
            return Item(f"poison-{reason}-{self.made}", None, raw=POISON[reason])
        family = chance.choice(self.families[self.recent :]) if self.recent < len(self.families) else None
        if family is not None and draw < 0.45 and len(family.texts) < FAMILY_MAX:
            return self._grow(family, draw)
        echo = self.families[chance.randrange(self.old)] if self.old else None
        words = [chance.choice(self.lexicon) for _ in range(WORDS)]
        if self.templates and chance.random() < 0.5:
            words[:TEMPLATE_WORDS] = chance.choice(self.templates)
        if echo is not None and draw > 0.94 and not echo.echoed:
            echo.echoed, words = True, self.edited(echo.texts[0])
        self.families.append(_Family(at, chance.random() < 0.6, [words]))
        return self._document(self.families[-1], words)

    def _grow(self, family: _Family, draw: float) -> Item:
        chance = self.chance
        if family.is_plain:
            words = list(chance.choice(family.texts))
            if draw > 0.12:
                words = self.edited(words)
        elif draw < 0.05:
            return Item(chance.choice(family.ids), None)
        else:
            words = self.edited(chance.choice(family.texts))
        family.texts.append(words)
        again = not family.is_plain and draw < 0.12
        return self._document(family, words, chance.choice(family.ids) if again else None)

    def edited(self, words: Sequence[str]) -> list[str]:
        """From one word to so many that the similarity falls below the threshold."""
        out = list(words)
        for _ in range(self.chance.choice((1, 1, 2, 3, 4, 6, 8))):
            out[self.chance.randrange(WORDS)] = self.chance.choice(self.lexicon)
        return out

    def _document(self, family: _Family, words: list[str], id_: str | None = None) -> Item:
        chance, shape = self.chance, self.shape
        delay, draw = chance.uniform(-JITTER_SECONDS, JITTER_SECONDS), chance.random()
        if draw < 0.05:
            delay = chance.uniform(0.0, shape.delay_max)
        elif draw < 0.065:
            delay = shape.lateness + chance.uniform(0.0, 2 * shape.window)
        name = id_ or f"d{self.made}"
        family.ids.append(name)
        return Item(name, " ".join(words), delay)


def items(shape: Shape, seed: int) -> list[Item]:
    """All items of a run in the order of sending; the hot ones stand together at a third of the way."""
    stream = _Stream(shape, seed)
    return list(_items(shape, stream))


def hot_at(shape: Shape) -> int:
    """Where the hot documents begin."""
    return shape.documents // 3


def _items(shape: Shape, stream: _Stream) -> Iterator[Item]:
    text = [stream.chance.choice(stream.lexicon) for _ in range(WORDS)]
    for number in range(shape.documents):
        if hot_at(shape) <= number < hot_at(shape) + shape.hot:
            words = list(text)
            words[stream.chance.randrange(WORDS)] = f"hot{number}"
            yield Item(f"hot{number}", " ".join(words))
        else:
            yield stream.item(number * shape.stride)
