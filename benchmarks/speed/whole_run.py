"""S18: a whole run, from a file to pairs, next to peers that get ready shingles.

``neardup run`` is timed as a user sees it: from the start of the process to its end. It reads lines of JSON, signs and
compares the texts, and writes the pairs to a file. The peers start from the distinct shingles of each text, which are
made outside of the measured time: they read, decode and cut nothing. So a peer has an advantage here that no user has.
It signs some thousand documents, and its time for all follows in proportion: an index that grows only becomes slower.

Of each script there is one stream of texts of 5,000 code points, a quarter of them edited copies. Its words are those
of real news, the most frequent ones where the generated texts have theirs, so letters, lengths of words and punctuation
are real, and no two unrelated texts share a sentence. There is too little real news of one language for thousands of
whole texts. Without the folder of real data the texts are those of S11.

There is no goal: "A whole run over files" in docs/ARCHITECTURE.md says where the time goes.
"""

from __future__ import annotations

import functools
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import scripts
from benchmarks.contenders import CONTENDERS, Process
from benchmarks.measure import interleaved
from benchmarks.real import DATA
from benchmarks.report import Result, Size, checksum
from benchmarks.speed.command import command
from benchmarks.texts import documents, vocabulary
from neardup import Document

SEED = 18
ID = "S18-whole-run"
_DOCUMENTS: dict[Size, int] = {"smoke": 60, "default": 30_000, "large": 60_000}
# Documents of a peer; the start of an index is a small part of its time for so many.
_PEER_DOCUMENTS = 2000
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}
_PART = 10  # documents whose shingles are ready at the same time: they are still in the cache when the peer reads them
_CODE_POINTS = 5000
_PEERS = ("rensa", "datasketch-fastest", "fastsketchlsh")
# Script -> languages of the news that give the words; none for the generated words.
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "ASCII": (),
    "Arabic": ("ar", "fa", "ckb", "ur", "pnb"),
    "Russian": ("ru", "uk", "be"),
}


def run(size: Size) -> Iterator[Result]:
    """For each script, how many times longer each peer takes for its part than ``neardup run`` for the whole."""
    for name in _LANGUAGES:
        with tempfile.TemporaryDirectory() as folder:
            yield from _compare(name, texts(name, _DOCUMENTS[size]), Path(folder), _REPEATS[size])


def texts(name: str, count: int) -> list[Document]:
    """A stream in a script."""
    words = _news_words(_LANGUAGES[name])
    if not words:
        return scripts.generated(name, count)
    replaced = dict(zip(vocabulary(), _repeated(words, len(vocabulary())), strict=True))
    return [document._replace(text=_reworded(document.text, replaced)) for document in documents("5kb", count, SEED)]


@functools.cache
def _news_words(languages: tuple[str, ...]) -> tuple[str, ...]:
    """The distinct words of the news in these languages, the most frequent first; none without the folder."""
    path = DATA / "itn_multilingual" / "docs.jsonl"
    if not languages or not path.exists():
        return ()
    rows = map(json.loads, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    found = Counter(word for row in rows if row["lang"] in languages for word in row["text"].split())
    return tuple(word for word, _ in found.most_common())


def _repeated(words: tuple[str, ...], count: int) -> list[str]:
    """So many distinct words: pairs of words when the words are used up."""
    pairs = (f"{a} {b}" for shift in range(1, count) for a, b in zip(words[shift:], words, strict=False))
    return list(itertools.islice(itertools.chain(words, pairs), count))


def _reworded(text: str, replaced: dict[str, str]) -> str:
    return " ".join(replaced.get(word.rstrip(",."), word) for word in text.split())[:_CODE_POINTS]


def _compare(name: str, stream: list[Document], folder: Path, repeats: int) -> Iterator[Result]:
    whole, one = folder / "documents.jsonl", folder / "one.jsonl"
    for path, part in ((whole, stream), (one, stream[:1])):
        lines = (json.dumps({"id": d.id, "text": d.text}, ensure_ascii=False) + "\n" for d in part)
        path.write_text("".join(lines), encoding="utf-8")
    runs: dict[str, Callable[[], None]] = {
        "whole": lambda: command(whole, folder / "pairs.jsonl"),
        "start": lambda: command(one, folder / "none.jsonl"),
    }
    runs["start"]()  # compiles kernels that are not cached
    best = {run: min(times) for run, times in interleaved(runs, dict.fromkeys(runs, repeats)).items()}
    pairs = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    details = {
        "documents": len(stream),
        "MB": whole.stat().st_size / 1e6,
        "start s": best["start"],
        "us/document without the start": (best["whole"] - best["start"]) / len(stream) * 1e6,
        "pairs": len(pairs),
        "checksum": checksum(pairs),
    }
    yield Result(ID, f"{name}: neardup run", best["whole"], "s", details=details)
    for entrant in _PEERS:
        row = CONTENDERS[entrant]
        title = f"{name}: {row.title}, shingles ready"
        if not row.version:
            yield Result(ID, title, None, "", details={"note": f"{row.package} is not installed"})
            continue
        cost, candidates = _peer(entrant, stream[:_PEER_DOCUMENTS])
        details = {"us/document": cost * 1e6, "candidates": candidates}
        if len(stream) >= _DOCUMENTS["default"]:
            details["times neardup run without the start"] = cost * len(stream) / (best["whole"] - best["start"])
        yield Result(ID, title, cost * len(stream) / best["whole"], "times the whole run", details=details)


def _peer(entrant: str, stream: list[Document]) -> tuple[float, int]:
    """Seconds of a peer for a document, without those for its shingles; and the number of candidates."""
    row = CONTENDERS[entrant]
    ready = row.ready
    assert ready is not None, f"{entrant} takes no ready shingles"
    process: Process = row.start("ready", *row.shape)
    seconds, candidates = 0.0, 0
    for first in range(0, len(stream), _PART):
        part = [document._replace(tokens=ready(document.text)) for document in stream[first : first + _PART]]
        start = time.perf_counter()
        candidates += len(process(part))
        seconds += time.perf_counter() - start
    return seconds / len(stream), candidates


SCENARIOS = {ID: run}
