"""The table of sequences by each way to decide that is no library: two commands, the service, the topics.

``tests/laws/test_verdict_sequences.py`` has the library, with every scheme.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from dedup_outputs import deduplicated
from service_world import world_in
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Scenario
from verdict_sequences import NEW_SEQUENCES, SEQUENCES, TEXTS, WINDOW_SECONDS, Arrival, lines_of, words_of

from neardup import Config, Deduplicator, Document
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.settings.load import load
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.running.commands.batch.corpus import run as batch

Settings = dict[str, Any]
SETTINGS: Settings = {"threshold": 0.6, "window_seconds": WINDOW_SECONDS, "lateness_seconds": 0.0}
# Each table of sequences with what its drivers set.
TABLES = ((SEQUENCES, SETTINGS), (NEW_SEQUENCES, SETTINGS | {"novelty": "words", "verify": "exact", "threshold": 0.45}))


def by_dedup(arrivals: Sequence[Arrival], folder: Path, settings: Settings) -> str:
    """``neardup dedup`` of a file."""
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of(arrivals)))
    found = deduplicated(folder / "in.jsonl", folder=folder, **settings)
    return words_of(map(json.loads, found["verdicts"].splitlines()))


def by_batch(arrivals: Sequence[Arrival], folder: Path, settings: Settings) -> str:
    """``neardup batch`` of a file, in order of arrival."""
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of(arrivals)))
    options = BatchOptions([str(folder / "in.jsonl")], quiet=True, verdicts=str(folder / "verdicts"), prefer="first")
    batch(options, load(settings, None))
    return words_of(map(json.loads, (folder / "verdicts").read_bytes().splitlines()))


def by_serve(arrivals: Sequence[Arrival], folder: Path, settings: Settings) -> str:
    """``neardup serve`` with the time of the documents; it restarts in the middle."""
    found, half = [], len(arrivals) // 2
    for part in (arrivals[:half], arrivals[half:]):
        with world_in(folder, clock="event", **settings) as world:
            for one in part:
                if one.content is None:
                    world.ask("DELETE", f"/v1/documents/{one.id}")
                    continue
                fields = world.check(one.id, TEXTS[one.content], timestamp=one.time)
                found.append(fields | ({"status": "unchanged"} if fields["repeated"] else {}))
    return words_of(found)


def by_topics(arrivals: Sequence[Arrival], folder: Path, settings: Settings) -> str:
    """The four workers over topics in memory, until they are quiet; every law of the simulation holds."""
    lines = [line for line in verdicts_of_topics(arrivals, settings) if line["status"] != "removed"]
    number = {f"0-{line['offset']}": n for n, line in enumerate(lines)}
    return words_of(
        line | {name: number[line[name]] for name in ("cluster", "related") if name in line} for line in lines
    )


def verdicts_of_topics(arrivals: Sequence[Arrival], settings: Settings, link_rows: int = 50_000) -> list[Settings]:
    """The verdicts of the four workers, of which the linker decides so many rows in a step."""
    scenario = Scenario(
        Config(**settings), Habits(skew_seconds=1e5), linkers=1, filters=1, shards=4, link_rows=link_rows
    )
    cluster = Cluster(scenario)
    for role in (SIGNERS, MATCHERS, LINKERS, FILTERS):
        cluster.add(role)
    with cluster.limits():
        begin = cluster.memory.now_seconds
        for one in arrivals:
            if one.content is None:
                cluster.feed.remove(one.id)
            else:
                cluster.feed.document(one.id, TEXTS[one.content], begin + one.time)
        cluster.settle()
    return [line for record in cluster.memory.records(cluster.topics.verdicts) for line in parse_run(record.value)]


def is_of_files(arrivals: Sequence[Arrival]) -> bool:
    """No removal: files have none."""
    return all(one.content for one in arrivals)


def is_at_rest(arrivals: Sequence[Arrival]) -> bool:
    """Distinct ids within one window: a corpus at rest has no versions, and nothing of it expires."""
    within = max(one.time for one in arrivals) <= WINDOW_SECONDS
    return is_of_files(arrivals) and within and len({one.id for one in arrivals}) == len(arrivals)


# Name -> the driver, and which sequences it can have.
DRIVERS: dict[str, tuple[Callable[[Sequence[Arrival], Path, Settings], str], Callable[[Sequence[Arrival]], bool]]] = {
    "dedup": (by_dedup, is_of_files),
    "batch": (by_batch, is_at_rest),
    "serve": (by_serve, lambda arrivals: True),
    "topics": (by_topics, lambda arrivals: True),
}
CASES = [
    (name, of, table)
    for table, (sequences, _) in enumerate(TABLES)
    for name, (_, has) in DRIVERS.items()
    for of, (arrivals, _) in sequences.items()
    if has(arrivals)
]


@pytest.mark.parametrize(("driver", "sequence", "table"), CASES)
def test_the_sequence_is_decided_as_by_the_library(driver: str, sequence: str, table: int, tmp_path: Path) -> None:
    """Each driver has the decisions of the table."""
    sequences, settings = TABLES[table]
    arrivals, expected = sequences[sequence]
    assert DRIVERS[driver][0](arrivals, tmp_path, settings) == expected


def long_stream(rng: random.Random) -> tuple[list[Arrival], dict[str, str]]:
    """Documents of which some thirty fill a window of a megabyte, with copies and near copies of each age; and their
    texts."""
    arrivals, texts = list[Arrival](), dict[str, str]()
    for number in range(150):
        back = texts[str(max(0, number - rng.randint(1, 60)))] if number and rng.random() < 0.5 else None
        words = (
            [f"word{rng.randrange(1 << 40)}" for _ in range(rng.choice([30, 350]))] if back is None else back.split()
        )
        if rng.random() < 0.5:
            words[rng.randrange(len(words))] = "changed"
        texts[str(number)] = " ".join(words)
        arrivals.append(Arrival(f"id {number % 140}", str(number), float(number)))
    return arrivals, texts


def by_library(arrivals: Sequence[Arrival], settings: Settings, count: int) -> str:
    """``Deduplicator.decide`` in calls of so many documents."""
    dedup, documents = (
        Deduplicator(Config(**settings)),
        [Document(a.id, TEXTS[a.content or ""], a.time) for a in arrivals],
    )
    calls = (dedup.decide(documents[at : at + count]) for at in range(0, len(documents), count))
    return words_of(verdict._asdict() for call in calls for verdict in call)


@pytest.mark.parametrize("novelty", ["off", "words"])
def test_a_window_that_bytes_shorten_is_the_same_everywhere(
    novelty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One document a call, some, all; and each other way to decide."""
    settings = {
        "verify": "exact", "novelty": novelty, "threshold": 0.6, "evidence_bytes_max": 1 << 20,
        "window_seconds": 1e5, "lateness_seconds": 0.0,
    }  # fmt: skip
    arrivals, texts = long_stream(random.Random(3))
    for content, text in texts.items():
        monkeypatch.setitem(TEXTS, content, text)
    expected = by_library(arrivals, settings, 1)
    assert expected != by_library(arrivals, settings | {"evidence_bytes_max": 1 << 30}, 1), "the window is shortened"
    assert [by_library(arrivals, settings, count) for count in (7, 150)] == [expected] * 2
    for driver in ("dedup", "serve", "topics"):
        folder = tmp_path / driver
        folder.mkdir()
        assert DRIVERS[driver][0](arrivals, folder, settings) == expected, driver


def long_text(rng: random.Random) -> str:
    """A text of which some thirty fill a megabyte."""
    return " ".join(f"word{rng.randrange(1 << 40)}" for _ in range(700))


def test_the_original_that_a_verdict_names_does_not_depend_on_the_steps_of_a_linker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is named while it counts, though its row is there until the step ends."""
    settings = {
        "verify": "exact", "threshold": 0.6, "evidence_bytes_max": 1 << 20, "window_seconds": 60.0,
        "lateness_seconds": 0.0,
    }  # fmt: skip
    report, arrivals = long_text(random.Random("report")), list[Arrival]()
    for n in range(60):
        monkeypatch.setitem(TEXTS, str(n), long_text(random.Random(n)) if n % 3 else f"{report} copy {n}")
        arrivals.append(Arrival(f"id {n}", str(n), float(n)))
    lines = verdicts_of_topics(arrivals, settings)
    copies = [line.get("original") for line in lines if line["status"] == "duplicate"]
    assert set(copies) == {"0-0", None}
    assert verdicts_of_topics(arrivals, settings, link_rows=1) == lines
