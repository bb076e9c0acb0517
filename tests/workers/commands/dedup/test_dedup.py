"""``neardup dedup`` writes each line of the input to exactly one output: kept, removed with a reason, or rejected."""

from __future__ import annotations

import csv
import gzip
import io
import json
import signal
import subprocess
from typing import NoReturn

import numpy as np
import pytest
import zstandard
from command import COMMAND, PROCESS_SECONDS_MAX, WORDS, without_compilation
from dedup_outputs import deduplicated
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from neardup import Config, Deduplicator, Document
from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.outputs import clusters
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.dedup.command import run

TEXT = f"{WORDS}; " * 5
NEARLY = TEXT.replace("seven", "eight", 1)
OTHER = "Nothing of the kind was ever reported from the islands, where it rains in every month of the year."


def doc(id_, text=TEXT, **more):
    return {"id": id_, "text": text, **more}


def lines(*documents):
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


@pytest.fixture
def dedup(tmp_path, monkeypatch):
    """Run the command in this process; return its outputs by name."""
    monkeypatch.chdir(tmp_path)
    return deduplicated


def merged(content, out):
    """The input, rebuilt from the outputs by the line numbers of the verdicts."""
    verdicts = out["verdicts"].splitlines()
    by_line = {json.loads(verdict)["line"]: verdict for verdict in verdicts}
    parts = {name: io.BytesIO(out[name]) for name in ("kept", "removed", "rejects")}
    found = []
    for number, line in enumerate(content.split(b"\n"), 1):
        verdict = by_line.get(number, b'{"status": "original"}')
        status = json.loads(verdict)["status"]
        name = {"original": "kept", "update": "kept", "refused": "rejects"}.get(status, "removed")
        part = parts[name].readline()
        if name == "removed":
            key = b',"neardup":' + verdict
            assert part.count(key) == 1
            part = part.replace(key, b"")
        found.append(part)
        assert part.removesuffix(b"\n") == line
    assert [part.read() for part in parts.values()] == [b""] * 3
    return b"".join(found)


def test_the_kept_the_removed_and_the_rejects_are_the_input(dedup, tmp_path):
    """The outputs hold every line byte for byte; blank lines are kept, and every line keeps its end."""
    content = b"\xef\xbb\xbf" + lines(doc("a")).replace(b"\n", b"\r\n") + b"\n  \r\n{ not json\n"
    content += lines(doc("b", NEARLY), doc("c", OTHER), doc("a"), doc("d", " ")) + b' {"id":"e","text":"x" } '
    (tmp_path / "in.jsonl").write_bytes(content)
    out = dedup("in.jsonl")
    assert out["statuses"] == ["original", "refused", "duplicate", "original", "unchanged", "refused", "original"]
    assert merged(content, out) == content


LINE = st.one_of(
    st.builds(
        lambda id_, text, space: json.dumps({"id": id_, "text": text}).encode() + space,
        st.sampled_from("abcdef"),
        st.sampled_from([TEXT, NEARLY, OTHER, "", "short"]),
        st.sampled_from([b"", b"\r", b"  ", b"\t\r"]),
    ),
    st.sampled_from(
        [b"", b" ", b"\r", b"{", b"}", b"[1]", b"\xff", b'{"text":3}', b"{}", b"x" * 2000, b"\xef\xbb\xbf"]
    ),
)


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.lists(LINE, max_size=12), st.booleans(), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_no_lines_are_lost_or_changed(tmp_path_factory, made, ended, mark):
    """Lines may be refused, too long or blank; the input may have a byte order mark and no final line end."""
    folder = tmp_path_factory.mktemp("dedup")
    content = mark + b"\n".join(made) + b"\n" * ended
    (folder / "in.jsonl").write_bytes(content)
    out = deduplicated(folder / "in.jsonl", folder=folder, input_format="lines", line_bytes_max=1000)
    assert merged(content, out) == content


