"""What a linker weighs elements by, where their rarity counts: the weights that every shard has at the same document.

Theory of operation. The linker counts the documents of ``signed`` in order, as every shard does, in the step that
decides them. A document is compared by the weights before its epoch, so a step holds those of each of its epochs. The
counts follow from the last two blocks of documents (``Rarity``): ``counted`` is the position of the first of them,
which the linker commits, and from which a restore counts again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from neardup.features.tokens.rarity import Rarity, Weights
from neardup.pairs.comparing import RESULT_FIELDS, compared
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.rule import is_document
from neardup_workers.outside.topics.signed import SignedRows, position_of

_Longs = npt.NDArray[np.int64]


class Weighed(NamedTuple):
    """The weights of some epochs, and which of them weigh each of n arrivals (``int64[n]``)."""

    weights: list[Weights]
    epochs: _Longs


class Weighing:
    """The counts of one linker; see the module."""

    def __init__(self, config: Config) -> None:
        elements = SCHEMES[config.scheme].elements
        assert elements is not None, config.scheme
        self._plan, self._elements = config.plan, elements
        self.follow(0)

    def follow(self, counted: int) -> None:
        """Begin to count at a position."""
        self._rarity, self._blocks = Rarity(), (counted, counted)
        self._before = self._blocks

    @property
    def counted(self) -> int:
        """The position from which on documents count."""
        return self._blocks[0]

    def read(self, offset: int, rows: SignedRows, end: int) -> None:
        """Count the documents of a message that count still, up to the position ``end``."""
        positions = position_of(offset) + np.flatnonzero(is_document(rows.kinds))
        at = np.flatnonzero((positions >= self.counted) & (positions < end))
        self.count(rows.evidence.select(at), positions[at], [])

    def count(self, evidence: Evidence, positions: _Longs, weights: list[Weights]) -> _Longs:
        """Count documents of one message at these positions, in order; returns which of ``weights`` weighs each. Those
        of new epochs are appended."""
        rarity = self._rarity
        rows = np.flatnonzero(np.diff(evidence.starts))  # what was damaged has no elements
        values, starts = self._elements(evidence.select(rows), self._plan)
        epochs, at = np.full(len(positions), max(0, len(weights) - 1)), 0
        while at < len(rows):
            rarity.freeze()
            if not weights or weights[-1] is not rarity.weights:
                weights.append(rarity.weights)
            end = min(len(rows), at + rarity.left)
            rarity.add(values, starts[at : end + 1])
            epochs[rows[at:end]] = len(weights) - 1
            if rarity.is_full:
                self._blocks = self._blocks[1], int(positions[rows[end - 1]]) + 1
            at = end
        return epochs

    def begin(self) -> None:
        """Begin a step."""
        self._before = self._blocks
        self._rarity.begin()

    def undo(self) -> None:
        """Reverse what the step has counted."""
        self._blocks = self._before
        self._rarity.undo()


def compared_by(
    config: Config, newer: Evidence, older: Evidence, weighed: Weighed | None, items: _Longs
) -> npt.NDArray[np.float32]:
    """Compare documents with contents for a verdict (``compared``); ``items`` are the arrivals of the documents."""
    if weighed is None:
        return compared(config, newer, older)
    epochs, out = weighed.epochs[items], np.empty((len(items), RESULT_FIELDS), np.float32)
    for epoch in np.unique(epochs).tolist():
        at, plan = np.flatnonzero(epochs == epoch), cast(Any, config.plan)
        plan = plan._replace(weights=weighed.weights[epoch])
        out[at] = compared(config, newer.select(at), older.select(at), plan)
    return out
