"""The protocol by which workers report numbers, so that neither a loop nor a test needs a metrics server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[Any]


class Observer(Protocol):
    """Receives the numbers of a worker, under the names of ``neardup_workers.outside.telemetry.metrics.METRICS``.

    A known name never raises. An unknown name is a bug of the caller, and may raise. One thread calls these methods. An
    implementation that other threads read at the same time (``Metrics``) has its own lock.

    Example: count documents, and time a block.

        observer.count("documents", len(batch))
        with stage(observer, "sign"):
            sign(batch)

    """

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter.

        Args:
            name: a counter of ``METRICS``, without prefix and suffix.
            amount: what to add, in the unit of the metric; 0 or more.
            label: the value of the metric's label, if it has one.
        """

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge.

        Args:
            name: a gauge of ``METRICS``.
            value: the new value, in the unit of the metric.
            label: the value of the metric's label, if it has one.
        """

    def set_all(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge for the label values that it has now, and drop its others.

        Args:
            name: a gauge of ``METRICS``.
            values: by label value, in the unit of the metric.
        """

    def sample(self, name: str, values: Values) -> None:
        """Add values to a histogram.

        Args:
            name: a histogram of ``METRICS``.
            values: any number of values, in the unit of the metric: a whole array costs one call.
        """

    def forget(self, label: str = "", name: str = "") -> None:
        """Drop every gauge with a label value, such as a partition that another member owns now.

        Args:
            label: the label value, such as the number of a partition; empty for all.
            name: the only gauge to drop; empty for all.
        """


class Silent:
    """An observer that discards everything."""

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Discard it."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Discard it."""

    def set_all(self, name: str, values: Mapping[str, float]) -> None:
        """Discard them."""

    def sample(self, name: str, values: Values) -> None:
        """Discard them."""

    def forget(self, label: str = "", name: str = "") -> None:
        """Do nothing: no value is stored."""


SILENT = Silent()


@contextmanager
def stage(observer: Observer, name: str) -> Iterator[None]:
    """Add the seconds that a block takes to the metric ``stage_seconds``, also when the block raises."""
    started = time.perf_counter()
    try:
        yield
    finally:
        observer.count("stage_seconds", time.perf_counter() - started, name)
