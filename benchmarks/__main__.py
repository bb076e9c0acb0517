"""``python -m benchmarks [--size smoke|default|large] [--only ID]... [--recall SCHEME]... [--json FILE]``.

``--sizes N,N`` says how many documents the tables of S3 hold.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from benchmarks import lengths, peers, real, scripts
from benchmarks.measure import ONE_THREAD
from benchmarks.pages import crawl, crawl_pages, extraction, old_books, quotes
from benchmarks.recall import (
    audits,
    canaries,
    entities,
    exact,
    passages,
    sets,
    shard_canaries,
    templates,
    truncation,
    verdicts,
)
from benchmarks.recall.schemes import RECALL
from benchmarks.report import SIZES, Result, Size, print_table
from benchmarks.service import answers, search
from benchmarks.speed import (
    arrow,
    command,
    floods,
    floor,
    linker,
    shards,
    sources,
    table,
    vectors,
    whole_run,
)
from benchmarks.typed import novelty

Scenario = Callable[[Size], Iterable[Result]]

# Permanent ids -> scenarios.
SCENARIOS: dict[str, Scenario] = {
    id_: run
    for module in (
        peers,
        lengths,
        table,
        floods,
        floor,
        sets,
        real,
        command,
        entities,
        exact,
        vectors,
        scripts,
        truncation,
        verdicts,
        linker,
        arrow,
        extraction,
        crawl,
        whole_run,
        sources,
        search,
        answers,
        passages,
        templates,
        shards,
        canaries,
        shard_canaries,
        audits,
        novelty,
        quotes,
        old_books,
    )
    for id_, run in module.SCENARIOS.items()
}  # fmt: skip
SEEDS = {
    "peers": peers.SEED, "lengths": lengths.SEED, "table": table.SEED, "floods": floods.SEED, "recall": sets.SEED,
    "floor": floor.SEED,
    "command": command.SEED, "entities": entities.SEED, "exact": exact.SEED, "vectors": vectors.SEED,
    "scripts": scripts.SEED, "truncation": truncation.SEED, "linker": linker.SEED, "crawl": crawl_pages.SEED,
    "arrow": arrow.SEED, "whole_run": whole_run.SEED, "sources": sources.SEED, "search": search.SEED,
    "passages": passages.SEED, "shards": shards.SEED, "answers": answers.SEED, "canaries": canaries.SEED,
    "audits": audits.SEED, "novelty": novelty.SEED, "shard_canaries": shard_canaries.SEED,
    "quotes": quotes.SEED,
}  # fmt: skip


def environment(size: Size) -> dict[str, Any]:
    """The environment of the numbers: versions, processor, seeds, and how busy the machine is."""
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    model = model or platform.processor()  # which starts a process
    return {
        "size": size, "python": platform.python_version(), "numpy": version("numpy"), "numba": version("numba"),
        "processor": model, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "seeds": SEEDS,
    }  # fmt: skip


def run(size: Size, only: Iterable[str], sizes: tuple[int, ...] = ()) -> Iterator[tuple[str, list[Result], float]]:
    """Run scenarios whose ids begin with one of ``only`` (all if ``only`` is empty): id, results, seconds."""
    prefixes = tuple(only) or ("",)
    for id_, scenario in SCENARIOS.items():
        if not id_.startswith(prefixes):
            continue
        if sizes and id_ in table.SCENARIOS:
            scenario = functools.partial(table.SCENARIOS[id_], sizes=sizes)
        start = time.perf_counter()
        results = list(scenario(size))
        yield id_, results, time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; the exit code says only whether it ran: targets are read, not enforced."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Speed, memory and recall next to their targets.")
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="ids: " + ", ".join(SCENARIOS))
    parser.add_argument("--recall", action="append", default=[], metavar="SCHEME", choices=RECALL, help="of a scheme")
    parser.add_argument("--sizes", default="", metavar="N,N", help="documents in the window, for the table")
    parser.add_argument("--json", metavar="FILE", help="write results as JSON lines as well")
    options = parser.parse_args(arguments)
    options.only += [RECALL[scheme] for scheme in options.recall]
    unknown = [prefix for prefix in options.only if not any(id_.startswith(prefix) for id_ in SCENARIOS)]
    if unknown:
        parser.error(f"no scenario begins with {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    sizes = tuple(int(number) for number in options.sizes.split(",") if number)
    console = Console(width=None if sys.stdout.isatty() else 160)
    with contextlib.ExitStack() as stack:
        lines: TextIO | None = None
        if options.json:
            Path(options.json).parent.mkdir(parents=True, exist_ok=True)
            lines = stack.enter_context(Path(options.json).open("w", encoding="utf-8"))
        about = environment(options.size)
        console.print(about)
        if lines:
            lines.write(json.dumps({"environment": about}) + "\n")
        verdicts: list[str] = []
        for id_, results, seconds in run(options.size, options.only, sizes):
            print_table(f"{id_} ({seconds:.1f} s)", results, console)
            verdicts += [result.verdict for result in results if result.verdict]
            if lines:
                lines.writelines(result.to_json() + "\n" for result in results)
                lines.flush()
        console.print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
