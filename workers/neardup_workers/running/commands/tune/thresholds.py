"""``neardup tune --sample``: pairs of a sample around several thresholds, and the threshold that judged pairs propose.

Pairs are compared exactly, where the scheme can, down to the least of the thresholds. Judged pairs are lines with two
ids and ``same``; they may be less similar than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.table import Table

from neardup.deduplicator import Deduplicator
from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.pairs.batches import CONTENT_HALF, select
from neardup.pairs.evaluation.judging import proportion
from neardup.pairs.evaluation.thresholds import Proposed, propose
from neardup.pairs.pipeline import Signer, similarity_of
from neardup_workers.outside.display.printing import facts
from neardup_workers.outside.display.side_by_side import PairLine, nearest, side_by_side
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import ID_NAMES, json_objects
from neardup_workers.outside.settings.files import Settings

# The thresholds around which pairs are shown: the range in which a threshold is usually set.
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# A pair belongs to the threshold that is at most so far from its similarity.
_NEAR = 0.05
_SHOWN_EACH = 2
# What a scheme chooses for a recall at the threshold; at another threshold it chooses again.
_CHOSEN = ("bands", "rows", "sketch_bits", "rows_max", "recall", "false_weight", "min_similarity", "buckets_shared_min")
_KINDS = ("same", "different")
_ANSWERS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Around(NamedTuple):
    """A threshold: how many pairs of the sample reach it, and some whose similarity is nearest to it."""

    threshold: float
    pairs: int
    shown: list[PairLine]


class Judged(NamedTuple):
    """Judged pairs, ``float64[n]`` and ``bool[n]``, and the threshold that they propose."""

    similarity: npt.NDArray[np.float64]
    same: npt.NDArray[np.bool_]
    proposed: Proposed


def comparing(settings: Settings) -> Settings:
    """Return settings that find pairs down to the least of the thresholds, scored exactly if the scheme can."""
    update = {name: type(settings).model_fields[name].default for name in _CHOSEN}
    update["threshold"] = min(THRESHOLDS) - _NEAR
    try:
        return settings.model_copy(update={**update, "verify": "exact"})
    except ConfigError:  # its score is exact already, or it counts runs
        return settings.model_copy(update=update)


def around(settings: Settings, documents: Sequence[Document]) -> list[Around]:
    """Return the pairs of a sample around each threshold.

    Args:
        settings: those of ``comparing``.
        documents: the sample.
    """
    pairs = [
        PairLine(pair.older, pair.newer, pair.similarity, getattr(pair, "collection", None))
        for pair in Deduplicator(settings).process(documents)
    ]
    out = []
    for threshold in THRESHOLDS:
        near = (pair for pair in pairs if -_NEAR <= pair.similarity - threshold < _NEAR)
        reached = sum(pair.similarity >= threshold for pair in pairs)
        out.append(Around(threshold, reached, nearest(near, threshold, _SHOWN_EACH)))
    return out


def judged(
    path: str, settings: Settings, documents: Sequence[Document], left_out: Counter[str], false_weight: float
) -> Judged:
    """Return judged pairs of the sample with their similarities, and the threshold that they propose.

    Args:
        path: the judged pairs: JSON Lines or a table, with two ids and ``same``.
        settings: those of ``comparing``.
        documents: the sample.
        left_out: counts lines that are no judged pair, and pairs of documents that the sample lacks.
        false_weight: cost of a false pair; a missed one costs 1 minus this.

    Raises:
        Failure: the file cannot be read, or no judged pair is one of the sample.
        ConfigError: all pairs are judged alike.
    """
    signed = Signer(settings).sign(documents)
    refused = {refusal.position for refusal in signed.refusals}
    accepted = [document for position, document in enumerate(documents) if position not in refused]
    rows = {(document.collection, str(document.id)): row for row, document in enumerate(accepted)}
    older, newer, same = [], [], []
    for line in json_objects(path, left_out):
        ids = next(([line[name] for name in names] for names in ID_NAMES if set(names) <= line.keys()), None)
        answer = _ANSWERS.get(str(line.get("same")).lower())
        if ids is None or answer is None:
            left_out["judged lines without older, newer and same (true or false)"] += 1
            continue
        found = [rows.get((line.get("collection"), str(id_))) for id_ in ids]
        if found[0] is None or found[1] is None:
            left_out["judged pairs of documents that the sample lacks"] += 1
            continue
        older.append(found[0])
        newer.append(found[1])
        same.append(answer)
    if not same:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items()) or "it is empty"
        raise Failure(Exit.INPUT, f"{path} holds no judged pair of the sample ({why}): give two ids and same in a line")
    sides = [select(signed.batch, np.array(side, np.int64)) for side in (older, newer)]
    measured = similarity_of(settings, sides[1].evidence, sides[0].evidence, 0.0)
    equal = sides[0].contents[:, CONTENT_HALF] == sides[1].contents[:, CONTENT_HALF]
    similarity = np.where(equal, 1.0, np.maximum(measured, 0.0))
    answers = np.array(same)
    return Judged(similarity, answers, propose(similarity, answers, false_weight))


def summary(found: Sequence[Around], answers: Judged | None) -> dict[str, Any]:
    """Return the same as plain values."""
    rows = []
    for one in found:
        counts = {} if answers is None else dict(zip(_KINDS, _reached(answers, one.threshold), strict=True))
        shown = [{"older": pair.older, "newer": pair.newer, "similarity": pair.similarity} for pair in one.shown]
        rows.append({"threshold": one.threshold, "pairs": one.pairs, **counts, "shown": shown})
    return {"thresholds": rows, **({} if answers is None else {"proposed": answers.proposed._asdict()})}


def tables(found: Sequence[Around], answers: Judged | None, documents: Sequence[Document]) -> list[Table]:
    """Return the shown pairs side by side, the counts by threshold, and the proposal."""
    texts = {(document.collection, str(document.id)): document.text for document in documents}
    out = [
        side_by_side(pair, *(texts[pair.collection, id_] for id_ in pair[:2])) for one in found for pair in one.shown
    ]
    table = Table(title="Pairs of the sample from each threshold on")
    for heading in ("threshold", "pairs", *(("judged the same", "judged different") if answers else ())):
        table.add_column(heading, justify="right")
    for one in found:
        counts = () if answers is None else _reached(answers, one.threshold)
        table.add_row(f"{one.threshold:g}", f"{one.pairs:,}", *(f"{count:,}" for count in counts))
    return [*out, table] if answers is None else [*out, table, _proposal(answers.proposed)]


def _reached(answers: Judged, threshold: float) -> tuple[int, int]:
    """How many pairs judged the same, and judged different, reach a threshold."""
    reached = answers.similarity >= threshold
    return int((reached & answers.same).sum()), int((reached & ~answers.same).sum())


def _proposal(found: Proposed) -> Table:
    judged_all = found.same + found.different
    right = proportion(judged_all - found.missed - found.false, judged_all)
    interval = f"interval of 95%: {right.low:.3f} to {right.high:.3f}"
    return facts(
        "The threshold that the judged pairs propose",
        [
            ("threshold", f"--threshold {found.threshold:g}", f"or any above {found.low:.4g} up to {found.high:.4g}"),
            ("missed", f"{found.missed:,} of {found.same:,}", "judged the same, below it"),
            ("false", f"{found.false:,} of {found.different:,}", "judged different, from it on"),
            (
                "right",
                f"{right.value:.3f}",
                f"of the judged pairs; {interval}",
            ),
        ],
    )
