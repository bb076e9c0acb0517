"""``neardup calibrate`` of judged pairs: the threshold of each signal with the fewest errors among them.

Judged pairs are lines with two ids and ``same``. Their similarities are measured on their documents, with the settings
that are given; a scheme with several signals has a threshold for each, by the pairs of which both sides have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.pairs.evaluation.judging import Proportion, proportion
from neardup.pairs.evaluation.thresholds import Calibrated, calibrated
from neardup_workers.doing.audit.given_pairs import Measured
from neardup_workers.doing.session.whole import whole
from neardup_workers.outside.display.printing import print_found, table_of
from neardup_workers.outside.options.judging import CalibrateOptions
from neardup_workers.outside.process.compiling import Compiling, say
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import ID_NAMES, json_objects
from neardup_workers.outside.settings.files import Settings

_Name = tuple[str | None, str]
_WIDTH_COLUMNS = 100
_ANSWERS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def run(options: CalibrateOptions, settings: Settings) -> None:
    """Calibrate and print. Raises as ``thresholds``."""
    left_out = Counter[str]()
    with Compiling(say):
        found = thresholds(options, settings, left_out)
    values = {
        name: {**one._asdict(), "right": None if (right := _right(one)) is None else right._asdict()}
        for name, one in found.items()
    }
    summary = {"signals": values, "left_out": dict(left_out)}
    print_found(summary, [_table(found)], as_json=options.as_json, columns=_WIDTH_COLUMNS)


def thresholds(options: CalibrateOptions, settings: Settings, left_out: Counter[str]) -> dict[str, Calibrated]:
    """Return the threshold of each signal by judged pairs and their documents. ``left_out`` counts lines that are no
    judged pair, and pairs of documents that are not there.

    Raises ``Failure`` if a file cannot be read, or no judged pair has its documents; ``ConfigError`` if no signal has a
    threshold.
    """
    judged = _judged(options.pairs, left_out)
    wanted = {name for older, newer, _ in judged for name in (older, newer)}
    measured = Measured(settings, _documents(settings, options.documents, wanted), "calibrate, which compares pairs")
    rows = [
        (measured.rows[older], measured.rows[newer], same)
        for older, newer, same in judged
        if older in measured.rows and newer in measured.rows
    ]
    if len(rows) < len(judged):
        left_out["judged pairs of documents that were not given, or are refused"] = len(judged) - len(rows)
    if not rows:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items()) or "it is empty"
        raise Failure(
            Exit.INPUT, f"{options.pairs} holds no judged pair ({why}): give two ids and same in a line, or --field"
        )
    older, newer, same = zip(*rows, strict=True)
    answers = np.array(same, np.bool_)
    found = calibrated(measured.by_signal(older, newer), answers, settings.false_weight or 0.5)
    if all(one.threshold is None for one in found.values()):
        raise ConfigError(
            f"{int(answers.sum())} of {len(answers)} judged pairs are the same, but a threshold needs pairs judged "
            "both ways: judge more pairs"
        )
    return found


def _judged(path: str, left_out: Counter[str]) -> list[tuple[_Name, _Name, bool]]:
    """Return the judged pairs of a file: two documents, and whether they are the same."""
    pairs = []
    for line in json_objects(path, left_out):
        ids = next(([line[name] for name in names] for names in ID_NAMES if set(names) <= line.keys()), None)
        answer = _ANSWERS.get(str(line.get("same")).lower())
        if ids is None or answer is None:
            left_out["lines without older, newer and same (true or false)"] += 1
            continue
        older, newer = ((line.get("collection") or None, str(id_)) for id_ in ids)
        pairs.append((older, newer, answer))
    return pairs


def _documents(settings: Settings, paths: Sequence[str], wanted: set[_Name]) -> list[Document]:
    """Return the documents of these names, of each the last version."""
    found: dict[_Name, Document] = {}
    with whole(settings, paths) as session:
        for document in session.documents(paths):
            name = document.collection or None, str(document.id)
            if name in wanted:
                found[name] = document
    return list(found.values())


def _right(one: Calibrated) -> Proportion | None:
    """Which part of the judged pairs a threshold decides as they were judged."""
    if one.missed is None or one.false is None:
        return None
    judged_all = one.same + one.different
    return proportion(judged_all - one.missed - one.false, judged_all)


def _table(found: Mapping[str, Calibrated]) -> Table:
    table = table_of(
        ("signal", "threshold", "missed", "false", "right"),
        [_row(name, one) for name, one in found.items()],
        title="The threshold of each signal with the fewest errors among judged pairs",
        caption="in brackets what holds in 95 of 100 resamples; missed: judged the same, below the threshold; false: "
        "judged different, from it on",
    )
    table.columns[0].justify = "left"
    return table


def _row(name: str, one: Calibrated) -> tuple[str, ...]:
    right = _right(one)
    if right is None:
        return name, "none", f"of {one.same:,}", f"of {one.different:,}", ""
    return (
        name, f"{one.threshold:g} ({one.low:g} to {one.high:g})", f"{one.missed:,} of {one.same:,}",
        f"{one.false:,} of {one.different:,}", f"{right.value:.3f} ({right.low:.3f} to {right.high:.3f})",
    )  # fmt: skip
