"""Copies between sites: suspects by their URLs, then the check of their texts.

URLs are cheap: pages whose paths have the same words are suspects, and only their texts are fetched and compared. The
pages are the stories of wire.jsonl, whose ids are a host and a path. The check asks which part of the shorter text
stands in the other one, so it also confirms a story that was shortened, and refuses another story of the same name.
At last all texts are compared, which shows what the URLs did not suspect.

Usage: python docs/examples/passages/suspects.py

Source: Chakrabarti, "Mining the Web", 2003, similarity search: candidates by URLs, then by the text.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from neardup import Config, Deduplicator, Document, Signer
from neardup.pairs.evaluation.judging import Contents
from neardup.schemes.rows import SCHEMES

WIRE = Path(__file__).parents[1] / "wire.jsonl"
PATHS = Config(shingles="tokens", scheme="prefix", threshold=0.5)
# The stories are short: a sentence is a passage.
TEXTS = Config(scheme="passages:gram=20,characters=60")
Pairs = set[tuple[str, str]]


def suspects(urls: list[str]) -> Pairs:
    """Pairs of URLs, host/path, of different hosts with the same words in the path, half of them or more."""
    words = [Document(url, tokens=sorted(set(url.split("/", 1)[1].split("-")))) for url in urls]
    joined = Contents(pair[:2] for pair in Deduplicator(PATHS).process(words))
    groups: dict[str, list[str]] = defaultdict(list)
    for url in urls:
        groups[joined.of(url)].append(url)
    return {
        (a, b)
        for group in groups.values()
        for a, b in combinations(sorted(group), 2)
        if a.split("/")[0] != b.split("/")[0]
    }


def copies(texts: dict[str, str], pairs: Pairs) -> dict[tuple[str, str], float]:
    """The pairs of which enough of the shorter text stands in the other one, with that part."""
    ordered = sorted(pairs)
    one, other = (
        Signer(TEXTS).sign([Document(url, texts[url]) for url in side]).batch.evidence
        for side in zip(*ordered, strict=True)
    )
    parts = SCHEMES[TEXTS.scheme].common(one, other, TEXTS.plan).similarity.tolist()
    return {pair: part for pair, part in zip(ordered, parts, strict=True) if part >= TEXTS.threshold}


def main() -> None:
    """Print how many suspects there are, which of them are refused, and what URLs did not suspect."""
    lines = map(json.loads, WIRE.read_text(encoding="utf-8").splitlines())
    texts = {line["id"]: line["text"] for line in lines}
    found = suspects(list(texts))
    confirmed = copies(texts, found)
    everything = set(combinations(sorted(texts), 2))
    print(f"{len(texts)} pages, {len(everything)} pairs, {len(found)} suspects by their URLs")
    print(
        f"{len(confirmed)} confirmed by their texts; the least part of the shorter one is {min(confirmed.values()):.2f}"
    )
    for a, b in sorted(found - confirmed.keys()):
        print(f"refused: {a} and {b}")
    missed = copies(texts, everything).keys() - found
    print(f"copies that no URL suspects: {len(missed)}")


if __name__ == "__main__":
    main()
