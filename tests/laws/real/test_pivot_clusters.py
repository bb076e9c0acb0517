"""Verdicts on real text against the rule with every pair known, written in NumPy without the library's code."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from neardup import Config, Deduplicator, Document

K, THRESHOLD = 5, 0.8
# The rule in NumPy takes a time that grows with the length of a text: the longest 350 licences would take most of it.
TEXT_LENGTH_MAX = 8_000


def shingles(text: str) -> tuple[str, ...]:
    """The character 5-grams of a text, sorted: NFKC, case folded, runs of white space as one blank."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    clean = re.sub(r"\s+", " ", folded).strip()
    return tuple(sorted(clean[i : i + K] for i in range(max(1, len(clean) - K + 1))))


def pivot_clusters(ids: list[str], contents: list[tuple[str, ...]]) -> npt.NDArray[np.int64]:
    """The original of each document, in order of arrival: that of its id's latest version or of the newest copy with an
    equal content; else that of the most similar content at or above the threshold, of its own id's stories first; else
    itself. A kept version of the id that began a story is a content of it: the first, and the seven newest."""
    sets = list(map(frozenset, contents))
    numbers = {shingle: n for n, shingle in enumerate(set().union(*sets))}
    postings = [array("q") for _ in numbers]  # of contents
    sizes = np.array([len(one) for one in sets])
    active, out = np.zeros(len(sets), np.bool_), np.arange(len(sets))
    latest: dict[str, int] = {}
    newest: dict[tuple[str, ...], int] = {}
    kept: dict[int, list[int]] = {}  # the contents of each story
    for n, one in enumerate(sets):
        own = [numbers[shingle] for shingle in one]
        before = latest.get(ids[n])
        is_unchanged = before is not None and contents[before] == contents[n]
        if (known := before if is_unchanged else newest.get(contents[n])) is not None:
            out[n] = out[known]
        elif n:
            met = array("q")
            for i in own:
                met.extend(postings[i])
            common = np.bincount(np.frombuffer(met, np.int64), minlength=n)[:n]
            similarity = np.where(active[:n], common / (sizes[:n] + sizes[n] - common), 0.0)
            near = np.flatnonzero(similarity >= THRESHOLD)
            if len(near):
                rank = [(ids[out[i]] != ids[n], -round(similarity[i], 4), i) for i in near.tolist()]
                out[n] = out[min(rank)[2]]
        latest[ids[n]] = newest[contents[n]] = n
        story = kept.setdefault(int(out[n]), [])
        if is_unchanged or ids[out[n]] != ids[n] or (story and contents[story[0]] == contents[n]):
            continue
        others = [i for i in story[1:] if contents[i] != contents[n]]
        story[:] = [*story[:1], *[*others, n][-7:]]
        active[np.array(others, np.int64)] = False
        active[story] = True
        for i in own:
            postings[i].append(n)
    return out


def corrected(texts: list[str], seed: int) -> tuple[list[str], list[str]]:
    """Ids and texts of a stream in which one source of ten corrects two words of its text, up to twelve times."""
    rng = random.Random(seed)
    arrivals = [(float(n), str(n), text) for n, text in enumerate(texts)]
    for n, text in enumerate(texts):
        words = text.split()
        for k in range(rng.randrange(1, 13) if rng.random() < 0.1 and len(words) > 20 else 0):
            for place in rng.sample(range(len(words)), 2):
                words[place] = f"corrected{n}x{k}"
            arrivals.append((n + 40.0 * (k + rng.random()), str(n), " ".join(words)))
    _, ids, versions = zip(*sorted(arrivals), strict=True)
    return list(ids), list(versions)


def adjusted_rand(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> float:
    """Hubert and Arabie, "Comparing partitions", Journal of Classification 2 (1985)."""

    def pairs(labels: npt.NDArray[np.int64]) -> float:
        counts = np.unique(labels, return_counts=True)[1].astype(float)
        return float((counts * (counts - 1) / 2).sum())

    both = pairs(one * (other.max() + 1) + other)
    expected = pairs(one) * pairs(other) / (len(one) * (len(one) - 1) / 2)
    return (both - expected) / ((pairs(one) + pairs(other)) / 2 - expected)


@pytest.mark.long
@pytest.mark.parametrize("name", ["itn_multilingual", "licence_texts"])
def test_verdicts_are_those_of_the_rule_with_every_pair_known(name: str, real_data: Callable[[str], Path]) -> None:
    """Equal with a scheme that misses no pair; with sketches as keys, an adjusted Rand index of at least .995."""
    with (real_data(name) / "docs.jsonl").open(encoding="utf-8") as lines:
        texts = [text for line in lines if 0 < len(text := json.loads(line).get("text", "")) <= TEXT_LENGTH_MAX]
    ids, texts = corrected(texts, 1)
    documents = list(map(Document, ids, texts))
    expected = pivot_clusters(ids, list(map(shingles, texts)))
    assert (expected != np.arange(len(texts))).sum() > 0

    def decided(**settings: Any) -> npt.NDArray[np.int64]:
        verdicts = Deduplicator(Config(threshold=THRESHOLD, k=K, **settings)).decide(documents)
        return np.array([n if verdict.cluster is None else verdict.cluster for n, verdict in enumerate(verdicts)])

    assert np.flatnonzero(decided(scheme="prefix") != expected).tolist() == []
    found = [adjusted_rand(decided(verify="exact", seed=seed), expected) for seed in (1, 2, 3)]
    assert np.mean(found) >= 0.995, found
