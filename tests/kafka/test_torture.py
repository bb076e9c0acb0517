"""The small size of the torture, in a process of its own, so that whatever happens to it ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).with_name("torture.py")
UNAVAILABLE = 77  # the exit code where no broker can run
VOID = 76  # where the broker itself lost the end of a transaction
SECONDS_MAX = 330.0  # beyond its own limits; some 50 s are usual
SIZE = {"documents": 3_000, "kills": 4, "stops": 2, "scales": 1, "brokers": 1, "seconds": 12}
SEEDS = (20_261_122, 20_261_123, 20_261_124)


def test_killed_and_stopped_workers_and_a_killed_broker_lose_nothing_and_repeat_nothing() -> None:
    """The pairs that are promised, each once, whoever dies."""
    for seed in SEEDS:
        options = [f"--{name}={value}" for name, value in {**SIZE, "seed": seed}.items()]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        done = subprocess.run(
            [sys.executable, str(TORTURE), *options], env=kept, capture_output=True, text=True, timeout=SECONDS_MAX,
            check=False,
        )  # fmt: skip
        if done.returncode != VOID:
            break
    if done.returncode == UNAVAILABLE:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"no Kafka broker in CI: {done.stdout}", pytrace=False)
        pytest.skip(f"no Kafka broker: {done.stdout}")
    assert done.returncode == 0, f"seed {seed}\n{done.stdout}\n{done.stderr}"
    assert "lost 0, repeated 0, wrong 0" in done.stdout
    assert f"{SIZE['documents']:,} documents, 4 kills, 2 stops, 1 scales, 1 broker kills" in done.stdout
