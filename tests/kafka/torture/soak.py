"""Soak: all roles on a real broker, and ``serve``, for many windows; their use of resources does not grow:
``soak.py --hours 3``.

Theory of operation. The run has its own broker, workers of all four roles as processes, one service, and windows of 60
seconds of real time. A loader sends documents at an even rate with the time of the wall clock, and a client sends some
to the service, so the number of live documents is constant after the first windows. Workers with number 0 are never
ended. The others are killed in turns and start again, so that partitions and shards move all the time. Matchers stand
by for each other, and early in the run shards are added.

Every few seconds the run samples resident memory, open descriptors and threads of the workers with number 0 and of the
service; the bytes of ``signed`` and ``links`` on the broker's disk, and of the service's log; the time from a document
to its verdict, and that of an answer of the service. The first part of a run, ``WARM_SHARE``, is not judged. For the
rest, the median of each half is taken: twice their difference is the *rise*, which for an even growth is that from the
first to the last sample. It may be at most the bound of its series. A run of less than ``JUDGED_WINDOWS_MIN`` windows
is too short for that: it shows the series only.

The run also checks that each record of ``documents`` gets one verdict.

Descriptors and threads change by whole numbers, so their bound is a small number. Memory settles slowly after a start
(caches of the interpreter, arenas, logs of the client), so its bound is a fraction of its value. The run uses small
segments, so that trimmed records leave the disk within the run.

Exit codes: 0 no series grows; 1 a series grows, a worker ended, or a verdict is missing or repeated; 77 this machine
cannot run a broker.
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
from soak_service import Service
from soak_verdicts import Verdicts
from torture import UNAVAILABLE, tell
from torture_cluster import Cluster, TortureError, Worker
from torture_documents import Shape, items
from torture_loader import Loader

from neardup_workers.outside.topics.names import ROLES

WINDOW_SECONDS = LATENESS_SECONDS = 60.0
SAMPLE_SECONDS = 2.0
# By then the records before the first windows are trimmed, and every cache is full.
WARM_SHARE = 1 / 3
JUDGED_WINDOWS_MIN = 10
SEGMENT_BYTES = 1 << 20
# Shards are added at this share of a run: what the new ones take is there before the judged part.
GROWTH_SHARE = WARM_SHARE / 2
# A killed worker is started again after this time, longer than a session.
AWAY_SECONDS = 5.0
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
    "latency_ms": Bound(100.0, 0.25),
}


class Series(NamedTuple):
    """One quantity of one process over time."""

    seconds: list[float]
    values: list[float]

    def rise(self) -> tuple[float, float]:
        """The median of the judged part, and by how much the series rises in it; see the module."""
        seconds, values = np.array(self.seconds), np.array(self.values)
        judged = values[seconds >= seconds[0] + WARM_SHARE * (seconds[-1] - seconds[0])]
        first, last = np.array_split(judged, 2)
        return float(np.median(judged)), 2 * float(np.median(last) - np.median(first))


def sample(pid: int) -> dict[str, float]:
    """The resources of a process, from /proc."""
    folder = Path("/proc") / str(pid)
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "memory_mb": int(fields["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir(folder / "fd")),
        "threads": int(fields["Threads"]),
    }


def megabytes(folder: Path, pattern: str) -> float:
    """The size of the files of a folder; a topic's segments have indexes next to them, which are preallocated."""
    sizes = 0
    for path in folder.glob(pattern):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:  # it was deleted meanwhile
            continue
    return sizes / (1 << 20)


