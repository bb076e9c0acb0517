"""Every metric in one table (name, kind, unit, roles, meaning, label), and the export to Prometheus.

Code uses the names of the table. Prometheus sees them with the prefix ``neardup_``, and counters with the suffix
``_total``. Units are Prometheus' base units, and end the name. A metric has at most two labels. Their values are
listed here, or they are the partitions that the worker owns, the feeds that are watched, or the largest sources.

Histograms accept whole arrays, so the cost of a metric does not grow with the documents.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from neardup.documents.document import REASONS
from neardup.stories.canaries.looks import BANDS
from neardup.stories.canaries.looks import OUTCOMES as CANARY_OUTCOMES
from neardup.stories.verdicts.rule import STATUSES
from neardup.window import COUNTERS
from neardup_workers.outside.telemetry.observer import Observer, Values
from neardup_workers.outside.topics.messages import MESSAGE_REASONS
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, ROLES, SIGN

PREFIX = "neardup_"
STAGES = ("poll", "decode", "sign", "restore", "match", "decide", "send", "flush", "commit")
OUTCOMES = ("committed", "renewed", "aborted", "fenced", "unknown")
CAUSES = ("fenced", "unknown", "unreachable", "aborted", "waited")
_PARTITION = "partition"
# Seconds. The first bounds separate transactions, the last bounds an outage from a backfill.
_COMMIT_BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_END_TO_END_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 600.0, 3600.0)
_SIMILARITY_BOUNDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0)
# Postings; the default of bucket_candidates_max is among them.
_BUCKET_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0)


# Seconds of an answer over HTTP: from an idle service on a fast disk to a client that has given up.
_ANSWER_BOUNDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
# Documents of a step of the service: 64 at most.
_STEP_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ANSWERS = ("original", "update", "duplicate", "repeated", "refused")
# Counters of the table that the service has, too: what costs pairs, how many, and what is found.
OF_SERVICE = (
    "late",
    "truncated",
    "evicted",
    "uncompared",
    "near_pairs",
    "missed_pairs",
    "near_documents",
    "lone_documents",
)
HTTP_STATUSES = (200, 202, 400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 501, 503, 507)


# Documents of a cluster: from a copy to a template that half of a stream shares.
_CLUSTER_BOUNDS = (2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0, 10_000.0, 100_000.0)


class Row(NamedTuple):
    """One metric. ``values`` are all values of ``label``; a label without values means the partitions owned. A comma
    separates two labels, and their values."""

    name: str
    kind: str
    unit: str
    roles: tuple[str, ...]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def exported(self) -> str:
        """The name that Prometheus sees."""
        return f"{PREFIX}{self.name}_total" if self.kind == "counter" else f"{PREFIX}{self.name}"


# The service and the watcher of feeds are processes without a group.
SERVE, FEED = "serve", "feed"
PROCESSES = (*ROLES, SERVE, FEED)
_ONE = (SIGN,)
_OTHER = (MATCH,)
_LINK = (LINK,)
_SERVE = (SERVE,)
_FEED = (FEED,)
_RESTORING = (MATCH, LINK)
_ROWS = (
    # Throughput.
    Row("documents", "counter", "documents", ROLES,
        "Documents signed; of a matcher: added to its tables, each in one shard; of a linker: "
        "decided, with removals and what was refused; of a filter: forwarded."),
    Row("bytes", "counter", "bytes", ROLES, "Bytes of the messages read, uncompressed."),
    Row("shingles", "counter", "shingles", _ONE, "Shingles of the documents signed."),
    Row("removals", "counter", "removals", (SIGN, MATCH),
        "Tombstones read; of a matcher: removal notices published."),
    Row("clamped", "counter", "documents", (SIGN, SERVE),
        "Documents whose time was ahead by more than 300 seconds: they have the time of their arrival."),
    Row("undated", "counter", "documents", (SIGN, SERVE),
        "Documents with a time that cannot be read: they have the time of their arrival."),
    Row("misnamed", "counter", "documents", _ONE,
        "Documents whose id is not the key of their message: a tombstone with that key does not remove them."),
    Row("refused", "counter", "documents", _ONE, "Documents sent to the dead letters, by reason.", "reason",
        (*REASONS, *MESSAGE_REASONS)),
    Row("sent_messages", "counter", "messages", ROLES, "Messages published in committed transactions."),
    Row("sent_bytes", "counter", "bytes", ROLES, "Bytes of keys and values published in committed transactions."),
    Row("postings", "counter", "postings", _OTHER, "Postings added to the tables, those of contents and ids included."),
    Row("pairs", "counter", "pairs", _OTHER, "Pairs published."),
    Row("paired_documents", "counter", "documents", _OTHER,
        "Documents with an older near-duplicate, once for each shard that published a pair of theirs."),
    Row("promised_recall_ratio", "gauge", "ratio", _OTHER,
        "Probability that a pair at the threshold is found, from the settings; not a number where none is promised."),
    Row("unaligned", "counter", "records", _ONE,
        "Records signed after align_wait_seconds_max ahead of a partition that is behind: pairs may be missed."),
    # Counts of the tables, and reached limits.
    *(Row(name, "counter", row.unit, (MATCH, SERVE) if name in OF_SERVICE else _OTHER, row.meaning)
      for name, row in COUNTERS.items() if row.meaning),
    # The tables.
    Row("table_documents", "gauge", "documents", _OTHER, "Documents in the window of a shard.", _PARTITION),
    Row("table_bytes", "gauge", "bytes", _OTHER,
        "Memory allocated by the table of a shard, with its part of the filter of contents.", _PARTITION),
    Row("bucket_length", "histogram", "postings", _OTHER,
        "Lengths of the buckets that hold the newest documents, sampled at intervals.", bounds=_BUCKET_BOUNDS),
    Row("similarity_ratio", "histogram", "ratio", _OTHER, "Similarity of the pairs published.",
        bounds=_SIMILARITY_BOUNDS),
    # Verdicts.
    Row("verdicts", "counter", "verdicts", _LINK, "Verdicts published, by status.", "status", STATUSES),
    Row("ignored", "counter", "pairs", _LINK,
        "Pairs with a document that has left the window of the linker, or that was signed before there was a linker."),
    Row("uncompared_contents", "counter", "comparisons", _LINK,
        "Comparisons with a content of a story that a linker did not make, because the evidence of one side is above "
        "512 KiB: such a content leads no document."),
    Row("incomplete", "counter", "verdicts", _LINK, "Verdicts made without all pairs, because allow_gap accepts that."),
    Row("gone", "counter", "documents", (FILTER,),
        "Documents to forward that were no longer in the log, because allow_gap accepts that."),
    Row("undecided", "gauge", "documents", _LINK, "Documents that wait for their verdict in the linker."),
    Row("watermark_lag_seconds", "gauge", "seconds", _LINK,
        "For how long the next verdict has waited for a shard, 0 if not for this one.", _PARTITION),
    Row("verdict_seconds", "histogram", "seconds", _LINK,
        "From the signing of a document to the commit of its verdict.", bounds=_END_TO_END_BOUNDS),
    Row("cluster_members_max", "gauge", "documents", _LINK,
        "Members of the largest cluster that has grown since the last report."),
    Row("cluster_size", "histogram", "documents", _LINK, "Members of the clusters that a step changed.",
        bounds=_CLUSTER_BOUNDS),
    # The service.
    Row("service_answers", "counter", "documents", _SERVE,
        "Documents answered, by status; repeated: the stored status of an earlier version.", "status", ANSWERS),
    Row("service_requests", "counter", "requests", _SERVE, "Requests answered, by HTTP status.", "status",
        tuple(map(str, HTTP_STATUSES))),
    Row("service_check_seconds", "histogram", "seconds", _SERVE, "Seconds to answer POST /v1/check.",
        bounds=_ANSWER_BOUNDS),
    Row("service_step_documents", "histogram", "documents", _SERVE, "Documents of a step.", bounds=_STEP_BOUNDS),
    Row("service_full", "counter", "steps", _SERVE, "Steps that were undone because the disk was full."),
    Row("service_clock_jump_seconds", "gauge", "seconds", _SERVE,
        "Seconds by which the machine's clock has jumped ahead of the window's, or back; 0 while they agree."),
    Row("service_waiting_documents", "gauge", "documents", _SERVE, "Documents that wait for the writer."),
    Row("service_window_documents", "gauge", "documents", _SERVE, "Documents in the window."),
    Row("service_event_readers", "gauge", "clients", _SERVE, "Clients that read /v1/events."),
    Row("service_event_readers_slow", "counter", "clients", _SERVE,
        "Clients that read /v1/events and were disconnected because they were slow."),
    # Recall.
    Row("canaries", "counter", "canaries", _ONE,
        "Canaries written into signed behind the documents: edited copies that matchers look up and never add."),
    Row("recall_ratio", "gauge", "ratio", (MATCH, SERVE),
        "Fraction that is found: of pairs, as far as limits cost them; of documents with an older near-duplicate, at "
        "least; of canaries, with a 95 percent interval.",
        "estimate,bound", ("limits,value", "documents,low", "canaries,value", "canaries,low", "canaries,high")),
    Row("recall_alarm", "gauge", "boolean", (MATCH, SERVE),
        "1 once canaries are found less often than the settings promise, which chance does once in a million streams."),
    Row("canary_probes", "counter", "probes", (MATCH, SERVE),
        "Probes of canaries, by what came of them; chance: the two share no bucket; fault: there is no cause, or a "
        "shard lacks a mark.",
        "outcome", CANARY_OUTCOMES),
    Row("canary_bands", "counter", "bands", (MATCH, SERVE),
        "Bands in which originals of canaries were looked up, each alone, by whether they were met.", "outcome", BANDS),
    # Sources.
    Row("source_documents", "gauge", "documents", (LINK, SERVE),
        "Documents of each of the 20 largest sources so far, and of all others together.", "source"),
    Row("source_own_duplicates", "gauge", "documents", (LINK, SERVE),
        "Of source_documents, duplicates of other ids of the same source.", "source"),
    Row("sources_repeating", "gauge", "sources", (LINK, SERVE),
        "Sources of which 95 percent of at least 200 documents in this hour or the one before repeat the source."),
    Row("service_webhook_requests", "counter", "requests", _SERVE, "Requests to the web hook, by what came of them.",
        "outcome", ("sent", "failed")),
    Row("service_webhook_dead", "counter", "events", _SERVE,
        "Events that the web hook has not taken in time, or that had no room to wait: they are kept to be read."),
    Row("service_webhook_lost", "counter", "events", _SERVE, "Dead events that had no room to be kept."),
    Row("service_webhook_dead_kept", "gauge", "events", _SERVE, "Dead events that are kept."),
    Row("service_webhook_waiting", "gauge", "events", _SERVE, "Events that wait for the web hook."),
    Row("service_webhook_oldest_seconds", "gauge", "seconds", _SERVE,
        "For how long the oldest event has waited for the web hook, 0 if none waits."),
    # Feeds.
    Row("feed_failures", "gauge", "requests", _FEED, "Requests for a feed in a row that failed.", FEED),
    Row("feed_success_time_seconds", "gauge", "seconds", _FEED, "When a feed was last read, or had not changed.", FEED),
    Row("feed_newest_time_seconds", "gauge", "seconds", _FEED, "Date of the newest item of a feed.", FEED),
    Row("feed_gap_seconds", "gauge", "seconds", _FEED,
        "Usual time between two items of a feed: the median of those that it lists.", FEED),
    # Time.
    Row("stage_seconds", "counter", "seconds", ROLES,
        "Seconds spent in each stage; poll is the time without work, match includes the decoding of columns.",
        "stage", STAGES),
    Row("commit_seconds", "histogram", "seconds", ROLES, "Seconds to commit the offsets and the transaction of a step.",
        bounds=_COMMIT_BOUNDS),
    Row("end_to_end_seconds", "histogram", "seconds", _OTHER,
        "From the time of a pair's newer document to the commit of the pair.", bounds=_END_TO_END_BOUNDS),
    Row("event_time_lag_seconds", "gauge", "seconds", _OTHER,
        "From the greatest event time seen by a shard to now.", _PARTITION),
    Row("align_behind_seconds", "gauge", "seconds", _ONE,
        "From the record time of the next record to sign in a partition to now; 0 when there is none.", _PARTITION),
    Row("align_wait_seconds", "gauge", "seconds", _ONE,
        "For how long a signer has had records at hand and may sign none, because other partitions are behind."),
    # Kafka.
    Row("transactions", "counter", "transactions", ROLES,
        "Transactions, by how they ended; renewed: a signer that signs nothing has committed its claims again.",
        "outcome", OUTCOMES),
    Row("lag_records", "gauge", "records", (*ROLES, SERVE), "Records between the position in a partition and its end.",
        _PARTITION),
    Row("assigned_partitions", "gauge", "partitions", ROLES, "Partitions that the group has assigned to this worker."),
    Row("connected", "gauge", "boolean", ROLES, "1 while the worker is joined to its group and the broker answers."),
    Row("ready", "gauge", "boolean", (*ROLES, SERVE),
        "1 while every assigned partition is restored and running; of the service: while it answers."),
    Row("restarts", "counter", "restarts", ROLES,
        "Restarts of the worker from the committed offsets, by cause.", "cause", CAUSES),
    # Restoring.
    Row("restore_progress_ratio", "gauge", "ratio", _OTHER, "How much of the window of a shard is restored.",
        _PARTITION),
    Row("restored_documents", "counter", "documents", _RESTORING,
        "Documents read from the log to restore windows, once for each shard."),
    Row("takeovers", "counter", "shards", _RESTORING,
        "Shards that this worker took over, or the linker, by their tables: kept, of a standby or of the worker "
        "before it in the process, or restored from the log.", "table", ("kept", "restored")),
    # Standbys.
    Row("standby_documents", "counter", "documents", _RESTORING,
        "Documents that standbys have applied, once for each shard."),
    Row("standby_lag_records", "gauge", "records", _RESTORING,
        "Messages of signed between a standby and the committed offset of its shard, or of the linker.", _PARTITION),
    Row("standby_lag_seconds", "gauge", "seconds", _RESTORING,
        "For how long a standby has not reached an offset that its owner has committed; 0 when it has.", _PARTITION),
    Row("standby_table_bytes", "gauge", "bytes", (MATCH,), "Memory of the table of a standby.", _PARTITION),
    Row("worker", "info", "", PROCESSES, "Which worker this is."),
)  # fmt: skip
METRICS: dict[str, Row] = {row.name: row for row in _ROWS}


class _Histogram:
    """Counts between bounds (the last is infinity), and the sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: list[float] = np.array(bounds).tolist()
        self.counts = np.zeros(len(bounds) + 1, np.int64)
        self.sum = 0.0

    def add(self, values: Values) -> None:
        if len(values) == 1:  # as for most answers
            [value] = values
            self.counts[bisect_left(self.bounds, value)] += 1
            self.sum += float(value)
            return
        array = np.asarray(values, np.float64)
        buckets = np.searchsorted(self.bounds, array)
        self.counts += np.bincount(buckets, minlength=len(self.counts))
        self.sum += float(array.sum())

    def buckets(self) -> list[tuple[str, float]]:
        names = [*map(str, self.bounds), "+Inf"]
        return list(zip(names, np.cumsum(self.counts).astype(float).tolist(), strict=True))


