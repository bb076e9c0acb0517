"""A transactional producer with a safe order of calls and deadlines: it loses no record without an error, and never
hangs.

A transaction has these steps. The client allows other orders, and each other order has lost data:

1. ``begin``. After a crash from here to 5 the transaction stays open, and readers wait before it. It ends when the next
   producer of the same id starts, or by its timeout. Nothing is committed.
2. ``send`` to explicit partitions. Records are collected, and go to the client as whole batches, which it sends and
   acknowledges on its own thread.
3. ``flush``: every record must be acknowledged. The client's own flush returns normally if some are not, and its commit
   then succeeds without them (rule 1). So the future of each batch is checked.
4. ``send_offsets`` with the membership of the ``poll`` that returned the records. This module refuses generation -1,
   because the broker accepts it (rule 2).
5. ``commit``. Without a response within the deadline the outcome is unknown, and the producer is lost. After a crash
   from here on the transaction is committed, and the committed offsets show it.

Theory of operation. ``ready -> open -> ready``, with two more states.

    ready --begin--> open --commit, abort--> ready
    open --a send, flush or the offsets failed--> failed --abort--> ready
    open --no response to commit, fenced--> lost          every call but close raises from then on

In the state ``failed`` a commit is refused. Without a commit request the broker cannot commit, so ``abort`` does not
wait forever: without a response it abandons the client and returns. A client that was abandoned, or that failed to
deliver, is *stale*: its sequence numbers may differ from those of the broker. The next ``begin`` makes a new client,
whose start ends any open transaction. If the broker cannot be reached, that ``begin`` fails, and the worker aborts and
tries again as after any other failure.

The client's own commit waits without a limit, and forever if the coordinator refuses its connection (rule 5).
``client_internals.transactions`` therefore sends the request and waits with a deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

import numpy as np
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as client_errors

from neardup_workers.outside.transport.kafka.client_internals import batches, transactions
from neardup_workers.outside.transport.kafka.client_settings import (
    KafkaSettings,
    as_transport_error,
    is_fenced,
    is_forbidden,
    is_producer_fenced,
    milliseconds,
)
from neardup_workers.outside.transport.kafka.record_batches import PendingRecords, encode
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Membership,
    Message,
    OutcomeUnknownError,
    TooLargeError,
    TransportError,
    UnknownTopicError,
    UnreachableError,
    sent_bytes,
)

_log = logging.getLogger(__name__)

# The client sleeps this long once in each transaction, while the broker ends the previous transaction. With its default
# of 100 ms, a transaction takes 112 ms instead of 10.
_RETRY_BACKOFF_MILLISECONDS = 4
# Errors that the broker answered.
_ANSWERS = client_errors.BrokerResponseError
# Answer of the broker that stays the same until somebody acts -> the remedy.
_REMEDIES: dict[type[Exception], str] = {
    client_errors.MessageSizeTooLargeError: "raise max.message.bytes of the topic",
    client_errors.RecordListTooLargeError: "raise segment.bytes of the topic",
}
# A batch with the order of its records.
_Sent = tuple[TopicPartition, list[int], batches.SentRecords]
# The broker refuses 4,097 characters, and then the whole transaction.
METADATA_CHARACTERS_MAX = 4000


class KafkaTransactionalProducer:
    """See ``neardup_workers.outside.transport.protocol.Producer`` and the theory of operation above.

    ``partitions`` returns the number of partitions of a topic. Raises ``UnreachableError`` if no broker answers.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str, partitions: Callable[[str], int]) -> None:
        self._settings = settings
        self._id = transactional_id
        self._partitions = partitions
        self._state: Literal["ready", "open", "failed", "lost"] = "ready"
        self._failure: TransportError | None = None
        self.last_error = ""
        self._stale = False  # make a new client at the next begin
        self._is_abandoned = False  # the client gets no more requests
        self._counts: dict[str, int] = {}  # topics that the client knows -> number of partitions
        self._pending: dict[TopicPartition, PendingRecords] = {}  # records that are in no batch yet
        self._sent: list[_Sent] = []
        self._unflushed = 0  # records since the last flush
        self.message_bytes_max = settings.message_bytes_max
        try:
            self._client = self._connect()
        except client_errors.KafkaError as error:
            raise as_transport_error(f"producer {transactional_id!r} cannot start", error) from error

    def begin(self) -> None:
        """Open a transaction; raises ``AbortedError`` if a new client is needed and no broker answers."""
        self._expect("begin", "ready")
        self._state = "open"
        try:
            if self._stale:
                self._abandon()
                self._client = self._connect()
                self._stale = False
            self._client.begin_transaction()
        except client_errors.KafkaError as error:
            raise self._fail("begin", error) from error

    def send(self, message: Message) -> None:
        """Append to the transaction; ``flush`` reports failures of delivery.

        Raises ``UnknownTopicError`` and ``TooLargeError`` at once, without harm to the transaction.
        """
        self._expect("send", "open", "failed")
        topic, partition, value, key, timestamp_ms, headers = message
        if value is None and key is None:
            raise AssertionError(f"a record for {topic}-{partition} has neither key nor value: the client refuses it")
        bytes_sent = sent_bytes(key, value, headers)
        if bytes_sent > self.message_bytes_max:
            raise TooLargeError(
                f"a record of {bytes_sent} bytes for {topic}-{partition} is over the limit of {self.message_bytes_max};"
                " send less at once, or raise max.request.size and the topic's own limit"
            )
        if self._state == "failed":
            return
        pending = self._pending.get((topic, partition))  # as TopicPartition, which takes longer to make
        if pending is None or not pending.has_room(bytes_sent, self._settings.batch_bytes):
            pending = self._next_pending(topic, partition)
        if pending is not None:
            pending.add(self._unflushed, bytes_sent, key, value, timestamp_ms, headers)
            self._unflushed += 1

    def _next_pending(self, topic: str, partition: int) -> PendingRecords | None:
        """Hand over the records of a partition and begin new ones; ``None`` if the transaction fails."""
        try:
            count = self._counts.get(topic) or self._learn(topic)
            if not 0 <= partition < count:
                count = self._partitions(topic)
                if not 0 <= partition < count:
                    raise UnknownTopicError(f"{topic!r} has no partition {partition}: it has {count}, from 0")
                # It was added after the client learned the topic: the next client knows it.
                added = client_errors.UnknownTopicOrPartitionError(
                    f"the topic had {self._counts[topic]} partitions before"
                )
                self._fail(f"send to {topic}-{partition}", added)
                return None
            log = TopicPartition(topic, partition)
            self._hand_over(log)
            pending = self._pending[log] = PendingRecords()
            return pending
        except (client_errors.KafkaError, UnreachableError) as error:
            self._fail(f"send to {topic}-{partition}", error)
            return None

    def flush(self) -> list[int]:
        """Wait until every record is acknowledged (rule 1; rule 6: the client buffers without a limit).

        Returns the offsets of the records since the last flush, -1 where the broker has not reported one.
        """
        self._expect("flush", "open", "failed")
        self._raise_failure()
        offsets = np.full(self._unflushed, -1)
        try:
            for log in [*self._pending]:
                self._hand_over(log)
            sent, self._sent, self._unflushed = self._sent, [], 0
            batches.wait(self._client, [one for _, _, one in sent], self._settings.flush_timeout_seconds)
        except client_errors.KafkaError as error:
            raise self._fail("flush", error) from error
        failed = []
        for log, order, one in sent:
            try:
                offsets[order] = one.offsets()
            except client_errors.KafkaError as error:
                failed.append((f"{log.topic}-{log.partition}", error))
        if failed:
            # The answer of the broker is the cause; records that are dropped after it have errors of the client.
            name, cause = next((one for one in failed if isinstance(one[1], _ANSWERS)), failed[0])
            raise self._fail(f"send to {name}", cause) from cause
        return offsets.tolist()

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Add offsets of the group to the transaction, with the membership that polled the records (rule 2).

        Raises ``FencedError`` for an older membership; the transaction can then be aborted. A call without a flush of
        all records is a bug of the caller.
        """
        self._expect("send_offsets", "open", "failed")
        self._raise_failure()
        if self._unflushed:
            raise AssertionError(f"{self._unflushed} records of {self._id!r} have had no flush: flush first")
        positions = {}
        for partition, committed in offsets.items():
            if len(committed.metadata) > METADATA_CHARACTERS_MAX:
                raise AssertionError(
                    f"metadata of {topic}-{partition} has {len(committed.metadata)} characters; the limit is "
                    f"{METADATA_CHARACTERS_MAX}"
                )
            positions[TopicPartition(topic, partition)] = OffsetAndMetadata(committed.offset, committed.metadata, -1)
        try:
            if membership.generation < 0:
                raise client_errors.CommitFailedError("the member is in no generation")
            result = transactions.begin_offsets(self._client, positions, membership.handle)
            transactions.wait(self._client, result, self._settings.commit_timeout_seconds)
        except client_errors.KafkaError as error:
            raise self._fail(f"send_offsets of {membership.group!r} on {topic!r}", error) from error

    def commit(self) -> None:
        """Make the transaction visible if all its records arrived; otherwise raise the first failure again.

        ``FencedError`` is the last response. If an earlier response was lost, the transaction may be committed. So
        restart from the committed offsets after either error.
        """
        self._expect("commit", "open", "failed")
        self._raise_failure()
        if self._unflushed:
            self.flush()
        try:
            result = transactions.begin_commit(self._client)
        except client_errors.KafkaError as error:
            raise self._fail("commit", error) from error
        try:
            transactions.wait(self._client, result, self._settings.commit_timeout_seconds)
        except Exception as error:
            self._state = "lost"
            self._abandon()
            kind: type[TransportError] = FencedError if is_fenced(error) else OutcomeUnknownError
            self._failure = kind(
                f"the commit of producer {self._id!r} was not confirmed ({error}); drop what the step changed and"
                " restart from the committed offsets"
            )
            raise self._failure from error
        self._state = "ready"

    def abort(self) -> None:
        """Undo the transaction. Without a response, the broker aborts it later: without a commit request it cannot do
        otherwise.

        Raises ``FencedError`` if another producer with the id took over.
        """
        self._expect("abort", "open", "failed")
        self._pending.clear()
        self._sent.clear()
        self._unflushed = 0
        if not self._is_abandoned:
            try:
                result = transactions.begin_abort(self._client)
                transactions.wait(self._client, result, self._settings.request_timeout_seconds)
            except Exception as error:
                if self._is_fenced(error):
                    raise self._fail("abort", error) from error
                _log.warning("producer %r: no response to an abort (%s); the next transaction ends it", self._id, error)
                self._abandon()
        self._state, self._failure = "ready", None

    def close(self) -> None:
        """Abort an open transaction if the broker answers soon, and free the client; never raises."""
        if self._state in ("open", "failed") and not self._is_abandoned:
            with suppress(Exception):
                result = transactions.begin_abort(self._client)
                transactions.wait(self._client, result, self._settings.close_timeout_seconds)
        self._state = "lost"
        self._abandon()
        transactions.wait_until_stopped(self._client, self._settings.close_timeout_seconds)

    def _connect(self) -> KafkaProducer:
        """Make a client with this id, which ends the open transaction of any earlier client (rule 8: the id is
        stable)."""
        settings = self._settings
        client = KafkaProducer(
            **settings.options(),
            client_id=f"neardup-{self._id}",
            transactional_id=self._id,
            transaction_timeout_ms=milliseconds(settings.transaction_timeout_seconds),
            delivery_timeout_ms=milliseconds(settings.flush_timeout_seconds),
            max_block_ms=milliseconds(settings.connect_timeout_seconds),
            retry_backoff_ms=_RETRY_BACKOFF_MILLISECONDS,
            batch_size=settings.batch_bytes,
            compression_type=settings.compression,
            max_request_size=settings.request_bytes_max,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self._counts.clear()
        try:
            client.init_transactions()
        except BaseException:
            transactions.stop_sending(client)
            raise
        self._is_abandoned = False
        return client

    def _hand_over(self, log: TopicPartition) -> None:
        """Give the client the collected records of a partition as a batch."""
        pending = self._pending.pop(log, None)
        if pending is not None:
            self._sent.append((log, pending.order, batches.hand_over(self._client, log, encode(pending))))

    def _learn(self, topic: str) -> int:
        """Make the client learn a topic once: a send to an unknown topic would wait."""
        count = self._partitions(topic)
        self._client.partitions_for(topic)
        self._counts[topic] = count
        return count

    def _abandon(self) -> None:
        self._stale = self._is_abandoned = True
        transactions.stop_sending(self._client)

    def _fail(self, call: str, error: Exception) -> TransportError:
        """Record a failure: afterwards only ``abort`` and ``close`` work, and only ``close`` if fenced.

        A missing right is final: a repetition would change nothing, and would hide what is missing.
        """
        self._stale = True
        if self._is_fenced(error):
            self._state = "lost"
            self._abandon()
        else:
            self._state = "failed"
        what = f"{call}, producer {self._id!r}"
        kind: type[TransportError] = FencedError if self._state == "lost" or is_fenced(error) else AbortedError
        if kind is AbortedError and is_forbidden(error):
            self._failure = as_transport_error(what, error)
        else:
            remedy = next((f"; {text}" for cause, text in _REMEDIES.items() if isinstance(error, cause)), "")
            self._failure = kind(f"{what}: {error}{remedy}; nothing of the step was committed")
        self.last_error = str(self._failure)
        return self._failure

    def _is_fenced(self, error: BaseException) -> bool:
        return is_producer_fenced(error) or is_producer_fenced(transactions.last_error(self._client))

    def _expect(self, call: str, *states: str) -> None:
        if self._state == "lost":
            self._raise_failure()
            raise OutcomeUnknownError(f"{call}: producer {self._id!r} was closed; make a new one")
        if self._state not in states:
            raise AssertionError(f"{call} is not allowed when producer {self._id!r} is {self._state}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure)) from self._failure
