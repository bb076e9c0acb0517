"""Parameters and examples of a test, of which ``make check`` runs the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def quick_first(parameters: Sequence[Any], quick: int) -> list[Any]:
    """The parameters of a test; those after the first ``quick`` are marked as long."""
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if n < quick else pytest.mark.long)
        for n, one in enumerate(parameters)
    ]


def examples(count: int) -> settings:
    """Run a test on this number of examples, and as a smaller part of it as the profile has of a hundred."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))
