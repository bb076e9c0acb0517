"""S25: audits by a sample against the exact truth, on real sets and on one where a limit costs most pairs.

The truth is an exact join of the sets of shingles, over distinct contents in order of arrival: of those with an earlier
neighbour at the threshold, the fraction with a pair. An audit sees a part of the contents only, and a set is audited
with several draws: *cover* is the fraction of them whose interval holds the truth. For verdicts a unit has an earlier
neighbour with a kept document before it. *Run*, *dedup* and *audit* are their CPU seconds, with those of their
processes, after a run that loads the kernels.

``python -m benchmarks --only S25`` makes the table of the guarantees.
"""

from __future__ import annotations

import json
import math
import resource
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from benchmarks.labelled.records import Labelled, books
from benchmarks.labelled.sets import SETS, folder_of
from benchmarks.pages.extraction import articles
from benchmarks.real import DATA, REAL_SETS, bags, read_documents
from benchmarks.recall.truncation import uneven
from benchmarks.report import Result, Size, Target
from benchmarks.texts import similar_pairs
from neardup import Document
from neardup.schemes.scheme_text import split_scheme
from neardup_workers.doing.audit.measuring import Audit, audit
from neardup_workers.outside.options.documents import DedupOptions, RunOptions
from neardup_workers.outside.options.judging import AuditOptions
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.dedup.command import run as dedup
from neardup_workers.running.commands.run import run as pairs_of

ID, SEED = "S25-audit", 25
_THRESHOLDS = (0.8, 0.6)
_SAMPLE = 2_000
_DRAWS: dict[Size, int] = {"smoke": 2, "default": 5, "large": 40}
_SMOKE = ("irplag_java char5",)
_GENERATED = "generated, most pairs in one"
_GENERATED_DOCUMENTS: dict[Size, int] = {"smoke": 1_500, "default": 6_000, "large": 20_000}
_LEVEL = 0.95


class Truth(NamedTuple):
    """Distinct contents, those with an earlier neighbour, and the fractions of these with a pair and of the pairs;
    the content of each document, and each two similar ones."""

    contents: int
    units: int
    documents: float
    pairs: float
    content: list[int]
    similar: set[tuple[int, int]]


def truth_of(documents: Sequence[Document], said: Sequence[tuple[str, str]], settings: Settings) -> Truth:
    """Compare pairs of ids with an exact join."""
    place = {document.id: n for n, document in enumerate(documents)}
    numbers: dict[bytes, int] = {}
    content, first = list[int](), list[int]()
    sets: list[npt.NDArray[np.uint64]] = []
    for n, bag in enumerate(bags(list(documents), settings)):
        number = numbers.setdefault(bag.tobytes(), len(sets))
        if number == len(sets):
            first.append(n)
            sets.append(bag)
        content.append(number)
    true = set(similar_pairs([np.unique(one) for one in sets], settings.threshold))
    found: set[int] = set()
    joined: set[tuple[int, int]] = set()
    for pair in said:
        x, y = (place[id_] for id_ in pair)
        for own, other in ((x, y), (y, x)):
            if other < first[content[own]]:
                found.add(content[own])
        joined.add((min(content[x], content[y]), max(content[x], content[y])))
    units = {b for _, b in true}
    documents_found = len(units & found) / len(units) if units else math.nan
    pairs_found = len(true & joined) / len(true) if true else math.nan
    return Truth(len(sets), len(units), documents_found, pairs_found, content, true)


def dropped_of(truth: Truth, kept: Sequence[bool]) -> float:
    """Of the contents with an earlier neighbour of which a document before them is kept, the fraction whose first
    document is dropped; ``kept`` says it of each document."""
    first, first_kept = dict[int, int](), dict[int, int]()
    for n, content in enumerate(truth.content):
        first.setdefault(content, n)
        if kept[n]:
            first_kept.setdefault(content, n)
    units = {b for a, b in truth.similar if first_kept.get(a, len(kept)) < first[b]}
    return sum(not kept[first[unit]] for unit in units) / len(units) if units else math.nan


def run(size: Size) -> Iterator[Result]:
    """Each set at two thresholds, of texts, of records and of items: pairs of ``run``, then verdicts of ``dedup``."""
    names = _SMOKE if size == "smoke" else tuple(REAL_SETS)
    every: list[Result] = []
    list(_audited("kernels", uneven(50, SEED), Settings(), 1))
    for name in names:
        row = REAL_SETS[name]
        if not (DATA / row.documents[0]).exists():
            every.append(Result(ID, name, None, "", details={"note": "the folder of real data is not there"}))
            continue
        documents = read_documents(row.documents)
        for threshold in _THRESHOLDS:
            settings = Settings(shingles=row.shingles, k=row.k, threshold=threshold)
            every += _audited(f"{name}, {threshold}", documents, settings, _DRAWS[size])
    for name, given, documents in (*_sets_of_records(), *_other_sets()) if size != "smoke" else ():
        for threshold in _THRESHOLDS:
            every += _audited(f"{name}, {threshold}", documents, Settings(**given, threshold=threshold), _DRAWS[size])
    every += _audited(_GENERATED, uneven(_GENERATED_DOCUMENTS[size], SEED), Settings(), _DRAWS[size])
    yield from every
    covers = [one.value for one in every if one.value is not None]
    count = len(covers) * _DRAWS[size]
    target = Target("at least", _LEVEL, 3 * math.sqrt(_LEVEL * (1 - _LEVEL) / count))
    yield Result(ID, "intervals that hold the truth", sum(covers) / len(covers), "", target, {"draws": count})


