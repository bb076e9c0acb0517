"""Tables of records become lines of JSON and pairs."""

import csv
import gzip
import io
import json
import time
import tracemalloc
from dataclasses import replace

import pytest
import zstandard
from benchmarks.labelled import records
from hypothesis import given
from hypothesis import strategies as st
from memory_transport import MemoryTransport
from shell_harness import Bench

from neardup.documents.document import REASONS, Document
from neardup.pairs.json_lines import KINDS, Fields
from neardup_textbook.commands.calibrate import calibrate
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.judging import CalibrateOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.csv_rows import table_lines
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.formats import FORMATS, choose
from neardup_workers.outside.readers.lines import HEADER, split_lines
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading

RECORDS = Fields(kind="record")
PEOPLE = ("--scheme=records:fields=name,city,keys=city", "--threshold=0.6")
ROWS = [
    {"id": "a", "name": "Ann Miller", "city": "Bern"},
    {"id": "b", "name": "Anne Miller", "city": "Bern", "timestamp": "1970-01-02"},
    {"id": "c", "name": "Smith, Joe", "city": "Rome"},
    {"id": "d", "name": 'Smith,\n\n"Joe"', "city": "Rome"},
    {"id": "e", "name": "Nemo"},
]


def table(rows, delimiter=","):
    """Rows as a table with all their columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def json_lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(path, fields=RECORDS, stop=None, **options):
    """The entries of a path, and the spilled bytes."""
    spilled = []
    reader = EntryReader(Reading(**options), fields, stop or Stop(), lambda part: spilled.append(part.raw))
    entries = [entry for entry in reader.read([str(path)]) if entry is not None]
    return entries, b"".join(spilled), reader


def found(path, content, **options):
    path.write_bytes(content)
    return [entry.found for entry in read(path, **options)[0]]


def rows_of(content, bytes_max=1000, block_bytes=7):
    blocks = [content[at : at + block_bytes] for at in range(0, len(content), block_bytes)]
    lines = table_lines(split_lines(blocks, bytes_max), ",", bytes_max)
    return [line for line in lines if line.reason != HEADER]


@pytest.mark.parametrize(
    ("name", "content"),
    [("people.csv", table(ROWS)), ("PEOPLE.TSV.ZST", zstandard.compress(table(ROWS, "\t")))],
)
def test_a_table_gives_the_pairs_that_its_rows_give_as_json_lines(neardup, tmp_path, name, content):
    """With either file ending and compression; refusals agree too, on the lines where rows begin."""
    (tmp_path / "people.jsonl").write_bytes(json_lines(ROWS))
    (tmp_path / name).write_bytes(content)
    expected, done = neardup("run", "people.jsonl", *PEOPLE), neardup("run", name, *PEOPLE)
    assert (done.returncode, done.stdout) == (0, expected.stdout)
    assert [(pair["older"], pair["newer"]) for pair in map(json.loads, done.stdout.splitlines())] == [
        ("a", "b"), ("c", "d"),
    ]  # fmt: skip
    assert expected.stderr.startswith(b"people.jsonl:5: the record has no value")
    assert done.stderr.startswith(name.encode() + b":8: the record has no value")


def test_rows_become_the_documents_of_their_json_lines(tmp_path):
    """With or without a byte order mark, with any line end; a cell of spaces is no field."""
    path = tmp_path / "lines.jsonl"
    documents = found(path, json_lines(ROWS))
    path = tmp_path / "table.csv"
    assert found(path, table(ROWS)) == documents
    assert found(tmp_path / "table.csv.gz", gzip.compress(table(ROWS))) == documents
    assert found(tmp_path / "table.tsv", table(ROWS, "\t")) == documents
    assert found(path, b"\xef\xbb\xbf" + table(ROWS)) == documents
    assert found(path, table(ROWS).replace(b"\r\n", b"\n").rstrip(b"\n")) == documents
    assert found(path, b' id , "name",,id\r\n\r\n1, " Ann ",x,2\r\n  \r\n1, "",x,2') == [
        Document("2", fields={"name": "Ann"}),
        Document("2", fields={}),
    ]
    assert read(path)[2].blank_lines == 2


def test_the_names_of_id_and_time_equal_those_of_the_settings(tmp_path):
    """A time is in seconds or ISO 8601. A row without an id gets one; one with an invalid time has none."""
    fields = Fields(id="key", timestamp="seen", kind="record")
    (tmp_path / "a.csv").write_text("key,seen,name\n7,60.5,A\n8,1970-01-01T00:01:00Z,B\n9,,C\n,1,D\n10,soon,E\n")
    assert [entry.found for entry in read(tmp_path / "a.csv", fields)[0]] == [
        Document("7", timestamp=60.5, fields={"name": "A"}),
        Document("8", timestamp=60.0, fields={"name": "B"}),
        Document("9", fields={"name": "C"}),
        Document(f"{tmp_path}/a.csv:5", timestamp=1.0, fields={"name": "D"}),
        Document("10", fields={"name": "E"}),
    ]
    assert [entry.found for entry in read(tmp_path / "a.csv", line_ids=False)[0]] == ["no_id"] * 5


def test_rows_that_are_no_records_are_refused_counted_and_kept(neardup, tmp_path):
    """Each refusal names the line where the row begins; the rejects have header and row byte for byte; other rows are
    read.
    """
    bad = [b"1,too,few,many", b"2,few", b'"3","not\n\xff\n utf8",x', b"4,a\rb,x", b'"5",open\n"quote,x\n']
    content = b"id,name,city\n" + b"\n".join([b"a,Ann Miller,Bern", *bad[:2], b"b,Anne Miller,Bern", *bad[2:]])
    (tmp_path / "people.csv").write_bytes(content)
    done = neardup("run", "people.csv", *PEOPLE, "--rejects", "rejects", "--summary-json", "summary")
    assert [json.loads(line)["newer"] for line in done.stdout.splitlines()] == ["b"]
    refused = [line.partition(b": ")[::2] for line in done.stderr.splitlines() if line.startswith(b"people.csv")]
    assert [place for place, _ in refused] == [b"people.csv:%d" % line for line in (3, 4, 6, 9, 10, 11)]
    few, not_csv = FILE_REASONS["row_length"], FILE_REASONS["row_not_csv"]
    not_utf8 = REASONS["not_utf8"] + ": --set table=encoding=cp1252 names another encoding"
    assert [why.decode() for _, why in refused] == [few, few, not_utf8, not_csv, few, not_csv]
    counted = json.loads((tmp_path / "summary").read_text())["refused_by_reason"]
    assert counted == {"row_length": 3, "row_not_csv": 2, "not_utf8": 1}
    assert (tmp_path / "rejects").read_bytes() == b"id,name,city\n" + b"\n".join(bad)


@pytest.mark.parametrize("header", ["id,näme".encode("latin-1"), b'id,"name\n'])
def test_a_table_whose_header_cannot_be_read_is_refused_as_one(tmp_path, header):
    """Without a header the cells have no names."""
    content = header + b"\na,Ann\nb,Bob\n"
    reasons = found(tmp_path / "a.csv", content)
    assert reasons == ["row_not_csv" if b'"' in header else "not_utf8"]


def test_a_row_that_is_too_long_is_spilled_to_its_end(tmp_path):
    """The row may span many lines that look like rows. The next row is read; memory stays within the bound."""
    inside = b'"' + b"x,y\n" * 50 + b'""z""\n' + b"w" * 150 + b'"'
    rows = [b"a,Ann", b"b," + inside, b"c,Cid", b"d," + b"x" * 150, b"e,Eve"]
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"id,name", *rows]))
    entries, spilled, _ = read(tmp_path / "a.csv", line_bytes_max=100)
    assert [(entry.line, entry.found if isinstance(entry.found, str) else entry.found.id) for entry in entries] == [
        (2, "a"), (3, "line_too_long"), (55, "c"), (56, "line_too_long"), (57, "e"),
    ]  # fmt: skip
    assert spilled == rows[1] + rows[3]
    assert found(tmp_path / "b.csv", b"id," + b"x" * 100 + b"\na,Ann\n", line_bytes_max=100) == ["line_too_long"]


def test_a_long_cell_within_the_bound_is_read(tmp_path):
    """The parser's own limit of 131,072 characters does not apply."""
    name = "x" * 200_000
    assert found(tmp_path / "a.csv", f"id,name\na,{name}\n".encode()) == [Document("a", fields={"name": name})]


