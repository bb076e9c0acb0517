"""Collections in files: one run over several equals one run for each, by every command."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup import Config, Deduplicator
from neardup_workers.doing.audit.measuring import audit
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.documents import BatchOptions, DedupOptions, RunOptions
from neardup_workers.outside.options.judging import AuditOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load
from neardup_workers.outside.topics.names import names_of
from neardup_workers.running.commands.batch.corpus import run as batch
from neardup_workers.running.commands.dedup.command import run as dedup
from neardup_workers.running.commands.run import run

Line = dict[str, Any]
NAMES = ("ar", 7, None)
PLACES = "cluster", "related", "previous", "matched"


def stream() -> list[Line]:
    """The same lines in each collection, in an order of its own: copies, edited ones, versions, one without text."""
    rng = random.Random(4)
    words = [f"word{n}" for n in range(400)]
    texts = [rng.sample(words, 40) for _ in range(12)]
    documents = [
        {"id": f"d{rng.randrange(40)}", "text": " ".join(rng.choice(texts)[rng.randrange(4) :])} for _ in range(50)
    ]
    documents.append({"id": "e", "text": " "})
    lines = [{**one, "lang": name} for name in NAMES for one in rng.sample(documents, len(documents))]
    rng.shuffle(lines)
    return [{**line, "timestamp": 60 * n} for n, line in enumerate(lines)]


def written(path: Path, lines: list[Line]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of(name: object, lines: list[Line], key: str) -> list[Line]:
    """The lines of a collection, without it."""
    wanted = None if name is None else str(name)
    own = (line for line in lines if (None if line.get(key) is None else str(line[key])) == wanted)
    return [{k: value for k, value in line.items() if k != key} for line in own]


@pytest.mark.long
@pytest.mark.parametrize("command", ["run", "batch"])
def test_pairs_are_those_of_each_collection(tmp_path: Path, capfdbinary: Any, command: str) -> None:
    """Each line of a pair names its collection; a whole number is its digits, and null none."""

    def pairs(lines: list[Line], **settings: object) -> list[Line]:
        path, known = written(tmp_path / "in.jsonl", lines), load({"window_seconds": 3600, **settings}, None)
        if command == "run":
            run(RunOptions([path], quiet=True), known)
        else:
            batch(BatchOptions([path], quiet=True), known)
        return sorted(map(json.loads, capfdbinary.readouterr().out.splitlines()), key=str)

    lines = stream()
    found = pairs(lines, fields=("collection=lang",))
    for name in NAMES:
        own = pairs(of(name, lines, "lang"))
        assert own
        assert of(name, found, "collection") == own


@pytest.mark.long
@pytest.mark.parametrize("command", ["dedup", "batch"])
def test_verdicts_are_those_of_each_collection(tmp_path: Path, capfdbinary: Any, command: str) -> None:
    """Also of versions with the same id, and of what is refused; clusters and kept lines follow."""

    def outputs(lines: list[Line], **settings: object) -> tuple[list[Line], list[Line], list[Line]]:
        path, known = written(tmp_path / "in.jsonl", lines), load(settings, None)
        kept, said, clusters = (tmp_path / name for name in ("kept.jsonl", "verdicts", "clusters"))
        clusters.write_bytes(b"")
        if command == "dedup":
            dedup(DedupOptions([path], quiet=True, output=str(kept), verdicts=str(said), clusters=str(clusters)), known)
        else:
            batch(BatchOptions([path], quiet=True, output=str(kept), verdicts=str(said), allow_loss=True), known)
        capfdbinary.readouterr()
        return read(kept), read(said), read(clusters)

    lines = stream()
    kept, said, clusters = outputs(lines, fields=("collection=lang",))
    for name in NAMES:
        own_kept, own_said, own_clusters = outputs(of(name, lines, "lang"))
        place = [n for n, line in enumerate(lines) if line["lang"] == name]
        assert of(name, kept, "lang") == own_kept
        assert of(name, clusters, "collection") == [
            {
                **one,
                "cluster": place[one["cluster"]],
                "representative": {**one["representative"], "place": place[one["representative"]["place"]]},
                "members": [{**member, "place": place[member["place"]]} for member in one["members"]],
            }
            for one in own_clusters
        ]
        for one in own_said:
            one |= {key: place[one[key]] for key in PLACES if key in one} | {"place": place[one["place"]]}
            one["line"] = one["place"] + 1
        assert of(name, said, "collection") == own_said


@pytest.mark.parametrize("kind", ["pairs", "verdicts"])
def test_an_audit_compares_within_collections(tmp_path: Path, kind: str) -> None:
    """A neighbour in another collection is none, so nothing is missing."""
    lines = [
        {"id": "a", "text": "The ferry to the island sails again on Friday." + " x" * n, "lang": str(n)} for n in (0, 1)
    ]
    lines += [{**line, "text": line["text"] + "!", "id": "b"} for line in lines]
    path, output = written(tmp_path / "in.jsonl", lines), str(tmp_path / "out")
    settings = load({"fields": ("collection=lang",), "threshold": 0.7}, None)
    if kind == "pairs":
        run(RunOptions([path], quiet=True, output=output), settings)
        found = audit(AuditOptions([path], pairs=output), settings)
    else:
        dedup(DedupOptions([path], quiet=True, output=str(tmp_path / "kept"), verdicts=output), settings)
        found = audit(AuditOptions([path], verdicts=output), settings)
    assert (found.units, found.recall.value, found.misses) == (2, 1.0, [])
    assert not found.left_out


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_of_tables_have_collections(tmp_path: Path, capfdbinary: Any, kind: str) -> None:
    """Rows of Parquet, and tables that the library is given, are decided as lines of JSON are."""
    pa = pytest.importorskip("pyarrow")
    lines = [{**line, "lang": None if line["lang"] is None else str(line["lang"])} for line in stream()]
    table = pa.Table.from_pylist(lines)
    wanted = Deduplicator(Config(collection_field="lang"))
    dedup(
        DedupOptions(
            [written(tmp_path / "in.jsonl", lines)], quiet=True, output=str(tmp_path / "kept"),
            verdicts=str(tmp_path / "wanted"),
        ),
        load({"fields": ("collection=lang",)}, None),
    )  # fmt: skip
    statuses = [line["status"] for line in read(tmp_path / "wanted")]
    if kind == "arrow":
        found = wanted.decide_table(table).to_pylist()
        pairs = Deduplicator(Config(collection_field="lang")).process_table(table).to_pylist()
        assert {pair["collection"] for pair in pairs} == {"ar", "7", None}
    else:
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "in.parquet")
        names = {"output": str(tmp_path / "kept"), "verdicts": str(tmp_path / "found")}
        options = DedupOptions([str(tmp_path / "in.parquet")], quiet=True, **names)
        dedup(options, load({"fields": ("collection=lang",)}, None))
        found = read(tmp_path / "found")
        assert [line.get("collection") for line in found] == [line["lang"] for line in lines]
    assert [line["status"] for line in found] == statuses


def test_load_keys_a_document_by_its_collection_and_keeps_who_tells_it(tmp_path: Path) -> None:
    """A line is sent as it is; of a page in a field, what is sent has its collection, source, URL and title, too."""
    named = {"source": "wire", "url": "https://a.example/1", "title": "One"}
    lines = [{"id": f"d{n}", "lang": name, "page": "<p>one two three</p>", "text": "x", **named}
             for n, name in enumerate(NAMES)]  # fmt: skip
    for parts in ([], ["html=page"]):
        settings = StreamSettings(fields=("collection=lang", *parts), html="raw")
        cluster, topic = MemoryCluster(), names_of(settings).topics.documents
        cluster.create(topic, 1)
        path = written(tmp_path / "in.jsonl", lines)
        with Session(settings, SessionOptions([path], quiet=True), prints=False, sources=True) as session:
            Loader(MemoryTransport(cluster), settings, session).load([path])
        records = cluster.records(topic)
        assert [record.key for record in records] == [b"ar\x1fd0", b"7\x1fd1", b"d2"]
        sent = [json.loads(record.value or b"") for record in records]
        assert sent == lines if not parts else [
            {"id": line["id"], "text": line["page"], **named} | ({"lang": str(line["lang"])} if line["lang"] else {})
            for line in lines
        ]  # fmt: skip


def test_a_collection_that_is_no_name_is_refused(tmp_path: Path) -> None:
    """A list is no collection; the reason names the field's rule."""
    path = written(tmp_path / "in.jsonl", [{"id": "a", "text": "one two three four", "lang": ["x"]}])
    dedup(
        DedupOptions([path], quiet=True, output=str(tmp_path / "kept"), verdicts=str(tmp_path / "said")),
        load({"fields": ("collection=lang",)}, None),
    )
    assert [line["reason"] for line in read(tmp_path / "said")] == ["collection"]


