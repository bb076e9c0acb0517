"""The command ``evaluate``. It imports its implementation only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from neardup.workers.cli.arguments import SettingsFile
from neardup.workers.cli.options import given
from neardup.workers.process.exits import Exit, Failure

Judged = Annotated[
    str,
    typer.Argument(
        metavar="PAIRS",
        help="what run or probe wrote, or - for standard input; with --clusters or --labels the verdicts of dedup",
        show_default=False,
    ),
]
Truth = Annotated[
    str | None, typer.Option("--truth", metavar="FILE", help="the known pairs: CSV with a header, or JSON Lines")
]
Labels = Annotated[
    str | None,
    typer.Option("--labels", metavar="FILE", help="judge the clusters of verdicts by labels: table or JSON Lines"),
]
TruthMin = Annotated[
    float | None, typer.Option("--truth-min", min=0, max=1, help="similarity of a true pair; by default the threshold")
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="draw the curves to a file that ends in .svg or .png")
]


def evaluate_command(
    ctx: typer.Context,
    pairs: Judged,
    truth: Truth = None,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="judge the clusters of verdicts by the known pairs")
    ] = False,
    labels: Labels = None,
    label_field: Annotated[str, typer.Option("--label-field", metavar="NAME", help="name of the label")] = "label",
    documents: Annotated[
        int | None, typer.Option("--documents", metavar="N", min=2, help="how many documents there were")
    ] = None,
    truth_min: TruthMin = None,
    bins: Annotated[int, typer.Option("--bins", min=1, max=1000, help="bins of similarity between 0 and 1")] = 20,
    each: Annotated[
        bool, typer.Option("--each", help="count pairs of documents, not of contents that copies share")
    ] = False,
    candidates: Annotated[
        bool, typer.Option("--candidates", help="the pairs were written with --candidates: show the S-curve")
    ] = False,
    plot: Plot = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object and no picture")] = False,
    config: SettingsFile = None,
) -> None:
    """Compare pairs with those that are known: confusion matrix, precision, recall, and the S-curve as it came out.

    With --clusters or --labels, compare clusters: pairwise measures, B-cubed, the adjusted Rand index.
    """
    from neardup.workers.commands.evaluate import pairs as pair_evaluation
    from neardup.workers.commands.evaluate import verdicts as cluster_evaluation
    from neardup.workers.settings.files import Settings
    from neardup.workers.settings.load import load

    settings = load(given(ctx), config, Settings)
    if labels is not None or (clusters and truth is not None):
        least = settings.threshold if truth_min is None else truth_min
        asked = cluster_evaluation.ClusterOptions(pairs, labels, label_field, truth, least)
        cluster_evaluation.run(asked, plot=plot, as_json=as_json)
    elif truth is not None:
        options = pair_evaluation.EvaluateOptions(pairs, truth, documents, truth_min, bins, each, candidates)
        pair_evaluation.run(options, settings, plot=plot, as_json=as_json)
    else:
        raise Failure(Exit.USAGE, "evaluate needs what is true: give --truth FILE, or --labels FILE for clusters")
