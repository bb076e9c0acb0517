"""The schemas of ``docs/schemas`` accept what the program reads and writes, and refuse what it refuses."""

from __future__ import annotations

import json

import pytest
from command import ROOT
from jsonschema import Draft202012Validator
from shell_harness import TEXT, Bench

from neardup.pairs.json_lines import Fields, decode_document
from neardup_workers.outside.topics.dead import Letter, Notice, encode_notice, parse_letter
from neardup_workers.outside.topics.messages import encode_dead
from neardup_workers.outside.transport.protocol import Record, RefusedBatch

FOLDER = ROOT / "docs" / "schemas"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def validator(name):
    return Draft202012Validator(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_listed(name):
    """The table of the folder lists it, and the standard defines each of its properties."""
    found = validator(name)
    found.check_schema(found.schema)
    assert f"({name}.json)" in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("preset", [[], ["--preset", "quotes"]])
def test_pairs_of_a_run_match_the_schema(neardup, preset):
    """Near-duplicates and copies, and what texts share."""
    done = neardup("run", "--quiet", ROOT / "docs" / "examples" / "news.jsonl", *preset)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        validator("pair").validate(json.loads(line))


def test_lines_with_collections_match_the_schemas(neardup, tmp_path):
    """Pairs within a collection and across two, verdicts and clusters."""
    rows = [{"id": str(n), "text": TEXT, "of": f"c{n % 2}"} for n in range(4)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("in.jsonl", "--quiet", "--fields", "collection=of")
    found = {"pair": [], "verdict": [], "cluster": []}
    for more in ([], ["--across"]):
        found["pair"] += neardup("run", *given, *more).stdout.splitlines()
    neardup("dedup", *given, "--verdicts", "v", "--clusters", "c", "-o", "kept")
    found["verdict"] = (tmp_path / "v").read_bytes().splitlines()
    found["cluster"] = (tmp_path / "c").read_bytes().splitlines()
    for name, lines in found.items():
        parsed = [json.loads(line) for line in lines]
        assert {line["collection"] for line in parsed} == {"c0", "c1"}
        for line in parsed:
            validator(name).validate(line)
    assert any("older_collection" in json.loads(line) for line in found["pair"])


def test_verdicts_and_clusters_match_the_schemas(neardup, tmp_path):
    """Verdicts of every status, as separate lines and as a key of a removed line."""
    news = (ROOT / "docs" / "examples" / "news.jsonl").read_bytes()
    (tmp_path / "in.jsonl").write_bytes(news + news.splitlines(keepends=True)[1])
    neardup("dedup", "--quiet", "in.jsonl", "--verdicts", "v", "--clusters", "c", "--removed", "r", "-o", "kept")
    verdicts = [json.loads(line) for line in (tmp_path / "v").read_bytes().splitlines()]
    removed = [json.loads(line)["neardup"] for line in (tmp_path / "r").read_bytes().splitlines()]
    assert {verdict["status"] for verdict in verdicts} == {"original", "duplicate", "unchanged", "refused"}
    assert len(removed) == 3
    for verdict in (*verdicts, *removed):
        validator("verdict").validate(verdict)
    (cluster,) = map(json.loads, (tmp_path / "c").read_bytes().splitlines())
    validator("cluster").validate(cluster)


def test_messages_of_the_topics_match_the_schemas():
    """Workers write pairs, a removal and a dead letter."""
    bench = Bench()
    bench.add(("a", TEXT), ("b", TEXT + " again"), ("c", TEXT), ("d", 7))
    bench.cluster.append(bench.names.topics.documents, 0, None, b"a")
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    bench.run("match", lambda: bench.has_taken_all("match"))
    values = [json.loads(record.value) for record in bench.cluster.records(bench.names.topics.candidates)]
    pairs = [value for value in values if "older" in value]
    removals = [value for value in values if "removed" in value]
    assert len(pairs) >= 2
    assert removals
    for value in pairs:
        validator("candidate").validate(value)
    for value in removals:
        validator("removal").validate(value)
    letters = [json.loads(record.value) for record in bench.cluster.records(bench.names.topics.dead)]
    assert [letter["reason"] for letter in letters] == ["text_type"]
    validator("dead_letter").validate(letters[0])


def test_the_letter_of_a_refused_batch_matches_the_schema():
    """One letter represents several messages."""
    letter = encode_dead(Record(1, 9, 0, None, None, RefusedBatch(4, 1000)), "documents", "batch_too_large")
    validator("dead_letter").validate(json.loads(letter))
    read = parse_letter(Record(2, 7, 0, None, letter))
    assert isinstance(read, Letter)
    notice = json.loads(encode_notice(read))
    validator("replay_notice").validate(notice)
    assert notice["replayed"] == "2-7"
    assert parse_letter(Record(2, 8, 0, None, encode_notice(read))) == Notice("2-7")


DOCUMENTS = [
    ("text", {"id": "a", "text": "a text", "timestamp": "2024-03-04T06:00:00Z"}, True),
    ("text", {"id": 7, "text": "", "timestamp": 1.5, "more": [1]}, True),
    ("text", {"id": "a", "text": 7}, False),
    ("text", {"id": ["a"], "text": "a text"}, False),
    ("tokens", {"id": "a", "tokens": ["x", 7]}, True),
    ("tokens", {"id": "a", "tokens": {"x": 4.5}}, True),
    ("tokens", {"id": "a", "tokens": [[1]]}, False),
    ("vector", {"id": "a", "vector": [1, 0.5]}, True),
    ("vector", {"id": "a", "vector": "AACAPw=="}, True),
    ("vector", {"id": "a", "vector": {"x": 1}}, False),
    ("record", {"id": "a", "name": "Anna", "born": 1971}, True),
    ("record_signals", {"id": "a", "text": "a text", "title": "A title", "price": 99}, True),
]


@pytest.mark.parametrize(("kind", "value", "is_read"), DOCUMENTS, ids=[json.dumps(value) for _, value, _ in DOCUMENTS])
def test_a_document_is_read_if_and_only_if_the_schema_accepts_it(kind, value, is_read):
    """The test uses the schema of the document's kind."""
    found = decode_document(json.dumps(value).encode(), Fields(kind=kind))
    assert isinstance(found, str) != is_read
    assert validator("document").is_valid(value) == is_read
