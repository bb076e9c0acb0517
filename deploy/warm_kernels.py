"""Compile every kernel that a worker calls, so that a container starts with all of them on disk.

``python deploy/warm_kernels.py`` signs and matches a few documents with every scheme, kind of shingles, measure and
width of sketch, by the same functions as the workers. What is compiled goes to ``NUMBA_CACHE_DIR`` for the processor
that ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` name; a process with the same values loads it from there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from neardup.pairs.json_lines import Fields
from neardup.pairs.pipeline import Signer
from neardup.pairs.shards import Shard
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.window import again
from neardup_workers.doing.http.server import warm as warm_service
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import Stretch, read_stretches
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.topics.names import topic_names
from neardup_workers.outside.transport.kafka.transport import warm as warm_batches
from neardup_workers.outside.transport.protocol import Record

SHARDS = 2
TOPICS = topic_names("", "00" * 16, SHARDS)
# Long enough that one other word leaves four fifths of the shingles of every kind.
TEXT = " ".join(
    f"the quick brown fox of day {day} jumps over the lazy dog, while {day} wizards boil jugs in the corner of a room"
    for day in range(8)
)


# Not JSON, and a removal: a signer decodes a step without such records to columns.
UNUSUAL = [(b"bad", b"{"), (b"1", None)]

# Settings under which each kernel is compiled once.
CONFIGURATIONS: list[dict[str, Any]] = [
    {"scheme": name, **example} for name, scheme in SCHEMES.items() for example in scheme.examples
]


def documents(config: Config) -> Iterator[tuple[bytes, bytes | None]]:
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
    for number, text in [*enumerate(texts), (0, f"now {TEXT}")]:
        made = SCHEMES[config.scheme].sample(text, config.plan)
        columns = {"text": made.text, "tokens": made.tokens, "vector": made.vector, **(made.fields or {})}
        value = {"id": str(number), **columns}
        yield b"%d" % number, orjson.dumps(value)
    yield from UNUSUAL


def records(config: Config, first_seconds: int) -> list[Record]:
    """The documents as records of a topic, from this second on."""
    return [
        Record(0, offset, (first_seconds + offset) * 1000, key, value)
        for offset, (key, value) in enumerate(documents(config))
    ]


def warm(config: Config) -> int:
    """Sign and match with one configuration, in every way that a worker does; how many pairs came out, but for copies
    where a scheme finds others too."""
    fields = Fields(kind=config.plan.kind)
    plan = SignPlan(config, fields, TOPICS, 1, 300.0, None)
    signer = Signer(config)
    sign_records(records(config, 1)[: -len(UNUSUAL)], signer, plan)
    steps = [sign_records(records(config, 1 + step * 1_000), signer, plan).messages for step in range(3)]
    stretches = [
        stretch
        for step, messages in enumerate(steps)
        for stretch in read_stretches(
            [
                Record(0, offset, 0, None, message.value)
                for offset, message in enumerate(messages, 100 * step)
                if message.topic == TOPICS.signed
            ],
            config,
        )
    ]
    return sum(match(ShardTable(config, Shard(number, SHARDS)), stretches) for number in range(SHARDS))


def match(table: ShardTable, stretches: Sequence[Stretch]) -> int:
    """A replay, then each stretch, undone and done again; the window moves past the documents of the one before."""
    replay, *steps = stretches
    for _ in table.apply(replay, publish=False):
        pass
    table.commit()
    pairs = 0
    whole = table.config.scheme == "identical" or table.config.measure == "containment"  # of which 1 is no copy's alone
    for stretch in steps:
        for _ in table.apply(stretch):
            pass
        table.undo()
        for applied in table.apply(stretch):
            found = applied.matches.similarity
            pairs += len(found) if whole else int((found < 1).sum())
        table.committed()
        table.commit()
        table.increments()
        again.bucket_lengths(table.matcher.table, 4)
        table.matcher.table.memory_bytes()
    return pairs


def main() -> int:
    """Warm up with every combination; fails if one of them finds nothing, for then it has not been through all."""
    started = time.perf_counter()
    warm_batches()
    for settings in CONFIGURATIONS:
        config = Config(window_seconds=500.0, **{"recall": 0.8, **settings})
        if not warm(config):
            sys.stderr.write(f"no pair with {settings}\n")
            return 1
    warm_service(Config())
    sys.stdout.write(f"{len(CONFIGURATIONS)} configurations in {time.perf_counter() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
