"""``neardup tune --family``: the cheapest cascade of AND and OR for two distances, and the tables of a probe."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from neardup.errors import ConfigError
from neardup_textbook.theory.cascades import Cascade, amplify, fixed_points, members, steepest
from neardup_textbook.theory.families import (
    FAMILIES,
    Sensitivity,
    amplified,
    collision,
    distance_at,
    probing,
    propose,
    sensitivity,
)
from neardup_workers.outside.display.pictures import POINTS, Curve, Mark, Picture
from neardup_workers.outside.display.printing import facts, print_found, table_of
from neardup_workers.outside.options.judging import TuneOptions
from neardup_workers.outside.process.exits import Exit, Failure

# Distances of the table: d1, d2, and this many steps between them and on either side.
_STEPS = 4
# The name of a step in the output.
_CALLED = {"and": "AND", "or": "OR"}


class Question(NamedTuple):
    """The requirements on a family: chances ``p1`` and ``p2`` at distances ``d1`` and ``d2``, a probe of
    ``documents``."""

    family: str
    d1: float
    d2: float
    p1: float | None
    p2: float | None
    scale: float | None
    documents: int | None


def question(options: TuneOptions) -> Question:
    """Return the question of the options. Raises ``Failure`` for an incomplete question."""
    given = options.family_values.keys()
    if options.family is None:
        raise Failure(Exit.USAGE, f"--{min(given)} is about a family of functions: name one with --family")
    halves = len(given & {"p1", "p2"}) == 1
    if options.d1 is None or options.d2 is None or halves or not given & {"p1", "documents"}:
        raise Failure(Exit.USAGE, "--family needs --d1 and --d2, and --p1 with --p2, or --documents, or all of them")
    return Question(options.family, options.d1, options.d2, options.p1, options.p2, options.scale, options.documents)


def show(asked: Question, *, plot: str | None, as_json: bool) -> None:
    """Print the chances of the family at both distances, and the cascade made from it. Raises ``ConfigError`` and
    ``Failure``."""
    base = sensitivity(asked.family, asked.d1, asked.d2, asked.scale)
    cascade: Cascade = ()
    if asked.p1 is not None and asked.p2 is not None:
        cascade = propose(asked.family, asked.d1, asked.d2, asked.p1, asked.p2, asked.scale)
    tables = [_family(asked, base, cascade), _chances(asked, cascade)]
    if asked.documents is not None:
        tables.append(_probe(asked.documents, base))
    drawn = picture(asked, cascade)
    print_found(summary(asked, base, cascade), tables, as_json=as_json, drawn=drawn, plot=plot)


def summary(asked: Question, base: Sensitivity, cascade: Cascade) -> dict[str, Any]:
    """Return the same as plain values."""
    chance, slope = steepest(cascade)
    values: dict[str, Any] = {
        "family": asked.family,
        "measure": FAMILIES[asked.family].measure,
        "scale": asked.scale if asked.scale is not None else FAMILIES[asked.family].scale,
        "one_function": base._asdict(),
        "cascade": [step._asdict() for step in cascade],
        "functions": members(cascade),
        "made": amplified(base, cascade)._asdict(),
        "fixed_points": [{"chance": p, "distance": _distance(asked, p)} for p in fixed_points(cascade)],
        "steepest": {"chance": chance, "distance": _distance(asked, chance), "slope": slope},
        "around": [{"distance": d, "one_function": one, "cascade": all_} for d, one, all_ in _rows(asked, cascade)],
    }
    banded = _banded(asked)
    if banded is not None:
        values["settings"] = _ways(banded)
    if asked.documents is not None:
        values["probing"] = probing(asked.documents, base.p1, base.p2)._asdict()
    return values


def picture(asked: Question, cascade: Cascade) -> Picture:
    """Plot the chance of one function and of the cascade, by distance."""
    greatest = FAMILIES[asked.family].scale or 2 * asked.d2
    d = np.linspace(0.0, greatest, POINTS)
    one = collision(asked.family, d, asked.scale)
    curves = [Curve("one function agrees", d.tolist(), one.tolist(), "braille")]
    if cascade:
        curves.append(Curve("the cascade agrees", d.tolist(), amplify(one, cascade).tolist(), "hd"))
    return Picture(
        title=f"Family {asked.family}",
        x_label=FAMILIES[asked.family].measure,
        x_limits=(0.0, greatest),
        curves=curves,
        marks=[Mark(f"d1 {asked.d1:g}", asked.d1, ":"), Mark(f"d2 {asked.d2:g}", asked.d2, "--")],
        areas=[],
    )


def in_words(cascade: Cascade) -> str:
    """A cascade in words."""
    return ", then ".join(f"{step.ways}-way {_CALLED[step.kind]}" for step in cascade) or "one function"


def _family(asked: Question, base: Sensitivity, cascade: Cascade) -> Table:
    row = FAMILIES[asked.family]
    rows = [
        ("one function", row.functions, f"agrees by the {row.measure}"),
        ("it is", _numbers(base), "(d1, d2, p1, p2)-sensitive"),
    ]
    if asked.p1 is not None:
        chance, slope = steepest(cascade)
        rows += [
            ("cascade", in_words(cascade), "the fewest functions in up to three steps"),
            ("functions", f"{members(cascade)}", "in all"),
            ("it is", _numbers(amplified(base, cascade)), "(d1, d2, p1, p2)-sensitive"),
        ]
        rows += [
            ("fixed point", f"{p:.4f}", f"at distance {_distance(asked, p):.4g}: chances above it grow")
            for p in fixed_points(cascade)
        ]
        rows.append(("steepest", f"{slope:.4g}", f"slope, where {chance:.4f} agree: at {_distance(asked, chance):.4g}"))
        rows.append(_settings(_banded(asked)))
    return facts(f"Family {asked.family}", rows)


def _banded(asked: Question) -> Cascade | None:
    """Return the cheapest cascade in the form of bands and rows; none if it needs too many functions."""
    if asked.p1 is None or asked.p2 is None:
        return None
    try:
        return propose(asked.family, asked.d1, asked.d2, asked.p1, asked.p2, asked.scale, banded=True)
    except ConfigError:
        return None


def _settings(banded: Cascade | None) -> tuple[str, str, str]:
    """Return the row with the settings of a scheme for the cascade."""
    if banded is None:
        return "settings", "none", "bands of rows cannot do it"
    ways = _ways(banded)
    functions = f"bands of rows, {members(banded):,} functions"
    return "settings", f"--set rows={ways['rows']} --set bands={ways['bands']}", functions


def _ways(banded: Cascade) -> dict[str, int]:
    """Return rows and bands of a cascade of AND, then OR; 1 for an omitted step."""
    ways = {step.kind: step.ways for step in banded}
    return {"rows": ways.get("and", 1), "bands": ways.get("or", 1)}


def _chances(asked: Question, cascade: Cascade) -> Table:
    marks = {asked.d1: " (d1)", asked.d2: " (d2)"}
    rows = [(f"{d:g}{marks.get(d, '')}", f"{one:.6f}", f"{all_:.7f}") for d, one, all_ in _rows(asked, cascade)]
    headings = (FAMILIES[asked.family].measure, "one function", "the cascade")
    return table_of(headings, rows, title="A pair at this distance", caption="the chance to agree")


def _rows(asked: Question, cascade: Cascade) -> list[tuple[float, float, float]]:
    """Return distance, chance of one function and chance of the cascade, around d1 and d2."""
    step = (asked.d2 - asked.d1) / _STEPS
    near = {round(asked.d1 + i * step, 9) for i in range(-_STEPS, 2 * _STEPS + 1)}
    d = np.array(sorted({value for value in near if value >= 0} | {asked.d1, asked.d2}))
    one = collision(asked.family, d, asked.scale)
    return list(zip(d.tolist(), one.tolist(), amplify(one, cascade).tolist(), strict=True))


def _probe(documents: int, base: Sensitivity) -> Table:
    tables = probing(documents, base.p1, base.p2)
    return facts(
        f"A probe among {documents:,} documents",
        [
            ("rho", f"{tables.rho:.4f}", "log(1 / p1) / log(1 / p2): tables grow as documents to the power of rho"),
            ("rows (k)", f"{tables.rows}", "a table: then a far document meets the query in one with 1 / n at most"),
            ("tables (L)", f"{tables.tables:,}", "so many that a document within d1 is found"),
            ("found", f"{tables.found:.4f}", "chance to find it, at least 1 - 1/e"),
            ("stop (2 L)", f"{tables.items_max:,}", "documents looked at, after which a probe may stop"),
        ],
    )


def _distance(asked: Question, chance: float) -> float:
    return distance_at(asked.family, chance, asked.scale)


def _numbers(made: Sensitivity) -> str:
    return f"({made.d1:g}, {made.d2:g}, {made.p1:.7g}, {made.p2:.7g})"
