"""S13: documents that verdicts drop on real sets, next to connected components over the same pairs.

Most tools keep one document of each connected component. The truth is an exact join of the sets of shingles at the
threshold, over distinct contents. A dropped content is *unsupported* if its similarity to every kept content is below
the threshold. B-cubed precision and the adjusted Rand index compare clusters with the pairs of the join.

*Agreement* is the adjusted Rand index of the stories with those of ``prefix``, which misses no pair: the mean of three
seeds, with exact scores. So only missed candidates lower it. In the drifting flood each text is a random earlier one
with one word in 40 replaced.

``python -m benchmarks.recall.verdicts`` prints the table of the guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.real import DATA, REAL_SETS, THRESHOLD, bags, read_documents
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import draw_words, jaccard, similar_pairs
from neardup import Config, Deduplicator, Document
from neardup.pairs.evaluation.clusters import components, counts_of_labels, counts_of_pairs, quality

ID = "S13-verdicts"
NAMES = (
    "licence_texts char5",
    "licence_texts word3",
    "itn_multilingual char5",
    "itn_multilingual char3",
    "ja_jglue char3",
)
_SMOKE = ("itn_multilingual char5",)
_AGREEING = (*NAMES, "irplag_java char5", "irplag_java word3", "mccormick_minhash 2500 char5")
_AGREEMENT_MIN, _SEEDS = 0.995, (1, 2, 3)
_FLOOD_SIZES: dict[Size, int] = {"smoke": 300, "default": 3_000, "large": 20_000}
_FLOOD_WORDS = 40
Ints = npt.NDArray[np.int64]


class Clustering(NamedTuple):
    """The results of a way to cluster n contents.

    ``unsupported`` is the fraction of the dropped contents without a kept content at or above the threshold,
    ``lowest_similarity`` the least similarity of two contents of the largest cluster.
    """

    dropped: int
    unsupported: float
    b3_precision: float
    adjusted_rand: float
    largest: int
    lowest_similarity: float


class Contents(NamedTuple):
    """The distinct contents of a set in order of arrival: their shingles, the ids of their first documents, the exact
    pairs at or above the threshold."""

    sets: list[npt.NDArray[np.uint64]]
    first: list[str]
    number: dict[str, int]
    pairs: Ints


def contents_of(name: str, config: Config) -> Contents:
    """The contents of a real set."""
    documents = read_documents(REAL_SETS[name].documents)
    known: dict[bytes, int] = {}
    sets: list[npt.NDArray[np.uint64]] = []
    first: list[str] = []
    number: dict[str, int] = {}
    for document, bag in zip(documents, bags(documents, config), strict=True):
        number[document.id] = known.setdefault(bag.tobytes(), len(sets))
        if number[document.id] == len(sets):
            sets.append(np.unique(bag))
            first.append(document.id)
    pairs = np.array(sorted(similar_pairs(sets, config.threshold)), np.int64).reshape(-1, 2)
    return Contents(sets, first, number, pairs)


def clusterings(name: str, config: Config) -> dict[str, Clustering]:
    """The results of the verdicts of a set, and of the connected components of the same pairs."""
    contents = contents_of(name, config)
    documents = read_documents(REAL_SETS[name].documents)
    verdicts = {v.id: v for v in Deduplicator(config).decide(documents)}
    decided = np.array([-1 if (c := verdicts[id_].cluster) is None else c for id_ in contents.first], np.int64)
    kept = np.array([verdicts[id_].status == "original" for id_ in contents.first])
    emitted = [(contents.number[p.older], contents.number[p.newer]) for p in Deduplicator(config).process(documents)]
    a, b = np.array(emitted, np.int64).reshape(-1, 2).T
    joined = components(len(contents.first), a, b)
    return {
        "verdicts": _clustering(contents, decided, kept),
        "components": _clustering(contents, joined, joined == np.arange(len(joined))),
    }


def _clustering(contents: Contents, clusters: Ints, kept: npt.NDArray[np.bool_]) -> Clustering:
    a, b = contents.pairs.T
    supported = np.zeros(len(kept), np.bool_)
    supported[a[kept[b]]] = True
    supported[b[kept[a]]] = True
    found = quality(counts_of_pairs(clusters, a, b))
    names, sizes = np.unique(clusters, return_counts=True)
    members = np.flatnonzero(clusters == names[np.argmax(sizes)]).tolist()
    inner = [jaccard(contents.sets[i], contents.sets[j]) for n, i in enumerate(members) for j in members[:n]]
    dropped = int((~kept).sum())
    return Clustering(
        dropped,
        float((~kept & ~supported).sum() / max(1, dropped)),
        found.b3_precision.value,
        found.adjusted_rand.value,
        len(members),
        min(inner, default=1.0),
    )


def stories(documents: Sequence[Document], settings: Mapping[str, Any]) -> Ints:
    """The story of each document, by the place of its original."""
    verdicts = Deduplicator(Config.model_validate(dict(settings))).decide(documents)
    return np.array([n if v.cluster is None else v.cluster for n, v in enumerate(verdicts)], np.int64)


def agreement(documents: Sequence[Document], settings: Mapping[str, Any]) -> tuple[float, float]:
    """The mean adjusted Rand index of the stories with those of the rule with all pairs known, and the ratio of their
    numbers."""
    expected = stories(documents, {**settings, "scheme": "prefix"})
    found = [stories(documents, {**settings, "verify": "exact", "seed": seed}) for seed in _SEEDS]
    rand = [quality(counts_of_labels(one, expected)).adjusted_rand.value for one in found]
    count = np.mean([len(np.unique(one)) for one in found]) / len(np.unique(expected))
    return float(np.mean(rand)), float(count)


def drifting_flood(count: int) -> list[Document]:
    """Copies of copies of one text, of which each has another word."""
    rng = np.random.default_rng(11)
    fresh = iter(draw_words(rng, count + _FLOOD_WORDS, punctuation=False))
    texts = [[next(fresh) for _ in range(_FLOOD_WORDS)]]
    while len(texts) < count:
        words = list(texts[rng.integers(len(texts))])
        words[rng.integers(_FLOOD_WORDS)] = next(fresh)
        texts.append(words)
    return [Document(str(n), " ".join(words)) for n, words in enumerate(texts)]


def configs(name: str) -> dict[str, Config]:
    """The compared ways to score."""
    row = REAL_SETS[name]
    return {
        verify: Config(shingles=row.shingles, k=row.k, threshold=THRESHOLD, verify=verify)
        for verify in ("exact", "sketch")
    }


def run(size: Size) -> Iterator[Result]:
    """The fraction of dropped contents that are unsupported; with exact scores there must be none. Then agreement."""
    for name in _SMOKE if size == "smoke" else NAMES:
        if not (DATA / REAL_SETS[name].documents[0]).exists():
            yield Result(ID, name, None, "", details={"note": "the folder of real data is not there"})
            continue
        for verify, config in configs(name).items():
            for kind, found in clusterings(name, config).items():
                target = Target("equal to", 0.0) if (kind, verify) == ("verdicts", "exact") else None
                details: dict[str, Any] = {**found._asdict(), "checksum": checksum(found)}
                yield Result(ID, f"{name}, {verify}, {kind}: unsupported", found.unsupported, "", target, details)
    streams: dict[str, tuple[list[Document], dict[str, Any]]] = {
        f"drifting flood, {_FLOOD_SIZES[size]:,}": (drifting_flood(_FLOOD_SIZES[size]), {"threshold": THRESHOLD})
    }
    for name in _SMOKE if size == "smoke" else _AGREEING:
        row = REAL_SETS[name]
        if (DATA / row.documents[0]).exists():
            settings = {"shingles": row.shingles, "k": row.k, "threshold": THRESHOLD}
            streams[name] = read_documents(row.documents), settings
    for name, (documents, settings) in streams.items():
        rand, count = agreement(documents, settings)
        target = Target("at least", _AGREEMENT_MIN)
        yield Result(ID, f"{name}: agreement", rand, "", target, {"ratio of the numbers of stories": count})


def table() -> str:
    """The table of the guarantees, in Markdown."""
    lines = [
        "| set, score | | dropped | unsupported | B-cubed precision | adjusted Rand | largest | lowest inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        for verify, config in configs(name).items():
            for kind, found in clusterings(name, config).items():
                cells = [
                    f"{found.dropped:,}", f"{found.unsupported:.4f}", f"{found.b3_precision:.4f}",
                    f"{found.adjusted_rand:.4f}", f"{found.largest:,}", f"{found.lowest_similarity:.3f}",
                ]  # fmt: skip
                lines.append(f"| {name}, {verify} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SCENARIOS = {ID: run}

if __name__ == "__main__":
    print(table())
