"""``python -m benchmarks.kafka [--size smoke|default|large] [--only ID]... [--json FILE]``: the workers on a
broker.

A run uses one broker. If ``KAFKA_BOOTSTRAP_SERVERS`` is set, it names the broker. Otherwise the run starts Apache Kafka
and ends it; only then is the broker's processor time known. Rates depend on other load of the machine; targets bound
the ratios within one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console

from benchmarks.__main__ import environment
from benchmarks.kafka import capacity, latency, matcher, signer, takeover, verdicts
from benchmarks.kafka.deploy import Bench, broker_module, served
from benchmarks.measure import ONE_THREAD
from benchmarks.report import SIZES, Result, Size, print_table
from neardup_workers.outside.process.interpreter import settle

# Permanent ids -> scenarios: one scenario has several ids if they share its preparation.
SCENARIOS: dict[str, Callable[[Bench], Iterator[Result]]] = {
    f"{signer.BARE_ID}, {signer.TWO_ID}": signer.run,
    f"{matcher.ID}, {matcher.BYTES_ID}": matcher.run,
    latency.ID: latency.run,
    verdicts.VERDICT_ID: verdicts.latency,
    verdicts.FILTER_ID: verdicts.filters,
    capacity.ID: capacity.run,
    takeover.ID: takeover.run,
}


def run(size: Size, only: Iterable[str] = ()) -> Iterator[tuple[str, list[Result], float]]:
    """Run scenarios with an id that begins with one of ``only`` (all if ``only`` is empty): ids, results, seconds."""
    prefixes = tuple(only) or ("",)
    with served(size) as bench:
        for ids, scenario in SCENARIOS.items():
            if not any(id_.startswith(prefixes) for id_ in ids.split(", ")):
                continue
            start = time.perf_counter()
            results = list(scenario(bench))
            yield ids, results, time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; the exit code says only whether it ran: targets are read, not enforced."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.kafka", description="The workers on a broker, next to the targets."
    )
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="ids: " + ", ".join(SCENARIOS))
    parser.add_argument("--json", metavar="FILE", help="write results as JSON lines to a file, not to standard output")
    options = parser.parse_args(arguments)
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    console = Console(width=None if sys.stdout.isatty() else 160)
    about = environment(options.size) | {"kafka": broker_module().kafka_version()}
    console.print(about)
    settle()  # as in the process of a worker
    rows: list[Result] = []
    for ids, results, seconds in run(options.size, options.only):
        print_table(f"{ids} ({seconds:.1f} s)", results, console)
        rows += results
    judged = [result.verdict for result in rows if result.verdict]
    console.print(", ".join(f"{judged.count(verdict)} {verdict}" for verdict in sorted(set(judged))))
    with contextlib.ExitStack() as stack:
        lines: TextIO = sys.stdout
        if options.json:
            Path(options.json).parent.mkdir(parents=True, exist_ok=True)
            lines = stack.enter_context(Path(options.json).open("w", encoding="utf-8"))
        lines.write(json.dumps({"environment": about}) + "\n")
        lines.writelines(result.to_json() + "\n" for result in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
