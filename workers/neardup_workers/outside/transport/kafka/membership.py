"""Assignments of a member of a Kafka group and their changes, received on the client's own thread.

The worker's thread waits in the client's poll during all of these calls; ``consumer`` has the theory of operation. The
same thread sends heartbeats and fetches, so no call here waits (rule 4).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from neardup_workers.outside.transport.assignment import Offer, Share, assign
from neardup_workers.outside.transport.kafka.admin import KafkaAdmin
from neardup_workers.outside.transport.kafka.client_internals import groups
from neardup_workers.outside.transport.kafka.client_internals.groups import CooperativeStickyAssignor
from neardup_workers.outside.transport.protocol import Membership, UnreachableError

NO_GENERATION = -1
# From a change of the membership to a look at the group: a rebalance of live members is over by then.
_LOOK_SECONDS = 3.0


class Change(NamedTuple):
    """Assigned partitions (newly or again), or partitions that are no longer owned."""

    is_assigned: bool
    partitions: frozenset[int]


class Notes:
    """The state that the two threads share.

    The client's thread writes ``membership`` and ``share`` (of the last complete assignment), ``named`` (the tables of
    the last join) and ``changes`` (in order). The worker's thread writes ``has_records``: whether it holds records that
    a join would invalidate; and ``offer``, for the next join.
    """

    def __init__(self, group: str) -> None:
        self.client: KafkaConsumer = None
        self.membership = Membership(group, NO_GENERATION, "", None)
        self.changes: list[Change] = []
        self.has_records = False
        self.offer = Offer()
        self.named: frozenset[int] = frozenset()
        self.share = Share()

    def assign(self, logs: Iterable[TopicPartition]) -> None:
        """Record new partitions, and pause them at a position that is never used."""
        new = list(logs)
        self.client.pause(*new)
        for log in new:
            self.client.seek(log, 0)
        self.changes.append(Change(True, frozenset(log.partition for log in new)))

    def revoke(self, logs: Iterable[TopicPartition]) -> None:
        """Record partitions that are no longer owned."""
        self.changes.append(Change(False, frozenset(log.partition for log in logs)))

    def may_join(self) -> bool:
        """Whether a join may begin: a join invalidates records that the worker holds."""
        return not self.has_records

    def live(self) -> Membership:
        """Return the client's own view of the membership at this moment."""
        seen = self.client.group_metadata()
        return Membership(seen.group_id, seen.generation_id, seen.member_id, seen)


class Assignor(CooperativeStickyAssignor):  # type: ignore[misc]
    """The client's assignor; it also notes each complete assignment, and detects a missed one.

    The client reports lost partitions to the listener only if the group removes the member between two rebalances. If
    the group removes the member during a rebalance, the client joins as a new member and keeps its positions, although
    other members may have owned the partitions meanwhile. So all assigned partitions are recorded as new, unless the
    member id is the same and the new generation follows the last one.

    Where a member wants standbys, ``assignment`` decides the shares. Offers and shares are the user data of the
    client's messages. A member that sends no offer has the tables of what it owns.
    """

    def __init__(self, notes: Notes, topic: str) -> None:
        super().__init__()
        self._notes, self._topic = notes, topic

    def metadata(self, topics: Any) -> Any:
        """Return what this member says when it joins: the client's own data, and the offer."""
        said, offer = super().metadata(topics), self._notes.offer
        self._notes.named = offer.tables
        if offer.standbys:
            said.user_data = _encode(offer)
        return said

    def assign(self, cluster: Any, members: Any) -> Any:
        """Decide all shares, as the leader of the group."""
        given = {member.member_id: bytes(member.metadata.user_data or b"") for member in members}
        if not any(given.values()):
            return super().assign(cluster, members)
        logs = {member.member_id: self.parse_member_metadata(member.metadata).partitions for member in members}
        owned = {name: [log.partition for log in some if log.topic == self._topic] for name, some in logs.items()}
        offers = {
            name: _decode_offer(data) if data else Offer(0, frozenset(owned[name])) for name, data in given.items()
        }
        instances = {member.member_id: member.group_instance_id or member.member_id for member in members}
        shares = assign(cluster.partitions_for_topic(self._topic) or (), owned, offers, instances)
        return {
            name: groups.assignment(self._topic, sorted(share.owned), _encode(share)) for name, share in shares.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Note an assignment: the client calls this after the assignment took effect, and before the listener."""
        super().on_assignment(assignment, generation)
        before, now = self._notes.membership, self._notes.live()
        self._notes.membership = now
        data = bytes(assignment.user_data or b"")
        self._notes.share = _decode_share(data) if data else Share()
        follows = now.member == before.member and now.generation == before.generation + 1
        if before.generation != NO_GENERATION and not follows:
            self._notes.assign(self._notes.client.assignment())


def _encode(said: Offer | Share) -> bytes:
    fields = said._asdict()
    return orjson.dumps({name: sorted(x) if isinstance(x, frozenset) else x for name, x in fields.items()})


def _decode_offer(data: bytes) -> Offer:
    fields = orjson.loads(data)
    return Offer(fields["standbys"], frozenset(fields["tables"]))


def _decode_share(data: bytes | str) -> Share:
    return Share(**{name: frozenset(parts) for name, parts in orjson.loads(data).items()})


def described_share(member: Mapping[str, Any]) -> tuple[str, Share]:
    """Return the instance of a member that the broker describes, and its share; without standbys, what it owns."""
    given: Mapping[str, Any] = member["member_assignment"] or {"assigned_partitions": (), "user_data": ""}
    data: str = given["user_data"]  # the client makes text of bytes
    owned = frozenset(one for log in given["assigned_partitions"] for one in log["partitions"])
    return member["group_instance_id"] or member["member_id"], _decode_share(data) if data else Share(owned)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Records changes on the thread that sends heartbeats, so no call here waits (rule 4)."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note new partitions."""
        self._notes.assign(assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Record partitions that moved to another member."""
        self._notes.revoke(revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Record partitions that were lost because the group removed this member."""
        self._notes.revoke(lost)


class Ownership:
    """Whether every partition of a topic belongs to a member of the group.

    Two restarts leave partitions without an owner, and the group says nothing: of a member between the moment that it
    gives partitions up and the join that assigns them to others; and of the leader while partitions are added, because
    its successor does not learn that it leads. So each member looks some seconds after each change of its membership,
    on the worker's thread. If a partition belongs to no member, it joins again, and the group rebalances.
    """

    def __init__(self, admin: KafkaAdmin, topic: str, group: str) -> None:
        self._admin, self._topic, self._group = admin, topic, group
        self._seen = ("", -1)
        self._due: float | None = None

    def is_broken(self, membership: Membership) -> bool:
        """Return whether a look is due and finds a partition that belongs to no member of a stable group."""
        now, seen = time.monotonic(), (membership.member, membership.generation)
        if seen != self._seen:
            self._seen, self._due = seen, now + _LOOK_SECONDS
        if self._due is None or now < self._due or membership.generation < 0:
            return False
        self._due = now + _LOOK_SECONDS
        try:
            owned = self._admin.owned(self._group, self._topic)
            is_whole = owned is not None and owned >= self._admin.partitions(self._topic)
        except UnreachableError:
            return False
        if is_whole:
            self._due = None
        return owned is not None and not is_whole
