"""S15: the verdicts of documents in Arrow, next to the same documents as JSON Lines.

All contenders run one after the other, several times, and the least CPU time of each counts: other work on the machine
disturbs a ratio of CPU times least. JSON Lines are decoded line by line, as the commands do. A table in memory goes to
``decide_table`` as it is; a file is read batch by batch first. The target is that of the table. The lines are not
compressed; of long texts in a Parquet file, most of the reading is the decompression (snappy, pyarrow's default).
"""

from __future__ import annotations

import gc
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import documents
from neardup import Deduplicator, Document, Verdict
from neardup.pairs.json_lines import decode_document
from neardup.stories.arrow.tables import ArrowTable
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.arrow.batches import parquet_batches
from neardup_workers.outside.readers.blocks import Blocks, Content

SEED = 14
ID = "S15-arrow"
# Characters of a text -> how many times the rate of JSON Lines.
RATES_MIN = {200: 1.5, 5_000: 1.1}
_CHARACTERS: dict[Size, int] = {"smoke": 20_000, "default": 10_000_000, "large": 50_000_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}
_BATCH_ROWS = 1_000

Decide = Callable[[], list[Verdict] | ArrowTable]


def run(size: Size) -> Iterator[Result]:
    """The rate of tables as a multiple of the rate of JSON Lines, for short and long texts."""
    for characters, rate_min in RATES_MIN.items():
        name = f"texts of {characters:,} characters"
        if importlib.util.find_spec("pyarrow") is None:
            yield Result(ID, name, None, "", details={"note": "pyarrow is not installed"})
            continue
        found = documents("5kb", 1 + _CHARACTERS[size] // characters, SEED)
        stream = [one._replace(text=one.text[:characters]) for one in found]
        with tempfile.TemporaryDirectory() as folder:
            runs = contenders(stream, Path(folder))
            statuses = {name: _statuses(decide()) for name, decide in runs.items()}  # compiles, and fills the caches
            assert len({tuple(found) for found in statuses.values()}) == 1, "tables and lines get other verdicts"
            best = _least_seconds(runs, _REPEATS[size])
        rates = {f"{name}, times": best["lines"] / seconds for name, seconds in best.items() if name != "lines"}
        details = {
            "microseconds a line": best["lines"] / len(stream) * 1e6,
            **rates,
            "documents": len(stream),
            "checksum": checksum(enumerate(statuses["lines"])),
        }
        target = Target("at least", rate_min) if size != "smoke" else None
        yield Result(ID, name, rates["table, times"], "times", target, details)


def contenders(stream: list[Document], folder: Path) -> dict[str, Decide]:
    """Functions that decide the same documents, from one form each."""
    import pyarrow
    from pyarrow import ipc, parquet

    rows = [{"id": one.id, "text": one.text} for one in stream]
    table = pyarrow.Table.from_pylist(rows)
    lines, arrow, packed, plain = (folder / name for name in ("a.jsonl", "a.arrow", "a.parquet", "b.parquet"))
    lines.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    parquet.write_table(table, packed)
    parquet.write_table(table, plain, compression="none")
    with ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table, _BATCH_ROWS)

    def of_lines() -> list[Verdict]:
        with lines.open("rb") as file:
            found = map(decode_document, file)
            given = (one for one in found if isinstance(one, Document))
            return Deduplicator().decide(given)

    def of_table() -> ArrowTable:
        return Deduplicator().decide_table(table)

    def of_arrow() -> ArrowTable:
        with ipc.open_file(arrow) as file:
            batches = map(file.get_batch, range(file.num_record_batches))
            return Deduplicator().decide_table(pyarrow.RecordBatchReader.from_batches(file.schema, batches))

    def of_parquet(path: Path) -> ArrowTable:
        with path.open("rb") as file:
            batches = parquet_batches(Content((), Blocks(Stop()), file.fileno()))
            first = next(batches)
            return Deduplicator().decide_table(pyarrow.RecordBatchReader.from_batches(first.schema, batches))

    return {
        "lines": of_lines,
        "table": of_table,
        "arrow file": of_arrow,
        "parquet file": partial(of_parquet, packed),
        "parquet file without compression": partial(of_parquet, plain),
    }


def _statuses(found: list[Verdict] | ArrowTable) -> list[str]:
    """The statuses as strings; outside of the measured time."""
    if isinstance(found, list):
        return [verdict.status for verdict in found]
    return [str(row["status"]) for row in found.to_pylist()]


def _least_seconds(runs: dict[str, Decide], repeats: int) -> dict[str, float]:
    """The least CPU time of each contender; they take turns."""
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, decide in runs.items():
            gc.collect()
            start = time.process_time()
            decide()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


SCENARIOS = {ID: run}
