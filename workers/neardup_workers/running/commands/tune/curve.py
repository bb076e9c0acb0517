"""``neardup tune``: the values that follow from settings as a table, and the S-curve as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import typer
from rich.table import Table

from neardup.errors import ConfigError
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.curves import candidate_probability as whole_rows
from neardup.schemes.theory.curves import error_areas, half_point, similarity_at, threshold_step
from neardup.schemes.theory.tuning import Tuning, curve, probabilities
from neardup_workers.outside.display.pictures import POINTS, Area, Curve, Mark, Picture
from neardup_workers.outside.display.printing import facts, print_found, table_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.outside.settings.load import load

# Similarities of the table, as distances from the threshold.
_AROUND = (-0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1)
# Similarities of the S-curve of given bands and rows, as the table of Mining of Massive Datasets, 3.4.2, has them.
_OF_THE_BOOK = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

# Public names of values whose name in the library differs.
_NAMES = {"score_min": "cut"}
# Scheme -> what knows the rates of its functions, if they are in no bands: a module that is loaded by name.
_RATES = {"grid": "neardup_textbook.commands.grid"}
# Values of a tuning that are valid only if the law of candidates is known.
_CHANCES = ("candidate_probability", "pass_probability", "recall")


def read(given: Mapping[str, Any], file: str | None) -> Settings:
    """Return the settings; where bands and rows are given and miss the recall, with the recall that they reach and a
    warning on standard error. Raises ``ConfigError`` and ``Failure`` like ``load``."""
    try:
        return load(given, file)
    except ConfigError as refused:
        try:
            # With the least score no recall is out of reach.
            settings: Settings = load({**given, "min_similarity": 0.0}, file)
        except ConfigError:
            raise refused from None
        chance = settings.tuning.candidate_probability
        if None in (settings.bands, settings.rows) or not chance > 0:
            raise
        reached = math.floor(chance * 1e4) / 1e4 or chance
        typer.echo(
            f"warning: {settings.bands} bands of {settings.rows} rows reach recall {reached:g} at threshold "
            f"{settings.threshold:g}, not {settings.recall:g}: run refuses them without --recall {reached:g}",
            err=True,
        )
        return load({**given, "recall": reached}, file)


def show(config: Config, *, plot: str | None, as_json: bool) -> None:
    """Print the values that a configuration resolves to. Raises ``Failure`` if the picture cannot be drawn to
    ``plot``."""
    if _has_curve(config):
        given = s_curve(config)
        tables = [_choice(config), _probabilities(config.tuning), *([_given(config.tuning, given)] if given else [])]
        print_found(summary(config), tables, as_json=as_json, drawn=picture(config.tuning), plot=plot)
    elif plot is None:
        rates = [import_module(_RATES[config.scheme]).table(config)] if config.scheme in _RATES else []
        print_found(summary(config), [_choice(config), *rates], as_json=as_json)
    else:
        raise Failure(Exit.USAGE, f"--plot draws the S-curve, but {config.scheme} has none: leave it out")


def summary(config: Config) -> dict[str, Any]:
    """Return the values that a configuration resolves to, as plain values."""
    tuning, scheme = config.tuning, SCHEMES[config.scheme]
    around = [
        {"similarity": s, "candidate_probability": candidate, "emitted_probability": emitted}
        for s, candidate, emitted in (_around(tuning) if _has_curve(config) else ())
    ]
    names = {"signing": config.signing_fingerprint, "matching": config.matching_fingerprint}
    untold = {"agreement"} if _has_curve(config) else {"agreement", *_CHANCES}
    chosen = {_NAMES.get(name, name): value for name, value in tuning._asdict().items() if name not in untold}
    return {
        "scheme": config.scheme,
        "guarantee": scheme.guarantee,
        "exact": scheme.exact,
        **chosen,
        "rows_total": tuning.bands * tuning.rows,
        **_shape(tuning),
        **({"rates": import_module(_RATES[config.scheme]).rates(config)} if config.scheme in _RATES else {}),
        "around": around,
        **({"s_curve": given} if (given := s_curve(config)) else {}),
        "fingerprints": names,
    }


def s_curve(config: Config) -> list[dict[str, float]]:
    """Return the chance to be a candidate at the similarities of the book: with whole rows, and with rows as they are
    stored. Empty unless bands and rows are given."""
    tuning = config.tuning
    if config.bands is None or config.rows is None:
        return []
    s = np.array(_OF_THE_BOOK)
    whole = whole_rows(s, tuning.bands, tuning.rows, 0, tuning.agreement, tuning.bands_min)
    columns = s, whole, probabilities(tuning, s)[0]
    names = "similarity", "whole_rows", "candidate_probability"
    return [dict(zip(names, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]


def picture(tuning: Tuning) -> Picture:
    """The S-curve, and the errors on either side of the threshold."""
    s, candidate, emitted = curve(tuning, POINTS)
    x, y = s.tolist(), candidate.tolist()
    below, beyond = s <= tuning.threshold, s >= tuning.threshold
    candidates = [Curve("becomes a candidate", x, y, "braille")] if tuning.bands else []
    areas = [
        Area("candidates below the threshold", s[below].tolist(), [0.0] * int(below.sum()), candidate[below].tolist()),
        Area("missed beyond it", s[beyond].tolist(), candidate[beyond].tolist(), [1.0] * int(beyond.sum())),
    ]
    marks = [Mark(f"threshold {tuning.threshold:g}", tuning.threshold, ":")]
    if tuning.margin:
        marks.append(Mark(f"cut {tuning.score_min:.{SIMILARITY_DIGITS}f}", tuning.score_min, "--"))
    return Picture(
        title=f"{tuning.bands} bands of {tuning.rows} rows" if tuning.bands else "exact",
        x_label="similarity",
        x_limits=(0.0, 1.0),
        curves=[*candidates, Curve("is emitted", x, emitted.tolist(), "hd")],
        marks=marks,
        areas=areas if tuning.bands else [],
    )


def _has_curve(config: Config) -> bool:
    """Whether the probability that a pair of a similarity is emitted is known."""
    return config.tuning.bands > 0 or SCHEMES[config.scheme].exact


def _shape(tuning: Tuning) -> dict[str, float]:
    """Return the position of the rise of the S-curve, and its errors; empty if a scheme has no bands."""
    if tuning.bands == 0:
        return {}
    shape, law = (tuning.bands, tuning.rows), (tuning.sketch_bits, tuning.agreement)
    false_area, missed_area = error_areas(*shape, tuning.threshold, *law, tuning.bands_min)
    return {
        "half_point": similarity_at(half_point(*shape), *law),
        "steep_point": similarity_at(threshold_step(*shape), *law),
        "false_candidates_area": false_area,
        "missed_area": missed_area,
    }


def _around(tuning: Tuning) -> list[tuple[float, float, float]]:
    """Return similarity, candidate probability and emission probability, at and around the threshold."""
    near = [round(tuning.threshold + distance, 4) for distance in _AROUND]
    s = sorted({value for value in near if 0 < value < 1} | {tuning.threshold, 1.0})
    candidate, emitted = probabilities(tuning, np.array(s))
    return list(zip(s, candidate.tolist(), emitted.tolist(), strict=True))


def _choice(config: Config) -> Table:
    tuning = config.tuning
    aim = f"recall {config.recall:g}" if config.false_weight is None else f"false pairs weighed {config.false_weight:g}"
    title = f"Settings for threshold {tuning.threshold:g} and {aim}"
    if tuning.bands == 0:
        return facts(
            f"Settings for threshold {tuning.threshold:g}",
            [
                ("guarantee", config.scheme, SCHEMES[config.scheme].guarantee),
                ("cut", f"{tuning.score_min:.4f}", "similarity from which a pair is emitted; the score is no estimate"),
            ],
        )
    rows_total, shape = tuning.bands * tuning.rows, _shape(tuning)
    width = rows_total * tuning.sketch_bits // 8
    if tuning.exact_score:
        cut = "similarity from which a pair is emitted; the score is no estimate"
    else:
        cut = f"estimate from which a pair is emitted: {tuning.agreements_min} rows agree"
    return facts(
        title,
        [
            ("bands", f"{tuning.bands}", "a pair is a candidate if one band agrees whole"),
            ("rows", f"{tuning.rows}", f"a band; {rows_total} in all, {width} bytes of sketch"),
            ("candidate probability", f"{tuning.candidate_probability:.4f}", "at the threshold"),
            ("pass probability", f"{tuning.pass_probability:.4f}", "at the threshold, for the score to reach the cut"),
            ("overall recall", f"{tuning.recall:.4f}", "at the threshold: the product of the two"),
            ("cut", f"{tuning.score_min:.4f}", cut),
            ("margin", f"{tuning.margin:.4f}", "of the cut below the threshold, for the sampling error"),
            ("half point", f"{shape['half_point']:.4f}", "similarity at which every second pair is a candidate"),
            ("steep point", f"{shape['steep_point']:.4f}", "about where the S-curve is steepest"),
            ("false candidates", f"{shape['false_candidates_area']:.4f}", "area under the S-curve below the threshold"),
            ("missed", f"{shape['missed_area']:.4f}", "area above the S-curve beyond the threshold"),
        ],
    )


def _probabilities(tuning: Tuning) -> Table:
    return table_of(
        ("similarity", "is a candidate", "is emitted"),
        [
            (f"{s:g}{' (threshold)' if s == tuning.threshold else ''}", f"{candidate:.6f}", f"{emitted:.6f}")
            for s, candidate, emitted in _around(tuning)
        ],
        title="A pair of this similarity",
        caption="exact for independent rows; the recall is a lower bound",
    )


def _given(tuning: Tuning, given: list[dict[str, float]]) -> Table:
    return table_of(
        ("similarity", "whole rows", "as stored"),
        [(f"{s:g}", f"{whole:.4f}", f"{stored:.4f}") for s, whole, stored in (row.values() for row in given)],
        title=f"The S-curve of {tuning.bands} bands of {tuning.rows} rows",
        caption="1 - (1 - q^rows)^bands",
    )
