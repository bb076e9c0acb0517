"""The options of ``tune``, ``calibrate``, ``evaluate``, ``show``, ``audit``, ``passages`` and ``learn-order``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from neardup_workers.outside.options.shared import PATHS, QUIET, CommandOptions, SessionOptions, argument, option

AS_JSON: Any = option(False, "print one JSON object and no picture", name="--json")
BINS: Any = option(20, "bins of similarity between 0 and 1", min=1, max=1000)


@dataclass(kw_only=True, repr=False, eq=False)
class TuneOptions(CommandOptions):
    """The arguments of ``tune``; those from ``family`` to ``documents`` ask about a family of functions."""

    plot: str | None = option(None, "draw the S-curve to a file that ends in .svg or .png", metavar="FILE")
    as_json: bool = AS_JSON
    sample: list[str] | None = option(None, "advise a length of shingles, and show pairs by threshold", metavar="PATH")
    family: str | None = option(None, "propose a cascade of AND and OR for a family of functions", metavar="NAME")
    d1: float | None = option(None, "distance up to which a pair should be met")
    d2: float | None = option(None, "distance from which it should not")
    p1: float | None = option(None, "chance to be met that is wanted at d1, at least")
    p2: float | None = option(None, "chance that is allowed at d2, at most")
    scale: float | None = option(None, "bits of an item, or width of a segment, where the family has one")
    documents: int | None = option(None, "tables and rows of a probe among so many documents", metavar="N")

    @property
    def family_values(self) -> dict[str, str | float | None]:
        """The given ones of those that ask about a family."""
        names = ("family", "d1", "d2", "p1", "p2", "scale", "documents")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(repr=False, eq=False)
class CalibrateOptions(CommandOptions):
    """The arguments of ``calibrate``: pairs that were judged, or with ``field`` pairs that a field judges."""

    pairs: str = argument(
        "PAIRS",
        "pairs with a field same, true or false; with --field what run or probe wrote, with --clusters "
        "verdicts of dedup; - for standard input",
    )
    documents: list[str] = option(..., "the documents of the pairs; may stand several times", metavar="FILE")
    field: str | None = option(None, "a field that was not scored and differs less in true pairs", metavar="NAME")
    kind: str = option("number", "what it holds: number, date (ISO 8601, in days) or text")
    sure: float = option(1.0, "similarity from which a pair is surely true", min=0, max=1)
    bins: int = BINS
    clusters: bool = option(False, "judge clusters by their size: each document and the one it duplicates")
    random_mean: float | None = option(
        None, "mean difference of records at random; measured on the documents by default"
    )
    difference_max: float = option(math.inf, "look only at pairs that differ by this at most", min=0)
    id_field: str = option("id", "name of the id in the documents")
    as_json: bool = option(False, "print one JSON object", name="--json")


@dataclass(repr=False, eq=False)
class EvaluateOptions(CommandOptions):
    """The arguments of ``evaluate``: pairs against ``truth``, or with ``clusters`` or ``labels`` verdicts."""

    pairs: str = argument(
        "PAIRS", "what run or probe wrote, or - for standard input; with --clusters or --labels the verdicts of dedup"
    )
    truth: str | None = option(None, "the known pairs: CSV with a header, or JSON Lines", metavar="FILE")
    clusters: bool = option(False, "judge the clusters of verdicts by the known pairs")
    labels: str | None = option(None, "judge the clusters of verdicts by labels: table or JSON Lines", metavar="FILE")
    label_field: str = option("label", "name of the label", metavar="NAME")
    documents: int | None = option(None, "how many documents there were", metavar="N", min=2)
    truth_min: float | None = option(None, "similarity of a true pair; by default the threshold", min=0, max=1)
    bins: int = BINS
    each: bool = option(False, "count pairs of documents, not of contents that copies share")
    candidates: bool = option(False, "the pairs were written with --candidates: show the S-curve")
    plot: str | None = option(None, "draw the curves to a file that ends in .svg or .png", metavar="FILE")
    as_json: bool = AS_JSON


@dataclass(kw_only=True, repr=False, eq=False)
class ShowOptions(CommandOptions):
    """The arguments of ``show``: pairs, and the documents that they name."""

    pairs: str = argument("PAIRS", "what run, probe or batch wrote")
    paths: list[str] = argument("PATH...", "the documents, as the command read them")
    number: int = option(20, "show the N pairs nearest the threshold", short="-n", metavar="N", min=1, max=10_000)


@dataclass(kw_only=True, repr=False, eq=False)
class QuotesOptions(CommandOptions):
    """The arguments of ``quotes``: texts, a file each, and how their quotes are written."""

    paths: list[str] = argument("PATH...", "two or more files, a text each; the older one first")
    as_json: bool = option(False, "print a line of JSON for each quote, and no table", name="--json")
    page: str | None = option(None, "write a page of HTML with the texts side by side, quotes marked", metavar="FILE")
    historic: bool = option(False, "take old spellings of a word as one")


@dataclass(kw_only=True, repr=False, eq=False)
class AuditOptions(CommandOptions):
    """The arguments of ``audit``: the documents, and what ``run`` or ``dedup`` wrote about them."""

    paths: list[str] = argument("PATH...", "the documents, as run or dedup read them")
    pairs: str | None = option(None, "audit the pairs that run wrote", metavar="FILE")
    verdicts: str | None = option(None, "audit the verdicts that dedup wrote", metavar="FILE")
    sample: int = option(2_000, "contents to look at, drawn at random", metavar="N", min=1, max=1_000_000)
    draw: int = option(0, "the number of the draw", metavar="N", min=0)
    as_json: bool = AS_JSON


@dataclass(kw_only=True, repr=False, eq=False)
class PassagesOptions(SessionOptions):
    """The arguments of ``passages``."""

    templates: bool = option(False, "list the texts that the documents repeat, for passages:templates=FILE")
    documents: int = option(
        64,
        "a text that N different documents repeat is a template; also one of 8 and of a fifth of a source",
        metavar="N",
        min=2,
    )
    output: str | None = option(None, "write to a file instead of standard output", short="-o", metavar="FILE")


@dataclass(kw_only=True, repr=False, eq=False)
class LearnOrderOptions(CommandOptions):
    """The arguments of ``learn-order``."""

    output: str = option(..., "where the order goes: a NumPy array, .npy", metavar="FILE")
    paths: list[str] = PATHS
    order_tokens: int = option(65_536, "tokens kept, the most frequent", min=1, max=1 << 24, metavar="N")
    quiet: bool = QUIET
