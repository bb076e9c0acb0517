"""What limits cost in a run: counted by hour, source and cluster, and reported at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from neardup.stream.batches import Batch
from neardup.stream.collections.ids import bare_ids
from neardup.stream.estimates.limits import counted_recall
from neardup.stream.estimates.loss_accounts import LossAccounts
from neardup.stream.pipeline import Matcher, Slice
from neardup.stream.sources.names import host_of
from neardup.workers.readers.paths import display


def count_losses(
    accounts: LossAccounts, matcher: Matcher, batch: Batch, part: Slice, source_of: Callable[[int], str] | None = None
) -> None:
    """Count the losses of a slice; ``source_of`` names the source of an item, by default the host of its id."""
    losses = part.losses
    if len(losses.items):
        ids, named = matcher.table.ids(losses.oldest), batch.ids_at(losses.items)
        if matcher.config.separate:
            ids, named = bare_ids(ids), bare_ids(named)
        if source_of is None:
            sources = [host_of(id_) or "" for id_ in named]
        else:
            sources = list(map(source_of, losses.items.tolist()))
        accounts.add(losses, batch.times[losses.items], ids, sources)


def summary_of(counts: Mapping[str, int], accounts: LossAccounts) -> dict[str, Any]:
    """Return what a summary says of limits, besides the counters of the table."""
    recall = counted_recall(counts)
    found: dict[str, Any] = {"recall_by_limits": None if recall is None else round(recall, 4)}
    values = accounts.values()
    return found | ({"limits": values} if values["largest"] else {})


def sentences(counts: Mapping[str, int], limits: str, accounts: LossAccounts) -> list[str]:
    """Return a warning for limits that were reached, and the clusters that lose most; nothing if none was.

    ``limits`` names the settings with their values.
    """
    if not counts["truncated"] and not counts["cuts"]:
        return []
    truncated, missed = counts["truncated"], counts["missed_pairs"]
    what = f"{truncated:,} documents" if truncated else f"a bucket, {counts['cuts']:,} times,"
    expected = f"{missed:,} pairs are expected to be missing; " if missed else ""
    lines = [
        f"warning: pairs may be missing: {what} had more candidates than {limits} allows; {expected}"
        "a higher limit finds more and takes longer"
    ]
    largest = [one for one in accounts.values()["largest"] if one["missed_pairs"] >= 1]
    if largest:
        lines.append("pairs expected to be missing, by the oldest document of their cluster that was compared:")
        lines += [f"{one['missed_pairs']:>10,.0f}  {display(one['id'])}" for one in largest]
    return lines
