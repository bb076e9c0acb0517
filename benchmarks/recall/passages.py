"""S20: what the scheme ``passages`` finds, and what it costs.

The promise is a law: two texts that share a run of ``passage_characters`` are candidates. It is tried on random texts
of five scripts and on periodic ones. Real data show the rest: whole pages against the text of their article, of which
some words are changed; programs and copies of them by students. The peers are winnowing in NumPy with a dictionary, and
copydetect if it is installed.
"""

from __future__ import annotations

import importlib
import io
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from benchmarks.measure import interleaved, seconds
from benchmarks.pages.extraction import articles
from benchmarks.real import DATA
from benchmarks.report import Result, Size, Target, checksum
from neardup import Config, Deduplicator, Document, Signer
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.web.markup import text_of_markup

SEED = 20
ID, PAGES, CODE, SPEED = "S20-passages", "S20-passages-pages", "S20-passages-code", "S20-passages-speed"
FILES = "S20-passages-files"
# First and last letter of each script.
SCRIPTS = {"Latin": "az", "Cyrillic": "ая", "Arabic": "بي", "Devanagari": "कह", "Han": "一龥"}
_CASES: dict[Size, int] = {"smoke": 60, "default": 2000, "large": 10_000}
_PAGES: dict[Size, int] = {"smoke": 12, "default": 181, "large": 181}
_TEXTS: dict[Size, int] = {"smoke": 200, "default": 20_000, "large": 20_000}
_FILES: dict[Size, int] = {"smoke": 20, "default": 500, "large": 500}
# Part of the words that is changed -> part of the pages whose article is found at .8 or more.
_CHANGED = {0.0: 1.0, 0.02: 0.95, 0.05: 0.40}
_HOSTS_SCORE = 0.3
_DRAWS = 5
PASSAGE = 150
NO_DATA = {"note": "the folder of real data is not there"}
# An odd number and its inverse modulo 2^64.
_BASES = 0xBF58476D1CE4E5B9, pow(0xBF58476D1CE4E5B9, -1, 1 << 64)


def prose(rng: random.Random, letters: str, characters: int) -> str:
    """Words of random letters, of about so many characters; no blank at the ends."""
    first, last = map(ord, letters)
    words: list[str] = []
    while sum(map(len, words)) + len(words) < characters:
        words.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 9))))
    return " ".join(words)[:characters].strip() + "."


def shared_run(rng: random.Random, letters: str, characters: int) -> str:
    """A run of exactly so many characters, which may repeat itself."""
    run = prose(rng, letters, 2 * characters)[:characters]
    if rng.random() < 0.25:
        period = rng.randint(1, 60)
        run = (run.replace(" ", ",")[:period] * characters)[:characters]
    return run.replace(" ", "_")


def sharing(rng: random.Random, letters: str, characters: int) -> tuple[str, str]:
    """Two texts that share one run of exactly so many characters, which may repeat itself."""
    run = shared_run(rng, letters, characters)

    def around() -> str:
        parts = [prose(rng, letters, rng.randint(1, 400)) for _ in range(2)]
        return rng.choice(["", parts[0]]) + run + rng.choice(["", parts[1]])

    return around(), around()


def promise(size: Size) -> Iterator[Result]:
    """For each script the part of the pairs that are candidates."""
    config = Config(scheme="passages")
    for name, letters in SCRIPTS.items():
        rng = random.Random(f"{SEED} {name}")
        pairs = [sharing(rng, letters, PASSAGE) for _ in range(_CASES[size])]
        sides = [signed(config, side) for side in zip(*pairs, strict=True)]
        common = SCHEMES["passages"].common(sides[0], sides[1], config.plan)
        met = float((common.keys > 0).mean())
        details = {"pairs": len(pairs), "checksum": checksum(common.keys.tolist())}
        yield Result(ID, f"{name}: candidates of a shared run", met, "", Target("equal to", 1.0), details)


def signed(config: Config, texts: Iterable[str]) -> Evidence:
    """The evidence of texts."""
    return Signer(config).sign([Document(str(i), text) for i, text in enumerate(texts)]).batch.evidence


def changed(text: str, part: float, rng: random.Random) -> str:
    """The text with a part of its words replaced by others."""
    return " ".join(f"x{rng.randrange(10**5)}" if rng.random() < part else word for word in text.split())


