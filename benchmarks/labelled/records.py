"""Records with labels: people typed in twice, publications of two sources, citations as papers print them, books."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from neardup import Document

# Field of a citation -> the kind of publication that has one; of several fields the first.
_KINDS = {"journal": "journal", "booktitle": "book", "tech": "report", "institution": "report", "type": "report"}


class Labelled(NamedTuple):
    """Documents to add, documents to probe afterwards (or none), and the true pairs.

    ``asked`` are the pairs that the labels speak of; none: of all pairs. ``in_stories``: the true pairs join documents
    to stories, and so do verdicts.
    """

    added: list[Document]
    probed: list[Document]
    truth: set[frozenset[str]]
    asked: set[frozenset[str]] = set()  # noqa: RUF012 - never changed
    in_stories: bool = False


class Score(NamedTuple):
    """What was found against the labels; ``accuracy`` counts the pairs that the labels speak of, ``rand`` is the
    adjusted Rand index of stories."""

    precision: float
    recall: float
    f1: float
    accuracy: float = 0.0
    rand: float = 0.0


def people(folder: Path, number: int = 3) -> Labelled:
    """FEBRL 1, 2 or 3: people, up to five thousand records, up to six for a person; the ids name the person."""
    rows = _rows(folder / f"dataset{number}.csv", "utf-8")
    same = defaultdict(list)
    for row in rows:
        same[row["rec_id"].split("-")[1]].append(row["rec_id"])
    truth = {frozenset(pair) for ids in same.values() for pair in combinations(ids, 2)}
    return Labelled([Document(row["rec_id"], fields=row) for row in rows], [], truth)


def people_twice(folder: Path) -> Labelled:
    """FEBRL 4: five thousand people, and one damaged record of each in a second file."""
    one, other = (_rows(folder / f"dataset4{letter}.csv", "utf-8") for letter in "ab")
    ids = {row["rec_id"].split("-")[1]: row["rec_id"] for row in one}
    truth = {frozenset((ids[row["rec_id"].split("-")[1]], row["rec_id"])) for row in other}
    added, probed = ([Document(row["rec_id"], fields=row) for row in rows] for rows in (one, other))
    return Labelled(added, probed, truth)


def publications(folder: Path, *, files: tuple[str, str] = ("DBLP2", "ACM"), other: str = "ACM") -> Labelled:
    """DBLP and another bibliography, and the perfect mapping between them."""
    named = (*files, f"DBLP-{other}_perfectMapping")
    ours, theirs, mapping = (_rows(folder / f"{name}.csv", "latin-1") for name in named)
    truth = {frozenset((f"DBLP/{row['idDBLP']}", f"{other}/{row[f'id{other}']}")) for row in mapping}
    added = [Document(f"DBLP/{row['id']}", fields=row) for row in ours]
    return Labelled(added, [Document(f"{other}/{row['id']}", fields=row) for row in theirs], truth)


def offers(folder: Path) -> Labelled:
    """The names of offers of two shops, and the perfect mapping between them."""
    ours, theirs, mapping = (
        _rows(folder / f"data/abt-buy/{name}.csv", "latin-1") for name in ("Abt", "Buy", "abt_buy_perfectMapping")
    )
    added, probed = (
        [Document(f"{shop}/{row['id']}", row["name"]) for row in rows]
        for shop, rows in (("Abt", ours), ("Buy", theirs))
    )
    return Labelled(added, probed, {frozenset((f"Abt/{row['idAbt']}", f"Buy/{row['idBuy']}")) for row in mapping})


def citations(folder: Path) -> Labelled:
    """Citations as papers print them; the gold pairs cite the same publication."""
    references = ElementTree.parse(folder / "CORA.xml").getroot()
    gold = (folder / "cora_gold.csv").read_text(encoding="utf-8").splitlines()[1:]
    added = [Document(reference.attrib["id"], fields=_citation(reference)) for reference in references]
    return Labelled(added, [], {frozenset(line.split(";")) for line in gold})


def _citation(reference: ElementTree.Element) -> dict[str, str]:
    """The words of a citation, its first year, and the place of publication, from the fields that exist."""
    parts: dict[str, str] = defaultdict(str)
    for part in reference:
        parts[part.tag] += " " + _words("".join(part.itertext()))
    year = re.search(r"\b(?:19|20)\d\d", parts["year"] + parts["date"])
    return {
        "title": parts["title"],
        "authors": parts["author"],
        "year": year.group() if year else "",
        "kind": next((kind for tag, kind in _KINDS.items() if parts[tag]), ""),
    }


def books(folder: Path) -> Labelled:
    """Books of two shops.

    There are no gold pairs: an edition is identified by its ISBN, which is not among the fields.
    """
    tables = [_rows(folder / f"books_table_{name}.csv", "utf-8") for name in "AB"]
    editions: dict[str, list[str]] = defaultdict(list)
    for row in tables[0]:
        editions[row["ISBN13"]].append(row["ID"])
    truth = {frozenset((row["ID"], other)) for row in tables[1] for other in editions[row["ISBN13"]]}
    added, probed = ([Document(row["ID"], fields=_book(row)) for row in rows] for rows in tables)
    return Labelled(added, probed, truth)


def _book(row: dict[str, str]) -> dict[str, str]:
    """Title without its subtitle and series, author, and the year of dates as 7/8/14 and as Jul. 3rd, 2010."""
    year = re.search(r"\d\d$", row["Publication_Date"])
    return {
        "title": _words(re.split("[(:]", row["Title"])[0]),
        "author": _words(row["Author"]),
        "year": year.group() if year else "",
    }


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


def _rows(path: Path, encoding: str) -> list[dict[str, str]]:
    with path.open(encoding=encoding, newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        return [{name.strip(): value.strip() for name, value in row.items()} for row in rows]
