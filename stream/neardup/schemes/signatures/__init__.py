"""Signatures of sets: one algorithm a file, siblings that never import each other."""

from __future__ import annotations

import numpy as np

# The value of a row without an element: above the value of every element.
INFINITY = np.uint64(0xFFFFFFFFFFFFFFFF)
