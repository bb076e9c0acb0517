"""The linker: ``signed`` and ``links`` in, one final verdict for each document out, one transaction a step.

The group of linkers reads ``signed``, which has one partition: one member works, the others stand by. States:

- *standing by*: the group says so; ``beginning/standby`` says how.
- *waiting*: assigned, without position. The worker reads the committed offsets of the group.
- *restoring*: it reads the verdicts of the window, one stretch at a time between polls, or decides what the last owner
  has decided since a standby, publishing nothing.
- *running*: each turn reads rows and links, and decides every row that all shards have passed, in the order of
  ``signed``.
- *revoked*: the whole state is dropped, unless the member stands by from now on.

A step, and the effect of a crash after each part:

1. ``poll``, for the membership; read rows and links. *A crash loses nothing: both are read again.*
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

import functools
import logging

import numpy as np

from neardup.stories.verdicts.rule import STATUSES
from neardup.window import NO_TIME
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.starts import check_ends, start_offset
from neardup_workers.doing.stages.transaction import COMMITTED, RENEWED, TRIM_SECONDS_MAX
from neardup_workers.doing.stages.verdicts.beginning.first import (
    after_gap,
    continued,
    disagreement,
    gone_links,
    name_skipped,
)
from neardup_workers.doing.stages.verdicts.beginning.restore import Offsets, RecordsLostError
from neardup_workers.doing.stages.verdicts.beginning.standby import Standby
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
from neardup_workers.outside.topics.signed import PARTITION, offset_and_row, position_of
from neardup_workers.outside.topics.verdicts import encode_runs
from neardup_workers.outside.transport.assignment import Offer
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Message,
    OffsetGoneError,
    Polled,
    UnreachableError,
)

_log = logging.getLogger(__name__)
_new_message = functools.partial(tuple.__new__, Message)  # a call of ``Message`` takes three times as long
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
        self.standby = Standby(member, plan, self.held)
        self._goal: Committed | None = None  # the offset in signed that a restore must reach
        self._is_kept = False  # what it restores began as a standby
        self._marks = Marks(Mark(0, 0, {}, {}))
        self._written = self._counted = -1  # the last step in originals; arrivals that sources counts
        self._skipped = 0  # documents before the first linker
        self._ignored = self._largest = 0  # ignored pairs in the metrics; members of the largest cluster not yet there
        self._committed: dict[str, dict[int, Committed]] = {}
        self._trimmed: dict[int, int] = {}  # links, up to these offsets
        self._bound: dict[int, int] = {}  # up to which the last trim would have dropped them
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
        return not self.member.waiting and not self.member.awaited and self._goal is None

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore a stretch, or read and decide one step; returns the records read.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``WireError``, ``ConfigError``, ``OffsetGoneError``, ``UnknownTopicError`` (stop).
        """
        self.member.consumer.offer(Offer(self.plan.standbys, frozenset({PARTITION} if self.held.is_level else ())))
        timeout = 0.0 if self.held.is_restoring else timeout_seconds
        with stage(self.observer, "poll"):
            polled = self.member.poll(timeout, 1, at_hand=not self.held.is_empty)
        self._follow(polled)
        if self.member.waiting or self.member.awaited:
            self._assign()
        if self._goal is not None:
            with stage(self.observer, "restore"):
                self._restore(self._goal, records_max)
        if not self.running:
            return self.standby.turn(timeout, records_max) if self.standby.is_on else 0
        with stage(self.observer, "decode"):
            read = self.held.intake.take(self.state, timeout, records_max)
        if not polled.is_joining:  # else the commit would be refused
            self._step()
        self.held.intake.hold(self.state)
        return read

    def waiting_records(self) -> dict[int, int]:
        """Return the number of records of signed that wait for verdicts, by partition, if there are any."""
        return dict.fromkeys(self.running, len(self.state.waiting)) if self.state.waiting else {}

    def positions(self) -> dict[int, int]:
        """Return the offset in ``signed`` up to which the running partition is read."""
        return dict.fromkeys(self.running, self.held.intake.position)

    def lag(self) -> dict[int, int]:
        """Return the messages of ``signed`` that the running partition has not read, as far as the reader knows."""
        return dict.fromkeys(self.running, self.held.intake.lag())

    def restoring_partitions(self) -> list[int]:
        """Return the partitions of signed that are being restored."""
        return [] if self._goal is None else [PARTITION]

    def close(self) -> None:
        """Free the reader; never raises."""
        self.held.intake.close()

    def trim(self) -> None:
        """Write the ledger of sources, add a mark, and trim ``links``, up to what the round before committed: standbys
        may be behind the last commit. The matchers trim ``signed``.

        The offsets are committed first. This commit fails for a member that lost its partition while it was suspended.
        """
        if not self.running:
            self.standby.check()
            return
        if awaited := disagreement(self.member.transport, self.plan):
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
            bound, self._bound = self._bound, {p: at.offset for p, at in self._committed[topic].items()}
            before = {p: offset for p, offset in bound.items() if offset > self._trimmed.get(p, 0)}
            if before:
                transport.trim(topic, before)
                self._trimmed.update(before)

    def observe(self) -> None:
        """Report waiting records, and the progress of each shard, or how far the standby is behind."""
        self.standby.observe()
        if self.running:
            self.held.intake.observe(self.state, self.member.clock())
            measure_sources(self.observer, self.sources, self.member.clock())
            self.observer.set("cluster_members_max", self._largest)
            self._largest = 0

    def _follow(self, polled: Polled) -> None:
        """Follow the changes of the group: what is held stays if this member stands by from now on."""
        if polled.revoked:
            self._stop(keeps=self.plan.standbys > 0)
        if self.member.joined:
            owns = bool(self.running or self.member.waiting or self.member.awaited or self._goal)
            self.standby.follow(is_on=PARTITION in polled.standbys and not owns)
            if not owns and not self.standby.is_on and not self.held.is_empty:
                self.held.forget()

    def _stop(self, *, keeps: bool = False) -> None:
        """Decide nothing more until the partition is restored."""
        keeps = keeps and bool(self.running)  # what has a part of the state is of no use to a standby
        self.running, self._goal, self.member.awaited = set(), None, ""
        self.held.intake.forget()
        if not keeps:
            self.held.forget()

    def _assign(self) -> None:
        """Read the committed offsets of the group, and begin to restore; without any, commit the requested start."""
        topics, transport, group = self.plan.topics, self.member.transport, self.member.membership.group
        try:
            self.member.admit()
            if awaited := disagreement(transport, self.plan):
                self.held.forget()
                self._wait_for(awaited)
                return
            signed = self.member.consumer.committed(PARTITION)
            bounds = transport.bounds(topics.signed)
            if signed is None:
                start = start_offset(lambda: bounds, PARTITION, self.plan.start)
                end = bounds[PARTITION][1]
                if (begun := continued(transport, self.plan, start, end)) is None:
                    self._wait_for(f"matchers with verdicts: those that work publish no links in {topics.links} yet")
                    return
                signed, decided_before = begun
                more = {topics.verdicts: decided_before} if decided_before else {}
                self.member.transact([], topics.signed, {PARTITION: signed}, more_offsets=more)
                name_skipped(self.plan, signed)
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
            whole, signed = signed, after_gap(transport, self.plan, signed, bounds[PARTITION][0])
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
        self._committed, self._renewed_at = {**known, topics.signed: {PARTITION: signed}}, None
        self._trimmed, self._bound = {}, {}
        starts = {partition: links[partition].offset if partition in links else at for partition, at in firsts.items()}
        is_whole = not gone_links(self.plan, starts, firsts) and whole == signed
        self._is_kept = is_whole and not self.held.is_empty
        if not self._is_kept:
            self.held.forget()
            starts = {partition: max(at, firsts[partition]) for partition, at in starts.items()}
            self.held.follow(Offsets(signed, verdicts, links), starts)
        self.observer.count("takeovers", 1, "kept" if self._is_kept else "restored")
        self._goal, self.member.awaited, self.member.waiting = signed, "", set()

    def _wait_for(self, what: str) -> None:
        """Look again at each turn; log it once."""
        if what != self.member.awaited:
            _log.warning("the linker waits for %s", what)
        self.member.awaited, self.member.waiting = what, set()

    def _restore(self, goal: Committed, records_max: int) -> None:
        """Restore a stretch, or decide what was decided since a standby; run when the goal is reached."""
        held = self.held
        try:
            if held.is_restoring:
                held.restore(records_max)
            elif not held.reached(goal):
                self.standby.catch_up(goal, 0.0, records_max)
        except UnreachableError:
            if held.is_restoring:  # a reader that has failed returns no more
                self._begin_again()
            raise
        except (FencedError, OffsetGoneError, RecordsLostError) as error:
            if not self._is_kept:
                raise
            _log.warning("the linker restores, for its standby is of no use: %s", error)
            self._begin_again()
        if held.reached(goal) and self._goal is not None:
            held.is_level, self.running, self._goal = True, {PARTITION}, None
            self._ignored = self.state.decisions.ignored

    def _begin_again(self) -> None:
        self.held.forget()
        self._goal, self.member.waiting = None, {PARTITION}

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
                _new_message((topics.verdicts, run.partition, run.value, run.key, None, self._headers))
                for run in encode_runs(decision.rows, separate=self.plan.config.separate)
            ]
            changed = decision.clusters.messages()
            messages += [
                _new_message((topics.clusters, partition_of_key(k, partitions), v, k, None, ())) for k, v in changed
            ]
            sent = (*decision.stories, encode_step(step)) if decision.stories else ()
            messages += [_new_message((topics.originals, PARTITION, value, key, None, ())) for key, value in sent]
        return messages

    def _commit(
        self, messages: list[Message], outcome: str = COMMITTED, step: int | None = None, *, counts: bool = False
    ) -> None:
        """Publish with the offsets that have changed, at times with all; ``step`` is the last one in ``originals``.
        With ``counts``, write the ledger of sources, too. Raises the errors of ``transact``."""
        topics, state = self.plan.topics, self.state
        offset, row, arrivals = state.committed_position(self.held.intake.position)
        first, counted = state.decisions.first, state.arrivals if counts else self._counted
        mark, rare = self._marks.oldest(min(first, self.sources.first)), state.compared.counted
        needed = min(mark.offset, offset, offset if rare is None else offset_and_row(rare)[0])
        if counts:
            kept = self.sources.changes(counted)
            messages = [*messages, *(Message(topics.sources, PARTITION, value, key) for key, value in kept)]
        time = state.decisions.stream_time
        metadata = SignedMetadata(
            row, arrivals, mark.arrivals, None if time == NO_TIME else time,
            self.held.intake.growth.until(position_of(offset, row)), needed,
            self._written if step is None else step, counted, self._skipped, rare,
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
