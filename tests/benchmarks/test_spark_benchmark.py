"""The benchmark of Spark: what it reads from a log, and which processes it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.speed import spark


def test_shuffled_bytes_are_those_of_ended_tasks() -> None:
    """A task that failed before it ran has no metrics; other events have none, too."""
    ended = {"Event": "SparkListenerTaskEnd", "Task Metrics": {"Shuffle Write Metrics": {"Shuffle Bytes Written": 7}}}
    events = [ended, {"Event": "SparkListenerTaskEnd"}, {"Event": "SparkListenerJobEnd"}, ended]
    assert spark.shuffled_bytes(map(json.dumps, events)) == 14


@pytest.mark.processes
def test_a_process_that_outlives_the_command_is_counted(tmp_path: Path) -> None:
    """As the machine of Java may outlive it; a command that fails is an error with its last words.

    A child that was here before is not waited for: another test may have left a machine of Java.
    """
    before = subprocess.Popen(["sleep", "600"])
    work = "import time\nwhile time.process_time() < .5: pass"
    shell = ["sh", "-c", '"$0" -c "$1" & exit "$2"', sys.executable, work]
    own, _ = spark.processor_seconds([*shell, "0"], tmp_path, {})
    assert own >= 0.5
    with pytest.raises(RuntimeError, match="ended with 3"):
        spark.processor_seconds([*shell, "3"], tmp_path, {})
    assert before.poll() is None
    before.kill()
    before.wait()
