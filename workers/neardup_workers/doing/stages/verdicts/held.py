"""What a linker holds: its state, clusters and ledger, with their readers. It restores and decides, publishes nothing.

A step has two parts: ``decide`` opens it, ``commit`` or ``undo`` closes it after what the caller does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.beginning.restore import Moving, Offsets, Restored, restored
from neardup_workers.doing.stages.verdicts.clusters import Changed, Clusters
from neardup_workers.doing.stages.verdicts.intake import Intake, LinkPlan
from neardup_workers.doing.stages.verdicts.originals import Sent
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.doing.stages.verdicts.sources import Sources
from neardup_workers.doing.stages.verdicts.state import LinkState, Taken
from neardup_workers.outside.telemetry.observer import stage
from neardup_workers.outside.telemetry.sources import forget_sources
from neardup_workers.outside.topics.links import Links
from neardup_workers.outside.topics.signed import position_of
from neardup_workers.outside.topics.verdicts import DecidedRows
from neardup_workers.outside.transport.protocol import Committed

# Maximum documents of a step, which the producer sends in about a second, and pairs that end it, of half a second.
_STEP_ROWS_MAX, _STEP_PAIRS_MAX = 50_000, 1 << 19
# Maximum time of a turn for restoring: the group waits for the next poll.
_RESTORE_SECONDS = 0.5


class Decision(NamedTuple):
    """What an open step has decided and changed: clusters, records of ``originals``, places of stories that end."""

    taken: Taken
    rows: DecidedRows
    clusters: Changed
    stories: list[Sent]
    ended: list[int]


class Held:
    """All that one linker holds; see the module."""

    def __init__(self, member: WorkerMember, plan: LinkPlan) -> None:
        self._member, self._plan, self._observer = member, plan, member.observer
        self.intake = Intake(member, plan)
        self._restore: Iterator[Restored | int] | None = None
        self._early: list[Links] | None = None  # links that were read during the restore, if the owner works on
        self.progress = 0, 0  # rows that a restore has read, of about so many
        self.forget()

    def forget(self) -> None:
        """Begin with an empty state."""
        plan = self._plan
        self._restore, self._early, self.is_empty = None, None, True
        self.is_level = False  # it has been at the committed offset
        self.state = LinkState(plan.limits, self.intake.compared())
        self.clusters = Clusters(plan.limits, separate=plan.config.separate)
        self.sources = Sources(plan.sources_max)
        forget_sources(self._observer)

    @property
    def is_restoring(self) -> bool:
        """Whether a restore has begun and has not ended."""
        return self._restore is not None

    def follow(self, offsets: Offsets, links: Mapping[int, int]) -> None:
        """Begin to restore what is committed; ``links`` is where each of its partitions is read."""
        self._begin(offsets, None)
        self._read_from(offsets, links)

    def follow_owner(self, offsets: Offsets, read: Callable[[], Offsets | None]) -> None:
        """Begin to restore what the owner of the partition has committed, who works on; ``read`` says what that is by
        now. Its links are read from then on: trims do not wait."""

        def begun(offsets: Offsets) -> None:
            self._read_from(offsets, {partition: committed.offset for partition, committed in offsets.links.items()})
            self._early = []

        self._begin(offsets, Moving(read, begun))

    def _begin(self, offsets: Offsets, moving: Moving | None) -> None:
        self._restore = restored(self._member.transport, self._plan, self.intake.compared(), offsets, moving)
        metadata, self.is_empty = decode_signed_metadata(offsets.signed), False
        self.progress = 0, 2 * (metadata.arrivals - metadata.first)  # in verdicts, and in signed

    def _read_from(self, offsets: Offsets, links: Mapping[int, int]) -> None:
        metadata = decode_signed_metadata(offsets.signed)
        self.intake.follow(links, offsets.signed.offset, metadata.row, metadata.growth)

    def restore(self, records_max: int) -> bool:
        """Restore for ``_RESTORE_SECONDS``; returns whether that is complete. Raises ``UnreachableError``: begin again
        then, for a reader that has failed returns no more; and the errors of ``restored``."""
        assert self._restore is not None, "nothing is restored"
        until = self._member.clock() + _RESTORE_SECONDS
        while True:
            loaded = next(self._restore)
            if isinstance(loaded, Restored):
                self.state, self.clusters, self.sources = loaded
                for links in self._early or ():
                    self.state.add_pairs(links)
                self._restore = self._early = None
                self._observer.count("restored_documents", self.state.decisions.end)
                return True
            if self._early is not None:
                self.intake.take_links(self._early.append, 0.0, records_max)
            self.progress = self.progress[0] + loaded, self.progress[1]
            if self._member.clock() >= until:
                return False

    def reached(self, signed: Committed) -> bool:
        """Whether what is decided is what was decided at this commit."""
        metadata, state = decode_signed_metadata(signed), self.state
        position = state.decided_position(self.intake.position)
        return (
            not self.is_restoring
            and state.arrivals == metadata.arrivals
            and position >= position_of(signed.offset, metadata.row)
        )

    def decide(self, end: int | None = None, rows_max: int | None = None) -> Decision | None:
        """Decide the next arrivals that every shard has passed, in a step that stays open; ``None`` without any. After
        an error no step is open. With ``end``, only those before this position, and at most ``rows_max``."""
        state, watermarks = self.state, self.intake.watermarks
        watermark = watermarks.watermark(_STEP_PAIRS_MAX)
        taken = state.take(
            watermark if end is None else min(watermark, end), min(_STEP_ROWS_MAX, rows_max or _STEP_ROWS_MAX)
        )
        if taken is None:
            return None
        with stage(self._observer, "decide"):
            try:
                rows = self.intake.unless_fenced(lambda: state.decide(taken, watermarks.gaps))
                stories = state.stories(self._plan.config.signing_fingerprint)
            except BaseException:
                state.undo()
                raise
            return Decision(
                taken, rows, self.clusters.change(rows, state.decisions.stream_time), stories, state.ended_stories()
            )

    def commit(self, step: Decision) -> None:
        """Close the step: what it has decided holds from now on."""
        with stage(self._observer, "decide"):
            self.state.commit()
            self.clusters.commit(step.clusters)
            decisions = self.state.decisions
            self.sources.count(step.rows, step.ended, decisions.first, decisions.end)

    def undo(self) -> None:
        """Close the step as if it had never been opened."""
        self.state.undo()
