"""The transport: topics with partitions and offsets, consumer groups, transactions. The protocol, and its errors.

What every transport guarantees (``tests/processes/transport_laws.py`` and ``transport_group_laws.py`` hold it as a
list of laws, which runs on each):

- **Log.** A partition is a sequence of records with growing offsets, with gaps where control records stood. Records of
  one producer keep their order within a partition. ``trim`` moves the first offset up; nothing else removes a record.
- **Transactions.** What is sent between ``begin`` and ``commit`` becomes visible to readers at once and whole, together
  with the offsets handed in, or never. Readers are read-committed: they stop before an open transaction.
- **Fencing.** A new producer with the same transactional id ends the transaction of the old one and makes its every
  later call fail. Offsets handed in with the membership of an older generation are refused, and so is the commit.
- **Groups.** Every partition of the topic is assigned to one member. A member learns of changes by ``poll`` only; a
  newly assigned partition is paused, without position, until the member has called ``seek`` and ``resume``.

The rules of use, each paid for by lost data in the client below:

1. One ``poll`` is one step, and its ``membership`` goes with its records; a later one may belong to another generation.
2. ``flush`` raises unless every record sent was acknowledged. Never commit after it raised.
3. After ``abort`` returned, the step did not happen: seek back and go on. After ``commit`` raised
   ``OutcomeUnknownError`` nobody knows: drop the producer, and start anew from the committed offsets. What the step
   touched may be kept only if it is found to stand exactly there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from stream.errors import NeardupError

# More bytes than a poll can give.
UNBOUNDED = 1 << 62


class TransportError(NeardupError):
    """Base of what a transport raises; says what was tried, on what, and what to do."""


class FencedError(TransportError):
    """Another member or producer took this one's place: start anew.

    Out of any call before ``commit`` nothing of the step was committed. Out of ``commit`` it may have been, by an
    earlier request whose answer was lost: only the committed offsets tell.
    """


class AbortedError(TransportError):
    """A record was not acknowledged or the step could not be committed, and it is known not to have happened."""


class OutcomeUnknownError(TransportError):
    """A commit was sent and not answered: it may or may not have happened. Only a restart from the log can tell."""


class OffsetGoneError(TransportError):
    """Offsets asked for lie below the first one of the log, or beyond its end."""


class UnreachableError(TransportError):
    """The broker did not answer in time; trying again later may work."""


class TooLargeError(TransportError):
    """A record is longer than the broker takes; nothing was sent, and the transaction is as it was."""


class UnreadableError(TransportError):
    """A batch of records is packed in a way that this build does not read: trying again does not help."""


class UnknownTopicError(TransportError):
    """The topic does not exist, or has not the partitions that it must have."""


class RefusedBatch(NamedTuple):
    """A compressed batch that was not unpacked, because its content exceeds ``batch_bytes_max``.

    ``first_offset`` is that of its first record, ``packed_bytes`` its size in the log.
    """

    first_offset: int
    packed_bytes: int


class Record(NamedTuple):
    """One record of a log. ``timestamp_ms``: when it was appended, or what its producer set; below 0 if it set none.

    With ``refused`` it stands for a whole batch: it has the offset of the last record there, no key and no value.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    refused: RefusedBatch | None = None


class Committed(NamedTuple):
    """A position of a group in a partition: the next offset to read, with a text of at most 4,000 characters."""

    offset: int
    metadata: str


class Membership(NamedTuple):
    """Who polled: the group, its generation, the member's id in it, and the client's own form of the same."""

    group: str
    generation: int
    member: str
    handle: object


class Replication(NamedTuple):
    """How many nodes the cluster has now, and how many replicas a topic has, in the partition with the fewest."""

    nodes: int
    replicas: int


class Polled(NamedTuple):
    """What one ``poll`` gave. ``assigned`` came new (paused), ``revoked`` went away, since the last poll."""

    records: list[Record]
    membership: Membership
    assigned: tuple[int, ...]
    revoked: tuple[int, ...]


class Consumer(Protocol):
    """One member of a group on one topic, read-committed. It commits nothing: offsets go through a producer."""

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """Wait until there are ``records_max`` records or ``bytes_max`` of keys and values, or the time is over.

        At once on a change of assignment. The record that reaches ``bytes_max`` is the last one.

        Takes no records of partitions revoked since. A member that was put out learns it by ``revoked``, and joins
        again; a partition in both tuples came back void. A member whose instance was taken over by another process is
        told by nobody but ``send_offsets``. Raises ``OffsetGoneError``, ``UnreachableError``.
        """

    def committed(self, partition: int) -> Committed | None:
        """What the group has committed for an assigned partition; waits a while for a pending transaction to end.

        Raises ``UnreachableError`` if it does not end in time: ask again after another ``poll``.
        """

    def seek(self, partition: int, offset: int) -> None:
        """Set the position of an assigned partition."""

    def pause(self, partitions: Sequence[int]) -> None:
        """Take no records of these until ``resume``; the member goes on polling, so it keeps its place."""

    def resume(self, partitions: Sequence[int]) -> None:
        """Take records of these again."""

    def lag(self) -> dict[int, int]:
        """Records between the position and the end of each assigned partition, as far as the client knows."""

    def positions(self) -> dict[int, int]:
        """The offset of the next record to take, of each assigned partition that has a position; asks nobody.

        It passes what is not for readers too: control records, and those of aborted transactions.
        """

    def close(self) -> None:
        """Free what is held; never raises. A named instance keeps its partitions until its session ends, a nameless one
        leaves at once."""


class Producer(Protocol):
    """A transactional producer. Its calls raise ``FencedError``, ``AbortedError``, ``OutcomeUnknownError``."""

    def begin(self) -> None:
        """Open a transaction."""

    def send(
        self, topic: str, partition: int, value: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Append to the transaction; asynchronous: ``flush`` tells whether it worked.

        Raises ``TooLargeError``, and then the transaction is as it was.
        """

    def flush(self) -> None:
        """Wait until every record is acknowledged; raises ``AbortedError`` if one is not (call ``abort`` next)."""

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Put the group's offsets into the transaction; ``AssertionError`` if records have had no ``flush``."""

    def commit(self) -> None:
        """Make the transaction visible; ``OutcomeUnknownError`` if no answer came, or an earlier failure again."""

    def abort(self) -> None:
        """Undo the transaction; raises ``OutcomeUnknownError`` if that cannot be told."""

    def close(self) -> None:
        """Free what is held; an open transaction is aborted; never raises and never blocks for long."""


class Transport(Protocol):
    """Where topics live. Cheap to make; safe to make anew after a fork."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; raises ``UnknownTopicError``."""

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Join ``group`` as ``instance``: a stable name, which keeps its partitions over a quick restart."""

    def producer(self, transactional_id: str) -> Producer:
        """A producer that fences every earlier one of the same id."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """The committed records of ``[start, end)`` in order, without a group; an empty list says: nothing yet.

        Raises ``OffsetGoneError``; ``UnreachableError`` where it would have to wait for an open transaction.
        """

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """First offset and end of each partition; the end is where a read-committed reader would stop."""

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings of a topic in effect, by Kafka's names; empty where they are not to be seen.

        Raises ``UnknownTopicError``.
        """

    def replication(self, topic: str) -> Replication:
        """Nodes of the cluster and replicas of a topic; raises ``UnknownTopicError``, ``UnreachableError``."""

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offsets."""

    def leave(self, group: str, instance: str) -> None:
        """Give up the place of an instance that has closed: others need not wait for the end of its session."""

    def close(self) -> None:
        """Free what is held; never raises."""
