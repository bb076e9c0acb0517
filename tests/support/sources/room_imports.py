"""The rooms of ``docs/rooms.txt``, the modules of each room, and the imports between rooms."""

from __future__ import annotations

import ast
import sys
from functools import cache

from python_files import ROOT, nodes

sys.path.insert(0, str(ROOT / "docs"))
from rooms import Room, architecture, picture, read_rooms

__all__ = ["DOCS", "FILES", "MODULES", "ROOMS", "Room", "architecture", "arrows", "picture", "reachable", "room_of"]

DOCS = ROOT / "docs"
ROOMS = read_rooms((DOCS / "rooms.txt").read_text(encoding="utf-8"))
FILES = {
    ".".join(["neardup", *path.relative_to(ROOT).with_suffix("").parts]): path
    for package in ("stream", "workers")
    for path in sorted((ROOT / package).rglob("*.py"))
}
MODULES = {name for name in FILES if not name.endswith(".__init__")}


def room_of(module: str) -> str | None:
    """The room of a module, the one with the longest name; ``__init__`` of a folder above rooms has no room."""
    found = [
        (len(place), room.name)
        for room in ROOMS
        for place in room.modules
        if f"{module.removesuffix('.__init__')}.".startswith(f"{place}.")
    ]
    return max(found)[1] if found else None


@cache
def arrows() -> dict[str, set[str]]:
    """Room -> the other rooms that its modules import, inside functions too."""
    found: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    for module, path in FILES.items():
        own = room_of(module)
        for node in nodes(path):
            if own and isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    other = room_of(whole if whole in MODULES else node.module)
                    if other and other != own:
                        found[own].add(other)
    return found


def reachable(name: str) -> set[str]:
    """The rooms that a room uses by the text, itself or through others."""
    uses = {room.name: room.uses for room in ROOMS}
    found: set[str] = set()
    rest = list(uses[name])
    while rest:
        if (one := rest.pop()) not in found:
            found.add(one)
            rest += uses[one]
    return found
