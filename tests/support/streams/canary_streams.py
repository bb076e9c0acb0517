"""Streams with a window and canaries, with faults that can be put in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from neardup.stream import Config, Document, Matcher, Signer
from neardup.stream.canaries.canaries import FAULT, Canaries
from neardup.stream.pipeline import match_step
from neardup.stream.table.chains import KEYS

STEP = 64
WORDS = [f"w{n}" for n in range(20_000)]
# Six hours of a document every two seconds.
WINDOW = Config(window_seconds=6 * 3600.0, lateness_seconds=60.0)
SECONDS = 2.0


def texts(rng: random.Random) -> Iterator[list[Document]]:
    """Steps of documents of 3 to 60 words without near-duplicates."""
    number = 0
    while True:
        step = []
        for _ in range(STEP):
            words = rng.choices(WORDS, k=rng.randint(3, 60))
            step.append(Document(f"d{number}", " ".join(words), SECONDS * number))
            number += 1
        yield step


class World:
    """A stream, its matcher and its canaries."""

    def __init__(self, seed: int, config: Config = WINDOW) -> None:
        self.steps = texts(random.Random(seed))
        self.config, self.signer, self.matcher = config, Signer(config), Matcher(config)
        self.canaries = Canaries(self.matcher, seed=seed)
        self.documents = 0

    def run(self, documents: int) -> None:
        """Run until so many documents came in all."""
        while self.documents < documents:
            step = next(self.steps)
            batch = self.signer.sign(step).batch
            match_step(self.matcher, batch)
            self.canaries.after(step, batch)
            self.documents += STEP

    def until_noticed(self, documents_max: int) -> int | None:
        """Run until a fault or the alarm; return how many documents that took, ``None`` if it did not come."""
        began = self.documents
        while self.documents - began < documents_max:
            if self.canaries.outcomes[FAULT] or self.canaries.alarm.rings:
                return self.documents - began
            self.run(self.documents + STEP)
        return None


def lose_a_band(world: World) -> None:
    """From now on the key of one band is not added."""
    table = world.matcher.table
    add = table.probe_add

    def without(items, **options):
        if options.get("add", True):
            keys = items.keys.copy()
            keys[items.key_starts[:-1] + KEYS + 7] ^= np.uint64(0x9E3779B97F4A7C15)
            keys.flags.writeable = items.keys.flags.writeable
            items = items._replace(keys=keys)
        return add(items, **options)

    table.probe_add = without  # type: ignore[method-assign]


def shorten_the_window(world: World) -> None:
    """From now on documents leave the table an hour early."""
    limits = world.matcher.table.limits
    world.matcher.table.limits = limits._replace(window=limits.window - 3_600_000_000)


def restore_without_the_last_step(world: World) -> None:
    """A new table holds the window but for the last step; the canaries know the window from the store."""
    stored = []
    for _ in range(40):
        step = next(world.steps)
        stored.append(world.signer.sign(step).batch)
    world.matcher = Matcher(world.config)
    world.canaries = Canaries(world.matcher, seed=world.documents)
    slot = 0
    for batch in stored:
        if batch is not stored[-1]:
            match_step(world.matcher, batch)
        world.canaries.restored(batch, slot, STEP if batch is stored[-1] else 0)
        slot += batch.size


FAULTS: dict[str, Callable[[World], None]] = {
    "a lost band": lose_a_band,
    "a window an hour short": shorten_the_window,
    "a restore without its last step": restore_without_the_last_step,
}