@pytest.mark.long
def test_a_row_of_very_many_lines_is_held_as_its_bytes():
    """The row needs a few bytes of memory for each byte, not an object for each line."""
    content = b'id,name\na,"' + b"x\n" * 200_000 + b'"\n'
    tracemalloc.start()
    (line,) = rows_of(content, bytes_max=500_000, block_bytes=1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(json.loads(line.raw)["name"]) == 399_999
    assert peak < 20 * len(content)


TEXT = st.text(st.sampled_from('ab,"\n\r\t é7'), max_size=8)


@given(
    st.lists(st.fixed_dictionaries({"id": TEXT, "timestamp": TEXT, "name": TEXT}), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_what_a_writer_of_csv_wrote_is_read_back(rows, block_bytes):
    """Cells come back stripped, without empty ones, from blocks of any size."""
    expected = [{name: cell.strip() for name, cell in row.items() if cell.strip()} for row in rows]
    lines = rows_of(table(rows), block_bytes=block_bytes)
    read_back = [json.loads(line.raw) for line in lines]
    assert [{name: str(value) for name, value in row.items()} for row in read_back] == expected
    assert not any(line.reason for line in lines)


@given(
    st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b"\r", b" ", b"\xff", b"7"]), max_size=60), st.integers(3, 30)
)
def test_no_bytes_break_a_table_and_every_row_is_reported(parts, bytes_max):
    """Rows within the bound come whole, longer ones in parts; line numbers rise; refused bytes are unchanged."""
    content = b"".join(parts)
    lines = rows_of(b"id,name\n" + content, bytes_max=max(bytes_max, 7))
    numbers = [line.number for line in lines if line.ended]
    assert numbers == sorted(set(numbers))
    for line in lines:
        if line.is_part or line.reason:
            assert line.raw in content
        elif line.raw:
            assert isinstance(json.loads(line.raw), dict)


