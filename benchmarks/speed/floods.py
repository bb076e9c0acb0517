"""S4: floods: one document 16,000 times, and 16,000 documents that differ in one word."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import interleaved, seconds
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import documents, draw_words
from neardup import Config, Deduplicator, Document

SEED = 4
COPIES, ONE_WORD = "S4-copies", "S4-one-word"
_DOCUMENTS: dict[Size, int] = {"smoke": 320, "default": 16_000, "large": 64_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}
_PARTS = 16  # a rate for each sixteenth of the flood: a thousand documents at the default size
# Throughput within 20%.
_RATIO_MIN = 0.8


def one_word_apart(count: int, seed: int) -> list[Document]:
    """Documents of 5 kB: one text, with one word replaced by a different word in each document."""
    rng = np.random.default_rng(seed)
    words = draw_words(rng, 860, punctuation=True)
    out = []
    for i, place in enumerate(rng.integers(0, len(words), count).tolist()):
        words_here = [*words[:place], f"word{i:05d}", *words[place + 1 :]]
        out.append(Document(f"one-{seed:04d}-{i:011d}", " ".join(words_here)))
    return out


def run_copies(size: Size) -> Iterator[Result]:
    """Throughput of copies and of distinct documents, and the number of pairs: one for each copy."""
    count = _DOCUMENTS[size]
    distinct = documents("5kb", count, SEED, edited_fraction=0.0)
    copies = [document._replace(text=distinct[0].text) for document in distinct]
    pairs: dict[str, list[tuple[str, str]]] = {}

    def race(name: str, stream: list[Document]) -> None:
        pairs[name] = [pair[:2] for pair in Deduplicator(Config()).process(stream)]

    race("warm up", copies[:100])
    runs = {"copies": lambda: race("copies", copies), "distinct": lambda: race("distinct", distinct)}
    times = {name: min(t) for name, t in interleaved(runs, dict.fromkeys(runs, _REPEATS[size])).items()}
    rates = {f"{name} documents/s": round(count / time) for name, time in times.items()}
    yield Result(
        COPIES, "throughput of copies over distinct documents", times["distinct"] / times["copies"], "times",
        Target("at least", _RATIO_MIN), rates,
    )  # fmt: skip
    details = {"distinct documents' pairs": len(pairs["distinct"]), "checksum": checksum(pairs["copies"])}
    yield Result(COPIES, "pairs of copies", len(pairs["copies"]), "pairs", Target("equal to", count - 1), details)


def run_one_word(size: Size) -> Iterator[Result]:
    """Throughput from the second sixteenth on, when the buckets are full, to the last; pairs and cuts."""
    count = _DOCUMENTS[size]
    stream, part = one_word_apart(count, SEED), count // _PARTS
    best = [float("inf")] * _PARTS
    for _ in range(1 if size == "smoke" else 2):
        dedup = Deduplicator(Config())
        pairs = 0

        def step(at: int, dedup: Deduplicator = dedup) -> None:
            nonlocal pairs
            pairs += len(dedup.process(stream[at * part : (at + 1) * part]))

        for at in range(_PARTS):
            best[at] = min(best[at], seconds(functools.partial(step, at)))
    rates = [round(part / time) for time in best]
    counts = dedup.counts()
    early, late = (float(np.median(rates[part])) for part in (slice(1, 5), slice(-4, None)))
    yield Result(
        ONE_WORD, "throughput of the last quarter over the first, but for the start", late / early, "times",
        Target("at least", _RATIO_MIN), {"documents/s": " ".join(f"{rate:,}" for rate in rates)},
    )  # fmt: skip
    details = {key: counts[key] for key in ("candidates", "copies")} | {"pairs a document": pairs / count}
    yield Result(ONE_WORD, "cuts", counts["cuts"], "cuts", Target("at least", 0 if size == "smoke" else 1), details)


SCENARIOS = {COPIES: run_copies, ONE_WORD: run_one_word}
