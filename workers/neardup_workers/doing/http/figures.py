"""What the service does now and did in the last hour: rates, duplicates, times of answers, the window; and what an
operator looks at.

Theory of operation. Counts of a second are in rings of ``_SECONDS`` entries; an entry is cleared before its next use,
an hour later. Times of answers are counted in bins whose bounds grow by 12 percent, a row of bins for each
``STEP_SECONDS``. So memory is constant. Any thread may call any function.
"""

from __future__ import annotations

import shutil
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.schemes.theory.tuning import probabilities
from neardup_workers.outside.settings.serve import ServeSettings, ViewSettings
from neardup_workers.outside.telemetry.metrics import Metrics


def operation(observer: Metrics, refused: Mapping[str, int], path: Path) -> dict[str, Any]:
    """Return counts since the start, the bytes of the store at ``path`` and of its disk, and the time of the last
    checkpoint: the only change of the database file itself."""
    errors = {4: 0, 5: 0}
    for status in HTTPStatus:
        if status // 100 in errors:
            errors[status // 100] += int(observer.value("service_requests", str(int(status))))
    files = [each for each in path.parent.glob(f"{path.name}*") if each.is_file()]
    used, written = 0, None
    with suppress(OSError):  # a file may go meanwhile
        used, written = sum(each.stat().st_size for each in files), path.stat().st_mtime
    return {
        **{name: int(observer.value(name)) for name in ("late", "truncated", "evicted")},
        "refused": dict(refused),
        "client_errors": errors[4],
        "server_errors": errors[5],
        "store_bytes": used,
        "free_bytes": shutil.disk_usage(path.parent).free,
        "checkpoint_time": written,
    }


def shown_settings(settings: ServeSettings, collection_field: str | None) -> dict[str, Any]:
    """Return the settings that explain verdicts; ``curve`` is how likely a pair of a similarity is found, in
    steps, ``chances`` the same at the threshold and .1 above it, ``compares`` whether the service has signatures to
    compare, ``collection_field`` the field that names the collection of a document."""
    tuning = settings.tuning
    marks = np.minimum(settings.threshold + np.array([0.0, 0.1]), 1.0)
    names = ("scheme", "threshold", "recall", "window_seconds", "window_documents", "keep_texts")

    def chances(similarities: npt.NDArray[np.float64]) -> list[list[float]]:
        curve = zip(similarities.tolist(), probabilities(tuning, similarities)[1].tolist(), strict=True)
        return [[round(s, 4), min(p, 1.0)] for s, p in curve if p == p]  # no number where no law is known

    return {name: getattr(settings, name) for name in names} | {
        "score_min": tuning.score_min,
        "bands": tuning.bands or None,
        "compares": not isinstance(settings, ViewSettings),
        "curve": chances(np.linspace(0.0, 1.0, 101)),
        "chances": chances(marks),
        "collection_field": collection_field,
    }


# The history: an hour in steps of ten seconds, as many points as a small curve has pixels.
STEP_SECONDS = 10
STEPS = 360
_SECONDS = STEP_SECONDS * STEPS
# The present rate is a mean over this time; fraction and times of answers need more documents to be stable.
_RATE_SECONDS, _RECENT_SECONDS = 5, 60
# Bounds of the bins: from 0.1 milliseconds to 100 seconds.
_BOUNDS: list[float] = (1e-4 * 1.12 ** np.arange(123)).tolist()
# The latest duplicates that the present figures name.
LATEST = 12


class Figures:
    """Counts of the last hour. ``refused`` counts the refused documents since the start, by reason.

    ``window`` and ``waiting`` return the number of documents in the window, and of those that wait for the writer;
    ``now`` is in seconds since the epoch. ``recall`` returns what is known of it, and is ``None`` where another process
    finds the pairs.
    """

    def __init__(
        self,
        window: Callable[[], float],
        waiting: Callable[[], float],
        now: Callable[[], float] = time.time,
        recall: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        self.recall = recall
        self._window, self._waiting, self._now = window, waiting, now
        self._lock = threading.Lock()
        self._started = self._second = int(now())
        self._documents = np.zeros(_SECONDS, np.int64)
        self._duplicates = np.zeros(_SECONDS, np.int64)
        self._windows = np.full(STEPS, -1, np.int64)
        self._times = np.zeros((STEPS, len(_BOUNDS) + 1), np.int64)
        self._total = self._total_duplicates = 0
        self.refused: Counter[str] = Counter()
        self.muted: set[int] = set()  # stories whose duplicates are not among the latest
        self._latest: deque[dict[str, Any]] = deque(maxlen=LATEST)

    def count(self, verdicts: Sequence[dict[str, Any]]) -> None:
        """Count verdicts."""
        duplicates = [verdict for verdict in verdicts if verdict["status"] == "duplicate"]
        with self._lock:
            second = self._advanced() % _SECONDS
            self._documents[second] += len(verdicts)
            self._duplicates[second] += len(duplicates)
            self._total += len(verdicts)
            self._total_duplicates += len(duplicates)
            self._latest.extend(duplicates)

    def observe(self, seconds: float) -> None:
        """Count the time of an answer."""
        with self._lock:
            step = self._advanced() // STEP_SECONDS % STEPS
            self._times[step, bisect_left(_BOUNDS, seconds)] += 1

    def refuse(self, reason: str) -> None:
        """Count a refused document by its reason."""
        with self._lock:
            self.refused[str(reason)] += 1

    def forget(self, id_: str, collection: str | None = None) -> None:
        """Drop the latest duplicates that name a removed document."""
        with self._lock:
            kept = [
                verdict
                for verdict in self._latest
                if id_ not in (verdict["id"], verdict.get("duplicate_of")) or verdict.get("collection") != collection
            ]
            self._latest = deque(kept, LATEST)

    def present(self) -> dict[str, Any]:
        """Return the present figures; a fraction or a time without documents to compute it from is ``None``."""
        with self._lock:
            end = self._advanced()
            rate, recent = (
                np.arange(end - min(span, end - self._started + 1) + 1, end + 1)
                for span in (_RATE_SECONDS, _RECENT_SECONDS)
            )
            documents, duplicates = (int(ring[recent % _SECONDS].sum()) for ring in (self._documents, self._duplicates))
            steps = np.unique(recent // STEP_SECONDS) % STEPS
            times = self._times[steps].sum(axis=0)
            return {
                "time": self._now(),
                "documents": self._total,
                "duplicates": self._total_duplicates,
                "documents_per_second": round(float(self._documents[rate % _SECONDS].mean()), 2),
                "duplicate_fraction": round(duplicates / documents, 4) if documents else None,
                "seconds_median": _quantile(times, 0.5),
                "seconds_p99": _quantile(times, 0.99),
                "window_documents": int(self._window()),
                "waiting_documents": int(self._waiting()),
                "latest": [one for one in reversed(self._latest) if one.get("cluster") not in self.muted],
            }

    def history(self) -> dict[str, Any]:
        """Return the figures of the steps of the last hour, the oldest first; ``None`` for a step without a value."""
        with self._lock:
            end = self._advanced() // STEP_SECONDS
            first = max(end - STEPS + 1, self._started // STEP_SECONDS)
            steps = np.arange(first, end + 1)
            seconds = (steps[:, None] * STEP_SECONDS + np.arange(STEP_SECONDS)) % _SECONDS
            documents, duplicates = (ring[seconds].sum(axis=1).tolist() for ring in (self._documents, self._duplicates))
            rows = self._times[steps % STEPS]
            windows = [None if size < 0 else size for size in self._windows[steps % STEPS].tolist()]
        return {
            "step_seconds": STEP_SECONDS,
            "first_time": int(first) * STEP_SECONDS,
            "documents": documents,
            "duplicates": duplicates,
            "seconds_median": [_quantile(row, 0.5) for row in rows],
            "seconds_p99": [_quantile(row, 0.99) for row in rows],
            "window_documents": windows,
        }

    def _advanced(self) -> int:
        """Clear the entries of the seconds since the last call; return the present second."""
        second = int(self._now())
        if second <= self._second:
            return self._second
        for passed in range(max(self._second + 1, second - _SECONDS + 1), second + 1):
            self._documents[passed % _SECONDS] = self._duplicates[passed % _SECONDS] = 0
            if passed % STEP_SECONDS == 0:
                self._times[passed // STEP_SECONDS % STEPS] = 0
                self._windows[passed // STEP_SECONDS % STEPS] = -1
        self._windows[second // STEP_SECONDS % STEPS] = int(self._window())
        self._second = second
        return second


def _quantile(counts: npt.NDArray[np.int64], fraction: float) -> float | None:
    """Return the upper bound of the bin that has a quantile, in seconds; ``None`` without counts."""
    total = counts.sum()
    if not total:
        return None
    bucket = int(np.searchsorted(np.cumsum(counts), fraction * total))
    return float(f"{_BOUNDS[min(bucket, len(_BOUNDS) - 1)]:.3g}")
