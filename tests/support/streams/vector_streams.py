"""Random streams of vectors with many near-duplicates, for the laws."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from neardup import Document

DIMENSION = 24
COMPONENT_MAX = 50
NORM_MAX = 2.0


class Kind(NamedTuple):
    """How vectors of a measure are drawn: new vectors, vectors near another one, and refused vectors."""

    fresh: Callable[[np.random.Generator], Any]
    near: Callable[[np.random.Generator, Any], Any]
    bad: tuple[Any, ...]
    field: str = "vector"


def _long(rng: np.random.Generator, x: Any) -> Any:
    """Scale a vector to a length a little below the greatest."""
    return (x * rng.uniform(0.93, 1.0) * NORM_MAX / np.linalg.norm(x)).astype(np.float32)


def _some_bits(rng: np.random.Generator, x: Any) -> Any:
    bits = np.unpackbits(x)
    bits[rng.integers(0, len(bits), rng.integers(1, 5))] ^= 1
    return np.packbits(bits)


def _some_symbols(rng: np.random.Generator, x: Any) -> Any:
    out = list(x)
    out[int(rng.integers(len(out)))] = "another"
    return out


_SYMBOLS: tuple[str | int, ...] = ("G", "A", "Straße", "", 7, -1)
_BAD = (None, [1.0], "vector", [float("nan")] * DIMENSION)

KINDS: dict[str, Kind] = {
    "cosine": Kind(
        lambda rng: rng.standard_normal(DIMENSION),
        lambda rng, x: x + rng.uniform(0, 0.5) * rng.standard_normal(DIMENSION),
        (*_BAD, [0.0] * DIMENSION),
    ),
    "dot": Kind(
        lambda rng: _long(rng, rng.standard_normal(DIMENSION)),
        lambda rng, x: _long(rng, x + rng.uniform(0, 0.1) * rng.standard_normal(DIMENSION)),
        (*_BAD, [NORM_MAX] * DIMENSION),
    ),
    "euclidean": Kind(
        lambda rng: 10 * rng.standard_normal(DIMENSION),
        lambda rng, x: x + rng.uniform(0, 0.5) * rng.standard_normal(DIMENSION),
        _BAD,
    ),
    "hamming": Kind(
        lambda rng: rng.integers(0, 256, DIMENSION, np.uint8),
        _some_bits,
        (None, b"\0", "vector", [0.5] * 8 * DIMENSION),
    ),
    "symbols": Kind(
        lambda rng: [_SYMBOLS[k] for k in rng.integers(0, len(_SYMBOLS), DIMENSION)],
        _some_symbols,
        (None, ["G"], "word", [0.5] * DIMENSION, {"G": 3}),
        "tokens",
    ),
    "l1": Kind(
        lambda rng: rng.integers(0, COMPONENT_MAX + 1, DIMENSION).astype(np.float32),
        lambda rng, x: np.clip(x + rng.integers(-1, 2, DIMENSION), 0, COMPONENT_MAX),
        (*_BAD, [-1.0] * DIMENSION, [0.5] * DIMENSION),
    ),
}


def vector_stream(measure: str) -> Callable[..., list[Document]]:
    """Streams like ``random_stream`` for texts: new vectors, near vectors, copies, earlier ids."""
    kind = KINDS[measure]

    def stream(
        rng: random.Random, size: int, *, copies: float = 0.25, versions: float = 0.0, jitter: float | None = None
    ) -> list[Document]:
        numbers = np.random.default_rng(rng.getrandbits(64))
        seen: list[Any] = []
        out: list[Document] = []
        clock = 1000.0
        for n in range(size):
            clock += rng.expovariate(1)
            chance = rng.random()
            if seen and chance < copies:
                vector = rng.choice(seen)
            elif seen and chance < copies + 0.4:
                vector = kind.near(numbers, rng.choice(seen))
            else:
                vector = kind.fresh(numbers)
            seen.append(vector)
            id_ = rng.choice(out).id if out and rng.random() < versions else f"d{n}"
            time = None if jitter is None else clock - rng.random() * jitter
            kept = vector if rng.random() > 0.02 else rng.choice(kind.bad)
            out.append(Document(id_, timestamp=time, **{kind.field: kept}))
        return out

    return stream
