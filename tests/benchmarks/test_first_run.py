"""The benchmark of a first run, at smoke size. No test asserts a time."""

from __future__ import annotations

import pytest
from benchmarks.speed import command


@pytest.mark.processes
def test_a_first_run_is_measured_in_an_empty_folder() -> None:
    """It compiles, and the second one does not."""
    first, second = command.first_run("smoke")
    assert first.details["compiled"] == 3
    assert second.details["compiled"] == 0
    assert first.value is not None
    assert first.value > 0
