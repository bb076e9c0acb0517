"""The benchmarks of recall and of what is new at smoke size. No test asserts a time."""

from __future__ import annotations

from pathlib import Path

from benchmarks.recall import audits, canaries, shard_canaries
from benchmarks.typed import novelty
from real_sets import needs_data


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


def test_forms_with_other_figures_are_kept_and_their_reprints_dropped() -> None:
    """Releases, a rising toll, corrections of a number or with a mark, and notices that differ in a counter."""
    results = [result for run in (novelty.templates, novelty.corrections, novelty.floods) for result in run("smoke")]
    missed = [result.name for result in results if result.verdict != "reached"]
    assert missed == ["a correction of a name: kept", "a correction of a word: kept"], (
        "a correction of a single word without a mark is not seen, and not each of a name"
    )
    assert len(results) == 11


@needs_data
def test_judged_pairs_are_dropped_as_the_page_says() -> None:
    """Each pair by itself, to the last digit; and the stories of the wire."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    results = [result for run in (novelty.cuts, novelty.judged, novelty.stories) for result in run("smoke")]
    missed = {novelty.row_of(result) for result in results if result.verdict == "missed"}
    assert len(results) == 15
    assert missed <= set(page), "run python -m benchmarks.typed.novelty docs/RESULTS.md"
