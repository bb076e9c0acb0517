"""``neardup batch`` finds the pairs of the stream in a corpus at rest, in bounded memory, and saves windows."""

from __future__ import annotations

import json
import random
import signal
import time

import pytest
from cases import CASES
from command import PROCESS_SECONDS_MAX, WORDS
from quick_parameters import quick_first

from neardup import Deduplicator, Document
from neardup.pairs.pipeline import Matcher, match_step
from neardup.pairs.signing import Signer
from neardup.schemes.rows import SCHEMES as SCHEMES_TABLE
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.outputs.window_file import fill
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.batch import corpus, found, rows
from neardup_workers.running.commands.batch.corpus import Corpus
from neardup_workers.running.commands.batch.found import Found

SCHEMES = [
    "one_permutation chars", "exact, minhash in 4 bytes", "containment", "buckets shared", "prefix chars",
    "identical positions", "vectors cosine", "vectors dot", "records exact", "records shingled", "grouped chars",
    "passages", "passages, templates", "parts",
]  # fmt: skip
TEXT = f"{WORDS}; " * 5


def batched(folder, settings, documents, *, keep=None, memory_max="1GB", **options):
    """The counts and pairs that batch finds in these documents."""
    folder.mkdir(exist_ok=True)
    signer = Signer(settings)
    with Corpus(folder, settings, memory_max) as corpus:
        for first in range(0, len(documents), 200):
            corpus.add(signer.sign(documents[first : first + 200]).batch)
        counts = corpus.find(**options)
        if keep is not None:
            corpus.keep(str(keep))
        return counts, [pair for matches in corpus.matches() for pair in matches.pairs()]


def streamed(settings, documents, **options):
    """The counts and pairs that the stream finds."""
    stream = Deduplicator(settings, **options)
    found = stream.process(documents)
    return stream.counts(), found


def settings_of(name, **more):
    """The settings of a case; no bucket is truncated and no document is late."""
    return Settings(
        **{**CASES[name].settings, "bucket_candidates_max": 2**20, "lateness_seconds": 1e6, "sign_threads": 2, **more}
    )


def without_some_times(documents):
    """The documents; the first ones and some later ones have no time."""
    return [x._replace(timestamp=None) if n < 40 or n % 7 == 0 else x for n, x in enumerate(documents)]


def lines(documents):
    """Texts as JSON Lines, with their time if they have one."""
    rows = [{"id": x.id, "text": x.text, "timestamp": x.timestamp} for x in documents]
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return b"".join(json.dumps(row).encode() + b"\n" for row in kept)


@pytest.mark.parametrize("window", quick_first([40.0, None], 1))
@pytest.mark.parametrize("name", quick_first(SCHEMES, 5))
def test_a_corpus_gives_what_the_stream_gives(name, window, tmp_path, monkeypatch):
    """Pairs agree in order, similarity and buckets, for copies, versions and disordered times; candidates agree too."""
    monkeypatch.setattr(rows, "ROWS", 50)
    settings = settings_of(name, window_seconds=window)
    rng = random.Random(7)
    documents = CASES[name].stream(rng, 250, versions=0.2, jitter=30.0)
    if window is not None:
        documents = without_some_times(documents)
    wanted_counts, wanted = streamed(settings, documents, candidates=window is None)
    counts, found = batched(tmp_path / "corpus", settings, documents, candidates=window is None)
    assert sorted(found) == sorted(wanted)
    assert counts._asdict() == {name: wanted_counts[name] for name in ("candidates", "copies", "cuts")}
    assert len(wanted) > 10


def test_the_pairs_come_in_order_of_arrival(tmp_path):
    """The newer documents decide the order, as in a run."""
    settings = settings_of("one_permutation chars")
    documents = CASES["one_permutation chars"].stream(random.Random(3), 300)
    _, wanted = streamed(settings, documents)
    _, found = batched(tmp_path, settings, documents)
    assert [pair.newer for pair in found] == [pair.newer for pair in wanted]


def test_a_long_bucket_is_compared_with_the_contents_before_it_and_the_rest_is_counted(tmp_path):
    """Sixty records share one phone number; with at most 5 candidates each is compared with the 4 before it, and with
    the first one."""
    settings = Settings(scheme="records:keys=phone", threshold=0.05, bucket_candidates_max=5)
    documents = [Document(f"{n:03}", fields={"name": f"ann {n}", "phone": "1"}) for n in range(60)]
    counts, found = batched(tmp_path, settings, documents, candidates=True)
    wanted = {(f"{a:03}", f"{b:03}") for b in range(60) for a in {0, *range(max(0, b - 4), b)} - {b}}
    assert {(pair.older, pair.newer) for pair in found} == wanted
    assert counts == (len(wanted), 0, 60 - 6)


