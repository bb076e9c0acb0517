"""``neardup calibrate``: how many pairs of a similarity are true, judged by a field that was not scored.

Input: the pairs of ``neardup run`` or ``probe`` and their documents, as JSON Lines (documents as .csv or .tsv too).
Output: a table with, for each bin of similarity, the mean difference of the field and the fraction of true pairs that
follows from it, and the same for all pairs from the bin upwards. The second part shows where to set the threshold.

With ``--clusters`` the input is verdicts. A pair is a document and the one that it duplicates, and bins are sizes of
clusters. Pairs of one cluster may depend on each other, so the intervals are those of a bootstrap over clusters.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.table import Table

from neardup_textbook.theory.calibration import KINDS, Bin, Clustered, Mean, bins, mean_difference, true_share
from neardup_workers.outside.display.printing import print_found, table_of
from neardup_workers.outside.options.judging import CalibrateOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import json_objects

_WIDTH_COLUMNS = 110
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Pairs(NamedTuple):
    """n pairs: the values of both documents, the similarity, the number that decides the bin (the similarity, or the
    size of the cluster), and the cluster if pairs of one depend on each other."""

    older: list[Any]
    newer: list[Any]
    similarity: Floats
    binned: Floats
    groups: Ints | None
    edges: list[float]


class Calibration(NamedTuple):
    """The result: the two means, each bin, all pairs from each bin upwards, and counts of omitted input by reason."""

    matched: Mean
    random: Mean
    bins: list[Bin]
    upwards: list[Bin]
    left_out: dict[str, int]


def run(options: CalibrateOptions) -> None:
    """Calibrate and print. Raises ``Failure`` for unusable input and ``ConfigError`` for unusable settings."""
    if options.kind not in KINDS:
        raise Failure(Exit.USAGE, f"--kind {options.kind} must be one of {', '.join(KINDS)}")
    calibration = calibrate(options)
    print_found(_summary(calibration), [_table(options, calibration)], as_json=options.as_json, columns=_WIDTH_COLUMNS)


def calibrate(options: CalibrateOptions) -> Calibration:
    """Return the fractions of true pairs. Raises ``Failure`` if no pair is certainly true or no record has a value."""
    kind, left_out = KINDS[options.kind], Counter[str]()
    values: dict[str, Any] = {}
    for path in options.documents:
        for document in json_objects(path, left_out, "rows that are no record"):
            value = kind.read(document.get(options.field))
            if value is None:
                left_out[f"documents without a {options.kind} in {options.field}"] += 1
            elif isinstance(id_ := document.get(options.id_field), str):
                values[id_] = value
            else:
                left_out[f"documents without a text in {options.id_field}"] += 1
    pairs = (_of_clusters if options.clusters else _pairs)(options, values, left_out)
    if not pairs.older:
        raise Failure(
            Exit.UNUSABLE,
            f"{options.pairs} has no pair of two documents with a {options.kind} in {options.field}: give its "
            "documents, and a field that they have",
        )
    differences = kind.differ(pairs.older, pairs.newer)
    near = differences <= options.difference_max
    if not near.all():
        left_out["pairs that differ by more than --difference-max"] = int((~near).sum())
    differences, similarity, binned = differences[near], pairs.similarity[near], pairs.binned[near]
    groups = None if pairs.groups is None else pairs.groups[near]
    sure = similarity >= options.sure
    matched = mean_difference(differences[sure], None if groups is None else groups[sure])
    if not matched.pairs:
        raise Failure(
            Exit.USAGE,
            f"no pair with a {options.kind} in {options.field} has similarity {options.sure:g}, so none is surely "
            "true: lower --sure",
        )
    if options.random_mean is None:
        random = kind.at_random(list(values.values()), options.difference_max)
    else:
        random = Mean(options.random_mean, 0.0, 0)
    true_share(matched.value, matched.value, random.value)  # raises for a field without information
    clustered = None if groups is None else Clustered(groups, sure)
    each = bins(binned, differences, matched, random, pairs.edges, clustered)
    last = pairs.edges[-1]
    upwards = [bins(binned, differences, matched, random, [one.low, last], clustered)[0] for one in each]
    return Calibration(matched, random, each, upwards, dict(left_out))


def _pairs(options: CalibrateOptions, values: dict[str, Any], left_out: Counter[str]) -> _Pairs:
    """Return the pairs that have both values."""
    older, newer, similarity = [], [], []
    for pair in json_objects(options.pairs, left_out):
        score = pair.get("similarity")
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            left_out["lines of pairs without a similarity from 0 to 1"] += 1
        elif pair.get("older") not in values or pair.get("newer") not in values:
            left_out["pairs of a document that has no value or was not given"] += 1
        else:
            older.append(values[pair["older"]])
            newer.append(values[pair["newer"]])
            similarity.append(float(score))
    scores = np.array(similarity, np.float64)
    return _Pairs(older, newer, scores, scores, None, [i / options.bins for i in range(options.bins + 1)])


def _of_clusters(options: CalibrateOptions, values: dict[str, Any], left_out: Counter[str]) -> _Pairs:
    """Return the duplicates of verdicts, each with the document that it duplicates, if both have values."""
    older, newer, similarity, clusters = [], [], [], []
    sizes = Counter[int]()
    for verdict in json_objects(options.pairs, left_out):
        cluster, score, of = verdict.get("cluster"), verdict.get("similarity"), verdict.get("duplicate_of")
        if not isinstance(cluster, int):
            left_out["lines that are no verdict with a cluster"] += 1
            continue
        sizes[cluster] += 1
        if of is None:
            continue
        if of not in values or verdict.get("id") not in values or not isinstance(score, int | float):
            left_out["duplicates without a similarity, or of a document that has no value or was not given"] += 1
            continue
        older.append(values[of])
        newer.append(values[verdict["id"]])
        similarity.append(float(score))
        clusters.append(cluster)
    edges = [2.0]
    while edges[-1] <= max(sizes.values(), default=0):
        edges.append(2 * edges[-1] - 1)
    if len(edges) == 1:
        raise Failure(
            Exit.UNUSABLE, f"{options.pairs} holds no cluster: give what dedup or batch wrote with --verdicts"
        )
    binned = np.array([sizes[cluster] for cluster in clusters], np.float64)
    return _Pairs(older, newer, np.array(similarity, np.float64), binned, np.array(clusters, np.int64), edges)


def _summary(calibration: Calibration) -> dict[str, Any]:
    """Return plain values; an unknown value is null."""
    bins_ = [
        {
            **one._asdict(),
            "upwards": {name: value for name, value in up._asdict().items() if name not in ("low", "high")},
        }
        for one, up in zip(calibration.bins, calibration.upwards, strict=True)
    ]
    return {
        "matched": calibration.matched._asdict(),
        "random": calibration.random._asdict(),
        "bins": bins_,
        "left_out": calibration.left_out,
    }


def _table(options: CalibrateOptions, calibration: Calibration) -> Table:
    matched, random = calibration.matched, calibration.random
    what, more = ("size of cluster", "clusters") if options.clusters else ("similarity", "pairs")
    rows = []
    for one, up in zip(reversed(calibration.bins), reversed(calibration.upwards), strict=True):
        span = f"{one.low:.0f} to {one.high - 1:.0f}" if options.clusters else f"{one.low:.3g} to {one.high:.3g}"
        rows.append((span, f"{one.pairs:,}", f"{one.difference:.4g}", _fraction(one), f"{up.pairs:,}", _fraction(up)))
    return table_of(
        (what, "pairs", "difference", "true", "upwards", "true"),
        rows,
        title=f"Fraction of true pairs, judged by {options.field}",
        caption=f"mean difference of {matched.pairs:,} pairs of similarity {options.sure:g} and over: "
        f"{matched.value:.4g}; at random: {random.value:.4g}; in brackets what holds in 95 of 100 cases; "
        f"upwards: all {more} of at least this {what.split()[0]}",
    )


def _fraction(one: Bin) -> str:
    interval = "" if math.isnan(one.least) else f" ({one.least:.3f} to {one.most:.3f})"
    return f"{one.true_share:.3f}{interval}"
