"""Signatures of sets and of vectors: one algorithm a file, siblings that never import each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError


def merge(parts: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return the signatures of sets from the signatures of their parts: of each row the least value.

    The least element of a union is the least of the least elements. So processes sign parts of one set, each with the
    same seed, and no process reads the whole set. It holds where a row is the least value of the set: ``minhash``,
    ``permutation`` and ``partial``, whose row without an element is ``INFINITY``. It does not hold for
    ``one_permutation``, which fills empty rows from others, nor for sketches, which keep some bits of a row.

    Args:
        parts: ``uint64[n, rows]`` each; row i is the signature of a part of set i. An empty part is all ``INFINITY``.

    Returns:
        ``uint64[n, rows]``.

    Raises:
        ConfigError: there is no part, or two have different shapes.

    Source: Mining of Massive Datasets, Exercise 3.3.7.

    >>> import numpy as np
    >>> from neardup_textbook.signatures import minhash
    >>> parts = [minhash.sign(np.array(part, np.uint64), np.array([0, 2]), rows=4, seed=1) for part in ([3, 1], [1, 2])]
    >>> whole = minhash.sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=4, seed=1)
    >>> bool((merge(parts) == whole).all())
    True
    """
    shapes = sorted({part.shape for part in parts})
    if len(shapes) != 1:
        raise ConfigError(
            f"{len(parts)} parts have the shapes {shapes}, but parts of the same sets have one shape: sign each with "
            "the same number of rows"
        )
    return np.array(reduce(np.minimum, parts))
