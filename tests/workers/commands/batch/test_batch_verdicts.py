"""``neardup batch --verdicts`` applies the rule of verdicts to a corpus at rest, in an order of preference."""

from __future__ import annotations

import json
import random

import pytest
from cases import CASES
from command import WORDS
from dedup_outputs import deduplicated
from quick_parameters import quick_first
from scheme_streams import brought

from neardup import Config, Deduplicator, Document
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run

TEXT = f"{WORDS}; " * 5
SCHEMES = [
    "one_permutation chars", "tokens", "prefix chars", "identical", "passages", "vectors cosine", "vectors dot", "grid",
    "new words, exact",
]  # fmt: skip


def lines(*documents):
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def doc(id_, text=TEXT, **more):
    return {"id": id_, "text": text, **more}


@pytest.fixture
def decided(tmp_path, monkeypatch, capsysbinary):
    """Run the command in this process; return the verdicts, one for each document in order."""
    monkeypatch.chdir(tmp_path)

    def run_batch(*paths, prefer=None, output=None, annotate=False, **settings):
        options = BatchOptions(
            paths,
            quiet=True,
            summary_json="summary",
            verdicts="verdicts",
            prefer=prefer,
            output=output,
            annotate=annotate,
        )
        assert run(options, load(settings, None)) == Exit.SUCCESS
        return [json.loads(line) for line in (tmp_path / "verdicts").read_bytes().splitlines()]

    return run_batch


@pytest.mark.long
def test_the_preferred_document_of_a_cluster_is_its_original(decided, tmp_path):
    """The best copy comes last here. By default the first is kept, else the longest, or the highest rank."""
    documents = [doc("a", rank=1), doc("b", TEXT + "!", rank=3), doc("c", TEXT + "?!", rank=2), doc("d", "alone")]
    (tmp_path / "in.jsonl").write_bytes(lines(*documents))
    expected = {None: "a", "first": "a", "longest": "c", "rank": "b"}
    for prefer, kept in expected.items():
        found = decided("in.jsonl", prefer=prefer)
        assert [v["id"] for v in found if v["status"] == "original"] == sorted([kept, "d"])
        assert {v["duplicate_of"] for v in found if v["status"] == "duplicate"} == {kept}
        assert {v["cluster"] for v in found[:3]} == {"abc".index(kept)}
        summary = json.loads((tmp_path / "summary").read_bytes())
        assert (summary["kept"], summary["duplicates"], summary["pairs"]) == (2, 2, 3)
        assert summary["largest_clusters"] == [{"id": kept, "size": 3, "cluster": "abc".index(kept)}]


@pytest.mark.parametrize("name", quick_first(SCHEMES, 4))
def test_in_order_of_arrival_the_verdicts_equal_those_of_dedup(decided, tmp_path, name):
    """Every kind of scheme has the same rule, with copies and refused documents.

    A batch decides without the texts, so it names no new words.
    """
    case = CASES[name]
    documents = case.stream(random.Random(5), 150)
    made = [{"id": d.id, "text": d.text, **brought(d)} for d in documents]
    (tmp_path / "in.jsonl").write_bytes(lines(*made))
    settings = {**case.settings, "bucket_candidates_max": 1000}
    out = deduplicated("in.jsonl", folder=tmp_path, **settings)
    expected = [json.loads(line) for line in out["verdicts"].splitlines()]
    without_words = [{name: value for name, value in one.items() if name != "new"} for one in expected]
    assert decided("in.jsonl", prefer="first", **settings) == without_words
    assert {v["status"] for v in expected} >= {"original", "duplicate"}


@pytest.mark.parametrize("prefer", ["first", "longest"])
def test_no_document_is_dropped_without_an_original_that_it_was_compared_with(decided, tmp_path, prefer, capsysbinary):
    """In any order, with versions and copies: a document and the version that it matched are a written pair, or have
    equal contents, or the story has lasted longer than the window, and the two alone are a pair."""
    made = [d for d in CASES["prefix chars"].stream(random.Random(9), 300, versions=0.2) if d.text.strip(" \n\ud800")]
    timed = [{"id": d.id, "text": d.text, "timestamp": 60 * n} for n, d in enumerate(made)]
    (tmp_path / "in.jsonl").write_bytes(lines(*timed))
    found = decided("in.jsonl", prefer=prefer, scheme="prefix", threshold=0.6, window_seconds=6000)
    pairs = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    texts = {d.id: set() for d in made}
    for d in made:
        texts[d.id].add(d.text)
    compared = {frozenset((x, y)) for p in pairs for x in texts[p["older"]] for y in texts[p["newer"]]}
    statuses = {v["place"]: v["status"] for v in found}
    for d, v in zip(made, found, strict=True):
        if v["status"] == "duplicate":
            matched = made[v["matched"]]
            assert statuses[v["cluster"]] == "original"
            assert statuses[v["matched"]] in ("original", "update", "unchanged")
            assert v["similarity"] >= 0.6
            assert prefer == "first" or len(made[v["cluster"]].text) >= len(d.text)
            if abs(v["place"] - v["matched"]) > 100 and d.text != matched.text:
                alone = Deduplicator(Config(scheme="prefix", threshold=0.6))
                assert len(alone.process([Document("d", d.text), Document("m", matched.text)])) == 1
            else:
                assert d.text == matched.text or frozenset((d.text, matched.text)) in compared
    assert {"original", "duplicate"} <= set(statuses.values())


