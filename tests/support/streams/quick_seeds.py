"""Seeds as parameters of a test, of which ``make check`` runs the first."""

from __future__ import annotations

from typing import Any

import pytest


def quick_seeds(seeds: range, quick: int) -> list[Any]:
    """The seeds; those after the first ``quick`` are marked as long."""
    return [*seeds[:quick], *(pytest.param(seed, marks=pytest.mark.long) for seed in seeds[quick:])]
