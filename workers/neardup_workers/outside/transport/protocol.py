"""What a transport is: topics with partitions and offsets, consumer groups, transactions, and their errors.

Every transport guarantees the following. The files ``transport_*laws.py`` in ``tests/support/workers/transport`` are
the same list as laws, and they run on each transport.

- **Log.** A partition is a sequence of records with growing offsets. Control records leave gaps between them. Records
  of one producer keep their order within a partition. Only ``trim`` removes records; it moves the first offset up.
- **Transactions.** Everything sent between ``begin`` and ``commit`` becomes visible together with the offsets of the
  transaction, or never. Readers are read-committed: they stop before an open transaction.
- **Fencing.** A new producer with the same transactional id ends the transaction of the old producer, whose later calls
  all fail. A transaction with the membership of an older generation cannot be committed.
- **Groups.** Each partition of the topic is assigned to one member. A member learns of changes only by ``poll``. A
  partition that is new to it is paused and has no position until the member calls ``seek`` and ``resume``.

The caller must follow these rules. A violation of each has lost data:

1. One ``poll`` feeds one transaction, which uses the ``membership`` of that poll. A later membership may belong to
   another generation.
2. ``flush`` raises unless every record was acknowledged. Do not commit after it raised.
3. After ``abort`` has returned, nothing was committed: seek back and continue. After ``commit`` raised
   ``OutcomeUnknownError``, the outcome is unknown: drop the producer and restart from the committed offsets. Keep state
   that the transaction changed only if it matches those offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from neardup.errors import NeardupError
from neardup_workers.outside.transport.assignment import Offer, Share

# More bytes than a poll can return; those of an answer that lets a reader in a backlog make large steps.
UNBOUNDED, ANSWER_BYTES = 1 << 62, 8 << 20


class TransportError(NeardupError):
    """Base of all errors of a transport; the message says what was tried, on what, and the remedy."""


class FencedError(TransportError):
    """Another member or producer has taken over: restart.

    Raised by any call before ``commit``, nothing of the transaction was committed. Raised by ``commit``, an earlier
    request with a lost response may have committed it: read the committed offsets.
    """


class AbortedError(TransportError):
    """A record was not acknowledged or the transaction could not be committed; nothing of it was committed."""


class OutcomeUnknownError(TransportError):
    """A commit has no response: it may or may not have happened. The committed offsets show which."""


class OffsetGoneError(TransportError):
    """Requested offsets lie below the first offset of the log, or beyond its end."""


class UnreachableError(TransportError):
    """The broker did not answer in time; a later attempt may succeed."""


class TooLargeError(TransportError):
    """A record is longer than the broker accepts; it was not sent, and the transaction is unchanged."""


class UnreadableError(TransportError):
    """A batch of records has a compression that this build cannot read; another attempt does not help."""


class UnknownTopicError(TransportError):
    """The topic does not exist, or lacks a partition that it must have."""


# Names and values of the headers of a record, in order; without a value it is read as empty: no client here writes it.
Headers = tuple[tuple[str, bytes], ...]
HEADER_BYTES = 10  # of its two lengths, at most


class RefusedBatch(NamedTuple):
    """A compressed batch that was not unpacked, because its content exceeds the limit of the client.

    ``first_offset`` is the offset of its first record, ``packed_bytes`` its size in the log.
    """

    first_offset: int
    packed_bytes: int


class Record(NamedTuple):
    """One record of a log.

    ``timestamp_ms`` is when it was appended or what its producer set, depending on the topic; below 0 if neither is
    known. With ``refused``, the record represents a whole batch: ``offset`` is the offset of its last record, and key
    and value are empty. A ``Reader`` reads ``headers``; in a group they are empty unless the transport is to read them.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    refused: RefusedBatch | None = None
    headers: Headers = ()


def sent_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes that a record takes of the limit of a message: key, value and headers, with the lengths of each header."""
    size = len(value or b"") + len(key or b"")
    if not headers:  # most have none, and an empty sum takes half of the time
        return size
    return size + sum(HEADER_BYTES + len(name.encode(errors="replace")) + len(text) for name, text in headers)


class Message(NamedTuple):
    """A record to send. ``timestamp_ms``: since 1970, ``None`` for the present; topics may set their own."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


def record_bytes(record: Record | Message) -> int:
    """Bytes of key and value."""
    return len(record.value or b"") + len(record.key or b"")


