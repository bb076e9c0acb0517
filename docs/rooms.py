"""Draw ``rooms.svg`` from ``rooms.txt``, and put the list of rooms into ``ARCHITECTURE.md``: ``python docs/rooms.py``.

A room is a folder, a module, or a group of modules of one folder (``stream/{config,batches}``). The text lists the
floors of both packages from the ground up; the picture shows the top floor first.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- rooms: made by docs/rooms.py -->\n", "<!-- end of rooms -->\n"

# Pixels.
_WIDTH, _MARGIN, _TITLE = 980, 24, 30
_BOX_HEIGHT, _FLOOR_HEIGHT, _GAP = 34, 70, 18
_CHARACTER = 7.9  # of the names' font, at its size
_STYLE = """
  svg { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
  .page { fill: #ffffff; } .part { fill: #f3f5f8; } .box { fill: #ffffff; stroke: #57606a; }
  .arrow { fill: none; stroke: #8c959f; stroke-width: 1.2; } .head { fill: #8c959f; }
  text { fill: #1f2328; } .title { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .part { fill: #161b22; } .box { fill: #0d1117; stroke: #8b949e; }
    .arrow { stroke: #6e7681; } .head { fill: #6e7681; } text { fill: #e6edf3; }
  }
"""


class Room(NamedTuple):
    """A line of the text; ``floor`` counts the floors of both packages from the ground up.

    ``place`` is where it stands on its floor, from 0 at the left to 1 at the right.
    """

    name: str
    holds: str
    uses: tuple[str, ...]
    floor: int
    place: float

    @property
    def package(self) -> str:
        """``stream`` or ``workers``."""
        return self.name.partition("/")[0]

    @property
    def label(self) -> str:
        """The name inside its package."""
        inside = self.name.partition("/")[2]
        return (inside.strip("{}") if inside.startswith("{") else inside).replace(",", ", ")

    @property
    def modules(self) -> list[str]:
        """The folders and modules in it, as ``neardup.stream.table``."""
        folder, brace, group = self.name.partition("{")
        names = [folder + one for one in group.rstrip("}").split(",")] if brace else [self.name]
        return [f"neardup.{name.replace('/', '.')}" for name in names]


class Place(NamedTuple):
    """A box, in pixels."""

    x: float
    y: float
    width: float


def read_rooms(text: str) -> list[Room]:
    """The rooms of ``rooms.txt``, in its order."""
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    rooms: list[Room] = []
    for number, floor in enumerate(text.strip().split("\n\n")):
        lines = floor.splitlines()
        for i, line in enumerate(lines):
            if line != "-":
                name, _, rest = line.partition(": ")
                holds, _, uses = rest.partition(" < ")
                rooms.append(Room(name, holds, tuple(uses.split()), number, (i + 0.5) / len(lines)))
    return rooms


def listing(rooms: list[Room]) -> str:
    """The rooms as the tree in ``ARCHITECTURE.md``: a line each, the folders of a package from the ground up."""
    lines = ["```text"]
    for package in dict.fromkeys(room.package for room in rooms):
        lines.append(f"{package}/")
        lines += [f"  {room.label:<43}{room.holds}" for room in rooms if room.package == package]
    return "\n".join([*lines, "```", ""])


def picture(rooms: list[Room]) -> str:
    """The picture, as SVG: top floor first, an arrow from a room to each room that it uses."""
    places, parts, height = _placed(rooms)
    boxes = [_box(places[room.name], room.label) for room in rooms]
    down = _curve(_WIDTH / 2, parts["workers"][1], _WIDTH / 2, parts["stream"][0])
    panels = [
        f'<rect class="part" x="8" y="{top:g}" width="{_WIDTH - 16}" height="{bottom - top:g}" rx="8"/>'
        f'<text class="title" x="{_MARGIN}" y="{top + 20:g}">{package}/</text>'
        for package, (top, bottom) in parts.items()
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img">',
        "<title>The rooms of the project: an arrow leads from a room to each room that it uses</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="page" width="{_WIDTH}" height="{height:g}"/>',
        *panels, down, *_arrows(rooms, places), *boxes, "</svg>", "",
    ])  # fmt: skip


def architecture(text: str, rooms: list[Room]) -> str:
    """``ARCHITECTURE.md`` with the list of rooms in it."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + listing(rooms) + END + after


def _placed(rooms: list[Room]) -> tuple[dict[str, Place], dict[str, tuple[float, float]], float]:
    """Where each box stands, from where to where each package goes, and the height of all."""
    places: dict[str, Place] = {}
    parts: dict[str, tuple[float, float]] = {}
    y = 8.0
    for package in ("workers", "stream"):
        top = y
        y += _TITLE
        for floor in sorted({room.floor for room in rooms if room.package == package}, reverse=True):
            row = [room for room in rooms if room.floor == floor]
            for room in row:
                width = len(room.label) * _CHARACTER + 20
                places[room.name] = Place(_MARGIN + (_WIDTH - 2 * _MARGIN) * room.place - width / 2, y, width)
            y += _FLOOR_HEIGHT
        y += _GAP - (_FLOOR_HEIGHT - _BOX_HEIGHT)
        parts[package] = (top, y)
        y += _FLOOR_HEIGHT - _BOX_HEIGHT
    return places, parts, y - (_FLOOR_HEIGHT - _BOX_HEIGHT) + 8


def _arrows(rooms: list[Room], places: dict[str, Place]) -> list[str]:
    """One curve a use; those of one box leave and arrive side by side, in the order of where they go and come from."""
    uses = [(room.name, other) for room in rooms for other in room.uses]
    curves = []
    for upper, lower in uses:
        out = sorted((other for one, other in uses if one == upper), key=lambda name: _middle(places[name]))
        into = sorted((one for one, other in uses if other == lower), key=lambda name: _middle(places[name]))
        x = places[upper].x + places[upper].width * (out.index(lower) + 1) / (len(out) + 1)
        to_x = places[lower].x + places[lower].width * (into.index(upper) + 1) / (len(into) + 1)
        curves.append(_curve(x, places[upper].y + _BOX_HEIGHT, to_x, places[lower].y))
    return curves


def _middle(place: Place) -> float:
    return place.x + place.width / 2


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (to_y - y) / 2
    path = f"M{x:.1f} {y:.1f} C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path class="arrow" marker-end="url(#head)" d="{path}"/>'


def _box(place: Place, label: str) -> str:
    size = f'width="{place.width:.1f}" height="{_BOX_HEIGHT}"'
    return (
        f'<rect class="box" x="{place.x:.1f}" y="{place.y:.1f}" {size} rx="5"/>'
        f'<text x="{place.x + 10:.1f}" y="{place.y + 22:.1f}">{escape(label)}</text>'
    )


def main() -> None:
    """Write the picture and the list."""
    rooms = read_rooms((FOLDER / "rooms.txt").read_text(encoding="utf-8"))
    (FOLDER / "rooms.svg").write_text(picture(rooms), encoding="utf-8")
    document = FOLDER / "ARCHITECTURE.md"
    document.write_text(architecture(document.read_text(encoding="utf-8"), rooms), encoding="utf-8")


if __name__ == "__main__":
    main()
