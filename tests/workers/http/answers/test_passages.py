"""What the service says of shared passages; and the promise of scheme ``passages`` in every command."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.recall.passages import PASSAGE, SCRIPTS, prose, shared_run
from dedup_outputs import deduplicated
from service_world import world_in
from shell_harness import Bench

from neardup import Config, Deduplicator, Document
from neardup.pairs.json_lines import relation_values
from neardup_workers.outside.options.documents import BatchOptions, RunOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run as batch
from neardup_workers.running.commands.run import run

# What a line says of what two texts share.
MARKS = "relation", "older_fraction", "newer_fraction", "passages"
# Pairs of each script. Of texts of twice as many characters the least fraction is beyond the threshold.
PAIRS = 40
SETTINGS: list[dict[str, Any]] = [
    {"scheme": "passages", "threshold": 0.05},
    {"scheme": "parts", "threshold": 0.05, "bucket_candidates_max": 256},
]


def stream() -> list[tuple[str, str]]:
    """Ids and texts: pairs of texts that share a run of just ``passage_characters``, in a random order."""
    rng = random.Random(12)
    texts: list[tuple[str, str]] = []
    for script, letters in SCRIPTS.items():
        for n in range(PAIRS):
            held = shared_run(rng, letters, PASSAGE)
            for name in "ab":
                around = [prose(rng, letters, rng.randint(1, 150)) if rng.random() < 0.8 else "" for _ in range(2)]
                texts.append((f"{script} {n} {name}", around[0] + held + around[1]))
    rng.shuffle(texts)
    return texts


def partners(found: list[tuple[str, str]]) -> set[str]:
    """The pairs of the stream among pairs of ids, by the id without its last letter."""
    return {older[:-2] for older, newer in found if older[:-2] == newer[:-2]}


def test_an_explanation_of_the_service_shows_what_is_invisible(tmp_path: Path) -> None:
    """Soft hyphens, joiners, isolates, selectors of variants and fillers are escapes in what two texts share."""
    unseen = "\u00ad\u200b\u2060\u2066\u2069\ufe0f\U000e0100\u034f\u3164"
    text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all, says its owner. "
    with world_in(tmp_path, keep_texts=True) as world:
        for id_, more in (("a", ""), ("b", f" It ends{unseen}here.")):
            assert world.check(id_, "".join(f"{letter}x" for letter in unseen) + text * 2 + more)["added"]
        answer = world.ask("GET", "/v1/why?a=a&b=b")
    assert answer.json()["passages"][0]["text"].startswith("\u00adx\u200bx")
    assert not set(unseen) & set(answer.content.decode())


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS, ids=["passages", "parts"])
def test_texts_that_share_a_run_meet_in_every_command(
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """``run``, ``batch``, the library, ``dedup``, ``decide`` and ``serve``, of five scripts and of periodic runs."""
    monkeypatch.chdir(tmp_path)
    texts = stream()
    lines = [json.dumps({"id": id_, "text": text}) for id_, text in texts]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = {id_[:-2] for id_, _ in texts}
    given = {name: str(value) for name, value in settings.items()}

    dedup = Deduplicator(Config(**settings))
    pairs = [pair[:2] for pair in dedup.process([Document(*one) for one in texts])]
    assert partners(pairs) == expected

    assert run(RunOptions(["in.jsonl"], quiet=True, output="pairs"), load(given, None)) == Exit.SUCCESS
    written = [json.loads(line) for line in (tmp_path / "pairs").read_bytes().splitlines()]
    assert [(one["older"], one["newer"]) for one in written] == pairs
    capfdbinary.readouterr()
    assert batch(BatchOptions(["in.jsonl"], quiet=True), load(given, None)) == Exit.SUCCESS
    joined = capfdbinary.readouterr().out.splitlines()
    assert sorted(map(json.loads, joined), key=str) == sorted(written, key=str)

    verdicts = Deduplicator(Config(**settings)).decide([Document(*one) for one in texts])
    related = [(one.duplicate_of or (one.relation.id if one.relation else ""), one.id) for one in verdicts]
    later = {newer for older, newer in pairs}
    assert {newer for older, newer in related if older} == later
    assert {one for one in related if one[0]} <= set(pairs)
    out = deduplicated("in.jsonl", **given)
    listed = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert [(one.get("duplicate_of") or one.get("relation_to", ""), one["id"]) for one in listed] == related

    with world_in(tmp_path / "state", **settings) as world:
        answers: list[dict[str, Any]] = []
        for first in range(0, len(lines), 100):
            content = "\n".join(lines[first : first + 100])
            headers = {"Content-Type": "application/x-ndjson"}
            response = world.ask("POST", "/v1/check:batch", content=content, headers=headers)
            answers += [json.loads(line) for line in response.content.splitlines()[:-1]]
    served = [(pair["id"], answer["id"]) for answer in answers for pair in answer["pairs"]]
    assert sorted(served) == sorted(pairs)
    assert partners(served) == expected


@pytest.mark.parametrize("scheme", ["passages", "parts"])
def test_what_texts_share_is_marked_alike_wherever_it_is_said(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The library, ``run``, ``batch``, ``dedup``, shards on topics, a check and ``/v1/why`` give the same ranges."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(9)
    quotes = [prose(rng, "az", 400) for _ in range(3)]
    texts = {}
    for n in range(12):
        said = [" ".join(word for word in rng.choice(quotes).split() if rng.random() < 0.96) for _ in range(2)]
        texts[f"d{n}"] = f"{prose(rng, 'az', 300)}\n\n{said[0]} -- {prose(rng, 'аяé'[:2], 250)} \u201c{said[1]}\u201d"
    settings = {"scheme": scheme, "threshold": 0.05}
    given = {name: str(value) for name, value in settings.items()}
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in texts.items())
    )

    documents = [Document(*one) for one in texts.items()]
    pairs = Deduplicator(Config(**settings)).process(documents)
    marks = {pair[:2]: relation_values(pair.relation) for pair in pairs}
    assert len(marks) > 40
    assert any(len(one["passages"]) > 1 for one in marks.values())

    def marks_of(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
        return {(line["older"], line["newer"]): {name: line[name] for name in MARKS} for line in lines}

    assert run(RunOptions(["in.jsonl"], quiet=True, output="pairs"), load(given, None)) == Exit.SUCCESS
    assert marks_of(map(json.loads, (tmp_path / "pairs").read_bytes().splitlines())) == marks
    capfdbinary.readouterr()
    assert batch(BatchOptions(["in.jsonl"], quiet=True), load(given, None)) == Exit.SUCCESS
    assert marks_of(map(json.loads, capfdbinary.readouterr().out.splitlines())) == marks
    named = [json.loads(line) for line in deduplicated("in.jsonl", **given)["verdicts"].splitlines()]
    named = [line | {"older": line["relation_to"], "newer": line["id"]} for line in named if "relation_to" in line]
    assert len(named) == len(texts) - 1
    assert marks_of(named).items() <= marks.items()

    bench = Bench(**settings)
    for one in texts.items():  # all into one partition, so that they arrive in their order
        bench.add(one)
    assert bench.sign(len(texts)) == Exit.SUCCESS
    assert bench.match(len(marks)) == Exit.SUCCESS
    assert marks_of(json.loads(one.value) for one in bench.cluster.records(bench.names.topics.candidates)) == marks

    with world_in(tmp_path / "state", keep_texts=True, **settings) as world:
        answers = [world.check(*one) for one in texts.items()]
        served = [pair | {"older": pair["id"], "newer": answer["id"]} for answer in answers for pair in answer["pairs"]]
        assert marks_of(served) == marks
        for (older, newer), mark in marks.items():
            why = world.ask("GET", f"/v1/why?a={newer}&b={older}").json()
            assert why["shared"] == mark
            marked = [{piece["passage"] for piece in side} - {None} for side in why["sides"]]
            # of those that overlap in a text the first one is marked
            assert {0} <= marked[0] | marked[1] <= set(range(len(mark["passages"])))


@pytest.fixture
def texts() -> dict[str, str]:
    """A report, an article that contains it in capitals, and a part of it."""
    rng = random.Random(3)
    report = prose(rng, "az", 1500)
    article = f"Straße {prose(rng, 'az', 1200)}\n\n{report.upper()} {prose(rng, 'az', 1500)}"
    return {"report": report, "article": article, "part": report[100:1300], "other": prose(rng, "az", 800)}


def test_an_answer_says_what_the_document_is_to_each_earlier_one(tmp_path: Path, texts: dict[str, str]) -> None:
    """As the newer one, also in what stands near an id; a part is a duplicate by the setting."""
    with world_in(tmp_path / "state", scheme="passages:part_min=0.8", threshold=0.3) as world:
        answers = {id_: world.check(id_, text) for id_, text in texts.items()}
        statuses = {id_: answer["status"] for id_, answer in answers.items()}
        assert statuses == {"report": "original", "article": "original", "part": "duplicate", "other": "original"}
        [pair] = answers["article"]["pairs"]
        assert (pair["id"], pair["relation"]) == ("report", "contains")
        assert pair["newer_fraction"] < 0.5 < pair["older_fraction"]
        near = world.ask("GET", "/v1/documents/report/near").json()["pairs"]
        found = {pair["id"]: pair for pair in near}
        assert found["article"]["relation"] == "part_of"
        (here,), (there,) = pair["passages"], found["article"]["passages"]
        assert (here["older"], here["newer"]) == (there["newer"], there["older"])
        parts = [pair["newer_fraction"] for pair in answers["part"]["pairs"]]
        assert answers["part"]["similarity"] == pytest.approx(max(parts))


@pytest.mark.parametrize("settings", [{"scheme": "passages", "threshold": 0.3}, {"scheme": "parts"}], ids=str)
def test_why_marks_the_passages_in_both_texts(settings: dict[str, Any], tmp_path: Path, texts: dict[str, str]) -> None:
    """Also of a document that is not added; the pieces joined are the texts, as they were given."""
    with world_in(tmp_path / "state", keep_texts=True, **settings) as world:
        for id_ in ("report", "article", "other"):
            world.check(id_, texts[id_])
        why = world.ask("GET", "/v1/why", params={"a": "article", "b": "report"}).json()
        assert (why["reason"], why["shared"]["relation"]) == ("pair", "contains")
        older, newer = why["sides"]
        assert "".join(piece["text"] for piece in older) == texts["report"]
        assert "".join(piece["text"] for piece in newer) == texts["article"]
        [marked] = [piece for piece in newer if piece["passage"] is not None]
        assert marked["exact"]
        assert marked["text"].strip() == texts["report"].upper()
        apart = world.ask("GET", "/v1/why", params={"a": "article", "b": "other"}).json()
        assert "sides" not in apart
        assert "shared" not in apart
        asked = {"id": "new", "text": texts["part"]}
        posted = world.ask("POST", "/v1/why?b=report", json=asked).json()
        assert [piece["text"] for piece in posted["sides"][1] if piece["passage"] == 0] == [texts["part"].strip()]


def test_templates_are_left_out_of_the_answers(tmp_path: Path) -> None:
    """Two pages of one menu are no pair with the list, and are without it."""
    rng = random.Random(4)
    menu = prose(rng, "az", 1200)
    pages = {id_: f"{menu} {prose(rng, 'az', 900)}" for id_ in ("a", "b")}
    (tmp_path / "list.jsonl").write_text(json.dumps({"text": menu}) + "\n")
    for path, count in ((None, 1), (tmp_path / "list.jsonl", 0)):
        settings = {} if path is None else {"scheme_options": {"templates": str(path)}}
        with world_in(tmp_path / f"state{count}", scheme="passages", threshold=0.3, **settings) as world:
            found = [world.check(id_, text)["pairs"] for id_, text in pages.items()]
            assert list(map(len, found)) == [0, count]
