"""The real ``neardup run`` and ``neardup probe``: pairs, refusals, streams, signals, memory."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from command import PROCESS_SECONDS_MAX, WORDS, without_compilation

from neardup import Config, Deduplicator, Document
from neardup_workers.doing.session.report import WALK_REPORTS_MAX
from neardup_workers.outside.process.exits import Exit

TEXT = f"{WORDS}; " * 5
NEARLY = TEXT.replace("seven", "eight", 1)


def lines(*documents):
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def doc(id_, text=TEXT, **more):
    return {"id": id_, "text": text, **more}


def pairs(out):
    return [json.loads(line) for line in out.splitlines()]


def next_line(process, seconds=PROCESS_SECONDS_MAX):
    """The next line that a process writes; fails if no line arrives in time."""
    found = []
    reader = threading.Thread(target=lambda: found.append(process.stdout.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    assert found, f"nothing written for {seconds} seconds"
    return found[0]


def test_a_time_that_cannot_be_read_costs_no_document(neardup, tmp_path):
    """The summary counts them by reason, each with one example; a unit that is wrong is refused as before."""
    times = ("3/4/2016", "soon", 1e300, "2026-01-01", 1_700_000_000_000)
    (tmp_path / "in.jsonl").write_bytes(lines(*(doc(f"{n}", timestamp=time) for n, time in enumerate(times))))
    done = neardup("dedup", "in.jsonl", "--verdicts", "out.jsonl", "--summary-json", "summary.json")
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 5
    summary = json.loads((tmp_path / "summary.json").read_bytes())
    assert (summary["times_unread"], summary["refused_by_reason"]) == (3, {"timestamp_unit": 1})
    assert [line for line in done.stderr.decode().splitlines() if line.startswith("note: ")] == [
        "note: 2 documents have no time, such as one of '3/4/2016': the timestamp field is neither a number nor a date "
        "whose time is certain, as 2026-11-30 is",
        "note: 1 documents have no time, such as one of 1e+300: the timestamp is not a finite number of seconds within "
        "146,000 years of the epoch",
    ]


def test_a_small_session_reads_like_this(neardup, tmp_path):
    """Byte for byte: pairs go to standard output, refusals and the summary to standard error."""
    good = lines(doc("a"), doc("b", NEARLY), doc("c", "something else entirely"), doc("d"), doc("e", "  "), {"id": "f"})
    (tmp_path / "in.jsonl").write_bytes(good + b"\nnot json\n")
    done = neardup("run", "in.jsonl", "--rejects", "bad", "--summary-json", "summary.json")
    assert done.returncode == Exit.SUCCESS
    assert done.stdout == (
        b'{"older":"a","newer":"b","similarity":0.9602,"buckets":14}\n{"older":"a","newer":"d","similarity":1.0,"buckets":18}\n'
    )
    messages = done.stderr.decode().splitlines()
    assert messages[:3] == [
        "in.jsonl:5: the text is empty after normalisation",
        "in.jsonl:6: the text field is missing (it has: id): --fields text=NAME names another",
        "in.jsonl:8: the line is not JSON",
    ]
    assert messages[3].startswith("documents: 4")
    assert (tmp_path / "bad").read_bytes() == lines(doc("e", "  "), {"id": "f"}) + b"not json\n"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {name: summary[name] for name in ("ended", "documents", "copies", "refused", "blank_lines", "bytes")} == {
        "ended": "success",
        "documents": 4,
        "copies": 1,
        "refused": 3,
        "blank_lines": 1,
        "bytes": len(good) + 10,
    }
    assert summary["pairs"] == len(pairs(done.stdout))


def test_the_command_finds_what_the_library_finds(neardup, tmp_path):
    """The order is the same for any number of signing threads."""
    documents = [doc(f"d{i}", f"{i % 97} {i % 97 * 7919} " * 40 + f"{i % 13} {WORDS}") for i in range(1500)]
    (tmp_path / "in.jsonl").write_bytes(lines(*documents))
    found = Deduplicator(Config(threshold=0.9)).process([Document(d["id"], d["text"]) for d in documents])
    done = neardup("run", "in.jsonl", "--threshold", "0.9", "--sign-threads", "3", "--quiet")
    assert not done.stderr
    assert [(p["older"], p["newer"], p["buckets"]) for p in pairs(done.stdout)] == [
        (p.older, p.newer, p.buckets) for p in found
    ]


def test_files_folders_compressed_files_and_standard_input_are_read_in_order(neardup, tmp_path):
    """Each file of a folder is a document; its id is its path."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.txt").write_text(TEXT)
    (tmp_path / "one.txt").write_text(TEXT)
    (tmp_path / "z.jsonl.gz").write_bytes(gzip.compress(lines(doc("z"))))
    done = neardup("run", "z.jsonl.gz", "folder", "-", "one.txt", stdin=lines(doc("s")))
    assert [(p["older"], p["newer"]) for p in pairs(done.stdout)] == [
        ("z", "folder/x.txt"),
        ("folder/x.txt", "s"),
        ("s", "one.txt"),
    ]


