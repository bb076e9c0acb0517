"""Paths to entries."""

import gzip
import os
import signal

import pytest

from neardup.documents.document import REASONS, Document
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.paths import walk
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading


def read(*paths, **options):
    spilled = []
    reader = EntryReader(Reading(**options), Fields(), Stop(), lambda part: spilled.append(part.raw))
    entries = [entry for entry in reader.read([str(path) for path in paths]) if entry is not None]
    return entries, b"".join(spilled), reader


def found(*paths, **options):
    return [entry.found for entry in read(*paths, **options)[0]]


def test_a_named_file_is_lines_or_a_document_by_its_ending(tmp_path):
    """Endings of compression are removed first; the id of a document is its path as given."""
    line = b'{"id":"a","text":"t"}'
    for name in ("a.jsonl", "a.ndjson", "A.JSONL", "a.jsonl.gz", "a.txt.gz", "a.txt", "a.json"):
        (tmp_path / name).write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    document = Document("a", "t")
    assert found(*(tmp_path / name for name in ("a.jsonl", "a.ndjson", "A.JSONL", "a.jsonl.gz"))) == [document] * 4
    for name in ("a.txt", "a.txt.gz", "a.json"):
        assert found(tmp_path / name, input_format="documents") == [Document(str(tmp_path / name), line.decode())]
    assert found(tmp_path / "a.txt", input_format="lines") == [document]
    assert found(tmp_path / "a.jsonl", input_format="documents") == [Document(str(tmp_path / "a.jsonl"), line.decode())]


def test_a_folder_is_walked_in_order_of_names_and_each_file_is_a_document(tmp_path):
    """Subfolders come in the order of their names."""
    for name in ("b/y.txt", "b/x.txt", "a.txt", "c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = ["a.txt", "b/x.txt", "b/y.txt", "c.json"]
    assert found(tmp_path) == [Document(os.path.join(tmp_path, name), name) for name in names]


def test_what_is_no_text_in_a_folder_is_refused_with_its_reason(tmp_path):
    """Links, dot names, pipes and binaries are refused; the walk stays inside the folder and never waits."""
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"some text, cut off in its compressed form")[:-5])
    (tmp_path / ".git").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    entries = read(tmp_path, line_bytes_max=100)[0]
    assert {os.path.basename(entry.source): entry.found for entry in entries} == {
        ".git": "hidden",
        "binary": "binary",
        "cut.gz": "corrupt",
        "large": "file_too_large",
        "latin": "file_not_utf8",
        "link": "link",
        "loop": "link",
        "pipe": "special",
    }
    assert all(entry.walked for entry in entries)


def test_a_named_file_is_read_for_any_name(tmp_path):
    """A named file may be a dot name or a link."""
    (tmp_path / ".notes").write_text("text")
    (tmp_path / "link").symlink_to(".notes")
    assert found(tmp_path / ".notes", tmp_path / "link") == [
        Document(str(tmp_path / ".notes"), "text"),
        Document(str(tmp_path / "link"), "text"),
    ]


def test_a_path_that_is_not_utf_8_gives_a_readable_id(tmp_path):
    """The id spells out its bytes."""
    name = os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt")
    try:
        with open(name, "wb") as file:
            file.write(b"text")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert found(tmp_path) == [Document(f"{tmp_path}/caf\\xe9.txt", "text")]


def test_lines_know_their_number_blank_ones_are_counted_and_the_last_needs_no_end(tmp_path):
    """A byte order mark and the line ends of other systems are not part of the text."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id":"a","text":"t"}\r\n\n  \r\nnot json\n{"id":"b","text":"t"}')
    entries, _, reader = read(path)
    assert [(entry.line, entry.found) for entry in entries] == [
        (1, Document("a", "t")),
        (4, "not_json"),
        (5, Document("b", "t")),
    ]
    assert entries[1].raw == b"not json"
    assert reader.blank_lines == 2
    assert reader.bytes_read == path.stat().st_size


def test_a_line_that_is_too_long_is_spilled_whole_and_the_next_is_read(tmp_path):
    """Memory never holds the whole line; a bomb in a compressed file is handled the same way."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 3_000_000 + b'\n{"id":"a","text":"t"}\n'))
    entries, spilled, _ = read(path, line_bytes_max=1000)
    assert [(entry.line, entry.found, entry.raw is None) for entry in entries] == [
        (1, "line_too_long", True),
        (2, Document("a", "t"), False),
    ]
    assert spilled == b"x" * 3_000_000


def test_a_bomb_as_a_document_is_refused_without_expanding_it_whole(tmp_path):
    """Only reading shows its size, and reading stops at the limit."""
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"x" * 50_000_000))
    entries, _, _ = read(path, line_bytes_max=100_000)
    assert [entry.found for entry in entries] == ["file_too_large"]


def test_a_damaged_file_is_reported_after_the_lines_before_the_damage(tmp_path):
    """The next file is read."""
    good = b"".join(b'{"id":"%d","text":"%s"}\n' % (i, os.urandom(20).hex().encode()) for i in range(2000))
    path, other = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"
    path.write_bytes(gzip.compress(good)[:-1000])
    other.write_bytes(good)
    results = found(path, other)
    assert results[: results.index("corrupt")] == results[results.index("corrupt") + 1 :][: results.index("corrupt")]
    assert len(results) > 2000


def test_a_walk_of_a_deep_folder_ends(tmp_path):
    """The walk does not recurse."""
    deep = tmp_path
    for _ in range(300):
        deep = deep / "d"
    os.makedirs(deep)
    (deep / "end").write_text("text")
    assert [reason for _, reason in walk(str(tmp_path))] == [""]


@pytest.mark.parametrize(
    ("name", "content", "whole"),
    [
        ("a.jsonl", b'{"id":"a","text":"t"}\n{"id":"b","text":"u"}', ["a"]),
        ("a.jsonl", b'{"id":"a","text":"t"}\n' + b"x" * 99, ["a", "line_too_long"]),
        ("a.json", b'[{"id":"a","text":"t"},{"id":"b","text":"u"}]', ["a"]),
        ("a.csv", b"id,text\na,t\nb,a row of which some is read\n", ["a"]),
        ("a.txt", b"a text that is longer than what is read of it", []),
    ],
)
def test_what_a_signal_cuts_in_two_is_neither_a_document_nor_a_refusal(tmp_path, name, content, whole):
    """An unfinished line may be good; a line that is already too long is refused. Complete lines are answered."""

    class Interrupted(Stop):
        """A signal during the second read."""

        reads = iter((25, 60 if "line_too_long" in whole else 12))

        def read(self, descriptor, size):
            size = next(self.reads, 0)
            self.signal = 0 if size == 25 else signal.SIGINT
            return os.read(descriptor, size)

    (tmp_path / name).write_bytes(content)
    reader = EntryReader(Reading(line_bytes_max=50), Fields(), Interrupted(), lambda part: None)
    entries = [entry for entry in reader.read([str(tmp_path / name)]) if entry is not None]
    assert [e.found if isinstance(e.found, str) else e.found.id for e in entries] == whole


def test_no_reason_has_two_sentences():
    """The reasons of files and the reasons of the library have different names."""
    assert not REASONS.keys() & FILE_REASONS.keys()
