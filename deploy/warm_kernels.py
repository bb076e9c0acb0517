"""Compile every kernel that a worker calls, so that a container starts with all of them on disk.

``python deploy/warm_kernels.py`` signs and matches a few documents with every scheme, kind of shingles and width of
sketch, by the same functions as the workers. What is compiled goes to ``NUMBA_CACHE_DIR`` for the processor that
``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` name; whoever starts later with the same values loads it from there.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Sequence

from stream.codecs import Fields
from stream.config import Config
from stream.partitions import Partition
from stream.pipeline import Signer
from stream.schemes import SCHEMES
from stream.shingles import SHINGLES
from workers.partition_table import PartitionTable
from workers.signer import SignPlan, sign_records
from workers.topics import Topics
from workers.transport import Record

PARTITIONS = 2
SKETCH_BITS = (8, 16, 32)
TOPICS = Topics("documents", "documents.dead", "bands", "candidates")
# Long enough that one other word leaves four fifths of the shingles of every kind.
TEXT = " ".join(
    f"the quick brown fox of day {day} jumps over the lazy dog, while {day} wizards boil jugs in the corner of a room"
    for day in range(8)
)


def documents() -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values of documents: near-duplicates, copies, a new version, wide characters, refusals, a removal."""
    texts = [
        TEXT,
        TEXT,
        f"{TEXT} indeed",
        f"so {TEXT}",
        f"{TEXT} né 東京 \U0001f600",
        "東京都 は 日本 の 首都",
        "",
        "x",
    ]
    for number, text in enumerate(texts):
        yield b"%d" % number, b'{"id": "%d", "text": "%s"}' % (number, text.encode())
    yield b"0", b'{"id": "0", "text": "%s"}' % f"now {TEXT}".encode()
    yield b"bad", b"{"
    yield b"1", None


def records(first_seconds: int) -> list[Record]:
    """The documents as records of a topic, from this second on."""
    return [
        Record(0, offset, (first_seconds + offset) * 1000, key, value)
        for offset, (key, value) in enumerate(documents())
    ]


def warm(config: Config) -> int:
    """Sign and match with one configuration, in every way that a worker does; how many pairs came out but copies."""
    plan = SignPlan(config, Fields(), TOPICS, PARTITIONS, 1, 300.0, None)
    signer = Signer(config)
    steps = [sign_records(records(1 + step * 1_000), signer, plan).messages for step in range(3)]
    pairs = 0
    for partition in range(PARTITIONS):
        table = PartitionTable(config, Partition(partition, PARTITIONS))
        batches = [
            [
                Record(partition, offset, 0, None, message.value)
                for offset, message in enumerate(messages, 100 * step)
                if message.topic == TOPICS.bands and message.partition == partition
            ]
            for step, messages in enumerate(steps)
        ]
        pairs += match(table, batches)
    return pairs


def match(table: PartitionTable, batches: Sequence[Sequence[Record]]) -> int:
    """A replay, then each batch, undone and done again; the window moves past the documents of the batch before."""
    replay, *steps = batches
    for record in replay:
        table.apply(record, publish=False)
    table.commit()
    pairs = 0
    for batch in steps:
        for record in batch:
            table.apply(record, publish=True)
        table.undo()
        for record in batch:
            pairs += int((table.apply(record, publish=True).matches.similarity < 1).sum())
        table.position()
        table.commit()
        table.increments()
        table.matcher.table.bucket_lengths(4)
        table.matcher.table.memory_bytes()
    return pairs


def main() -> int:
    """Warm up with every combination; fails if one of them finds nothing, for then it has not been through all."""
    started = time.perf_counter()
    combinations = list(itertools.product(SCHEMES, SHINGLES, SKETCH_BITS))
    for scheme, shingles, bits in combinations:
        config = Config(scheme=scheme, shingles=shingles, sketch_bits=bits, window_seconds=500.0)
        if not warm(config):
            sys.stderr.write(f"no pair with {scheme}, {shingles}, {bits} bits\n")
            return 1
    sys.stdout.write(f"{len(combinations)} configurations in {time.perf_counter() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