def _sets_of_records() -> Iterator[tuple[str, dict[str, Any], list[Document]]]:
    """The labelled sets of records that are there, by name, with settings: the text of a record is its compared
    fields."""
    for name, one in SETS.items():
        _, options = split_scheme(str(one.default.get("scheme", "")))
        names = [field.split(":")[0] for field in cast("tuple[str, ...]", options.get("fields", ()))]
        if names and (folder := folder_of(one, DATA)).is_dir():
            read = one.read(folder)
            if isinstance(read, Labelled):
                yield f"{name} char3", {"k": 3}, _as_texts([*read.added, *read.probed], names)
    if (folder := DATA / "join_books").is_dir():
        shops = books(folder)
        yield "join_books char3", {"k": 3}, _as_texts([*shops.added, *shops.probed], ["title", "author", "year"])


def _as_texts(records: Sequence[Document], names: Sequence[str]) -> list[Document]:
    return [Document(one.id, " ".join((one.fields or {}).get(name, "") for name in names)) for one in records]


def _other_sets() -> Iterator[tuple[str, dict[str, Any], list[Document]]]:
    """The other sets of texts that are there, and the sets of items, by name, with settings."""
    if (DATA / "html_articles").is_dir():
        yield "html_articles char5", {}, [Document(one.id, one.body) for one in articles(1_000_000)]
    for name, pattern, parts in (("sotu", "*.txt", None), ("textreuse_legal", "legal/*.txt", "\n\n")):
        texts = [
            Document(f"{path.stem}.{n}", text)
            for path in sorted((DATA / name).glob(pattern))
            for n, text in enumerate(path.read_text(encoding="utf-8-sig").split(parts or "\0"))
            if text.strip()
        ]
        if texts:
            yield f"{name} char5", {}, texts
    for path in sorted((DATA / "itemsets_fimi").glob("*.dat")):
        lines = path.read_text(encoding="utf-8").splitlines()
        baskets = [Document(str(n), tokens=sorted(set(line.split()))) for n, line in enumerate(lines)]
        yield f"itemsets_fimi {path.stem}", {"shingles": "tokens"}, baskets


def _audited(name: str, documents: Sequence[Document], settings: Settings, draws: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, "in.jsonl"))]
        contents = ({"text": one.text} if one.tokens is None else {"tokens": list(one.tokens)} for one in documents)
        lines = (json.dumps({"id": one.id, **content}) + "\n" for one, content in zip(documents, contents, strict=True))
        Path(paths[0]).write_text("".join(lines), encoding="utf-8")
        pairs, verdicts = (str(Path(folder, file)) for file in ("pairs", "verdicts"))
        begin = _cpu_seconds()
        pairs_of(RunOptions(paths=paths, output=pairs, quiet=True), settings)
        seconds = _cpu_seconds() - begin
        rows = [json.loads(line) for line in Path(pairs).read_text(encoding="utf-8").splitlines()]
        truth = truth_of(documents, [(one["older"], one["newer"]) for one in rows], settings)
        sample = min(_SAMPLE, max(1, truth.contents // 2))

        def options(draw: int, *, of_pairs: bool = True) -> AuditOptions:
            looked_at = (pairs, None) if of_pairs else (None, verdicts)
            return AuditOptions(paths=paths, pairs=looked_at[0], verdicts=looked_at[1], sample=sample, draw=draw)

        begin = _cpu_seconds()
        found = [audit(options(draw), settings) for draw in range(draws)]
        cost = (_cpu_seconds() - begin) / draws
        details = {
            "contents": truth.contents, "sampled": found[0].sampled, "units": found[0].units,
            "pairs, truth": truth.pairs, "pairs": found[0].pairs.value, "run, s": seconds, "audit, s": cost,
        }  # fmt: skip
        yield _result(f"{name}: documents with a pair", found, truth.documents, details)
        begin = _cpu_seconds()
        dedup(DedupOptions(paths=paths, output=str(Path(folder, "kept")), verdicts=verdicts, quiet=True), settings)
        seconds = _cpu_seconds() - begin
        begin = _cpu_seconds()
        found = [audit(options(draw, of_pairs=False), settings) for draw in range(draws)]
        cost = (_cpu_seconds() - begin) / draws
        said = {one["id"]: one["status"] for one in map(json.loads, Path(verdicts).read_text("utf-8").splitlines())}
        kept = [said[document.id] == "original" for document in documents]
        details = {
            "units": found[0].units, "dropped": found[0].dropped, "near their original": found[0].precision.value,
            "dedup, s": seconds, "audit, s": cost,
        }  # fmt: skip
        yield _result(f"{name}: documents dropped", found, dropped_of(truth, kept), details)


def _cpu_seconds() -> float:
    """The processor time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _result(name: str, found: Sequence[Audit], truth: float, details: Mapping[str, object]) -> Result:
    """The fraction of draws with units whose interval holds the truth; the first draw is shown."""
    details = {name: what for name, what in details.items() if what == what}  # NaN: nothing to count
    drawn = [one.recall for one in found if one.units]
    if not drawn:
        return Result(ID, name, None, "cover", details={**details, "note": "no content has an earlier neighbour"})
    cover = sum(one.low <= truth <= one.high for one in drawn) / len(drawn)
    first = found[0].recall
    widest = max(one.high - one.low for one in drawn)
    shown = {"truth": truth, "audit": first.value, "from": first.low, "to": first.high, "widest": widest}
    return Result(ID, name, cover, "cover", None, {**shown, **details})


SCENARIOS = {ID: run}
