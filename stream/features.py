"""``Features``: what is compared, of many documents in two arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Features(NamedTuple):
    """What is compared, of n documents: that of document i is ``values[starts[i]:starts[i + 1]]``.

    Hashed shingles (``uint64``), components (``float32``) or bytes (``uint8``); ``starts`` is ``int64[n + 1]``.
    """

    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
