"""``neardup tune``: what settings lead to, as a table, and the S-curve as a picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from stream.config import Config
from stream.curves import candidate_probability, emission_probability
from stream.tuning import Tuning, curve
from workers.exits import Exit, Failure, output_failure

# Similarities of the table, as distances from the threshold.
_AROUND = (-0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1)
# Points of a picture: more than a terminal has columns, and smooth in a file.
_POINTS = 201
_PICTURE_COLUMNS, _PICTURE_ROWS = 76, 20
_WIDTH_INCHES, _HEIGHT_INCHES = 8, 5


def show(config: Config, *, plot: str | None, as_json: bool) -> None:
    """Print what a configuration resolves to. Raises ``Failure`` when the picture cannot be drawn to ``plot``."""
    tuning = config.tuning
    if plot is not None:
        _plot(tuning, plot)
    if as_json:
        typer.echo(orjson.dumps(summary(config), option=orjson.OPT_INDENT_2).decode())
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PICTURE_COLUMNS)
    console.print(_choice(config))
    console.print(_probabilities(tuning))
    typer.echo(picture(tuning, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))


def summary(config: Config) -> dict[str, Any]:
    """What a configuration resolves to, as plain values."""
    tuning = config.tuning
    around = [
        {"similarity": s, "candidate_probability": candidate, "emitted_probability": emitted}
        for s, candidate, emitted in _around(tuning)
    ]
    names = {"signing": config.signing_fingerprint, "matching": config.matching_fingerprint}
    return {**tuning._asdict(), "rows_total": tuning.bands * tuning.rows, "around": around, "fingerprints": names}


def picture(tuning: Tuning, *, colour: bool) -> str:
    """The S-curve in characters."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("simple" if colour else "colorless")
    figure.plot_size(_PICTURE_COLUMNS, _PICTURE_ROWS)
    for label, values, marker in _curves(tuning):
        signal = figure.signal(*values, marker=marker)
        signal.lines()
        signal.label(label)
        figure.draw(signal)
    threshold = figure.signal([tuning.threshold] * 2, [0, 1], marker="┊")
    threshold.lines()
    figure.draw(threshold)
    figure.label("similarity (the dotted line is the threshold)", "x")
    figure.ruler("x").lim(0, 1)
    figure.ruler("x").ticks([tenth / 10 for tenth in range(11)])
    figure.ruler("y").lim(0, 1)
    matrix = figure.build()
    return str(matrix.string() if colour else plotext.uncolorize(matrix.string())).rstrip("\n")


def _curves(tuning: Tuning) -> list[tuple[str, tuple[list[float], list[float]], str]]:
    """Label, points and marker of each curve."""
    s, candidate, emitted = (values.tolist() for values in curve(tuning, _POINTS))
    return [("becomes a candidate", (s, candidate), "braille"), ("is emitted", (s, emitted), "hd")]


def _around(tuning: Tuning) -> list[tuple[float, float, float]]:
    """Similarity, candidate probability and probability to be emitted, at and around the threshold."""
    near = [round(tuning.threshold + distance, 4) for distance in _AROUND]
    s = sorted({value for value in near if 0 < value < 1} | {tuning.threshold, 1.0})
    shape = (tuning.bands, tuning.rows)
    candidate = candidate_probability(s, *shape, tuning.sketch_bits)
    emitted = emission_probability(s, *shape, tuning.agreements_min, tuning.sketch_bits)
    return list(zip(s, candidate.tolist(), emitted.tolist(), strict=True))


def _choice(config: Config) -> Table:
    tuning = config.tuning
    rows_total = tuning.bands * tuning.rows
    table = Table(title=f"Settings for threshold {tuning.threshold:g} and recall {config.recall:g}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for row in (
        ("bands", f"{tuning.bands}", "a pair is a candidate if one band agrees whole"),
        (
            "rows",
            f"{tuning.rows}",
            f"a band; {rows_total} in all, {rows_total * tuning.sketch_bits // 8} bytes a document",
        ),
        ("candidate probability", f"{tuning.candidate_probability:.4f}", "at the threshold"),
        ("pass probability", f"{tuning.pass_probability:.4f}", "at the threshold, for the estimate to reach the cut"),
        ("overall recall", f"{tuning.recall:.4f}", "at the threshold: the product of the two"),
        ("cut", f"{tuning.cut:.4f}", f"estimate from which a pair is emitted: {tuning.agreements_min} rows agree"),
        ("margin", f"{tuning.margin:.4f}", "of the cut below the threshold, for the sampling error"),
    ):
        table.add_row(*row)
    return table


def _probabilities(tuning: Tuning) -> Table:
    table = Table(title="A pair of this similarity", caption="exact for independent rows; the recall is a lower bound")
    for heading in ("similarity", "is a candidate", "is emitted"):
        table.add_column(heading, justify="right")
    for s, candidate, emitted in _around(tuning):
        mark = " (threshold)" if s == tuning.threshold else ""
        table.add_row(f"{s:g}{mark}", f"{candidate:.6f}", f"{emitted:.6f}")
    return table


def _plot(tuning: Tuning, path: str) -> None:
    """The S-curve to a file, whose ending says the format."""
    ending = Path(path).suffix.lower()
    if ending not in PLOT_ENDINGS:
        known = " or ".join(PLOT_ENDINGS)
        raise Failure(Exit.USAGE, f"--plot {path} ends in {ending or 'nothing'}, but must end in {known}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Failure(
            Exit.USAGE, "--plot needs matplotlib, which is not installed: pip install 'neardup[plot]'"
        ) from None
    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    axes = figure.add_subplot()
    for label, values, _ in _curves(tuning):
        axes.plot(*values, label=label)
    axes.axvline(tuning.threshold, linestyle=":", color="grey", label=f"threshold {tuning.threshold:g}")
    axes.axvline(tuning.cut, linestyle="--", color="silver", label=f"cut {tuning.cut:.3f}")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="similarity", ylabel="probability")
    axes.set_title(f"{tuning.bands} bands of {tuning.rows} rows")
    axes.legend(loc="upper left")
    try:
        PLOT_ENDINGS[ending](figure, path)
    except OSError as error:
        raise output_failure(f"the picture to {path}", error) from None


def _save_svg(figure: Any, path: str) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})


def _save_png(figure: Any, path: str) -> None:
    figure.savefig(path, format="png", dpi=150)


# The ending of a picture's file -> how it is saved.
PLOT_ENDINGS: dict[str, Callable[[Any, str], None]] = {".svg": _save_svg, ".png": _save_png}
