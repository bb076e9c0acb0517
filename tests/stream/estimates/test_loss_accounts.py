"""Losses are counted by hour, source and cluster, in bounded memory."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from neardup.pairs.estimates.limits import Losses
from neardup.pairs.estimates.loss_accounts import LARGEST, LossAccounts

HOUR = 3_600_000_000


@pytest.mark.parametrize("seed", range(5))
def test_accounts_equal_a_plain_count(seed: int) -> None:
    """Each loss counts once in its hour, in its source if it has one, and in its cluster."""
    rng, accounts = random.Random(seed), LossAccounts()
    hours, sources, clusters = Counter(), Counter(), Counter()
    for _ in range(30):
        count = rng.randrange(1, 6)
        missed = [rng.randrange(100) / 2 for _ in range(count)]
        times = [rng.randrange(5) * HOUR + rng.randrange(HOUR) for _ in range(count)]
        named, of = ([rng.choice(letters) for _ in range(count)] for letters in (["", "x", "y"], "abcdefghijklmnop"))
        left = np.array([rng.randrange(1, 9) for _ in range(count)], np.int32)
        losses = Losses(np.arange(count, dtype=np.int32), left, np.array(missed), np.zeros(count, np.int64))
        accounts.add(losses, np.array(times), of, named)
        for time, source, cluster, loss in zip(times, named, of, missed, strict=True):
            hours[time // HOUR * 3600] += loss
            sources[source] += loss
            clusters[cluster] += loss
    found = accounts.values()
    assert [(one["hour"], one["missed_pairs"]) for one in found["hours"]] == sorted(hours.items())
    assert {one["source"]: one["missed_pairs"] for one in found["sources"]} == {n: sources[n] for n in sources if n}
    assert [one["missed_pairs"] for one in found["largest"]] == sorted(clusters.values(), reverse=True)[:LARGEST]


def test_of_many_clusters_the_ones_with_the_least_losses_are_forgotten() -> None:
    """The number of those that were forgotten is reported, and the largest is still the largest."""
    accounts, none = LossAccounts(), np.full(1, np.iinfo(np.int64).min)
    one = np.ones(1, np.int32)
    for n in range(5_000):
        missed = np.array([1e6 if n == 3 else 1.0])
        accounts.add(Losses(one, one, missed, none), none, [f"c{n}"], [""])
    found = accounts.values()
    assert found["largest"][0] == {"id": "c3", "truncated": 1, "uncompared": 1, "missed_pairs": 1e6}
    assert found["forgotten"] > 2_000
    assert found["hours"] == [{"hour": None, "truncated": 5_000, "uncompared": 5_000, "missed_pairs": 1_004_999.0}]
