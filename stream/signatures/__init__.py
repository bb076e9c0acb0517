"""Signatures of sets: one algorithm a file, siblings that never import each other."""

from __future__ import annotations

import numpy as np

# The value of a row that no element took part in: above every value that an element gives.
INFINITY = np.uint64(0xFFFFFFFFFFFFFFFF)
