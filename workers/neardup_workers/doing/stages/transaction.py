"""The transaction of a step, the same for every worker, in the only order that loses nothing.

1. ``begin``; 2. ``send`` everything; 3. ``flush``: everything is acknowledged; 4. ``send_offsets`` with the membership
   of the poll that returned the records; 5. ``commit``. "The commit of a worker" in ``docs/ARCHITECTURE.md`` describes
   the effect of a crash after each call; ``neardup_workers.outside.transport.kafka.producer`` describes other orders
   that the client allows.

The poll bounds the records of a step. The bytes that a step holds in memory and sends are bounded too, and so are the
pairs of a matcher. The client keeps some kilobytes for each record until the broker has it, and each flush has a
deadline, so a step is sent and flushed in slices of ``_FLUSH_MESSAGES``.

A step has one of three outcomes. It is committed. It is aborted (``AbortedError``: undo, seek back, continue). Or its
outcome is unknown, or another process has taken over (``OutcomeUnknownError``, ``FencedError``: restart from the log).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from neardup_workers.outside.telemetry.observer import SILENT, Observer, stage
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Membership,
    Message,
    OutcomeUnknownError,
    Producer,
    TransportError,
    record_bytes,
)

# Outcomes of a committed transaction: a step, or a renewal of known offsets, which is no progress.
COMMITTED, RENEWED = "committed", "renewed"
# Error of a failed transaction -> its outcome in the metrics.
_OUTCOMES: dict[type[TransportError], str] = {
    AbortedError: "aborted",
    FencedError: "fenced",
    OutcomeUnknownError: "unknown",
}

# Maximum time from the commit of the offsets to a trim. No session is shorter, so no other member can take over before
# the trim.
TRIM_SECONDS_MAX = 1.0
# Records sent between two flushes: larger slices are no faster.
_FLUSH_MESSAGES = 4_000


def transact(
    producer: Producer,
    messages: Sequence[Message],
    topic: str,
    offsets: Mapping[int, Committed],
    membership: Membership,
    observer: Observer = SILENT,
    outcome: str = COMMITTED,
    more_offsets: Mapping[str, Mapping[int, Committed]] = MappingProxyType({}),
) -> None:
    """Publish ``messages`` and commit ``offsets`` of ``topic`` as one transaction, or raise and publish nothing.

    The metrics count a commit as ``outcome``. ``more_offsets`` are offsets of topics that the member reads without the
    group, by topic. Raises ``AbortedError``, ``FencedError`` or ``OutcomeUnknownError``; see the module. After any
    failure, also of ``begin`` and ``commit``, the transaction must be aborted before the next one.
    """
    try:
        _publish(producer, messages, {topic: offsets, **more_offsets}, membership, observer)
    except TransportError as error:
        observer.count("transactions", 1, _OUTCOMES.get(type(error), "aborted"))
        raise
    observer.count("transactions", 1, outcome)
    observer.count("sent_messages", len(messages))
    observer.count("sent_bytes", sum(map(record_bytes, messages)))


def _publish(
    producer: Producer,
    messages: Sequence[Message],
    offsets: Mapping[str, Mapping[int, Committed]],
    membership: Membership,
    observer: Observer,
) -> None:
    try:
        with stage(observer, "send"):
            producer.begin()
        for first in range(0, max(1, len(messages)), _FLUSH_MESSAGES):
            with stage(observer, "send"):
                for message in messages[first : first + _FLUSH_MESSAGES]:
                    producer.send(message)
            with stage(observer, "flush"):
                producer.flush()
        with stage(observer, "commit"):
            started = time.perf_counter()
            for topic, committed in offsets.items():
                producer.send_offsets(topic, committed, membership)
            producer.commit()
            observer.sample("commit_seconds", [time.perf_counter() - started])
    except OutcomeUnknownError:
        raise
    except TransportError:
        producer.abort()  # raises OutcomeUnknownError if the state is unknown
        raise
