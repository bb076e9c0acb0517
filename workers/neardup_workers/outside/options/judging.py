"""The options of ``tune``, ``calibrate``, ``evaluate``, ``show``, ``audit``, ``passages`` and ``learn-order``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

import typer

from neardup_workers.outside.options.shared import CommandOptions, Paths, Quiet, SessionOptions

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and no picture")]
Bins = Annotated[int, typer.Option("--bins", min=1, max=1000, help="bins of similarity between 0 and 1")]


@dataclass(frozen=True, kw_only=True)
class TuneOptions(CommandOptions):
    """The arguments of ``tune``; those from ``family`` to ``documents`` ask about a family of functions."""

    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="draw the S-curve to a file that ends in .svg or .png")
    ] = None
    as_json: AsJson = False
    sample: Annotated[
        list[str] | None,
        typer.Option("--sample", metavar="PATH", help="advise a length of shingles, and show pairs by threshold"),
    ] = None
    family: Annotated[
        str | None,
        typer.Option("--family", metavar="NAME", help="propose a cascade of AND and OR for a family of functions"),
    ] = None
    d1: Annotated[float | None, typer.Option("--d1", help="distance up to which a pair should be met")] = None
    d2: Annotated[float | None, typer.Option("--d2", help="distance from which it should not")] = None
    p1: Annotated[float | None, typer.Option("--p1", help="chance to be met that is wanted at d1, at least")] = None
    p2: Annotated[float | None, typer.Option("--p2", help="chance that is allowed at d2, at most")] = None
    scale: Annotated[
        float | None, typer.Option("--scale", help="bits of an item, or width of a segment, where the family has one")
    ] = None
    documents: Annotated[
        int | None, typer.Option("--documents", metavar="N", help="tables and rows of a probe among so many documents")
    ] = None

    @property
    def family_values(self) -> dict[str, str | float | None]:
        """The given ones of those that ask about a family."""
        names = ("family", "d1", "d2", "p1", "p2", "scale", "documents")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class CalibrateOptions(CommandOptions):
    """The arguments of ``calibrate``: pairs that were judged, or with ``field`` pairs that a field judges."""

    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="pairs with a field same, true or false; with --field what run or probe wrote, with --clusters "
            "verdicts of dedup; - for standard input",
            show_default=False,
        ),
    ]
    documents: Annotated[
        list[str],
        typer.Option("--documents", metavar="FILE", help="the documents of the pairs; may stand several times"),
    ]
    field: Annotated[
        str | None,
        typer.Option("--field", metavar="NAME", help="a field that was not scored and differs less in true pairs"),
    ] = None
    kind: Annotated[str, typer.Option("--kind", help="what it holds: number, date (ISO 8601, in days) or text")] = (
        "number"
    )
    sure: Annotated[float, typer.Option("--sure", min=0, max=1, help="similarity from which a pair is surely true")] = (
        1.0
    )
    bins: Bins = 20
    clusters: Annotated[
        bool, typer.Option("--clusters", help="judge clusters by their size: each document and the one it duplicates")
    ] = False
    random_mean: Annotated[
        float | None,
        typer.Option(
            "--random-mean", help="mean difference of records at random; measured on the documents by default"
        ),
    ] = None
    difference_max: Annotated[
        float, typer.Option("--difference-max", min=0, help="look only at pairs that differ by this at most")
    ] = math.inf
    id_field: Annotated[str, typer.Option("--id-field", help="name of the id in the documents")] = "id"
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False


@dataclass(frozen=True)
class EvaluateOptions(CommandOptions):
    """The arguments of ``evaluate``: pairs against ``truth``, or with ``clusters`` or ``labels`` verdicts."""

    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="what run or probe wrote, or - for standard input; with --clusters or --labels the verdicts of dedup",
            show_default=False,
        ),
    ]
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="the known pairs: CSV with a header, or JSON Lines")
    ] = None
    clusters: Annotated[bool, typer.Option("--clusters", help="judge the clusters of verdicts by the known pairs")] = (
        False
    )
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="FILE", help="judge the clusters of verdicts by labels: table or JSON Lines"),
    ] = None
    label_field: Annotated[str, typer.Option("--label-field", metavar="NAME", help="name of the label")] = "label"
    documents: Annotated[
        int | None, typer.Option("--documents", metavar="N", min=2, help="how many documents there were")
    ] = None
    truth_min: Annotated[
        float | None,
        typer.Option("--truth-min", min=0, max=1, help="similarity of a true pair; by default the threshold"),
    ] = None
    bins: Bins = 20
    each: Annotated[
        bool, typer.Option("--each", help="count pairs of documents, not of contents that copies share")
    ] = False
    candidates: Annotated[
        bool, typer.Option("--candidates", help="the pairs were written with --candidates: show the S-curve")
    ] = False
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="draw the curves to a file that ends in .svg or .png")
    ] = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions(CommandOptions):
    """The arguments of ``show``: pairs, and the documents that they name."""

    pairs: Annotated[
        str,
        typer.Argument(metavar="PAIRS", help="what run, probe or batch wrote", show_default=False),
    ] = field(kw_only=False)
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="the documents, as the command read them", show_default=False),
    ] = field(kw_only=False)
    number: Annotated[
        int,
        typer.Option("--number", "-n", metavar="N", min=1, max=10_000, help="show the N pairs nearest the threshold"),
    ] = 20


@dataclass(frozen=True, kw_only=True)
class QuotesOptions(CommandOptions):
    """The arguments of ``quotes``: texts, a file each, and how their quotes are written."""

    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="two or more files, a text each; the older one first", show_default=False
        ),
    ] = field(kw_only=False)
    as_json: Annotated[bool, typer.Option("--json", help="print a line of JSON for each quote, and no table")] = False
    page: Annotated[
        str | None,
        typer.Option("--page", metavar="FILE", help="write a page of HTML with the texts side by side, quotes marked"),
    ] = None
    historic: Annotated[bool, typer.Option("--historic", help="take old spellings of a word as one")] = False


@dataclass(frozen=True, kw_only=True)
class AuditOptions(CommandOptions):
    """The arguments of ``audit``: the documents, and what ``run`` or ``dedup`` wrote about them."""

    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="the documents, as run or dedup read them", show_default=False),
    ] = field(kw_only=False)
    pairs: Annotated[str | None, typer.Option("--pairs", metavar="FILE", help="audit the pairs that run wrote")] = None
    verdicts: Annotated[
        str | None, typer.Option("--verdicts", metavar="FILE", help="audit the verdicts that dedup wrote")
    ] = None
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, max=1_000_000, help="contents to look at, drawn at random")
    ] = 2_000
    draw: Annotated[int, typer.Option("--draw", metavar="N", min=0, help="the number of the draw")] = 0
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class PassagesOptions(SessionOptions):
    """The arguments of ``passages``."""

    templates: Annotated[
        bool,
        typer.Option("--templates", help="list the texts that the documents repeat, for passages:templates=FILE"),
    ] = False
    documents: Annotated[
        int,
        typer.Option(
            "--documents",
            metavar="N",
            min=2,
            help="a text that N different documents repeat is a template; also one of 8 and of a fifth of a source",
        ),
    ] = 64
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="write to a file instead of standard output")
    ] = None

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        return {**super().outputs, "output": self.output}


@dataclass(frozen=True, kw_only=True)
class LearnOrderOptions(CommandOptions):
    """The arguments of ``learn-order``."""

    output: Annotated[str, typer.Option("--output", metavar="FILE", help="where the order goes: a NumPy array, .npy")]
    paths: Paths = field(default_factory=list, kw_only=False)
    order_tokens: Annotated[
        int, typer.Option("--order-tokens", min=1, max=1 << 24, metavar="N", help="tokens kept, the most frequent")
    ] = 65_536
    quiet: Quiet = False
