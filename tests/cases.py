"""What the laws run on: every scheme, and random streams with many near-duplicates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from record_streams import SQUARES, print_stream, record_stream
from vector_streams import COMPONENT_MAX, DIMENSION, NORM_MAX, vector_stream

from stream import Config, Document
from stream.shingles import SHINGLES

# Schemes that sign sets of shingles and estimate their similarity from sketches.
SKETCHED = ("one_permutation", "minhash")
# (law, case) -> why the law does not hold there. A law is the name of its test function.
EXCLUDED: dict[tuple[str, str], str] = {
    (law, case): reason
    for law, reason, cases in (
        (
            "test_copies_are_linked_once_each_and_hide_no_other_pair",
            "equal records may be two entities: each pairs with every other, and none stands for the rest",
            ("records exact", "records shingled"),
        ),
        (
            "test_copies_are_linked_once_each_and_hide_no_other_pair",
            "a copy is no nearer than others by a dot product, so it is compared like them",
            ("vectors dot",),
        ),
        (
            "test_a_copy_is_a_pair_of_similarity_1",
            "a dot product with itself is the square of a length",
            ("vectors dot",),
        ),
    )
    for case in cases
}

STOPS = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "with", "they", "be", "at"]
# Words of several scripts and lengths; none a stop word.
CONTENT = [f"{stem}{ending}" for stem in ("rain", "göal", "marké", "tree", "вест") for ending in range(40)]


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


# Reasons that a text is never refused with -> the tests that meet them.
SCHEME_REASONS: dict[str, str] = {
    "no_tokens": "test_codecs.py",
    "tokens_type": "test_codecs.py",
    "no_vector": "test_codecs.py",
    "vector_type": "test_codecs.py",
    "vector_base64": "test_codecs.py",
    "evidence_too_large": "test_pipeline.py",
}


class Case(NamedTuple):
    """What a law runs on: the settings of a scheme, and random streams of what it compares."""

    name: str
    settings: dict[str, Any]
    stream: Callable[..., list[Document]] = random_stream

    def config(self, **settings: Any) -> Config:
        """No bucket is cut, unless the settings say so."""
        return Config(**{"bucket_candidates_max": 2**20, **self.settings, **settings})


SETS_CASES = [
    Case(f"{scheme} {shingles}", {"scheme": scheme, "shingles": shingles})
    for scheme in SKETCHED
    for shingles in SHINGLES
]
_VECTORS: dict[str, dict[str, Any]] = {
    "cosine": {"scheme": "hyperplane", "dimension": DIMENSION},
    "dot": {"scheme": "hyperplane_dot", "dimension": DIMENSION, "norm_max": NORM_MAX, "vector_evidence": "float16"},
    "euclidean": {"scheme": "p_stable", "dimension": DIMENSION, "distance_scale": 10.0},
    "euclidean sketch": {
        "scheme": "p_stable", "dimension": DIMENSION, "distance_scale": 10.0, "vector_evidence": "sketch",
    },
    "hamming": {"scheme": "bit_sampling", "dimension": 8 * DIMENSION},
    "l1": {
        "scheme": "bit_sampling", "measure": "l1", "dimension": DIMENSION, "component_max": COMPONENT_MAX,
        "distance_scale": 200.0,
    },
}  # fmt: skip
VECTOR_CASES = [
    Case(f"vectors {name}", settings, vector_stream(name.split()[0])) for name, settings in _VECTORS.items()
]
RECORD_CASES = [
    Case("records exact", {"scheme": "records", "threshold": 0.7}, record_stream),
    Case(
        "records shingled",
        {"scheme": "records", "record_keys": ("phone",), "record_shingled": ("name", "address"), "threshold": 0.7},
        record_stream,
    ),
    Case("grid", {"scheme": "grid", "grid_squares": SQUARES, "threshold": 0.7}, print_stream),
    Case("grid of one group", {"scheme": "grid", "grid_squares": SQUARES, "grid_groups": 1}, print_stream),
]
CASES: dict[str, Case] = {case.name: case for case in (*SETS_CASES, *RECORD_CASES, *VECTOR_CASES)}


def every_case(law: Callable[..., None]) -> Callable[..., None]:
    """Run a law on every ``case`` that is not excluded from it by its name."""
    kept = [case for case in CASES.values() if (law.__name__, case.name) not in EXCLUDED]
    return pytest.mark.parametrize("case", kept, ids=lambda case: case.name)(law)


def every_set_case(law: Callable[..., None]) -> Callable[..., None]:
    """Run a law on every ``case`` of sketched sets."""
    return pytest.mark.parametrize("case", SETS_CASES, ids=lambda case: case.name)(law)


def same(a: Iterable[npt.NDArray[Any]], b: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether two rows of arrays (evidence, keys, a batch) are equal."""
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
