"""``neardup evaluate``: compares emitted pairs with known pairs, as tables, JSON and a picture.

Pairs are counted between contents. Links between copies (similarity 1) join documents with one content: of n copies the
stream links n - 1 and compares one with other contents. ``--each`` counts documents instead.

The truth is a table with a header or JSON Lines. Two columns hold the pairs: the columns of these names, or the first
two. A column ``similarity`` is optional, and so is one of ``LABEL_NAMES``, in which 0 or no says that a row is no pair.
Pairs of the truth below ``--truth-min`` are not true, but show the curve.

With ``--candidates`` the pairs are the output of ``neardup run --candidates``. Pairs at or above ``score_min`` count as
emitted, and all pairs are compared with the S-curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from neardup.pairs.evaluation.judging import Confusion, Contents, CurveBin, Floats, Pair, Proportion, bins, confusion
from neardup.schemes.config import Config
from neardup.schemes.theory.tuning import curve, probabilities
from neardup_workers.outside.display.pictures import POINTS, Curve, Mark, Picture
from neardup_workers.outside.display.printing import print_found, table_of
from neardup_workers.outside.options.judging import EvaluateOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import ID_NAMES, json_objects, pair_lines
from neardup_workers.outside.readers.paths import display

# Names of a column that says whether a pair is true, and values that say that it is not.
LABEL_NAMES = ("label", "match", "is_match", "duplicate", "is_duplicate", "same", "gold")
_DIFFERENT = frozenset(("0", "0.0", "-1", "false", "no", "n", "f", "different", "distinct", "non-match", "none", ""))
SIMILARITY_NAMES = ("similarity", "jaccard", "score")


class Known(NamedTuple):
    """Known pairs, with or without similarities."""

    pairs: list[Pair]
    similarity: Floats | None


class Evaluation(NamedTuple):
    """The result: the matrix, the number of documents that are copies, the curve, and counts of omitted input."""

    confusion: Confusion
    copies: int
    curve: list[CurveBin]
    left_out: dict[str, int]


def run(options: EvaluateOptions, config: Config) -> None:
    """Evaluate and print. Raises ``Failure`` for unusable input and ``ConfigError`` for unusable settings."""
    evaluation = evaluate(options, config)
    drawn = picture(config, evaluation.curve, options.candidates) if evaluation.curve else None
    if options.plot is not None and drawn is None:
        raise Failure(Exit.USAGE, f"--plot {options.plot}: the truth has no similarities to draw a curve over")
    print_found(_summary(evaluation), _tables(evaluation), as_json=options.as_json, drawn=drawn, plot=options.plot)


def evaluate(options: EvaluateOptions, config: Config) -> Evaluation:
    """Compare emitted pairs with known pairs. Raises ``Failure`` for files that cannot be read or used."""
    if options.truth is None:
        raise Failure(Exit.USAGE, "evaluate needs what is true: give --truth FILE, or --labels FILE for clusters")
    left_out = Counter[str]()
    links: list[Pair] = []
    emitted: list[Pair] = []
    listed: list[Pair] = []
    for older, newer, line in pair_lines(options.pairs, left_out):
        similarity = line.get("similarity")
        listed.append((older, newer))
        if similarity == 1 and not options.each:
            links.append((older, newer))
        if not options.candidates or (isinstance(similarity, int | float) and similarity >= config.tuning.score_min):
            emitted.append((older, newer))
    if left_out and not listed:
        raise Failure(Exit.UNUSABLE, f"{options.pairs} holds lines and no pair: give what run or probe wrote")
    known = read_truth(options.truth, left_out)
    if listed and {id_ for pair in listed for id_ in pair}.isdisjoint(id_ for pair in known.pairs for id_ in pair):
        raise of_others(options.truth, "a pair of", known.pairs[0][0], options.pairs)
    contents = Contents(links)
    between = contents.pairs(known.pairs)
    least = config.threshold if options.truth_min is None else options.truth_min
    similarities = {} if known.similarity is None else dict(zip(known.pairs, known.similarity.tolist(), strict=True))
    true = [content for content, pair in between.items() if similarities.get(pair, 1.0) >= least]
    said = set(contents.pairs(emitted))
    matrix = confusion(said, true, options.documents, contents.copies)
    shown: list[CurveBin] = []
    if similarities and between:
        shown_pairs = set(contents.pairs(listed))
        are_found = np.array([content in shown_pairs for content in between])
        exact = np.array([similarities[pair] for pair in between.values()])
        edges = np.linspace(0.0, 1.0, options.bins + 1).round(6).tolist()
        shown = bins(exact, are_found, edges, lambda s: probabilities(config.tuning, s)[not options.candidates])
    return Evaluation(matrix, contents.copies, shown, dict(left_out))


def read_truth(path: str, left_out: Counter[str]) -> Known:
    """Return the pairs of a truth file, in any format that has lines; a table with commas if it is none of them."""
    others = "rows of the truth that cannot be read"
    return _known(path, json_objects(path, left_out, others, otherwise="csv"), left_out)


def _known(path: str, rows: Iterable[dict[str, Any]], left_out: Counter[str]) -> Known:
    pairs: list[Pair] = []
    similarity: list[float] = []
    names: tuple[str, str] | None = None
    score: str | None = None
    label: str | None = None
    for row in rows:
        if names is None:
            columns = list(row)
            if len(columns) < 2:
                raise Failure(Exit.UNUSABLE, f"{path} has no two columns with the ids of a pair")
            names = next((two for two in ID_NAMES if set(two) <= row.keys()), None)
            if names is None and "id" in row:
                raise Failure(
                    Exit.UNUSABLE, f"{path} is of single documents: the truth has the two ids of a pair a row"
                )
            names = names or (columns[0], columns[1])
            score = next((name for name in SIMILARITY_NAMES if name in row), None)
            label = next((name for name in LABEL_NAMES if name in row), None)
        if label is not None and str(row.get(label)).casefold() in _DIFFERENT:
            left_out["pairs that the truth calls different"] += 1
            continue
        a, b = row.get(names[0]), row.get(names[1])
        try:
            value = 1.0 if score is None else float(row[score])
        except (KeyError, TypeError, ValueError):
            value = float("nan")
        if a is None or b is None or a == b or not 0 <= value <= 1:
            left_out["rows of the truth that are no pair of two ids and a similarity from 0 to 1"] += 1
            continue
        pairs.append((str(a), str(b)))
        similarity.append(value)
    if not pairs:
        raise Failure(Exit.UNUSABLE, f"{path} holds no pair: give CSV with a header and the ids in two columns")
    return Known(pairs, np.array(similarity) if score else None)


def of_others(path: str, what: str, id_: str, read: str) -> Failure:
    """Return the failure for a truth that names no document of what it judges."""
    return Failure(
        Exit.UNUSABLE,
        f"{display(path)} has {what} {id_!r}, and no id that {display(read)} has: give the truth about these documents",
    )


def picture(config: Config, shown: list[CurveBin], candidates: bool) -> Picture:
    """Plot the found fraction of each bin over the promised curve."""
    s, candidate, emitted = curve(config.tuning, POINTS)
    promised = candidate if candidates else emitted
    middles = [(one.low + one.high) / 2 for one in shown]
    return Picture(
        title="found share of the known pairs, and the share that was promised",
        x_label="similarity",
        x_limits=(0.0, 1.0),
        curves=[
            Curve("promised", s.tolist(), promised.tolist(), "braille"),
            Curve("found", middles, [one.share.value for one in shown], "hd"),
        ],
        marks=[Mark(f"threshold {config.threshold:g}", config.threshold, ":")],
        areas=[],
    )


def _tables(evaluation: Evaluation) -> list[Table]:
    hits, false, missed, rest = evaluation.confusion
    rows = [
        ("emitted", f"{hits:,}", f"{false:,}"),
        ("not emitted", f"{missed:,}", "not counted" if rest is None else f"{rest:,}"),
    ]
    matrix = table_of(("", "true", "not true"), rows, title="Pairs of contents" if evaluation.copies else "Pairs")
    values = [(name, *(f"{x:.4f}" for x in value)) for name, value in _proportions(evaluation.confusion).items()]
    shares = table_of(("", "share", "from", "to"), values, title="Shares, with intervals of 95%")
    if not evaluation.curve:
        return [matrix, shares]
    headings = ("similarity", "pairs", "found", "share", "from", "to", "promised")
    bands = [
        (f"{one.low:g} to {one.high:g}", f"{one.pairs:,}", f"{one.found:,}", *(f"{x:.3f}" for x in one.share),
         f"{one.expected:.3f}")
        for one in evaluation.curve
    ]  # fmt: skip
    return [matrix, shares, table_of(headings, bands, title="Known pairs by their similarity")]


def _proportions(matrix: Confusion) -> dict[str, Proportion]:
    return {"precision": matrix.precision(), "recall": matrix.recall(), "F1": matrix.f1()}


def _summary(evaluation: Evaluation) -> dict[str, Any]:
    """Return plain values; an unknown value is null."""
    return {
        "confusion": evaluation.confusion._asdict(),
        "copies": evaluation.copies,
        **{name.lower(): value._asdict() for name, value in _proportions(evaluation.confusion).items()},
        "curve": [{**one._asdict(), "share": one.share._asdict()} for one in evaluation.curve],
        "left_out": evaluation.left_out,
    }