def test_rows_of_a_table_are_kept_as_they_came_below_its_header(dedup, tmp_path):
    """Each output has the header once. The removed rows have one more column; rows may contain line feeds."""
    header, rows = b"id, text\r\n", [f'"{id_}","{text}\n{id_ * 2}"\r\n'.encode() for id_, text in
                                     (("a", TEXT), ("b", NEARLY), ("c", OTHER))]  # fmt: skip
    (tmp_path / "one.csv").write_bytes(header + rows[0] + b"\r\n" + rows[1] + b"few\r\n" + rows[2].rstrip())
    (tmp_path / "two.csv").write_bytes(header.rstrip() + b"\n" + rows[0].replace(b'"a"', b'"d"'))
    out = dedup("one.csv", "two.csv")
    assert out["kept"] == header + rows[0] + b"\r\n" + rows[2].rstrip()
    assert out["rejects"] == header + b"few\r\n"
    first, *removed = csv.reader(io.StringIO(out["removed"].decode(), newline=""))
    assert first == ["id", " text", "neardup"]
    assert [(row[0], json.loads(row[2])["duplicate_of"]) for row in removed] == [("b", "a"), ("d", "a")]
    assert out["removed"].replace(b"\r\n", b"\n").startswith(b"id, text,neardup\n" + rows[1].rstrip())


def test_a_table_of_other_columns_gets_its_own_header(dedup, tmp_path):
    """A table after lines of JSON gets its own header too."""
    (tmp_path / "one.tsv").write_bytes(b"id\ttext\na\tthe first one\n")
    (tmp_path / "two.tsv").write_bytes(b"text\tid\nanother thing\tb\n")
    (tmp_path / "in.jsonl").write_bytes(lines(doc("j")))
    expected = [(tmp_path / name).read_bytes() for name in ("one.tsv", "two.tsv", "in.jsonl", "two.tsv")]
    out = dedup("one.tsv", "two.tsv", "in.jsonl", "two.tsv")
    assert out["kept"] == b"".join(expected).removesuffix(b"another thing\tb\n")
    assert out["statuses"] == ["original"] * 3 + ["unchanged"]


@pytest.mark.parametrize("id_", [{}, {"id": None}, {"id": ""}])
def test_lines_without_an_id_are_no_versions_of_one_document(dedup, tmp_path, id_):
    """Without a field, with none in it, or an empty text: each line has its position as its name."""
    (tmp_path / "in.jsonl").write_bytes(b"".join(json.dumps(id_ | {"text": TEXT}).encode() + b"\n" for _ in range(2)))
    found = [json.loads(line) for line in dedup("in.jsonl")["verdicts"].splitlines()]
    assert [(one["id"], one["status"]) for one in found] == [("in.jsonl:1", "original"), ("in.jsonl:2", "duplicate")]


def test_files_that_are_documents_are_named(dedup, tmp_path):
    """Kept files are listed by path, one a line; dropped files are listed with their verdict."""
    (tmp_path / "folder").mkdir()
    for name, text in (("a.txt", TEXT), ("b.txt", NEARLY), ("c.txt", OTHER)):
        (tmp_path / "folder" / name).write_text(text)
    (tmp_path / "folder" / "d.bin").write_bytes(b"\0")
    out = dedup("folder")
    assert out["kept"] == b"folder/a.txt\nfolder/c.txt\n"
    (removed,) = map(json.loads, out["removed"].splitlines())
    assert (removed["path"], removed["neardup"]["duplicate_of"]) == ("folder/b.txt", "folder/a.txt")
    assert json.loads(out["rejects"]) == {"path": "folder/d.bin", "reason": "binary"}


def test_compressed_input_and_arrays_give_their_lines_and_elements(dedup, tmp_path):
    """An element of an array becomes a line."""
    content = lines(doc("a"), doc("b", NEARLY), doc("c", OTHER))
    (tmp_path / "in.jsonl.zst").write_bytes(zstandard.compress(content))
    (tmp_path / "in.json.gz").write_bytes(gzip.compress(json.dumps([doc("d", "new"), doc("e")]).encode()))
    out = dedup("in.jsonl.zst", "in.json.gz")
    assert out["kept"] == lines(doc("a"), doc("c", OTHER), doc("d", "new"))
    assert out["statuses"] == ["original", "duplicate", "original", "original", "duplicate"]


