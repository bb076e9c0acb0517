"""``neardup topics shards``: more shards for a stream that runs, by a control row in ``signed``.

The command gives ``links`` more partitions, then writes the row. The row counts only if the number before it is the one
in force where it stands. So of two administrators one wins, and the other is refused. It waits for no worker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from neardup.errors import ConfigError
from neardup.pairs.shards import GROWTHS_MAX, Growth
from neardup.schemes.config import Config
from neardup_workers.doing.stages.agreement import check_agreed
from neardup_workers.doing.stages.growth import growth_at
from neardup_workers.doing.stages.matching.plan import passed_growth
from neardup_workers.outside.options.running import ShardsOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import MATCH, Topics, names_of
from neardup_workers.outside.topics.signed import PARTITION, encode_signed, growth_row, offset_and_row
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.protocol import FencedError, Message, Producer, Transport, UnreachableError

# A committed row is read behind the open transactions of signers, which end within this time.
_READ_SECONDS = 60


class Stream(NamedTuple):
    """The stream that grows: where it is, its topics and settings, the group of its matchers, and how many shards it
    had at its beginning."""

    transport: Transport
    topics: Topics
    config: Config
    match_group: str
    first: int

    def growth(self) -> Growth:
        """Return how many shards there are at the end of the log."""
        passed = passed_growth(self.transport, self.match_group, self.topics.links, self.first)
        end = self.transport.bounds(self.topics.signed)[PARTITION][1]
        return growth_at(self.transport, self.topics, self.config, passed, end)


class Grown(NamedTuple):
    """A growth that counts: the numbers of shards before and after, the partitions of ``links`` before, and the offset
    in ``signed`` from which on it counts."""

    before: int
    after: int
    partitions: int
    offset: int


def grow(
    stream: Stream,
    producer: Callable[[], Producer],
    set_partitions: Callable[[int], None],
    shards: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Grown:
    """Divide the documents that come next among more shards.

    The producer writes the control row; two of them fence each other. ``set_partitions`` gives ``links`` so many.

    Raises ``ConfigError`` if there are as many or more, or the stream has grown too often; ``Failure`` if another
    administrator was first; ``TransportError`` if the broker does not answer: run the command again, which says what
    counts.
    """
    before, topics = stream.growth(), stream.topics
    check_growth(before, shards)
    partitions = stream.transport.partitions(topics.links)
    if partitions < shards:
        set_partitions(shards)
    (row,) = encode_signed(
        growth_row(before.shards, shards, stream.config.plan.width), stream.config.signing_fingerprint
    )
    writer = producer()
    try:
        writer.begin()
        writer.send(Message(topics.signed, PARTITION, row))
        writer.flush()
        writer.commit()
    except FencedError as error:
        raise _other(before.shards, stream.growth().shards, shards) from error
    finally:
        writer.close()
    after = _growth_behind(before, stream, sleep)
    added = [step for step in after.steps if step not in before.steps]
    if added[0][1] != shards:
        raise _other(before.shards, after.shards, shards)
    return Grown(before.shards, shards, partitions, offset_and_row(added[0][0])[0])


def _growth_behind(before: Growth, stream: Stream, sleep: Callable[[float], None]) -> Growth:
    """Wait until a committed row is read, which counts unless an earlier one does; return how many shards there are."""
    for _ in range(_READ_SECONDS):
        after = stream.growth()
        if after != before:
            return after
        sleep(1.0)
    raise UnreachableError(
        f"the control row is written, but was not read in {_READ_SECONDS} seconds: a signer holds a transaction open; "
        "run neardup topics describe, which says what counts"
    )


def shards(options: ShardsOptions, settings: StreamSettings) -> None:
    """Grow, and print what counts from where on. Raises as ``grow``."""
    names = names_of(settings)
    with closing(connect(settings)) as transport:
        check_agreed(transport, settings)
        stream = Stream(transport, names.topics, settings, names.group(MATCH), settings.shards)
        grown = grow(
            stream,
            lambda: transport.producer(f"{names.prefix}-shards-{names.generation}"),
            lambda count: transport.set_partitions(names.topics.links, count),
            options.number,
        )
    sys.stdout.writelines(f"{line}\n" for line in sentences(grown, names.topics, settings.shards))


def sentences(grown: Grown, topics: Topics, first: int) -> Iterator[str]:
    """Say what was, what is, and what happens next."""
    before, after, partitions, offset = grown
    yield f"before: {before} shards"
    yield f"now: {after} shards, from offset {offset} of {topics.signed} on"
    if partitions < after:
        yield f"{topics.links} has {after} partitions, {partitions} before: matchers share them within a minute"
    yield (
        "next: when the matcher of shard 0 reaches this offset, the new shards begin, empty; documents that are there "
        "stay where they are until they leave the window"
    )
    yield f"leave the setting shards at {first}: it says with how many the generation began, and is a part of its name"
    yield "see: neardup topics describe"


def check_growth(growth: Growth, shards: int) -> None:
    """Raise ``ConfigError`` unless a stream may grow to so many shards."""
    if shards == growth.shards:
        raise ConfigError(f"the stream has {shards} shards: name more")
    if shards < growth.shards:
        raise ConfigError(
            f"the stream has {growth.shards} shards, and {shards} are fewer: shards never end, and an empty one costs "
            "almost nothing; name more, or leave it as it is"
        )
    if len(growth.steps) == GROWTHS_MAX:
        raise ConfigError(
            f"the stream has grown {GROWTHS_MAX} times, and no more than that: make a new generation with --shards "
            f"{shards} (neardup topics plan --set shards={shards})"
        )


def _other(before: int, now: int, wanted: int) -> Failure:
    return Failure(
        Exit.USAGE,
        f"another administrator was first: the stream had {before} shards, and has {now} now, not {wanted}; if that is "
        "too few, run the command again",
    )
