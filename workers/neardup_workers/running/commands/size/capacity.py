"""What a document costs, measured once: the table from which ``neardup size`` computes.

``capacity.json`` has the values; ``make bench-kafka`` measures them again and writes the file. Times are multiples of
the time that ``orjson.loads`` takes for a document of 4 kB in the same run, so they carry over to other machines:
``loop_microseconds_here`` measures the loop where the command runs.
"""

from __future__ import annotations

import json
import math
import time
from importlib.resources import files
from typing import NamedTuple

import orjson

_LOOP_DOCUMENTS, _LOOP_PASSES = 2_000, 5
_LOOP_TEXT = "six or seven letters a word " * 143


class Capacity(NamedTuple):
    """The table.

    Args:
        loop_microseconds: of the loop, on the machine of the measurement.
        signer_document, signer_kilobyte: processor time of a signer: for a document, and for each kilobyte of it; in
            loops, as all times below.
        matcher_document, matcher_shard: of a matcher for a document: for reading it, and for each shard that it holds.
        restore_of_match: time of a restore over that of matching the same documents.
        linker_document, filter_document: of a linker and of a filter, for a document.
        candidate_bytes, link_bytes: of a pair in ``candidates`` without its ids, and in ``links``.
        verdict_bytes, cluster_bytes: of a document in ``verdicts`` and in ``clusters`` without its id.
        shards_8, shards_32: memory of a document over 8 and 32 shards, over that in one table.
        slack: memory that tables allocate over what documents and marks use.
        process_bytes: of a worker apart from its window.
    """

    loop_microseconds: float
    signer_document: float
    signer_kilobyte: float
    matcher_document: float
    matcher_shard: float
    restore_of_match: float
    linker_document: float
    filter_document: float
    candidate_bytes: float
    link_bytes: float
    verdict_bytes: float
    cluster_bytes: float
    shards_8: float
    shards_32: float
    slack: float
    process_bytes: float

    def shards_ratio(self, shards: int) -> float:
        """Return the memory of a document over all shards, over that in one table; marks grow with the logarithm."""
        doublings = math.log2(max(1, shards))
        if doublings <= 3:
            return 1 + (self.shards_8 - 1) * doublings / 3
        return self.shards_8 + (self.shards_32 - self.shards_8) * (doublings - 3) / 2


def measured_capacity() -> Capacity:
    """Return the table that the package brings."""
    text = files("neardup_workers").joinpath("running/commands/size/capacity.json").read_text(encoding="utf-8")
    return Capacity(**json.loads(text))


def loop_microseconds_here() -> float:
    """Return the processor time of the loop on this machine, for each document, the least of some passes."""
    value = orjson.dumps({"id": "document-000000000000", "text": _LOOP_TEXT, "timestamp": 1_700_000_000.0})
    best = math.inf
    for _ in range(_LOOP_PASSES):
        began = time.process_time()
        for _ in range(_LOOP_DOCUMENTS):
            orjson.loads(value)
        best = min(best, time.process_time() - began)
    return best / _LOOP_DOCUMENTS * 1e6