def test_the_command_writes_the_lines_that_run_writes(neardup, tmp_path):
    """Both commands read copies, versions and refused documents, and report the same refusals."""
    documents = CASES["one_permutation chars"].stream(random.Random(9), 200, versions=0.1, jitter=0.0)
    (tmp_path / "in.jsonl").write_bytes(lines(documents) + b"not json\n")
    options = ["in.jsonl", "--summary-json", "summary.json", "--rejects", "bad", "--window-seconds", "60"]
    reported, out = {}, {}
    for command in ("run", "batch"):
        done = neardup(command, *options)
        assert done.returncode == Exit.SUCCESS, done.stderr
        reported[command] = json.loads((tmp_path / "summary.json").read_text()), (tmp_path / "bad").read_bytes()
        out[command] = sorted(done.stdout.splitlines())
    assert out["batch"] == out["run"]
    assert out["run"]
    names = ("ended", "documents", "pairs", "candidates", "copies", "refused_by_reason", "bytes")
    assert [reported["batch"][0][name] for name in names] == [reported["run"][0][name] for name in names]
    assert reported["batch"][1] == reported["run"][1]


def test_a_real_set_gives_what_the_stream_gives(tmp_path, real_data):
    """3,530 sentences of news in many languages, with many versions of each."""
    texts = [json.loads(line) for line in (real_data("itn_multilingual") / "docs.jsonl").read_bytes().splitlines()]
    documents = [Document(x["id"], x["text"]) for x in texts]
    settings = Settings(bucket_candidates_max=2**20)
    _, wanted = streamed(settings, documents)
    _, found = batched(tmp_path, settings, documents)
    assert sorted(found) == sorted(wanted)
    assert len(wanted) > 2000


@pytest.mark.parametrize("window", quick_first([40.0, None], 1))
@pytest.mark.parametrize("name", quick_first(SCHEMES, 3))
@pytest.mark.parametrize("shards", [2, 7])
def test_the_shards_of_a_corpus_give_what_one_table_gives(name, window, shards, tmp_path, monkeypatch):
    """Pairs, their order and the counts do not depend on the number of shards, with copies, versions and late times."""
    monkeypatch.setattr(rows, "ROWS", 50)
    monkeypatch.setattr(found, "_READ", 3 * shards)
    settings = settings_of(name, window_seconds=window, lateness_seconds=0.0)
    documents = CASES[name].stream(random.Random(8), 250, versions=0.2, jitter=30.0)
    wanted = batched(tmp_path / "one", settings, documents)
    divided = Found._find
    monkeypatch.setattr(Found, "_find", lambda self, _, memory_max: divided(self, shards, memory_max))
    assert batched(tmp_path / "shards", settings, documents) == wanted
    assert wanted[0].copies > 0 or not SCHEMES_TABLE[settings.scheme].by_content


def test_the_first_table_says_into_how_many_shards_a_corpus_is_divided(tmp_path, monkeypatch):
    """20,000 texts need a table of 10 MB; less memory needs more shards, which find the same pairs."""
    settings = Settings(sign_threads=1)
    documents = [Document(f"{n}", f"{n % 9000} {n % 9000 * 7919} " * 9) for n in range(20_000)]
    tried = []
    divided = Found._find

    def recorded(self, shards, memory_max):
        tried.append(shards)
        return divided(self, shards, memory_max)

    monkeypatch.setattr(Found, "_find", recorded)
    wanted = batched(tmp_path / "one", settings, documents)
    assert tried == [1]
    for memory_max in ("6MB", "3MB", "2500KB"):
        tried.clear()
        assert batched(tmp_path / memory_max, settings, documents, memory_max=memory_max) == wanted
        assert tried[0] == 1
        assert len(tried) == 2
    assert not list(tmp_path.glob("*/pairs-*"))


@pytest.mark.parametrize("window", quick_first([50.0, None], 1))
@pytest.mark.parametrize("name", ["one_permutation chars", "prefix chars", "records exact"])
def test_a_run_that_begins_with_a_kept_window_goes_on_like_one_long_run(name, window, tmp_path):
    """After the first half, the second half gives the pairs of one long run."""
    settings = settings_of(name, window_seconds=window, lateness_seconds=30.0, window_documents=80)
    documents = without_some_times(CASES[name].stream(random.Random(4), 300, versions=0.1, jitter=30.0))
    signer, long_run, seeded = Signer(settings), Matcher(settings), Matcher(settings)
    match_step(long_run, signer.sign(documents[:150]).batch)
    batched(tmp_path / "corpus", settings, documents[:150], keep=tmp_path / "window")
    fill(seeded, str(tmp_path / "window"))
    assert seeded.table.documents == long_run.table.documents <= 80
    assert seeded.table.stream_time == long_run.table.stream_time
    rest = signer.sign(documents[150:]).batch
    wanted = match_step(long_run, rest).pairs()
    assert match_step(seeded, rest).pairs() == wanted
    assert wanted


