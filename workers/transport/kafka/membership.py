"""What a member of a Kafka group learns on the client's own thread: assignments, changes, and when joins may run.

The worker's thread is waiting in the client's poll while any of this is called; see the theory of operation in
``kafka_consumer``. Heartbeats and fetches run on the same thread as these calls: nothing waits here (rule 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from workers.transport.kafka.client_internals.groups import CooperativeStickyAssignor
from workers.transport.protocol import Membership

NO_GENERATION = -1


class Change(NamedTuple):
    """Partitions that came (anew, if they were held), or that went."""

    came: bool
    partitions: frozenset[int]


class Notes:
    """What the two threads tell each other.

    From the client's: the ``membership`` of the last complete assignment, and ``changes`` in order. From the worker's:
    ``in_hand``, whether it holds records that a join would take from it.
    """

    def __init__(self) -> None:
        self.client: KafkaConsumer = None
        self.membership = Membership("", NO_GENERATION, "", None)
        self.changes: list[Change] = []
        self.in_hand = False

    def came(self, places: Iterable[TopicPartition]) -> None:
        """Keep partitions still, with a position that is never used, and note them."""
        new = list(places)
        self.client.pause(*new)
        for place in new:
            self.client.seek(place, 0)
        self.changes.append(Change(True, frozenset(place.partition for place in new)))

    def went(self, places: Iterable[TopicPartition]) -> None:
        """Note partitions that are held no more."""
        self.changes.append(Change(False, frozenset(place.partition for place in places)))

    def may_join(self) -> bool:
        """A join with records in hand would take them from the worker: they go out first."""
        return not self.in_hand

    def live(self) -> Membership:
        """The client's own view at this moment."""
        seen = self.client.group_metadata()
        return Membership(seen.group_id, seen.generation_id, seen.member_id, seen)


class Assignor(CooperativeStickyAssignor):  # type: ignore[misc]
    """The client's assignor, which also notes each complete assignment, and notices when one was missed.

    The client tells the listener that everything was lost only when the group puts the member out between rebalances.
    Put out in the middle of one, it joins as new and keeps its positions, although others had the partitions meanwhile.
    So generations must follow one another under one member id; else all that is assigned came anew.
    """

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Runs on the client's thread, after the assignment has taken effect and before the listener is called."""
        super().on_assignment(assignment, generation)
        before, now = self._notes.membership, self._notes.live()
        self._notes.membership = now
        follows = now.member == before.member and now.generation == before.generation + 1
        if before.generation != NO_GENERATION and not follows:
            self._notes.came(self._notes.client.assignment())


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes changes. Runs on the thread that sends heartbeats, so nothing here waits (rule 4)."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Partitions came."""
        self._notes.came(assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Partitions went, to another member."""
        self._notes.went(revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Partitions went, because the group put this member out."""
        self._notes.went(lost)
