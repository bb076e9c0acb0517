"""The outbox: one thread sends documents and removals to the topic of documents, one transaction for all that wait.

Theory of operation. Requests put messages into a queue. The thread takes what waits, up to ``_MESSAGES_MAX`` messages
or ``_BYTES_MAX`` bytes, and commits it as one transaction. The offsets are known before the commit, so the verdicts are
expected before a worker can make them. An aborted transaction is sent again. If its outcome is unknown, or another
process has taken the name, the requests get an error, and may send the same documents again: a version with the same
content gets the stored status.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from neardup_workers.doing.http.view.follower import Resolved
from neardup_workers.doing.http.writer import Broken, Busy
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.places import place_of
from neardup_workers.outside.transport.protocol import AbortedError, Headers, Message, Producer, TransportError

_MESSAGES_MAX = 1000
_BYTES_MAX = 4 << 20
_TRIES = 3

_log = logging.getLogger(__name__)


class Unsent(Exception):
    """The broker has not confirmed the messages; they may be in the topic, or not."""


class Sent(NamedTuple):
    """A committed message: its place in the topic, and its verdict to come."""

    place: int
    decided: Future[Resolved]


# Key, value (``None`` removes the id of the key) and headers of a message.
Sendable = tuple[bytes, bytes | None, Headers]


class _Work(NamedTuple):
    messages: list[Sendable]
    future: Future[list[Sent]]


class ProducerQueue:
    """The thread and its queue of ``messages_max`` messages, beyond which ``send`` raises ``Busy``.

    ``produce`` makes a producer, again after a failure. ``expect`` returns the futures of the verdicts about places
    (``Follower.expect``), and ``forget`` takes them back.
    """

    def __init__(
        self,
        produce: Callable[[], Producer],
        topic: str,
        partitions: int,
        expect: Callable[[list[int]], list[Future[Resolved]]],
        forget: Callable[[list[int]], None],
        messages_max: int,
    ) -> None:
        self._produce, self._topic, self._partitions = produce, topic, partitions
        self._expect, self._forget, self._messages_max = expect, forget, messages_max
        self._producer: Producer | None = None
        self._queue: deque[_Work] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self.waiting = 0
        self._thread = threading.Thread(target=self._run, name="outbox")
        self._thread.start()

    def send(self, messages: list[Sendable]) -> Future[list[Sent]]:
        """Send messages in order. Raises ``Busy``, ``Broken``; the future ``Unsent``."""
        work = _Work(messages, Future())
        with self._changed:
            if self._stopping:
                raise Broken("the service stops")
            if self.waiting + len(messages) > self._messages_max:
                raise Busy(f"{self.waiting:,} documents wait")
            self.waiting += len(messages)
            self._queue.append(work)
            self._changed.notify()
        return work.future

    def stop(self) -> None:
        """Send what waits, and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        if self._producer is not None:
            self._producer.close()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            if not taken:
                continue
            try:
                sent = iter(self._sent([message for work in taken for message in work.messages]))
            except TransportError as error:
                _log.warning("documents were not sent: %s", error)
                for work in taken:
                    work.future.set_exception(Unsent(str(error)))
                continue
            for work in taken:
                work.future.set_result([next(sent) for _ in work.messages])

    def _take(self) -> list[_Work] | None:
        """Return the work of the next transaction, without cancelled requests; ``None`` after ``stop`` when the queue
        is empty."""
        with self._changed:
            while not self._queue:
                if self._stopping:
                    return None
                self._changed.wait()
            taken: list[_Work] = []
            messages = size = 0
            while self._queue:
                work = self._queue[0]
                messages += len(work.messages)
                size += sum(len(value or b"") for _, value, _ in work.messages)
                if taken and (messages > _MESSAGES_MAX or size > _BYTES_MAX):
                    break
                taken.append(self._queue.popleft())
            self.waiting -= sum(len(work.messages) for work in taken)
            return [work for work in taken if work.future.set_running_or_notify_cancel()]

    def _sent(self, messages: list[Sendable]) -> list[Sent]:
        """Commit messages as one transaction. Raises ``TransportError``."""
        attempt = 1
        while True:
            try:
                return self._committed(messages)
            except AbortedError:
                if attempt == _TRIES:
                    raise
                attempt += 1

    def _committed(self, messages: list[Sendable]) -> list[Sent]:
        if self._producer is None:
            self._producer = self._produce()
        producer, places = self._producer, list[int]()
        try:
            producer.begin()
            partitions = [partition_of_key(key, self._partitions) for key, _, _ in messages]
            for partition, (key, value, headers) in zip(partitions, messages, strict=True):
                producer.send(Message(self._topic, partition, value, key, headers=headers))
            offsets = producer.flush()
            if min(offsets) < 0:
                raise AbortedError("the broker has not reported an offset")
            places = [place_of(partition, offset) for partition, offset in zip(partitions, offsets, strict=True)]
            futures = self._expect(places)
            producer.commit()
        except TransportError as error:
            self._forget(places)
            self._recover(producer, error)
            raise
        return [Sent(place, future) for place, future in zip(places, futures, strict=True)]

    def _recover(self, producer: Producer, error: TransportError) -> None:
        """Undo the transaction; a producer that cannot is replaced by the next transaction."""
        if isinstance(error, AbortedError):
            try:
                producer.abort()
                return
            except TransportError:
                pass
        producer.close()
        self._producer = None
