"""Public articles, and a later version of each with one change, so that the truth of every kind of change is known.

Versions of the kinds in ``COPIES`` say nothing new; those in ``NEWS`` do. The articles are those of
github.com/chrisjmccormick/MinHash, which ``python -m benchmarks.labelled.bring`` brings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.labelled.texts import brought
from neardup import Document

FOLDER, FILE = "mccormick_minhash", "articles_2500.train"
SEED = 50
_SECONDS = 10.0  # between two documents
_LATER = 200  # so many articles after its first version the changed one comes
_NUMBER = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?![\w,]|\.\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}(?![\w'])")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")

Change = Callable[[str, str, random.Random], str]  # of a text, with one of another article


class Changed(NamedTuple):
    """A stream, and of each kind of change the ids of the versions that have it."""

    documents: list[Document]
    ids: dict[str, list[str]]


def stream(data: Path, articles: int | None = None) -> Changed:
    """The stream of so many articles. An article in which a kind has nothing to change gets another kind.

    Raises:
        FileNotFoundError: the articles are not in the folder ``data``.
    """
    path = brought(data / FOLDER, "data") / FILE
    lines = path.read_text(encoding="utf-8").splitlines()[:articles]
    return changed([text for _, _, text in (line.partition(" ") for line in lines)])


def changed(texts: list[str], seed: int = SEED) -> Changed:
    """The stream of these texts, each followed by its changed version."""
    rng, kinds = random.Random(seed), [*COPIES, *NEWS]
    ids: dict[str, list[str]] = {kind: [] for kind in kinds}
    arrivals: list[tuple[int, str, str]] = []  # when, id, text
    for number, text in enumerate(texts):
        arrivals.append((number, f"first {number}", text))
        other = texts[(number + len(texts) // 2) % len(texts)]
        for turn in range(len(kinds)):
            kind = kinds[(number + turn) % len(kinds)]
            version = (COPIES | NEWS)[kind](text, other, rng)
            if version != text:
                ids[kind].append(f"changed {number}")
                arrivals.append((number + _LATER, f"changed {number}", version))
                break
    arrivals.sort(key=lambda arrival: arrival[0])
    return Changed([Document(id_, text, n * _SECONDS) for n, (_, id_, text) in enumerate(arrivals)], ids)


def _reprint(text: str, other: str, rng: random.Random) -> str:
    """As another site prints it: a source in front or behind, or the first words in capitals."""
    del other
    return rng.choice((f"(Wire) - {text}", f"{text} (Wire)", text[:40].upper() + text[40:]))


def _cut(text: str, other: str, rng: random.Random) -> str:
    """The first sentences, some two thirds of them."""
    del other, rng
    sentences = _SENTENCE.split(text)
    return " ".join(sentences[: max(1, round(len(sentences) * 2 / 3))])


def _figure(text: str, other: str, rng: random.Random) -> str:
    """One number is another one, which stands nowhere in the text."""
    del other
    free = sorted({str(n) for n in range(2, 999)} - set(re.findall(r"\d+", text)))
    return _replaced(text, _NUMBER, free, rng)


def _correction(text: str, other: str, rng: random.Random) -> str:
    """One number is another one, with a mark in front; nothing if there is no number."""
    figure = _figure(text, other, rng)
    return text if figure == text else f"CORRECTED - {figure}"


def _name(text: str, other: str, rng: random.Random) -> str:
    """A name is another one."""
    return _replaced(text, _NAME, sorted(set(_NAME.findall(other)) - set(re.findall(r"\w+", text))), rng)


def _longer(text: str, other: str, rng: random.Random) -> str:
    """Two sentences of another article stand behind it."""
    sentences = _SENTENCE.split(other)
    at = rng.randrange(max(1, len(sentences) - 1))
    return " ".join([text, *sentences[at : at + 2]])


def _replaced(text: str, pattern: re.Pattern[str], others: list[str], rng: random.Random) -> str:
    """The text with one match, drawn at random, replaced; as it is if there is none."""
    matches = list(pattern.finditer(text))
    if not matches or not others:
        return text
    found = rng.choice(matches)
    return text[: found.start()] + rng.choice(others) + text[found.end() :]


COPIES: dict[str, Change] = {"reprints": _reprint, "cut copies": _cut}
NEWS: dict[str, Change] = {"figures": _figure, "corrections": _correction, "names": _name, "longer": _longer}
