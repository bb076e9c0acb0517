"""One morning of news: what came in, what is kept, and which sources carry the same story.

Usage: python docs/examples/demo.py, or make demo. The texts of ``wire.jsonl`` were written for it: places, sources and
events are invented.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
import time
from collections import defaultdict
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path

from neardup import Config, Deduplicator, Document, Verdict
from neardup_workers.outside.process.compiling import Compiling, say

FILE = Path(__file__).with_name("wire.jsonl")
# What --preset news compares by, without its window of two days.
NEWS = Config(threshold=0.45, verify="exact", characters_min=60)
STORIES = 3
COLUMNS = 100
# Around words of both texts, of the first one only, of the second one only: on a screen with colours, and elsewhere.
COLOURS = {"": ("", ""), "-": ("\x1b[31;9m", "\x1b[0m"), "+": ("\x1b[32m", "\x1b[0m")}
SIGNS = {"": ("", ""), "-": ("[-", "-]"), "+": ("{+", "+}")}
Marks = dict[str, tuple[str, str]]
# A word, and which text has it: a key of the marks.
Word = tuple[str, str]


def decided(documents: list[Document]) -> tuple[list[Verdict], float]:
    """The verdicts, and the seconds that they took."""
    with Compiling(say):  # on a new machine
        Deduplicator(NEWS).decide(documents)
    begun = time.perf_counter()
    verdicts = Deduplicator(NEWS).decide(documents)
    return verdicts, time.perf_counter() - begun


def changes(first: str, second: str) -> list[Word]:
    """The words of both texts in order."""
    one, other = first.split(), second.split()
    out: list[Word] = []
    for kind, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind == "equal":
            out += [(word, "") for word in other[c:d]]
        else:
            out += [(word, "-") for word in one[a:b]] + [(word, "+") for word in other[c:d]]
    return out


def mark(word: Word) -> str:
    """Which text has a word."""
    return word[1]


def places(words: list[Word]) -> int:
    """How many passages only one of the texts has."""
    return sum(bool(sign) for sign, _ in groupby(words, key=mark))


def rendered(words: list[Word], marks: Marks) -> list[str]:
    """Lines as wide as a screen, the words of one text between its marks."""
    lines: list[list[Word]] = [[]]
    for word in words:
        if sum(len(text) + 1 for text, _ in lines[-1]) + len(word[0]) > COLUMNS:
            lines.append([])
        lines[-1].append(word)
    out = []
    for line in lines:
        runs = [(marks[sign], " ".join(text for text, _ in run)) for sign, run in groupby(line, key=mark)]
        out.append(" ".join(f"{begin}{text}{end}" for (begin, end), text in runs))
    return out


def stories(documents: list[Document], verdicts: list[Verdict], marks: Marks) -> list[str]:
    """The stories with the most sources, and of the first one the pair with the most changes."""
    members = defaultdict(list)
    for document, verdict in zip(documents, verdicts, strict=True):
        members[verdict.cluster].append((document, verdict))
    largest = sorted(members.values(), key=len, reverse=True)[:STORIES]
    lines = [f"The {STORIES} stories that most sources carry, the first to arrive first:"]
    for story in largest:
        title = f"{len(story)} sources: {story[0][0].text}"
        lines.append("  " + textwrap.shorten(title, COLUMNS - 2, placeholder=" ..."))
        names = ", ".join(source(document) for document, _ in story)
        lines += textwrap.wrap(names, COLUMNS, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    original = largest[0][0][0]
    pairs = [(changes(original.text, copy.text), copy, verdict) for copy, verdict in largest[0][1:]]
    words, copy, verdict = max(pairs, key=lambda pair: places(pair[0]))
    lines.append(f"One pair, similarity {verdict.similarity:.2f}; marked are the words that only one of the two has:")
    return lines + rendered([(f"{source(original)}:", "-"), (f"{source(copy)}:", "+"), *words], marks)


def source(document: Document) -> str:
    """The part of the id before the name of the story."""
    return document.id.split("/")[0]


def main() -> None:
    """Print at most 20 lines."""
    argparse.ArgumentParser(description="near-duplicates in one morning of news").parse_args()
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    documents = [Document(row["id"], row["text"]) for row in rows]
    verdicts, seconds = decided(documents)
    kept = sum(verdict.status == "original" for verdict in verdicts)
    languages, sources = ({row[name] for row in rows} for name in ("lang", "source"))
    print(f"{len(rows)} news texts in {len(languages)} languages came in, from {len(sources)} sources.")
    print(f"{kept} were kept and {len(rows) - kept} dropped as copies, in {seconds:.3f} seconds.")
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(*stories(documents, verdicts, COLOURS if coloured else SIGNS), sep="\n")
    print('Your own texts, a line {"id": ..., "text": ...} each, or a table, or a folder of files:')
    print("  .venv/bin/neardup dedup --preset news FILE > kept.jsonl")


if __name__ == "__main__":
    main()
