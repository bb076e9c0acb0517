"""Linkers and clusters: floods, bounds, and starts without what a linker knew."""

from __future__ import annotations

from program import LINK_WORLD, Program

_FLOOD = """
calls = 0
def counted(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
for count in (10, 1_000):  # the first loads the kernels
    world, calls = LinkWorld(), 0
    near = [chr(0x400 + i) for i in range(count)]
    world.arrive(*(row for i in range(count) for row in ((f"x{i}", "x", i / 100), (near[i], near[i], i / 100))))
    world.link([(f"x{i}", near[i], 0.9) for i in range(count)], (0, 2 * count))
    sys.setprofile(counted)
    world.turns()
    sys.setprofile(None)
verdicts = world.verdicts()
print(sum(line.split()[1] == "original" for line in verdicts), len(verdicts), calls < 400 * count)
"""


def test_a_flood_of_copies_and_near_copies_that_waited_takes_linear_time(program: Program) -> None:
    """Each pair was tried with each copy of its documents: 12,000 documents that waited never ended."""
    done = program.code(LINK_WORLD + _FLOOD, program.tree)
    assert done.stdout.decode().split() == ["1", "2000", "True"], done.stderr.decode()


_VERDICTS_OFF = """
world = LinkWorld()
world.arrive(("d0", "d", 0), ("e0", "e", 1))
world.link([], (0, 2))
world.turns()
world.arrive(("s", "s", 2), ("t", "t", 2))
world.arrive(("d1", "d", 2))
world.link([], (4, 5))
try:
    world.turns()
except Exception as error:
    print(error)
world.plan = world.plan._replace(allow_gap=True)
world.memory.advance(60.0)
world.start("two")
world.turns()
print(world.verdicts())
"""


def test_documents_that_were_signed_without_verdicts_are_named_and_get_one(program: Program) -> None:
    """The sentence promised verdicts that are marked as incomplete; there were none, and nothing said so."""
    done = program.code(LINK_WORLD + _VERDICTS_OFF, program.tree)
    sentence, verdicts = done.stdout.decode().splitlines()
    unmatched = " from offset 1, row 0, to offset 2, row 0, was not matched by shard 0: the verdicts of these documents"
    assert unmatched in sentence, done.stderr.decode()
    assert verdicts == "['d0 original', 'e0 original', 's original', 't original', 'd1 duplicate d0']"
    assert unmatched in done.stderr.decode()


_TRIMMED = """
world = LinkWorld()
world.arrive(("d0", "d", 0), ("e0", "e", 1))
world.link([], (0, 2))
world.turns()
world.arrive(("lost", "l", 2))
world.arrive(("lost too", "l", 3))
getattr(world.linker, "member", world.linker).transport.trim(world.topics.signed, {0: 3})
world.arrive(("d1", "d", 4))
world.link([("lost", "d1", 0.9)], (2, 5))
for allow_gap in (False, True):
    world.plan = world.plan._replace(allow_gap=allow_gap)
    for turn in range(3):
        world.memory.advance(60.0)
        world.start(f"{allow_gap} {turn}")
        try:
            world.turns()
        except Exception as error:
            print(type(error).__name__, error)
            if type(error).__name__ != "FencedError":
                break
print(world.verdicts())
"""


def test_rows_that_were_trimmed_are_passed_with_allow_gap(program: Program) -> None:
    """A linker below the beginning of the log ended with code 8, with ``--allow-gap`` too."""
    done = program.code(LINK_WORLD + _TRIMMED, program.tree)
    sentence, verdicts = done.stdout.decode().splitlines()
    assert sentence.startswith("OffsetGoneError offsets 1 to 3 of signed"), done.stderr.decode()
    assert sentence.endswith("send them again, and go on with --allow-gap")
    assert verdicts == "['d0 original', 'e0 original', 'd1 duplicate d0']"


_DELETED = """
world = LinkWorld()
world.arrive(("-z", "", 0), ("x", "x", 0), ("y", "y", 1))
world.link([("x", "y", 0.9)], (0, 3))
world.turns()
world.arrive(("z", "z", 2))
for topic in (world.topics.signed, world.topics.links, world.topics.verdicts):
    world.memory.group("linkers", world.topics.signed).offsets_of(topic).clear()
world.memory.advance(60.0)
world.start("two")
world.arrive(("x2", "x", 3))
world.link([], (3, 5))
world.turns()
print(world.verdicts())
"""


def test_a_linker_whose_group_was_deleted_goes_on_behind_its_verdicts(program: Program) -> None:
    """With ``--from earliest`` it decided a second time what was decided, and the filters stopped."""
    done = program.code(LINK_WORLD + _DELETED, program.tree)
    expected = "['z removed', 'x original', 'y duplicate x', 'z original', 'x2 duplicate x']"
    assert done.stdout.decode().strip() == expected, done.stderr.decode()
