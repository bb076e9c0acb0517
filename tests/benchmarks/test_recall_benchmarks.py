"""The benchmarks of live recall at smoke size. No test asserts a time."""

from __future__ import annotations

from benchmarks.recall import audits, canaries, shard_canaries


def test_each_fault_is_noticed_and_a_healthy_stream_is_silent() -> None:
    """On the one stream of the small size; a flood before its first loss, signers before the first document."""
    results = {result.name: result for result in canaries.run("smoke")}
    assert {"missed", "absent"}.isdisjoint(result.verdict for result in results.values())
    assert all(results[name].value == 1.0 for name in (*canaries.FAULTS, *canaries.SIGNERS))
    healthy = results["no fault, a canary for each document"]
    assert healthy.value == 0
    assert healthy.details["canaries"] > 2_000


def test_a_fault_of_one_shard_is_noticed_and_healthy_shards_are_silent() -> None:
    """By canaries that a signer wrote into the log; also after each shard was restored."""
    results = {result.name: result for result in shard_canaries.run("smoke")}
    healthy = results.pop("no fault, a canary for each document")
    assert [result.value for result in results.values()] == [1.0] * len(shard_canaries.FAULTS)
    assert healthy.value == 0
    assert healthy.details["canaries"] > 2_000


def test_the_cost_is_measured_in_library_and_service() -> None:
    """Of two lengths of texts and two rates; and of the roles on Kafka."""
    names = [result.name for result in canaries.cost("smoke")]
    assert len(names) == len(set(names)) == 6
    assert len({result.name for result in shard_canaries.cost("smoke")}) == 6


def test_audits_hold_the_truth() -> None:
    """On a generated set, and on programs where they are there."""
    *of_sets, every = audits.run("smoke")
    assert every.verdict == "reached"
    assert every.details["draws"] >= 4
    assert {"truth", "audit", "from", "to", "audit, s"} <= of_sets[-2].details.keys()
