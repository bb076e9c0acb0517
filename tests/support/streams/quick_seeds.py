"""Parameters of a test, of which ``make check`` runs the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def quick_seeds(seeds: Sequence[Any], quick: int) -> list[Any]:
    """The seeds, or other parameters; those after the first ``quick`` are marked as long."""
    return [*seeds[:quick], *(pytest.param(seed, marks=pytest.mark.long) for seed in seeds[quick:])]
