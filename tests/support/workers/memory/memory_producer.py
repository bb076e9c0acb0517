"""The transactional producer of the transport in memory.

Theory of operation of a producer: ``ready -> open -> ready``, with two more states.

    ready --begin--> open --commit, abort--> ready
    open --flush raised, a send or offsets refused--> failed --abort--> ready
    open, failed --no response to commit or abort--> lost      every call but close raises from then on

In the state ``failed`` a commit is refused: on Kafka it can succeed with records missing. A call that the state forbids
is a bug of the caller: ``AssertionError``. A fenced producer raises ``FencedError`` in any state. Records are in the
log at once, within the open transaction: the worst case that Kafka allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_cluster import MemoryCluster

from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Membership,
    Message,
    OutcomeUnknownError,
    TransportError,
)


class MemoryProducer:
    """A transactional producer, as ``neardup_workers.outside.transport.protocol.Producer``: see the theory above."""

    def __init__(self, cluster: MemoryCluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        with cluster.lock:
            cluster.check("producer", transactional_id)
            self._key = (transactional_id, cluster.init_producer(transactional_id))
        self._state: Literal["ready", "open", "failed", "lost"] = "ready"
        self._failure: TransportError | None = None
        self.last_error = ""
        self._unflushed: list[int] = []  # offsets

    def begin(self) -> None:
        """Open a transaction."""
        with self._cluster.lock:
            self._expect("begin", "ready")
            self._state, self._unflushed = "open", []

    def send(self, message: Message) -> None:
        """Append to the transaction; ``flush`` reports failures, except an unknown topic, which raises at once."""
        with self._cluster.lock:
            self._expect("send", "open", "failed")
            self._cluster.log(message.topic, message.partition)
            try:
                self._cluster.check("send", self._id)
                offset = self._cluster.write(self._key, message)
                self._unflushed.append(offset)
            except AbortedError as error:
                self._fail(error)

    def flush(self) -> list[int]:
        """Return the offsets of the records since the last flush; raises ``AbortedError`` if one was not
        acknowledged."""
        with self._cluster.lock:
            self._expect("flush", "open", "failed")
            self._raise_failure()
            self._try("flush")
            offsets, self._unflushed = self._unflushed, []
            return offsets

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Put offsets of the group into the transaction; raises ``FencedError`` for an older membership."""
        with self._cluster.lock:
            self._expect("send_offsets", "open", "failed")
            self._raise_failure()
            if self._unflushed:
                raise AssertionError(f"{len(self._unflushed)} records of {self._id!r} have had no flush: flush first")
            self._try("send_offsets")
            try:
                self._cluster.write_offsets(self._key, topic, offsets, membership)
            except FencedError as error:
                self._fail(error)
                raise
            self._try("send_offsets_after")

    def commit(self) -> None:
        """Make the transaction visible; after a failure in it, raise that failure again."""
        with self._cluster.lock:
            self._expect("commit", "open", "failed")
            self._raise_failure()
            self._finish(commit=True)

    def abort(self) -> None:
        """Undo the transaction."""
        with self._cluster.lock:
            self._expect("abort", "open", "failed")
            self._finish(commit=False)

    def close(self) -> None:
        """Abort an open transaction if possible; never raises."""
        with self._cluster.lock:
            if self._state in ("open", "failed") and self._cluster.reachable and self._is_current():
                self._cluster.end(self._key, commit=False)
            self._state = "lost"

    def _finish(self, commit: bool) -> None:
        before, after = ("commit_before", "commit_after") if commit else ("abort", "abort_after")
        self._state = "lost"  # until there is a response
        self._cluster.check(before, self._id)
        self._cluster.end(self._key, commit)
        self._cluster.check(after, self._id)
        self._state, self._failure = "ready", None

    def _expect(self, call: str, *states: str) -> None:
        self._cluster.fence(self._key)
        if self._state == "lost":
            raise OutcomeUnknownError(
                f"{call}: producer {self._id!r} was closed, or its last commit or abort has no response; make a new one"
            )
        if self._state not in states:
            raise AssertionError(f"{call} is not allowed when producer {self._id!r} is {self._state}")

    def _try(self, call: str) -> None:
        try:
            self._cluster.check(call, self._id)
        except TransportError as error:
            self._fail(error)
            raise

    def _fail(self, error: TransportError) -> None:
        self._state = "failed"
        self._failure = self._failure or error
        self.last_error = str(self._failure)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure)) from self._failure

    def _is_current(self) -> bool:
        try:
            self._cluster.fence(self._key)
        except FencedError:
            return False
        return True
