"""Flipped bits in the files of windows."""

from __future__ import annotations

import random
from pathlib import Path

from command import Run

# Loads a window once for each of 40 flipped bits, and prints how often that was refused; then what a salvage finds.
FLIPPED = """
import random, sys
from pathlib import Path
from neardup import Config, Deduplicator, Document
from neardup.pairs.window_message import WireError
words = [f"word{n}" for n in range(400)]
rng = random.Random(5)
texts = [" ".join(rng.choices(words, k=60)) for _ in range(1200)]
dedup = Deduplicator(Config())
dedup.process([Document(f"d{n}", text) for n, text in enumerate(texts)])
data = dedup.save()
refused = 0
for _ in range(40):
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    try:
        Deduplicator(Config()).load(bytes(damaged))
    except WireError:
        refused += 1
for cut in (len(data) - 16, len(data) - 17, 9):
    try:
        Deduplicator(Config()).load(data[:cut])
    except WireError:
        refused += 1
print(refused)
damaged = bytearray(data)
damaged[len(data) // 2] ^= 1
again = Deduplicator(Config())
again.load(bytes(damaged), salvage=True)
print(again.counts()["items"], len(again.probe([Document("x", text) for text in texts])))
Path(sys.argv[1]).write_bytes(damaged)
"""


def test_a_flipped_bit_in_a_window_is_refused_and_the_rest_salvaged(python: Run, tmp_path: Path) -> None:
    """All of 40 flipped bits and 3 cuts are found; a salvage holds every document outside of the damaged block."""
    done = python("-c", FLIPPED, tmp_path / "window", timeout=180)
    refused, salvaged = done.stdout.decode().splitlines()
    assert refused == "43"
    items, found = map(int, salvaged.split())
    assert 0 < items < 1200
    assert found == items


def test_the_command_names_a_damaged_window_and_salvages_it(neardup: Run, tmp_path: Path) -> None:
    """``run`` says in one sentence where a file is damaged; with ``--salvage`` it goes on with the sound blocks."""
    rng = random.Random(2)
    texts = [" ".join(f"w{rng.randrange(500)}" for _ in range(40)) for _ in range(600)]
    lines = "\n".join(f'{{"id": "d{n}", "text": "{text}"}}' for n, text in enumerate(texts)).encode()
    assert neardup("run", "-q", "--keep", tmp_path / "window", "-", stdin=lines).returncode == 0
    data = bytearray((tmp_path / "window").read_bytes())
    data[-3_000] ^= 16
    (tmp_path / "window").write_bytes(data)
    again = lines.replace(b'"id": "d', b'"id": "e')
    done = neardup("run", "-q", "--window-from", tmp_path / "window", "-", stdin=again)
    assert done.returncode != 0
    assert done.stderr.decode().count("\n") == 1
    assert "is damaged: use another copy, or --salvage" in done.stderr.decode()
    salvaged = neardup("run", "-q", "--window-from", tmp_path / "window", "--salvage", "-", stdin=again)
    assert salvaged.returncode == 0
    assert 500 <= salvaged.stdout.count(b"\n") < 600
