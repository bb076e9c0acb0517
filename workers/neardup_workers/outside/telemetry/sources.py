"""What is measured of sources wherever there is a ledger: gauges of the largest ones, and of those that repeat."""

from __future__ import annotations

from typing import Any, Protocol

from neardup_workers.outside.telemetry.observer import Observer

SOURCES_SHOWN = 20
_HOUR_SECONDS = 3600


class Counted(Protocol):
    """A ledger that can be read."""

    def source_totals(self, limit: int) -> list[tuple[str | None, int, int]]:
        """Return name, documents, and duplicates of other ids of the same source, of the largest sources; and those of
        all together, with the name ``None``."""

    def repeating(self, since_hour: int) -> list[dict[str, Any]]:
        """Return the hours, from one since the epoch on, in which a source repeated itself."""


def measure_sources(observer: Observer, counted: Counted, now_seconds: float) -> None:
    """Set the gauges of sources: the largest by name, those without one and the others in parentheses."""
    *largest, (_, *every) = counted.source_totals(SOURCES_SHOWN)
    documents, own = ({source or "(none)": numbers[n] for source, *numbers in largest} for n in (0, 1))
    observer.set_all("source_documents", {**documents, "(others)": every[0] - sum(documents.values())})
    observer.set_all("source_own_duplicates", {**own, "(others)": every[1] - sum(own.values())})
    rows = counted.repeating(int(now_seconds // _HOUR_SECONDS) - 1)
    observer.set("sources_repeating", len({each["source"] for each in rows}))


def forget_sources(observer: Observer) -> None:
    """Drop the gauges of sources: another process has the ledger."""
    for name in ("source_documents", "source_own_duplicates", "sources_repeating"):
        observer.set_all(name, {})
