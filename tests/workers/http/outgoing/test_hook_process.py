"""Web hooks between processes: the command, and the receiver of the examples."""

import pytest
from hook_process import kill_at_random


@pytest.mark.processes
def test_each_event_arrives_while_both_are_killed(tmp_path):
    """Those of a story in order, and again under the same id alone. ``hook_process.py`` runs for longer."""
    bodies = kill_at_random(tmp_path, events=120, kills=2)
    assert len({body["id"] for body in bodies}) == 120
