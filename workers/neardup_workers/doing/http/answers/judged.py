"""What follows from the pairs that people have judged: a threshold with an interval, and marks that contradict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neardup.documents.document import SIGNALS
from neardup.pairs.evaluation.clusters import components
from neardup.pairs.evaluation.thresholds import calibrated
from neardup_workers.outside.store.extra.audit import Judged

# Lines of the audit log that count, the newest: those of years of a newsroom.
LINES_MAX = 2_000
# Pairs from which on there is a threshold, as in the view Judge.
_PAIRS_MIN = 10


def judged_values(said: Sequence[Judged], false_weight: float) -> dict[str, Any]:
    """Return the threshold with the fewest errors among judged pairs, of the text and of each other signal, ``None``
    where they are too few or of one kind, and the lines of pairs that are of one story by other lines and were said to
    be of two."""
    same = np.array([one.same for one in said], np.bool_)
    names = ["text", *(name for name in SIGNALS if any(name in one.by_signal for one in said))]
    by_signal = {name: np.array([one.by_signal.get(name, np.nan) for one in said]) for name in names}
    calibrations = calibrated(by_signal, same, false_weight, pairs_min=_PAIRS_MIN)
    found = {name: one._asdict() for name, one in calibrations.items()}
    values: dict[str, Any] = {**found.pop("text"), "signals": found}
    lines = [{"number": one.number, "time": one.time, "who": one.who} for one in _contradicting(said)]
    return {**values, "contradictions": lines}


def _contradicting(said: Sequence[Judged]) -> list[Judged]:
    """Return what was said to be apart, although what was said to be together joins the two."""
    numbers: dict[tuple[str | None, str], int] = {}
    ends = [[numbers.setdefault((one.pair[2], id_), len(numbers)) for id_ in one.pair[:2]] for one in said]
    joined = np.array([pair for pair, one in zip(ends, said, strict=True) if one.same], np.int64).reshape(-1, 2)
    story = components(len(numbers), joined[:, 0], joined[:, 1])
    return [one for (a, b), one in zip(ends, said, strict=True) if not one.same and story[a] == story[b]]
