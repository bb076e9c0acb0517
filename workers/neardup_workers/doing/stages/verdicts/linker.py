"""The linker: ``signed`` and ``links`` in, one final verdict for each document out, one transaction a step.

The group of linkers reads ``signed``, which has one partition: one member works, the others stand by. States:

- *waiting*: assigned, without position. The worker reads the committed offsets of the group.
- *restoring*: it reads the verdicts of the window, one stretch at a time between polls.
- *running*: each turn reads rows and links, and decides every row that all shards have passed, in the order of
  ``signed``.
- *revoked*: the whole state is dropped; the next owner restores it.

A step, and the effect of a crash after each part:

1. ``poll`` rows, for the membership, and links. *A crash loses nothing: both are read again.*
2. Decide inside an open step. *A crash loses nothing.*
3. ``transact``: verdicts, and offsets of ``signed``, ``links`` and ``verdicts``. *They become visible together, or
   not at all.*
4. The step of the decisions is committed. *A crash loses only memory; the next owner restores it.*

If the transaction is known to have failed, the step is undone and tried again. If its outcome is unknown, or another
member has taken over, the worker restarts from what is committed.

**Bounds.** A matcher that is down holds back the watermark. ``signed`` is not read while ``undecided_max`` documents
wait, and a partition of ``links`` is not read while more pairs of it wait for other shards. What moves the watermark is
always read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from neardup.pairs.shards import Growth
from neardup.stories.verdicts.rule import STATUSES
from neardup.window import NO_TIME
from neardup_workers.doing.stages.growth import growth_at
from neardup_workers.doing.stages.matching.plan import passed_growth
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.starts import check_ends, start_offset
from neardup_workers.doing.stages.transaction import COMMITTED, RENEWED, TRIM_SECONDS_MAX
from neardup_workers.doing.stages.verdicts.beginning.first import continued, disagreement
from neardup_workers.doing.stages.verdicts.held import Decision, Held
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.originals import encode_step
from neardup_workers.doing.stages.verdicts.positions import (
    Mark,
    Marks,
    SignedMetadata,
    VerdictsMetadata,
    decode_signed_metadata,
    decode_verdicts_metadata,
    encode_metadata,
)
from neardup_workers.doing.stages.verdicts.sources import Sources
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.outside.telemetry.observer import stage
from neardup_workers.outside.telemetry.sources import measure_sources
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.names import generation, generation_header
from neardup_workers.outside.topics.signed import PARTITION, position_of
from neardup_workers.outside.topics.verdicts import encode_runs
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Message,
    OffsetGoneError,
    UnreachableError,
)

_log = logging.getLogger(__name__)
# All offsets are committed again after this time. Kafka drops an offset after ``offsets.retention.minutes`` (a week)
# unless the group subscribes to the topic, which is ``signed`` alone.
_OFFSETS_SECONDS_MAX = 12 * 3600.0


class LinkWorker:
    """The loop of a linker; ``turn`` runs it once. See the module for the states."""

    def __init__(self, member: WorkerMember, plan: LinkPlan) -> None:
        self.member, self.plan, self.observer = member, plan, member.observer
        self._headers = (generation_header(generation(plan.config.signing_fingerprint, plan.shards)),)
        self.running: set[int] = set()
        self.held = Held(member, plan)
        self._marks = Marks(Mark(0, 0, {}, {}))
        self._written = self._counted = -1  # the last step in originals; arrivals that sources counts
        self._skipped = 0  # documents before the first linker
        self._ignored = self._largest = 0  # ignored pairs in the metrics; members of the largest cluster not yet there
        self._committed: dict[str, dict[int, Committed]] = {}
        self._trimmed: dict[int, int] = {}
        self._renewed_at: float | None = None  # when all offsets were committed

    @property
    def state(self) -> LinkState:
        """What is decided, and what waits."""
        return self.held.state

    @property
    def sources(self) -> Sources:
        """The ledger of sources."""
        return self.held.sources

    @property
    def ready(self) -> bool:
        """Whether the assigned partition is running, if there is one."""
        return not self.member.waiting and not self.member.awaited and not self.held.is_restoring

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore a stretch, or read and decide one step; returns the records read.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``WireError``, ``ConfigError``, ``OffsetGoneError``, ``UnknownTopicError`` (stop).
        """
        with stage(self.observer, "poll"):
            timeout = 0.0 if self.held.is_restoring else timeout_seconds
            polled = self.held.intake.poll(timeout, records_max, self.state.undecided)
        if polled.revoked:
            self._stop()
        if self.member.waiting or self.member.awaited:
            self._assign()
        if self.held.is_restoring:
            with stage(self.observer, "restore"):
                self._restore()
        if not self.running:
            return 0
        with stage(self.observer, "decode"):
            read = self.held.intake.take(self.state, polled.records, records_max)
        if not polled.is_joining:  # else the commit would be refused
            self._step()
        self.held.intake.hold(self.state)
        return read

    def restoring_partitions(self) -> list[int]:
        """Return the partitions of signed that are being restored."""
        return [PARTITION] if self.held.is_restoring else []

    def close(self) -> None:
        """Free the reader; never raises."""
        self.held.intake.close()

    def trim(self) -> None:
        """Write the ledger of sources, add a mark, and trim ``links``. The matchers trim ``signed``.

        The offsets are committed first. This commit fails for a member that lost its partition while it was suspended.
        """
        if not self.running:
            return
        if awaited := disagreement(self.member.transport, self.plan):
            self.member.consumer.pause([PARTITION])
            self._stop()
            self._wait_for(awaited)
            return
        state, transport = self.state, self.member.transport
        ends = {partition: end for partition, (_, end) in transport.bounds(self.plan.topics.verdicts).items()}
        offset, _, _ = state.committed_position(self.held.intake.position)
        try:
            if self.sources.is_changed:
                self._commit([], RENEWED, counts=True)
            self._marks.add(Mark(state.decisions.end, state.arrivals, ends, state.decided_offsets(), offset))
            began = self.member.clock()
            self._commit([], RENEWED)
        except AbortedError:
            return
        topic = self.plan.topics.links
        if 0 <= self.member.clock() - began <= TRIM_SECONDS_MAX:
            committed = self._committed[topic].items()
            before = {p: at.offset for p, at in committed if at.offset > self._trimmed.get(p, 0)}
            if before:
                transport.trim(topic, before)
                self._trimmed.update(before)

    def observe(self) -> None:
        """Report waiting records, and the progress of each shard."""
        if self.running:
            self.held.intake.observe(self.state, self.member.clock())
            measure_sources(self.observer, self.sources, self.member.clock())
            self.observer.set("cluster_members_max", self._largest)
            self._largest = 0

    def _stop(self) -> None:
        """Decide nothing more until the partition is restored."""
        self.running, self.member.awaited = set(), ""
        self.held.forget()
        self.held.intake.forget()

    def _assign(self) -> None:
        """Read the committed offsets of the group, and begin to restore; without any, commit the requested start."""
        topics, transport, group = self.plan.topics, self.member.transport, self.member.membership.group
        try:
            self.member.admit()
            if awaited := disagreement(transport, self.plan):
                self._wait_for(awaited)
                return
            signed = self.member.consumer.committed(PARTITION)
            bounds = transport.bounds(topics.signed)
            if signed is None:
                start = start_offset(lambda: bounds, PARTITION, self.plan.start)
                end = bounds[PARTITION][1]
                if (begun := continued(transport, self.plan, start, end, self._passed())) is None:
                    self._wait_for(f"matchers with verdicts: those that work publish no links in {topics.links} yet")
                    return
                signed, decided_before = begun
                more = {topics.verdicts: decided_before} if decided_before else {}
                self.member.transact([], topics.signed, {PARTITION: signed}, more_offsets=more)
                self._name_skipped(signed)
            # Read before the committed offsets: a trim between the two lies below a later commit, and is no gap.
            firsts = {partition: first for partition, (first, _) in transport.bounds(topics.links).items()}
            ends = {s: end for s, (_, end) in transport.bounds(topics.verdicts).items()}
            # After the first answer no transaction of a predecessor is pending, so the three answers agree.
            verdicts = transport.group_offsets(group, topics.verdicts)
            links = transport.group_offsets(group, topics.links)
            if self.member.consumer.committed(PARTITION) != signed:
                return
            known = {topics.signed: {PARTITION: signed}, topics.verdicts: verdicts, topics.links: links}
            check_ends(transport, group, known)
            signed = self._after_gap(signed, bounds[PARTITION][0])
        except (UnreachableError, AbortedError):
            return
        metadata = decode_signed_metadata(signed)
        firsts = {shard: first for shard, first in firsts.items() if shard < metadata.growth.shards}
        if len(firsts) < metadata.growth.shards:
            return  # the broker does not know all partitions of links yet
        marks = {s: committed.offset for s, committed in verdicts.items()}
        decided = {s: decode_verdicts_metadata(committed).marked for s, committed in verdicts.items()}
        self._marks = Marks(Mark(0, metadata.first, {**ends, **marks}, decided, metadata.window))
        self._written, self._counted, self._skipped = metadata.step, metadata.sources, metadata.skipped
        self._committed, self._trimmed, self._renewed_at = {**known, topics.signed: {PARTITION: signed}}, {}, None
        starts = {partition: links[partition].offset if partition in links else at for partition, at in firsts.items()}
        self._check_gaps(starts, firsts)
        self.held.follow(signed, verdicts, {partition: max(at, firsts[partition]) for partition, at in starts.items()})
        self.member.awaited, self.member.waiting = "", set()

    def _wait_for(self, what: str) -> None:
        """Look again at each turn; log it once."""
        if what != self.member.awaited:
            _log.warning("the linker waits for %s", what)
        self.member.awaited, self.member.waiting = what, set()

    def _name_skipped(self, signed: Committed) -> None:
        """Log what the first linker of the stream passes."""
        if skipped := decode_signed_metadata(signed).skipped:
            _log.warning(
                "the first linker begins at offset %d of %s: %d documents before it get no verdict, and no filter "
                "forwards them, because matchers published no links of them (verdicts was off)",
                signed.offset, self.plan.topics.signed, skipped,
            )  # fmt: skip

    def _after_gap(self, signed: Committed, first: int) -> Committed:
        """Return where ``signed`` is read: behind what is no longer in the log, which begins at ``first``."""
        if signed.offset >= first:
            return signed
        topics = self.plan.topics
        gone = (
            f"offsets {signed.offset} to {first} of {topics.signed} are no longer in the log: their documents get "
            "no verdict, and no filter forwards them"
        )
        if not self.plan.allow_gap:
            raise OffsetGoneError(f"{gone}; send them again, and go on with --allow-gap")
        _log.warning("%s (allow_gap)", gone)
        growth = growth_at(self.member.transport, topics, self.plan.config, self._passed(), first)
        return Committed(first, encode_metadata(decode_signed_metadata(signed)._replace(row=0, growth=growth)))

    def _passed(self) -> dict[int, Growth]:
        """Return how many shards there are, by the offsets of the matchers in ``signed``."""
        return passed_growth(self.member.transport, self.plan.match_group, self.plan.topics.links, self.plan.shards)

    def _check_gaps(self, starts: Mapping[int, int], firsts: Mapping[int, int]) -> None:
        gone = [partition for partition, at in starts.items() if at < firsts[partition]]
        if gone and not self.plan.allow_gap:
            raise OffsetGoneError(
                f"the log of partitions {gone} of {self.plan.topics.links} begins behind the committed offsets: pairs "
                "of documents without a verdict are gone; accept that with --allow-gap"
            )

    def _restore(self) -> None:
        """Restore a stretch; begin to read when the restore is complete."""
        try:
            if self.held.restore():
                self.running, self._ignored = {PARTITION}, 0
                self.held.intake.resume()
        except UnreachableError:
            self.member.waiting = {PARTITION}
            self.held.forget()
            raise

    def _step(self) -> None:
        """Decide and publish the arrivals that can be decided."""
        held = self.held
        decision = held.decide()
        if decision is None:
            return
        try:
            step = held.state.arrivals if decision.stories else self._written
            self._commit(self._messages(decision, step), step=step, counts=held.sources.is_due)
        except AbortedError:
            held.undo()
            self.member.aborted_in_row += 1
            return
        self.member.aborted_in_row, self._written = 0, step
        held.commit(decision)
        self._report(decision)

    def _messages(self, decision: Decision, step: int) -> list[Message]:
        """Return what an open step publishes; ``step`` is its name in ``originals``."""
        topics, partitions = self.plan.topics, self.plan.cluster_partitions
        with stage(self.observer, "decide"):
            messages = [
                Message(topics.verdicts, run.partition, run.value, run.key, None, self._headers)
                for run in encode_runs(decision.rows, separate=self.plan.config.separate)
            ]
            changed = decision.clusters.messages()
            messages += [Message(topics.clusters, partition_of_key(k, partitions), v, k) for k, v in changed]
            sent = (*decision.stories, encode_step(step)) if decision.stories else ()
            messages += [Message(topics.originals, PARTITION, value, key) for key, value in sent]
        return messages

    def _commit(
        self, messages: list[Message], outcome: str = COMMITTED, step: int | None = None, *, counts: bool = False
    ) -> None:
        """Publish with the offsets that have changed, at times with all; ``step`` is the last one in ``originals``.
        With ``counts``, write the ledger of sources, too. Raises the errors of ``transact``."""
        topics, state = self.plan.topics, self.state
        offset, row, arrivals = state.committed_position(self.held.intake.position)
        first, counted = state.decisions.first, state.arrivals if counts else self._counted
        mark = self._marks.oldest(min(first, self.sources.first))
        if counts:
            kept = self.sources.changes(counted)
            messages = [*messages, *(Message(topics.sources, PARTITION, value, key) for key, value in kept)]
        time = state.decisions.stream_time
        metadata = SignedMetadata(
            row, arrivals, mark.arrivals, None if time == NO_TIME else time,
            self.held.intake.growth.until(position_of(offset, row)), min(mark.offset, offset),
            self._written if step is None else step, counted, self._skipped,
        )  # fmt: skip
        now = {
            topics.signed: {PARTITION: Committed(offset, encode_metadata(metadata))},
            topics.links: {partition: Committed(at, "") for partition, at in self.held.intake.starts(state).items()},
            topics.verdicts: {
                s: Committed(mark.ends.get(s, 0), encode_metadata(VerdictsMetadata(decided, mark.decided.get(s, -1))))
                for s, decided in state.decided_offsets().items()
            },
        }
        at_seconds = self.member.clock()
        renews = self._renewed_at is None or not 0 <= at_seconds - self._renewed_at < _OFFSETS_SECONDS_MAX
        new = {
            topic: {p: at for p, at in offsets.items() if renews or self._committed[topic].get(p) != at}
            for topic, offsets in now.items()
        }
        more = {topic: offsets for topic, offsets in new.items() if offsets and topic != topics.signed}
        self.member.transact(messages, topics.signed, now[topics.signed], outcome, more)
        self._committed, self._counted = now, counted
        if counts:
            self.sources.settle(first)
        if renews:
            self._renewed_at = at_seconds

    def _report(self, step: Decision) -> None:
        """Report a committed step."""
        observer, now, decided = self.observer, self.member.clock(), step.rows
        statuses = np.bincount(decided.verdicts.statuses, minlength=len(STATUSES))
        observer.count("documents", len(decided.numbers))
        for status, count in zip(STATUSES, statuses.tolist(), strict=True):
            observer.count("verdicts", count, status)
        times, counts = np.array(step.taken.arrived).T
        observer.sample("verdict_seconds", np.repeat(np.maximum(0.0, now - times / 1e3), counts))
        sizes = step.clusters.sizes()
        observer.sample("cluster_size", sizes)
        self._largest = max([self._largest, *sizes])
        observer.count("incomplete", int(decided.incomplete.sum()))
        observer.count("ignored", self.state.decisions.ignored - self._ignored)
        self._ignored = self.state.decisions.ignored
