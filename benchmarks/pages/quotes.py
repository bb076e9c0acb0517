"""S30: which quotes the scheme ``parts`` finds, and what it costs.

A run of 150 characters is found by law, which is tried on texts of 1 to 1,000 kB of five scripts. Changed quotes are
measured: sentences of wire reports, with words replaced, dropped and added, stand in texts of random words of the wire.
Next to each figure stand those of peers, which get small letters and no white space but blanks.
The cost is compared with that of ``passages``.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import redirect_stdout
from itertools import chain
from typing import cast

from benchmarks.labelled.__main__ import between
from benchmarks.pages import old_books
from benchmarks.real import DATA
from benchmarks.recall.passages import NO_DATA, PASSAGE, SCRIPTS, prose, shared_run
from benchmarks.report import Result, Size, Target, checksum, write_table
from neardup import Config, Deduplicator, Document, Signer
from neardup.documents.document import Relation
from neardup.pairs.pipeline import Matcher, match_step

SEED = 30
LAW, PLANTED, BLOGS, COST = "S30-quotes", "S30-quotes-planted", "S30-quotes-blogs", "S30-quotes-cost"
CHANCE = "S30-quotes-chance"
# The column of the program in the table of the results, and the key of the first cell of a row.
OWN, ROW = "parts", "row"
_CASES: dict[Size, int] = {"smoke": 20, "default": 1000, "large": 10_000}
_LONGEST: dict[Size, int] = {"smoke": 4, "default": 6, "large": 6}
_QUOTES: dict[Size, int] = {"smoke": 20, "default": 200, "large": 200}
_FLOOD: dict[Size, int] = {"smoke": 300, "default": 10_000, "large": 10_000}
# Characters, and part of the words that is changed -> part of the quotes that is found; the last two are not promised.
_CHANGED = {
    (150, 0.0): 1.0, (150, 0.2): 0.93, (250, 0.2): 0.98, (500, 0.3): 0.98, (100, 0.2): None, (150, 0.3): None
}  # fmt: skip
_HOST_WORDS = 400
# Seconds a MB at most: of a whole command with scheme ``passages``.
_MATCHING_MAX = 0.32
# Words of each of two books without a common sentence, and a score below that of a part.
_BOOK_WORDS: dict[Size, int] = {"smoke": 50_000, "default": 1_400_000, "large": 1_400_000}
_CHANCE_SCORE = 14
# Characters of a quote in a live blog, part of its words that is changed, and entries of a blog: reports of the wire.
_BLOG_QUOTE, _BLOG_CHANGED, _ENTRIES = 300, 0.2, 30
_CONFIG = Config(scheme="parts")


def law(size: Size) -> Iterator[Result]:
    """For each script the part of the runs that are found, wherever they stand."""
    for name, letters in SCRIPTS.items():
        rng, met = random.Random(f"{SEED} {name}"), []
        text = " ".join(prose(rng, letters, 500) for _ in range(10 ** _LONGEST[size] // 500))
        for n in range(_CASES[size]):
            run = shared_run(rng, letters, PASSAGE)
            hosts = []
            for _ in range(2):
                length = int(10 ** rng.uniform(3, _LONGEST[size] if n % 50 == 0 else 4))
                at = rng.randrange(max(len(text) - length, 1))
                to = rng.randrange(at, at + length)
                hosts.append(f"{n} {text[at:to]}{run}{text[to : at + length][::-1]}")
            met.append(len(Deduplicator(_CONFIG).process([Document(str(i), host) for i, host in enumerate(hosts)])))
        details = {"pairs": len(met), "checksum": checksum(met)}
        yield Result(LAW, f"{name}: runs that are found", sum(met) / len(met), "", Target("equal to", 1.0), details)


def reports() -> list[str]:
    """The texts of the wire."""
    lines = (DATA / "reuters_wire" / "docs.jsonl").read_text(encoding="utf-8").splitlines()
    return [" ".join(json.loads(line)["text"].split()) for line in lines]


def noise(rng: random.Random, text: str, part: float, words: list[str]) -> str:
    """The text with a part of its words changed: three in five replaced, one dropped, one more word after one."""
    out: list[str] = []
    for word in text.split():
        chance = rng.random() / part if part else 1.0
        out += [rng.choice(words)] if chance < 0.6 else [] if chance < 0.8 else [word]
        out += [rng.choice(words)] if 0.8 <= chance < 1.0 else []
    return " ".join(out)


def five_words(text: str) -> set[Hashable]:
    """All five words in a row, as the seeds of ``passim`` are."""
    words = re.findall(r"\w+", text)
    return set(zip(*(words[n:] for n in range(5)), strict=False))


def forty_characters(text: str) -> set[Hashable]:
    """All runs of 40 characters: two texts have one in common if a suffix array shows so long a common run."""
    return {text[n : n + 40] for n in range(max(len(text) - 39, 1))}


def copydetect(text: str) -> set[Hashable]:
    """Its winnowed hashes, with its defaults: runs of 25 characters, of which a window of six has one."""
    hashes: set[Hashable] = importlib.import_module("copydetect.utils").get_document_fingerprints(text, 25, 6)[0]
    return hashes


def containment(sources: list[str], hosts: list[str]) -> set[tuple[int, int]]:
    """``datasketch``: hosts of whose three words in a row a source has .05, by its estimate."""
    datasketch = importlib.import_module("datasketch")
    prints = []
    for text in (*sources, *hosts):
        words, one = text.split(), datasketch.MinHash(256)
        shingles = {" ".join(words[n : n + 3]).encode() for n in range(len(words) - 2)}
        one.update_batch(list(shingles))
        prints.append((one, len(shingles)))
    index = datasketch.MinHashLSHEnsemble(threshold=0.05, num_perm=256, num_part=8)
    index.index([(n, *one) for n, one in enumerate(prints[: len(sources)])])
    return {(source, host) for host, one in enumerate(prints[len(sources) :]) for source in index.query(*one)}


def sharing(
    features: Callable[[str], Iterable[Hashable]],
) -> Callable[[list[str], list[str]], set[tuple[int, int]]]:
    """Return what finds the sources and hosts that have a feature in common."""

    def pairs(sources: list[str], hosts: list[str]) -> set[tuple[int, int]]:
        having = defaultdict(list)
        for n, text in enumerate(sources):
            for one in features(text):
                having[one].append(n)
        return {(n, host) for host, text in enumerate(hosts) for one in features(text) for n in having.get(one, ())}

    return pairs


def text_matcher(sources: list[str], hosts: list[str]) -> set[tuple[int, int]]:
    """``text-matcher``, with its defaults but for stop words, whose list it would download."""
    module = importlib.import_module("text_matcher.matcher")
    texts = [[module.Text(text, "", removeStopwords=False) for text in side] for side in (sources, hosts)]
    with redirect_stdout(io.StringIO()):  # it prints what it finds
        return {
            (source, host)
            for source, one in enumerate(texts[0])
            for host, other in enumerate(texts[1])
            if module.Matcher(one, other).match()[0]
        }


_PEERS = {
    "five words": sharing(five_words),
    "40 characters": sharing(forty_characters),
    "copydetect": sharing(copydetect),
    "datasketch": containment,
    "text-matcher": text_matcher,
}


def peers(sources: list[str], hosts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield of each peer which part of the quotes it finds, and how many other pairs: host n quotes source n."""
    texts = [[text.lower() for text in side] for side in (sources, hosts)]
    for name, find in _PEERS.items():
        try:
            found = find(*texts)
        except ImportError:
            yield name, "not installed"
            continue
        own = sum((n, n) in found for n in range(len(hosts)))
        yield name, f"{own / len(hosts):.2f}/{len(found) - own}"


