"""Many seeds of the simulation: ``python tests/simulation/torture.py --seeds 5000``; one with ``--seed 7 --trace``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from import_path import folders

sys.path.extend(folders("support", "simulation"))

from sim_seeds import run, scenario_of, shortest, tally, verdict


def tell(what: object) -> None:
    """Print one line and flush it."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def attempt(seed: int) -> tuple[int, Counter[str], str]:
    try:
        return seed, tally(*verdict(seed)), ""
    except Exception:
        return seed, Counter({"failed": 1}), traceback.format_exc()


def many(first: int, seeds: int, processes: int) -> int:
    total: Counter[str] = Counter()
    failed = []
    started = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:
        for seed, counts, error in pool.imap_unordered(attempt, range(first, first + seeds), chunksize=8):
            total += counts
            if error:
                failed.append(seed)
                tell(f"seed {seed} failed\n{error}")
    for name, count in sorted(total.items()):
        tell(f"{count:12,}  {name}")
    tell(
        f"seeds {first} to {first + seeds - 1}: {len(failed)} failed {failed[:20]}, {time.monotonic() - started:.0f} s"
    )
    return 1 if failed else 0


def one(seed: int, actions: int | None, trace: bool) -> int:
    tell(scenario_of(seed))
    if trace:
        run(seed, actions, tell)
    try:
        verdict(seed, actions)
    except Exception:
        traceback.print_exc()
        tell(f"the shortest schedule that fails: --actions {shortest(seed)}")
        return 1
    tell("passed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="only this one; says the shortest schedule that fails")
    parser.add_argument("--actions", type=int, help="cut its schedule after so many actions")
    parser.add_argument("--trace", action="store_true", help="print every action")
    given = parser.parse_args()
    if given.seed is not None:
        return one(given.seed, given.actions, given.trace)
    return many(given.first, given.seeds, given.processes)


if __name__ == "__main__":
    sys.exit(main())
