"""Formats of content: how the program recognises each, and that a new format needs one row of the table."""

import gzip
import json
import subprocess
import sys
import tarfile

import pytest
from command import WORDS, clean_environment
from memory_transport import MemoryTransport
from read_entries import found
from shell_harness import Bench

from neardup.documents.document import REASONS, Document
from neardup.pairs.json_lines import KINDS, Fields
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.formats import FORMATS, UNSUPPORTED, Format, choose
from neardup_workers.outside.readers.lines import Line, split_lines
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading

TEXT = f"{WORDS}; " * 5
OBJECTS = [{"id": "a", "text": "t"}, {"id": "b", "text": "u"}]
DOCUMENTS = [Document("a", "t"), Document("b", "u")]
LINES = b"".join(json.dumps(one).encode() + b"\n" for one in OBJECTS)
# A format that only this test knows: "id|text" on each line.
BARS = """
import json
from neardup_workers.outside.readers.formats import FORMATS, Format
from neardup_workers.outside.readers.lines import split_lines

def read(blocks, fields, bytes_max):
    for line in split_lines(blocks, bytes_max):
        id_, _, text = line.raw.decode().partition("|")
        yield line._replace(raw=json.dumps({fields.id: id_, fields.text: text}).encode())

FORMATS["bars"] = Format((".bars",), read, ("text",), lambda head, needed, in_folder: head.startswith(b"#bars"))
"""


@pytest.fixture
def with_bars(tmp_path):
    """Run the command line in a process where the table has one more row."""

    def run(*arguments):
        code = f"{BARS}\nfrom neardup_workers.running.cli.app import main\nraise SystemExit(main())"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, cwd=tmp_path, env=clean_environment(), check=False)

    return run


@pytest.mark.processes
def test_a_new_row_of_the_table_is_read_by_every_command(with_bars, tmp_path):
    """Its ending, its content and ``--input-format`` select the format; only the row is new."""
    (tmp_path / "in.bars").write_text(f"a|{TEXT}\nb|{TEXT}\n")
    pair = {"older": "a", "newer": "b", "similarity": 1.0}
    for command in ("run", "batch"):
        done = with_bars(command, "in.bars", "--quiet")
        assert [json.loads(line).items() >= pair.items() for line in done.stdout.splitlines()] == [True], done.stderr
    assert json.loads(with_bars("probe", "--index", "in.bars", "in.bars", "-q").stdout.splitlines()[0])
    assert b"2 documents, 0 refused" in with_bars("learn-order", "in.bars", "--output", "order.npy").stderr
    assert b"documents" in with_bars("tune", "--sample", "in.bars").stdout
    refused = with_bars("run", "--input-format", "bar").stderr
    assert f"must be one of auto, {', '.join(FORMATS)}, bars" in refused.decode()


def test_a_new_row_of_the_table_is_loaded_to_kafka(monkeypatch, tmp_path):
    """Load sends the objects that the lines become."""

    def read(blocks, fields, bytes_max):
        for line in split_lines(blocks, bytes_max):
            yield line._replace(raw=b'{"id":"%d","text":"%s"}' % (line.number, line.raw))

    monkeypatch.setitem(FORMATS, "plain", Format((), read, ("text",), lambda head, needed, in_folder: head[:1] == b"#"))
    (tmp_path / "in").write_bytes(b"#one\n#two\n")
    bench = Bench()
    session = Session(bench.settings, SessionOptions([], quiet=True))
    Loader(MemoryTransport(bench.cluster), bench.settings, session).load([str(tmp_path / "in")])
    assert sorted(record.value for record in bench.cluster.records(bench.names.topics.documents)) == [
        b'{"id":"1","text":"#one"}', b'{"id":"2","text":"#two"}',
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["news.json", "news.jsonl.1", "news", "news.txt", "news.jsonl"])
@pytest.mark.parametrize("content", [LINES, json.dumps(OBJECTS).encode(), json.dumps(OBJECTS, indent=1).encode()])
def test_json_lines_and_arrays_are_documents_for_any_name(tmp_path, name, content):
    """Both for a named file and in a folder."""
    assert found(tmp_path / name, content) == DOCUMENTS
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    assert [entry.found for entry in reader.read([str(tmp_path)])] == DOCUMENTS


