"""S26: what the preset of news keeps and drops, where the form of a text repeats and what it says does not.

Made texts: releases of companies in one form, bulletins of a toll that rises, corrections, floods of notices. Then the
pairs that people judged (``benchmarks.lost``): each pair by itself, and the stories of the whole wire.

``python -m benchmarks.typed.novelty FILE`` puts what is missed into a document, as ``make results`` does.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, product

from benchmarks.labelled.__main__ import between
from benchmarks.lost.judged import COPY, SETS, Judged, documents_of, rows_in
from benchmarks.real import DATA
from benchmarks.report import Result, Size, Target, write_table
from neardup import Config, Deduplicator, Document
from neardup_workers.outside.settings.presets import PRESETS

TEMPLATES, CORRECTIONS, FLOODS, CUTS, JUDGED, STORIES = (
    f"S26-novelty-{what}" for what in ("templates", "corrections", "floods", "cuts", "judged", "stories")
)
SEED = 26
NO_DATA = {"note": "the folder of real data is not there"}
_CHANGED = "UK"  # an update, a correction
# Precision and recall that drops of each set should have.
_WANTED = {"wire": (0.97, 0.88), "blurbs": (0.97, 0.88), "cut copies": (0.95, 0.6)}
_COMPANIES: dict[Size, int] = {"smoke": 20, "default": 200, "large": 200}
_REPRINTS: dict[Size, int] = {"smoke": 5, "default": 100, "large": 100}
_NOTICES: dict[Size, int] = {"smoke": 500, "default": 20_000, "large": 100_000}
# Part of a report: where it begins and ends, and the fraction that should be dropped.
_CUTS = {
    "the first half": (0, 1 / 2, 0.99),
    "the first third": (0, 1 / 3, 0.985),
    "the middle third": (1 / 3, 2 / 3, 0.97),
    "the first quarter": (0, 1 / 4, 0.93),
}
_CUT_CHARACTERS_MIN = 600  # a third of a shorter report is a line
_CUT_EVERY: dict[Size, int] = {"smoke": 20, "default": 10, "large": 1}
_MONTH_SECONDS = 30 * 24 * 3600
_PARTS = 4  # a rate for each part of a flood
_STARTS = ("Amber", "Birch", "Cobalt", "Dover", "Elm", "Fjord", "Grove", "Harbor")
_ENDS = (
    "bridge", "dale", "field", "ford", "gate", "haven", "land", "mark", "mont", "point", "ridge", "shore", "stone",
    "ton", "vale", "view", "ville", "ward", "water", "way", "well", "wick", "wood", "worth", "yard",
)  # fmt: skip
NAMES = [start + end for start, end in product(_STARTS, _ENDS)]
_RELEASE = (
    "{name} Inc reported quarterly net profit of {profit} mln dlrs, or {share} cts a share, on revenue of {revenue} "
    "mln dlrs. The directors of {name} declared a regular dividend, payable in April to holders of record in March."
)
_BULLETIN = (
    "{toll} dead in market fire. Rescue teams searched the ruins of the market after the fire in the old town, "
    "officials said. The cause of the fire is not known."
)
TOLLS = (40, 47, 57, 60, 71, 88, 90, 96, 101, 110, 115, 117)
_NOTICE = "Notice {number}: the registry has received your message and will answer within a week of its arrival."


def news() -> Deduplicator:
    """An empty window with the settings of the preset."""
    return Deduplicator(Config(**PRESETS["news"].values))


def _kept(texts: Sequence[str]) -> int:
    verdicts = news().decide([Document(str(n), text) for n, text in enumerate(texts)])
    return sum(verdict.status != "duplicate" for verdict in verdicts)


def _drops(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether the second text of each pair is dropped where nothing but the first was seen: a month is between two
    pairs."""
    documents = [
        Document(f"{number}, {side}", text, float(number * _MONTH_SECONDS))
        for number, pair in enumerate(pairs)
        for side, text in enumerate(pair)
    ]
    return [verdict.status == "duplicate" for verdict in news().decide(documents)[1::2]]