def pages(size: Size) -> Iterator[Result]:
    """Recall of the whole page by its article; pairs of pages of different hosts."""
    if not (DATA / "html_articles").exists():
        yield Result(PAGES, "pages", None, "", details=NO_DATA)
        return
    truth = json.loads((DATA / "html_articles" / "ground-truth.json").read_text(encoding="utf-8"))
    found = articles(_PAGES[size])
    config = Config(scheme="passages")
    signer, matcher = Signer(config), Matcher(config, candidates=True)
    whole = [Document(one.id, text_of_markup(one.markup)) for one in found]
    match_step(matcher, signer.sign(whole).batch)
    for part, least in _CHANGED.items():
        rng = random.Random(SEED)
        bodies = [Document("article", changed(one.body, part, rng)) for _ in range(_DRAWS) for one in found]
        scores = []
        for one, body in zip(found * _DRAWS, bodies, strict=True):
            matches = matcher.match(signer.sign([body]).batch, add=False)
            scores.append(dict(zip(matches.older, matches.similarity.tolist(), strict=True)).get(one.id, -1.0))
        met, high = (float(np.mean(np.array(scores) >= bound)) for bound in (0.0, 0.8))
        details = {"articles": len(found), "draws": _DRAWS}
        what = f"{part:.0%} of the words changed"
        yield Result(PAGES, f"{what}: candidates", met, "", Target("at least", 0.98), details)
        yield Result(PAGES, f"{what}: older fraction .8 or more", high, "", Target("at least", least), details)
    pairs = Deduplicator(config).process(whole)
    hosts = {id_: urlsplit(one["url"]).hostname for id_, one in truth.items()}
    foreign = sum(hosts[pair.older] != hosts[pair.newer] for pair in pairs if pair.similarity >= _HOSTS_SCORE)
    yield Result(PAGES, "pairs of pages of different hosts", foreign, "", Target("equal to", 0), {"pairs": len(pairs)})


def java_programs() -> dict[str, str]:
    """The programs of irplag_java by id; none where the folder of real data is not there."""
    path = DATA / "irplag_java" / "docs.jsonl"
    if not path.exists():
        return {}
    return {one["id"]: one["text"] for one in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def code(size: Size) -> Iterator[Result]:
    """The area under the curve of copied programs against others, each compared with the program of its task."""
    del size  # there are 460 of them
    texts = java_programs()
    if not texts:
        yield Result(CODE, "programs", None, "", details=NO_DATA)
        return
    originals = {id_.split("/")[0]: id_ for id_ in texts if "/original/" in id_}
    others = [id_ for id_ in texts if "/original/" not in id_]
    for name, shape in {"default": (40, 150), "excerpts": (30, 100), "excerpts-short": (20, 60)}.items():
        config = Config(scheme="passages", scheme_options={"gram": shape[0], "characters": shape[1]})
        sides = [signed(config, map(texts.__getitem__, side))
                 for side in (others, [originals[x.split("/")[0]] for x in others])]  # fmt: skip
        scores = SCHEMES["passages"].common(sides[0], sides[1], config.plan).similarity
        copied = np.array(["/plagiarized/" in id_ for id_ in others])
        area = area_under_curve(scores[copied], scores[~copied])
        target = Target("at least", 0.70) if name == "default" else None
        yield Result(CODE, f"{name}: AUC of copied programs", area, "", target, {"programs": len(others)})


def area_under_curve(hits: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> float:
    """The probability that a hit has the higher score; ties count half."""
    above = (hits[:, None] > others).mean()
    return float(above + (hits[:, None] == others).mean() / 2)


class NumpyWinnowing:
    """Winnowing with NumPy for the hashes of a text, as fast as it can be written there, and a dictionary of texts.

    A hash is the difference of two sums of the polynomial, divided by a power; minima are taken by doubling.
    """

    def __init__(self, gram: int, window: int) -> None:
        self._gram, self._window = gram, window
        self._texts: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, number: int, text: str) -> list[tuple[int, int]]:
        """Return the earlier texts that share a hash, with the number of common hashes; then hold the text."""
        data = " ".join(text.lower().split()).encode("utf-32-le")
        codes = np.frombuffer(data, np.uint32).astype(np.uint64)
        powers, inverses = (np.cumprod(np.full(len(codes), base, np.uint64)) for base in _BASES)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * powers)])
        gram = min(self._gram, len(codes))
        hashes = (sums[gram:] - sums[:-gram]) * inverses[: len(codes) - gram + 1]
        hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        width, window = 1, min(self._window, len(hashes))
        while width < window:
            step = min(width, window - width)
            hashes = np.minimum(hashes[:-step], hashes[step:])
            width += step
        selected = np.unique(hashes).tolist()
        met: defaultdict[int, int] = defaultdict(int)
        for value in selected:
            for other in self._texts[value][-64:]:
                met[other] += 1
            self._texts[value].append(number)
        return list(met.items())