def test_a_table_in_a_folder_is_read_as_a_table_for_every_scheme(tmp_path):
    """A table without the compared column gets one refusal as a whole, not one for each row."""
    (tmp_path / "a.csv").write_bytes(b"id,name\na,Ann\nb,Bob\n")
    (tmp_path / "b.txt").write_text("text")
    people = [Document("a", fields={"name": "Ann"}), Document("b", fields={"name": "Bob"})]
    assert [entry.found for entry in read(tmp_path)[0]] == [*people, "file_not_lines"]
    texts = [entry.found for entry in read(tmp_path, Fields())[0]]
    assert texts == ["no_column", Document(str(tmp_path / "b.txt"), "text")]
    named = [entry.found for entry in read(tmp_path, Fields(text="name"))[0]]
    assert named[:2] == [Document("a", "Ann"), Document("b", "Bob")]
    assert [entry.found for entry in read(tmp_path / "a.csv", input_format="documents")[0]] == ["file_not_lines"]
    assert [entry.found for entry in read(tmp_path / "a.csv", input_format="lines")[0]] == ["not_json"] * 3


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"text"}))
def test_a_file_that_is_one_text_is_refused_where_no_text_is_asked_for(tmp_path, kind):
    """The refusal names the right input instead of a missing field."""
    (tmp_path / "a.txt").write_text("text")
    assert [entry.found for entry in read(tmp_path / "a.txt", Fields(kind=kind))[0]] == ["file_not_lines"]
    assert "give JSON Lines" in FILE_REASONS["file_not_lines"]


