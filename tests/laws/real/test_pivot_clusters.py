"""Verdicts on real text against the rule with every pair known, written in NumPy without the library's code."""

from __future__ import annotations

import json
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


def shingles(text: str) -> tuple[str, ...]:
    """The character 5-grams of a text, sorted: NFKC, case folded, runs of white space as one blank."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    clean = re.sub(r"\s+", " ", folded).strip()
    return tuple(sorted(clean[i : i + K] for i in range(max(1, len(clean) - K + 1))))


def pivot_clusters(contents: list[tuple[str, ...]]) -> npt.NDArray[np.int64]:
    """The original of each text, in order of arrival: that of an equal content, else the most similar one at or above
    the threshold, else itself."""
    sets = list(map(frozenset, contents))
    first = {content: n for n, content in reversed(list(enumerate(contents)))}
    numbers = {shingle: n for n, shingle in enumerate(set().union(*sets))}
    postings = [array("q") for _ in numbers]  # of originals only
    sizes = np.array([len(one) for one in sets])
    out = np.arange(len(sets))
    for n, one in enumerate(sets):
        own = [numbers[shingle] for shingle in one]
        met = array("q")
        for i in own:
            met.extend(postings[i])
        common = np.bincount(np.frombuffer(met, np.int64), minlength=n)[:n]
        similarity = common / (sizes[:n] + sizes[n] - common)
        if first[contents[n]] < n:
            out[n] = out[first[contents[n]]]
        elif n and similarity.max() >= THRESHOLD:
            out[n] = int(similarity.argmax())  # the first of equal ones
        else:
            for i in own:
                postings[i].append(n)
    return out


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
    """Equal with a scheme that misses no pair; with sketches as keys, an adjusted Rand index of at least .99."""
    with (real_data(name) / "docs.jsonl").open(encoding="utf-8") as lines:
        texts = [text for line in lines if (text := json.loads(line).get("text", ""))]
    documents = [Document(str(n), text) for n, text in enumerate(texts)]
    expected = pivot_clusters(list(map(shingles, texts)))
    assert (expected != np.arange(len(texts))).sum() > 0

    def decided(**settings: Any) -> npt.NDArray[np.int64]:
        verdicts = Deduplicator(Config(threshold=THRESHOLD, k=K, **settings)).decide(documents)
        return np.array([n if verdict.cluster is None else verdict.cluster for n, verdict in enumerate(verdicts)])

    assert np.flatnonzero(decided(scheme="prefix") != expected).tolist() == []
    assert adjusted_rand(decided(verify="exact"), expected) >= 0.99
