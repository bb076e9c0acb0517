"""The documents that all programs get, and which of them are near-duplicates.

``real``: 12,000 texts of five folders of ``shared/data``. ``titles``: short titles made after real ones. A step of a
chain of words is drawn from titles of papers, so letters, words and lengths are theirs; three of ten titles are an
earlier one with one change, as catalogues have them.

Two texts are near-duplicates if their sets of five characters, or of three words, have a Jaccard similarity of .8. The
exact join of ``benchmarks.texts`` says which are; it shares no code with the library.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.real import read_documents
from benchmarks.texts import char_shingles, shingle_sets, similar_pairs, word_shingles
from neardup import Document

THRESHOLD, FAR = 0.8, 0.6
REAL_DOCUMENTS, TITLES, MANY_TITLES = 12_000, 100_000, 1_000_000
_FILES = (
    "licence_texts/docs.jsonl", "itn_multilingual/docs.jsonl", "irplag_java/docs.jsonl",
    "mccormick_minhash/docs_2500.jsonl", "ja_jglue/jsts-v1.3/train-v1.3.json",
)  # fmt: skip
_TITLES = (
    ("er_dblp_acm_leipzig/DBLP2.csv", "title"), ("er_dblp_acm_leipzig/ACM.csv", "title"),
)  # fmt: skip
_COPIES = 0.3  # of the titles
_RECENT = 10_000  # a copy is one of a title so many back at most

Pairs = dict[tuple[int, int], float]


def real(data: Path, count: int = REAL_DOCUMENTS) -> list[Document]:
    """Texts of the folders in their order. Raises ``FileNotFoundError``."""
    return [Document(f"r{n}", one.text) for n, one in enumerate(read_documents(_FILES, data)[:count])]


def titles(data: Path, count: int, seed: int = 1) -> list[Document]:
    """Made titles. Raises ``FileNotFoundError``."""
    rng, follows = random.Random(seed), _chain(data)
    made: list[str] = []
    for _ in range(count):
        if made and rng.random() < _COPIES:
            made.append(_changed(rng.choice(made[-_RECENT:]), rng))
        else:
            made.append(_drawn(follows, rng))
    return [Document(f"t{n}", text) for n, text in enumerate(made)]


def _chain(data: Path) -> dict[str, list[str]]:
    """Word -> the words that follow it in real titles; the empty word begins and ends a title."""
    follows: dict[str, list[str]] = {}
    for name, column in _TITLES:
        with (data / name).open(encoding="latin-1", newline="") as file:
            for row in csv.DictReader(file):
                words = ["", *row[column].split(), ""]
                for word, following in pairwise(words):
                    follows.setdefault(word, []).append(following)
    return follows


def _drawn(follows: dict[str, list[str]], rng: random.Random) -> str:
    words: list[str] = []
    while not words or (words[-1] and len(words) < 14):
        words.append(rng.choice(follows[words[-1] if words else ""]))
        if not words[-1] and len(words) < 5:  # a title of so few words would be like many others
            words[-1] = rng.choice(follows[""])
    return " ".join(words).strip()


def _changed(title: str, rng: random.Random) -> str:
    """A title with a letter dropped or doubled, two words exchanged, or a word put behind it."""
    at, words = rng.randrange(len(title)), title.split()
    place = rng.randrange(len(words) - 1) if len(words) > 1 else 0
    return rng.choice((
        title[:at] + title[at + 1 :],
        title[: at + 1] + title[at:],
        " ".join([*words[:place], *words[place : place + 2][::-1], *words[place + 2 :]]),
        f"{title} {rng.choice(('(extended abstract)', '2nd edition', 'revisited'))}",
    ))  # fmt: skip


def near_duplicates(documents: list[Document]) -> dict[str, Pairs]:
    """The pairs from ``FAR`` on by each kind of shingle, as places in the list, with their similarity."""
    texts = [" ".join(document.text.lower().split()) for document in documents]
    kinds: dict[str, Callable[[str], list[str]]] = {"characters": char_shingles, "words": word_shingles}
    return {kind: similar_pairs(shingle_sets(texts, cut), FAR) for kind, cut in kinds.items()}


SETS: dict[str, Callable[[Path], list[Document]]] = {
    "texts": real, "titles": partial(titles, count=TITLES), "million": partial(titles, count=MANY_TITLES),
}  # fmt: skip
