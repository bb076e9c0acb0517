"""A consumer group of the twin in memory: members, generations, cooperative rebalances, committed offsets.

Theory of operation. The group is *stable* or *rebalancing*.

- A member joins, leaves or is put out: the group is rebalancing. Each member takes part by its next ``poll``, where
  it says what it owns. When all have, the **generation** grows by one and the group is stable; until then the old
  generation stands, members keep their partitions, and offsets of the old generation are accepted.
- The assignment is balanced and sticky: who owns a partition keeps it unless it has too many. A partition that moves
  is **withheld** for one generation: the old owner reads in its next ``poll`` that it is revoked and asks for another
  rebalance, and only that one gives it to the new owner. So no two live members own a partition at once.
- A member that has not polled for the session is put out at once, whatever it is doing; what it owned is free. It
  finds out in its next ``poll``: everything is revoked and it joins as a new member.
- A member with an **instance** name is static. A newcomer of the same instance takes over its place, its partitions
  and its generation without a rebalance. The replaced one is told by nobody; only its offsets are refused.
- ``check`` guards offsets: the member must be in the group, at the group's present generation.

Crash: a process that dies says nothing; its member stays until its session ends or its instance returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from workers.transport.protocol import Committed, FencedError, Membership

NO_GENERATION = -1


@dataclass
class Member:
    """A member as the group sees it. ``generation`` is the last one that gave it an assignment."""

    member: str
    instance: str
    seen_seconds: float
    generation: int = NO_GENERATION
    assigned: frozenset[int] = frozenset()
    owned: frozenset[int] = field(default=frozenset())  # what it said in the rebalance going on


class Group:
    """One group on one topic."""

    def __init__(self, name: str, topic: str, partitions: Collection[int]) -> None:
        self.name = name
        self.topic = topic
        self.generation = 0
        self.offsets: dict[int, Committed] = {}
        self.members: dict[str, Member] = {}  # in order of joining
        self._partitions = sorted(partitions)
        self._joined: set[str] | None = None  # who took part in the rebalance going on; None when stable
        self._members_ever = 0

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance waits for members to poll."""
        return self._joined is not None

    def holder(self, instance: str) -> Member | None:
        """The member of that instance, if it has one; nobody is the instance without a name."""
        if not instance:
            return None
        return next((member for member in self.members.values() if member.instance == instance), None)

    def join(self, instance: str, now_seconds: float) -> str:
        """Add a member, or take over the place of the one with the same instance; returns the new member's id."""
        self._members_ever += 1
        name = f"{instance or 'member'}-{self._members_ever}"
        newcomer = Member(name, instance, now_seconds)
        replaced = self.holder(instance)
        if replaced is not None:
            del self.members[replaced.member]
            newcomer.generation, newcomer.assigned = replaced.generation, replaced.assigned
            if self._joined is not None:
                self._joined.discard(replaced.member)
        self.members[name] = newcomer
        if replaced is None or self._withheld():
            self._rebalance()
        return name

    def leave(self, member: str) -> None:
        """Take a member out, if it is in."""
        if self.members.pop(member, None) is not None:
            self._rebalance()

    def expire(self, now_seconds: float, session_seconds: float) -> list[str]:
        """Put out every member that has not polled for the session; returns their ids."""
        late = [name for name, m in self.members.items() if now_seconds - m.seen_seconds >= session_seconds]
        for name in late:
            self.leave(name)
        return late

    def poll(self, member: str, owned: frozenset[int], now_seconds: float) -> tuple[int, frozenset[int]]:
        """A sign of life of a member that owns ``owned``; returns its generation and what it owns from now on."""
        polling = self.members[member]
        polling.seen_seconds = now_seconds
        owned = self._sync(polling, owned)
        if self._joined is not None:
            polling.owned = owned
            self._joined.add(member)
            if self._joined.issuperset(self.members):
                self._complete()
                owned = self._sync(polling, owned)
        return polling.generation, owned

    def is_joining(self, member: str) -> bool:
        """Whether the member has taken part in a rebalance that is not over."""
        return self._joined is not None and member in self._joined

    def grow(self, partitions: Collection[int]) -> None:
        """The topic has other partitions now."""
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

    def _sync(self, member: Member, owned: frozenset[int]) -> frozenset[int]:
        """What a member owns after it has learnt its assignment; a partition it gives up calls for a rebalance."""
        if member.generation == NO_GENERATION:
            return owned
        if owned - member.assigned:
            self._rebalance()
        return member.assigned

    def _complete(self) -> None:
        """All have said what they own: a new generation begins."""
        self.generation += 1
        self._joined = None
        owned = {name: member.owned for name, member in self.members.items()}
        owners = {partition: name for name, parts in owned.items() for partition in parts}
        for name, target in assign(self._partitions, owned).items():
            member = self.members[name]
            member.generation = self.generation
            member.assigned = frozenset(p for p in target if owners.get(p, name) == name)

    def _withheld(self) -> bool:
        """Whether a partition waits for its old owner to give it up. An owner replaced meanwhile never will."""
        return sum(len(member.assigned) for member in self.members.values()) < len(self._partitions)


def assign(partitions: Collection[int], owned: Mapping[str, Collection[int]]) -> dict[str, list[int]]:
    """Share partitions among members, balanced and sticky.

    Counts differ by at most one, and a member loses a partition only if it had more than its share.
    Who owns most gets the larger shares; ties go by the order of ``owned``.

    >>> assign([0, 1, 2, 3, 4], {"a": [0, 1, 2, 3, 4], "b": []})
    {'a': [0, 1, 2], 'b': [3, 4]}
    """
    share, larger = divmod(len(partitions), len(owned))
    names = sorted(owned, key=lambda name: -len(owned[name]))  # stable: ties stay in their order
    shares = {name: share + (rank < larger) for rank, name in enumerate(names)}
    kept = {name: sorted(owned[name])[: shares[name]] for name in names}
    taken = {partition for parts in kept.values() for partition in parts}
    free = [partition for partition in sorted(partitions) if partition not in taken]
    for name in names:
        lacking = shares[name] - len(kept[name])
        kept[name] += free[:lacking]
        del free[:lacking]
    return kept
