"""Wire stories: pages of newspapers grouped by the article, not by what surrounds it.

Several newspapers print the same articles, each between its own links and with up to two sentences cut from the end.
A shingle that is a stop word and the next two words sees the prose and hardly the links, so pages of one article are
alike and pages of one newspaper are not. Shingles of 10 characters see both halves of a page the same way: whatever
threshold finds the pages of one article takes pages of one newspaper for them too.

The pages are put together here, from real text: articles of the set mccormick_minhash and, as surroundings, titles of
links in the English news of itn_multilingual, with the stop words that they have. Without the sets, the articles are
the English stories of wire.jsonl, one sentence at most is cut, and words drawn from them are the titles.

Usage: python docs/examples/news.py [DATA], the folder that holds both sets. Without it, and where there is none next to
the project, the stories of wire.jsonl.

Source: Mining of Massive Datasets, 3.8.6 and 3.2.4.
"""

from __future__ import annotations

import json
import random
import re
import sys
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple, cast

from neardup import Config, Deduplicator, Document
from neardup.pairs.evaluation.judging import Confusion, confusion
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.kinds.sets import features
from neardup_textbook.theory.measures import jaccard

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
WIRE = Path(__file__).with_name("wire.jsonl")
NEWSPAPERS, ARTICLES = 5, 40
# Of wire.jsonl: the sentences of an article at least, the titles around it, and their words.
SENTENCES_MIN, TITLES, TITLE_WORDS = 3, 8, 4
# What is compared -> thresholds at which it is tried.
KINDS = {"stopwords": (0.6, 0.5, 0.4, 0.3), "chars": (0.5, 0.4, 0.35, 0.3, 0.25)}
K = {"stopwords": 3, "chars": 10}


class Material(NamedTuple):
    """Articles as sentences, the titles of links of each newspaper, and how many sentences are cut at most."""

    articles: list[list[str]]
    links: list[list[str]]
    cut_max: int


def links(data: Path) -> list[list[str]]:
    """The titles of links around the articles of each newspaper; no title stands in two of them."""
    lines = (data / "itn_multilingual" / "docs.jsonl").read_text(encoding="utf-8").splitlines()
    news = "".join(blurb["raw"] for blurb in map(json.loads, lines) if blurb["lang"] == "en")
    titles = sorted(set(re.findall(r'title="([^"]+)"', news)))
    return [titles[paper::NEWSPAPERS] for paper in range(NEWSPAPERS)]


def of_sets(data: Path) -> Material:
    """What both sets hold."""
    lines = (data / "mccormick_minhash" / "docs_1000.jsonl").read_text(encoding="utf-8").splitlines()[:ARTICLES]
    return Material([json.loads(line)["text"].split(". ") for line in lines], links(data), 2)


def of_wire() -> Material:
    """The longest text of each English story of wire.jsonl, and titles of words that are drawn from all of them."""
    stories = [
        story for story in map(json.loads, WIRE.read_text(encoding="utf-8").splitlines()) if story["lang"] == "en"
    ]
    longest: dict[str, str] = {}
    for story in stories:
        name = story["id"].split("/")[1]
        longest[name] = max(longest.get(name, ""), story["text"], key=len)
    words = sorted({word.lower() for story in stories for word in re.findall("[A-Za-z]{6,}", story["text"])})
    rng = random.Random(1)
    titles = [[" ".join(rng.sample(words, TITLE_WORDS)) for _ in range(TITLES)] for _ in range(NEWSPAPERS)]
    articles = [text.split(". ") for text in longest.values()]
    return Material([article for article in articles if len(article) >= SENTENCES_MIN], titles, 1)


def pages(material: Material) -> list[Document]:
    """Every article as every newspaper prints it; the id of a page is article/newspaper."""
    out = []
    for article, sentences in enumerate(material.articles):
        for paper, titles in enumerate(material.links):
            kept = sentences[: len(sentences) - (article + paper) % (material.cut_max + 1)]
            half = len(titles) // 2
            text = "\n".join([*titles[:half], ". ".join(kept), *titles[half:]])
            out.append(Document(f"{article}/{paper}", text))
    return out


def sharing(documents: list[Document], part: int) -> list[tuple[str, str]]:
    """Pairs of pages that share the article (part 0) or the newspaper (part 1)."""
    ids = [document.id for document in documents]
    return [(a, b) for a, b in combinations(ids, 2) if a.split("/")[part] == b.split("/")[part]]


def typical(documents: list[Document], pairs: list[tuple[str, str]], shingles: str) -> float:
    """The median Jaccard similarity of pairs of pages, of every tenth of them."""
    config = Config(shingles=shingles, k=K[shingles])
    cut = features(documents, cast(SetPlan, config.plan)).features
    sets = {page.id: cut.values[cut.starts[i] : cut.starts[i + 1]] for i, page in enumerate(documents)}
    return median(jaccard(sets[a], sets[b]) for a, b in pairs[::10])


def judged(documents: list[Document], shingles: str, threshold: float) -> Confusion:
    """The stream's pairs against the pairs of pages of one article."""
    # Thresholds this low take many bands.
    config = Config(shingles=shingles, k=K[shingles], threshold=threshold, verify="exact", rows_max=512, sketch_bits=16)
    dedup = Deduplicator(config)
    emitted = [(pair.older, pair.newer) for pair in dedup.process(documents)]
    return confusion(emitted, sharing(documents, 0))


def main(arguments: list[str]) -> None:
    """Print typical similarities, then precision and recall at each threshold."""
    data = Path(arguments[0]) if arguments else DATA
    missing = [name for name in ("mccormick_minhash", "itn_multilingual") if not (data / name).is_dir()]
    if arguments and missing:
        sys.exit(f"{data} holds no folder {missing[0]}: name the folder of the data sets")
    material = of_wire() if missing else of_sets(data)
    documents = pages(material)
    print(f"{len(documents)} pages: {len(material.articles)} articles, each in {NEWSPAPERS} newspapers\n")
    print("shingles    same article  same newspaper   (median Jaccard similarity)")
    for shingles in KINDS:
        article, paper = (typical(documents, sharing(documents, part), shingles) for part in (0, 1))
        print(f"{shingles:<10}{article:>14.2f}{paper:>16.2f}")
    print("\nshingles   threshold   precision    recall")
    for shingles, thresholds in KINDS.items():
        for threshold in thresholds:
            found = judged(documents, shingles, threshold)
            precision = f"{found.precision().value:.3f}" if found.true_positives + found.false_positives else "no pair"
            print(f"{shingles:<10}{threshold:>10.2f}{precision:>12}{found.recall().value:>10.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
