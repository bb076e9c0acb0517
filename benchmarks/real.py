"""S6: recall and precision on real sets, over distinct contents, against the exact pairs of their own shingles.

n - 1 links join n identical copies, and not all pairs of them. So the first document with a bag of shingles represents
its content. The truth is an exact join of the sets of shingles at the threshold. The scenario compares it with the
truth files of the sets, whose normalisation differs a little (NFC and lower case): ``edge`` pairs are in only one of
the two.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import jaccard, similar_pairs
from neardup import Config, Deduplicator, Document
from neardup.schemes.rows import SCHEMES

ID = "S6-recall-real"
DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
THRESHOLD = 0.8
_DEVIATIONS = 3.0


class RealSet(NamedTuple):
    """The files of documents and truth, and the shingles of the truth."""

    documents: tuple[str, ...]
    truth: str
    shingles: str
    k: int


REAL_SETS: dict[str, RealSet] = {
    "licence_texts char5": RealSet(("licence_texts/docs.jsonl",), "licence_texts/pairs_j050_char5.csv", "chars", 5),
    "licence_texts word3": RealSet(("licence_texts/docs.jsonl",), "licence_texts/pairs_j050_word3.csv", "words", 3),
    "itn_multilingual char5": RealSet(
        ("itn_multilingual/docs.jsonl",), "itn_multilingual/pairs_j050_char5.csv", "chars", 5
    ),
    "itn_multilingual char3": RealSet(
        ("itn_multilingual/docs.jsonl",), "itn_multilingual/pairs_j050_char3.csv", "chars", 3
    ),
    "irplag_java char5": RealSet(("irplag_java/docs.jsonl",), "irplag_java/pairs_j050_char5.csv", "chars", 5),
    "irplag_java word3": RealSet(("irplag_java/docs.jsonl",), "irplag_java/pairs_j050_word3.csv", "words", 3),
    "mccormick_minhash 1000 char5": RealSet(
        ("mccormick_minhash/docs_1000.jsonl",), "mccormick_minhash/n1000_pairs_j050_char5.csv", "chars", 5
    ),
    "mccormick_minhash 2500 char5": RealSet(
        ("mccormick_minhash/docs_2500.jsonl",), "mccormick_minhash/n2500_pairs_j050_char5.csv", "chars", 5
    ),
    "ja_jglue char3": RealSet(
        ("ja_jglue/jsts-v1.3/train-v1.3.json", "ja_jglue/jsts-v1.3/valid-v1.3.json"),
        "ja_jglue/jsts_pairs_j050_char3.csv", "chars", 3,
    ),
}  # fmt: skip
_SMOKE = ("mccormick_minhash 1000 char5", "irplag_java char5")


class Found(NamedTuple):
    """Pairs of distinct contents by their numbers: the pairs of the exact join, and the emitted pairs."""

    truth: dict[tuple[int, int], float]
    emitted: dict[tuple[int, int], float]
    similarity: dict[tuple[int, int], float]  # exact, of all emitted pairs
    contents: int
    edge: int
    links: int


def read_documents(names: tuple[str, ...], data: Path = DATA) -> list[Document]:
    """Documents of JSON lines; a pair of sentences is two documents, ``train#7.1`` and ``train#7.2``."""
    out = []
    for name in names:
        split = Path(name).name.split("-")[0]
        for line in (data / name).read_text(encoding="utf-8").rstrip("\n").split("\n"):
            row = json.loads(line)
            if "sentence1" in row:
                number = row["sentence_pair_id"]
                out += [Document(f"{split}#{number}.{i}", row[f"sentence{i}"]) for i in (1, 2)]
            else:
                out.append(Document(row["id"], row["text"]))
    return out


def read_truth(name: str) -> set[tuple[str, str]]:
    """Pairs of ids at or above the threshold."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return {(row["a"], row["b"]) for row in csv.DictReader(file) if float(row["jaccard"]) >= THRESHOLD}


def bags(documents: list[Document], config: Config) -> list[npt.NDArray[np.uint64]]:
    """The bag of shingles of each document, sorted."""
    features = SCHEMES[config.scheme].features(documents, config.plan).features
    return [np.sort(part) for part in np.split(features.values, features.starts[1:-1])]


def find(row: RealSet, config: Config) -> Found:
    """Emit the pairs of a set, and compare contents with contents."""
    documents = read_documents(row.documents)
    first: dict[bytes, int] = {}
    sets: list[npt.NDArray[np.uint64]] = []
    content: dict[str, int] = {}
    for document, bag in zip(documents, bags(documents, config), strict=True):
        number = first.setdefault(bag.tobytes(), len(sets))
        if number == len(sets):
            sets.append(np.unique(bag))
        content[document.id] = number
    assert len(content) == len(documents), "an id stands twice"
    truth = similar_pairs(sets, THRESHOLD)
    emitted: dict[tuple[int, int], float] = {}
    links = 0
    for pair in Deduplicator(config).process(documents):
        a, b = sorted((content[pair.older], content[pair.newer]))
        if a == b:
            links += 1
            assert pair.similarity == 1.0, pair
        else:
            assert (a, b) not in emitted, f"a pair of contents was emitted twice: {pair}"
            emitted[a, b] = pair.similarity
    known = set()
    for left, right in read_truth(row.truth):
        a, b = sorted((content[left], content[right]))
        if a != b:
            known.add((a, b))
    similarity = {(a, b): truth.get((a, b)) or jaccard(sets[a], sets[b]) for a, b in emitted}
    return Found(truth, emitted, similarity, len(sets), len(known ^ set(truth)), links)


def run(size: Size) -> Iterator[Result]:
    """Recall of all pairs at or above the threshold, with precision and the error of the estimates."""
    for name in _SMOKE if size == "smoke" else REAL_SETS:
        row = REAL_SETS[name]
        if not (DATA / row.documents[0]).exists():
            yield Result(ID, name, None, "", details={"note": "the folder of real data is not there"})
            continue
        config = Config(shingles=row.shingles, k=row.k, threshold=THRESHOLD)
        found = find(row, config)
        if not found.truth:
            yield Result(ID, name, None, "", details={"note": "no pair reaches the threshold"})
            continue
        right = len(found.truth.keys() & found.emitted.keys())
        errors = np.array([found.emitted[pair] - found.similarity[pair] for pair in found.emitted])
        details: dict[str, Any] = {
            "pairs": len(found.truth), "missed": len(found.truth) - right,
            "precision": right / len(found.emitted), "emitted": len(found.emitted),
            "least emitted": min(found.similarity.values()),
            "mean error": float(errors.mean()), "root mean square error": float(np.sqrt((errors**2).mean())),
            "contents": found.contents, "copies": found.links, "edge": found.edge,
            "checksum": checksum(found.emitted),
        }  # fmt: skip
        chance = _DEVIATIONS * math.sqrt(config.recall * (1 - config.recall) / len(found.truth))
        target = Target("at least", config.recall, min(chance, config.recall))
        yield Result(ID, f"{name}: recall", right / len(found.truth), "", target, details)


SCENARIOS = {ID: run}
