"""The rooms of ``docs/rooms.txt`` are those of the tree, and its arrows are the imports between them."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import rooms as drawing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROOMS = drawing.read_rooms((DOCS / "rooms.txt").read_text(encoding="utf-8"))
MODULES_MAX = 12
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for package in ("stream", "workers")
    for path in sorted((ROOT / package).rglob("*.py"))
}
MODULES = {name for name in FILES if not name.endswith(".__init__")}
PACKAGES = sorted({path.parent for path in FILES.values()})


def room_of(module: str) -> str | None:
    """The room with the longest name that a module is in; the modules ``__init__`` of folders above rooms have none."""
    found = [
        (len(place), room.name)
        for room in ROOMS
        for place in room.modules
        if f"{module.removesuffix('.__init__')}.".startswith(f"{place}.")
    ]
    return max(found)[1] if found else None


def arrows() -> dict[str, set[str]]:
    """Room -> the other rooms that its modules import, inside functions too."""
    found: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    for module, path in FILES.items():
        own = room_of(module)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if own and isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    other = room_of(whole if whole in MODULES else node.module)
                    if other and other != own:
                        found[own].add(other)
    return found


ARROWS = arrows()


def reachable(name: str) -> set[str]:
    """The rooms that a room uses by the text, at first hand or through others."""
    uses = {room.name: room.uses for room in ROOMS}
    found: set[str] = set()
    rest = list(uses[name])
    while rest:
        if (one := rest.pop()) not in found:
            found.add(one)
            rest += uses[one]
    return found


def test_every_module_is_in_a_room() -> None:
    """And every room has its modules: the text is what there is."""
    homeless = [name for name in FILES if room_of(name) is None]
    assert homeless == ["stream.__init__", "workers.__init__", "workers.transport.__init__"]
    assert {room_of(name) for name in MODULES} == {room.name for room in ROOMS}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_uses_rooms_of_lower_floors_only(room: drawing.Room) -> None:
    """No arrow runs back, or sideways: neither in the text nor in the imports."""
    floors = {one.name: one.floor for one in ROOMS}
    for other in {*room.uses, *ARROWS[room.name]}:
        assert floors[other] < room.floor, f"{room.name} uses {other}, which is on no lower floor of docs/rooms.txt"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_arrows_of_a_room_are_its_imports(room: drawing.Room) -> None:
    """Each arrow is one, and each import is an arrow or follows from several. Workers may use all of the library."""
    imported = {other for other in ARROWS[room.name] if other.startswith(f"{room.package}/")}
    missing = imported - reachable(room.name)
    assert not missing, f"{room.name} imports {missing}: add the arrow to docs/rooms.txt and run python docs/rooms.py"
    unused = set(room.uses) - imported
    assert not unused, f"{room.name} imports nothing of {unused}: remove the arrow from docs/rooms.txt"


def test_no_modules_of_the_workers_import_each_other_in_a_circle() -> None:
    """Inside a room either; imports inside functions count."""
    graph: dict[str, set[str]] = {}
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
                graph.setdefault(name, set()).update(found & MODULES)
    list(TopologicalSorter(graph).static_order())


def test_only_the_command_line_knows_commands() -> None:
    """A command is no library: what two of them share stands in a room below, or in one of the two."""
    for name, found in ARROWS.items():
        assert "workers/commands" not in found or name == "workers/cli"


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_has_at_most_12_modules(folder: Path) -> None:
    """Besides ``__init__``; then it is time for a room of its own."""
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX, f"{folder.relative_to(ROOT)} has {len(modules)} modules, at most {MODULES_MAX}"


def test_the_picture_and_the_list_are_made_from_the_text() -> None:
    """``python docs/rooms.py`` would change neither; the picture is well-formed and has two sets of colours."""
    drawn = (DOCS / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == drawing.picture(ROOMS), "run python docs/rooms.py"
    document = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert document == drawing.architecture(document, ROOMS), "run python docs/rooms.py"
    ElementTree.fromstring(drawn)
    assert "prefers-color-scheme: dark" in drawn
