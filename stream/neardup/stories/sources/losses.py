"""What limits cost, with names: the hour, the source and the cluster of each truncated probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.ids import bare_ids
from neardup.pairs.batches import Batch
from neardup.pairs.estimates.limits import Losses
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.pipeline import Matcher, Slice
from neardup.stories.sources.names import host_of


class NamedLosses(NamedTuple):
    """The arguments of ``LossAccounts.add``."""

    losses: Losses
    times: npt.NDArray[np.int64]
    clusters: list[str]
    sources: list[str]


def named_losses(
    matcher: Matcher, batch: Batch, part: Slice, source_of: Callable[[int], str] | None = None
) -> NamedLosses:
    """Return the losses of a slice, in the step that matched it. ``source_of`` names the source of an item, empty for
    none; by default it is the host of its id."""
    losses = part.losses
    ids, named = matcher.table.ids(losses.oldest), batch.ids_at(losses.items)
    if matcher.config.separate:
        ids, named = bare_ids(ids), bare_ids(named)
    if source_of is None:
        sources = [host_of(id_) or "" for id_ in named]
    else:
        sources = list(map(source_of, losses.items.tolist()))
    return NamedLosses(losses, batch.times[losses.items], ids, sources)


def count_losses(
    accounts: LossAccounts, matcher: Matcher, batch: Batch, part: Slice, source_of: Callable[[int], str] | None = None
) -> None:
    """Count the losses of a slice; arguments as for ``named_losses``."""
    if len(part.losses.items):
        accounts.add(*named_losses(matcher, batch, part, source_of))