def speed(size: Size) -> Iterator[Result]:
    """Signing next to the default scheme; the whole way next to NumPy with a dictionary."""
    rng = random.Random(SEED)
    words = [prose(rng, "az", rng.randint(3, 9)) for _ in range(5000)]
    texts = [" ".join(rng.choices(words, k=270)) for _ in range(_TEXTS[size])]
    for i in range(0, len(texts) - 1, 10):  # every tenth text holds half of the one after it
        texts[i] += " " + texts[i + 1][: len(texts[i + 1]) // 2]
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    configs = Config(), Config(scheme="passages")
    few = documents[:500]
    signers = {config.scheme: partial(Signer(config).sign, few) for config in configs}
    for sign in signers.values():
        sign()  # compiles
    times = {name: min(t) for name, t in interleaved(signers, dict.fromkeys(signers, 5)).items()}
    ratio = times["passages"] / times["one_permutation"]
    details: dict[str, Any] = {name: round(1e6 * t / len(few), 2) for name, t in times.items()}
    yield Result(SPEED, "signing against one_permutation", ratio, "times", Target("at most", 4.0), details)
    Deduplicator(configs[1]).process(documents[:100])  # compiles
    plan, found, met = SCHEMES["passages"].plan(configs[1], configs[1].scheme_options), [0], [0]

    def ours() -> None:
        found[0] = len(Deduplicator(configs[1]).process(documents))

    def peer() -> None:
        winnowing = NumpyWinnowing(plan.gram, plan.window)
        met[0] = sum(len(winnowing.add(i, text)) for i, text in enumerate(texts))

    own, others = seconds(ours), seconds(peer)
    details = {"texts": len(texts), "pairs": found[0], "candidates of the peer": met[0],
               "microseconds": round(1e6 * own / len(texts), 1),
               "microseconds of the peer": round(1e6 * others / len(texts), 1)}  # fmt: skip
    what = "a text from reading to pairs, against NumPy with a dictionary"
    yield Result(SPEED, what, others / own, "times faster", Target("at least", 3.0), details)


def files(size: Size) -> Iterator[Result]:
    """The whole way next to ``copydetect``, which compares each file with each other one."""
    rng = random.Random(SEED)
    words = [prose(rng, "az", rng.randint(3, 9)) for _ in range(5000)]
    texts = [" ".join(rng.choices(words, k=270)) for _ in range(_FILES[size])]
    for i in range(0, len(texts) - 1, 10):
        texts[i] += " " + texts[i + 1][: len(texts[i + 1]) // 2]
    what = f"{len(texts)} texts from reading to pairs, against copydetect"
    try:
        peers = importlib.import_module("copydetect")
    except ImportError:
        yield Result(FILES, what, None, "", details={"note": "copydetect is not installed"})
        return
    config = Config(scheme="passages")
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    plan = SCHEMES["passages"].plan(config, config.scheme_options)
    found, met = [0], [0]

    def ours() -> None:
        found[0] = len(Deduplicator(config).process(documents))

    def peer() -> None:
        prints = [peers.CodeFingerprint(str(i), plan.gram, plan.window, filter=False, fp=io.StringIO(text))
                  for i, text in enumerate(texts)]  # fmt: skip
        met[0] = int(sum(peers.compare_files(a, b)[0] > 0 for a, b in combinations(prints, 2)))

    ours()  # compiles
    own, others = seconds(ours), seconds(peer)
    details = {"pairs": found[0], "pairs of the peer": met[0], "seconds": round(own, 3),
               "seconds of the peer": round(others, 2)}  # fmt: skip
    yield Result(FILES, what, others / own, "times faster", details=details)


SCENARIOS = {ID: promise, PAGES: pages, CODE: code, SPEED: speed, FILES: files}