def test_a_table_is_recognised_by_its_name():
    """The case of letters and an ending of compression do not matter; the letters elsewhere in a name do not count."""
    names = ("a.csv", "A.CSV.GZ", "a.tsv.zst", "a.csv.txt", "csv", "-")
    formats = {id(row): name for name, row in FORMATS.items()}
    found = [formats[id(choose(name, b"id,text\n", Fields()))] for name in names]
    assert found == ["csv", "csv", "tsv", "documents", "documents", "documents"]


def test_load_sends_a_row_as_the_line_of_json_that_it_would_be(tmp_path, monkeypatch):
    """The workers find the same pairs; refused rows are counted."""
    monkeypatch.chdir(tmp_path)
    rows = [{**row, "timestamp": str(round(time.time()))} for row in ROWS]
    (tmp_path / "people.csv").write_bytes(table(rows) + b"f,few\r\n")
    (tmp_path / "people.jsonl").write_bytes(json_lines(rows))
    sent, pairs = [], []
    for path in ("people.csv", "people.jsonl"):
        bench = Bench(scheme="records:fields=name,city,keys=city", threshold=0.6)
        session = Session(bench.settings, SessionOptions([path], quiet=True))
        loader, report = Loader(MemoryTransport(bench.cluster), bench.settings, session), session.report
        loader.load([path])
        loader.close()
        sent_now = bench.cluster.records(bench.names.topics.documents)
        sent.append({record.key: json.loads(record.value) for record in sent_now})
        assert report.refused == ({"row_length": 1} if path == "people.csv" else {})
        bench.sign(4)
        bench.match(2)
        pairs.append(bench.pairs())
    assert sent[0] == sent[1] == {row["id"].encode(): row for row in rows}
    assert pairs == [[("a", "b"), ("c", "d")]] * 2


def test_calibration_reads_the_table_that_run_read(tmp_path):
    """Numeric cells are numbers; malformed rows are counted."""
    (tmp_path / "a.csv").write_text("id,year,born\na,1990,19900101\nb,1991,19900102\nc,2000,20010101\nd\n")
    pairs = [{"older": "a", "newer": "b", "similarity": 1.0}, {"older": "a", "newer": "c", "similarity": 0.5}]
    (tmp_path / "pairs.jsonl").write_bytes(json_lines(pairs))
    options = CalibrateOptions(str(tmp_path / "pairs.jsonl"), [str(tmp_path / "a.csv")], "year", random_mean=20)
    calibration = calibrate(options)
    assert (calibration.matched.value, calibration.left_out) == (1, {"rows that are no record": 1})
    assert calibrate(replace(options, field="born", kind="date", random_mean=500)).matched.value == 1


def test_people_are_found_in_their_table_as_it_is(neardup, real_data):
    """A data set of entity resolution; the setting names its id column."""
    folder = real_data("er_febrl")
    truth = records.people(folder, 1).truth
    fields = "fields=given_name,surname,street_number,address_1,suburb,postcode,date_of_birth,soc_sec_id"
    keys = "keys=soc_sec_id,date_of_birth,given_name+surname,address_1"
    options = (f"--scheme=records:{fields},{keys}", "--threshold=0.6", "--fields=id=rec_id")
    done = neardup("run", folder / "dataset1.csv", *options, "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    pairs = {frozenset((pair["older"], pair["newer"])) for pair in map(json.loads, done.stdout.splitlines())}
    assert len(pairs & truth) >= 0.99 * len(truth)
    assert len(pairs & truth) >= 0.99 * len(pairs)