def test_across_writes_only_pairs_of_different_collections(tmp_path: Path) -> None:
    """A line names the collection of both documents, which may have one id; pairs within a collection are left out, and
    the other output of the same file has no pair that these have."""
    text = "The ferry leaves at seven in the morning from the old pier of the harbour"
    lines = [
        {"id": "1", "list": "ar", "text": text}, {"id": "2", "list": "ar", "text": text + "."},
        {"id": "1", "list": 7, "text": text + "!"}, {"id": "3", "text": "Nothing of all this is said here."},
    ]  # fmt: skip
    path, output = written(tmp_path / "both.jsonl", lines), tmp_path / "pairs.jsonl"
    options = RunOptions([path], across=True, output=str(output), quiet=True)
    run(options, load({"fields": ("collection=list",)}))
    pairs = {(p["older_collection"], p["older"], p["collection"], p["newer"]): p["similarity"] for p in read(output)}
    assert pairs.keys() == {("ar", "1", "7", "1"), ("ar", "2", "7", "1")}
    assert all(0.8 < similarity < 1 for similarity in pairs.values())
    run(RunOptions([path], output=str(output), quiet=True), load({"fields": ("collection=list",)}))
    assert [(p["older"], p["newer"], p["collection"]) for p in read(output)] == [("1", "2", "ar")]


@pytest.mark.parametrize("given", [{"top": 3}, {"keep": "window"}, {"window_from": "window"}])
def test_across_is_refused_with_what_looks_within_collections(tmp_path: Path, given: dict[str, Any]) -> None:
    """Ranks and windows in files; without a field of collections the setting is named."""
    path = written(tmp_path / "one.jsonl", [{"id": "1", "text": "a text"}])
    (name,) = given
    with pytest.raises(Failure, match=f"--{name.replace('_', '-')} looks within collections, and --across across"):
        run(RunOptions([path], across=True, **given), load({"fields": ("collection=list",)}))
    with pytest.raises(Failure, match="give --fields collection=NAME"):
        run(RunOptions([path], across=True), load({}))
