"""A consumer group in memory: members, generations, cooperative rebalances, committed offsets.

Theory of operation. The group is *stable* or *rebalancing*.

- A rebalance begins when a member joins, leaves or is removed. Each member takes part in its next ``poll``, with the
  list of partitions that it owns. When all have taken part, the **generation** increases by one and the group is
  stable. Until then the old generation is valid: members keep their partitions, and their offsets are accepted.
- ``assignment`` decides the shares. A partition that moves is **withheld** for one generation: the next ``poll`` of the
  old owner revokes it and begins another rebalance, and only that one assigns it to the new owner. So two live members
  never own a partition at the same time.
- A member that has not polled for the length of a session is removed at once, and its partitions are free. Its next
  ``poll`` revokes all partitions, and it joins as a new member.
- A member with an **instance** name is static. A new member of the same instance takes over its membership, partitions
  and generation without a rebalance. The replaced member gets no notice; only its offsets are refused.
- ``check`` guards offsets: the member must be in the group, at the group's present generation.

Crash: a process that dies sends nothing; its member stays until its session ends or its instance returns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from neardup_workers.outside.transport.assignment import Offer, Share, assign
from neardup_workers.outside.transport.protocol import Committed, FencedError, Membership

NO_GENERATION = -1


@dataclass
class GroupMember:
    """A member, as the group knows it. ``generation`` is that of its last assignment."""

    member: str
    instance: str
    seen_seconds: float
    generation: int = NO_GENERATION
    share: Share = field(default=Share())
    owned: frozenset[int] = field(default=frozenset())  # reported in the present rebalance
    offer: Offer = field(default=Offer())  # of its last join


class Group:
    """One group on one topic."""

    def __init__(self, name: str, topic: str, partitions: Collection[int]) -> None:
        self.name = name
        self.topic = topic
        self.generation = 0
        self.offsets: dict[int, Committed] = {}
        self._more_offsets: dict[str, dict[int, Committed]] = {}  # of topics that its members read without the group
        self.members: dict[str, GroupMember] = {}  # in order of joining
        self._partitions = sorted(partitions)
        self._joined: set[str] | None = None  # members that took part in the present rebalance; None if stable
        self._members_ever = 0

    def offsets_of(self, topic: str) -> dict[int, Committed]:
        """Return what is committed in a topic, to read or to change."""
        return self.offsets if topic == self.topic else self._more_offsets.setdefault(topic, {})

    def holder(self, instance: str) -> GroupMember | None:
        """Return the member of an instance, if there is one; ``None`` for an empty name."""
        if not instance:
            return None
        return next((member for member in self.members.values() if member.instance == instance), None)

    def join(self, instance: str, now_seconds: float, offer: Offer) -> str:
        """Add a member, or replace the member of the same instance; returns the id of the new member."""
        self._members_ever += 1
        name = f"{instance or 'member'}-{self._members_ever}"
        newcomer = GroupMember(name, instance, now_seconds, offer=offer)
        replaced = self.holder(instance)
        if replaced is not None:
            del self.members[replaced.member]
            newcomer.generation, newcomer.share = replaced.generation, replaced.share
            if self._joined is not None:
                self._joined.discard(replaced.member)
        self.members[name] = newcomer
        if replaced is None or self._withheld():
            self._rebalance()
        return name

    def leave(self, member: str) -> None:
        """Remove a member, if it is in the group."""
        if self.members.pop(member, None) is not None:
            self._rebalance()

    def expire(self, now_seconds: float, session_seconds: float) -> list[str]:
        """Remove every member that has not polled for the length of a session; returns their ids."""
        late = [name for name, m in self.members.items() if now_seconds - m.seen_seconds >= session_seconds]
        for name in late:
            self.leave(name)
        return late

    def poll(self, member: str, owned: frozenset[int], now_seconds: float, offer: Offer) -> tuple[int, frozenset[int]]:
        """Handle a poll of a member that owns ``owned`` and has these tables; returns its generation and its new
        partitions. A member whose share is outdated begins a rebalance."""
        polling = self.members[member]
        polling.seen_seconds = now_seconds
        owned = self._sync(polling, owned)
        if self._joined is not None:
            polling.owned, polling.offer = owned, offer
            self._joined.add(member)
            if self._joined.issuperset(self.members):
                self._complete()
                owned = self._sync(polling, owned)
        if polling.share.is_outdated(offer.tables, polling.offer.tables):
            self._rebalance()
        return polling.generation, owned

    def is_joining(self, member: str) -> bool:
        """Whether the member has taken part in a rebalance that is not over."""
        return self._joined is not None and member in self._joined

    def grow(self, partitions: Collection[int]) -> None:
        """Set the partitions of the topic after it has grown."""
        self._partitions = sorted(partitions)
        self._rebalance()

    def check(self, membership: Membership) -> None:
        """Raise ``FencedError`` unless the membership may commit offsets now."""
        member = self.members.get(membership.member)
        if membership.generation < 0:
            reason = "it is in no generation"
        elif member is None or membership.group != self.name:
            reason = "it is not in the group: its session ended, or its instance was taken over"
        elif membership.generation != self.generation:
            reason = f"the group is at generation {self.generation}"
        else:
            return
        raise FencedError(
            f"offsets of {membership.member!r}, generation {membership.generation}, of group"
            f" {membership.group!r} are refused: {reason}; abort and start from the committed offsets"
        )

    def _rebalance(self) -> None:
        if self._joined is None:
            self._joined = set()
        self._joined.intersection_update(self.members)
        if not self.members:
            self.generation += 1
            self._joined = None

    def _sync(self, member: GroupMember, owned: frozenset[int]) -> frozenset[int]:
        """Return what a member owns after its assignment; a partition that it gives up begins a rebalance."""
        if member.generation == NO_GENERATION:
            return owned
        if owned - member.share.owned:
            self._rebalance()
        return member.share.owned

    def _complete(self) -> None:
        """Begin a new generation, after all members have taken part."""
        self.generation += 1
        self._joined = None
        members = self.members.items()
        owned = {name: member.owned for name, member in members}
        offers = {name: member.offer for name, member in members}
        instances = {name: member.instance or name for name, member in members}
        for name, share in assign(self._partitions, owned, offers, instances).items():
            self.members[name].generation, self.members[name].share = self.generation, share

    def _withheld(self) -> bool:
        """Whether a partition waits for its old owner to release it; a replaced owner never releases it."""
        return sum(len(member.share.owned) for member in self.members.values()) < len(self._partitions)
