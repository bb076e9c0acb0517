"""Which member of a group owns which partition, and which members stand by for it: pure, the same on every transport.

A member may keep *tables* of partitions that it does not own, to take over without a restore: it stands by. It names
its tables when it joins. The leader of the group then decides by three rules:

1. *Balance.* The counts of the members differ by at most one. A member keeps what it owns up to its quota.
2. *Tables first.* A partition whose table some member has goes to such a member, even beyond its quota. The member that
   balance means instead stands by, and *awaits* the partition: it joins again as soon as it has the table.
   Without a member that wants standbys, tables play no part.
3. *One at a time.* A partition that moves is withheld until its owner has given it up, as in every cooperative group.

Names of tables are hints: a wrong one costs a restore. What a table holds is compared with the committed offset.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

_NOTHING: frozenset[int] = frozenset()


class Offer(NamedTuple):
    """What a member says when it joins: standbys that it wants of each partition (none: it does not stand by itself),
    and the partitions whose tables it has."""

    standbys: int = 0
    tables: frozenset[int] = _NOTHING


class Share(NamedTuple):
    """What a member gets: partitions that it owns, and others that it stands by for; of these, those that it is to own
    once it has their tables. ``named``: the tables of its offer."""

    owned: frozenset[int] = _NOTHING
    standbys: frozenset[int] = _NOTHING
    awaited: frozenset[int] = _NOTHING
    named: frozenset[int] = _NOTHING

    def is_outdated(self, tables: frozenset[int], named: frozenset[int]) -> bool:
        """Whether a member that has these tables now, and ``named`` others at its last join, must join again. The share
        may be that of a process before it."""
        return bool(self.awaited & tables or self.owned & (self.named - named))


def balanced(
    partitions: Collection[int], owned: Mapping[str, Collection[int]], tables: Mapping[str, Collection[int]]
) -> dict[str, list[int]]:
    """Assign partitions to members, balanced and sticky.

    Counts differ by at most one, and a member loses a partition only if it has more than its quota. The members that
    own most get the larger quotas; the order of ``owned`` decides ties. What is free goes first to members with its
    table.

    >>> balanced([0, 1, 2, 3, 4], {"a": [0, 1, 2, 3, 4], "b": []}, {})
    {'a': [0, 1, 2], 'b': [3, 4]}
    >>> balanced([0, 1, 2, 3], {"a": [0, 1], "b": []}, {"b": [3]})
    {'a': [0, 1], 'b': [2, 3]}
    """
    quota, larger = divmod(len(partitions), len(owned))
    names = sorted(owned, key=lambda name: -len(owned[name]))  # a stable sort: ties keep their order
    quotas = {name: quota + (rank < larger) for rank, name in enumerate(names)}
    assigned = {name: sorted(owned[name])[: quotas[name]] for name in names}
    taken = {partition for parts in assigned.values() for partition in parts}
    free = [partition for partition in sorted(partitions) if partition not in taken]
    for needs_table in (True, False):
        for name in names:
            fitting = [one for one in free if not needs_table or one in tables.get(name, ())]
            assigned[name] += fitting[: quotas[name] - len(assigned[name])]
            free = [one for one in free if one not in assigned[name]]
    return {name: sorted(parts) for name, parts in assigned.items()}


def assign(
    partitions: Collection[int],
    owned: Mapping[str, Collection[int]],
    offers: Mapping[str, Offer],
    instances: Mapping[str, str],
) -> dict[str, Share]:
    """Return the share of each member, by the rules of the module. What two members claim to own now is withheld from
    all. ``instances`` are the lasting names of members, which choose between those that are alike."""
    is_plain = not any(offer.standbys for offer in offers.values())
    tables = {name: _NOTHING if is_plain else offers[name].tables for name in owned}
    claims = Counter(one for parts in owned.values() for one in parts)
    kept = {name: [one for one in parts if claims[one] == 1] for name, parts in owned.items()}
    owners = {one: name for name, parts in kept.items() for one in parts}
    owners |= {one: "" for one, count in claims.items() if count > 1}  # all of them must give it up
    meant = {one: name for name, parts in balanced(partitions, kept, tables).items() for one in parts}
    given: dict[int, str] = {}
    for one in sorted(partitions, key=lambda one: (one not in tables[meant[one]], one)):
        given[one] = meant[one]
        holders = [name for name in owned if one in tables[name]]
        if holders and meant[one] not in holders:
            counts = {name: sum(other == name for other in given.values()) for name in holders}
            order = {name: (name != owners.get(one), counts[name], _rank(instances[name], one)) for name in holders}
            given[one] = min(holders, key=order.__getitem__)
    stand = _standbys(given, meant, tables, offers, instances)
    out = {}
    for name in owned:
        mine = {one for one, other in given.items() if other == name}
        moving = {one for one in mine if owners.get(one, name) != name}
        waits = stand[name] | (moving if offers[name].standbys else set())
        awaited = frozenset(one for one in stand[name] if meant[one] == name)
        out[name] = Share(frozenset(mine - moving), frozenset(waits), awaited, tables[name])
    return out


def _standbys(
    given: Mapping[int, str],
    meant: Mapping[int, str],
    tables: Mapping[str, frozenset[int]],
    offers: Mapping[str, Offer],
    instances: Mapping[str, str],
) -> dict[str, set[int]]:
    """Choose standbys: first the member that awaits the partition, then those with its table while they have no more
    than their part, then those with the fewest."""
    out: dict[str, set[int]] = {name: set() for name in tables}
    able = [name for name in tables if offers[name].standbys]
    wanted = max((offer.standbys for offer in offers.values()), default=0)
    part_max = -(-wanted * len(given) // max(1, len(able)))
    for one in sorted(given):

        def order(name: str, one: int = one) -> tuple[bool, bool, int, int]:
            keeps = one in tables[name] and len(out[name]) < part_max
            return name != meant[one], not keeps, len(out[name]), _rank(instances[name], one)

        for name in sorted((name for name in able if name != given[one]), key=order)[:wanted]:
            out[name].add(one)
    return out


def _rank(instance: str, partition: int) -> int:
    """Rendezvous hash: the order of the members for a partition, which stays when others come and go."""
    return int.from_bytes(hashlib.blake2b(f"{instance}/{partition}".encode(), digest_size=8).digest())
