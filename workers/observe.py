"""What the workers tell of themselves: one small protocol, so that neither a loop nor a test needs a metrics server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Observer(Protocol):
    """Takes numbers by the names of the table in ``workers.metrics``; never raises for a known name."""

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge."""

    def sample(self, name: str, values: Sequence[float], label: str = "") -> None:
        """Add values to a histogram."""


class Silent:
    """An observer that keeps nothing."""

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Keep nothing."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Keep nothing."""

    def sample(self, name: str, values: Sequence[float], label: str = "") -> None:
        """Keep nothing."""
