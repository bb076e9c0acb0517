"""The command ``evaluate``. It imports its implementation only when it runs."""

from __future__ import annotations

from neardup.workers.cli.options import Given, command_of
from neardup.workers.options.judging import EvaluateOptions


@command_of(EvaluateOptions)
def evaluate_command(options: EvaluateOptions, given: Given) -> None:
    """Compare pairs with those that are known: confusion matrix, precision, recall, and the S-curve as it came out.

    With --clusters or --labels, compare clusters: pairwise measures, B-cubed, the adjusted Rand index.
    """
    from neardup.workers.commands.evaluate import pairs, verdicts
    from neardup.workers.settings.load import load

    judges_clusters = options.labels is not None or (options.clusters and options.truth is not None)
    (verdicts if judges_clusters else pairs).run(options, load(given, options.config))