def _releases(count: int) -> list[dict[str, object]]:
    rng = random.Random(SEED)
    return [
        {"name": name, "profit": rng.randint(1, 999), "share": rng.randint(1, 99), "revenue": rng.randint(1000, 9999)}
        for name in NAMES[:count]
    ]


def _reprint(text: str, number: int) -> str:
    """A text as another site prints it: its first words in capitals, or a source behind it."""
    return (text, f"{text} (Wire)", text[:40].upper() + text[40:])[number % 3]


def templates(size: Size) -> Iterator[Result]:
    """Releases and bulletins that are kept, and what their reprints add."""
    releases = [_RELEASE.format(**values) for values in _releases(_COMPANIES[size])]
    bulletins = [_BULLETIN.format(toll=toll) for toll in TOLLS]
    for name, texts in {"releases of as many companies": releases, "bulletins of a rising toll": bulletins}.items():
        reprints = [_reprint(text, number) for number in range(_REPRINTS[size]) for text in texts]
        random.Random(SEED).shuffle(reprints)
        target = Target("equal to", len(texts))
        yield Result(TEMPLATES, f"{name}: kept", _kept(texts), "", target)
        details = {"reprints": len(reprints)}
        yield Result(TEMPLATES, f"{name}, with reprints: kept", _kept([*texts, *reprints]), "", target, details)


def _renamed(texts: Sequence[str], values: Sequence[dict[str, object]], names: Sequence[object]) -> list[str]:
    return [text.replace(str(v["name"]), str(name)) for text, v, name in zip(texts, values, names, strict=True)]


def corrections(size: Size) -> Iterator[Result]:
    """The fraction of corrected releases that are kept, by what the correction changes."""
    values = _releases(_COMPANIES[size])
    texts = [_RELEASE.format(**value) for value in values]
    alike = [value["name"] for value in values[1:] + values[:1]]
    others = random.Random(SEED).sample(alike, len(alike))
    changed = {
        "a correction of a number": [
            _RELEASE.format(**{**value, "profit": 1000 + n}) for n, value in enumerate(values)
        ],
        "a correction that adds its mark only": [f"CORRECTED - {text}" for text in texts],
        "a correction of a name": _renamed(texts, values, others),
        "a correction of a name by one that begins alike": _renamed(texts, values, alike),
        "a correction of a word": [text.replace("profit", "loss") for text in texts],
    }
    for what, corrected in changed.items():
        drops = _drops(list(zip(texts, corrected, strict=True)))
        kept, about = drops.count(False) / len(drops), {"corrections": len(drops)}
        yield Result(CORRECTIONS, f"{what}: kept", kept, "", Target("equal to", 1.0), about)


def floods(size: Size) -> Iterator[Result]:
    """Equal notices, and notices that differ in a counter: what is kept, and whether the rate stays."""
    count = _NOTICES[size]
    for what, kept_expected in {"equal": 1, "with a counter": count}.items():
        notices = [_NOTICE.format(number=1 if what == "equal" else 1000 + n) for n in range(count)]
        documents = [Document(str(n), notice) for n, notice in enumerate(notices)]
        dedup, part = news(), count // _PARTS
        dedup.decide([Document("first", "a text that compiles the program and is like no notice")])
        statuses: Counter[str] = Counter()
        seconds = []
        for at in range(0, count, part):
            begin = time.perf_counter()
            statuses.update(verdict.status for verdict in dedup.decide(documents[at : at + part]))
            seconds.append(time.perf_counter() - begin)
        details = {"documents": count, **statuses, "documents/s": " ".join(f"{part / one:,.0f}" for one in seconds)}
        kept = count - statuses["duplicate"]
        yield Result(FLOODS, f"notices, {what}: kept", kept, "", Target("equal to", kept_expected), details)


