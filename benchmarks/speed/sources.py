"""S19: what the ledger of sources adds to ``neardup dedup``, as a share of its CPU time.

The command runs in this process on a file of JSON Lines, with and without ``--sources``, several times in turn; the
least CPU time of each counts. The collector of garbage runs as rarely as in the command. Of the documents a third are
near-duplicates, of 500 sources, with dates of a week.
"""

from __future__ import annotations

import gc
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Result, Size, Target
from benchmarks.texts import documents
from neardup_workers.main import COLLECT_OBJECTS
from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.dedup.command import run as dedup

SEED = 19
ID = "S19-sources"
SHARE_MAX = 0.05
_SOURCES, _WEEK_SECONDS, _BEGIN = 500, 7 * 86_400, 1_700_000_000
_DOCUMENTS: dict[Size, int] = {"smoke": 60, "default": 20_000, "large": 100_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}


def run(size: Size) -> Iterator[Result]:
    """The share for texts of the length of news."""
    for characters in (1_000, 5_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "in.jsonl"
            path.write_text("".join(_lines(_DOCUMENTS[size], characters)), encoding="utf-8")
            plain, counted = _least_seconds(path, _REPEATS[size])
        details = {
            "microseconds a document": plain / _DOCUMENTS[size] * 1e6,
            "microseconds of the ledger": (counted - plain) / _DOCUMENTS[size] * 1e6,
            "documents": _DOCUMENTS[size],
        }
        target = Target("at most", SHARE_MAX) if size != "smoke" else None
        yield Result(ID, f"texts of {characters:,} characters", counted / plain - 1, "of the time", target, details)


def _lines(count: int, characters: int) -> Iterator[str]:
    """Documents as lines; each third one has the text of an earlier one, with another end."""
    draw = random.Random(SEED)
    texts = [one.text[:characters] for one in documents("5kb", count, SEED)]
    for n in range(count):
        text = texts[n] if n % 3 or not n else texts[draw.randrange(n)][:-20] + f" {n}"
        row = {"id": f"d{n}", "url": f"https://www.s{draw.randrange(_SOURCES)}.example/{n}", "text": text}
        yield json.dumps(row | {"timestamp": _BEGIN + n * _WEEK_SECONDS / count}) + "\n"


def _least_seconds(path: Path, repeats: int) -> tuple[float, float]:
    """The least CPU time without and with the ledger; the first round compiles."""
    best = [float("inf")] * 2
    gc.set_threshold(COLLECT_OBJECTS)
    for round_ in range(repeats + 1):
        for counted in (False, True):
            sources = str(path.with_name("sources.jsonl")) if counted else None
            options = DedupOptions(paths=[str(path)], quiet=True, output=str(path.with_name("kept")), sources=sources)
            gc.collect()
            start = time.process_time()
            dedup(options, load({}, None))
            if round_:
                best[counted] = min(best[counted], time.process_time() - start)
    return best[0], best[1]


SCENARIOS = {ID: run}