def planted(size: Size) -> Iterator[Result]:
    """The part of the changed quotes that is found, and the pairs that share none."""
    if not (DATA / "reuters_wire").exists():
        yield Result(PLANTED, "quotes", None, "", details=NO_DATA)
        return
    rng = random.Random(SEED)
    sources, _ = _sources(rng)
    words = " ".join(sources).split()
    for (length, part), least in _CHANGED.items():
        held = sources[: _QUOTES[size]]
        documents = [Document(f"source {n}", text) for n, text in enumerate(held)]
        for n, text in enumerate(held):
            around = [" ".join(rng.choices(words, k=rng.randint(1, _HOST_WORDS))) for _ in range(2)]
            quote = _quote(rng, text, length, part, words)
            documents.append(Document(f"host {n}", f"{around[0]} {quote} {around[1]}"))
        pairs = [pair for pair in Deduplicator(_CONFIG).process(documents) if pair.newer.startswith("host")]
        own = sum(pair.older.split()[1] == pair.newer.split()[1] for pair in pairs if pair.older.startswith("source"))
        hosts = sum(pair.older.startswith("host") for pair in pairs)
        what = f"{length} characters, {part:.0%} of the words changed"
        cell = f"{own / len(held):.2f}/{len(pairs) - own - hosts}"
        details: dict[str, object] = {ROW: f"{length}, {part:.0%}", "quotes": len(held), OWN: cell}
        details |= peers(held, [one.text for one in documents[len(held) :]])
        target = None if least is None else Target("at least", least)
        yield Result(PLANTED, f"{what}: found", own / len(held), "", target, details)
        yield Result(PLANTED, f"{what}: pairs of hosts", hosts, "", Target("at most", 1 + len(held) // 100), {})


def blogs(size: Size) -> Iterator[Result]:
    """The part of the changed quotes that is found in live blogs, whose other entries are reports of the wire."""
    if not (DATA / "reuters_wire").exists():
        yield Result(BLOGS, "quotes", None, "", details=NO_DATA)
        return
    rng = random.Random(SEED)
    sources, others = _sources(rng)
    words, sources = " ".join(sources).split(), sources[: _QUOTES[size]]
    documents = [Document(f"source {n}", text) for n, text in enumerate(sources)]
    for n, text in enumerate(sources):
        entries = rng.sample(others, _ENTRIES)
        entries[rng.randrange(_ENTRIES)] += f" {_quote(rng, text, _BLOG_QUOTE, _BLOG_CHANGED, words)}"
        documents.append(Document(f"blog {n}", "\n".join(f"{at}:00 {one}" for at, one in enumerate(entries))))
    pairs = {(pair.older, pair.newer) for pair in Deduplicator(_CONFIG).process(documents)}
    own = sum((f"source {n}", f"blog {n}") in pairs for n in range(len(sources)))
    what = f"{_BLOG_QUOTE} characters in live blogs, {_BLOG_CHANGED:.0%} of the words changed: found"
    row = f"{_BLOG_QUOTE}, {_BLOG_CHANGED:.0%}, live blogs"
    details = {ROW: row, "quotes": len(sources), OWN: f"{own / len(sources):.2f}"}
    yield Result(BLOGS, what, own / len(sources), "", Target("at least", 0.95), details)


def chance(size: Size) -> Iterator[Result]:
    """The parts of two books that share words and no sentence: the wire and old addresses, words shuffled."""
    if not all((DATA / name).exists() for name in ("reuters_wire", "sotu")):
        yield Result(CHANCE, "books", None, "", details=NO_DATA)
        return
    rng = random.Random(SEED)
    addresses = (path.read_text(encoding="utf-8") for path in sorted((DATA / "sotu").glob("*.txt")))
    books = [" ".join(texts).split() for texts in (reports(), addresses)]
    for words in books:
        rng.shuffle(words)
    words_max = min(_BOOK_WORDS[size], *map(len, books))
    config = Config(scheme=f"parts:score={_CHANCE_SCORE}", text_characters_max=1 << 24)
    documents = [Document(str(n), " ".join(words[:words_max])) for n, words in enumerate(books)]
    relations = (cast(Relation, pair.relation) for pair in Deduplicator(config).process(documents))
    parts = sum(len(relation.passages) for relation in relations)
    what = f"parts of two books of random words that score {_CHANCE_SCORE}"
    yield Result(CHANCE, what, parts, "", Target("equal to", 0), {"words": words_max})


def _sources(rng: random.Random) -> tuple[list[str], list[str]]:
    """Long reports of the wire in a random order, and the other reports."""
    every = sorted(set(reports()))
    sources = [text for text in every if 1500 <= len(text) <= 8000]
    rng.shuffle(sources)
    return sources, [text for text in every if not 1500 <= len(text) <= 8000]


def _quote(rng: random.Random, text: str, length: int, part: float, words: list[str]) -> str:
    """A run of a text from a word on, with a part of its words changed."""
    at = text.rfind(" ", 0, rng.randrange(len(text) - length) + 1) + 1
    return noise(rng, text[at : at + length], part, words)


def cost(size: Size) -> Iterator[Result]:
    """Signing and matching against ``passages``, memory, and the time of a page in a flood."""
    rng = random.Random(SEED)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    texts = [" ".join(rng.choices(vocabulary, k=200)) for _ in range(_FLOOD[size])]
    form = " ".join(rng.choices(vocabulary, k=150))
    flood = [f"{form} {text[:200]}" for text in texts]
    characters = sum(map(len, texts))
    _times(_CONFIG, texts[:64])  # compiles
    own, peer = (_times(Config(scheme=scheme), texts) for scheme in ("parts", "passages"))
    yield Result(COST, "signing, against passages", own[0] / peer[0], "times", Target("at most", 3.0), {})
    matching = {"passages": round(peer[1] / characters * 1e6, 3)}
    yield Result(COST, "matching", own[1] / characters * 1e6, "s/MB", Target("at most", _MATCHING_MAX), matching)
    details = {"passages": round(peer[2] / characters * 1000)}
    memory = own[2] / characters * 1000
    yield Result(COST, "memory of the window", memory, "bytes/kB", Target("at most", 650.0), details)
    few = _times(_CONFIG, flood[: len(flood) // 4])[1] * 4
    every = _times(_CONFIG, flood)[1]
    details = {"pages": len(flood), "microseconds a page": round(every / len(flood) * 1e6)}
    growth = Target("at most", 1.1)
    yield Result(COST, "a page of a flood, against one of a quarter of it", every / few, "times", growth, details)


def _times(config: Config, texts: list[str]) -> tuple[float, float, float]:
    """Seconds of processor time to sign and to match texts, and the bytes of their window."""
    signer, matcher, sign, match = Signer(config), Matcher(config), 0.0, 0.0
    for first in range(0, len(texts), 256):
        part = [Document(str(first + n), text) for n, text in enumerate(texts[first : first + 256])]
        begun = time.process_time()
        batch = signer.sign(part).batch
        signed = time.process_time()
        match_step(matcher, batch)
        sign, match = sign + signed - begun, match + time.process_time() - signed
    return sign, match, matcher.table.memory_bytes()[0]


SCENARIOS = {LAW: law, PLANTED: planted, BLOGS: blogs, CHANCE: chance, COST: cost}


def written(document: str, results: Iterable[Result]) -> str:
    """The document with a row for each kind of quotes: found of them, and other pairs. Rows that were not measured stay
    as they were."""
    names = [OWN, *_PEERS]
    block = re.search(r"<!-- quotes -->\n.*?\n.*?\n(.*?)<!-- end -->", document, re.S)
    rows = {line.split(" | ")[0]: line for line in (block[1] if block else "").splitlines()}
    for result in results:
        if OWN in result.details:
            cells = [str(result.details.get(name, "")) for name in names]
            first = f"| {result.details[ROW]}"
            rows[first] = f"{first} | {' | '.join(cells)} |".replace("|  ", "|")
    head = [f"| characters, words changed | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return between(document, "quotes", [*head, *rows.values()])


def main() -> int:
    """Run at the default size and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages.quotes", description=__doc__)
    brought = (one for one in old_books.found("default") if one.value is not None)
    results = chain(planted("default"), blogs("default"), brought)
    return write_table(parser, results, written, f"planted quotes: not written: {DATA} has no wire")


if __name__ == "__main__":
    sys.exit(main())
