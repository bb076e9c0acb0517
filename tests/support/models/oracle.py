"""The truth of the tests: exact pairs of sets, exact binomial tails, and the texts of the real sets.

Pairs follow from the sets, without hashing. ``all_pairs`` compares every pair. ``joined_pairs`` compares only pairs
that share an element of their prefixes, which loses no pair; a test compares its pairs with ``all_pairs``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup import Config, Document, Signer
from neardup.documents.document import Features
from neardup.features.texts.normalize import code_points
from neardup.features.texts.shingles import TEXT_SHINGLES

# The probability that a correct program fails one of the many checks: about five standard deviations.
NEVER = 1e-7

Hashes = npt.NDArray[np.uint64]
PairsOf = dict[tuple[int, int], float]


def jaccard(a: Hashes, b: Hashes) -> float:
    """The Jaccard similarity of two sorted arrays without repetitions."""
    small, large = (a, b) if len(a) < len(b) else (b, a)
    at = np.searchsorted(large, small)
    common = int((large[np.minimum(at, len(large) - 1)] == small).sum())
    return common / (len(a) + len(b) - common)


def all_pairs(sets: Sequence[Hashes], threshold: float) -> PairsOf:
    """Every pair i < j of sets with a similarity at or above the threshold."""
    found = {(i, j): jaccard(sets[i], sets[j]) for i, j in combinations(range(len(sets)), 2)}
    return {pair: similarity for pair, similarity in found.items() if similarity >= threshold}


def joined_pairs(sets: Sequence[Hashes], threshold: float) -> PairsOf:
    """The same by prefixes: with J >= t the first |x| - ceil(t |x|) + 1 elements of both, rarest first, have one in
    common.
    """
    elements, counts = np.unique(np.concatenate(sets), return_counts=True)
    rank = np.empty(len(elements), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(elements))
    index: dict[int, list[int]] = {}
    out: PairsOf = {}
    ranks_of: list[npt.NDArray[np.int64]] = []
    is_in_x = np.zeros(len(elements), np.bool_)
    for j, x in enumerate(sets):
        length = len(x) - math.ceil(threshold * len(x) - 1e-9) + 1
        ranks = rank[np.searchsorted(elements, x)]
        ranks_of.append(ranks)
        is_in_x[ranks] = True
        prefix = np.partition(ranks, length - 1)[:length].tolist() if length < len(x) else ranks.tolist()
        for i in {i for element in prefix for i in index.setdefault(element, [])}:
            if min(len(x), len(sets[i])) >= threshold * max(len(x), len(sets[i])) - 1e-9:
                common = int(np.count_nonzero(is_in_x[ranks_of[i]]))
                similarity = common / (len(x) + len(sets[i]) - common)
                if similarity >= threshold:
                    out[i, j] = similarity
        is_in_x[ranks] = False
        for element in prefix:
            index[element].append(j)
    return out


class Corpus(NamedTuple):
    """Documents with their exact sets and the number of their content: equal for equal bags of shingles."""

    documents: list[Document]
    sets: list[Hashes]
    contents: list[int]

    def distinct(self) -> tuple[list[Hashes], list[int]]:
        """The set of each content, and its first document."""
        first: dict[int, int] = {}
        for i, content in enumerate(self.contents):
            first.setdefault(content, i)
        return [self.sets[i] for i in first.values()], list(first.values())


def shingles_of(texts: Sequence[str], config: Config) -> Features:
    """The shingles of texts under the configuration of a set scheme; a text without any has an empty stretch."""
    plan = config.plan
    return TEXT_SHINGLES[plan.shingles](code_points(texts, plan.normal_form), plan.k, plan.stops)


def corpus(documents: Sequence[Document], config: Config) -> Corpus:
    """Documents with their sets, without documents that have no shingle."""
    values, starts = shingles_of([document.text for document in documents], config)
    bags = [np.sort(values[a:b]) for a, b in pairwise(starts)]
    kept = [i for i, bag in enumerate(bags) if len(bag)]
    numbers: dict[bytes, int] = {}
    contents = [numbers.setdefault(bags[i].tobytes(), len(numbers)) for i in kept]
    return Corpus([documents[i] for i in kept], [np.unique(bags[i]) for i in kept], contents)


def contents_of(documents: Sequence[Document], config: Config) -> dict[str, int]:
    """The number of the content of each document that is not refused, by id; ids differ, equal contents do not.

    It uses the content hash; another law tests that different contents have different hashes.
    """
    signed = Signer(config).sign(documents)
    refused = {refusal.position for refusal in signed.refusals}
    kept = [document.id for i, document in enumerate(documents) if i not in refused]
    numbers: dict[bytes, int] = {}
    return {
        id_: numbers.setdefault(content.tobytes(), len(numbers))
        for id_, content in zip(kept, signed.batch.contents, strict=True)
    }


def tail_below(n: int, p: float, x: int) -> float:
    """The probability of at most x successes in n trials of probability p, summed exactly."""
    return math.fsum(_terms(n, p)[: max(x, -1) + 1])


def tail_above(n: int, p: float, x: int) -> float:
    """The probability of at least x successes in n trials of probability p."""
    return math.fsum(_terms(n, p)[max(x, 0) :])


@lru_cache(maxsize=4096)
def _terms(n: int, p: float) -> tuple[float, ...]:
    """The probability of each number of successes; cached, because both tails and all seeds use it."""
    return tuple(_term(n, p, m) for m in range(n + 1))


def _term(n: int, p: float, m: int) -> float:
    if p in (0.0, 1.0):
        return float(m == n * p)
    log = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    return math.exp(log + m * math.log(p) + (n - m) * math.log1p(-p))


def json_lines(path: Path) -> list[Document]:
    """A set of texts, one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Document(str(row["id"]), row["text"]) for row in rows]


