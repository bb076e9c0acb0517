"""The page open for minutes while documents come: memory of the browser, and how long a document takes to the page.

    python tests/browser/watch.py --minutes 10 --rate 100

Each line is a sample: the script heap after a garbage collection, nodes and listeners of the page, memory of the
process that draws it, and the time from the answer about a hundred documents until the page has counted them. Other
processes of the browser are left out: it starts some of them after minutes, for itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from import_path import folders

sys.path.extend(folders("support", "browser"))

import httpx
from chromium import find_chromium
from devtools import Browser
from news import documents
from service_process import Serving

COUNTED = "Number(document.querySelector('main').dataset.documents)"
BATCH = 100


class Sample(NamedTuple):
    """What one look at the browser found."""

    documents: int
    heap_bytes: int
    elements: int
    listeners: int
    resident_bytes: int
    delay_seconds: float


def samples(browser: Browser, client: httpx.Client, rate: int, count: int, every_seconds: float) -> Iterator[Sample]:
    """Send documents at a rate while the page is open; yield so many samples."""
    ended = threading.Event()
    steady = documents(5)

    def send() -> None:
        began, sent = time.perf_counter(), 0
        while not ended.wait(max(0.0, began + sent / rate - time.perf_counter())):
            client.post("/v1/check", json=next(steady)).raise_for_status()
            sent += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        extra = documents(6)
        for _ in range(count):
            ended.wait(every_seconds)
            yield _sample(browser, client, list(itertools.islice(extra, BATCH)))
    finally:
        ended.set()
        sender.join()


def _sample(browser: Browser, client: httpx.Client, extra: list[dict]) -> Sample:
    lines = "\n".join(map(json.dumps, ({**one, "id": f"extra-{one['id']}"} for one in extra)))
    client.post("/v1/check:batch", content=lines, headers={"Content-Type": "application/x-ndjson"}).raise_for_status()
    answered = time.perf_counter()
    total = client.get("/v1/figures").json()["present"]["documents"]
    browser.wait(f"{COUNTED} >= {total}")
    delay = time.perf_counter() - answered
    browser.call("HeapProfiler.collectGarbage")
    heap = int(browser.call("Runtime.getHeapUsage")["usedSize"])
    counted = browser.call("Memory.getDOMCounters")
    nodes, listeners = int(counted["nodes"]), int(counted["jsEventListeners"])
    return Sample(total, heap, nodes, listeners, resident_bytes(browser.pid), delay)


def _line(sample: Sample) -> str:
    heap, resident = sample.heap_bytes / 1e6, sample.resident_bytes / 1e6
    page = f"heap {heap:6.3f} MB  {sample.elements:6,} nodes  {sample.listeners:3} listeners"
    return f"{sample.documents:9,} documents  {page}  process {resident:7.1f} MB  {sample.delay_seconds:5.2f} s\n"


def resident_bytes(session: int) -> int:
    """Memory of the processes of a session that draw pages."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            draws = b"--type=renderer" in (path.parent / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if draws and int(fields[3]) == session:
            found += int(fields[21]) * 4096
    return found


def main() -> None:
    """Watch for as long as the options say, and print the samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=100)
    options = parser.parse_args()
    count = max(3, round(6 * options.minutes))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("state", "browser"):
            (folder / part).mkdir()
        serving = Serving(folder / "state", "--durability", "normal", "--keep-texts")
        browser = Browser(find_chromium(), folder / "browser")
        try:
            for domain in ("Network", "Log"):  # they keep what comes, for tools
                browser.call(f"{domain}.disable")
            browser.open(f"{serving.url}/#/now")
            found = []
            with httpx.Client(base_url=serving.url, timeout=60) as client:
                for sample in samples(browser, client, options.rate, count, 60 * options.minutes / count):
                    found.append(sample)
                    sys.stdout.write(_line(sample))
                    sys.stdout.flush()
        finally:
            browser.close()
            serving.kill()
    third = len(found) // 3
    for field in ("heap_bytes", "elements", "listeners", "resident_bytes"):
        values = [getattr(one, field) for one in found]
        first, last = statistics.median(values[:third]), statistics.median(values[-third:])
        sys.stdout.write(f"{field}: {first:,.0f} in the first third, {last:,.0f} in the last\n")
    delays = sorted(one.delay_seconds for one in found)
    sys.stdout.write(f"delay: median {statistics.median(delays):.2f} s, longest {delays[-1]:.2f} s\n")


if __name__ == "__main__":
    main()
