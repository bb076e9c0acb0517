"""``neardup evaluate --clusters``: compares the clusters of verdicts with labels or with known pairs.

It evaluates the documents with a verdict other than refused. The first version of each id counts. A label is the class
of a document. Known pairs come from an exact join: two documents belong together if their similarity reaches
``--truth-min``. These pairs give the least similarity inside a cluster, and the number of *unsupported* dropped
documents: no kept document is similar enough to them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.table import Table

from neardup.pairs.evaluation.clusters import (
    Purity,
    Quality,
    components,
    counts_of_labels,
    counts_of_pairs,
    lowest_similarities,
    purity_by_size,
    quality,
)
from neardup.pairs.evaluation.judging import Proportion, proportion
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.schemes.config import Config
from neardup_workers.outside.display.pictures import Curve, Mark, Picture
from neardup_workers.outside.display.printing import print_found, table_of
from neardup_workers.outside.options.judging import EvaluateOptions
from neardup_workers.outside.outputs.clusters import LARGEST
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import json_objects
from neardup_workers.running.commands.evaluate.pairs import of_others, read_truth

# Measure -> its name in a table.
_NAMES = {
    "precision": "precision of pairs", "recall": "recall of pairs", "f1": "F1 of pairs",
    "b3_precision": "B-cubed precision", "b3_recall": "B-cubed recall", "b3_f1": "B-cubed F1",
    "adjusted_rand": "adjusted Rand index", "adjusted_rand_known": "adjusted Rand index, pairs not closed",
}  # fmt: skip
Ints = npt.NDArray[np.int64]


class ClusteredDocuments(NamedTuple):
    """n documents: ids, clusters as small numbers (``int64[n]``), and whether each is kept (``bool[n]``)."""

    ids: list[str]
    clusters: Ints
    kept: npt.NDArray[np.bool_]


class Largest(NamedTuple):
    """A cluster: the id of its first document, its size, the least similarity inside (NaN: below every known
    similarity)."""

    id: str
    size: int
    lowest_similarity: float | None


class ClusterEvaluation(NamedTuple):
    """The measures, the purity by size, the largest clusters, the sizes of clusters and of true groups, and counts of
    omitted input."""

    quality: Quality
    purity: list[Purity]
    largest: list[Largest]
    unsupported: Proportion | None
    sizes: dict[str, Ints]
    left_out: dict[str, int]


def run(options: EvaluateOptions, config: Config) -> None:
    """Evaluate and print. Raises ``Failure`` for files that cannot be read or used."""
    evaluation = evaluate(options, config)
    print_found(
        _summary(evaluation), _tables(evaluation), as_json=options.as_json, drawn=picture(evaluation), plot=options.plot
    )


def evaluate(options: EvaluateOptions, config: Config) -> ClusterEvaluation:
    """Compare clusters with labels or pairs."""
    left_out = Counter[str]()
    documents = _documents(options.pairs, left_out)
    number = {id_: n for n, id_ in enumerate(documents.ids)}
    least = config.threshold if options.truth_min is None else options.truth_min
    lowest = unsupported = None
    if options.truth is not None:
        a, b, similarity = _pairs(options.truth, number, left_out, options.pairs)
        true = np.ones(len(a), np.bool_) if similarity is None else similarity >= least
        clusters, classes = documents.clusters, components(len(number), a[true], b[true])
        counts = counts_of_pairs(clusters, a[true], b[true])
        unsupported = _unsupported(documents.kept, a[true], b[true])
        if similarity is not None:
            lowest = lowest_similarities(documents.clusters, a, b, similarity)
    if options.labels is not None:
        named, labels = _labels(options.labels, options.label_field, number, left_out)
        clusters, classes = documents.clusters[named], labels
        counts = counts_of_labels(clusters, classes)
    names, sizes = np.unique(documents.clusters, return_counts=True)
    first = np.unique(documents.clusters, return_index=True)[1]
    order = np.lexsort((first, -sizes))[:LARGEST].tolist()
    largest = [
        Largest(documents.ids[first[n]], int(sizes[n]), None if lowest is None else float(lowest[names[n]]))
        for n in order
    ]
    sizes_of = {"found": counts.clustered, "true": counts.true}
    purity = purity_by_size(clusters, classes)
    return ClusterEvaluation(quality(counts), purity, largest, unsupported, sizes_of, dict(left_out))


def _documents(path: str, left_out: Counter[str]) -> ClusteredDocuments:
    clusters: dict[str, int] = {}
    kept: list[bool] = []
    for verdict in json_objects(path, left_out):
        id_, cluster, status = verdict.get("id"), verdict.get("cluster"), verdict.get("status")
        if status == "refused":
            left_out["refused documents"] += 1
        elif not isinstance(id_, str) or not isinstance(cluster, int) or not isinstance(status, str):
            left_out["lines that are no verdict"] += 1
        elif id_ in clusters:
            left_out["later versions of an id"] += 1
        else:
            clusters[id_] = cluster
            kept.append(status == "original")
    if not clusters:
        raise Failure(Exit.UNUSABLE, f"{path} holds no verdict: give what dedup or batch wrote with --verdicts")
    numbered = np.unique(np.array(list(clusters.values()), np.int64), return_inverse=True)[1]
    return ClusteredDocuments(list(clusters), np.asarray(numbered, np.int64), np.array(kept))


def _pairs(
    path: str, number: dict[str, int], left_out: Counter[str], verdicts: str
) -> tuple[Ints, Ints, npt.NDArray[np.float64] | None]:
    """Known pairs between documents, each once."""
    known = read_truth(path, left_out)
    rows: dict[tuple[int, int], int] = {}
    for n, (one, other) in enumerate(known.pairs):
        if one not in number or other not in number:
            left_out["known pairs with an id that has no verdict"] += 1
            continue
        rows[min(number[one], number[other]), max(number[one], number[other])] = n
    if number and not rows:
        raise of_others(path, "a pair of", known.pairs[0][0], verdicts)
    a, b = np.array(list(rows), np.int64).reshape(-1, 2).T
    return a, b, None if known.similarity is None else known.similarity[list(rows.values())]


def _labels(path: str, field: str, number: dict[str, int], left_out: Counter[str]) -> tuple[Ints, Ints]:
    """Return the documents with a label, and their labels as numbers."""
    label_of: dict[int, str] = {}
    for row in json_objects(path, left_out):
        id_, label = row.get("id"), row.get(field)
        if id_ is None or label is None:
            left_out[f"labels without id and {field}"] += 1
        elif str(id_) not in number:
            left_out["labels of ids without a verdict"] += 1
        else:
            label_of[number[str(id_)]] = str(label)
    if not label_of:
        raise Failure(Exit.UNUSABLE, f"{path} labels no document: give rows with id and {field}, or set --label-field")
    left_out["documents without a label"] += len(number) - len(label_of)
    labels = np.unique(np.array(list(label_of.values())), return_inverse=True)[1]
    return np.array(list(label_of), np.int64), np.asarray(labels, np.int64)


def _unsupported(kept: npt.NDArray[np.bool_], a: Ints, b: Ints) -> Proportion:
    supported = np.zeros(len(kept), np.bool_)
    supported[a[kept[b]]] = True
    supported[b[kept[a]]] = True
    return proportion(int((~kept & ~supported).sum()), int((~kept).sum()))


def picture(evaluation: ClusterEvaluation) -> Picture:
    """Plot the fraction of documents in clusters of at most a size."""
    largest = max(int(sizes.max(initial=1)) for sizes in evaluation.sizes.values())
    curves = []
    for (label, sizes), marker in zip(evaluation.sizes.items(), ("hd", "braille"), strict=True):
        steps = np.unique(np.append(sizes, (1, largest)))
        below = np.searchsorted(np.sort(sizes), steps, side="right") / max(1, len(sizes))
        curves.append(Curve(label, np.log10(steps).tolist(), below.tolist(), marker))
    return Picture(
        title="fraction of the documents in clusters up to a size",
        x_label="size of the cluster, logarithm to base 10",
        x_limits=(0.0, float(np.log10(max(largest, 2)))),
        curves=curves,
        marks=[Mark(f"largest found {int(evaluation.sizes['found'].max(initial=1)):,}",
                    float(np.log10(evaluation.sizes["found"].max(initial=1))), ":")],
        areas=[],
    )  # fmt: skip


def _tables(evaluation: ClusterEvaluation) -> list[Table]:
    values = {label: getattr(evaluation.quality, name) for name, label in _NAMES.items()}
    if evaluation.unsupported is not None:
        values["dropped without support"] = evaluation.unsupported
    measures = [(label, *(f"{x:.4f}" for x in value)) for label, value in values.items()]
    purity = [
        (f"{row.size_min:,}" if row.size_min == row.size_max else f"{row.size_min:,} to {row.size_max:,}",
         f"{row.clusters:,}", f"{row.documents:,}", *(f"{x:.4f}" for x in row.purity))
        for row in evaluation.purity
    ]  # fmt: skip
    title = "Purity by size: documents of the commonest class of their cluster"
    largest = [(one.id, f"{one.size:,}", _lowest(one.lowest_similarity)) for one in evaluation.largest]
    return [
        table_of(("", "value", "from", "to"), measures, title="Clusters, with intervals of 95%"),
        table_of(("size", "clusters", "documents", "purity", "from", "to"), purity, title=title),
        table_of(("original", "size", "lowest similarity inside"), largest, title="Largest clusters"),
    ]


def _lowest(similarity: float | None) -> str:
    if similarity is None:
        return ""
    return "below every known" if np.isnan(similarity) else f"{similarity:.{SIMILARITY_DIGITS}f}"


def _summary(evaluation: ClusterEvaluation) -> dict[str, Any]:
    """Return plain values; an unknown value is null."""
    return {
        **{name: getattr(evaluation.quality, name)._asdict() for name in _NAMES},
        "unsupported": None if evaluation.unsupported is None else evaluation.unsupported._asdict(),
        "purity": [{**row._asdict(), "purity": row.purity._asdict()} for row in evaluation.purity],
        "largest": [one._asdict() for one in evaluation.largest],
        "left_out": evaluation.left_out,
    }