def jglue_sentences(folder: Path) -> list[Document]:
    """The sentences of both columns of the JGLUE files, named as the truth names them."""
    out = []
    for part in ("train", "valid"):  # the truth covers these two parts
        with (folder / "jsts-v1.3" / f"{part}-v1.3.json").open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                number = row["sentence_pair_id"]
                out += [Document(f"{part}#{number}.{i}", row[f"sentence{i}"]) for i in (1, 2) if f"sentence{i}" in row]
    return out


def truth_of(path: Path) -> dict[frozenset[str], float]:
    """The pairs of a truth file, with their similarity."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {frozenset((row["a"], row["b"])): float(row["jaccard"]) for row in csv.DictReader(lines)}


def pair_of_sets(union: int, similarity: float, seed: int) -> tuple[Hashes, Hashes, float]:
    """Two random sets with ``union`` elements together and about this similarity; and the exact one.

    The other elements go to both sets in turn, so their sizes differ by at most one; both have elements.
    """
    rng = np.random.default_rng([seed, union])
    elements = rng.integers(0, 1 << 64, union, np.uint64)
    common = max(round(similarity * union), 1 if union == 1 else 0)
    rest = elements[common:]
    a = np.concatenate([elements[:common], rest[0::2]])
    b = np.concatenate([elements[:common], rest[1::2] if len(rest) > 1 or common else rest])
    return a, b, common / union


def random_sets(rng: np.random.Generator, count: int, universe: int, size_max: int) -> list[set[int]]:
    """Sets of numbers below ``universe``, none empty; many are earlier sets with elements dropped and inserted."""
    sets: list[set[int]] = []
    for _ in range(count):
        if sets and rng.random() < 0.7:
            tokens = set(sets[int(rng.integers(len(sets)))])
            tokens -= set(rng.choice(sorted(tokens), int(rng.integers(0, 3))).tolist())
            tokens |= set(rng.integers(0, universe, int(rng.integers(0, 3))).tolist())
        else:
            tokens = set(rng.integers(0, universe, int(rng.integers(1, size_max + 1))).tolist())
        sets.append(tokens or {0})
    return sets
