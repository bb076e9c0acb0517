"""A transactional producer that neither loses a record in silence nor hangs: the one safe order, with deadlines.

A step is committed by this list; the client allows other orders, and each of them has lost data:

1. ``begin``. A crash from here to 5: the transaction stays open, readers wait before it; it ends when the next producer
   of the same id starts, or by its timeout. Nothing of the step happened.
2. ``send`` to explicit partitions. The client acknowledges later, on its own thread.
3. ``flush``: every record must have been acknowledged. The client's own flush returns normally when some were not, and
   its commit then succeeds without them (rule 1); so each record's future is looked at.
4. ``send_offsets`` with the membership of the ``poll`` that gave the records; generation -1 is refused here, because the
   broker accepts it (rule 2).
5. ``commit``. No answer within the deadline: nobody knows, the producer is lost. A crash after the broker has it: the
   step happened, and the next ``committed`` says so.

Theory of operation. ``ready -> open -> ready``, with two more states.

    ready --begin--> open --commit, abort--> ready
    open --a send, flush or the offsets failed--> failed --abort--> ready
    open --no answer to commit, fenced--> lost          every call but close raises from then on

Out of ``failed`` a commit is refused. As long as no commit was sent the step cannot happen, so ``abort`` need not wait
for ever: without an answer it leaves the client behind and is done. A client that was left behind, or that failed to
deliver, is *stale*: its count of records per partition may not be the broker's any more. The next ``begin`` makes a
new one, whose start ends whatever is still open; where the broker cannot be reached that ``begin`` fails, and the
worker aborts and tries again, like with any other step.

The client's own commit waits without a limit, and when the coordinator's connection was refused it waits for ever
(rule 5). Its three lines are therefore repeated here with a deadline: enqueue the request, wake the sender, wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as client_errors

from workers.transport import (
    AbortedError,
    Committed,
    FencedError,
    Membership,
    OutcomeUnknownError,
    TransportError,
    UnknownTopicError,
)
from workers.transports.kafka_settings import (
    KafkaSettings,
    TooLargeError,
    as_transport_error,
    is_fenced,
    milliseconds,
)

_log = logging.getLogger(__name__)

# The client's default of 100 ms is slept once a transaction, while the broker ends the one before: 112 ms instead of 10.
_RETRY_BACKOFF_MILLISECONDS = 4
# The broker refuses, for good, 4,097 characters.
METADATA_CHARACTERS_MAX = 4000


class KafkaTransactionalProducer:
    """See ``workers.transport.Producer`` and the theory of operation above. Used by one thread.

    Raises ``UnreachableError`` at construction when no broker answers. A call that the state does not allow is a bug of
    the caller: ``AssertionError``.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._settings = settings
        self._id = transactional_id
        self._state: Literal["ready", "open", "failed", "lost"] = "ready"
        self._failure: TransportError | None = None
        self._stale = False
        self._topics: dict[str, int] = {}
        self._futures: list[Any] = []
        self.message_bytes_max = settings.message_bytes_max
        try:
            self._client = self._connect()
        except client_errors.KafkaError as error:
            raise as_transport_error(f"producer {transactional_id!r} cannot start", error) from error

    def begin(self) -> None:
        """Open a transaction; ``AbortedError`` when the broker cannot be reached to make the client anew."""
        self._expect("begin", "ready")
        self._state = "open"
        try:
            if self._stale:
                self._client = self._connect()
                self._stale = False
            self._client.begin_transaction()
        except client_errors.KafkaError as error:
            self._leave_behind()
            raise self._fail("begin", error) from error

    def send(
        self, topic: str, partition: int, value: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Append to the transaction; what goes wrong on the way is told by ``flush``.

        Raises ``UnknownTopicError`` and ``TooLargeError`` at once, without harm to the transaction.
        """
        self._expect("send", "open", "failed")
        if value is None and key is None:
            raise AssertionError(f"a record for {topic}-{partition} has neither key nor value: the client refuses it")
        if len(value or b"") + len(key or b"") > self.message_bytes_max:
            raise TooLargeError(
                f"a record of {len(value or b'') + len(key or b'')} bytes for {topic}-{partition} is over the limit of "
                f"{self.message_bytes_max}: send less at once, or raise request_bytes_max and the topic's own limit"
            )
        if self._state == "failed":
            return
        try:
            if not 0 <= partition < (self._topics.get(topic) or self._learn(topic)):
                raise UnknownTopicError(
                    f"{topic!r} has no partition {partition}: it has {self._topics[topic]}, from 0; create it anew"
                )
            self._futures.append(
                self._client.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms)
            )
        except client_errors.KafkaError as error:
            self._stale = True
            self._fail(f"send to {topic}-{partition}", error)

    def flush(self) -> None:
        """Wait until every record is acknowledged (rule 1, and rule 6: the client buffers without a limit)."""
        self._expect("flush", "open", "failed")
        self._raise_failure()
        futures, self._futures = self._futures, []
        try:
            self._client.flush(timeout=self._settings.flush_timeout_seconds)
            for future in futures:
                if not future.succeeded():
                    raise future.exception or client_errors.KafkaTimeoutError("not acknowledged")
        except Exception as error:
            self._stale = True
            raise self._fail("flush", error) from error

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Put the group's offsets into the transaction, in the name of the membership that polled the records (rule 2)."""
        self._expect("send_offsets", "open", "failed")
        self._raise_failure()
        if membership.generation < 0:
            raise self._fail(
                "send_offsets", client_errors.CommitFailedError(f"{membership.group!r}: it is in no generation")
            )
        client_offsets = {}
        for partition, committed in offsets.items():
            if len(committed.metadata) > METADATA_CHARACTERS_MAX:
                raise AssertionError(
                    f"metadata of {topic}-{partition} has {len(committed.metadata)} characters; the limit is "
                    f"{METADATA_CHARACTERS_MAX}"
                )
            place = TopicPartition(topic, partition)
            client_offsets[place] = OffsetAndMetadata(committed.offset, committed.metadata, -1)
        manager = self._client._transaction_manager
        try:
            result = manager.send_offsets_to_transaction(client_offsets, membership.handle)
            if not self._answered(result, self._settings.commit_timeout_seconds):
                self._leave_behind()
                raise client_errors.KafkaTimeoutError("no answer")
        except Exception as error:
            raise self._fail("send_offsets", error) from error

    def commit(self) -> None:
        """Make the transaction visible, if all of it arrived; after anything has failed in it, that failure again.

        ``FencedError`` says what the last answer said. If an earlier answer was lost on the way, the step may have
        happened; so start anew from the committed offsets after either error.
        """
        self._expect("commit", "open", "failed")
        self._raise_failure()
        if self._futures:
            self.flush()
        try:
            result = self._client._transaction_manager.begin_commit()
        except client_errors.KafkaError as error:
            self._stale = True
            raise self._fail("commit", error) from error
        try:
            if self._answered(result, self._settings.commit_timeout_seconds):
                self._state = "ready"
                return
            cause: Exception = client_errors.KafkaTimeoutError(f"in {self._settings.commit_timeout_seconds} s")
        except Exception as error:
            cause = error
        self._state = "lost"
        self._leave_behind()
        kind: type[TransportError] = FencedError if is_fenced(cause) else OutcomeUnknownError
        self._failure = kind(
            f"producer {self._id!r}: the commit was not confirmed ({cause}); drop what the step touched and start anew "
            "from the committed offsets"
        )
        raise self._failure from cause

    def abort(self) -> None:
        """Undo the transaction; without an answer it is left to the broker, which can only undo it.

        Raises ``FencedError`` where another producer took over.
        """
        self._expect("abort", "open", "failed")
        self._futures.clear()
        if not self._stale or not self._client._closed:
            self._try_abort()
        self._state, self._failure = "ready", None

    def close(self) -> None:
        """Abort what is open, if the broker answers soon, and free the client; never raises."""
        if self._state in ("open", "failed") and not self._client._closed:
            with suppress(Exception):
                result = self._client._transaction_manager.begin_abort()
                self._answered(result, self._settings.close_timeout_seconds)
        self._state = "lost"
        thread = self._leave_behind()
        thread.join(self._settings.close_timeout_seconds)
