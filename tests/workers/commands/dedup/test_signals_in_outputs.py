"""The signal by which a document joins a story, in the outputs of ``dedup`` and of the service."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dedup_outputs import deduplicated
from PIL import Image
from service_world import world_in

from neardup.documents.document import SIGNALS
from neardup_workers.outside.options.documents import BatchOptions, RunOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch import corpus
from neardup_workers.running.commands.run import run

SETTINGS = {
    "scheme": "signals:title=0.6,vector=0.9,dimension=4,picture=0.85,record=0.8,fields=model,price:9,keys=model"
}
FIRST = "The ferry to the island leaves at seven and returns before noon, unless fog holds it in the port."
OTHER = "A minister resigned on Friday after reports of a loan; the premier named her successor at once."
DOCUMENTS = [
    {"id": "a", "text": FIRST, "timestamp": 0, "title": "Ferry stays in port", "vector": [1, 2, 3, 4], "model": "M1"},
    {"id": "b", "text": OTHER, "timestamp": 60, "title": "Ferry stays in the port"},
    {"id": "c", "text": OTHER[::-1], "timestamp": 60, "vector": [2, 4, 6, 8.5]},
    {"id": "d", "text": FIRST + "!", "timestamp": 60, "title": "Ferry stays in port"},
    {"id": "f", "text": FIRST[::-1], "timestamp": 60, "model": "M1", "price": 99},
]


def test_lines_of_dedup_name_the_signal(tmp_path: Path) -> None:
    """Of the updates that are kept; a drop has none, because the text alone drops."""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    out = deduplicated(path, folder=tmp_path, annotate=True, **SETTINGS)
    lines = [json.loads(line)["neardup"] for line in out["kept"].splitlines()]
    assert [(line["status"], line.get("signal")) for line in lines] == [
        ("original", None), ("update", "title"), ("update", "vector"), ("duplicate", None), ("update", "record"),
    ]  # fmt: skip


def test_a_line_names_the_file_of_its_picture(tmp_path: Path) -> None:
    """From the folder of the lines on; what is no file that can be read refuses the document, and a pipe does not
    wait."""
    folder = tmp_path / "feed"
    folder.mkdir()
    patches = np.random.default_rng(1).integers(0, 256, (12, 12, 3), np.uint8)
    whole = Image.fromarray(patches).resize((480, 320))
    whole.save(folder / "whole.png")
    whole.resize((200, 150)).save(folder / "small.jpg")
    os.mkfifo(folder / "pipe")
    (folder / "text").write_text("words")
    path, names = folder / "in.jsonl", ("whole.png", str(folder / "small.jpg"), "none.png", "pipe", ".", "\0", "text")
    texts = (FIRST, OTHER, *(f"{number} {FIRST}" for number in range(5)))
    lines = (
        {"id": str(n), "text": text, "timestamp": n, "picture": name}
        for n, (text, name) in enumerate(zip(texts, names, strict=True))
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = deduplicated(path, folder=tmp_path, annotate=True, scheme="signals:picture=0.85")
    kept = [json.loads(line)["neardup"] for line in out["kept"].splitlines()]
    assert [(line["status"], line.get("signal")) for line in kept] == [("original", None), ("update", "picture")]
    reasons = [json.loads(line).get("reason") for line in out["verdicts"].splitlines()]
    assert reasons == [None, None, *["picture_file"] * 4, "picture"]


@pytest.mark.parametrize("verdicts", [None, "verdicts"])
def test_pairs_of_batch_name_the_signal_as_those_of_run_do(
    verdicts: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also next to verdicts, and pairs whose texts are not near; with another order of times."""
    monkeypatch.chdir(tmp_path)
    lines = (json.dumps(one | {"timestamp": -n}) for n, one in enumerate(DOCUMENTS))
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    settings = load(SETTINGS, None)
    assert run(RunOptions(["in.jsonl"], quiet=True, output="pairs"), settings) == Exit.SUCCESS
    assert corpus.run(BatchOptions(["in.jsonl"], quiet=True, verdicts=verdicts), settings) == Exit.SUCCESS
    found = capsysbinary.readouterr().out.splitlines()
    assert sorted(found) == sorted(Path("pairs").read_bytes().splitlines())
    assert Counter(json.loads(pair).get("signal") for pair in found) == {"title": 2, "vector": 1, "record": 1, None: 1}


def test_answers_and_stories_of_the_service_name_the_signal(tmp_path: Path) -> None:
    """Also after a restart, which reads the log; ``why`` names it, too."""
    with world_in(tmp_path, **SETTINGS) as world:
        answers = [world.ask("POST", "/v1/check", json=document).json() for document in DOCUMENTS]
        assert [(one["status"], one["signal"]) for one in answers] == [
            ("original", None), ("update", "title"), ("update", "vector"), ("duplicate", None), ("update", "record"),
        ]  # fmt: skip
    with world_in(tmp_path, **SETTINGS) as world:
        story = world.ask("GET", "/v1/clusters/0").json()
        assert [(update["id"], update["signal"]) for update in story["updates"]] == [
            ("f", "record"), ("c", "vector"), ("b", "title"),
        ]  # fmt: skip
        why = world.ask("GET", "/v1/why?a=a&b=c").json()
        assert (why["reason"], why["signal"]) == ("pair", "vector")
        page = world.ask("GET", "/page/pair.js").text
        assert all(f" {name}: 'the same " in page for name in SIGNALS)
        again = world.ask(
            "POST", "/v1/check", json=DOCUMENTS[1] | {"id": "e", "text": "Some other words, of which none is known."}
        )
        assert again.json()["signal"] == "title"