class Soak:
    """One run: its cluster, its service, its loader, and the samples."""

    def __init__(self, given: argparse.Namespace, cluster: Cluster, folder: Path) -> None:
        self.given, self.cluster = given, cluster
        self.series: dict[tuple[str, str], Series] = defaultdict(lambda: Series([], []))
        self.kills = 0
        count = round(given.pace * given.hours * 3600)
        shape = Shape(count, WINDOW_SECONDS, LATENESS_SECONDS, 1 / given.pace, 0, count)
        topic, partitions = cluster.names.topics.documents, cluster.settings.documents_partitions
        made = items(shape, given.seed)
        self.loader = Loader(cluster.brokers.bootstrap, topic, partitions, shape, made, given.pace)
        self.verdicts = Verdicts(cluster.transport, cluster.names.topics)
        self.service = Service(folder / "service", [item.text for item in made if item.text], given.pace / 5)

    def run(self) -> None:
        """Run until the loader has sent everything and all of it is decided."""
        self._make_segments_small()
        topics = self.cluster.names.topics
        while self.cluster.committed("match").keys() != self.cluster.bounds(topics.links).keys():
            time.sleep(0.2)
        self.service.start()
        self.loader.start()
        next_kill = time.monotonic() + self.given.kill_seconds
        grows = self.given.shards > self.cluster.settings.shards
        while self.loader.is_alive():
            self._sample()
            if grows and self.loader.loaded >= GROWTH_SHARE * len(self.loader.items):
                grows = False
                self.cluster.grow_shards(self.given.shards)
            self._restart()
            if time.monotonic() >= next_kill:
                next_kill += self.given.kill_seconds
                self._kill()
            time.sleep(SAMPLE_SECONDS)
        self._restart(AWAY_SECONDS)
        if self.loader.error:
            raise TortureError("the loader failed") from self.loader.error
        self.verdicts.finish()
        self._sample()  # in a short run on a busy machine, the first verdicts come after the last document

    def close(self) -> None:
        self.verdicts.close()
        self.service.close()

    @property
    def _killed_in_turns(self) -> list[Worker]:
        return [worker for worker in self.cluster.workers if not worker.name.endswith("-0")]

    def _kill(self) -> None:
        if self._killed_in_turns:
            worker = self._killed_in_turns[self.kills % len(self._killed_in_turns)]
            worker.kill()
            worker.due = time.monotonic() + AWAY_SECONDS
            self.kills += 1

    def _restart(self, early: float = 0.0) -> None:
        for worker in self._killed_in_turns:
            if worker.process is None and worker.due <= time.monotonic() + early:
                worker.start()

    def _make_segments_small(self) -> None:
        client = AdminClient({"bootstrap.servers": self.cluster.brokers.bootstrap})
        entry = ConfigEntry("segment.bytes", str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
        topics = self.cluster.names.topics
        resources = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            for topic in (topics.signed, topics.links)
        ]
        for done in client.incremental_alter_configs(resources).values():
            done.result()

    def _sample(self) -> None:
        now = time.monotonic()
        for worker in self.cluster.workers:
            process = worker.process
            if process is None:
                continue
            if process.poll() is not None:
                raise TortureError(f"{worker.name} ended:\n{tail(worker.log.read_text())}")
            if worker not in self._killed_in_turns:
                self._note(worker.name, now, sample(process.pid))
        self._note("serve", now, {**sample(self.service.pid()), **self.service.latency()})
        self._note("verdicts", now, self.verdicts.latency())
        (node,) = self.cluster.brokers.nodes
        assert node.folder is not None
        topics = self.cluster.names.topics
        for name, topic in (("signed", topics.signed), ("links", topics.links)):
            self._note(name, now, {"disk_mb": megabytes(node.folder, f"data/{topic}-*/*.log")})
        self._note("serve", now, {"disk_mb": megabytes(self.service.folder, "*")})

    def _note(self, owner: str, now: float, values: dict[str, float]) -> None:
        for name, value in values.items():
            series = self.series[owner, name]
            series.seconds.append(now)
            series.values.append(value)

    def growing(self) -> list[str]:
        """Print every series; return the series that rise by more than their bound."""
        is_judged = self.given.hours * 3600 >= JUDGED_WINDOWS_MIN * WINDOW_SECONDS
        found = []
        for (owner, name), series in sorted(self.series.items()):
            line, is_high = judged(f"{owner} {name}", series, BOUNDS[name])
            tell(line)
            found += [line] if is_high and is_judged else []
        if not is_judged:
            tell(f"nothing is judged: the run has less than {JUDGED_WINDOWS_MIN} windows of {WINDOW_SECONDS:g} seconds")
        return found


def judged(name: str, series: Series, bound: Bound) -> tuple[str, bool]:
    """What is said of a series, and whether it rises by more than its bound."""
    middle, rise = series.rise()
    most = bound.amount + bound.share * middle
    first, last = series.values[0], series.values[-1]
    return (
        f"{name}: first {first:.1f}, middle {middle:.1f}, last {last:.1f}, rise {rise:+.2f} of at most {most:.1f}",
        rise > most,
    )


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--hours", type=float, default=0.25)
    parser.add_argument("--pace", type=float, default=100.0, help="documents a second")
    parser.add_argument("--kill-seconds", type=float, default=60.0, help="from one kill to the next")
    for role, count in zip(ROLES, (2, 2, 1, 1), strict=True):
        parser.add_argument(f"--{role}", dest=WORKERS[role], type=int, default=count, help=f"workers of {role}")
    parser.add_argument("--standbys", type=int, default=1, help="of each shard")
    parser.add_argument("--shards", type=int, default=6, help="to which the shards grow, if that is more")
    parser.add_argument("--seed", type=int, default=1)
    out = parser.parse_args(given)
    out.nodes, out.documents, out.hot, out.templates = 1, 1_000, 0, 0
    out.lateness, out.window = LATENESS_SECONDS, WINDOW_SECONDS
    return out


# Role -> the name of its number of workers in a run.
WORKERS = {"sign": "signers", "match": "matchers", "link": "linkers", "filter": "filters"}


def main() -> int:
    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="neardup-soak-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as Ctrl-C does, through the clean-up
    growing = ["it did not end"]
    cluster = Cluster(given, folder, BROKER_SETTINGS)
    soak = Soak(given, cluster, folder)
    try:
        cluster.start()
        soak.run()
        growing = soak.growing()
        trimmed = [first for first, _ in cluster.bounds(cluster.names.topics.signed).values()]
        tell(
            f"{given.hours * 60:g} minutes, {soak.loader.loaded:,} documents, {soak.verdicts.decided:,} verdicts, "
            f"{soak.service.answered:,} answers, {soak.kills} kills, {len(cluster.committed('match'))} shards; signed "
            f"trimmed to {trimmed}"
        )
    except BrokerUnavailableError as error:
        tell(str(error))
        return UNAVAILABLE
    except TortureError as error:
        tell(f"{error}; cause: {error.__cause__}")
    finally:
        soak.close()
        cluster.close()
        if not growing:
            shutil.rmtree(folder, ignore_errors=True)
    for line in growing:
        tell(f"grows: {line}")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
