"""The transaction of a step, the same for every worker, in the only order that loses nothing.

1. ``begin``; 2. ``send`` everything; 3. ``flush``: all acknowledged; 4. ``send_offsets`` with the membership that was
polled with the records; 5. ``commit``. ``KAFKA`` in the documentation says what each costs when it is left out.

What comes back is one of three: the step happened; it is known not to have happened (``AbortedError``: undo, seek back,
go on); nobody knows, or somebody else has taken over (``OutcomeUnknownError``, ``FencedError``: start anew from the
log).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workers.transport import Committed, Membership, OutcomeUnknownError, Producer, TransportError


class Message(NamedTuple):
    """One record to send."""

    topic: str
    partition: int
    value: bytes
    key: bytes | None = None


def transact(
    producer: Producer,
    messages: Sequence[Message],
    topic: str,
    offsets: Mapping[int, Committed],
    membership: Membership,
) -> None:
    """Publish ``messages`` and commit ``offsets`` of ``topic`` as one transaction, or raise and publish nothing.

    Raises ``AbortedError``, ``FencedError`` or ``OutcomeUnknownError`` as the module says.
    """
    producer.begin()
    try:
        for message in messages:
            producer.send(message.topic, message.partition, message.value, message.key)
        producer.flush()
        producer.send_offsets(topic, offsets, membership)
    except OutcomeUnknownError:
        raise
    except TransportError:
        producer.abort()  # raises OutcomeUnknownError if even that cannot be told
        raise
    producer.commit()