def test_the_window_of_documents_without_a_time_is_kept_as_it_is(tmp_path):
    """The documents get the first time of the next run, as in one long run."""
    settings = Settings(window_seconds=5.0)
    batched(tmp_path / "corpus", settings, [Document("a", TEXT)], keep=tmp_path / "window")
    seeded = Matcher(settings)
    fill(seeded, str(tmp_path / "window"))
    pairs = match_step(seeded, Signer(settings).sign([Document("b", TEXT, 1e9)]).batch).pairs()
    assert [pair[:2] for pair in pairs] == [("a", "b")]


def test_the_command_keeps_a_window_and_runs_from_it(neardup, tmp_path):
    """The command uses files, as a user does, and refuses a window of another configuration or another kind."""
    (tmp_path / "old.jsonl").write_bytes(lines([Document("a", TEXT), Document("b", "something else entirely")]))
    (tmp_path / "new.jsonl").write_bytes(lines([Document("c", TEXT)]))
    assert neardup("batch", "old.jsonl", "--keep", "window", "-q", "--temporary", tmp_path).stdout == b""
    done = neardup("run", "new.jsonl", "--window-from", "window", "-q")
    assert [json.loads(line)["older"] for line in done.stdout.splitlines()] == ["a"]
    assert not list(tmp_path.glob("neardup-*"))
    other = neardup("run", "new.jsonl", "--window-from", "window", "-q", "--set", "seed=2")
    assert other.returncode == Exit.GENERATION
    assert b"signed under" in other.stderr
    for path, why in [("new.jsonl", "holds no window"), ("missing", "No such file")]:
        with pytest.raises(Failure, match=why) as failed:
            fill(Matcher(Settings()), str(tmp_path / path))
        assert failed.value.code == Exit.INPUT


@pytest.mark.parametrize("size", [3, 17, 100, -1])
def test_a_window_that_is_cut_short_is_refused(size, tmp_path):
    """The window is refused at every cut except between two messages."""
    settings = Settings()
    batched(tmp_path / "corpus", settings, [Document("a", TEXT)], keep=tmp_path / "window")
    (tmp_path / "cut").write_bytes((tmp_path / "window").read_bytes()[:size])
    with pytest.raises(Failure, match="window"):
        fill(Matcher(settings), str(tmp_path / "cut"))


def test_an_impossible_request_gives_one_sentence_and_its_exit_code(neardup, tmp_path):
    """An invalid size, a missing folder, an unwritable window, too little memory."""
    (tmp_path / "in.jsonl").write_bytes(lines([Document(f"d{n}", f"{TEXT} {n}") for n in range(100)]))
    for options, code in [
        (["--memory-max", "much"], Exit.USAGE),
        (["--temporary", "missing"], Exit.OUTPUT),
        (["--keep", "missing/window"], Exit.OUTPUT),
        (["--memory-max", "1MB"], Exit.CAPACITY),
    ]:
        done = neardup("batch", "in.jsonl", "-q", *options)
        assert (done.returncode, done.stdout) == (code, b""), done.stderr
        assert done.stderr.startswith(b"neardup: ")
        assert done.stderr.count(b"\n") == 1


def test_an_empty_corpus_has_no_pairs(neardup, tmp_path):
    """The saved window is empty too."""
    (tmp_path / "in.jsonl").write_bytes(b"")
    done = neardup("batch", "in.jsonl", "-q", "--keep", "window")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    seeded = Matcher(Settings())
    fill(seeded, str(tmp_path / "window"))
    assert seeded.table.documents == 0


def test_a_signal_ends_a_batch_that_looks_for_pairs(tmp_path, monkeypatch, capfd):
    """They come in order when all are found, so a part of them is no answer."""
    (tmp_path / "in.jsonl").write_bytes(lines([Document("a", TEXT), Document("b", TEXT)]))
    monkeypatch.setattr("neardup_workers.outside.process.stop.SILENT_SECONDS", 3600.0)
    monkeypatch.setattr(Corpus, "find", lambda *_, **__: signal.raise_signal(signal.SIGINT) or pytest.fail("goes on"))
    assert corpus.run(BatchOptions([str(tmp_path / "in.jsonl")], quiet=True), Settings()) == Exit.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_batch_writes_nothing_and_leaves_nothing(start, tmp_path):
    """A signal during reading gives its exit code, and the temporary folder is gone."""
    process = start("batch", "-", "--temporary", str(tmp_path))
    process.stdin.write(lines([Document("a", TEXT), Document("b", TEXT)]))
    process.stdin.flush()
    deadline = time.monotonic() + PROCESS_SECONDS_MAX
    while not list(tmp_path.glob("neardup-*/rows/ids")):
        assert time.monotonic() < deadline, "no files were made"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PROCESS_SECONDS_MAX)
    assert (process.returncode, out) == (Exit.INTERRUPTED, b"")
    assert b"ended: interrupted" in err
    assert not list(tmp_path.iterdir())
