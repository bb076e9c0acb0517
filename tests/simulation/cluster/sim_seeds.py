"""From a seed to a scenario, a run and a verdict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from sim_checks import Outcome, check
from sim_cluster import Simulation
from sim_documents import Habits
from sim_scenario import Scenario

from neardup.schemes.config import Config
from neardup_workers.doing.stages.matching.cursors import TRAIL_BYTES
from neardup_workers.outside.settings.kafka import LIMITS

WEIGHTS = {
    "turn": 70.0, "produce": 12.0, "advance": 8.0, "sleep": 1.5, "crash": 1.5, "crash_in": 1.0, "fault": 3.0,
    "pause": 1.0, "zombie": 1.0, "join": 0.7, "leave": 0.7, "cut_short": 2.5, "broker_away": 0.4, "grow": 0.3,
}  # fmt: skip


@lru_cache(256)
def config(
    window: float, lateness: float, documents: int = 1_000_000, candidates: int = 256, novelty: str = "off"
) -> Config:
    """8 bands of 4 rows: cheap, and at the texts of ``sim_documents`` about half of the variants are pairs."""
    return Config(
        threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=window,
        lateness_seconds=lateness, window_documents=documents, bucket_candidates_max=candidates, novelty=novelty,
    )  # fmt: skip


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed; in one of three, administrators add shards."""
    scenario = _scenario_of(seed)
    if seed % 3 == 1:
        scenario.weights["more_shards"] = 1.5
    return scenario


def _scenario_of(seed: int) -> Scenario:
    """Draw sizes, limits, habits of the producer, and the rates of failures from a seed."""
    rng = random.Random(f"{seed}/scenario")
    settled = rng.random() < 0.4  # every id once, and enough lateness: the promise covers all documents
    slow = settled and rng.random() < 0.5  # long enough for documents to leave the window
    far = not slow and rng.random() < 0.2
    lateness = rng.choice([60.0, 150.0] if slow else [200.0] if settled else [0.0, 5.0, 100.0, 1000.0])
    spread = rng.choice([0.0, 2.0] if slow else [0.0, 2.0, 40.0])
    habits = Habits(
        version=0.0 if settled else rng.choice([0.0, 0.1, 0.3]),
        correction=0.0 if settled else random.Random(f"{seed}/corrections").choice([0.0, 0.1, 0.3]),
        resent=0.0 if settled else rng.choice([0.0, 0.0, 0.1]),
        tombstone=0.0 if settled else rng.choice([0.0, 0.1, 0.2]),
        unreadable=rng.choice([0.0, 0.03, 0.2]),
        far_future=0.05 if far else 0.0,
        late_seconds=spread,
        early_seconds=rng.choice([0.0, spread]),
    )
    limited = rng.random() < 0.2
    documents = rng.choice([5, 15, 40]) if limited and rng.random() < 0.5 else 1_000_000
    candidates = rng.choice([1, 3]) if limited and documents == 1_000_000 else 256
    weights = {name: weight * rng.choice([0.3, 1.0, 1.0, 2.0]) for name, weight in WEIGHTS.items()}
    if slow:
        weights["sleep"] = 5.0
    if rng.random() < 0.1:  # only the order varies
        weights = {name: WEIGHTS[name] for name in ("turn", "produce", "advance")}
    return Scenario(
        config=config(
            rng.choice([5.0, 30.0] if slow else [300.0, 1e6] if settled else [5.0, 30.0, 120.0, 1e6]),
            lateness,
            documents,
            candidates,
            random.Random(f"{seed}/said").choice(["off", "off", "off", "numbers", "words"]),
        ),
        habits=habits,
        documents_partitions=rng.randint(1, 4),
        shards=rng.choice([1, 2, 3, 5, 8]),
        signers=rng.randint(1, 3),
        matchers=rng.randint(1, 3),
        static=rng.random() < 0.7,
        actions=rng.randint(300, 500) if slow else rng.randint(50, 450),
        interleaved=rng.choice([0.0, 0.02, 0.1]),
        weights=weights,
        message_bytes=rng.choice([100, 512 << 10]),
        stretch_records=rng.choice([1, 2, 500]),
        step_bytes=rng.choice([1_000, 10_000, LIMITS.step_bytes_max]),
        step_pairs=rng.choice([1, 1, 3, LIMITS.step_pairs_max]),
        linkers=(linkers := rng.choice([0, 1, 2])),
        filters=rng.choice([0, 1, 2]) if linkers else 0,
        forward=rng.choice([("original",), ("original", "unchanged")]),
        undecided_max=rng.choice([1, 5, LIMITS.undecided_max]),
        messages_bytes=random.Random(f"{seed}/messages").choice([1, 2_000, LIMITS.messages_bytes_max]),
        sources_stories=random.Random(f"{seed}/sources").choice([0, 3, 20_000]),
        link_rows=rng.choice([1, 3, 50_000]),
        step_seconds=random.Random(f"{seed}/seconds").choice([0.0, 0.5]),  # of a clock that stands: a slice, or any
        link_pairs=random.Random(f"{seed}/pairs").choice([0, 3, 1 << 19]),
        representative=rng.choice(["first", "longest", "timestamp"]),
        standbys=rng.choice([0, 1, 1, 2]),
        trail_bytes=rng.choice([1, 2_000, TRAIL_BYTES]),
    )


