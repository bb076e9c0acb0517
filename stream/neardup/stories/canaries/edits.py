"""Edited copies of documents in the space of their shingle hashes, signed as the documents are.

Of the n elements of a set, m are replaced by fresh ones: the Jaccard similarity is (n - m) / (n + m). A small set
cannot be edited finely, so below ``ELEMENTS_MIN`` elements its copy is the set itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Features
from neardup.features.tokens.bags import sorted_sets
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.rows import SCHEMES
from neardup.stories.canaries.draws import Draws

ELEMENTS_MIN = 20


class Edits(NamedTuple):
    """Edited copies of n documents: their evidence, their similarities to the documents (``float64[n]``), and which
    there are (``bool[n]``): none if the evidence of a document does not follow from its elements alone, as that of a
    text that is compared for equality only."""

    evidence: Evidence
    similarities: npt.NDArray[np.float64]
    exist: npt.NDArray[np.bool_]


def similarities(config: Config) -> tuple[float, ...]:
    """Return the similarities of edited copies, which take turns: the threshold, a little above, far above, equal.

    Example:
        >>> similarities(Config(threshold=0.8))
        (0.8, 0.85, 0.9, 0.95, 1.0)
    """
    least = config.threshold
    return tuple(
        sorted({round(min(one, 1.0), 6) for one in (least, least + 0.05, least + 0.1, 0.95, 1.0) if one >= least})
    )


def has_canaries(config: Config) -> bool:
    """Return whether documents of a configuration are sets whose Jaccard similarity is compared.

    Documents of collections have none: the keys of a copy would have to be those of the collection of its original.
    """
    plan = config.plan
    return isinstance(plan, SetPlan) and plan.measure == "jaccard" and not config.separate


def edited(documents: Sequence[Document], own: Evidence, config: Config, least: Sequence[float], draws: Draws) -> Edits:
    """Return edited copies of n documents with their ``own`` evidence, each with its least similarity. The
    configuration has canaries."""
    scheme, plan = SCHEMES[config.scheme], config.plan
    values, starts = sorted_sets(*scheme.features(documents, plan).features)
    sizes = np.diff(starts)
    asked = np.array(least)
    replaced = np.where(sizes >= ELEMENTS_MIN, sizes * (1 - asked) / (1 + asked), 0).astype(np.int64)
    copies = values.copy()
    order, fresh, used = draws.numbers(len(values)), draws.numbers(int(replaced.sum())), 0
    for begin, size, count in zip(starts[:-1].tolist(), sizes.tolist(), replaced.tolist(), strict=True):
        if count:
            copies[begin + np.argpartition(order[begin : begin + size], count)[:count]] = fresh[used : used + count]
            used += count
    exist = np.ones(len(sizes), np.bool_)
    if isinstance(plan, SetPlan) and plan.characters_min:
        same = scheme.evidence(Features(values, starts), plan)
        exist = (same.fixed == own.fixed).all(axis=1)
    return Edits(scheme.evidence(Features(copies, starts), plan), (sizes - replaced) / (sizes + replaced), exist)
