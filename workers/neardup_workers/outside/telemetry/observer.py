"""How workers report numbers, so that neither a loop nor a test needs a metrics server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[Any]


class Observer:
    """Receives the numbers of a worker, under the names of ``neardup_workers.outside.telemetry.metrics.METRICS``; this
    one discards them.

    A known name never raises. An unknown name is a bug of the caller, and may raise. One thread calls these methods. An
    observer that other threads read at the same time (``Metrics``) has its own lock. Names are without prefix and
    suffix, values in the unit of the metric. A metric without labels has the label "".

    Example: count documents, and time a block.

        observer.count("documents", len(batch))
        with stage(observer, "sign"):
            sign(batch)

    """

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add 0 or more to a counter."""

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge."""

    def set_all(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge for the label values that it has now, and drop its others."""

    def sample(self, name: str, values: Values) -> None:
        """Add any number of values to a histogram: a whole array costs one call."""

    def forget(self, label: str = "", name: str = "") -> None:
        """Drop every gauge of a label value, such as a partition that another member owns now, or of all; or with a
        ``name`` this gauge alone."""


SILENT = Observer()


@contextmanager
def stage(observer: Observer, name: str) -> Iterator[None]:
    """Add the seconds that a block takes to the metric ``stage_seconds``, also when the block raises."""
    started = time.perf_counter()
    try:
        yield
    finally:
        observer.count("stage_seconds", time.perf_counter() - started, name)
