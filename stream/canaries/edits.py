"""Edited copies of documents in the space of their shingle hashes, signed as the documents are.

Of the n elements of a set, m are replaced by fresh ones: the Jaccard similarity is (n - m) / (n + m). A small set
cannot be edited finely, so below ``ELEMENTS_MIN`` elements its copy is the set itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neardup.stream.batches import Batch, select
from neardup.stream.canaries.draws import Draws
from neardup.stream.config import Config
from neardup.stream.documents import Document, Features
from neardup.stream.scheme_interface import Evidence
from neardup.stream.schemes import SCHEMES
from neardup.stream.schemes.sets import SetPlan

ELEMENTS_MIN = 20


class Edit(NamedTuple):
    """The evidence of an edited copy (one item), and its similarity to the document."""

    evidence: Evidence
    similarity: float


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


def edited(document: Document, batch: Batch, row: int, config: Config, similarity: float, draws: Draws) -> Edit | None:
    """Return an edited copy of a document.

    Args:
        document: the document.
        batch: where it is signed, in ``row``.
        config: a configuration that has canaries.
        similarity: the least similarity of the copy.
        draws: draws the elements.

    Returns:
        The copy; ``None`` if the evidence of the document does not follow from its elements alone, as that of a text
        that is compared for equality only.
    """
    scheme, plan = SCHEMES[config.scheme], config.plan
    read = scheme.features([document], plan)
    values = np.unique(read.features.values)
    n = len(values)
    own = select(batch, np.array([row])).evidence
    replaced = int(n * (1 - similarity) / (1 + similarity)) if n >= ELEMENTS_MIN else 0
    kept = draws.order(n)[replaced:]
    copy = np.concatenate([values[kept], draws.numbers(replaced)])
    made = scheme.evidence(Features(np.concatenate([values, copy]), np.array([0, n, 2 * n])), plan)
    same = made.select(np.array([0]))
    if n == 0 or not (np.array_equal(same.fixed, own.fixed) and np.array_equal(same.ragged, own.ragged)):
        return None
    return Edit(made.select(np.array([1])), (n - replaced) / (n + replaced))
