"""What each primitive brings: a kernel that calls it, against the same kernel with the primitive's model.

``python -m benchmarks.speed.primitives`` prints a ratio for each, some minutes long. With the name of a workload it
measures this workload only: the switch ``NEARDUP_MACHINE_CODE`` is read once, so each choice needs a process.
docs/MACHINE_CODE.md has the figures.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping

import numpy as np
import orjson

from benchmarks.measure import in_subprocess, seconds
from benchmarks.speed.table import empty_table, fill, random_items
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.features.texts.plain_words import word_hashes, word_scratch, word_tables
from neardup.kernel_folder import VARIABLE
from neardup.machine.compile import kernel
from neardup.machine.kernels.utf8 import DECODED_SPARE, TAIL_BYTES, decode_utf8
from neardup.machine.words import WORD_BYTES
from neardup.pairs.json_lines import Fields
from neardup.schemes.signatures import banding, one_permutation
from neardup.schemes.signatures.stored_sets import merged
from neardup_textbook.signatures import hyperplanes
from neardup_textbook.vectors import packed_bits
from neardup_workers.outside.readers.json.columns import decode_columns

SEED = 12
_TURNS, _REPEATS = 3, 15
Run = Callable[[], object]
# Primitive -> the workload whose kernels call it most.
WORKLOADS = {
    "bit_count": "bits",
    "changes": "words",
    "common_longs": "sets",
    "copy_bits": "unicode",
    "copy_bytes": "json",
    "decode_block": "utf8",
    "keep_below": "rows",
    "lowest_bit": "json",
    "mask_below": "unicode",
    "mask_between": "folded",
    "mask_of_breaks": "json",
    "mask_of_line": "table",
    "prefetch": "table",
    "put_escapes": "escapes",
    "put_word": "planes",
    "running_sums": "words",
    "widen": "ascii",
    "word_at": "bits",
    "word_from": "keys",
}


_PLAIN = "The quick brown fox jumps over the lazy dog, while five wizards box in the corner of a room. "
_WIDE = "Съешь же ещё этих мягких французских булок, да выпей чаю. 東京都は日本の首都である。 "


@kernel()
def _decoded(data, tail, out):
    return decode_utf8(data, 0, len(data), tail, out)


@kernel()
def _words(codes, tables, scratch, out):
    return word_hashes(codes, tables, scratch, out)


@kernel()
def _common(a, b, count):
    common = 0
    for _ in range(count):
        common += merged(a, 0, len(a) - WORD_BYTES, b, 0, len(b) - WORD_BYTES, 8)
    return common


def _sets() -> Run:
    rng = np.random.default_rng(SEED)
    a, b = (np.sort(rng.choice(4000, 1000, replace=False)).view(np.uint8) for _ in range(2))
    return lambda: _common(a, b, 1000)


def _utf8(text: str) -> Run:
    data = np.frombuffer(text.encode(), np.uint8)
    tail, out = np.empty(TAIL_BYTES, np.uint8), np.empty(len(data) + DECODED_SPARE, np.uint32)
    return lambda: _decoded(data, tail, out)


def _word_hashes() -> Run:
    codes = np.frombuffer((_PLAIN * 10_000).encode(), np.uint8)
    out, tables, scratch = np.empty(len(codes), np.uint64), word_tables(), word_scratch()
    return lambda: _words(codes, tables, scratch, out)


def _lines(escaped: bool) -> Run:
    rows = [{"id": str(i), "text": (_WIDE if escaped else _PLAIN) * 10} for i in range(1000)]
    lines = [json.dumps(row).encode() if escaped else orjson.dumps(row) for row in rows]
    return lambda: decode_columns(lines, [None] * len(lines), Fields())


def _folded(text: str) -> Run:
    form = NormalForm()
    return lambda: code_points([text * 20] * 500, form)


def _planes() -> Run:
    vectors = np.random.default_rng(SEED).normal(size=(2000, 256)).astype(np.float32)
    return lambda: hyperplanes.sign(vectors, 16, 16, SEED)


def _sketches(run: Callable[..., object], *further: int) -> Run:
    a, b = np.random.default_rng(SEED).integers(0, 256, (2, 20_000, 128), np.uint8)
    return lambda: run(a, *further) if run is banding.keys else run(a, b, *further)


def _one_permutation() -> Run:
    values = np.random.default_rng(SEED).integers(0, 1 << 63, 1_000_000, np.uint64)
    starts = np.arange(0, len(values) + 1, 5000)
    return lambda: one_permutation.sign(values, starts, 128, SEED)


def _table() -> Run:
    rng = np.random.default_rng(SEED)
    table = empty_table(200_000)
    fill(table, rng, 200_000)
    further = iter([random_items(rng, 5000) for _ in range(_REPEATS + 1)])

    def step() -> None:
        table.begin()
        table.probe_add(next(further))
        table.commit()

    return step


RUNS: Mapping[str, Callable[[], Run]] = {
    "ascii": lambda: _utf8(_PLAIN * 10_000),
    "bits": lambda: _sketches(packed_bits.agreement, 16, 64),
    "escapes": lambda: _lines(escaped=True),
    "folded": lambda: _folded(_PLAIN),
    "json": lambda: _lines(escaped=False),
    "keys": lambda: _sketches(banding.keys, 16, SEED),
    "planes": _planes,
    "rows": _one_permutation,
    "sets": _sets,
    "table": _table,
    "unicode": lambda: _folded(_WIDE),
    "utf8": lambda: _utf8(_WIDE * 10_000),
    "words": _word_hashes,
}


def best(workload: str) -> float:
    """Seconds of the fastest of some runs."""
    run = RUNS[workload]()
    run()
    return min(seconds(run) for _ in range(_REPEATS))


def gain(primitive: str, workload: str) -> float:
    """How many times as long the workload takes with the model of the primitive."""
    times: dict[str, list[float]] = {"": [], primitive: []}
    for _ in range(_TURNS):
        for choice, found in times.items():
            os.environ[VARIABLE] = choice
            found.append(in_subprocess("benchmarks.speed.primitives", workload)["seconds"])
    return min(times[primitive]) / min(times[""])


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps({"seconds": best(sys.argv[1])}))
    else:
        for name, where in WORKLOADS.items():
            print(f"{name:22}{where:12}{gain(name, where):6.2f}", flush=True)
