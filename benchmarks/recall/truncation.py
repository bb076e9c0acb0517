"""S12: the pairs and clusters that a limit of candidates loses, on real sets and on generated clusters.

The reference is the same stream without a limit. *Pairs lost* is the fraction of its pairs that are missing with a
limit. Clusters are the connected components of the pairs. *Clusters lost* is 1 - B-cubed recall of the clusters with a
limit, compared with the clusters of the reference: the fraction of its cluster that a document loses, averaged over the
documents. *Verdicts changed* is the fraction of documents that are kept in one of the two and dropped in the other.
*Kept* is the number of originals of the verdicts. Every pair found with a limit is also a pair of the
reference, so precision is 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.real import DATA, REAL_SETS, read_documents
from benchmarks.report import Result, Size, Target
from benchmarks.speed.floods import one_word_apart
from benchmarks.texts import draw_words
from neardup import Config, Deduplicator, Document
from neardup.pairs.estimates.limits import recall_by_limits

SEED = 10
ID = "S12-truncation"
# Candidates of a probe, and of a bucket.
PROBE_LIMITS, BUCKET_LIMITS = (16, 64, 128, 256, 512, 1_024), (64, 256, 1_024)
# A limit that is never reached; the table does not allocate room for it.
_UNLIMITED = 1 << 20
_THRESHOLDS = (0.8, 0.6, 0.5)
_SIZES: dict[Size, int] = {"smoke": 120, "default": 2_000, "large": 6_000}
_WORDS = 300
# The greatest fractions of clusters that the default limits may lose, of verdicts that they may change, and of pairs on
# real sets.
_CLUSTERS_LOST_MAX, _VERDICTS_CHANGED_MAX, _PAIRS_LOST_MAX = 0.001, 0.001, 0.001

# The generated stream where one cluster has most of the pairs, and how wrong the recall that is counted may be there.
_ONE_CLUSTER, _ERROR_MOST = "most pairs in one", Target("at most", 0.03)


class Clusters(NamedTuple):
    """The results of a stream: its pairs, the cluster of each document, the number of truncated probes, the ids that
    the verdicts keep, and the recall that the counts of limits say."""

    pairs: frozenset[tuple[str, str]]
    cluster: dict[str, str]
    truncated: int
    kept: frozenset[str]
    recall_by_limits: float


def drifting(count: int, seed: int) -> list[Document]:
    """Each document is the one before it with one word in 60 replaced: near in time is near in similarity."""
    rng = np.random.default_rng(seed)
    words, fresh = draw_words(rng, _WORDS, punctuation=True), iter(draw_words(rng, count * 5, punctuation=True))
    out = []
    for i in range(count):
        for place in rng.integers(0, _WORDS, _WORDS // 60).tolist():
            words[place] = next(fresh)
        out.append(Document(f"drift-{i:07d}", " ".join(words)))
    return out


def interleaved(count: int, seed: int) -> list[Document]:
    """Ten stories whose documents arrive in random order, each one text with one word in 60 replaced."""
    rng = np.random.default_rng(seed)
    stories = [draw_words(rng, _WORDS, punctuation=True) for _ in range(10)]
    fresh = iter(draw_words(rng, count * 5, punctuation=True))
    out = []
    for i, story in enumerate(rng.integers(0, len(stories), count).tolist()):
        words = list(stories[story])
        for place in rng.integers(0, _WORDS, _WORDS // 60).tolist():
            words[place] = next(fresh)
        out.append(Document(f"story-{i:07d}", " ".join(words)))
    return out


def uneven(count: int, seed: int) -> list[Document]:
    """One document in seven is an edit of one text, which makes nearly all pairs; the others have no pair."""
    rng = np.random.default_rng(seed)
    story, fresh = draw_words(rng, 60, punctuation=True), iter(draw_words(rng, count * 60, punctuation=True))
    out = []
    for i, is_edit in enumerate((rng.random(count) < 1 / 7).tolist()):
        words = [next(fresh) for _ in story]
        if is_edit:
            changed = set(rng.integers(0, len(story), 3).tolist())
            words = [words[at] if at in changed else word for at, word in enumerate(story)]
        out.append(Document(f"uneven-{i:07d}", " ".join(words)))
    return out


GENERATED = {
    "one word apart": one_word_apart, "drifting": drifting, "ten stories": interleaved, "most pairs in one": uneven,
}  # fmt: skip


def clusters(documents: Sequence[Document], config: Config) -> Clusters:
    """Run a stream; clusters are the connected components of its pairs."""
    dedup = Deduplicator(config)
    pairs = frozenset((pair.older, pair.newer) for pair in dedup.process(documents))
    cluster = components((document.id for document in documents), pairs)
    verdicts = Deduplicator(config).decide(documents)
    kept = frozenset(verdict.id for verdict in verdicts if verdict.status == "original")
    counts = dedup.counts()
    recall = recall_by_limits(counts["near_pairs"], counts["missed_pairs"]).value
    return Clusters(pairs, cluster, counts["truncated"], kept, recall)


def components(ids: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The name of the connected component of each id."""
    root = {id_: id_ for id_ in ids}

    def find(id_: str) -> str:
        while root[id_] != id_:
            root[id_] = root[root[id_]]
            id_ = root[id_]
        return id_

    for a, b in pairs:
        root[find(a)] = find(b)
    return {id_: find(id_) for id_ in root}


