"""Parameters and examples of a test, of which ``make check`` runs the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def quick_seeds(seeds: Sequence[Any], quick: int) -> list[Any]:
    """The seeds, or other parameters; those after the first ``quick`` are marked as long."""
    return [
        pytest.param(*(seed if isinstance(seed, tuple) else (seed,)), marks=() if n < quick else pytest.mark.long)
        for n, seed in enumerate(seeds)
    ]


def examples(count: int) -> settings:
    """Run a test on this number of examples, and as a smaller part of it as the profile has of a hundred."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))
