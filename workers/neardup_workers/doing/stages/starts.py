"""Where a group begins in a topic that may get more partitions while workers run.

The first start commits offsets for all partitions of the topic at once. Hence a partition without an offset in a group
that has offsets for others was added later: it starts at its beginning, or what came before a worker saw it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from neardup.errors import ConfigError
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.settings.kafka import STARTS
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, Transport

# First offset and end of each partition of a topic.
Bounds = Callable[[], dict[int, tuple[int, int]]]


def start_offset(bounds: Bounds, partition: int, start: str | None) -> int:
    """Return the offset that ``earliest`` or ``latest`` means; raises ``ConfigError`` for others."""
    first, end = bounds()[partition]
    if start is None:
        raise ConfigError(
            f"the group has no committed offset for partition {partition}: "
            "say where to start with --from earliest or --from latest"
        )
    if start not in STARTS:
        raise ConfigError(
            f"--from {start} names a generation, which only a filter can follow: start this role with --from earliest "
            "or --from latest, and the filters on their own"
        )
    return {"earliest": first, "latest": end}[start]


def check_end(transport: Transport, topic: str, group: str, committed: Mapping[int, int]) -> None:
    """Raise ``OffsetGoneError`` if a log ends before what a group has committed of it, by partition.

    The end of a log never moves back, so it is another log. All that is written counts: a leader may not know yet what
    is committed. A partition that the broker does not know yet is no concern of this.
    """
    bounds = transport.bounds(topic, written=True)
    for partition, offset in sorted(committed.items()):
        end = bounds[partition][1] if partition in bounds else offset
        if offset > end:
            raise OffsetGoneError(
                f"partition {partition} of {topic} ends at {end}, and {group} has committed {offset}: the topic was "
                "made again, and what stood in it is lost; end all workers of the group, delete it with the tools of "
                "Kafka, and start them with --from earliest"
            )


def check_ends(transport: Transport, group: str, committed: Mapping[str, Mapping[int, Committed]]) -> None:
    """Check several topics by ``check_end``."""
    for topic, offsets in committed.items():
        check_end(transport, topic, group, {partition: at.offset for partition, at in offsets.items()})


@contextmanager
def decoded_metadata(metadata: str, version: int, role: str) -> Iterator[dict[str, Any]]:
    """Decode the metadata of a committed offset, a JSON object with a version.

    Raises ``ConfigError``, also for what the caller cannot read of it, because no worker of this role wrote it.
    """
    try:
        fields = orjson.loads(metadata)
        if fields["version"] != version:
            raise ValueError
        yield fields
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"the group has committed an offset with metadata {metadata[:80]!r}, which no {role} wrote: "
            "use another group, or reset this one and say where to start with --from"
        ) from None


def committed_start(
    member: WorkerMember,
    topic: str,
    partition: int,
    start: str | None,
    metadata: Callable[[int, int], str],
    read: Bounds | None = None,
) -> Committed | None:
    """Return what the group of a member has committed in its topic; if that is nothing, commit the start, unless
    another member has to decide it: ``None``.

    ``metadata`` returns the metadata of the start, for a partition and an offset; ``read`` returns the bounds of what
    each partition reads, by default those of the partition itself.

    Raises ``ConfigError`` if the group has no offset and no start is given, so no worker chooses a start silently; the
    errors of ``transact``.
    """
    committed = member.consumer.committed(partition)
    if committed is not None:
        return committed
    # The order matters: if the first start happens between the two requests, the second answer shows it.
    others = member.transport.group_offsets(member.membership.group, topic)
    committed = member.consumer.committed(partition)
    bounds = member.transport.bounds(topic) if read is None else read()
    if committed is not None or partition not in bounds:
        return committed
    if others:
        begun = {partition: bounds[partition][0]}
    else:
        begun = {each: start_offset(lambda: bounds, each, start) for each in bounds}
        if partition != min(bounds):
            return None
    first = {each: Committed(offset, metadata(each, offset)) for each, offset in begun.items()}
    member.transact([], topic, first)
    return first[partition]
