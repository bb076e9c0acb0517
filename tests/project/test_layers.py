"""The ten layers: each module has one, imports run one way, and ARCHITECTURE lists what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest
from command import clean_environment
from python_files import ROOT, named
from room_imports import FILES, FRONT, LAYERS, TEXTBOOK, imported, layer_of, room_of

ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
COMMANDS = "neardup_workers.running.commands"


def test_every_module_is_in_a_layer() -> None:
    """Each folder of the library and of the workers is a layer; few modules stand next to the folders."""
    homeless = [module for module in FILES if layer_of(module) not in (*LAYERS, TEXTBOOK)]
    assert not homeless, f"{homeless}: move them into a folder of LAYERS"
    assert {*LAYERS, TEXTBOOK} == {layer_of(module) for module in FILES}
    assert set(FRONT) <= FILES.keys()


def test_a_module_imports_from_its_layer_and_those_below() -> None:
    """No import runs up; those inside functions count."""
    floor = {layer: i for i, layer in enumerate([*LAYERS, TEXTBOOK])}
    up = [
        f"{named(FILES[module])} imports {other}: {layer_of(other)} is above {layer_of(module)}"
        for module, found in imported().items()
        for other in found
        if floor[layer_of(other)] > floor[layer_of(module)]
    ]
    assert not up, "\n".join(up)


def test_only_commands_of_the_textbook_use_workers() -> None:
    """Its schemes and its theory use the library alone."""
    wrong = [
        f"{named(FILES[module])} imports {other}"
        for module, found in imported().items()
        for other in found
        if layer_of(module) == TEXTBOOK and room_of(module) != f"{TEXTBOOK}.commands"
        if other.startswith("neardup_workers") or room_of(other) == f"{TEXTBOOK}.commands"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.processes
def test_the_textbook_is_loaded_only_when_it_is_named() -> None:
    """By a row of ``SCHEMES`` or by a command; then a program that names none of them does not load it."""
    code = (
        "import sys, neardup, neardup_workers.running.cli.app, neardup_workers.running.commands.run\n"
        "from neardup_workers.running.commands.tune import curve, sample\n"
        "def loaded(): return sorted(name for name in sys.modules if name.startswith('neardup_textbook'))\n"
        "neardup.Deduplicator(neardup.Config()).process([neardup.Document('a', 'a text of some words')])\n"
        "before = loaded()\n"
        "neardup.Config(scheme='grouped')\n"
        "print(before, 'neardup_textbook.kinds.partial_sets' in loaded())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True, env=clean_environment()
    )
    assert (done.stdout, done.stderr) == ("[] True\n", "")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither do rooms, the folders of a layer."""
    list(TopologicalSorter(imported()).static_order())
    rooms: dict[str, set[str]] = {}
    for module, found in imported().items():
        rooms.setdefault(room_of(module), set()).update({room_of(other) for other in found} - {room_of(module)})
    list(TopologicalSorter(rooms).static_order())


def test_only_the_command_line_knows_commands() -> None:
    """A command is no library: what two of them share is in a room below, and no command imports another one."""

    def command(module: str) -> str:
        return module.removeprefix(f"{COMMANDS}.").partition(".")[0]

    leaks = [
        f"{named(FILES[module])} imports {other}: move what both use to a room below"
        for module, found in imported().items()
        for other in found
        if other.startswith(f"{COMMANDS}.") and room_of(module) != "neardup_workers.running.cli"
        if not module.startswith(f"{COMMANDS}.") or command(module) != command(other)
    ]
    assert not leaks, "\n".join(leaks)


def test_the_architecture_lists_the_layers_and_their_rooms() -> None:
    """Ten sentences in order; each folder and each module of a layer has a line, and each line is one."""
    rows = re.findall(r"^\| \d+ \| `(\w+)/(\w+)` \| (.+) \|$", ARCHITECTURE, re.M)
    assert [(f"{root}.{name}", says) for root, name, says in rows] == list(LAYERS.items())
    listed: set[str] = set()
    for line in re.search(r"^## Layout\n.*?```text\n(.*?)```", ARCHITECTURE, re.M | re.S)[1].splitlines():  # type: ignore[index]
        if not line.startswith(" "):
            package = line.strip().strip("/").replace("/", ".").partition(".")[2]
        else:
            listed |= {f"{package}.{name}" for name in line[2:40].strip().split(", ")}
    rooms = {room_of(module) for module in FILES} - {*LAYERS, TEXTBOOK} - FRONT.keys()
    assert listed == rooms, f"absent: {sorted(rooms - listed)}; too many: {sorted(listed - rooms)}"
