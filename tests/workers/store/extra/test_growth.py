"""The order of growth equals the order of the sums that define it."""

import random

import pytest

from neardup_workers.outside.store.extra.growth import warmer

HOUR = 3_600_000_000


def test_the_order_of_heats_is_the_order_of_the_sums():
    """At any time; copies may come in any order."""
    rng = random.Random(3)
    stories = [[rng.randrange(48 * HOUR) for _ in range(rng.randrange(1, 30))] for _ in range(200)]
    heats = []
    for times in stories:
        heat = times[0]
        for time in times[1:]:
            heat = warmer(heat, time)
        heats.append(heat)
    for now in (48 * HOUR, 60 * HOUR):
        sums = [sum(2.0 ** ((time - now) / HOUR) for time in times) for times in stories]
        order = sorted(range(200), key=heats.__getitem__)
        assert [sums[n] for n in order] == pytest.approx(sorted(sums), rel=1e-6)
