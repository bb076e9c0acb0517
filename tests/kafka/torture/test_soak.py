"""A soak of less than a minute, and what it says of series that grow."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from soak import BOUNDS, Series, judged
from test_torture import TORTURE, skip_without_broker

SOAK = TORTURE.with_name("soak.py")
SECONDS_MAX = 500.0
OWNERS = {"sign-0", "match-0", "link-0", "filter-0", "serve"}

# What happens to a series -> its values from the share of the run that is over, and whether it grows.
SERIES: dict[str, tuple[str, Callable[[float, random.Random], float], bool]] = {
    "a leak": ("memory_mb", lambda over, chance: 300 + 15 * over, True),
    "memory that settles": ("memory_mb", lambda over, chance: 300 + 40 * min(over, 0.3), False),
    "memory that changes": ("memory_mb", lambda over, chance: 300 + chance.uniform(-5, 5), False),
    "a descriptor for each step": ("descriptors", lambda over, chance: 30 + round(20 * over), True),
    "a segment that is deleted when it is full": ("disk_mb", lambda over, chance: 20 + (100 * over) % 1, False),
    "a log that is not trimmed": ("disk_mb", lambda over, chance: 20 + 20 * over, True),
    "takeovers now and then": ("latency_ms", lambda over, chance: 5_000 if chance.random() < 0.2 else 400, False),
    "answers that become slower": ("latency_ms", lambda over, chance: 400 * (1 + over), True),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_series_that_grows_is_named_and_one_that_changes_is_not(name: str) -> None:
    """By the same bounds as in a run."""
    bound, value, grows = SERIES[name]
    chance = random.Random(7)
    seconds = [2.0 * step for step in range(600)]
    line, is_high = judged(name, Series(seconds, [value(at / 1_200, chance) for at in seconds]), BOUNDS[bound])
    assert is_high is grows, line


def test_all_roles_and_the_service_are_sampled_while_workers_are_killed() -> None:
    """Each record of documents gets one verdict; so short a run is not judged."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
    done = subprocess.run(
        [sys.executable, str(SOAK), "--hours=0.003", "--pace=100", "--kill-seconds=3"], env=kept, capture_output=True,
        text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    skip_without_broker(done)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    lines = done.stdout.splitlines()
    found = {tuple(line.partition(":")[0].rpartition(" ")[::2]) for line in lines if " rise " in line}
    wanted = {(owner, name) for owner in OWNERS for name in ("memory_mb", "descriptors", "threads")}
    wanted |= {("serve", "disk_mb"), ("signed", "disk_mb"), ("links", "disk_mb")}
    assert found == wanted | {("serve", "latency_ms"), ("verdicts", "latency_ms")}
    assert "1,080 documents, 1,080 verdicts" in lines[-1]
    assert " 6 shards; " in lines[-1]
    assert "nothing is judged" in done.stdout
