"""Plots of probabilities over a similarity or a distance: as characters for a terminal, or saved to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from neardup.errors import install_command
from neardup_workers.outside.process.exits import Exit, Failure, output_failure

# Points of a curve: more than a terminal has columns, and smooth in a file.
POINTS = 201
# The size of a plot in a terminal of 80 columns.
COLUMNS, _ROWS = 76, 20
_TICKS = 10
_WIDTH_INCHES, _HEIGHT_INCHES = 8, 5


class Curve(NamedTuple):
    """Probabilities ``y`` at positions ``x``; ``marker`` is how plotext draws it."""

    label: str
    x: list[float]
    y: list[float]
    marker: str


class Mark(NamedTuple):
    """A vertical line at ``x``; ``style`` is how matplotlib draws it."""

    label: str
    x: float
    style: str


class Area(NamedTuple):
    """The area between two curves over the same positions; only files show it."""

    label: str
    x: list[float]
    low: list[float]
    high: list[float]


class Picture(NamedTuple):
    """Curves over ``x_limits``, with probabilities from 0 to 1 upwards. Terminals show the first of the marks."""

    title: str
    x_label: str
    x_limits: tuple[float, float]
    curves: list[Curve]
    marks: list[Mark]
    areas: list[Area]


def in_characters(picture: Picture, *, colour: bool) -> str:
    """Return the curves as characters."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("simple" if colour else "colorless")
    figure.plot_size(COLUMNS, _ROWS)
    for label, x, y, marker in picture.curves:
        signal = figure.signal(x, y, marker=marker)
        signal.lines()
        signal.label(label)
        figure.draw(signal)
    for mark in picture.marks:
        line = figure.signal([mark.x] * 2, [0, 1], marker="┊")
        line.lines()
        figure.draw(line)
    figure.label(f"{picture.x_label} (dotted: {', '.join(mark.label for mark in picture.marks)})", "x")
    low, high = picture.x_limits
    figure.ruler("x").lim(low, high)
    figure.ruler("x").ticks([round(low + (high - low) * i / _TICKS, 6) for i in range(_TICKS + 1)])
    figure.ruler("y").lim(0, 1)
    matrix = figure.build()
    return str(matrix.string() if colour else plotext.uncolorize(matrix.string())).rstrip("\n")


def save(picture: Picture, path: str) -> None:
    """Save the picture to a file, whose ending names the format. Raises ``Failure`` if it cannot be drawn."""
    ending = Path(path).suffix.lower()
    if ending not in PLOT_ENDINGS:
        known = " or ".join(PLOT_ENDINGS)
        raise Failure(Exit.USAGE, f"--plot {path} ends in {ending or 'nothing'}, but must end in {known}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Failure(
            Exit.USAGE, f"--plot needs matplotlib, which is not installed: {install_command('plot')}"
        ) from None
    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    axes = figure.add_subplot()
    for curve in picture.curves:
        axes.plot(curve.x, curve.y, label=curve.label)
    for area in picture.areas:
        axes.fill_between(area.x, area.low, area.high, alpha=0.2, label=area.label)
    for mark in picture.marks:
        axes.axvline(mark.x, linestyle=mark.style, color="grey", label=mark.label)
    axes.set(xlim=picture.x_limits, ylim=(0, 1.02), xlabel=picture.x_label, ylabel="probability")
    axes.set_title(picture.title)
    axes.legend()
    try:
        figure.savefig(path, **PLOT_ENDINGS[ending])
    except OSError as error:
        raise output_failure(f"the picture to {path}", error) from None


# The ending of a file of a picture -> how it is saved.
PLOT_ENDINGS: dict[str, dict[str, Any]] = {
    ".svg": {"format": "svg", "metadata": {"Date": None}}, ".png": {"format": "png", "dpi": 150},
}  # fmt: skip
