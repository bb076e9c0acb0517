"""Where a group begins in a topic that may get more partitions while workers run.

The first start commits offsets for all partitions of the topic at once. Hence a partition without an offset in a group
that has offsets for others was added later: it starts at its beginning, or what came before a worker saw it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from neardup.stream.errors import ConfigError
from neardup.workers.settings.kafka import STARTS
from neardup.workers.stages.transaction import transact
from neardup.workers.telemetry.observer import Observer
from neardup.workers.transport.protocol import Committed, Consumer, Membership, Producer, Transport

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


@contextmanager
def decoded_metadata(metadata: str, versions: Container[int], role: str) -> Iterator[dict[str, Any]]:
    """Decode the metadata of a committed offset, a JSON object with a version.

    Raises ``ConfigError``, also for what the caller cannot read of it, because no worker of this role wrote it.
    """
    try:
        fields = orjson.loads(metadata)
        if fields["version"] not in versions:
            raise ValueError
        yield fields
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"the group has committed an offset with metadata {metadata[:80]!r}, which no {role} wrote: "
            "use another group, or reset this one and say where to start with --from"
        ) from None


def committed_start(
    transport: Transport,
    consumer: Consumer,
    producer: Producer,
    topic: str,
    partition: int,
    start: str | None,
    metadata: Callable[[int], str],
    membership: Membership,
    observer: Observer,
) -> Committed | None:
    """Return what the group has committed; commit the start if that is nothing, with the metadata of each partition.

    ``None`` while another member has to decide it. Raises ``ConfigError`` when the group has no offset and no start is
    given, so no worker chooses a start silently; and what ``transact`` raises.
    """
    committed = consumer.committed(partition)
    if committed is not None:
        return committed
    # The order matters: if the first start happens between the two requests, the second answer shows it.
    others = transport.group_offsets(membership.group, topic)
    committed = consumer.committed(partition)
    bounds = transport.bounds(topic)
    if committed is not None or partition not in bounds:
        return committed
    if others:
        first = {partition: Committed(bounds[partition][0], metadata(partition))}
    else:
        first = {each: Committed(start_offset(lambda: bounds, each, start), metadata(each)) for each in bounds}
        if partition != min(bounds):
            return None
    transact(producer, [], topic, first, membership, observer)
    return first[partition]
