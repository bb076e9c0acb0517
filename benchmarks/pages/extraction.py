"""S16: what extraction finds on real news pages, and what it means for pairs of pages.

The pages and the text of their articles are a public benchmark of extraction. F1 compares the bags of runs of four
words, as that benchmark does: mean precision and mean recall over the pages. Pages a second are those of one process.

For pairs, each page of the set is a template: one page has its own article, and the next page has the paragraphs of
the same article in place of its own. Two pages are a true pair if they hold the same article. The folder of real data
must be present.

``python -m benchmarks.pages.extraction`` prints the table of the guarantees.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lxml import html as lxml_html

from benchmarks.real import DATA
from benchmarks.report import Result, Size, checksum
from neardup import Config, Deduplicator, Document
from neardup_workers.outside.web.charsets import decoded
from neardup_workers.outside.web.extractor import ROWS, Extract

ID = "S16-pages"
_SET = "html_articles"
_PAGES: dict[Size, int] = {"smoke": 6, "default": 181, "large": 181}
_RUN = 4
_WORD = re.compile(r"\w+")
# Characters of a paragraph that can hold a part of an article, and paragraphs of a page that can be a template.
_PARAGRAPH_CHARACTERS, _PARAGRAPHS_MIN = 40, 3
_SHINGLES: dict[str, Config] = {
    "characters": Config(),
    "stop words": Config(shingles="stopwords", languages=("en",)),
}


class Article(NamedTuple):
    """A page and the text of its article."""

    id: str
    markup: str
    body: str


def articles(count: int, folder: Path = DATA / "html_articles") -> list[Article]:
    """The first pages of the set."""
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    found = []
    for id_, one in sorted(truth.items())[:count]:
        payload = gzip.decompress((folder / "html" / f"{id_}.html.gz").read_bytes())
        found.append(Article(id_, decoded(payload), one["articleBody"]))
    return found


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[i : i + _RUN]) for i in range(max(1, len(words) - _RUN + 1)))


def precision_recall(texts: list[str], bodies: list[str]) -> tuple[float, float]:
    """Mean precision and mean recall of runs of words."""
    precisions, recalls = [], []
    for text, body in zip(texts, bodies, strict=True):
        found, true = _runs(text), _runs(body)
        shared = (found & true).total()
        precisions.append(shared / found.total())
        recalls.append(shared / true.total())
    return sum(precisions) / len(texts), sum(recalls) / len(texts)


def f1(texts: list[str], bodies: list[str]) -> float:
    """F1 of mean precision and mean recall."""
    precision, recall = precision_recall(texts, bodies)
    return 2 * precision * recall / max(1e-9, precision + recall)


def exchanged(template: Article, body: str) -> str | None:
    """The page with another article in place of its own; ``None`` if its paragraphs are not found."""
    tree = lxml_html.document_fromstring(template.markup.encode(errors="replace"), parser=_PARSER)
    own = " ".join(template.body.split())
    places = [
        one for one in tree.iter("p")
        if len(text := " ".join(one.text_content().split())) >= _PARAGRAPH_CHARACTERS and text in own
    ]  # fmt: skip
    if len(places) < _PARAGRAPHS_MIN or places[0].getparent() is None:
        return None
    parts = [part for part in body.split("\n") if part.strip()] or [body]
    first, rest = places[0], places[1:]
    for part in reversed(parts):
        paragraph = lxml_html.Element("p")
        paragraph.text = "".join(c for c in part if c.isprintable())
        first.addnext(paragraph)
    for one in (first, *rest):
        one.drop_tree()
    return str(lxml_html.tostring(tree, encoding="unicode"))


_PARSER = lxml_html.HTMLParser(encoding="utf-8")


def run(size: Size) -> Iterator[Result]:
    """F1 and speed of each row, then precision and recall of pairs for each row and kind of shingles."""
    if not DATA.exists():
        yield Result(ID, _SET, None, "", details={"note": "the folder of real data is not there"})
        return
    found = articles(_PAGES[size])
    bodies = [one.body for one in found]
    pages = [(i, one.markup) for i, one in enumerate(found)]
    for i, one in enumerate(found):
        markup = exchanged(found[(i + 1) % len(found)], one.body)
        if markup is not None:
            pages.append((i, markup))
    truth = _pairs([group for group, _ in pages])
    rows: dict[str, Extract] = {f"{mode}, {library}": load() for (mode, library), load in ROWS.items()}
    rows["raw"] = str
    for name, extract in rows.items():
        extract(found[0].markup)
        began = time.perf_counter()
        texts = [extract(markup) or "" for _, markup in pages]
        seconds = time.perf_counter() - began
        if name != "raw":
            value = f1(texts[: len(found)], bodies)
            details = {"pages": len(found), "pages_per_second": round(len(pages) / seconds, 1)}
            yield Result(ID, f"{name}: F1", value, "", details=details | {"checksum": checksum(texts)})
        yield from _of_pairs(name, texts, truth)
    groups = [group for group, _ in pages]
    yield from _of_pairs("articles", [bodies[group] for group in groups], truth)


def _pairs(groups: list[int]) -> set[tuple[int, int]]:
    return {(i, j) for j, b in enumerate(groups) for i, a in enumerate(groups[:j]) if a == b}


def _of_pairs(name: str, texts: list[str], truth: set[tuple[int, int]]) -> Iterator[Result]:
    for kind, config in _SHINGLES.items():
        dedup = Deduplicator(config)
        pairs = {(int(p.older), int(p.newer)) for p in dedup.process(Document(str(i), t) for i, t in enumerate(texts))}
        shared = len(pairs & truth)
        details = {"pairs": len(pairs), "true_pairs": len(truth)}
        yield Result(ID, f"{name}, {kind}: precision of pairs", shared / max(1, len(pairs)), "", details=details)
        yield Result(ID, f"{name}, {kind}: recall of pairs", shared / max(1, len(truth)), "", details=details)


SCENARIOS = {ID: run}


if __name__ == "__main__":
    for row in run("default"):
        print(f"{row.name:60} {row.value or 0:.4f} {row.details}", flush=True)
