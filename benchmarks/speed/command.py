"""S7: ``neardup run`` end to end, JSON lines in and pairs out, next to the library on the same texts; and the
processor time of a first run, which compiles.

The command is timed as a user sees it: from the start of the process to its end, including the start of Python. It
reads a file and writes the pairs to another file. The library has its documents in memory already.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.measure import interleaved
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import documents
from neardup import Config, Deduplicator, Document, Pair

SEED = 7
ID = "S7-command"
FIRST_ID = "S7-first-run"
RATIO_MIN = 0.5
_DOCUMENTS: dict[Size, int] = {"smoke": 200, "default": 60_000, "large": 200_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 2, "large": 3}
_COMMAND = [sys.executable, "-c", "from neardup_workers.running.cli.app import main; main()", "run", "--quiet"]
_KERNEL = """
import numpy as np
from neardup.machine.kernels.hashing import seed_of
seed_of(*np.zeros(2, np.uint64))
"""
_ROOT = Path(__file__).resolve().parents[2]


def run(size: Size) -> Iterator[Result]:
    """Throughput of the command as a fraction of the library's throughput."""
    name = "throughput of the command over the library's"
    stream = documents("5kb", _DOCUMENTS[size], SEED)
    with tempfile.TemporaryDirectory() as folder:
        yield from _compare(name, stream, Path(folder), _REPEATS[size])


def _compare(name: str, stream: list[Document], folder: Path, repeats: int) -> Iterator[Result]:
    whole, one = folder / "documents.jsonl", folder / "one.jsonl"
    for path, part in ((whole, stream), (one, stream[:1])):
        path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in part), encoding="utf-8")
    found: dict[str, list[Pair]] = {}

    def library() -> None:
        found["library"] = Deduplicator(Config()).process(stream)

    runs: dict[str, Callable[[], None]] = {
        "library": library,
        "command": lambda: command(whole, folder / "pairs.jsonl"),
        "start": lambda: command(one, folder / "none.jsonl"),
    }
    if repeats > 1:
        runs["start"]()  # compiles kernels that are not cached
    best = {name: min(times) for name, times in interleaved(runs, dict.fromkeys(runs, repeats)).items()}
    pairs = [Pair(**json.loads(line)) for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    rounded = [_rounded(pair) for pair in found["library"]]
    assert sorted(map(_rounded, pairs)) == sorted(rounded), "the command and the library disagree"
    details = {
        "library documents/s": round(len(stream) / best["library"]),
        "command documents/s": round(len(stream) / best["command"]),
        "start of the command s": best["start"],
        "share without the start": best["library"] / max(best["command"] - best["start"], 1e-9),
        "MB/s": whole.stat().st_size / best["command"] / 1e6,
        "pairs": len(pairs),
        "checksum": checksum(rounded),
    }
    ratio = best["library"] / best["command"]
    yield Result(ID, name, ratio, "times", Target("at least", RATIO_MIN) if len(stream) >= 10_000 else None, details)


def _rounded(pair: Pair) -> tuple[str, str, float, int]:
    return pair.older, pair.newer, round(pair.similarity, 3), pair.buckets


def command(source: Path, target: Path) -> None:
    """``neardup run`` over a file; raises when it fails."""
    with target.open("wb") as out:
        done = subprocess.run(
            [*_COMMAND, str(source)], stdout=out, stderr=subprocess.PIPE, cwd=source.parent,
            env=os.environ | {"PYTHONPATH": str(_ROOT)}, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"neardup run ended with {done.returncode}: {done.stderr.decode()[-300:]}")


def first_run(size: Size) -> Iterator[Result]:
    """Processor time of commands one after the other, beginning with an empty folder of compiled code.

    README names the first figure. At smoke size one small kernel is compiled instead.
    """
    file = str(_ROOT / "docs" / "examples" / "news.jsonl")
    commands: dict[str, list[str]] = {
        "first dedup": ["-m", "neardup", "dedup", "--quiet", file],
        "second dedup": ["-m", "neardup", "dedup", "--quiet", file],
        "dedup with another scheme": ["-m", "neardup", "dedup", "--quiet", "--scheme", "prefix", file],
    }
    if size == "smoke":
        commands = {name: ["-c", _KERNEL] for name in ("first kernel", "second start")}
    with tempfile.TemporaryDirectory() as folder:
        kept = 0
        for name, words in commands.items():
            seconds, processor_seconds = _cost(words, folder)
            files = len(list(Path(folder).rglob("*.nbc")))
            details = {"seconds": seconds, "compiled": files - kept, "load": round(os.getloadavg()[0], 2)}
            kept = files
            yield Result(FIRST_ID, f"processor seconds of the {name}", processor_seconds, "s", None, details)


def _cost(words: Sequence[str], folder: str) -> tuple[float, float]:
    """Seconds, and processor seconds with those of processes that it starts, of Python with these arguments."""
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, cwd=folder, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, processor_seconds


SCENARIOS = {ID: run, FIRST_ID: first_run}
