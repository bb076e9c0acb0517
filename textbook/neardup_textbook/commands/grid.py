"""``neardup tune --scheme grid``: how often the functions of a grid bring prints together.

Source: Mining of Massive Datasets, 3.8.5, and Exercises 3.8.2 to 3.8.5.
"""

from __future__ import annotations

from typing import cast

from rich.table import Table

from neardup.schemes.config import Config
from neardup_textbook.kinds.grid_functions import candidate_probability
from neardup_textbook.kinds.grids import GridOptions
from neardup_workers.outside.display.printing import table_of

# Of a print, the part of the squares that hold a minutia; and for two prints of one finger, the part of these that hold
# one in the other too (Mining of Massive Datasets, Example 3.23).
_MINUTIAE, _REPEATED = 0.2, 0.8


def rates(config: Config) -> list[dict[str, float]]:
    """Return for each number of groups how likely two prints are candidates, of one finger and of two fingers: if
    functions were independent, and as they are on this grid."""
    options = cast(GridOptions, config.scheme_options)
    shape = options.functions, options.function_squares
    chances = {"one_finger": _MINUTIAE * _REPEATED, "two_fingers": _MINUTIAE * _MINUTIAE}
    return [
        {
            "groups": groups,
            **{f"{name}_function": chance**options.function_squares for name, chance in chances.items()},
            **{f"{name}_independent": candidate_probability(p, None, groups, *shape) for name, p in chances.items()},
            **{name: candidate_probability(p, options.squares, groups, *shape) for name, p in chances.items()},
        }
        for groups in range(1, options.groups + 1)
    ]


def table(config: Config) -> Table:
    """Return the rates as a table."""
    rows = rates(config)
    one, two = (f"{rows[0][f'{name}_function']:.6f}" for name in ("one_finger", "two_fingers"))
    kinds = [f"{name}{kind}" for name in ("one_finger", "two_fingers") for kind in ("_independent", "")]
    return table_of(
        ("groups", "one finger, independent", "on this grid", "two fingers, independent", "on this grid"),
        [(f"{row['groups']}", *(f"{row[kind]:.4f}" for kind in kinds)) for row in rows],
        title=f"A function says yes to two prints of one finger with {one}, to prints of two fingers with {two}",
        caption=f"if a square holds a minutia with {_MINUTIAE:g}, and again in another print of the finger with "
        f"{_REPEATED:g}",
    )