def test_annotated_lines_have_their_verdict_as_the_last_key(dedup, tmp_path):
    """All lines except the refused ones, in the order of the input."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a"), {"id": 7}, doc("b", NEARLY)) + b"\n")
    out = dedup("in.jsonl", annotate=True)
    first, second, blank = out["kept"].split(b"\n", 2)
    assert [list(json.loads(line)) for line in (first, second)] == [["id", "text", "neardup"]] * 2
    verdict = json.loads(second)["neardup"]
    assert 0.8 < verdict.pop("similarity") < 1.0
    assert verdict == {
        "place": 2, "path": "in.jsonl", "line": 3, "id": "b", "status": "duplicate", "cluster": 0,
        "duplicate_of": "a", "matched": 0,
    }  # fmt: skip
    assert blank == b"\n"
    assert out["removed"] == b""


@pytest.mark.long
def test_verdicts_equal_those_of_the_library(dedup, tmp_path):
    """The verdicts come in order, one for each document; places count refused documents too."""
    documents = [doc(f"d{n % 211}", f"{n % 97} {n % 97 * 7919} " * 40 + f"{n % 13} {WORDS}") for n in range(1200)]
    documents[7]["text"], documents[9] = "", documents[8]
    (tmp_path / "in.jsonl").write_bytes(lines(*documents))
    found = Deduplicator(Config(threshold=0.9)).decide([Document(d["id"], d["text"]) for d in documents])
    out = dedup("in.jsonl", threshold=0.9, sign_threads=3)
    written = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert [
        (v["id"], v["status"], *map(v.get, ("duplicate_of", "cluster", "related", "previous", "matched")))
        for v in written
    ] == [(v.id, v.status, v.duplicate_of, v.cluster, v.related, v.previous, v.matched) for v in found]
    assert [v["place"] for v in written] == list(range(1200))
    assert {v["status"] for v in written} == {"original", "update", "duplicate", "unchanged", "refused"}


def test_clusters_have_an_original_and_its_duplicates(dedup, tmp_path):
    """Each cluster occurs once, with a window of any length; a single document is no cluster."""

    def hash_(n, i):
        return (n - n % 3 // 2) * 7919 * (i + 1) % 1_000_003

    texts = [(f"{n}", " ".join(str(hash_(n, i)) for i in range(60))) for n in range(60)]
    (tmp_path / "in.jsonl").write_bytes(lines(*(doc(id_, text) for id_, text in texts), doc("1", texts[1][1])))
    for documents in (10, 1000):
        out = dedup("in.jsonl", window_documents=documents, threshold=0.9)
        found = [json.loads(line) for line in out["clusters"].splitlines()]
        assert [(one["id"], one["size"], [m["id"] for m in one["members"]]) for one in found] == [
            (f"{n}", 2, [f"{n + 1}"]) for n in range(1, 60, 3)
        ]
        assert [one["cluster"] for one in found] == [n for n in range(60) if n % 3 == 1]
        assert found[0]["similarity_min"] == found[0]["members"][0]["similarity"] == 1.0


def test_an_unchanged_version_of_the_original_keeps_its_cluster_open(dedup, tmp_path):
    """The version and the first duplicate come in one chunk, the last duplicate when the original has left."""
    documents = [doc(f"d{n}", " ".join(str(n * 7919 * (i + 1) % 1_000_003) for i in range(20))) for n in range(1051)]
    documents[0] = documents[501] = doc("a")
    documents[1], documents[1050] = doc("b"), doc("c")
    (tmp_path / "in.jsonl").write_bytes(lines(*documents))
    (cluster,) = dedup("in.jsonl", window_documents=600)["clusters"].splitlines()
    assert [member["id"] for member in json.loads(cluster)["members"]] == ["b", "c"]


@pytest.mark.parametrize(("representative", "expected"), [("first", "a"), ("longest", "c"), ("stars", "b")])
def test_a_cluster_names_the_member_that_a_page_shows(dedup, tmp_path, representative, expected):
    """The first, the longest, or the one with the greatest number in a field; a document without a number comes last.

    Verdicts stay the same. Numbers may be digits in a string; a refused document ranks nothing.
    """
    written = [
        doc("a", stars=1), doc("x", "", stars=9), doc("b", TEXT + " Or", stars="many"),
        doc("c", TEXT + " Or so", stars=2), doc("b", TEXT + " Or", stars="3.5"), doc("d", OTHER, stars=8),
    ]  # fmt: skip
    (tmp_path / "in.jsonl").write_bytes(lines(*written))
    out = dedup("in.jsonl", representative=representative)
    assert out["statuses"] == ["original", "refused", "duplicate", "duplicate", "unchanged", "original"]
    (cluster,) = map(json.loads, out["clusters"].splitlines())
    assert cluster["representative"]["id"] == expected


def test_a_cluster_lists_its_first_members_and_counts_all(dedup, tmp_path, monkeypatch):
    """A flood of copies needs little memory."""
    monkeypatch.setattr(clusters, "MEMBERS_MAX", 2)
    (tmp_path / "in.jsonl").write_bytes(lines(*(doc(f"{n}") for n in range(9)), doc("9", OTHER)))
    out = dedup("in.jsonl")
    (found,) = map(json.loads, out["clusters"].splitlines())
    assert (found["size"], [member["id"] for member in found["members"]]) == (9, ["1", "2"])
    summary = json.loads(out["summary"])
    assert summary["largest_clusters"] == [{"id": "0", "size": 9, "cluster": 0}]
    assert {name: summary[name] for name in ("documents", "kept", "duplicates", "unchanged", "duplicate_fraction")} == {
        "documents": 10, "kept": 2, "duplicates": 8, "unchanged": 0, "duplicate_fraction": 0.8,
    }  # fmt: skip


def test_a_continued_run_gives_the_verdicts_of_an_uninterrupted_one(dedup, tmp_path):
    """The run starts from the saved window. Places continue; the output lists the clusters that grew."""
    documents = [doc(f"d{n % 80}", f"{n % 31} {n % 31 * 7919} " * 40 + f"{n % 5} {WORDS}") for n in range(120)]
    names = {"whole": documents, "first": documents[:70], "second": documents[70:]}
    for name, part in names.items():
        (tmp_path / name).write_bytes(lines(*part))

    def verdicts(out):
        found = [json.loads(line) for line in out["verdicts"].splitlines()]
        return [{name: v[name] for name in v if name not in ("path", "line")} for v in found]

    options = {"threshold": 0.9, "input_format": "lines"}
    whole = dedup("whole", **options)
    first = dedup("first", keep="window", **options)
    second = dedup("second", window_from="window", **options)
    assert verdicts(first) + verdicts(second) == verdicts(whole)
    assert first["kept"] + second["kept"] == whole["kept"]


def test_a_second_signal_keeps_no_window(tmp_path, monkeypatch):
    """Its output is not written either: the window would hold documents that no output has."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a"), doc("b")))
    monkeypatch.setattr(clusters.Clusters, "add", lambda *_: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
    files = {name: str(tmp_path / name) for name in ("output", "keep")}
    options = DedupOptions([str(tmp_path / "in.jsonl")], quiet=True, **files)
    assert run(options, load({}, None)) == Exit.INTERRUPTED
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_window_that_run_kept_is_decided_first(dedup, neardup, tmp_path):
    """Its documents get verdicts as in a deduplication; run also starts from the window of a deduplication."""
    (tmp_path / "old.jsonl").write_bytes(lines(doc("a"), doc("b", NEARLY)))
    (tmp_path / "new.jsonl").write_bytes(lines(doc("c", NEARLY), doc("d", OTHER)))
    assert neardup("run", "old.jsonl", "--keep", "window", "-q").returncode == Exit.SUCCESS
    out = dedup("new.jsonl", window_from="window", keep="kept-window")
    found = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert [(v["place"], v["status"], v.get("duplicate_of")) for v in found] == [
        (2, "duplicate", "a"), (3, "original", None),
    ]  # fmt: skip
    (tmp_path / "last.jsonl").write_bytes(lines(doc("e", OTHER)))
    done = neardup("run", "--window-from", "kept-window", "last.jsonl", "-q")
    assert [json.loads(line)["older"] for line in done.stdout.splitlines()] == ["d"]


def test_the_first_document_is_written_before_the_second_is_read(start):
    """An interrupt ends the command as it ends a run: with the decided documents, the summary and its own exit code."""
    process = start("dedup", "--removed", "removed")
    process.stdin.write(lines(doc("a")))
    process.stdin.flush()
    assert process.stdout.readline() == lines(doc("a"))
    process.stdin.write(lines(doc("b", NEARLY), doc("c", OTHER)) + b'{"id":"half')
    process.stdin.flush()
    assert process.stdout.readline() == lines(doc("c", OTHER))
    process.send_signal(signal.SIGINT)
    out, messages = process.communicate(timeout=PROCESS_SECONDS_MAX)
    assert (process.returncode, out) == (Exit.INTERRUPTED, b"")
    shown = without_compilation(messages.decode().splitlines())
    assert shown[:4] == ["documents: 3", "kept: 2", "duplicates: 1", "unchanged: 0"]
    assert shown[-2:] == ["largest clusters:", "       2  a"]


def test_a_growing_file_is_followed(start, tmp_path):
    """The command decides documents as they are appended."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a")))
    process = start("dedup", "--follow", "in.jsonl", "-q")
    assert process.stdout.readline() == lines(doc("a"))
    with (tmp_path / "in.jsonl").open("ab") as file:
        file.write(lines(doc("b", NEARLY), doc("c", OTHER)))
    assert process.stdout.readline() == lines(doc("c", OTHER))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PROCESS_SECONDS_MAX) == Exit.TERMINATED


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["in.jsonl", "-o", "in.jsonl"], "--output in.jsonl is also an input: name another file"),
        (["--removed", "x", "--verdicts", "./x", "in.jsonl"], "--verdicts ./x is also --removed: name another file"),
        (
            ["--verdicts", "-", "in.jsonl"],
            "--verdicts - is standard output, where the results go: name a file for one of the two",
        ),
        (
            ["-o", "x", "--verdicts", "-", "--clusters", "/dev/stdout", "in.jsonl"],
            "--clusters /dev/stdout is also --verdicts: name another file",
        ),
    ],
)
def test_no_output_overwrites_an_input_or_another_output(neardup, tmp_path, arguments, sentence):
    """The command writes nothing in these cases."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a")))
    done = neardup("dedup", *arguments)
    assert (done.returncode, done.stderr.decode()) == (Exit.USAGE, f"neardup: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    assert (tmp_path / "in.jsonl").read_bytes() == lines(doc("a"))


@pytest.mark.processes
def test_the_only_file_of_a_command_is_no_output_of_it(tmp_path):
    """``--verdicts`` takes a file, so nothing is left to read but a terminal or nothing; a new file is written."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a")))
    for value, code in ("in.jsonl", Exit.USAGE), ("in.jsonl -", Exit.USAGE), ("new.jsonl", Exit.SUCCESS):
        words = [*COMMAND, "dedup", "--verdicts", *value.split()]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, check=False)
        said = b"nothing is piped in, and --verdicts would write over in.jsonl" in done.stderr
        assert (done.returncode, said) == (code, code == Exit.USAGE)
    assert (tmp_path / "in.jsonl").read_bytes() == lines(doc("a"))


@pytest.mark.processes
def test_an_output_that_follows_what_a_file_has_needs_no_input(tmp_path):
    """Nothing is written over, so nothing is refused."""
    (tmp_path / "all").write_bytes(lines(doc("a")))
    with (tmp_path / "all").open("ab") as all_lines:
        words = [*COMMAND, "dedup", "--output", "kept", "--verdicts", "-"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=all_lines, cwd=tmp_path, check=False)
    assert done.returncode == Exit.SUCCESS
    assert (tmp_path / "all").read_bytes() == lines(doc("a"))


def test_an_output_on_standard_output_comes_after_what_is_there(neardup, tmp_path):
    """As lines of a file that standard output was redirected to; nothing is called ``-``."""
    (tmp_path / "in.jsonl").write_bytes(lines(doc("a"), doc("b")))
    with (tmp_path / "all").open("wb") as redirected:
        redirected.write(b"before\n")
        redirected.flush()
        for verdicts, clusters in (("-", "clusters"), ("verdicts", "/dev/stdout")):
            options = ["--quiet", "-o", "kept", "--verdicts", verdicts, "--clusters", clusters]
            done = neardup("dedup", *options, "in.jsonl", stdout=redirected)
            assert done.returncode == Exit.SUCCESS
    written = [(tmp_path / name).read_bytes() for name in ("verdicts", "clusters")]
    assert (tmp_path / "all").read_bytes() == b"before\n" + b"".join(written)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "clusters", "in.jsonl", "kept", "verdicts"]


def test_a_step_looks_at_the_clusters_that_it_ends_only() -> None:
    """Not at all open ones: a run with many clusters would take a time that grows with their square."""

    class Open(dict[int, object]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("every open cluster was looked at")

    written: list[bytes] = []
    found = clusters.Clusters(written.append)
    found._open = Open({place: clusters._Cluster(place, f"d{place}") for place in (3, 5, 8)})
    found.close(0, np.array([8, 4, 3]))
    assert [json.loads(line)["cluster"] for line in b"".join(written).splitlines()] == [3, 8]
    assert len(found._open) == 1
