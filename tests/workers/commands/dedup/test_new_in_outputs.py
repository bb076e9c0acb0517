"""What is new, in the outputs of ``dedup`` and of the service."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
from dedup_outputs import deduplicated
from service_world import world_in
from verdict_sequences import TEXTS

from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.dedup.command import run

SETTINGS = {"novelty": "words", "verify": "exact", "threshold": 0.4}
# A report, a longer one, a copy of that, another report in its form, and the report once more.
SENT = [("a", "r"), ("b", "l"), ("c", "m"), ("d", "o"), ("e", "r")]


def written(folder: Path) -> Path:
    """The documents as a file."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps({"id": id_, "text": TEXTS[name], "timestamp": 0}) + "\n" for id_, name in SENT))
    return path


def test_lines_of_dedup_say_what_is_new(tmp_path: Path) -> None:
    """Kept lines name the new words, removed lines the part that was said; the summary counts what was kept for it."""
    out = deduplicated(written(tmp_path), folder=tmp_path, annotate=True, **SETTINGS)
    lines = [json.loads(line)["neardup"] for line in out["kept"].splitlines()]
    assert [line["status"] for line in lines] == ["original", "update", "duplicate", "original", "duplicate"]
    assert [word["text"] for word in lines[1]["new"]][:3] == ["workers", "agreed", "to"]
    assert "Ancona" in [word["text"] for word in lines[3]["new"]]
    assert lines[3]["new_numbers"] == 6
    assert 0.88 <= lines[2]["said"] <= 1
    assert "new" not in lines[0]
    assert "new" not in lines[2]
    assert json.loads(out["summary"])["kept_as_new"] == {"numbers": 1, "words": 1}


def test_dedup_ends_with_what_was_kept_because_it_is_new(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    """Numbers and words of correction apart from words alone."""
    run(DedupOptions([str(written(tmp_path))], output=str(tmp_path / "kept")), load(SETTINGS, None))
    assert "dropped 2, kept because new 2 (numbers 1, words 1)" in capsys.readouterr().err


def test_answers_and_events_of_the_service_say_what_is_new(tmp_path: Path) -> None:
    """So do stored versions after a restart, and a story lists its updates with them."""
    with world_in(tmp_path, **SETTINGS) as world:
        answers = [world.check(id_, TEXTS[name]) for id_, name in SENT]
    assert [one["status"] for one in answers] == ["original", "update", "duplicate", "original", "duplicate"]
    new = answers[1]["new"]
    assert [TEXTS["l"][word["begin"] : word["end"]] for word in new] == [word["text"] for word in new]
    assert (answers[0]["new"], answers[3]["against"], answers[3]["new_numbers"]) == (None, 0, 6)
    with world_in(tmp_path, **SETTINGS) as world:
        assert world.ask("GET", "/v1/documents/b").json()["versions"][0]["new"] == new
        story = orjson.loads(world.ask("GET", "/v1/clusters/0").content)
        assert [(update["id"], update["new"]) for update in story["updates"]] == [("b", new)]


def test_why_says_the_rule_with_its_two_numbers(tmp_path: Path) -> None:
    """And names what is new in the later text, from the stored texts."""
    with world_in(tmp_path, keep_texts=True, **SETTINGS) as world:
        for id_, name in SENT:
            world.check(id_, TEXTS[name])
        why = world.ask("GET", "/v1/why?a=a&b=d").json()["novelty"]
        copy = world.ask("GET", "/v1/why?a=b&b=c").json()["novelty"]
    assert (why["said_min"], why["new_numbers"], why["is_new"]) == (0.88, 6, True)
    assert "Ancona" in [word["text"] for word in why["new"]]
    assert (copy["new_numbers"], copy["is_new"]) == (0, False)
