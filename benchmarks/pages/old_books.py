"""S30: places of the Bible that ``passim`` lists in books of before 1700, found in whole books, and the time of it.

``python -m benchmarks.labelled.bring --into FOLDER old_books king_james`` brings 567 books with what ``passim`` found
in pieces of them (github.com/impresso/PH-passim-tutorial), and the Bible (github.com/aruljohn/Bible-kjv).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.real import DATA
from benchmarks.recall.passages import NO_DATA
from benchmarks.report import Result, Size, Target
from neardup import Config, Document, Signer
from neardup.features.texts.normalize import normalize
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.kinds.parts import PartPlan, parts_of

ID = "S30-quotes-books"
# The folders of the set, as ``benchmarks.labelled.bring`` names them.
FOLDERS = "old_books", "king_james"
# Spelling -> the places that have to be found of the 263.
_GOALS = {"historic": 250, "plain": 235}
_SECONDS_MAX = 30.0


def books(folder: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The books by name, and the places: the name of the book, and its words there."""
    texts = {
        path.stem: " ".join(path.read_text(encoding="utf-8").replace('"', "'").split())
        for path in sorted((folder / "data/txt").glob("*.txt"))
    }
    parts = (folder / "passim_output_bible/out.json").glob("*.json")
    lines = [line for path in parts for line in path.read_text(encoding="utf-8").splitlines()]
    return texts, [(row["id"], row["text"]) for row in map(json.loads, lines) if row["series"] == "not_bible"]


def bible(folder: Path) -> str:
    """The Bible, each verse after its number."""
    names = [name.replace(" ", "") for name in json.loads((folder / "Books.json").read_text(encoding="utf-8"))]
    chapters = [
        chapter
        for name in names
        for chapter in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["chapters"]
    ]
    return " ".join(f"{one['chapter']}:{verse['verse']} {verse['text']}" for one in chapters for verse in one["verses"])


def found(size: Size) -> Iterator[Result]:
    """For each spelling the places that a part touches which the book shares with the Bible; and processor time."""
    folders = DATA / FOLDERS[0] / "eebo", DATA / FOLDERS[1]
    if not all(folder.is_dir() for folder in folders):
        yield Result(ID, "places of the Bible", None, "", details=NO_DATA)
        return
    texts, places = books(folders[0])
    if size == "smoke":
        texts = {name: texts[name] for name, _ in places[:40:4]}
        places = [one for one in places if one[0] in texts]
    king = bible(folders[1])
    for spelling, goal in _GOALS.items():
        config = Config(scheme=f"parts:window=4,spelling={spelling}")
        touched, seconds = _touched(config, king, texts)
        form, number = cast(PartPlan, config.plan).normal_form, 0
        normal = {name: normalize(texts[name], form) for name in {name for name, _ in places}}
        for name, text in places:
            place = normalize(text, form)
            at = normal[name].index(place)
            number += any(begin < at + len(place) and at < end for begin, end in touched[name])
        row = f"old books, {spelling}"
        details = {"row": row, "parts": f"{number} of {len(places)}"}
        target = None if size == "smoke" else Target("at least", goal)
        yield Result(ID, f"places that passim lists, {spelling} spelling: found", number, "", target, details)
        target = Target("at most", _SECONDS_MAX)
        yield Result(ID, f"{spelling} spelling: processor time", seconds, "s", target, {})


def _touched(config: Config, king: str, texts: dict[str, str]) -> tuple[dict[str, list[tuple[int, int]]], float]:
    """Where each book has parts of the Bible, and the seconds that it took to look each book up."""
    signer, matcher, plan, seconds = Signer(config), Matcher(config), cast(PartPlan, config.plan), 0.0
    out: dict[str, list[tuple[int, int]]] = defaultdict(list)
    first = signer.sign([Document("", king)]).batch
    match_step(matcher, first)
    names = list(texts)
    for at in range(0, len(names), 16):
        begun = time.process_time()
        batch = signer.sign([Document(name, texts[name]) for name in names[at : at + 16]]).batch
        pairs = matcher.match(batch, add=False).pairs()
        seconds += time.process_time() - begun
        rows = np.array([names.index(pair.newer) - at for pair in pairs], np.int64)
        parts = parts_of(batch.evidence.select(rows), first.evidence.select(np.zeros_like(rows)), plan)
        for row, shared in zip(rows.tolist(), parts, strict=True):
            out[names[at + row]] += [part.newer for part in shared]
    return out, seconds


SCENARIOS = {ID: found}
