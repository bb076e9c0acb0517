"""``python -m benchmarks.speed.spark [--documents N] [--cores N]``: what a corpus costs on Apache Spark.

``neardup batch --engine spark --verdicts`` runs as its user types it, over generated texts of 300 words, of which a
quarter are edited copies; then ``batch`` without an engine runs on the same file, and its output has to be equal.

*Documents per core-second* divides by the processor time of all processes of the command, Java's and Python's, from
start to end. So other work on the machine changes it little, and cores that wait do not count. *Shuffled* is what the
tasks wrote for other tasks, by Spark's own log of events. There are as many partitions as cores. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.texts import documents

SEED = 25
_KIND = "300w"
_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def shuffled_bytes(lines: Iterable[str]) -> int:
    """Return the bytes that the tasks of a log of events wrote for others."""
    ended = (event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd")
    return sum(
        event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        for event in ended
        if event.get("Task Metrics")
    )


def processor_seconds(command: Sequence[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Run a command in a folder; returns processor seconds of all its processes, and seconds by the clock.

    Processes that outlive it become children of this one, which waits for them: a time counts when it was waited for.
    Children that were here before are left alone.
    """
    others = _children()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, begin = _waited_seconds(), time.perf_counter()
    with (folder / "out").open("wb") as out, (folder / "errors").open("wb") as errors:
        done = subprocess.run(
            command, cwd=folder, stdout=out, stderr=errors, env=os.environ | {"PYTHONPATH": str(_ROOT)} | environment,
            check=False,
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    while left := _children() - others:
        os.waitpid(min(left), 0)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}: {(folder / 'errors').read_text()[-500:]}"
        )
    return _waited_seconds() - before, seconds


def _children() -> set[int]:
    """The children of this process, those that have ended and were not waited for among them."""
    own, found = str(os.getpid()), set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process that has ended meanwhile
            name, _, fields = path.read_text(errors="replace").rpartition(")")
            if fields.split()[1] == own:
                found.add(int(name.split()[0]))
    return found


def _waited_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(count: int, cores: int) -> dict[str, float]:
    """Run both engines once over so many documents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("log", "conf", "spark", "local"):
            (folder / part).mkdir()
        settings = {
            "spark.master": f"local[{cores}]", "spark.sql.shuffle.partitions": cores, "spark.ui.enabled": "false",
            "spark.driver.memory": "2g", "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder / "log",
            "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false",
        }  # fmt: skip
        (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {settings[key]}\n" for key in settings))
        with (folder / "in.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"id": one.id, "text": one.text}) + "\n" for one in documents(_KIND, count, SEED)
            )
        environment = {"SPARK_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
        batch = [sys.executable, "-m", "neardup", "batch", "--quiet", "--verdicts", "verdicts", "../in.jsonl"]
        own, clock = processor_seconds([*batch, "--engine", "spark"], folder / "spark", environment)
        own_one, _ = processor_seconds(batch, folder / "local", {})
        for written in ("out", "verdicts"):
            one, other = ((folder / engine / written).read_bytes() for engine in ("spark", "local"))
            assert one == other, f"the engines disagree: {written}"
        (log,) = (folder / "log").iterdir()
        with log.open(encoding="utf-8") as lines:
            shuffled = shuffled_bytes(lines)
        read = (folder / "in.jsonl").stat().st_size
    return {
        "documents": count, "cores": cores, "GB read per million": read / count / 1e3,
        "documents per core-second": count / own, "GB shuffled per million": shuffled / count / 1e3,
        "seconds by the clock": clock, "documents per second and core by the clock": count / clock / cores,
        "documents per core-second, one machine": count / own_one,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.spark", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(arguments)
    if shutil.which("java") is None:
        parser.error("no java on the path: Spark needs Java 17; install it, or set PATH")
    for name, value in measure(options.documents, options.cores).items():
        print(f"{name:45} {value:,.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
