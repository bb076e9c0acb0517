"""Methods of measurement: interleaved contenders, the best of repeats, resident memory of a separate process."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

_K = TypeVar("_K")

_ROOT = Path(__file__).resolve().parent.parent
# Variables that limit the thread pools of the peers to one thread.
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def seconds(run: Callable[[], object]) -> float:
    """Wall-clock seconds of one call; the garbage of earlier calls is collected before it."""
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(runs: Mapping[_K, Callable[[], object]], repeats: Mapping[_K, int]) -> dict[_K, list[float]]:
    """Seconds of each run of each contender. All run once, then all run again; ``repeats`` is the number for each.

    So a busy period of the machine affects all contenders.
    """
    times: dict[_K, list[float]] = {name: [] for name in runs}
    for turn in range(max(repeats.values(), default=0)):
        for name, run in runs.items():
            if turn < repeats[name]:
                times[name].append(seconds(run))
    return times


def resident_bytes() -> int:
    """Resident memory of this process, after a collection."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # elsewhere the peak has to do
    return peak if sys.platform == "darwin" else peak * 1024


def processor_seconds(pid: int | None) -> float:
    """User and system seconds of a process and its threads so far, by its own clock: the ticks of ``/proc`` are longer
    than a small turn. 0 where the system does not report it."""
    try:
        return 0.0 if pid is None else time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def in_subprocess(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that ``python -m module arguments`` prints last; all thread pools have one thread."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=os.environ | ONE_THREAD,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
