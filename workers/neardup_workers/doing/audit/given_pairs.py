"""The similarities of given pairs of documents, measured as exactly as their scheme can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.pairs.batches import CONTENT_HALF, Batch, select
from neardup.pairs.comparing import similarity_of
from neardup.pairs.signing import Signer
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.settings.files import Settings, check_unweighted, fields_of

Floats = npt.NDArray[np.float64]
# What a scheme chooses for a recall at the threshold; at another threshold it chooses again.
CHOSEN = (
    "bands", "rows", "sketch_bits", "rows_max", "recall", "false_weight", "min_similarity", "buckets_shared_min",
    "verify",
)  # fmt: skip
# Pairs that are measured at a time: both sides of each are copied.
_MEASURED = 256


class Measured:
    """Documents that are compared, by what they are named; ``where`` says in messages what compares them."""

    def __init__(self, settings: Settings, documents: Sequence[Document], where: str) -> None:
        check_unweighted(settings, where)
        update = {name: type(settings).model_fields[name].default for name in CHOSEN}
        try:
            self._settings = settings.model_copy(update={**update, "verify": "exact"})
        except ConfigError:  # its score is exact already, or it counts runs
            self._settings = settings.model_copy(update=update)
        signed = Signer(self._settings).sign(documents)
        refused = {refusal.position for refusal in signed.refusals}
        accepted = [document for position, document in enumerate(documents) if position not in refused]
        self._batch, self.refused = signed.batch, len(refused)
        self.rows = {(document.collection or None, str(document.id)): row for row, document in enumerate(accepted)}

    def similarity(self, older: Sequence[int], newer: Sequence[int]) -> Floats:
        """Return the similarities of pairs of rows, ``float64[n]``."""
        return self._measured(older, newer, self._similarity)["all"]

    def by_signal(self, older: Sequence[int], newer: Sequence[int]) -> dict[str, Floats]:
        """Return the similarities of pairs of rows by each signal, ``float64[n]``, NaN where one side lacks it; of a
        scheme with one, by the name of what it compares."""
        strengths = SCHEMES[self._settings.scheme].strengths
        if strengths is None:
            return {fields_of(self._settings).kind: self.similarity(older, newer)}
        plan = self._settings.plan
        return self._measured(older, newer, lambda one, other: strengths(one.evidence, other.evidence, plan))

    def _similarity(self, newer: Batch, older: Batch) -> dict[str, Floats]:
        found = similarity_of(self._settings, newer.evidence, older.evidence, 0.0)
        equal = older.contents[:, CONTENT_HALF] == newer.contents[:, CONTENT_HALF]
        return {"all": np.where(equal, 1.0, np.maximum(found, 0.0))}

    def _measured(
        self, older: Sequence[int], newer: Sequence[int], compare: Callable[[Batch, Batch], Mapping[str, Floats]]
    ) -> dict[str, Floats]:
        parts = []
        for at in range(0, max(1, len(older)), _MEASURED):
            part = slice(at, at + _MEASURED)
            parts.append(compare(*(select(self._batch, np.array(side[part], np.int64)) for side in (newer, older))))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
