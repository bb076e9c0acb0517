"""Prints a hash of what each case of the laws gives, a line each: evidence, pairs and verdicts of a stream."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from import_path import folders

sys.path.extend(folders("support"))

from cases import CASES, Case

from neardup import Deduplicator, Signer

DOCUMENTS = 60


def output_of(case: Case) -> str:
    """All that one case gives, as text."""
    documents = case.stream(random.Random(7), DOCUMENTS)
    batch = Signer(case.config()).sign(documents).batch
    parts = [f"{column.dtype} {column.shape} {column.tobytes().hex()}" for column in batch]
    pairs = Deduplicator(case.config()).process(documents)
    verdicts = Deduplicator(case.config()).decide(documents)
    return "\n".join([*parts, *map(repr, pairs), *map(repr, verdicts)])


if __name__ == "__main__":
    for name, case in CASES.items():
        sys.stdout.write(f"{name}: {hashlib.sha256(output_of(case).encode()).hexdigest()}\n")