@pytest.mark.long
def test_in_order_of_arrival_the_annotated_lines_are_those_of_dedup(decided, tmp_path):
    """Objects, rows of a table and copies, each with its verdict; refused lines are left out, more than a block."""
    many = [doc(f"d{n}", f"{n % 700} {n % 700 * 7919} " * 30) for n in range(5000)]
    (tmp_path / "a.jsonl").write_bytes(lines({"id": 7}, *many, {"text": ""}))
    (tmp_path / "b.csv").write_bytes(b"id,text\r\nx,one two three four\r\n,none\r\ny,one two three four")
    out = deduplicated("a.jsonl", "b.csv", folder=tmp_path, annotate=True)
    decided("a.jsonl", "b.csv", output="all", annotate=True)
    assert (tmp_path / "all").read_bytes() == out["kept"]
    assert out["kept"].count(b"\n") == 5003
    assert [out["kept"].count(mark) for mark in (b'"duplicate"', b'""duplicate""')] == [4301, 1]


def test_an_annotated_line_has_the_verdict_by_the_preference(decided, tmp_path):
    """The original comes after its duplicate here."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a", rank=1), {"id": 3}, doc("b", TEXT + "!", rank=3)))
    found = decided("in.jsonl", prefer="rank", output="all", annotate=True)
    written = [json.loads(line)["neardup"] for line in (tmp_path / "all").read_bytes().splitlines()]
    assert written == [found[0], found[2]]
    assert [verdict["status"] for verdict in written] == ["duplicate", "original"]


def test_what_cannot_be_decided_ends_with_a_sentence(decided, tmp_path):
    """A field without numbers, a preference without verdicts, verdicts of candidates; an empty input succeeds."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a"), {"id": 3}))
    with pytest.raises(Failure, match="--prefer rank: no document has a number there"):
        decided("in.jsonl", prefer="rank")
    for options, sentence in (
        ({"prefer": "first"}, "add --verdicts FILE"),
        ({"verdicts": "x", "annotate": True}, "add --output FILE"),
        ({"verdicts": "x", "candidates": True}, "leave out --top and --candidates"),
    ):
        with pytest.raises(Failure, match=sentence):
            run(BatchOptions(["in.jsonl"], quiet=True, **options), load({}, None))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert decided("empty.jsonl") == []


@pytest.mark.long
def test_an_output_that_loses_a_source_is_refused(tmp_path, monkeypatch, capsysbinary):
    """199 of 200 documents repeat their source: its name is in the error, also with --prefer; --allow-loss writes."""
    monkeypatch.chdir(tmp_path)
    repeated = [doc(f"a{n}", source="A", length=n, timestamp=n * 86_400) for n in range(200)]
    copies = [doc(f"b{n}", f"Other words. {TEXT[:40]}", source=f"b{n}") for n in range(300)]
    (tmp_path / "in.jsonl").write_bytes(lines(*repeated, *copies))
    for prefer in ("first", "length"):
        options = BatchOptions(["in.jsonl"], quiet=True, prefer=prefer, output="kept", verdicts="verdicts")
        with pytest.raises(Failure, match=r"199 of 200 documents of 'a' are duplicates of one text") as failed:
            run(options, load({}, None))
        assert failed.value.code == Exit.REFUSED
        assert not (tmp_path / "kept").exists()
        assert len((tmp_path / "verdicts").read_bytes().splitlines()) == 500
    options = BatchOptions(["in.jsonl"], quiet=True, output="kept", allow_loss=True)
    assert run(options, load({}, None)) == Exit.SUCCESS
    assert len((tmp_path / "kept").read_bytes().splitlines()) == 2
    with pytest.raises(Failure, match="--allow-loss is about"):
        run(BatchOptions(["in.jsonl"], quiet=True, allow_loss=True), load({}, None))