def test_a_folder_of_json_files_without_the_field_stays_a_folder_of_files(tmp_path):
    """For example package.json. A named file with an array or lines of objects is read; its refusals give reasons."""
    contents = {
        "package.json": b'{\n "name": "x",\n "scripts": {\n  "text": "y"\n }\n}\n',
        "array.json": b'[{"name": "x"}]',
        "lines.json": b'{"name": "x"}\n{"name": "y"}\n',
        "numbers.json": b"[1, 2]",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    files = [entry.found for entry in reader.read([str(tmp_path)])]
    whole = {name: Document(str(tmp_path / name), contents[name].decode()) for name in contents}
    assert files == [whole["array.json"], "lines_other", whole["numbers.json"], whole["package.json"]]
    assert found(tmp_path / "array.json", contents["array.json"]) == ["no_text"]
    assert found(tmp_path / "lines.json", contents["lines.json"]) == ["no_text"] * 2
    assert [type(one) for one in found(tmp_path / "package.json", contents["package.json"])] == [Document]


def test_a_first_line_longer_than_a_block_is_recognised_all_the_same(tmp_path):
    """The name of the field in its first block identifies it."""
    long = {"id": "a", "text": "x" * 1_000_000}
    assert found(tmp_path / "a.json", json.dumps(long).encode()) == [Document("a", long["text"])]
    assert found(tmp_path / "b.json", json.dumps([long, long]).encode()) == [Document("a", long["text"])] * 2


@pytest.mark.parametrize(
    ("fields", "table", "documents"),
    [
        (Fields(), b"id,text\na,t\nb,u\n", DOCUMENTS),
        (Fields(text="body", id="key"), b"key\tbody\na\tt\nb\tu\n", DOCUMENTS),
        (Fields(kind="tokens"), b'id,tokens\na,"[""x"", 2]"\n', [Document("a", tokens=["x", 2])]),
        (Fields(kind="vector"), b'id,vector\na,"[1, 0.5]"\n', [Document("a", vector=[1, 0.5])]),
        (Fields(kind="record"), b"id,name\na,Ann\n", [Document("a", fields={"name": "Ann"})]),
    ],
)
def test_a_table_is_read_for_every_scheme(tmp_path, fields, table, documents):
    """A cell holds tokens or a vector as JSON."""
    name = "in.tsv" if b"\t" in table else "in.csv"
    assert found(tmp_path / name, table, fields) == documents


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_format_that_is_not_supported_is_refused_by_name_with_the_remedy(tmp_path, name):
    """Its ending or content identifies it; ``--input-format documents`` still reads it as a text."""
    row = UNSUPPORTED[name]
    for ending in row.endings:
        assert found(tmp_path / f"in{ending}", b"something") == [f"format_{name}"]
    sentence = FILE_REASONS[f"format_{name}"]
    assert name.upper() in sentence
    assert row.remedy in sentence
    begins = {"arc": b"filedesc://crawl.arc 0.0.0.0", "pdf": b"%PDF-1.7",
              "json-seq": b'\x1e{"id":"a","text":"t"}\n',
              "utf-32": '{"id":"a"}'.encode("utf-32"),
              "zip": b"PK\x03\x04", "bzip2": b"BZh9", "xz": b"\xfd7zXZ\0",
              "tar": b"in.jsonl".ljust(257, b"\0") + b"ustar\0" + b'00{"id":"a","text":"t"}\n' * 2}[name]  # fmt: skip
    assert found(tmp_path / "in.dat", begins) == [f"format_{name}"]
    if b"\0" not in begins:
        assert found(tmp_path / "in.dat", begins, input_format="documents") == [
            Document(str(tmp_path / "in.dat"), begins.decode())
        ]


@pytest.mark.parametrize("name", ["in.tar", "in.tar.gz", "in.dat"])
def test_an_archive_of_files_of_lines_is_not_read_as_lines(tmp_path, name):
    """The first document of each file stands behind a header there, and would be lost."""
    (tmp_path / "in.jsonl").write_bytes(b'{"id":"a","text":"one"}\n{"id":"b","text":"two"}\n')
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith(".gz") else "w") as archive:
        archive.add(tmp_path / "in.jsonl", "in.jsonl")
    assert found(tmp_path / name, (tmp_path / name).read_bytes()) == ["format_tar"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_json_in_utf_16_is_read_without_a_mark_too(tmp_path, encoding):
    """Lines and arrays: the zero byte next to the first bracket says which it is."""
    for number, content in enumerate(('{"id": "ä", "text": "one 𝄞"}\n' * 2, '[{"id": "ä", "text": "one 𝄞"}]\n')):
        path = tmp_path / f"in{number}.json"
        assert set(found(path, content.encode(encoding))) == {Document("ä", "one 𝄞")}


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("between", ["", "\n"])
def test_objects_over_several_lines_are_documents(tmp_path, indent, between):
    """One, or several as jq writes them; behind a mark, in a folder and from a pipe, and longer than a block."""
    long = [*OBJECTS, {"id": "c", "note": {"text": "v"}, "text": "x" * 3_000_000}]
    for count, rows in ((1, OBJECTS[:1]), (2, OBJECTS), (3, long[::-1])):
        content = "\ufeff" + between.join(json.dumps(one, indent=indent) for one in rows) + "\n"
        (tmp_path / f"{count}").mkdir()
        path = tmp_path / f"{count}" / "in.json"
        wanted = [Document(one["id"], one["text"]) for one in rows]
        if not (indent is None and count == 3):
            assert found(path, content.encode()) == wanted
            reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
            assert [entry.found for entry in reader.read([str(path.parent)])] == wanted
    head = json.dumps(OBJECTS[0], indent=1).encode()
    assert choose("-", head, Fields(), is_stream=True) is FORMATS["array"]
    assert choose("in", head, Fields(kind="record")) is FORMATS["array"]


def test_objects_over_several_lines_without_the_field_are_refused_one_by_one(tmp_path):
    """Not compared as one text; one object alone may be any file."""
    two = "".join(json.dumps({"name": name}, indent=1) for name in "ab").encode()
    assert found(tmp_path / "in.json", two) == ["no_text"] * 2
    cut = json.dumps(OBJECTS[0], indent=1).encode()[:-2]
    assert found(tmp_path / "cut.json", cut) == ["array_damaged"]


@pytest.mark.parametrize("name", ["in", "in.txt", "in.gz", "in.zst"])
def test_a_named_file_without_content_holds_no_document(tmp_path, name):
    """As an empty pipe; in a folder it is a file that was found empty."""
    assert found(tmp_path / name, gzip.compress(b"") if name == "in.gz" else b"") == []
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    assert [entry.found for entry in reader.read([str(tmp_path)])] == [Document(str(tmp_path / name), "")]


def test_a_stream_is_lines_unless_it_begins_as_something_else():
    """Standard input has no name that could decide."""
    chosen = {content: choose("-", content, Fields(), is_stream=True) for content in (b"", b"text", b'[{"id":1}]')}
    assert list(chosen.values()) == [FORMATS["lines"], FORMATS["lines"], FORMATS["array"]]
    begins = {"html": b"<!-- x -->\n<!DOCTYPE html>", "warc": b"WARC/1.0\r\n"}
    assert {name: choose("-", head, Fields(), is_stream=True) for name, head in begins.items()} == {
        name: FORMATS[name] for name in begins
    }
    assert choose("-", b"%PDF-1.7", Fields(), is_stream=True) == "format_pdf"


def test_every_row_names_known_kinds_and_every_reason_has_a_sentence():
    """The reasons of files differ from the reasons of the library."""
    for row in FORMATS.values():
        assert set(row.kinds) <= KINDS.keys()
    assert not REASONS.keys() & FILE_REASONS.keys()


def test_a_line_without_an_id_is_named_by_its_place(tmp_path):
    """The line's own id has priority; a whole number becomes its digits; without ``line_ids`` the line is refused."""
    content = b'{"text":"t"}\n{"id":null,"text":"t"}\n{"id":7,"text":"t"}\n{"id":"x","text":"t"}\n'
    path = tmp_path / "in.jsonl"
    ids = [document.id for document in found(path, content)]
    assert ids == [f"{path}:1", f"{path}:2", "7", "x"]
    assert found(path, content, line_ids=False)[:2] == ["no_id", "no_id"]


def test_a_line_keeps_what_is_known_of_it():
    """A line of an array has the bytes of its element, so that a rejected line can be read again."""
    lines = list(FORMATS["array"].read([b'[ {"id":1}\n, {"id":2} ]'], Fields(), 99))
    assert lines == [Line(1, b'{"id":1}'), Line(2, b'{"id":2}')]
