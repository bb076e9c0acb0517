"""``--measure jaccard_idf`` in the commands: a stream has counts, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neardup import Config, Deduplicator, Document
from neardup.errors import ConfigError
from neardup_workers.doing.audit.measuring import check
from neardup_workers.outside.options.documents import BatchOptions, DedupOptions, RunOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.batch import corpus, spark
from neardup_workers.running.commands.dedup import command
from neardup_workers.running.commands.run import run
from neardup_workers.running.commands.tune.thresholds import Compared

ASKED: dict[str, Any] = {"measure": "jaccard_idf", "verify": "exact", "k": 3, "threshold": 0.3}


def offers(size: int) -> list[Document]:
    rng, makers = random.Random(1), ["sony", "bose", "linksys", "canon", "philips"]
    texts = [
        f"{rng.choice(makers)} {rng.choice(['black', 'silver'])} camera model x{rng.randrange(900)}z"
        for _ in range(size)
    ]
    return [Document(str(n), text) for n, text in enumerate(texts)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Document]:
    monkeypatch.chdir(tmp_path)
    documents = offers(300)
    for name, part in (("all", documents), ("first", documents[:100]), ("second", documents[100:])):
        lines = (json.dumps({"id": one.id, "text": one.text}) for one in part)
        Path(f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return documents


def test_dedup_decides_as_the_library_and_goes_on_after_a_window(files: list[Document]) -> None:
    """In one run, and in two of which the second has the window of the first with its counts."""
    settings = Settings(**ASKED)
    command.run(DedupOptions(["all.jsonl"], quiet=True, verdicts="whole", output="kept"), settings)
    command.run(DedupOptions(["first.jsonl"], quiet=True, verdicts="a", output="kept", keep="window"), settings)
    command.run(DedupOptions(["second.jsonl"], quiet=True, verdicts="b", output="kept", window_from="window"), settings)
    whole = Path("whole").read_text(encoding="utf-8").splitlines()
    parts = [line for name in "ab" for line in Path(name).read_text(encoding="utf-8").splitlines()]
    decided = [(one["id"], one["status"], one.get("duplicate_of")) for one in map(json.loads, whole)]
    assert [(one["id"], one["status"], one.get("duplicate_of")) for one in map(json.loads, parts)] == decided
    expected = Deduplicator(Config(**ASKED)).decide(files)
    assert decided == [(one.id, one.status, one.duplicate_of) for one in expected]
    assert 20 < sum(status == "duplicate" for _, status, _ in decided) < 290


def test_run_writes_the_pairs_of_the_library_and_the_nearest(files: list[Document]) -> None:
    """The nearest of all documents before it is the best of a document's pairs."""
    assert run(RunOptions(["all.jsonl"], quiet=True, output="pairs"), Settings(**ASKED)) == Exit.SUCCESS
    assert run(RunOptions(["all.jsonl"], quiet=True, output="top", top=1), Settings(**ASKED)) == Exit.SUCCESS
    found = [json.loads(line) for line in Path("pairs").read_bytes().splitlines()]
    expected = Deduplicator(Config(**ASKED)).process(files)
    assert [(one["older"], one["newer"]) for one in found] == [(one.older, one.newer) for one in expected]
    best = {one["newer"]: max(x["similarity"] for x in found if x["newer"] == one["newer"]) for one in found}
    top = {one["id"]: one["nearest"] for one in map(json.loads, Path("top").read_bytes().splitlines())}
    assert {id_: top[id_][0]["similarity"] for id_ in best} == best


@pytest.mark.parametrize(
    ("start", "where"),
    [
        (lambda: corpus.run(BatchOptions(["all.jsonl"], quiet=True), Settings(**ASKED)), "batch"),
        (lambda: spark.run(BatchOptions(["all.jsonl"], quiet=True), Settings(**ASKED)), "batch"),
        (lambda: check(["all.jsonl"], Settings(**ASKED)), "audit"),
        (lambda: Compared(Settings(**ASKED), offers(2)), "tune"),
    ],
)
def test_what_has_no_counts_refuses(start: Callable[[], object], where: str, files: list[Document]) -> None:
    """With the value, the rule and the remedy, before a document is read."""
    said = f"measure=jaccard_idf .*not in {where}.*: use run, dedup, serve or Kafka, or set measure"
    with pytest.raises(ConfigError, match=said):
        start()
