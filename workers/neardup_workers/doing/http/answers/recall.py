"""What the service finds of what should be: limits and canaries, for the figures, the metrics and the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.stories.canaries.canaries import FAULT, Canaries, recall_values
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.telemetry.recall import count_canaries, set_recall

_FAULT = (
    "a document of the window was not found, although it shares a bucket with what looked for it, %s times: copies of "
    "other documents may be missed, too; restart the service, and report this"
)
_RARE = "canaries are found less often than the settings promise: look at recall of /v1/figures"


class Recall:
    """The recall of a window. ``count`` belongs to the thread of the writer, the others may be called from any.
    ``counts`` returns the counters of the table; ``losses`` is what limits cost."""

    def __init__(
        self, counts: Callable[[], Mapping[str, int]], canaries: Canaries, losses: LossAccounts, observer: Metrics
    ) -> None:
        self._counts, self._canaries, self._losses, self.observer = counts, canaries, losses, observer
        self._said = False
        self._counted: tuple[Counter[str], Counter[str]] = Counter(), Counter()

    def values(self) -> dict[str, Any]:
        """Return what is known of recall as values of JSON."""
        return recall_values(self._counts(), self._canaries, self._losses)

    def count(self) -> None:
        """Count what canaries have found since the last call; say in the log what is wrong."""
        looks = self._canaries.looks
        if looks.outcomes.total() == self._counted[0].total():  # counts only grow
            return
        probes, bands = looks.outcomes - self._counted[0], looks.bands - self._counted[1]
        self._counted = looks.outcomes.copy(), looks.bands.copy()
        count_canaries(self.observer, probes, bands)
        if probes[FAULT]:
            logging.getLogger(__name__).error(_FAULT, f"{probes[FAULT]:,}")
        if looks.alarm.rings and not self._said:
            self._said = True
            logging.getLogger(__name__).error(_RARE)

    def measure(self) -> None:
        """Set the gauges of recall."""
        values = self.values()
        set_recall(self.observer, values["limits"], values["canaries"])
