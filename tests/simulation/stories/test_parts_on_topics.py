"""Parts of texts meet the whole on shards as in one process, also where texts have much in common."""

from __future__ import annotations

import random
from collections.abc import Iterator
from string import ascii_lowercase
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sim_cluster import LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Scenario
from sim_verdicts import check_one_process

from neardup import Config
from neardup_workers.outside.settings.presets import PRESETS

DOCUMENTS, WORDS, BACK = 450, 90, 200


def templated(rng: random.Random, known: list[str]) -> Iterator[list[str]]:
    """Texts that begin with one of a few templates."""
    templates = [rng.choices(known, k=2 * WORDS // 3) for _ in range(4)]
    while True:
        template = rng.choice(templates) if rng.random() < 0.7 else []
        yield [*template, *rng.choices(known, k=WORDS - len(template))]


def with_footers(rng: random.Random, known: list[str]) -> Iterator[list[str]]:
    """Texts that end with one footer."""
    footer = rng.choices(known, k=WORDS // 3)
    while True:
        yield [*rng.choices(known, k=WORDS - len(footer)), *footer]


STREAMS = {"templates": templated, "a footer": with_footers}


def texts_of(name: str, count: int) -> list[str]:
    """Texts of a stream; every third is a part of an earlier one."""
    rng = random.Random(name)
    known = ["".join(rng.choices(ascii_lowercase, k=rng.randint(3, 9))) for _ in range(2000)]
    made, texts = STREAMS[name](rng, known), list[list[str]]()
    for n in range(count):
        words = next(made)
        if n % 3 == 2:
            whole = rng.choice(texts[-BACK:])
            begin, size = rng.choice([0, 0, len(whole) // 3]), rng.choice([len(whole) // 3, len(whole) // 4])
            words = whole[begin : begin + size]
        texts.append(words)
    return [" ".join(words) for words in texts]


@pytest.mark.parametrize("shards", [1, 8, 32])
@pytest.mark.parametrize("name", STREAMS)
def test_verdicts_are_those_of_one_process(name: str, shards: int) -> None:
    """A third of the texts are parts of earlier ones."""
    config = Config(**cast(Any, PRESETS["news"].values))
    cluster = Cluster(Scenario(config, Habits(skew_seconds=1e5), shards=shards, linkers=1, canaries_every=0))
    for kind in (SIGNERS, MATCHERS, LINKERS):
        cluster.add(kind)
    for n, text in enumerate(texts_of(name, DOCUMENTS)):
        cluster.feed.document(f"d{n}", text, cluster.memory.now_seconds + n)
    cluster.settle()
    outcome = SimpleNamespace(cluster=cluster, config=config)
    check_one_process(cast(Any, outcome))
