"""Shares of a group: balanced and sticky; tables before balance; standbys; one owner at a time."""

from __future__ import annotations

import random

import pytest

from neardup_workers.outside.transport.assignment import Offer, Share, assign, balanced


class Group:
    """Members that join until nothing moves any more; each owns what it was given, and keeps tables of what it runs."""

    def __init__(self, partitions: int, standbys: int = 1) -> None:
        self.partitions, self.standbys, self.rounds = range(partitions), standbys, 0
        self.owned: dict[str, frozenset[int]] = {}
        self.tables: dict[str, set[int]] = {}
        self.shares: dict[str, Share] = {}

    def join(self, *names: str) -> None:
        """Members come, without a table."""
        for name in names:
            self.owned[name], self.tables[name] = frozenset(), set()

    def die(self, name: str) -> None:
        """A member is removed."""
        for state in (self.owned, self.tables, self.shares):
            state.pop(name)

    def rebalance(self, rounds_max: int = 8) -> None:
        """Join again and again, until no share moves."""
        for _ in range(rounds_max):
            offers = {name: Offer(self.standbys, frozenset(tables)) for name, tables in self.tables.items()}
            self.rounds += 1
            self.shares = assign(self.partitions, self.owned, offers, {name: name for name in self.owned})
            owned = [one for share in self.shares.values() for one in share.owned]
            assert len(owned) == len(set(owned)), "two members own one partition"
            before, self.owned = self.owned, {name: share.owned for name, share in self.shares.items()}
            for name, share in self.shares.items():
                self.tables[name] &= share.owned | share.standbys
            if before == self.owned and len(owned) == len(self.partitions):
                return
        raise AssertionError(f"still moving: {self.owned}")

    def warm(self) -> None:
        """All tables are made, and members whose share is outdated join again."""
        for name, share in self.shares.items():
            self.tables[name] = set(share.owned | share.standbys)
        if any(share.is_outdated(frozenset(self.tables[name]), share.named) for name, share in self.shares.items()):
            self.rebalance()

    def counts(self) -> list[int]:
        return sorted(map(len, self.owned.values()))


@pytest.mark.parametrize("seed", range(50))
def test_assignments_are_complete_balanced_and_sticky(seed: int) -> None:
    """Each partition has one owner, counts differ by at most one, and no member below its quota loses a partition."""
    random_source = random.Random(seed)
    partitions, members = random_source.randrange(1, 20), random_source.randrange(1, 8)
    owned: dict[str, list[int]] = {f"m{member}": [] for member in range(members)}
    for partition in range(partitions):
        if random_source.random() < 0.7:
            owned[random_source.choice(list(owned))].append(partition)
    assigned = balanced(range(partitions), owned, {})
    shares = [len(parts) for parts in assigned.values()]
    assert sorted(partition for parts in assigned.values() for partition in parts) == list(range(partitions))
    assert max(shares) - min(shares) <= 1
    for name, parts in owned.items():
        assert len(set(parts) - set(assigned[name])) == max(0, len(parts) - len(assigned[name]))


def test_each_partition_has_a_standby_that_takes_it_over() -> None:
    """The shares of a dead member go to those with their tables, and to no other."""
    group = Group(8)
    group.join("a", "b", "c", "d")
    group.rebalance()
    group.warm()
    for one in group.partitions:
        assert sum(one in share.standbys for share in group.shares.values()) == 1
    lost, held = group.owned["a"], {name: set(tables) for name, tables in group.tables.items()}
    group.die("a")
    group.rebalance()
    for one in lost:
        [owner] = [name for name, parts in group.owned.items() if one in parts]
        assert one in held[owner]


def test_a_member_that_returns_waits_for_tables_before_it_owns_again() -> None:
    """Nothing stands still: first it stands by, and balance returns when it has the tables."""
    group = Group(4)
    group.join("a", "b")
    group.rebalance()
    group.warm()
    group.die("a")
    group.rebalance()
    assert group.owned == {"b": frozenset(range(4))}
    group.join("a")
    group.rebalance()
    assert group.owned["b"] == frozenset(range(4))
    assert len(group.shares["a"].awaited) == 2
    group.warm()
    assert group.counts() == [2, 2]


def test_a_restart_within_the_session_gives_up_what_others_have_a_table_of() -> None:
    """A process that takes over a membership without the tables that its predecessor named joins again."""
    group = Group(4)
    group.join("a", "b")
    group.rebalance()
    group.warm()
    group.rebalance()
    share = group.shares["a"]
    assert not share.is_outdated(frozenset(group.tables["a"]), frozenset(group.tables["a"]))
    assert share.is_outdated(frozenset(), frozenset())
    group.tables["a"] = set()
    group.rebalance()
    assert group.owned == {"a": frozenset(), "b": frozenset(range(4))}


@pytest.mark.parametrize("seed", range(100))
def test_shares_settle_and_are_balanced_whatever_happens(seed: int) -> None:
    """Members come, die and lose tables; then the counts differ by at most one, and each partition has its standbys."""
    source = random.Random(seed)
    group = Group(source.randrange(1, 13), source.choice([0, 1, 2]))
    group.join("m0")
    for number in range(1, 20):
        action = source.choice(["join", "die", "lose", "warm"])
        if action == "join" and len(group.owned) < 6:
            group.join(f"m{number}")
        elif action == "die" and len(group.owned) > 1 and group.shares.keys() == group.owned.keys():
            group.die(source.choice(sorted(group.owned)))
        elif action == "lose":
            group.tables[source.choice(sorted(group.owned))].clear()
        elif action == "warm":
            group.rebalance()
            group.warm()
        group.rebalance()
    for _ in range(3):
        group.warm()
    counts = group.counts()
    assert counts[-1] - counts[0] <= 1
    for one in group.partitions:
        found = sum(one in share.standbys for share in group.shares.values())
        assert found == min(group.standbys, len(group.owned) - 1)


def test_what_two_members_claim_is_withheld_from_both() -> None:
    """A member that missed a rebalance claims what is no longer its own; all give it up first."""
    owned = {"a": [0, 1], "b": [1]}
    offers = {"a": Offer(1), "b": Offer(1)}
    shares = assign(range(2), owned, offers, {"a": "a", "b": "b"})
    assert not any(1 in share.owned for share in shares.values())


def test_without_standbys_tables_play_no_part() -> None:
    """A group in which no member wants standbys is balanced at once."""
    offers = {"a": Offer(0, frozenset({0, 1})), "b": Offer()}
    shares = assign(range(2), {"a": [0, 1], "b": []}, offers, {"a": "a", "b": "b"})
    assert (shares["a"].owned, shares["a"].standbys) == ({0}, frozenset())