def test_a_pair_is_out_as_soon_as_its_documents_are_in(start):
    """The command waits neither for more input nor for its end."""
    process = start("run")
    process.stdin.write(lines(doc("a")))
    process.stdin.flush()
    process.stdin.write(lines(doc("b")))
    process.stdin.flush()
    next_line(process)  # the kernels are loaded now
    process.stdin.write(lines(doc("c")))
    process.stdin.flush()
    assert json.loads(next_line(process))["newer"] == "c"


def test_interrupted_it_writes_the_summary(start):
    """All read documents are answered, an unfinished line is no refusal, and the exit code reports the signal."""
    process = start("run")
    process.stdin.write(lines(doc("a"), doc("b")) + lines(doc("c"))[:40])
    process.stdin.flush()
    next_line(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PROCESS_SECONDS_MAX)
    assert process.returncode == Exit.INTERRUPTED
    assert without_compilation(err.decode().splitlines())[0] == "documents: 2"
    assert "refused: 0" in err.decode().splitlines()
    assert "ended: interrupted" in err.decode()
    assert b"Traceback" not in err


def test_follow_continues_when_the_file_grows_is_truncated_or_replaced(start, tmp_path):
    """Only whole lines count; SIGTERM ends the command with the summary."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(doc("a")))
    process = start("run", "--follow", "log.jsonl")
    with path.open("ab") as log:
        log.write(lines(doc("b"))[:50])
        log.flush()
        time.sleep(0.2)
        log.write(lines(doc("b"))[50:])
    assert json.loads(next_line(process))["newer"] == "b"
    path.write_bytes(lines(doc("c")))
    assert json.loads(next_line(process))["newer"] == "c"
    (tmp_path / "new").write_bytes(lines(doc("d")))
    os.replace(tmp_path / "new", path)
    assert json.loads(next_line(process))["newer"] == "d"
    with path.open("ab") as log:
        log.write(lines(doc("e"))[:50])
    process.terminate()
    _, err = process.communicate(timeout=PROCESS_SECONDS_MAX)
    assert process.returncode == Exit.TERMINATED
    assert without_compilation(err.decode().splitlines())[0] == "documents: 4"
    assert "refused: 0" in err.decode().splitlines()


def test_a_closed_pipe_ends_it_quietly(neardup, tmp_path):
    """As in ``neardup run ... | head``: no traceback, no message, success."""
    (tmp_path / "in.jsonl").write_bytes(lines(*(doc(f"d{i}") for i in range(20_000))))
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = neardup("run", "in.jsonl", stdout=closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (Exit.SUCCESS, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_an_output_that_is_full_ends_it_with_one_sentence(neardup):
    """The command never loses pairs silently."""
    with open("/dev/full", "wb") as full:
        done = neardup("run", "-q", stdin=lines(doc("a"), doc("b")), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == Exit.OUTPUT
    assert done.stderr == b"neardup: cannot write the pairs to standard output: No space left on device\n"


def test_probe_answers_without_adding(neardup, tmp_path):
    """Probed documents match documents of the index, never each other."""
    (tmp_path / "index.jsonl").write_bytes(lines(doc("a"), doc("b", "something else entirely")))
    (tmp_path / "asked.jsonl").write_bytes(lines(doc("x"), doc("y")))
    done = neardup("probe", "--index", "index.jsonl", "asked.jsonl")
    assert [(p["older"], p["newer"]) for p in pairs(done.stdout)] == [("a", "x"), ("a", "y")]


def test_candidates_writes_those_below_the_cut_too(neardup):
    """The lines have estimates; without the option no pair reaches the cut."""
    stdin = lines(doc("a"), doc("b", NEARLY))
    assert neardup("run", "--min-similarity", "0.99", stdin=stdin).stdout == b""
    (pair,) = pairs(neardup("run", "--min-similarity", "0.99", "--candidates", stdin=stdin).stdout)
    assert pair["similarity"] < 0.99


def test_hostile_input_is_refused_line_by_line_and_the_run_goes_on(neardup, tmp_path):
    """Every refused line is reported with its place and written whole, in order; the good lines are all answered."""
    bad = [
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"id":1.5,"text":"t"}',
        b'{"id":"a","text":"\\ud800"}',
        b'{"id":"a","text":"' + b"x" * 300_000 + b'"}',
        b'{"id":"a","text":"t","timestamp":1700000000000}',
        b'{"id":"' + b"i" * 2000 + b'","text":"t"}',
        b"x" * 2_000_000,
        b"\0\0\0",
    ]
    good = lines(doc("good"))[:-1]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([good, *bad, lines(doc("twin"))]))
    done = neardup(
        "run", "in.jsonl", "--rejects", "bad", "--set", "text_characters_max=200000", "--set", "line_bytes_max=1000000"
    )
    assert done.returncode == Exit.SUCCESS
    assert len(pairs(done.stdout)) == 1
    assert (tmp_path / "bad").read_bytes() == b"\n".join(bad) + b"\n"
    messages = done.stderr.decode().splitlines()
    assert [line.split(": ")[0] for line in messages[: len(bad)]] == [f"in.jsonl:{i + 2}" for i in range(len(bad))]
    assert "refused: 9" in messages


def test_a_run_prints_nothing_that_a_terminal_obeys(neardup):
    """Parsers read the same id back from pairs; reports show it with escapes."""
    id_ = "\x9b2J\u202egpj.exe\x7f"
    lines = [json.dumps({"id": name, "text": WORDS}, ensure_ascii=False) for name in (id_, "b")]
    done = neardup("run", "-", stdin="\n".join(lines).encode())
    assert json.loads(done.stdout)["older"] == id_
    missing = neardup("run", id_)
    assert "\\x9b2J\\u202egpj.exe" in missing.stderr.decode()
    for output in (done.stdout, done.stderr, missing.stderr):
        assert output.decode().replace("\n", "").isprintable()


def test_refused_files_in_folders_are_reported_up_to_a_number_and_listed_in_the_rejects(neardup, tmp_path):
    """The command counts the rest."""
    (tmp_path / "f").mkdir()
    for i in range(30):
        (tmp_path / "f" / f"{i:02}.bin").write_bytes(b"\0")
    done = neardup("run", "f", "--rejects", "bad")
    messages = done.stderr.decode().splitlines()
    assert sum("is binary" in line for line in messages) == WALK_REPORTS_MAX
    assert "refused: 30" in messages
    listed = [json.loads(line) for line in (tmp_path / "bad").read_bytes().splitlines()]
    assert listed == [{"path": f"f/{i:02}.bin", "reason": "binary"} for i in range(30)]


@pytest.mark.processes
def test_memory_does_not_grow_with_the_input(tmp_path):
    """With a window of few documents, an eightfold input needs the same memory, within the waste of an allocator."""
    code = (
        "import resource, sys; from neardup_workers.running.cli.app import main\n"
        "try: main()\n"
        "finally: sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    peaks = []
    for count in (2_500, 20_000):
        path = tmp_path / f"{count}.jsonl"
        with path.open("wb") as file:
            file.writelines(lines(doc(f"{i}", os.urandom(1500).hex())) for i in range(count))
        arguments = ["run", str(path), "--quiet", "--window-documents", "500"]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, check=True, timeout=PROCESS_SECONDS_MAX
        )
        peaks.append(int(done.stderr))
    small, large = peaks
    assert large < small * 1.25, f"{small} KiB for 2,500 documents, {large} for 20,000"


def test_hostile_sets_are_read_to_their_end(neardup, tmp_path, real_data):
    """Every line of the JSON test suite and every naughty string is answered, refused or blank."""
    suite = sorted((real_data("jsontestsuite") / "test_parsing").glob("*.json"))
    strings = json.loads((real_data("blns") / "blns.json").read_text(encoding="utf-8"))
    (tmp_path / "blns.jsonl").write_bytes(lines(*(doc(text, text) for text in strings)))
    done = neardup("run", "--input-format", "lines", "--summary-json", "s.json", *suite, "blns.jsonl")
    assert done.returncode == Exit.SUCCESS
    assert b"Traceback" not in done.stderr
    summary = json.loads((tmp_path / "s.json").read_text())
    contents = [path.read_bytes() for path in (*suite, tmp_path / "blns.jsonl")]
    count = sum(content.count(b"\n") + (not content.endswith(b"\n") and bool(content)) for content in contents)
    assert summary["documents"] + summary["refused"] + summary["blank_lines"] == count
    assert summary["documents"] > len(strings) * 0.9


def test_refusals_are_reported_up_to_a_number_and_nothing_usable_has_a_code_of_its_own(neardup, tmp_path):
    """The first report of a missing field lists the present fields; one good line makes the run a success."""
    (tmp_path / "in.jsonl").write_bytes(lines(*({"id": f"{i}", "body": TEXT} for i in range(50))))
    done = neardup("run", "in.jsonl")
    messages = done.stderr.decode().splitlines()
    assert done.returncode == Exit.UNUSABLE
    assert messages[0] == "in.jsonl:1: the text field is missing (it has: id, body): --fields text=NAME names another"
    assert messages[1] == "in.jsonl:2: the text field is missing"
    assert sum("the text field is missing" in line for line in messages) == 20
    assert "further input refused as 'no_text' is only counted; --rejects FILE keeps all of it" in messages
    assert {"refused: 50", "ended: unusable"} <= set(messages)
    done = neardup("run", "in.jsonl", "-", stdin=lines(doc("good")))
    assert done.returncode == Exit.SUCCESS
    assert done.stderr.count(b"the text field is missing") == 20


def test_strict_ends_at_the_first_refusal(neardup):
    """The refusal has its place and its own exit code; earlier pairs are written."""
    done = neardup("run", "--strict", "-q", stdin=lines(doc("a"), doc("b"), {"id": "c"}, doc("d")))
    assert done.returncode == Exit.REFUSED
    assert done.stderr == (
        b"neardup: standard input:3: the text field is missing; --strict ends at the first refusal\n"
    )


def test_a_table_without_the_column_of_the_scheme_is_refused_with_its_columns(neardup, tmp_path):
    """The refusal occurs once, not for each row."""
    (tmp_path / "in.csv").write_text("key,body\n1,x\n2,y\n")
    done = neardup("run", "in.csv")
    assert done.returncode == Exit.UNUSABLE
    assert b"in.csv:1: the table has no column" in done.stderr
    assert b"(it has: key,body)" in done.stderr
    assert b"refused: 1\n" in done.stderr


def test_a_run_continues_from_the_window_that_another_one_kept(neardup, tmp_path):
    """Two runs find the pairs of one long run."""
    (tmp_path / "old.jsonl").write_bytes(lines(doc("a"), doc("b", "something else entirely")))
    (tmp_path / "new.jsonl").write_bytes(lines(doc("c", NEARLY), doc("d", "something else entirely")))
    assert neardup("run", "old.jsonl", "--keep", "window", "-q").returncode == Exit.SUCCESS
    done = neardup("run", "new.jsonl", "--window-from", "window", "-q")
    whole = neardup("run", "old.jsonl", "new.jsonl", "-q")
    assert done.stdout == whole.stdout != b""


def test_the_summary_warns_once_of_truncated_probes_and_counts_new_versions(neardup):
    """The warning has the number of documents and the deciding setting; without truncation there is no warning."""
    stdin = lines(*(doc(f"{i}", f"{TEXT} story {i}") for i in range(12)), doc("11", TEXT), doc("11", NEARLY))
    done = neardup("run", "--set", "bucket_candidates_max=2", stdin=stdin)
    warnings = [line for line in done.stderr.decode().splitlines() if line.startswith("warning: pairs may be missing")]
    assert len(warnings) == 1
    assert (
        "documents had more candidates than bucket_candidates_max (2) or probe_candidates_max (1,024) allows"
        in warnings[0]
    )
    assert "new versions of ids in the window: 2" in done.stderr.decode().splitlines()
    assert b"warning" not in neardup("run", stdin=stdin).stderr


def test_the_summary_says_where_limits_cost_pairs(neardup, tmp_path):
    """By hour, by source (the host of the ids), and by cluster; ``dedup`` takes the sources of the documents."""
    docs = [{"id": f"https://a.example/{i}", "text": f"{TEXT} story {i}", "source": "The Wire"} for i in range(12)]
    stdin = lines(*(one | {"timestamp": 3600.0 * (n // 6)} for n, one in enumerate(docs)))
    limits = "--set", "bucket_candidates_max=2", "--summary-json", "summary.json", "-q"
    sources = {}
    for command, *more in (("run",), ("dedup", "--sources", "sources.jsonl")):
        assert neardup(command, *limits, *more, stdin=stdin).returncode == Exit.SUCCESS
        summary = json.loads((tmp_path / "summary.json").read_bytes())
        limited = summary["limits"]
        total = sum(one["missed_pairs"] for one in limited["hours"])
        assert abs(total - summary["missed_pairs"]) < 1
        assert 0 < summary["recall_by_limits"] < 0.6
        assert [one["hour"] for one in limited["hours"]] == [0, 3600]
        assert {one["id"] for one in limited["largest"]} <= {one["id"] for one in docs}
        sources[command] = [one["source"] for one in limited["sources"]]
    assert sources == {"run": ["a.example"], "dedup": ["the wire"]}


def test_a_run_warns_where_documents_are_too_small_for_their_scheme(neardup):
    """The warning gives the recall for their sizes; the default scheme needs no warning."""
    stdin = lines(*(doc(f"{i}", f"{TEXT} story {i}") for i in range(12)))
    warned = neardup("run", "--scheme", "grouped", stdin=stdin).stderr.decode()
    assert "documents are too small for scheme grouped, so the recall at the threshold is 0." in warned
    assert b"too small" not in neardup("run", stdin=stdin).stderr


def test_no_document_is_late_where_there_is_no_window(neardup):
    """No document ever leaves."""
    stdin = lines(doc("a", timestamp=1e9), doc("b", timestamp=5.0), doc("c", NEARLY, timestamp=1.0))
    done = neardup("run", stdin=stdin)
    assert len(pairs(done.stdout)) == 2
    assert b"too late" not in done.stderr
    assert b"too late for the window: 2" in neardup("run", "--window-seconds", "1", stdin=stdin).stderr


@pytest.mark.parametrize("command", ["run", "dedup", "batch"])
def test_one_time_far_in_the_future_empties_no_window(neardup, tmp_path, command):
    """The second of four documents is dated 2100: the copies of the first are found, and the time is counted."""
    times = ("2026-11-01T00:00:00Z", "2100-01-01T00:00:00Z", "2026-11-01T01:00:00Z", "2026-11-01T02:00:00Z")
    texts = (TEXT, "something else entirely, of the mountains and the snow in the north", TEXT, TEXT)
    rows = [doc(id_, text, timestamp=time) for id_, text, time in zip("abcd", texts, times, strict=True)]
    (tmp_path / "in.jsonl").write_bytes(lines(*rows))
    done = neardup(command, "in.jsonl", "--window-seconds", "2d", "--summary-json", "summary.json")
    assert done.returncode == Exit.SUCCESS
    summary = json.loads((tmp_path / "summary.json").read_bytes())
    assert (summary["late"], summary["times_unread"], summary["refused"]) == (0, 1, 0)
    assert b"1 documents have no time, such as one of '2100-01-01T00:00:00 (b)': it lies more than a day" in done.stderr
    found = len(done.stdout.splitlines())
    assert found == {"run": 2, "dedup": 2, "batch": 2}[command], done.stdout