def run(seed: int, actions_max: int | None = None, trace: Callable[[str], None] | None = None) -> Simulation:
    """The run of a seed before the checks. ``actions_max`` shortens the schedule; the earlier actions stay the same."""
    scenario = scenario_of(seed)
    if actions_max is not None:
        scenario = replace(scenario, actions=min(actions_max, scenario.actions))
    simulation = Simulation(scenario, seed, trace)
    simulation.run()
    return simulation


def verdict(seed: int, actions_max: int | None = None) -> tuple[Simulation, Outcome]:
    """Run a seed and check it; a failure says how to repeat it."""
    try:
        simulation = run(seed, actions_max)
        return simulation, check(simulation)
    except Exception as error:
        error.add_note(f"seed {seed}: python tests/simulation/torture.py --seed {seed} --trace")
        raise


def shortest(seed: int) -> int:
    """The length of a shorter schedule of a failing seed that also fails, found by halving."""
    passes, fails = 0, scenario_of(seed).actions
    while fails - passes > 1:
        middle = (passes + fails) // 2
        try:
            verdict(seed, middle)
            passes = middle
        except Exception:
            fails = middle
    return fails


def tally(simulation: Simulation, outcome: Outcome) -> Counter[str]:
    """The counts of a run, to be summed over many runs."""
    return Counter(
        {
            **simulation.events,
            "runs": 1,
            "documents": len(outcome.documents),
            "pairs": len(outcome.said),
            "notices": len(outcome.notices),
            "expired": outcome.model.expired,
            "evicted": outcome.model.evicted,
            "late": outcome.model.late,
            "runs in the promise": int(outcome.in_promise and outcome.uncut),
            "of them with expiry": int(outcome.in_promise and outcome.uncut and outcome.model.expired > 0),
            "pairs of contents promised": len(outcome.promise.pairs) if outcome.in_promise and outcome.uncut else 0,
            "links promised": sum(len(d) - 1 for d in outcome.promise.links.values()) if outcome.in_promise else 0,
            "forwarded": outcome.forwarded,
            **outcome.clusters,
            **outcome.sources,
            **{f"canaries {what}": count for what, count in simulation.observer.canaries.items()},
            **{f"takeovers {what}": count for what, count in simulation.observer.takeovers.items()},
            **{f"linkers {what}": count for what, count in simulation.of_linkers.takeovers.items()},
            "documents of standing linkers": simulation.of_linkers.standby_documents,
            "documents of standbys": simulation.observer.standby_documents,
            "verdicts": sum(outcome.verdicts.values()),
            **{f"verdict {status}": count for status, count in outcome.verdicts.items()},
            "trimmed": sum(first for first, _ in bounds_of(simulation).values()),
        }
    )


def bounds_of(simulation: Simulation) -> dict[int, tuple[int, int]]:
    """First offset and end of ``signed``."""
    memory, topic = simulation.memory, simulation.topics.signed
    logs = [memory.log(topic, partition) for partition in range(memory.partitions(topic))]
    return {log.partition: (log.first, log.end) for log in logs}
