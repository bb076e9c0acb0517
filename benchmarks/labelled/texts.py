"""Texts with labels: programs of students, planted copies, articles of pages, answers of students."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path

from benchmarks.labelled.records import Labelled, Score
from benchmarks.pages.extraction import articles, f1, precision_recall
from neardup import Document
from neardup_workers.outside.web.extractor import ROWS


def programs(folder: Path) -> Labelled:
    """Seven tasks in Java: the labels say of each file whether it was made from the original of its task."""
    rows = [json.loads(line) for line in (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines()]
    originals = {row["case"]: row["id"] for row in rows if row["label"] == "original"}
    pairs = [(row["label"], frozenset((originals[row["case"]], row["id"]))) for row in rows]
    asked = {pair for label, pair in pairs if label != "original"}
    truth = {pair for label, pair in pairs if label == "plagiarized"}
    added, probed = (
        [Document(row["id"], row["text"]) for row in rows if (row["label"] == "original") == first]
        for first in (True, False)
    )
    return Labelled(added, probed, truth, asked)


def planted(folder: Path, count: int = 1000) -> Labelled:
    """Articles of which ten (of 1,000) or twenty (of 2,500) were copied with small changes."""
    folder = brought(folder, "data")
    rows = (folder / f"articles_{count}.train").read_text(encoding="utf-8").splitlines()
    truth = (folder / f"articles_{count}.truth").read_text(encoding="utf-8").splitlines()
    documents = [Document(id_, text) for id_, _, text in (row.partition(" ") for row in rows)]
    return Labelled(documents, [], {frozenset(line.split()) for line in truth if line.strip()})


def brought(folder: Path, inside: str) -> Path:
    """Where the files of a set are: in its folder, or in the one that ``benchmarks.labelled.bring`` makes there."""
    return folder / inside if (folder / inside).is_dir() else folder


def articles_of_pages(folder: Path) -> Score:
    """Pages of news with the text of their article: what extraction takes of each, in runs of four words."""
    found = articles(1000, folder)
    extract = ROWS["main", "trafilatura"]()
    texts, bodies = [extract(one.markup) or "" for one in found], [one.body for one in found]
    return Score(*precision_recall(texts, bodies), f1(texts, bodies))


def answers(folder: Path) -> Labelled:
    """Short answers of students: a label says whether each was made from the article of its task.

    The table, which github.com/clips/pattern has in test/corpora, has rows of an answer, the article of its task, and
    how much was taken: 0 for none.
    """
    table = brought(folder, "test/corpora") / "plagiarism-clough&stevenson.csv"
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = [(f"answer {n}", *row) for n, row in enumerate(csv.reader(file))]
    articles = {text: f"article {n}" for n, text in enumerate(dict.fromkeys(article for _, _, article, _ in rows))}
    asked = {id_: frozenset((articles[article], id_)) for id_, _, article, _ in rows}
    truth = {asked[id_] for id_, _, _, taken in rows if taken != "0"}
    added = [Document(id_, text) for text, id_ in articles.items()]
    return Labelled(added, [Document(id_, text) for id_, text, _, _ in rows], truth, set(asked.values()))


def feed_items(folder: Path) -> Labelled:
    """Items of feeds in order of time, by their titles: items of one story are pairs."""
    listed = folder / "backend/testdata/ground_truth/dedup_ground_truth_items.jsonl"
    rows = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    items = [json.loads((folder / "backend" / row["file"]).read_text(encoding="utf-8")) for row in rows]
    stories: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        stories[row["story_gt_id"]].append(row["file"])
    dated = sorted(zip(rows, items, strict=True), key=lambda both: both[1]["published_at"])
    added = [
        Document(
            row["file"], item["title"], datetime.fromisoformat(item["published_at"]).timestamp(), title=item["title"]
        )
        for row, item in dated
    ]
    truth = {frozenset(pair) for files in stories.values() for pair in combinations(files, 2)}
    return Labelled(added, [], truth, in_stories=True)


def titles_by_topic(folder: Path) -> Labelled:
    """Titles of news without stop words, in the order of the file; those of one topic are a story."""
    listed = brought(folder, "MStream/data") / "News-T"
    rows = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    topics: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        topics[row["clusterNo"]].append(row["Id"])
    truth = {frozenset(pair) for ids in topics.values() for pair in pairwise(ids)}
    return Labelled([Document(row["Id"], row["textCleaned"]) for row in rows], [], truth, in_stories=True)
