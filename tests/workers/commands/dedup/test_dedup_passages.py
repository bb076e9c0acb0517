"""``dedup`` and ``batch`` say what each text shares with an earlier one, in the given text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from benchmarks.recall.passages import prose
from dedup_outputs import deduplicated
from jsonschema import Draft202012Validator

from neardup import ConfigError
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run

SCHEMA = Path(__file__).parents[4] / "docs" / "schemas" / "verdict.json"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A file with a report, an article that contains it, a part of it and a copy; the texts by id."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    report = prose(rng, "az", 1500)
    texts = {
        "report": report,
        "article": f"Straße  \n {prose(rng, 'az', 1200)}\n\n{report.title()} {prose(rng, 'az', 1300)}",
        "part": report[200:1400],
        "copy": report.upper(),
        "changed": f"{report[:500]} {prose(rng, 'az', 20)} {report[520:1000]} {prose(rng, 'az', 1500)}",
        "other": prose(rng, "az", 900),
    }
    lines = [json.dumps({"id": id_, "text": text}) for id_, text in texts.items()]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    return texts


def verdicts_of(lines: bytes) -> dict[str, dict[str, Any]]:
    """The verdicts of annotated lines, by id; each matches the schema."""
    found = {line["id"]: line["neardup"] for line in map(json.loads, lines.splitlines())}
    schema = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for verdict in found.values():
        schema.validate(verdict)
    return found


def test_an_annotated_line_says_where_its_text_has_the_passage(given: dict[str, str], tmp_path: Path) -> None:
    """``given`` are places of its own text; what is equal letter by letter is exact, with the ends of the common text;
    a changed word leaves an estimate."""
    out = deduplicated("in.jsonl", folder=tmp_path, annotate=True, scheme="passages")
    found = verdicts_of(out["kept"])
    assert {id_: one.get("relation") for id_, one in found.items()} == {
        "report": None, "article": "contains", "part": "part_of", "copy": None, "changed": "contains",
        "other": None,
    }  # fmt: skip
    (passage,) = found["article"]["passages"]
    assert passage["exact"]
    assert passage["older"] == [0, len(given["report"])]
    assert given["article"][slice(*passage["given"])].strip().lower() == given["report"]
    assert found["part"]["relation_to"] in ("report", "article")
    assert given["part"][slice(*found["part"]["passages"][0]["given"])] == given["part"]
    assert all("exact" not in one for one in found["changed"]["passages"] if one["given"][1] > 560)
    listed = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert all("given" not in one for verdict in listed for one in verdict.get("passages", ()))


def test_parts_are_removed_by_a_setting_with_their_passages(given: dict[str, str], tmp_path: Path) -> None:
    """The removed line says of what it is a part; in batch the same lines stay."""
    settings = {"scheme": "passages:part_min=0.8"}
    out = deduplicated("in.jsonl", folder=tmp_path, **settings)
    removed = verdicts_of(out["removed"])
    assert set(removed) == {"part", "copy"}
    assert removed["part"]["duplicate_of"] == removed["part"]["relation_to"]
    assert removed["part"]["similarity"] == removed["part"]["newer_fraction"] >= 0.8
    assert removed["part"]["passages"][0]["exact"]
    options = BatchOptions(["in.jsonl"], quiet=True, verdicts="verdicts", output="kept", annotate=True)
    assert run(options, load(settings, None)) == Exit.SUCCESS
    assert (tmp_path / "verdicts").read_bytes() == out["verdicts"]
    assert verdicts_of((tmp_path / "kept").read_bytes())["part"] == removed["part"]


def test_a_preference_decides_which_text_is_the_part(given: dict[str, str], tmp_path: Path) -> None:
    """The longest first: then the report is a part of the article, which comes after it."""
    options = BatchOptions(["in.jsonl"], quiet=True, verdicts="verdicts", prefer="longest")
    assert run(options, load({"scheme": "passages:part_min=0.8"}, None)) == Exit.SUCCESS
    found = {one["id"]: one for one in map(json.loads, (tmp_path / "verdicts").read_bytes().splitlines())}
    assert [id_ for id_, one in found.items() if one["status"] == "original"] == ["article", "changed", "other"]
    assert (found["report"]["duplicate_of"], found["report"]["relation_to"]) == ("article", "article")
    assert found["report"]["similarity"] == found["report"]["newer_fraction"] >= 0.9


def test_workers_refuse_the_setting() -> None:
    """With the remedy: their verdicts drop copies only."""
    with pytest.raises(ConfigError, match=r"passages:part_min.*use dedup, batch or serve"):
        StreamSettings(scheme="passages:part_min=0.8")
