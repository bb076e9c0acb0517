"""``python -m benchmarks.labelled [--data FOLDER] [--write FILE] [SET]...``: the tables of ``docs/RESULTS.md``.

A set that is not there is refused by a sentence and keeps the row that it has. The choice is made on one half of a set
and scored on the other; the default stays where nothing is better. In brackets: precision and recall.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.labelled.judging import choose, halves, judge, value_of
from benchmarks.labelled.records import Score
from benchmarks.labelled.sets import SETS, LabelledSet, Settings, folder_of
from neardup_workers.outside.settings import option_name
from neardup_workers.running.cli.options import TYPED

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
HEAD = (
    "| set | measure | all, by default | other half, by default | other half, as chosen | the choice |",
    "|---|---|---|---|---|---|",
)


def said(settings: Settings) -> str:
    """Settings as a person types them."""
    words = [
        f"{option_name(name)} {_value(value)}" if name in TYPED else f"--set {name}={_value(value)}"
        for name, value in settings.items()
    ]
    return f"`{' '.join(words)}`" if words else "no option"


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _shown(score: Score, one: LabelledSet) -> str:
    return f"{value_of(score, one.measure):.3f} ({score.precision:.3f} / {score.recall:.3f})"


def row_of(name: str, one: LabelledSet, folder: Path) -> str:
    """The row of the table for a set that is there."""
    labelled = one.read(folder)
    whole = labelled if isinstance(labelled, Score) else judge(labelled, one.default)
    if isinstance(labelled, Score) or not one.choices:
        return f"| {name} | {one.measure} | {_shown(whole, one)} | | | |"
    chosen_on, other = halves(labelled)
    choice = choose(chosen_on, (one.default, *one.choices), one.measure)
    before, after = judge(other, one.default), judge(other, choice)
    changed = {key: value for key, value in choice.items() if one.default.get(key) != value}
    what = said(changed) if changed else "the default"
    cells = (name, one.measure, _shown(whole, one), _shown(before, one), _shown(after, one), what)
    return f"| {' | '.join(cells)} |"


def written(document: str, rows: dict[str, str]) -> str:
    """The document with new rows: one for each set, those that are not in ``rows`` as they were."""
    block = re.search(r"<!-- results -->\n(.*?)<!-- end -->", document, re.S)
    old = {line.split(" | ")[0].removeprefix("| "): line for line in (block[1] if block else "").splitlines()}
    lines = [
        rows.get(name) or old.get(name) or f"| {name} | {one.measure} | not run | | | |" for name, one in SETS.items()
    ]
    document = between(document, "results", [*HEAD, *lines])
    defaults: list[str] = []
    last: Settings = {}
    for name, one in SETS.items():
        default = "the same" if one.default == last else said(one.default)
        defaults.append(f"- `{name}`: {one.title}." + (f" By default: {default}." if one.default else ""))
        last = one.default
    document = between(document, "sets", defaults)
    return between(document, "published", _published())


def _published() -> list[str]:
    """The table of the figures of others."""
    rows = ["| set | measure | what | figure | source |", "|---|---|---|---|---|"]
    rows += [
        f"| {name} | {one.measure} | {other.what} | {other.value:.3f} | {other.source} |"
        for name, one in SETS.items()
        for other in one.published
    ]
    return rows


def between(document: str, name: str, lines: Sequence[str]) -> str:
    """The document with other lines between the marks of a name."""
    block = "\n".join([f"<!-- {name} -->", *lines, "<!-- end -->"])
    return re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _: block, document, flags=re.S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows; exit code 1 if a set that was named is not there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labelled", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the folders of the sets")
    parser.add_argument("--write", type=Path, help="put the tables into this document, as make results does")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; all by default")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sets if name not in SETS]
    if unknown:
        parser.error(f"no set {unknown[0]!r}: name some of {', '.join(SETS)}")
    rows: dict[str, str] = {}
    for name in options.sets or SETS:
        try:
            rows[name] = row_of(name, SETS[name], folder_of(SETS[name], options.data))
            sys.stdout.write(f"{rows[name]}\n")
        except FileNotFoundError as error:
            sys.stderr.write(f"{name} was not run: {error.filename} is not there; --data names the folder of sets\n")
        sys.stdout.flush()
    if options.write:
        options.write.write_text(written(options.write.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return int(bool(options.sets) and len(rows) < len(options.sets))


if __name__ == "__main__":
    sys.exit(main())
