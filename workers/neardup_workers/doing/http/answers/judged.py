"""What follows from the pairs that people have judged: a threshold with an interval, and marks that contradict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neardup.errors import ConfigError
from neardup.pairs.evaluation.clusters import components
from neardup.pairs.evaluation.thresholds import interval_of, propose
from neardup_workers.outside.store.extra.audit import Judged

# Lines of the audit log that count, the newest: those of years of a newsroom.
LINES_MAX = 2_000
# Pairs from which on there is a threshold, as in the view Judge.
_PAIRS_MIN = 10


def judged_values(said: Sequence[Judged], false_weight: float) -> dict[str, Any]:
    """Return the threshold with the fewest errors among judged pairs, ``None`` where they are too few or of one kind,
    and the lines of pairs that are of one story by other lines and were said to be of two."""
    known = [one for one in said if one.similarity is not None]
    similarity = np.array([one.similarity for one in known], np.float64)
    same = np.array([one.same for one in known], np.bool_)
    values: dict[str, Any] = {"same": int(same.sum()), "different": int((~same).sum())}
    values |= dict.fromkeys(("threshold", "low", "high", "missed", "false"))
    try:
        found = propose(similarity, same, false_weight) if len(known) >= _PAIRS_MIN else None
    except ConfigError:  # all of one kind
        found = None
    if found is not None:
        low, high = interval_of(similarity, same, false_weight)
        values |= {"threshold": found.threshold, "low": round(low, 4), "high": round(high, 4)}
        values |= {"missed": found.missed, "false": found.false}
    lines = [{"number": one.number, "time": one.time, "who": one.who} for one in _contradicting(said)]
    return {**values, "contradictions": lines}


def _contradicting(said: Sequence[Judged]) -> list[Judged]:
    """Return what was said to be apart, although what was said to be together joins the two."""
    numbers: dict[tuple[str | None, str], int] = {}
    ends = [[numbers.setdefault((one.pair[2], id_), len(numbers)) for id_ in one.pair[:2]] for one in said]
    joined = np.array([pair for pair, one in zip(ends, said, strict=True) if one.same], np.int64).reshape(-1, 2)
    story = components(len(numbers), joined[:, 0], joined[:, 1])
    return [one for (a, b), one in zip(ends, said, strict=True) if not one.same and story[a] == story[b]]