def cuts(size: Size) -> Iterator[Result]:
    """The fraction of the reports of a wire that are dropped when only a part of them comes again."""
    path = DATA / SETS[0].folder / "docs.jsonl"
    if not path.exists():
        yield Result(CUTS, "parts of reports", None, "", details=NO_DATA)
        return
    texts = [document.text for document in documents_of(path) if len(document.text) >= _CUT_CHARACTERS_MIN]
    for what, (begin, end, least) in _CUTS.items():
        pairs = []
        for text in texts[:: _CUT_EVERY[size]]:
            words = text.split(" ")
            pairs.append((text, " ".join(words[round(begin * len(words)) : round(end * len(words))])))
        drops = _drops(pairs)
        about = {"reports": len(drops)}
        yield Result(CUTS, f"{what}: dropped", sum(drops) / len(drops), "", Target("at least", least), about)


def judged(size: Size) -> Iterator[Result]:
    """Precision and recall of drops, each judged pair by itself, and the updates and corrections among the drops."""
    del size  # a pair takes milliseconds
    for one in SETS:
        if not (DATA / one.folder).exists():
            yield Result(JUDGED, one.title, None, "", details=NO_DATA)
            continue
        dropped, pairs = _dropped_alone(one)
        precision, recall = dropped[COPY] / max(1, dropped.total()), dropped[COPY] / pairs[COPY]
        about = {label: f"{dropped[label]} of {count}" for label, count in sorted(pairs.items())}
        precision_min, recall_min = _WANTED[one.title]
        yield Result(
            JUDGED, f"{one.title}: precision of drops", precision, "", Target("at least", precision_min), about
        )
        yield Result(JUDGED, f"{one.title}: recall of copies", recall, "", Target("at least", recall_min))
        lost = sum(dropped[label] for label in _CHANGED)
        yield Result(JUDGED, f"{one.title}: updates and corrections dropped", lost, "", Target("equal to", 0))


def _dropped_alone(one: Judged) -> tuple[Counter[str], Counter[str]]:
    """Pairs by label: those that are dropped when nothing else was seen, and all."""
    texts = {document.id: document.text for document in documents_of(DATA / one.folder / "docs.jsonl")}
    pairs = list(rows_in(DATA / one.folder / one.pairs))
    labels = [pair["label"] for pair in pairs]
    drops = _drops([(texts[pair["older"]], texts[pair["newer"]]) for pair in pairs])
    return Counter(label for label, is_dropped in zip(labels, drops, strict=True) if is_dropped), Counter(labels)


def stories(size: Size) -> Iterator[Result]:
    """Of judged pairs of the wire, the fraction that is in one story, by what the newer report is to the older one."""
    del size  # the wire takes seconds
    one = SETS[0]
    if not (DATA / one.folder).exists():
        yield Result(STORIES, one.title, None, "", details=NO_DATA)
        return
    documents = documents_of(DATA / one.folder / "docs.jsonl")
    decided = news().decide(documents)
    story = {verdict.id: verdict.cluster for verdict in decided}
    largest = max(Counter(story.values()).values())
    pairs = list(rows_in(DATA / one.folder / one.pairs))
    for labels, what, target in (
        ("O", "other reports in the same form", Target("at most", 0.05)),
        ("ULK", "longer reports, updates, corrections", Target("at least", 0.6)),
    ):
        own = [story[pair["older"]] == story[pair["newer"]] for pair in pairs if pair["label"] in labels]
        about = {"pairs": len(own), "largest story": largest}
        yield Result(STORIES, f"{what}: in one story", sum(own) / len(own), "", target, about)


SCENARIOS = {
    TEMPLATES: templates, CORRECTIONS: corrections, FLOODS: floods, CUTS: cuts, JUDGED: judged, STORIES: stories
}  # fmt: skip


def written(document: str, results: Sequence[Result]) -> str:
    """The document with a table of those results that miss their target."""
    rows = [row_of(result) for result in results if result.verdict == "missed"]
    return between(document, "novelty", ["| what | figure | goal |", "|---|---|---|", *rows])


def row_of(result: Result) -> str:
    """The row of a result in the document."""
    return f"| {result.name} | {result.value:.3g} | {result.target} |"


def main() -> int:
    """Run at the default size and write what is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed.novelty", description=__doc__)
    every = chain.from_iterable(run("default") for run in SCENARIOS.values())
    return write_table(
        parser, every, written, f"what the preset of news misses: not written: {DATA} has no judged pairs"
    )


if __name__ == "__main__":
    sys.exit(main())
