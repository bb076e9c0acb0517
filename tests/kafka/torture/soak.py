"""Soak: run workers on a real broker for many windows and check that their use of resources does not grow: ``soak.py
--minutes 15``.

Theory of operation. The run has its own broker, signers and matchers as processes, and a window of 60 seconds of real
time. A loader sends documents at an even rate with the time of the wall clock, so the number of live documents is
constant after the first windows. Every few seconds the run samples resident memory, open descriptors and threads of
each worker, and the bytes of ``signed`` on the broker's disk. The run discards its first part, ``WARM_SHARE``. For the
rest, it fits a line through each series; the line must not rise by more than its bound from the first sample to the
last.

Descriptors and threads change by whole numbers, so their bound is a small number. Memory settles slowly after a start
(caches of the interpreter, arenas, logs of the client), so its bound is a fraction of its value. The run uses small
segments of ``signed``, so that trimmed records leave the disk within the run.

Exit codes: 0 no series grows; 1 a series grows, or a worker ended; 77 this machine cannot run a broker.
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

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from import_path import folders

sys.path.extend(folders("support", "kafka"))

import numpy as np
from broker import BrokerUnavailableError, tail
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from torture import UNAVAILABLE, tell
from torture_cluster import Cluster, TortureError
from torture_documents import Shape, items
from torture_loader import Loader

WINDOW_SECONDS = LATENESS_SECONDS = 60.0
SAMPLE_SECONDS = 2.0
# By then the records before the first windows are trimmed, and every cache is full.
WARM_SHARE = 1 / 3
SEGMENT_BYTES = 1 << 20
BROKER_SETTINGS = {
    "log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "1000",
}  # fmt: skip


class Bound(NamedTuple):
    """The most that a series may rise over the judged part of a run: an amount plus a fraction of its median."""

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
        """The median of the judged part, and the rise of a line through that part from its first to its last sample."""
        seconds, values = np.array(self.seconds), np.array(self.values)
        judged = seconds >= seconds[0] + WARM_SHARE * (seconds[-1] - seconds[0])
        slope = np.polyfit(seconds[judged], values[judged], 1)[0]
        return float(np.median(values[judged])), float(slope * np.ptp(seconds[judged]))


def sample(pid: int) -> dict[str, float]:
    """The resources of a process, from /proc."""
    folder = Path("/proc") / str(pid)
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "memory_mb": int(fields["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir(folder / "fd")),
        "threads": int(fields["Threads"]),
    }


def bytes_of(folder: Path, topic: str) -> int:
    """The bytes of a topic's segments on a broker's disk, without the preallocated indexes."""
    sizes = 0
    for path in folder.glob(f"data/{topic}-*/*.log"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:  # the broker deleted the file meanwhile
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
        """Run until the loader has sent everything."""
        self._make_segments_small()
        topics = self.cluster.names.topics
        while self.cluster.committed("match").keys() != self.cluster.bounds(topics.links).keys():
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
        resource = ConfigResource(ResourceType.TOPIC, self.cluster.names.topics.signed, incremental_configs=[entry])
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
        self._note("signed", "disk_mb", now, bytes_of(node.folder, self.cluster.names.topics.signed) / (1 << 20))

    def _note(self, owner: str, name: str, now: float, value: float) -> None:
        series = self.series[owner, name]
        series.seconds.append(now)
        series.values.append(value)

    def growing(self) -> list[str]:
        """Print every series; return the series that rise by more than their bound."""
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as Ctrl-C does, through the clean-up
    growing = ["it did not end"]
    cluster = Cluster(given, folder, BROKER_SETTINGS)
    try:
        cluster.start()
        soak = Soak(given, cluster)
        soak.run()
        growing = soak.growing()
        trimmed = [first for first, _ in cluster.bounds(cluster.names.topics.signed).values()]
        tell(f"{given.minutes:g} minutes, {soak.loader.loaded:,} documents; signed trimmed to {trimmed}")
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
