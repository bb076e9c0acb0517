"""What is measured of recall wherever there are tables: gauges, and counts of canaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from neardup_workers.outside.telemetry.observer import Observer


def set_recall(observer: Observer, limits: Mapping[str, Any], canaries: Mapping[str, Any]) -> None:
    """Set the gauges of recall, by ``limit_values`` of ``neardup.stories.canaries.canaries`` and the values of
    ``Looks``."""
    gauges = {("limits", "value"): limits["value"], ("documents", "low"): limits["documents"]}
    gauges |= {("canaries", bound): value for bound, value in (canaries["recall"] or {}).items()}
    for labels, value in gauges.items():
        if value is not None:
            observer.set("recall_ratio", value, ",".join(labels))
    observer.set("recall_alarm", canaries["alarm"])


def count_canaries(observer: Observer, probes: Counter[str], bands: Counter[str]) -> None:
    """Count what came of probes and of bands."""
    for outcome, count in probes.items():
        observer.count("canary_probes", count, outcome)
    for band, count in bands.items():
        observer.count("canary_bands", count, band)