def b_cubed_recall(found: dict[str, str], wanted: dict[str, str]) -> float:
    """Averaged over the ids: the fraction of its wanted cluster that is in its found cluster."""
    sizes, common = Counter(wanted.values()), Counter((found[id_], wanted[id_]) for id_ in wanted)
    return sum(common[found[id_], wanted[id_]] / sizes[wanted[id_]] for id_ in wanted) / len(wanted)


def run(size: Size) -> Iterator[Result]:
    """Each set without a limit, then with each limit of a probe and of a bucket alone, then with the defaults."""
    for name, build in GENERATED.items():
        yield from compare(f"{name}, {_SIZES[size]}", build(_SIZES[size], SEED), {"threshold": 0.8})
    for name in REAL_SETS if size != "smoke" else ():
        row = REAL_SETS[name]
        if not (DATA / row.documents[0]).exists():
            yield Result(ID, name, None, "", details={"note": "the folder of real data is not there"})
            continue
        documents = read_documents(row.documents)
        for threshold in _THRESHOLDS:
            settings = {"shingles": row.shingles, "k": row.k, "threshold": threshold}
            settings |= {"sketch_bits": 16} if threshold < _THRESHOLDS[1] else {}
            yield from compare(f"{name}, {threshold}", documents, settings)


def compare(name: str, documents: Sequence[Document], settings: dict[str, object]) -> Iterator[Result]:
    """The losses of each limit on one set."""
    limits: dict[str, dict[str, object]] = {
        f"{n} a probe": {"probe_candidates_max": n, "bucket_candidates_max": _UNLIMITED} for n in PROBE_LIMITS
    }
    limits |= {f"{n} a bucket": {"probe_candidates_max": None, "bucket_candidates_max": n} for n in BUCKET_LIMITS}
    unlimited: dict[str, object] = {"probe_candidates_max": None, "bucket_candidates_max": _UNLIMITED}
    whole = clusters(documents, Config.model_validate(settings | unlimited))
    largest = max(Counter(whole.cluster.values()).values())
    for label, limit in {**limits, "defaults": {}}.items():
        found = clusters(documents, Config.model_validate(settings | limit))
        details = {
            "pairs lost": 1 - len(found.pairs) / len(whole.pairs), "pairs": len(whole.pairs),
            "documents truncated": found.truncated, "documents": len(documents), "largest cluster": largest,
            "verdicts changed": len(found.kept ^ whole.kept) / len(documents),
            "kept": len(found.kept), "kept without a limit": len(whole.kept),
            "recall by limits": found.recall_by_limits,
        }  # fmt: skip
        target = Target("at most", _CLUSTERS_LOST_MAX) if label == "defaults" else None
        if name.startswith(_ONE_CLUSTER):
            error = abs(found.recall_by_limits - len(found.pairs) / len(whole.pairs))
            yield Result(ID, f"{name}: error of recall by limits, {label}", error, "", _ERROR_MOST, {})
        lost = 1 - b_cubed_recall(found.cluster, whole.cluster)
        yield Result(ID, f"{name}: clusters lost, {label}", lost, "", target, details)
        if label == "defaults":
            target = Target("at most", _VERDICTS_CHANGED_MAX)
            yield Result(ID, f"{name}: verdicts changed, {label}", details["verdicts changed"], "", target, {})
        if label == "defaults" and name.startswith(tuple(REAL_SETS)):
            lost = 1 - len(found.pairs) / len(whole.pairs)
            yield Result(ID, f"{name}: pairs lost, {label}", lost, "", Target("at most", _PAIRS_LOST_MAX), {})


SCENARIOS = {ID: run}
