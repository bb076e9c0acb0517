"""S11: text to candidates by script: the cost of real text next to ASCII, and next to the peers.

Generated texts are the texts of S1 in the letters of a script: each of the 26 Latin letters becomes one or two code
points of the script, so that all scripts have shingles of the same frequencies. If the folder of real data is present,
the news blurbs of a language are joined to texts of 5,000 code points.

``neardup`` normalises every text. The peers do not; their shingles are made in Python, as their users make them.

Texts of 300 words with shingles of 3 words are measured where blanks separate words: English, German, Russian, Arabic.

``python -m benchmarks.scripts`` prints the tables of the README: few texts, every peer, datasketch both ways.
``python -m benchmarks.scripts signing`` prints the cost of each script next to ASCII.
"""

from __future__ import annotations

import functools
import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.contenders import CONTENDERS, IdPairs
from benchmarks.measure import interleaved
from benchmarks.real import DATA
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import documents
from neardup import Config, Document, Signer
from neardup.documents.chunks import chunks

ID = "S11-scripts"
SEED = 11
_CODE_POINTS = 5000
_DOCUMENTS: dict[Size, int] = {"smoke": 4, "default": 300, "large": 3000}
# Short texts are more, so that the start of an index (about a millisecond, with the first text) is a small part.
_WORD_DOCUMENTS: dict[Size, int] = {"smoke": 4, "default": 3000, "large": 30_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 7, "large": 7}
_PEERS = ("rensa", "datasketch-fastest", "fastsketchlsh")
_RATIO_MAX, _RATIO_MAX_MARKS = 1.5, 3.0
_NEWS = "itn_multilingual"
# Languages with fewer blurbs than fill so many texts would give near-duplicates only.
_NEWS_TEXTS_MIN = 4
# Scripts whose words stand between blanks, and how much slower than neardup rensa is in them.
_WORDS, _WORDS_RATIO_MIN = ("ASCII", "German", "Russian", "Arabic"), 4.0
_LATIN = "abcdefghijklmnopqrstuvwxyz"


class Script(NamedTuple):
    """``letters``: the replacement of each Latin letter; empty if only ``change`` changes a text.

    ``language`` is the language of the real blurbs; ``ratio_max`` bounds the cost of a code point relative to ASCII.
    """

    letters: tuple[str, ...] = ()
    change: Callable[[str], str] = str
    language: str = ""
    ratio_max: float = _RATIO_MAX


def _quoted(text: str) -> str:
    """With typographic quotes and apostrophes, as newspapers print them."""
    return text.replace(" s", " “s", 40).replace(".", "”.").replace("th", "t’h", 30)


def _with_emoji(text: str) -> str:
    """An emoji at the end of each part of a sentence, some with a skin tone."""
    return text.replace(".", " 😀").replace(",", " 👍🏽")


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _vocalised(letters: str) -> tuple[str, ...]:
    """Every letter with a vowel; one in four with a doubling before it, in the order in which people type."""
    vowels = "\u064e\u064f\u0650\u0652"
    return tuple(c + ("\u0651" if i % 4 == 0 else "") + vowels[i % 4] for i, c in enumerate(letters))


SCRIPTS: dict[str, Script] = {
    "ASCII": Script(),
    "English with quotes": Script(change=_quoted, language="en"),
    "German": Script(tuple("abcdefghiöälmnopqrstuüwßyz"), language="de"),
    "Russian": Script(tuple("абвгдежзийклмнопрстуфхцчшщы"[:26]), language="ru"),
    "Arabic": Script(tuple("ابتثجحخدذرزسشصضطظعغفقكلمنهو"[:26]), language="ar"),
    "Hindi": Script(tuple("कािखगीघुचेछ्जोटंडतदनपबमरलवस"[:26]), language="hi"),
    "Korean": Script(tuple("가나다라마바사아자차카타파하은는이를에의로고기지한국"), language="ko"),
    "Japanese": Script(tuple("日本のをにはがでとしたますカードニュ年月東京人大市会"[:26]), language="ja"),
    "Chinese": Script(tuple("的一是在不了有和人这中大为上个国我以要他时来用们生到"), language="zh"),
    "Thai": Script(tuple("กาขคงจชิดต่ำท้นบปัพมยรลูวสถ"[:26]), language="th"),
    "emoji": Script(change=_with_emoji),
    "decomposed Latin": Script(tuple("abcdefghijklmnópqrstüvwxyz"), _decomposed, "fr", _RATIO_MAX_MARKS),
    "vocalised Arabic": Script(_vocalised("ابتثجحخدذرزسشصضطظعغفقكلمنه"), ratio_max=_RATIO_MAX_MARKS),
}


