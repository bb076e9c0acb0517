"""The recall where small documents lack the keys of some bands, as with the schemes that are ``partial``.

The deduplicator, the commands and the signers count the bands of their documents, and warn once if the recall is less.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt

from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence, Keys
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.curves import candidate_probability
from neardup.schemes.theory.tuning import Tuning

# A recall below the promised one by this much is worth a warning.
_RECALL_SLACK = 0.02
# Documents after which small ones are worth a warning: the recall of fewer is not known well.
WARNED_DOCUMENTS_MIN = 1_000


def documents_by_bands(keys: Keys, bands: int) -> npt.NDArray[np.int64]:
    """How many documents have keys of k bands, ``int64[b + 1]`` by k."""
    return np.bincount(np.diff(keys.starts), minlength=bands + 1)


def recall_of(tuning: Tuning, documents_of: npt.NDArray[np.int64]) -> float:
    """The recall at the threshold, if ``documents_of[k]`` documents have keys of k bands (``int64[b + 1]``).

    It is an upper bound, because it assumes that both documents of a pair lack the same bands. NaN without documents.

    >>> from neardup import Config
    >>> tuning = Config(scheme="grouped").tuning
    >>> whole, half = np.zeros((2, tuning.bands + 1), np.int64)
    >>> whole[tuning.bands] = half[tuning.bands // 2] = 7
    >>> recall_of(tuning, whole) == tuning.recall, round(recall_of(tuning, half), 2)
    (True, 0.85)
    """
    bands = np.flatnonzero(documents_of)
    shape = tuning.rows, tuning.sketch_bits, tuning.agreement, tuning.bands_min
    met = [float(candidate_probability(tuning.threshold, int(k), *shape)) if k else 0.0 for k in bands]
    documents = documents_of[bands]
    if not documents.sum():
        return math.nan
    return float(np.average(met, weights=documents)) * tuning.pass_probability


def shortfall(scheme: str, tuning: Tuning, promised: float, documents_of: npt.NDArray[np.int64]) -> str:
    """Say that documents are too small for a scheme to keep the promised recall; empty if they are not.

    ``documents_of`` are the counts of ``recall_of``; zeros say nothing.
    """
    if not documents_of.any() or (recall := recall_of(tuning, documents_of)) >= promised - _RECALL_SLACK:
        return ""
    return (
        f"pairs are missing: the documents are too small for scheme {scheme}, so the recall at the threshold is "
        f"{recall:.3f} at most, not {promised:.3g}; use one_permutation"
    )


def warned(
    bands: npt.NDArray[np.int64] | None, evidence: Evidence, config: Config, stacklevel: int
) -> npt.NDArray[np.int64] | None:
    """Return counts of documents by bands with those of more evidence; ``None`` once a warning was given of them, or
    for a scheme that lacks no bands."""
    if bands is None or not SCHEMES[config.scheme].partial:
        return None
    bands = bands + documents_by_bands(SCHEMES[config.scheme].keys(evidence, config.plan), config.tuning.bands)
    if bands.sum() >= WARNED_DOCUMENTS_MIN:
        sentence = shortfall(config.scheme, config.tuning, config.recall_promised, bands)
        if sentence:
            warnings.warn(sentence, stacklevel=stacklevel)
            return None
    return bands
