"""Linkers and clusters: floods, bounds, and starts without what a linker knew."""

from __future__ import annotations

from program import Program

# The tests of each version bring topics in memory, and workers that a test drives.
_TESTS = """
import sys
for folder in ("simulation", "processes", "support", "support/workers"):
    sys.path.insert(0, sys.argv[1] + "/tests/" + folder)
from sim_links import LinkWorld
"""
_FLOOD = """
from neardup.workers.stages.verdicts.watermarks import Watermarks
asked = []
passed_at = Watermarks.passed_at
Watermarks.passed_at = lambda self, *place: (asked.append(place), passed_at(self, *place))[1]
world, count = LinkWorld(), 500
near = [chr(0x400 + i) for i in range(count)]
world.arrive(*(row for i in range(count) for row in ((f"x{i}", "x", i / 100), (near[i], near[i], i / 100))))
world.link([(f"x{i}", near[i], 0.9) for i in range(count)], (0, 2 * count))
world.turns()
verdicts = world.verdicts()
print(sum(line.split()[1] == "original" for line in verdicts), len(verdicts), len(asked) <= 4 * count)
"""


def test_a_flood_of_copies_and_near_copies_that_waited_takes_linear_time(program: Program) -> None:
    """Each pair was tried with each copy of its documents: 12,000 documents that waited never ended."""
    done = program.code(_TESTS + _FLOOD, program.tree)
    assert done.stdout.decode().split() == ["1", "1000", "True"], done.stderr.decode()


_UNDECIDED = """
world, most = LinkWorld(undecided_max=1_000), 0
for first in range(0, 20_000, 10_000):
    world.arrive(*((f"d{i}", "d", 0) for i in range(first, first + 10_000)))
for _ in range(40):
    world.turns(1)
    most = max(most, world.linker.state.undecided)
world.link([], (0, 20_000))
world.turns(100)
print(most <= 1_000, len(world.verdicts()))
"""


def test_no_more_documents_wait_than_undecided_max(program: Program) -> None:
    """A message of arrivals held 8,192 documents, and a poll many messages: 19,500 waited at a limit of 1,000."""
    done = program.code(_TESTS + _UNDECIDED, program.tree)
    assert done.stdout.decode().split() == ["True", "20000"], done.stderr.decode()