class Committed(NamedTuple):
    """A committed position of a group in a partition: the next offset to read, and at most 4,000 characters."""

    offset: int
    metadata: str


class Membership(NamedTuple):
    """The member that polled: its group, generation and id, and the client's own object for the three."""

    group: str
    generation: int
    member: str
    handle: object


class Replication(NamedTuple):
    """Nodes in the cluster at present, and replicas of a topic in the partition that has the fewest."""

    nodes: int
    replicas: int


class Polled(NamedTuple):
    """The result of one ``poll``.

    ``assigned`` are partitions that are new since the last poll (paused), ``revoked`` are partitions that are no longer
    owned. A partition in both was lost and assigned again: others may have moved its offset. ``is_joining``: this
    member takes part in an unfinished rebalance; the broker may refuse a commit until a later poll has the outcome.
    ``standbys`` are the partitions that this member stands by for.
    """

    records: list[Record]
    membership: Membership
    assigned: tuple[int, ...]
    revoked: tuple[int, ...]
    is_joining: bool = False
    standbys: tuple[int, ...] = ()


class LogEnd(NamedTuple):
    """The ends of a partition's committed records and of all that are written, ``age_seconds`` ago or later."""

    committed: int
    written: int
    age_seconds: float


class Consumer(Protocol):
    """One member of a group on one topic; it reads committed records. Offsets are committed by a ``Producer``.

    One thread uses it. A call for a partition that is not assigned raises ``AssertionError``.
    """

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """Take part in the group, and read records of the resumed partitions.

        Args:
            timeout_seconds: how long to wait until one of the two limits is reached; a change of assignment ends it,
                and some megabytes of records may end it.
            records_max: maximum number of records to return.
            bytes_max: bytes of keys and values; the record that reaches it is the last one.

        Returns:
            Records of partitions that are still assigned, and the membership that they belong to. A member that the
            group has removed sees its partitions in ``revoked``, and joins again by itself. One whose instance another
            process took over may learn it only when ``send_offsets`` fails.

        Raises:
            OffsetGoneError, UnreachableError: as ``Reader.poll``.
            FencedError: another process uses the same instance; make a new consumer.
        """

    def offer(self, offer: Offer) -> None:
        """Say, with the next join, which tables this member has; a member whose share is outdated joins again."""

    def committed(self, partition: int) -> Committed | None:
        """Read the committed offset of the group; ``None`` if there is none.

        Raises:
            UnreachableError: a pending transaction holds the offset and does not end in time; poll, and ask again.
        """

    def seek(self, partition: int, offset: int) -> None:
        """Set the position: the offset of the next record to read."""

    def pause(self, partitions: Sequence[int]) -> None:
        """Read no records of these partitions until ``resume``. The member stays in the group as long as it polls."""

    def resume(self, partitions: Sequence[int]) -> None:
        """Read records of these partitions again; each must have a position."""

    def lag(self) -> dict[int, int]:
        """Return records between position and end of each assigned partition, as far as the client knows."""

    def positions(self) -> dict[int, int]:
        """Return the position of each assigned partition that has one; control and aborted records move it, too."""

    def ends(self) -> dict[int, LogEnd]:
        """Return the end of each assigned partition for which the client knows it. Sends no request."""

    def close(self) -> None:
        """Free everything; never raises.

        A named instance keeps its partitions until its session ends. A member without a name leaves the group at once.
        """


