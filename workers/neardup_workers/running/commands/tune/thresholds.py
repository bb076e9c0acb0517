"""``neardup tune --sample``: pairs of a sample around several thresholds, and the threshold that judged pairs propose.

Pairs are found by sketches, with the default recall at the least threshold, and then measured exactly, where the scheme
can: an eighth of the work of an exact comparison of all candidates. Judged pairs are lines with two ids and ``same``;
they may be less similar than the least threshold.
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
from neardup.pairs.comparing import similarity_of
from neardup.pairs.evaluation.judging import proportion
from neardup.pairs.evaluation.thresholds import Proposed, propose
from neardup.pairs.signing import Signer
from neardup_workers.outside.display.printing import facts
from neardup_workers.outside.display.side_by_side import PairLine, nearest, side_by_side
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import ID_NAMES, json_objects
from neardup_workers.outside.settings.files import Settings, check_unweighted

# The thresholds around which pairs are shown: the range in which a threshold is usually set. Of fractions of texts,
# which are set lower, also the setting and what is twice as much.
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# A pair belongs to the threshold that is at most so far from its similarity.
_NEAR = 0.05
_SHOWN_EACH = 2
# What a scheme chooses for a recall at the threshold; at another threshold it chooses again.
_CHOSEN = (
    "bands", "rows", "sketch_bits", "rows_max", "recall", "false_weight", "min_similarity", "buckets_shared_min",
    "verify",
)  # fmt: skip
# Pairs that are measured at a time: both sides of each are copied.
_MEASURED = 256
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


class Compared:
    """The documents of a sample that are compared, by what they are named.

    Args:
        settings: reading, scheme and measure.
        documents: the sample.
    """

    def __init__(self, settings: Settings, documents: Sequence[Document]) -> None:
        check_unweighted(settings, "tune, which compares a sample")
        update = {name: type(settings).model_fields[name].default for name in _CHOSEN}
        self.levels = _levels(settings.threshold)
        update["threshold"] = self.levels[0]
        self._finding, self._documents = settings.model_copy(update=update), documents
        try:
            self._measuring = settings.model_copy(update={**update, "verify": "exact"})
        except ConfigError:  # its score is exact already, or it counts runs
            self._measuring = self._finding
        signed = Signer(self._measuring).sign(documents)
        refused = {refusal.position for refusal in signed.refusals}
        accepted = [document for position, document in enumerate(documents) if position not in refused]
        self._batch = signed.batch
        self.rows = {(document.collection or None, str(document.id)): row for row, document in enumerate(accepted)}

    def pairs(self) -> list[PairLine]:
        """Return the pairs from the least threshold on, and some below it."""
        found = Deduplicator(self._finding).process(self._documents)
        collections = [getattr(pair, "collection", None) for pair in found]
        older = [self.rows[name, pair.older] for name, pair in zip(collections, found, strict=True)]
        newer = [self.rows[name, pair.newer] for name, pair in zip(collections, found, strict=True)]
        measured = self.similarity(older, newer).tolist()
        return [
            PairLine(pair.older, pair.newer, value, collection)
            for pair, value, collection in zip(found, measured, collections, strict=True)
        ]

    def similarity(self, older: Sequence[int], newer: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the similarities of pairs of rows, ``float64[n]``."""
        out = np.zeros(len(older))
        for at in range(0, len(older), _MEASURED):
            part = slice(at, at + _MEASURED)
            sides = [select(self._batch, np.array(side[part], np.int64)) for side in (older, newer)]
            measured = similarity_of(self._measuring, sides[1].evidence, sides[0].evidence, 0.0)
            equal = sides[0].contents[:, CONTENT_HALF] == sides[1].contents[:, CONTENT_HALF]
            out[part] = np.where(equal, 1.0, np.maximum(measured, 0.0))
        return out


def _levels(threshold: float) -> list[float]:
    """Return the thresholds around which pairs are shown, ascending.

    >>> _levels(0.05)[:4]
    [0.05, 0.1, 0.2, 0.3]
    """
    low = [threshold * 2**n for n in range(8)]
    return [*(value for value in low if 0 < value < THRESHOLDS[0]), *THRESHOLDS]


def around(compared: Compared) -> list[Around]:
    """Return the pairs of a sample around each threshold."""
    pairs, out = compared.pairs(), []
    for threshold in compared.levels:
        near = (pair for pair in pairs if -_NEAR <= pair.similarity - threshold < _NEAR)
        reached = sum(pair.similarity >= threshold for pair in pairs)
        out.append(Around(threshold, reached, nearest(near, threshold, _SHOWN_EACH)))
    return out


def judged(path: str, compared: Compared, left_out: Counter[str], false_weight: float) -> Judged:
    """Return judged pairs of the sample with their similarities, and the threshold that they propose.

    Args:
        path: the judged pairs: JSON Lines or a table, with two ids and ``same``.
        compared: the sample.
        left_out: counts lines that are no judged pair, and pairs of documents that the sample lacks.
        false_weight: cost of a false pair; a missed one costs 1 minus this.

    Raises:
        Failure: the file cannot be read, or no judged pair is one of the sample.
        ConfigError: all pairs are judged alike.
    """
    older, newer, same = [], [], []
    for line in json_objects(path, left_out):
        ids = next(([line[name] for name in names] for names in ID_NAMES if set(names) <= line.keys()), None)
        answer = _ANSWERS.get(str(line.get("same")).lower())
        if ids is None or answer is None:
            left_out["judged lines without older, newer and same (true or false)"] += 1
            continue
        found = [compared.rows.get((line.get("collection") or None, str(id_))) for id_ in ids]
        if found[0] is None or found[1] is None:
            left_out["judged pairs of documents that the sample lacks"] += 1
            continue
        older.append(found[0])
        newer.append(found[1])
        same.append(answer)
    if not same:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items()) or "it is empty"
        raise Failure(Exit.INPUT, f"{path} holds no judged pair of the sample ({why}): give two ids and same in a line")
    similarity = compared.similarity(older, newer)
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
    texts = {(document.collection or None, str(document.id)): document.text for document in documents}
    out = [
        side_by_side(pair, texts[pair.collection, pair.older], texts[pair.collection, pair.newer])
        for one in found
        for pair in one.shown
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
