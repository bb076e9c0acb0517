"""The metrics of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from workers.store.keeper import Answer

_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class ServiceMetrics:
    """Counters of answers, and gauges of the window that are read at each scrape."""

    def __init__(
        self, waiting: Callable[[], float], documents: Callable[[], float], readers: Callable[[], float]
    ) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "neardup_service_answers", "Documents answered, by status; repeated: a stored one.", ["status"],
            registry=self.registry,
        )  # fmt: skip
        for status in ("original", "duplicate", "repeated", "refused"):
            self.answers.labels(status)
        self.requests = Counter(
            "neardup_service_requests", "Requests answered, by the class of their status.", ["status"],
            registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "neardup_service_check_seconds", "Seconds to answer POST /v1/check.", buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.step_documents = Histogram(
            "neardup_service_step_documents", "Documents of a step.", buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )  # fmt: skip
        gauge = Gauge("neardup_service_waiting_documents", "Documents that wait.", registry=self.registry)
        gauge.set_function(waiting)
        gauge = Gauge("neardup_service_window_documents", "Documents in the window.", registry=self.registry)
        gauge.set_function(documents)
        gauge = Gauge("neardup_service_event_readers", "Clients that read /v1/events.", registry=self.registry)
        gauge.set_function(readers)
        self.slow_readers = Counter(
            "neardup_service_event_readers_slow", "Readers that were disconnected because they were too slow.",
            registry=self.registry,
        )  # fmt: skip
        ProcessCollector(registry=self.registry)

    def count(self, answers: Iterable[Answer]) -> None:
        """Count the answers of a step."""
        listed = list(answers)
        self.step_documents.observe(len(listed))
        for answer in listed:
            status = "refused" if answer.refused else "repeated" if answer.repeated else answer.status
            self.answers.labels(status).inc()