class Reader(Protocol):
    """Reads committed records of several partitions of a topic as they come, without a group. One thread uses it."""

    def follow(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> list[Record]:
        """Return the records that have arrived, in order within a partition, at most about ``bytes_max`` bytes.

        Raises:
            OffsetGoneError: the position of a partition is outside its log.
            UnreachableError: the broker does not answer.
        """

    def hold(self, partitions: Collection[int]) -> None:
        """Pause these partitions until the next call, and resume all others."""

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each partition."""

    def ends(self) -> dict[int, int]:
        """Return the end of committed records of each partition, as of its last read. Sends no request."""

    def close(self) -> None:
        """Free everything; never raises."""


class Producer(Protocol):
    """A transactional producer: ``begin``, any number of ``send``, ``flush``, ``send_offsets``, ``commit``.

    One thread uses it. Calls may raise ``FencedError`` (make a new producer) and, where they say so, ``AbortedError``
    (call ``abort``) and ``OutcomeUnknownError`` (make a new producer, read the committed offsets). A call that the
    state does not allow raises ``AssertionError``.

    ``last_error`` is the last error as a sentence: topic, reason of the broker, remedy; empty if there was none.
    """

    last_error: str

    def begin(self) -> None:
        """Open a transaction; raises ``AbortedError`` if the broker is away and the client must be replaced."""

    def send(self, message: Message) -> None:
        """Append a record to the transaction, asynchronously: ``flush`` reports failures.

        Raises:
            TooLargeError: the record is longer than the limit; the transaction is unchanged.
            UnknownTopicError: there is no such partition; the transaction is unchanged.
        """

    def flush(self) -> list[int]:
        """Wait until every record is acknowledged; raises ``AbortedError`` if one is not.

        Returns:
            The offsets of the records since the last flush, in the order of ``send``; -1 for one that is not known.
        """

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Add offsets of the group to the transaction. Call ``flush`` before.

        Args:
            topic: the polled topic, or a topic that the member reads without the group.
            offsets: partition -> next offset to read.
            membership: the membership of the poll that returned the records.

        Raises:
            FencedError: the membership is older than the present generation; abort the transaction.
            AbortedError: the offsets were not accepted; abort the transaction.
        """

    def commit(self) -> None:
        """Make the transaction visible. Raises the failure of an earlier call again, or ``OutcomeUnknownError``."""

    def abort(self) -> None:
        """Undo the transaction; raises ``OutcomeUnknownError`` if its state cannot be determined."""

    def close(self) -> None:
        """Abort an open transaction if the broker answers soon, and free everything; never raises."""


class Transport(Protocol):
    """Access to topics. It opens connections only when it is used, so it may be made before a fork.

    Several threads may use it at the same time; each consumer and producer belongs to one thread.
    """

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; raises ``UnknownTopicError``, ``UnreachableError``."""

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Make a member of a group; it joins at its first ``poll``.

        Args:
            topic: the topic whose partitions the group shares.
            group: name of the group.
            instance: stable name of the member, which keeps its partitions over a quick restart. Empty for a member
                that leaves the group when it closes.

        Raises:
            UnknownTopicError: the topic does not exist.
            UnreachableError: the broker does not answer.
        """

    def producer(self, transactional_id: str) -> Producer:
        """Make a producer, which fences earlier ones of the id and ends their transaction; ``UnreachableError``."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """Read the committed records of ``[start, end)`` in order, without a group.

        Returns:
            Lists of records. An empty list means that no record has arrived yet, so that the caller can do other work.

        Raises:
            OffsetGoneError: ``start`` or ``end`` is outside the log.
            UnreachableError: an open transaction before ``end`` does not end in time, or the broker does not answer.
        """

    def reader(self, topic: str, answer_bytes: int = ANSWER_BYTES) -> Reader:
        """Make a reader of a topic, which reads nothing until its first ``follow``. An answer has about so much of a
        partition: little for who reads single messages. Raises ``UnreachableError``."""

    def bounds(self, topic: str, *, written: bool = False) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition: where a read-committed reader stops, or, with ``written``,
        the end of all records, those of open transactions too."""

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset of each partition that has this time or a later one; its end if none has."""

    def group_offsets(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the committed offsets of a group, by partition; empty for an unknown group.

        It never waits: offsets of open transactions do not count.
        """

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        """Commit offsets of a group that no member joins; raises ``FencedError``, and changes nothing, if one has."""

    def members(self, group: str) -> int:
        """Return the number of members of a group."""

    def shares(self, group: str) -> dict[str, Share]:
        """Return what each member of a group has been given last, by its instance."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return what tells each topic that the broker knows from another one of its name; empty if it gives no ids."""

    def configs(self, topic: str) -> Mapping[str, str]:
        """Return the settings in effect of a topic; empty if this user may not see them. ``UnknownTopicError``."""

    def replication(self, topic: str) -> Replication:
        """Return nodes of the cluster and replicas of a topic; raises ``UnknownTopicError``, ``UnreachableError``."""

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records below the given offset in each partition."""

    def leave(self, group: str, instance: str) -> None:
        """Remove a closed instance from its group, so that other members need not wait for the end of its session."""

    def close(self) -> None:
        """Free everything; never raises. Consumers and producers are closed by their owners."""
