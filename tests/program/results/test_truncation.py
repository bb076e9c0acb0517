"""What a limit of candidates loses."""

from __future__ import annotations

import json
import random
from pathlib import Path

from command import Run

WORDS = [f"{n * 7919 % 99991:05d}" for n in range(6_000)]
PAIRS = """
import sys
from neardup import Config, Deduplicator, Document
texts = open(sys.argv[1], encoding="utf-8").read().splitlines()
found = []
for limits in ({}, {"probe_candidates_max": 2**20, "bucket_candidates_max": 2**20}):
    dedup = Deduplicator(Config(**limits))
    found.append(len(dedup.process(Document(str(n), text) for n, text in enumerate(texts))))
print(*found)
"""


def one_large_cluster(edits: int, members: int, others: int) -> list[str]:
    """Texts of 60 words: ``members`` edits of one text, which have nearly all pairs, and ``others`` without a pair."""
    rng = random.Random(3)
    base = WORDS[:60]
    texts = []
    for n in range(members):
        words = list(base)
        for at in rng.sample(range(60), edits):
            words[at] = f"new{n}x{at}"
        texts.append(" ".join(words))
    texts += [" ".join(rng.sample(WORDS, 60)) for _ in range(others)]
    rng.shuffle(texts)
    return texts


def test_a_cluster_with_most_of_the_pairs_keeps_them(python: Run, tmp_path: Path) -> None:
    """Where one cluster of 500 has nearly all pairs, the limits of candidates lose less than one pair in a thousand."""
    path = tmp_path / "texts"
    path.write_text("\n".join(one_large_cluster(edits=3, members=500, others=1_000)))
    with_limits, without = map(int, python("-c", PAIRS, path).stdout.split())
    assert without > 50_000
    assert with_limits > 0.999 * without


def test_near_copies_of_one_text_have_one_original(neardup: Run, tmp_path: Path) -> None:
    """The first document of a cluster of 3,000 is still compared with the last one."""
    lines = [json.dumps({"id": str(n), "text": t}) for n, t in enumerate(one_large_cluster(1, 3_000, 0))]
    done = neardup("dedup", "-", "-q", stdin="\n".join(lines).encode())
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["0"]
