"""The loop of a signer: poll, align, sign, publish, one transaction a step.

The steps of a turn, in order, each with the effect of a crash after it:

1. ``poll`` returns records and the membership of the group. The records join the pending records. A crash has no
   effect.
2. Read what the other signers have committed, and select the records that may be signed now (``alignment``). The other
   records stay pending, unsigned and uncommitted. A crash has no effect.
3. Parse, clamp, sign: plain functions (``signer``). A crash has no effect.
4. ``begin``, ``send`` to ``signed`` and ``documents.dead``. A crash leaves an open transaction. The next producer with
   the same id aborts it, or the transaction timeout does. Readers wait until then.
5. ``flush``: every record is acknowledged, or the step is aborted and its records are pending again.
6. ``send_offsets`` of every own partition, with the membership of 1. The broker refuses it if the partitions have moved
   to another signer. The metadata carries the claims for the other signers.
7. ``commit``: output and offsets become visible together. If no answer comes, the worker restarts from the committed
   offsets: those of this step, or those of the step before.

A signer that signs nothing commits its claims every second, by the same transaction without messages. A signer that
owns every partition does not read claims, and commits nothing while it is idle.

**Where a partition starts.** A partition starts at its committed offset. At the first start of a group, one member
commits the offsets of all partitions in one transaction, before any member signs. This member is the owner of the
lowest partition. So if a group has offsets for some partitions, a partition without an offset was added later. It
starts at its beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np

from neardup.errors import ConfigError
from neardup.pairs.signing import Signer
from neardup.schemes.shortfall import WARNED_DOCUMENTS_MIN, shortfall
from neardup.stories.canaries.allowance import Allowance
from neardup_workers.doing.stages.alignment import RENEW_SECONDS, SPAN_FRACTION, Alignment, Step, decode_claim
from neardup_workers.doing.stages.canary_writer import CanaryWriter
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.signer import SignPlan, StartSigning, sign_records
from neardup_workers.doing.stages.starts import check_end, committed_start
from neardup_workers.doing.stages.transaction import COMMITTED, RENEWED
from neardup_workers.outside.telemetry.observer import stage
from neardup_workers.outside.topics.signed import BYTES_MAX
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Message,
    OffsetGoneError,
    Polled,
    TransportError,
)

_log = logging.getLogger(__name__)

# The interval of reading the claims of other owners, while records wait for their partitions.
ALIGN_SECONDS = 0.05
# The pending records fill up to this many steps: one step is signed while the client fetches the next.
_HAND_STEPS = 2
# A poll always has room for this fraction of a step: the records of a partition that holds back the others must arrive.
_ROOM_RECORDS_SHARE, _ROOM_BYTES_SHARE = 4, 16
_MILLISECONDS = 1e3


class SignWorker:
    """The loop of one signer; ``turn`` is one pass through it. The clock ``now`` only advances.

    With a ``pool``, documents are signed while the next ones are decoded.
    """

    def __init__(
        self,
        member: WorkerMember,
        plan: SignPlan,
        now: Callable[[], float] = time.monotonic,
        pool: Executor | None = None,
    ) -> None:
        self.member, self.plan, self.observer, self.now = member, plan, member.observer, now
        self.signer = Signer(plan.config, BYTES_MAX)
        self._canaries = CanaryWriter(plan.config, plan.canaries_every, Allowance(plan.canaries_per_second_max, now))
        self._start_signing: StartSigning | None = None
        if pool is not None:
            self._start_signing = lambda documents: pool.submit(self.signer.sign, documents).result
        span_ms = SPAN_FRACTION * plan.config.lateness_seconds * _MILLISECONDS
        self.alignment = Alignment(span_ms, plan.align_wait_seconds_max, plan.texts)
        self.running: set[int] = set()
        self._warned = self._warned_of_size = False
        self._bands = np.zeros(plan.config.tuning.bands + 1, np.int64)  # documents by number of bands with a key
        self._committed_at: float | None = None
        self._has_moved = True  # partitions were assigned or revoked since their number was read
        self._is_behind = False  # the last step left records pending

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is read."""
        return not self.member.waiting

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, sign what may be signed, publish it; returns the records signed.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``ConfigError`` (stop).
        """
        with stage(self.observer, "poll"):
            polled = self._poll(timeout_seconds, records_max)
        self._is_behind = False
        signed = 0
        if not polled.is_joining:  # else the commit would be refused
            self.member.begin(self._begin)
            self._look()
            aborted = self.member.aborted_in_row
            signed = self._step(records_max)
            if self.member.aborted_in_row <= aborted:  # else the step is retried
                self._renew()
        share = max(1, len(self.running))
        full = self.alignment.full(max(1, _HAND_STEPS * records_max // share), self.plan.step_bytes_max // share)
        self.member.hold(full, self.running)
        return signed

    def waiting_records(self) -> dict[int, int]:
        """Return the number of polled records that are not signed, by partition; partitions without any are absent."""
        return self.alignment.held()

    def observe(self) -> None:
        """Report the lag between partitions, and how long records wait for other partitions."""
        for partition, seconds in self.alignment.behind_seconds(self.member.clock() * _MILLISECONDS).items():
            self.observer.set("align_behind_seconds", seconds, str(partition))
        self.observer.set("align_wait_seconds", self.alignment.wait_seconds(self.now()))

    def _poll(self, timeout_seconds: float, records_max: int) -> Polled:
        """Poll if there is room for more records, and add the records to the pending ones."""
        alignment = self.alignment
        records_left = _HAND_STEPS * records_max - sum(alignment.held().values())
        bytes_left = self.plan.step_bytes_max - alignment.hand_bytes
        records_max = min(records_max, max(1, records_max // _ROOM_RECORDS_SHARE, records_left))
        bytes_max = max(self.plan.step_bytes_max // _ROOM_BYTES_SHARE, bytes_left)
        if self._is_behind:
            timeout_seconds = 0.0
        elif alignment.is_holding:
            timeout_seconds = min(timeout_seconds, ALIGN_SECONDS)
            if alignment.dry():  # return as soon as the first record arrives
                self._take_in(self.member.poll(timeout_seconds, 1, bytes_max))
                timeout_seconds = 0.0
        polled = self.member.poll(timeout_seconds, records_max, bytes_max)
        self._take_in(polled)
        return polled

    def _take_in(self, polled: Polled) -> None:
        """Apply the result of a poll: revoked and assigned partitions, then records."""
        at = self.now()
        gone = set(polled.revoked)
        self._has_moved = self._has_moved or bool(gone) or bool(polled.assigned)
        self.alignment.drop(gone)
        self.running -= gone
        self.alignment.add(polled.records, self.member.clock() * _MILLISECONDS, at)
        self.alignment.see(self.member.consumer.positions(), self.member.consumer.ends(), at)

    def _begin(self, partition: int) -> bool:
        """Start a partition if its position is known; returns whether it is."""
        committed = committed_start(
            self.member, self.plan.topics.documents, partition, self.plan.start, lambda partition, offset: ""
        )
        if committed is None:
            return False
        self._check_claim(committed)
        topic, group = self.plan.topics.documents, self.member.membership.group
        check_end(self.member.transport, topic, group, {partition: committed.offset})
        committed = self._after_gap(partition, committed)
        self.member.start(partition, committed.offset)
        self.alignment.start(partition, committed, self.now())
        self.running.add(partition)
        return True

    def _after_gap(self, partition: int, committed: Committed) -> Committed:
        """Return where a partition is read: behind what retention has deleted before it was signed."""
        topic = self.plan.topics.documents
        first = self.member.transport.bounds(topic)[partition][0]
        if first <= committed.offset:
            return committed
        gone = f"offsets {committed.offset} to {first} of partition {partition} of {topic} were deleted before a signer"
        if not self.plan.allow_gap:
            raise OffsetGoneError(
                f"{gone} had read them: give {topic} a longer retention, and go on with --allow-gap; send them "
                "again if they are needed"
            )
        _log.warning("%s had read them (allow_gap)", gone)
        return committed._replace(offset=first)

    def _look(self) -> None:
        """Read what the other signers have committed: after each commit, and often while records wait."""
        alignment, transport, topic = self.alignment, self.member.transport, self.plan.topics.documents
        if self._has_moved:
            alignment.partitions = frozenset(range(transport.partitions(topic)))
            self._has_moved = False
        due = ALIGN_SECONDS if alignment.is_holding else RENEW_SECONDS
        if not alignment.is_alone and self.now() - alignment.looked_at >= due:
            at = self.now()  # before the request: a commit that the answer does not show is later than this
            claims = transport.group_offsets(self.member.membership.group, topic)
            for committed in claims.values():
                self._check_claim(committed)
            alignment.look(claims, at)

    def _check_claim(self, committed: Committed) -> None:
        """Raise ``ConfigError`` if the last owner of a partition signed constant texts otherwise."""
        own, other = self.plan.texts, decode_claim(committed.metadata).texts
        if own and other and own != other:
            raise ConfigError(
                f"this signer signs constant texts as {own[:8]}, and another one of its group as {other[:8]}: their "
                "documents would not find each other; run the same versions of Python and of its libraries everywhere, "
                "or begin a new generation with another seed"
            )

    def _step(self, records_max: int) -> int:
        """Sign and publish the records that may be signed now; returns their number."""
        now_seconds = self.member.clock()
        step = self.alignment.take(
            records_max, self.plan.step_bytes_max, now_seconds * _MILLISECONDS, self.now()
        )  # fmt: skip
        if not step.records:
            return 0
        self._canaries.begin(len(self.running) / len(self.alignment.partitions or self.running))
        signings = sign_records(
            step.records, self.signer, self.plan, self.observer, now_seconds,
            self._start_signing, self._canaries,
        )  # fmt: skip
        is_committed = False
        try:
            is_committed = self._commit(signings.messages, step)
        finally:
            if not is_committed:
                self._canaries.undo()
        if not is_committed:
            return 0
        report = signings.report
        for name, count in report.counts.items():
            self.observer.count(name, count)
        for reason, count in report.refused.items():
            self.observer.count("refused", count, reason)
        misnamed = report.counts["misnamed"]
        if misnamed and not self._warned:
            self._warned = True
            _log.warning(
                "%d documents of this step have an id that is not the key of their message: a tombstone with that key "
                "does not remove them; send each document with its id as the key (counted as misnamed)",
                misnamed,
            )
        self._warn_of_small_documents(report.bands)
        self.observer.count("unaligned", step.unaligned)
        self._is_behind = self.alignment.is_holding
        return len(step.records)

    def _warn_of_small_documents(self, bands: dict[int, int]) -> None:
        """Warn once that the scheme lacks so many keys of the documents that the recall is not kept."""
        for number, count in bands.items():
            self._bands[number] += count
        if self._warned_of_size or self._bands.sum() < WARNED_DOCUMENTS_MIN:
            return
        config = self.plan.config
        if warning := shortfall(config.scheme, config.tuning, config.recall_promised, self._bands):
            self._warned_of_size = True
            _log.warning("%s", warning)

    def _renew(self) -> None:
        """Commit only the claims, if there was no commit for a while and another signer may wait for them."""
        if self.alignment.is_alone or not self.alignment.lanes:
            return
        if self._committed_at is None or self.now() - self._committed_at >= RENEW_SECONDS:
            self._commit([], Step([], [], 0, {}), RENEWED)

    def _commit(self, messages: list[Message], step: Step, outcome: str = COMMITTED) -> bool:
        """Publish with the offsets of all own partitions; returns false if the transaction was aborted."""
        offsets = self.alignment.commits(round(self.member.clock() * _MILLISECONDS), self.now())
        try:
            self.member.transact(messages, self.plan.topics.documents, offsets, outcome)
        except TransportError as error:
            self.alignment.put_back(step)
            if not isinstance(error, AbortedError):
                raise
            self.member.aborted_in_row += 1
            return False
        self.member.aborted_in_row = 0
        self._committed_at = self.now()
        return True
