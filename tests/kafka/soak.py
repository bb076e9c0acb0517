"""Soak: workers on a real broker for many windows, and what they hold must not grow: ``soak.py --minutes 15``.

Theory of operation. A broker of its own, signers and matchers as processes, a window of 60 seconds of real time. A
loader sends documents at an even pace, with the time of the wall clock, so what is live is constant from the end of the
first windows on. Every few seconds the run samples, for each worker, resident memory, open descriptors and threads, and
the bytes of ``bands`` on the broker's disk. The first part of the run, ``WARM_SHARE``, is left out; a line through each
of the series after that must not rise by more than its bound from the first sample to the last.

Descriptors and threads come and go in ones, so their bound is a few. Memory settles slowly after a start (caches of the
interpreter, arenas, logs of the client), so its bound is a share of itself. Segments of ``bands`` are made small here,
so that what is trimmed leaves the disk within the run.

Exit codes: 0 all is flat; 1 something grows, or a worker ended; 77 this machine cannot run a broker.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from broker import BrokerUnavailableError, tail
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from torture import UNAVAILABLE, tell
from torture_cluster import Cluster, TortureError
from torture_documents import Shape, items
from torture_loader import Loader

WINDOW_SECONDS = LATENESS_SECONDS = 60.0
SAMPLE_SECONDS = 2.0
# What is older than the first windows has been trimmed by then, and every cache has been filled.
WARM_SHARE = 1 / 3
SEGMENT_BYTES = 1 << 20
BROKER_SETTINGS = {
    "log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "1000",
}  # fmt: skip


class Bound(NamedTuple):
    """How much a series may rise over the judged part of a run: so much, and a share of its middle."""

    amount: float
    share: float


BOUNDS = {
    "memory_mb": Bound(3.0, 0.01),
    "descriptors": Bound(4.0, 0.0),
    "threads": Bound(3.0, 0.0),
    "disk_mb": Bound(4.0, 0.15),
}


class Series(NamedTuple):
    """One quantity of one process over time."""

    seconds: list[float]
    values: list[float]

    def rise(self) -> tuple[float, float]:
        """The median of the judged part, and how much a line through that part rises from its first to its last."""
        seconds, values = np.array(self.seconds), np.array(self.values)
        judged = seconds >= seconds[0] + WARM_SHARE * (seconds[-1] - seconds[0])
        slope = np.polyfit(seconds[judged], values[judged], 1)[0]
        return float(np.median(values[judged])), float(slope * np.ptp(seconds[judged]))


def sample(pid: int) -> dict[str, float]:
    """What a process holds, as /proc has it."""
    folder = Path("/proc") / str(pid)
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "memory_mb": int(fields["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir(folder / "fd")),
        "threads": int(fields["Threads"]),
    }


def bytes_of(folder: Path, topic: str) -> int:
    """The bytes of a topic's segments on a broker's disk; the preallocated indexes are left out."""
    sizes = 0
    for path in folder.glob(f"data/{topic}-*/*.log"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return sizes


class Soak:
    """One run: its cluster, its loader, and the samples."""

    def __init__(self, given: argparse.Namespace, cluster: Cluster) -> None:
        self.given, self.cluster = given, cluster
        self.series: dict[tuple[str, str], Series] = defaultdict(lambda: Series([], []))
        count = round(given.pace * given.minutes * 60)
        shape = Shape(count, WINDOW_SECONDS, LATENESS_SECONDS, 1 / given.pace, 0, count)
        topic, partitions = cluster.names.topics.documents, cluster.settings.documents_partitions
        made = items(shape, given.seed)
        self.loader = Loader(cluster.brokers.bootstrap, topic, partitions, shape, made, given.pace)

    def run(self) -> None:
        """Until the loader has sent all."""
        self._make_segments_small()
        topics = self.cluster.names.topics
        while self.cluster.committed("match").keys() != self.cluster.bounds(topics.bands).keys():
            time.sleep(0.2)
        self.loader.start()
        while self.loader.is_alive():
            self._sample()
            time.sleep(SAMPLE_SECONDS)
        if self.loader.error:
            raise TortureError("the loader failed") from self.loader.error

    def _make_segments_small(self) -> None:
        client = AdminClient({"bootstrap.servers": self.cluster.brokers.bootstrap})
        entry = ConfigEntry("segment.bytes", str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.cluster.names.topics.bands, incremental_configs=[entry])
        for done in client.incremental_alter_configs([resource]).values():
            done.result()

    def _sample(self) -> None:
        now = time.monotonic()
        for worker in self.cluster.workers:
            process = worker.process
            if process is None or process.poll() is not None:
                raise TortureError(f"{worker.name} ended:\n{tail(worker.log.read_text())}")
            for name, value in sample(process.pid).items():
                self._note(worker.name, name, now, value)
        (node,) = self.cluster.brokers.nodes
        assert node.folder is not None
        self._note("bands", "disk_mb", now, bytes_of(node.folder, self.cluster.names.topics.bands) / (1 << 20))

    def _note(self, owner: str, name: str, now: float, value: float) -> None:
        series = self.series[owner, name]
        series.seconds.append(now)
        series.values.append(value)

    def growing(self) -> list[str]:
        """Print every series; returns those that rise by more than their bound."""
        found = []
        for (owner, name), series in sorted(self.series.items()):
            middle, rise = series.rise()
            bound = BOUNDS[name].amount + BOUNDS[name].share * middle
            line = f"{owner} {name}: first {series.values[0]:.1f}, middle {middle:.1f}, last {series.values[-1]:.1f}, "
            line += f"rise {rise:+.2f} of at most {bound:.1f}"
            tell(line)
            found += [line] if rise > bound else []
        return found


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--pace", type=float, default=250.0, help="documents a second")
    parser.add_argument("--signers", type=int, default=1)
    parser.add_argument("--matchers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    out = parser.parse_args(given)
    out.linkers = out.filters = 0
    out.nodes, out.documents, out.hot, out.lateness, out.window = 1, 1_000, 0, LATENESS_SECONDS, WINDOW_SECONDS
    return out


def main() -> int:
    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="neardup-soak-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end like Ctrl-C, through the clean-up
    growing = ["it did not end"]
    cluster = Cluster(given, folder, BROKER_SETTINGS)
    try:
        cluster.start()
        soak = Soak(given, cluster)
        soak.run()
        growing = soak.growing()
        trimmed = [first for first, _ in cluster.bounds(cluster.names.topics.bands).values()]
        tell(f"{given.minutes:g} minutes, {soak.loader.loaded:,} documents; bands trimmed to {trimmed}")
    except BrokerUnavailableError as error:
        tell(str(error))
        return UNAVAILABLE
    except TortureError as error:
        tell(f"{error}; cause: {error.__cause__}")
    finally:
        cluster.close()
        if not growing:
            shutil.rmtree(folder, ignore_errors=True)
    for line in growing:
        tell(f"grows: {line}")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
