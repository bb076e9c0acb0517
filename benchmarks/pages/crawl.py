"""S17: a crawl through ``dedup``: page pairs against the planted truth, and what extraction costs next to the rest.

The pages are generated from real texts (``crawl_pages``), written as an archive, packed record by record, and
deduplicated by the command. Two pages are a pair if they are in one cluster. The cost is CPU time, of the command's own
process and of the processes that extract, measured after a first small run. The folder of real data must be present.

``python -m benchmarks.pages.crawl --pages 20000`` prints the table of the guarantees.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.pages.crawl_pages import CrawlPage, crawl
from benchmarks.real import DATA
from benchmarks.report import Result, Size, Target, checksum

ID = "S17-crawl"
_PAGES: dict[Size, int] = {"smoke": 60, "default": 2000, "large": 20_000}
# Pages of the first run, which loads what a process needs once.
_WARM_PAGES = 20
# What is compared -> settings. The first is the default.
_MODES: dict[str, dict[str, Any]] = {
    "main, trafilatura": {"html": "main"},
    "main, resiliparse": {"html": "main", "html_extractor": "resiliparse"},
    "text, trafilatura": {"html": "text"},
    "text, resiliparse": {"html": "text", "html_extractor": "resiliparse"},
    "raw": {"html": "raw"},
}
_SHINGLES: dict[str, dict[str, Any]] = {
    "characters": {},
    "stop words": {"shingles": "stopwords", "languages": ["en"]},
}
_QUALITY_MIN, _OWN_FRACTION_MAX = 0.98, 0.10


class Run(NamedTuple):
    """A deduplication: seconds of wall clock, CPU seconds of the command and of the extractors."""

    seconds: float
    own_seconds: float
    extractor_seconds: float


def archive(path: Path, pages: Iterable[CrawlPage]) -> None:
    """Write pages as an archive, each record packed by itself."""
    with path.open("wb") as file:
        for number, page in enumerate(pages):
            block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page.markup
            head = (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{number:032x}>\r\n"
                f"WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: {page.uri}\r\n"
                f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
            )
            file.write(gzip.compress(head.encode() + block + b"\r\n\r\n", 6))


def deduplicated(path: Path, warm: Path, settings: dict[str, Any], verdicts: Path) -> Run:
    """Run the command in a process of its own; ``verdicts`` receives its verdicts."""
    call = json.dumps([str(path), str(warm), settings, str(verdicts)])
    done = subprocess.run([sys.executable, "-m", __spec__.name, "--call", call], check=True, capture_output=True)
    return Run(*json.loads(done.stdout))


def _call(path: str, warm: str, settings: dict[str, Any], verdicts: str) -> None:
    from neardup_workers.outside.options.documents import DedupOptions
    from neardup_workers.outside.settings.files import Settings
    from neardup_workers.running.commands.dedup.command import run

    for input_ in (warm, path):
        before, began = os.times(), time.perf_counter()
        options = DedupOptions(paths=[input_], quiet=True, verdicts=verdicts, output=os.devnull)
        run(options, Settings(**settings))
        times = Run(time.perf_counter() - began, *(sum(os.times()[i : i + 2]) - sum(before[i : i + 2]) for i in (0, 2)))
    print(json.dumps(times))


def quality(verdicts: Path, groups: dict[str, int]) -> tuple[float, float]:
    """Precision and recall of page pairs: pairs of one cluster against pairs of one text. Refused pages are in no
    pair."""
    clusters: Counter[int] = Counter()
    both: Counter[tuple[int, int]] = Counter()
    for line in verdicts.read_bytes().splitlines():
        verdict = json.loads(line)
        if verdict["status"] != "refused":
            clusters[verdict["cluster"]] += 1
            both[verdict["cluster"], groups[verdict["id"]]] += 1

    def pairs(sizes: Iterable[int]) -> int:
        return sum(n * (n - 1) // 2 for n in sizes)

    shared = pairs(both.values())
    return shared / max(1, pairs(clusters.values())), shared / max(1, pairs(Counter(groups.values()).values()))


def run(size: Size) -> Iterator[Result]:
    """Quality and cost of each mode with each kind of shingles."""
    if not DATA.exists():
        yield Result(ID, "crawl", None, "", details={"note": "the folder of real data is not there"})
        return
    if size == "smoke":
        yield from measured(_PAGES[size], modes=["main, trafilatura"], shingles=["characters"])
    else:
        yield from measured(_PAGES[size], _MODES)


def measured(pages: int, modes: Iterable[str], shingles: Iterable[str] = tuple(_SHINGLES)) -> Iterator[Result]:
    """The results for a crawl of so many pages."""
    made = crawl(DATA, pages)
    groups = {page.uri: page.group for page in made}
    with tempfile.TemporaryDirectory() as folder:
        path, warm, verdicts = (Path(folder) / name for name in ("crawl.warc.gz", "warm.warc.gz", "verdicts.jsonl"))
        archive(path, made)
        archive(warm, made[:_WARM_PAGES])
        for mode in modes:
            for kind in shingles:
                times = deduplicated(path, warm, {**_MODES[mode], **_SHINGLES[kind]}, verdicts)
                precision, recall = quality(verdicts, groups)
                details = {
                    "pages": pages, "pages_per_second": round(pages / times.seconds, 1),
                    "own_ms_per_page": round(1e3 * times.own_seconds / pages, 3),
                    "extractor_ms_per_page": round(1e3 * times.extractor_seconds / pages, 3),
                    "checksum": checksum(verdicts.read_bytes().splitlines()),
                }  # fmt: skip
                name = f"{mode}, {kind}"
                is_promised = name == "main, trafilatura, characters"
                target = Target("at least", _QUALITY_MIN) if is_promised else None
                yield Result(ID, f"{name}: precision", precision, "", target, details)
                yield Result(ID, f"{name}: recall", recall, "", target, details)
                if times.extractor_seconds:
                    fraction = times.own_seconds / times.extractor_seconds
                    target = Target("at most", _OWN_FRACTION_MAX) if is_promised else None
                    yield Result(ID, f"{name}: own time, of the extractor's", fraction, "", target, details)


SCENARIOS = {ID: run}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Deduplicate a generated crawl.")
    parser.add_argument("--pages", type=int, default=_PAGES["default"])
    parser.add_argument("--only", action="append", choices=list(_MODES))
    parser.add_argument("--call", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.call:
        _call(*json.loads(arguments.call))
    else:
        for row in measured(arguments.pages, arguments.only or list(_MODES)):
            print(f"{row.name:60} {row.value:.4f} {row.verdict:8} {row.details}", flush=True)