def generated(name: str, count: int, kind: str = "5kb") -> list[Document]:
    """Documents in a script, of 5,000 code points or 300 words (``300w``)."""
    script = SCRIPTS[name]
    letters = dict(zip(map(ord, _LATIN), script.letters or _LATIN, strict=True))
    stream = documents(kind, count, SEED)
    return [d._replace(text=script.change(d.text.translate(letters))[:_CODE_POINTS]) for d in stream]


def real(name: str, count: int) -> list[Document]:
    """Documents of 5,000 code points from the blurbs of the script's language, in random order; none if there are few.

    The texts are unchanged, except for scripts that test quotes or decomposition.
    """
    language = SCRIPTS[name].language
    path = DATA / _NEWS / "docs.jsonl"
    if not language or not path.exists():
        return []
    rows = map(json.loads, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    blurbs = [row["text"] for row in rows if row["lang"] == language]
    if sum(map(len, blurbs)) < _NEWS_TEXTS_MIN * _CODE_POINTS:
        return []
    rng = np.random.default_rng(SEED)
    out = []
    for i in range(count):
        joined = " ".join(blurbs[place] for place in rng.permutation(len(blurbs)))
        out.append(Document(f"news-{i:015d}", SCRIPTS[name].change(joined)[:_CODE_POINTS]))
    return out


def run(size: Size) -> Iterator[Result]:
    """For each script the cost of a code point relative to ASCII, and how many times slower each peer is."""
    sets = _sets(_DOCUMENTS[size])
    yield from _signing(sets, size)
    present = [name for name in ("neardup", "neardup-16x8", *_PEERS) if CONTENDERS[name].version]
    for name, stream in sets.items():
        yield from _race(name, stream, present, size)
    for name in _WORDS:
        yield from _race(f"{name}, words", generated(name, _WORD_DOCUMENTS[size], "300w"), present, size, "words")


def _sets(count: int) -> dict[str, list[Document]]:
    """Generated texts of each script, then the news of those whose language has enough."""
    news = {f"{name}, news": real(name, count) for name in SCRIPTS}
    return {name: generated(name, count) for name in SCRIPTS} | {name: texts for name, texts in news.items() if texts}


def _signing(sets: dict[str, list[Document]], size: Size) -> Iterator[Result]:
    """Texts to a batch, all scripts by turns; the least time of each batch, so that other work disturbs little."""
    signer = Signer(Config())
    batches = {f"{name}/{i}": batch for name, stream in sets.items() for i, batch in enumerate(chunks(stream))}
    signed: dict[str, bytes] = {}

    def sign(which: str) -> None:
        signed[which] = signer.sign(batches[which]).batch.fixed.tobytes()

    runs = {which: functools.partial(sign, which) for which in batches}
    for warm_up in runs.values():
        warm_up()
    times = interleaved(runs, dict.fromkeys(runs, _REPEATS[size] * 2))
    costs, sums = dict.fromkeys(sets, 0.0), {}
    for name, stream in sets.items():
        own = [which for which in batches if which.rpartition("/")[0] == name]
        costs[name] = sum(min(times[which]) for which in own) / sum(len(document.text) for document in stream)
        sums[name] = checksum([signed[which] for which in own])
    for name, cost in costs.items():
        bound = SCRIPTS[name.removesuffix(", news")].ratio_max
        details = {"ns/code point": cost * 1e9, "checksum": sums[name]}
        yield Result(ID, f"{name}: signing", cost / costs["ASCII"], "times ASCII", Target("at most", bound), details)


def _race(
    name: str, stream: list[Document], present: list[str], size: Size, shingles: str = "chars"
) -> Iterator[Result]:
    """Text to candidates, on the same texts."""
    answers: dict[str, IdPairs] = {}

    def race(entrant: str) -> None:
        row = CONTENDERS[entrant]
        answers[entrant] = row.start(shingles, *row.shape)(stream)

    repeats = {entrant: min(_REPEATS[size], 1 if entrant in _PEERS else 5) for entrant in present}
    times = interleaved({entrant: functools.partial(race, entrant) for entrant in present}, repeats)
    for entrant in _PEERS:
        if entrant not in present:
            note = {"note": f"{CONTENDERS[entrant].package} is not installed"}
            yield Result(ID, f"{name}: {CONTENDERS[entrant].title}", None, "", details=note)
            continue
        row = CONTENDERS[entrant]
        ours = min(times["neardup-16x8" if row.shape == (16, 8) else "neardup"])
        details = {
            "us/document": min(times[entrant]) / len(stream) * 1e6,
            "neardup us/document": ours / len(stream) * 1e6,
        }
        target = Target("at least", _WORDS_RATIO_MIN) if (shingles, entrant) == ("words", "rensa") else None
        yield Result(ID, f"{name}: {row.title}", min(times[entrant]) / ours, "times slower", target, details)


class _Table(NamedTuple):
    """A table of the README: the shingles, the texts by column, how many, and how often each contender runs.

    There are so many texts that the start of an index (about a millisecond, with the first text) is a small part.
    """

    shingles: str
    columns: dict[str, Callable[[int], list[Document]]]
    documents: int
    repeats: int


TABLES: tuple[_Table, ...] = (
    _Table(
        "chars",
        {
            "ASCII": functools.partial(generated, "ASCII"),
            "English news, curly quotes": functools.partial(real, "English with quotes"),
            "Russian news": functools.partial(real, "Russian"),
            "Arabic news": functools.partial(real, "Arabic"),
            "Arabic": functools.partial(generated, "Arabic"),
            "Chinese": functools.partial(generated, "Chinese"),
        },
        documents=400,
        repeats=5,
    ),
    _Table(
        "words",
        {"English" if name == "ASCII" else name: functools.partial(generated, name, kind="300w") for name in _WORDS},
        documents=2000,
        repeats=5,
    ),
)


def table(rows: _Table) -> list[str]:
    """The lines of a table in Markdown: for each contender, how many times slower than neardup it is on the same texts.

    Columns whose real data is absent are left out. A contender of another shape is compared with neardup in that shape.
    """
    sets = {title: texts for title, make in rows.columns.items() if (texts := make(rows.documents))}
    names = [name for name in ("neardup", "datasketch", *_PEERS, "neardup-16x8") if CONTENDERS[name].version]
    cells: dict[str, list[str]] = {name: [] for name in names}
    for texts in sets.values():
        starts = {name: functools.partial(_start, name, rows.shingles, texts) for name in names}
        times = interleaved(starts, {name: 1 if name == "datasketch" else rows.repeats for name in names})
        for name in names:
            ours = "neardup-16x8" if CONTENDERS[name].shape == (16, 8) else "neardup"
            cells[name].append(f"{min(times[name]) / min(times[ours]):,.3g}")
    out = [f"| {rows.shingles} | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
    return out + [f"| {CONTENDERS[n].title} | {' | '.join(cells[n])} |" for n in names if n != "neardup-16x8"]


def _start(name: str, shingles: str, texts: list[Document]) -> None:
    row = CONTENDERS[name]
    row.start(shingles, *row.shape)(texts)


# Two batches of each script.
_SIGNED_DOCUMENTS = 104


def signing_table() -> list[str]:
    """The lines of a table in Markdown: nanoseconds a code point from text to batch, and times ASCII."""
    head = ["| script | ns a code point | times ASCII |", "|---|---|---|"]
    rows = _signing(_sets(_SIGNED_DOCUMENTS), "default")
    return head + [
        f"| {row.name.removesuffix(': signing')} | {row.details['ns/code point']:.2f} | {row.value:.2f} |"
        for row in rows
    ]


SCENARIOS = {ID: run}

if __name__ == "__main__":
    if sys.argv[1:] == ["signing"]:
        print("\n".join(signing_table()))
    else:
        print("\n\n".join("\n".join(table(rows)) for rows in TABLES))
