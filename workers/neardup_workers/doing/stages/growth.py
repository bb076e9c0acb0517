"""How many shards a stream has at a place of its log: what workers have committed, and the control rows behind it.

Every worker commits, with its offset in ``signed``, the growth that it has passed. So a worker that begins somewhere
reads the log from the furthest committed offset alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neardup.pairs.shards import Growth
from neardup.schemes.config import Config
from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.signed import PARTITION, decode_signed, position_of
from neardup_workers.outside.transport.protocol import Transport


def growth_fields(growth: Growth) -> list[Any]:
    """Return a growth as values of JSON, for the metadata of an offset."""
    return [growth.first, growth.steps]


def growth_of(fields: Sequence[Any]) -> Growth:
    """Return what ``growth_fields`` has written; raises ``TypeError`` or ``ValueError`` for other values."""
    first, steps = fields
    return Growth(int(first), tuple((int(position), int(shards)) for position, shards in steps))


def growth_at(
    transport: Transport, topics: Topics, config: Config, passed: Mapping[int, Growth], offset: int
) -> Growth:
    """Return how many shards there are before an offset of ``signed``, by what is known at one or more committed
    offsets.

    Raises ``OffsetGoneError`` if another member trims the log meanwhile: ask again; and ``UnreachableError``.
    """
    furthest = max(passed)
    growth = max(passed.values(), key=lambda known: len(known.steps)).until(position_of(offset))
    first = transport.bounds(topics.signed)[PARTITION][0]
    for records in transport.read(topics.signed, PARTITION, max(first, furthest), offset):
        for record in records:
            rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
            if rows.growth is not None:
                growth = growth.grown(position_of(record.offset + 1), *rows.growth)
    return growth
