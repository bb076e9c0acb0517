"""The benchmarks of live recall at smoke size. No test asserts a time."""

from __future__ import annotations

from benchmarks.recall import audits, canaries


def test_each_fault_is_noticed_and_a_healthy_stream_is_silent() -> None:
    """On the one stream of the small size; a flood before its first loss, signers before the first document."""
    results = {result.name: result for result in canaries.run("smoke")}
    assert {"missed", "absent"}.isdisjoint(result.verdict for result in results.values())
    assert all(results[name].value == 1.0 for name in (*canaries.FAULTS, *canaries.SIGNERS))
    healthy = results["no fault, a canary for each document"]
    assert healthy.value == 0
    assert healthy.details["canaries"] > 2_000


def test_the_cost_is_measured_in_library_and_service() -> None:
    """Of two lengths of texts and two rates."""
    names = [result.name for result in canaries.cost("smoke")]
    assert len(names) == len(set(names)) == 12


def test_audits_hold_the_truth() -> None:
    """On a generated set, and on programs where they are there."""
    *of_sets, every = audits.run("smoke")
    assert every.verdict == "reached"
    assert every.details["draws"] >= 4
    assert {"truth", "audit", "from", "to", "cost"} <= of_sets[-2].details.keys()
