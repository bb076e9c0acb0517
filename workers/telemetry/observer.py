"""What the workers tell of themselves: one small protocol, so that neither a loop nor a test needs a metrics server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[Any]


class Observer(Protocol):
    """Takes numbers by the names of the table in ``workers.telemetry.metrics``; never raises for a known name."""

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge."""

    def sample(self, name: str, values: Values, label: str = "") -> None:
        """Add values to a histogram."""

    def forget(self, label: str) -> None:
        """Drop every gauge of a label value that is no more: a partition that went to another member."""


class Silent:
    """An observer that keeps nothing."""

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Keep nothing."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Keep nothing."""

    def sample(self, name: str, values: Values, label: str = "") -> None:
        """Keep nothing."""

    def forget(self, label: str) -> None:
        """There is nothing to forget."""


SILENT = Silent()


@contextmanager
def stage(observer: Observer, name: str) -> Iterator[None]:
    """Count the seconds that the block takes, also when it raises, as those of one stage."""
    started = time.perf_counter()
    try:
        yield
    finally:
        observer.count("stage_seconds", time.perf_counter() - started, name)