class Metrics(Observer):
    """An observer that Prometheus can scrape: the metrics of one role, in a registry of its own.

    Counters with listed labels exist from the start, at 0. One thread observes, another may collect.
    """

    def __init__(self, role: str, info: Mapping[str, str] | None = None) -> None:
        self._rows = [row for row in METRICS.values() if role in row.roles]
        self._info = dict(info or {})
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[str, float]] = {
            row.name: dict.fromkeys(row.values or ("",), 0.0) if row.kind == "counter" else {} for row in self._rows
        }
        self._histograms = {row.name: _Histogram(row.bounds) for row in self._rows if row.kind == "histogram"}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter."""
        with self._lock:
            values = self._numbers[name]
            values[label] = values.get(label, 0.0) + amount

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge."""
        with self._lock:
            self._numbers[name][label] = value

    def set_all(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge for the label values that it has now, and drop its others."""
        with self._lock:
            self._numbers[name] = dict(values)

    def sample(self, name: str, values: Values) -> None:
        """Add values to a histogram."""
        with self._lock:
            self._histograms[name].add(values)

    def forget(self, label: str = "", name: str = "") -> None:
        """Drop every gauge of a label value, or of all, or one gauge."""
        with self._lock:
            for row in self._rows:
                if row.kind == "gauge" and row.label and name in ("", row.name):
                    values = self._numbers[row.name]
                    values.pop(label, None) if label else values.clear()

    def value(self, name: str, label: str = "") -> float:
        """Return the present value of a counter or a gauge, or the number of values in a histogram."""
        with self._lock:
            if name in self._histograms:
                return float(self._histograms[name].counts.sum())
            return self._numbers[name].get(label, 0.0)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics in the form of the Prometheus client, for its registry."""
        with self._lock:
            return [self._family(row) for row in self._rows]

    def _family(self, row: Row) -> Metric:
        name = PREFIX + row.name
        labels = row.label.split(",") if row.label else []
        if row.kind == "info":
            return InfoMetricFamily(name, row.help, value=self._info)
        if row.kind == "histogram":
            histogram = self._histograms[row.name]
            return HistogramMetricFamily(name, row.help, buckets=histogram.buckets(), sum_value=histogram.sum)
        kind = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}[row.kind]
        family: CounterMetricFamily | GaugeMetricFamily = kind(name, row.help, labels=labels)
        for label, value in self._numbers[row.name].items():
            family.add_metric(label.split(",", len(labels) - 1) if labels else [], value)
        return family
