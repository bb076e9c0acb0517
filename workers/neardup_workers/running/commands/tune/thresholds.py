"""``neardup tune --sample``: pairs of a sample around several thresholds.

Pairs are found by sketches, with the default recall at the least threshold, and then measured exactly, where the scheme
can: an eighth of the work of an exact comparison of all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table

from neardup.deduplicator import Deduplicator
from neardup.documents.document import Document
from neardup_workers.doing.audit.given_pairs import CHOSEN, Measured
from neardup_workers.outside.display.printing import table_of
from neardup_workers.outside.display.side_by_side import PairLine, nearest, side_by_side
from neardup_workers.outside.settings.files import Settings

# The thresholds around which pairs are shown: the range in which a threshold is usually set. Of fractions of texts,
# which are set lower, also the setting and what is twice as much.
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# A pair belongs to the threshold that is at most so far from its similarity.
_NEAR = 0.05
_SHOWN_EACH = 2


class Around(NamedTuple):
    """A threshold: how many pairs of the sample reach it, and some whose similarity is nearest to it."""

    threshold: float
    pairs: int
    shown: list[PairLine]


class Compared(Measured):
    """The documents of a sample that are compared, by what they are named."""

    def __init__(self, settings: Settings, documents: Sequence[Document]) -> None:
        super().__init__(settings, documents, "tune, which compares a sample")
        update = {name: type(settings).model_fields[name].default for name in CHOSEN}
        self.levels = _levels(settings.threshold)
        self._finding, self._documents = settings.model_copy(update={**update, "threshold": self.levels[0]}), documents

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


def summary(found: Sequence[Around]) -> list[dict[str, Any]]:
    """Return the same as plain values."""
    rows = []
    for one in found:
        shown = [{"older": pair.older, "newer": pair.newer, "similarity": pair.similarity} for pair in one.shown]
        rows.append({"threshold": one.threshold, "pairs": one.pairs, "shown": shown})
    return rows


def tables(found: Sequence[Around], documents: Sequence[Document]) -> list[Table]:
    """Return the shown pairs side by side, and the counts by threshold."""
    texts = {(document.collection or None, str(document.id)): document.text for document in documents}
    out = [
        side_by_side(pair, texts[pair.collection, pair.older], texts[pair.collection, pair.newer])
        for one in found
        for pair in one.shown
    ]
    rows = [(f"{one.threshold:g}", f"{one.pairs:,}") for one in found]
    return [*out, table_of(("threshold", "pairs"), rows, title="Pairs of the sample from each threshold on")]
