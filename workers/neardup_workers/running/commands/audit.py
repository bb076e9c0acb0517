"""``neardup audit``: the figures of an audit as tables or JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from neardup.pairs.evaluation.judging import Proportion
from neardup_workers.doing.audit.measuring import Audit, Miss, audit, sentence_of, summary_of
from neardup_workers.outside.display.printing import print_found, table_of
from neardup_workers.outside.options.judging import AuditOptions
from neardup_workers.outside.settings.files import Settings

# Characters of a text that are shown.
_CHARACTERS = 240


def run(options: AuditOptions, settings: Settings) -> None:
    """Audit and print. Raises ``Failure`` for files that cannot be used."""
    audited = audit(options, settings, quiet=False)
    kind = "pairs" if options.pairs is not None else "verdicts"
    print_found(summary_of(audited, kind, settings), _tables(audited, kind, settings), as_json=options.as_json)


def _tables(audited: Audit, kind: str, settings: Settings) -> list[Table]:
    title = f"{audited.sampled:,} of {audited.contents:,} contents, threshold {settings.threshold:g}"
    figures = table_of(("", "share", "from", "to", "of"), (), title=title)
    figures.columns[0].justify = figures.columns[-1].justify = "left"

    def add(name: str, value: Proportion, units: str) -> None:
        figures.add_row(name, *("-" if math.isnan(x) else f"{x:.4f}" for x in value), units)

    if audited.late:
        figures.caption = f"{audited.late:,} more came later than lateness_seconds: nothing is promised of them"
    if kind == "pairs":
        add("documents with a pair", audited.recall, f"{audited.units:,} with an earlier neighbour")
        add("pairs found", audited.pairs, f"{audited.effective_units:,.0f} effective units")
    else:
        add("documents dropped", audited.recall, f"{audited.units:,} with an earlier kept neighbour")
        add("near their original", audited.precision, f"{audited.dropped:,} duplicates")
        if audited.new:
            figures.add_row("kept because new", "", "", "", f"{audited.new:,} near a kept one")
    return [figures, *_overview(audited.misses), *(_table_of(miss) for miss in audited.misses)]


def _overview(misses: Sequence[Miss]) -> list[Table]:
    """Return the misses in a line each, if there are any; their texts and the sentences of the reasons follow."""
    if not misses:
        return []
    rows = [(f"{miss.similarity:.4f}", Text(miss.older.id), Text(miss.newer.id), miss.reason) for miss in misses]
    return [table_of(("at", "older", "newer", "why"), rows, justify="left", title="the most similar misses")]


def _table_of(miss: Miss) -> Table:
    rows: list[tuple[Text | str, Text | str]] = [
        (Text(id_), Text(text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 3] + "..."))
        for id_, text, *_ in (miss.older, miss.newer)
    ]
    rows.append(("why", sentence_of(miss)))
    return table_of(("", ""), rows, justify="left", title=f"missed at {miss.similarity:.4f}", show_header=False)
