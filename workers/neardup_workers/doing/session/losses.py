"""What limits cost in a run, as the summary reports it at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neardup.pairs.estimates.limits import counted_documents, counted_recall
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup_workers.outside.readers.paths import display


def summary_of(counts: Mapping[str, int], accounts: LossAccounts) -> dict[str, Any]:
    """Return what a summary says of limits, besides the counters of the table."""
    figures = {"recall_by_limits": counted_recall(counts), "documents_by_limits": counted_documents(counts)}
    summary: dict[str, Any] = {name: None if one is None else round(one, 4) for name, one in figures.items()}
    values = accounts.values()
    return summary | ({"limits": values} if values["largest"] else {})


def sentences(counts: Mapping[str, int], limits: str, accounts: LossAccounts) -> list[str]:
    """Return a warning for limits that were reached, and the clusters that lose most; nothing if none was.

    ``limits`` names the settings with their values.
    """
    if not counts["truncated"] and not counts["cuts"]:
        return []
    truncated, missed = counts["truncated"], counts["missed_pairs"]
    what = f"{truncated:,} documents" if truncated else f"a bucket, {counts['cuts']:,} times,"
    expected = f"{missed:,} pairs are expected to be missing; " if missed else ""
    if counts["lone_documents"]:
        expected += f"{counts['lone_documents']:,} documents have no pair and may lack all of theirs; "
    lines = [
        f"warning: pairs may be missing: {what} had more candidates than {limits} allows; {expected}"
        "a higher limit finds more and takes longer"
    ]
    largest = [one for one in accounts.values()["largest"] if one["missed_pairs"] >= 1]
    if largest:
        lines.append("pairs expected to be missing, by the oldest document of their cluster that was compared:")
        lines += [f"{one['missed_pairs']:>10,.0f}  {display(one['id'])}" for one in largest]
    return lines
