"""What the laws run on: every scheme with every kind of shingles, and random streams with many near-duplicates."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from stream import Config, Document
from stream.schemes import SCHEMES
from stream.shingles import SHINGLES

# (law, scheme, shingles) -> why the law does not hold there. A name is that of the test function.
EXCLUDED: dict[tuple[str, str, str], str] = {}

STOPS = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "with", "they", "be", "at"]
# Words of several scripts and lengths; none a stop word.
CONTENT = [f"{stem}{ending}" for stem in ("rain", "göal", "marké", "tree", "вест") for ending in range(40)]


def every_case(law: Callable[..., None]) -> Callable[..., None]:
    """Run a test on every ``scheme`` and kind of ``shingles`` that is not excluded from it by its name."""
    pairs = [(scheme, shingles) for scheme in SCHEMES for shingles in SHINGLES]
    kept = [pair for pair in pairs if (law.__name__, *pair) not in EXCLUDED]
    return pytest.mark.parametrize(("scheme", "shingles"), kept)(law)


def config_of(scheme: str, shingles: str, **settings: Any) -> Config:
    """No bucket is cut, unless the settings say so."""
    return Config(scheme=scheme, shingles=shingles, **{"bucket_candidates_max": 2**20, **settings})


def prose(rng: random.Random, words: int) -> list[str]:
    """Words, every third of them a stop word or so."""
    return [rng.choice(STOPS) if rng.random() < 0.35 else rng.choice(CONTENT) for _ in range(words)]


def edited(rng: random.Random, words: list[str], edits: int) -> list[str]:
    """Some words replaced, dropped or put in."""
    out = list(words)
    for _ in range(edits):
        at = rng.randrange(len(out))
        out[at : at + rng.randint(0, 1)] = prose(rng, rng.randint(0, 1))
        out = out or ["alone"]
    return out


def random_stream(
    rng: random.Random, size: int, *, copies: float = 0.25, versions: float = 0.0, jitter: float | None = None
) -> list[Document]:
    """New stories, edited ones and, with these chances, exact copies and ids that came before; now and then no text.

    With ``jitter`` event times grow by a second a document on average, and are late by at most that many seconds.
    """
    stories: list[list[str]] = []
    out: list[Document] = []
    clock = 1000.0
    for n in range(size):
        clock += rng.expovariate(1)
        kind = rng.random()
        if stories and kind < copies:
            words = rng.choice(stories)
        elif stories and kind < copies + 0.4:
            words = edited(rng, rng.choice(stories), rng.randint(1, 4))
        else:
            words = prose(rng, rng.randint(12, 60))
        stories.append(words)
        text = " ".join(words) if rng.random() > 0.02 else rng.choice(["", " \n", "\ud800"])
        id_ = rng.choice(out).id if out and rng.random() < versions else f"d{n}"
        time = None if jitter is None else clock - rng.random() * jitter
        out.append(Document(id_, text, time))
    return out
