"""``neardup learn-order`` writes a file that ``token_order`` can use."""

import json

import numpy as np
import pytest

from neardup import Config, ConfigError
from neardup.documents.document import Document
from neardup.schemes.rows import SCHEMES
from neardup_workers.doing.session import token_order
from neardup_workers.outside.options.judging import LearnOrderOptions
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.settings.load import load, load_stream
from neardup_workers.outside.settings.value_files import read_order, write_order
from neardup_workers.running.commands import learn_order as order

TEXTS = {"a": "ab ab ab", "b": "ab cd", "c": "cd ab", "d": "ef"}


def tokens_of(words, **settings):
    """The hash of each word alone, as the scheme computes it."""
    plan = Config(scheme="prefix", shingles="words", k=1, **settings).plan
    return SCHEMES["prefix"].features([Document(word, word) for word in words], plan).features.values.tolist()


@pytest.fixture
def sample(tmp_path):
    """Lines of JSON; one of them is no document."""
    lines = [json.dumps({"id": id_, "text": text}) for id_, text in TEXTS.items()]
    path = tmp_path / "sample.jsonl"
    path.write_text("\n".join([*lines, "no JSON", json.dumps({"id": "e", "text": ""})]))
    return path


def test_an_order_is_learned_from_documents(neardup, sample, tmp_path):
    """The order counts documents with a token, not its occurrences; a token of one document is left out."""
    words = ["--shingles", "words", "--k", "1"]
    done = neardup("learn-order", sample, "--output", "order.npy", *words)
    assert done.returncode == Exit.SUCCESS
    assert b"2 tokens of 4 documents, 2 refused" in done.stderr
    assert done.stderr.count(b"sample.jsonl:") == 2
    assert read_order(str(tmp_path / "order.npy")).tokens.tolist() == tokens_of(["cd", "ab"])
    assert neardup("learn-order", sample, "--output", "order.npy", "--order-tokens", 1, "-q", *words).stderr == b""
    assert read_order(str(tmp_path / "order.npy")).tokens.tolist() == tokens_of(["ab"])
    assert [path.name for path in tmp_path.iterdir() if "order" in path.name] == ["order.npy"]


def test_an_order_is_used_from_every_place_that_settings_have(monkeypatch, tmp_path):
    """Command line, environment and file name its path; the order is part of the fingerprint."""
    monkeypatch.chdir(tmp_path)
    np.save("order.npy", np.array([3, 5], np.uint64))
    (tmp_path / "other.toml").write_text('scheme = "prefix:token_order=order.npy"\n')
    found = [load({"scheme": "prefix:token_order=order.npy"}), load({}, "other.toml")]
    monkeypatch.setenv("NEARDUP_SCHEME", "prefix:token_order=order.npy")
    found.append(load({"scheme": "prefix"}))
    assert [settings.scheme_options.token_order.tokens.tolist() for settings in found] == [[3, 5]] * 3
    assert len({settings.signing_fingerprint for settings in found}) == 1
    assert found[0].signing_fingerprint != Config(scheme="prefix").signing_fingerprint
    assert found[0].model_copy(update={"seed": 2}).scheme_options == found[0].scheme_options


def test_an_order_finds_the_same_pairs(neardup, sample):
    """It only makes buckets shorter."""
    neardup("learn-order", sample, "--output", "order.npy", "--k", 2, "-q")
    common = ["run", "-q", "--k", "2", "--threshold", "0.4", sample, "--scheme"]
    plain, ordered = neardup(*common, "prefix"), neardup(*common, "prefix:token_order=order.npy")
    assert plain.returncode == ordered.returncode == Exit.SUCCESS
    with_similarity = [
        [json.loads(line)["similarity"] for line in done.stdout.splitlines()] for done in (plain, ordered)
    ]
    assert len(with_similarity[0]) >= 2
    assert with_similarity[0] == with_similarity[1]


def test_an_order_can_be_learned_where_the_settings_name_it_already(neardup, sample, tmp_path):
    """The settings may name the file that the command writes."""
    (tmp_path / "neardup.toml").write_text('scheme = "prefix:token_order=order.npy"\n')
    assert neardup("learn-order", sample, "--output", "order.npy", "--k", 2).returncode == Exit.SUCCESS
    assert len(read_order(str(tmp_path / "order.npy")).tokens) >= 1


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, Failure, "cannot read the token order in order.npy: No such file"),
        (b"", ConfigError, "order.npy holds no NumPy array: make one with neardup learn-order"),
        (b"text", ConfigError, "order.npy holds no NumPy array"),
        (np.array([1.5]), ConfigError, "of float64 cannot be used"),
        (np.array([{}], object), ConfigError, "order.npy holds no NumPy array"),
        (np.array([7, 7], np.uint64), ConfigError, "stands twice"),
    ],
)
def test_a_file_that_holds_no_order_is_refused(monkeypatch, tmp_path, content, error, message):
    """The message names the error; the program runs no code from the file."""
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        (tmp_path / "order.npy").write_bytes(content)
    elif content is not None:
        np.save("order.npy", content, allow_pickle=True)
    with pytest.raises(error, match=message):
        load({"scheme": "prefix:token_order=order.npy"})


def test_an_order_that_cannot_be_written_is_reported_before_anything_is_read(neardup, sample):
    """The command prints one sentence and leaves no file behind."""
    done = neardup("learn-order", sample, "--output", "no/order.npy")
    assert done.returncode == Exit.OUTPUT
    assert done.stderr.startswith(b"neardup: cannot write the token order to no/order.npy: No such file")


def test_a_file_stays_as_it_was_until_the_new_one_is_whole(tmp_path):
    """If the command ends early, only the old order remains."""
    path = tmp_path / "order.npy"
    with OutputFile(str(path)) as file:
        write_order(file, np.array([1], np.uint64))
    with pytest.raises(RuntimeError), OutputFile(str(path)):
        raise RuntimeError
    assert read_order(str(path)).tokens.tolist() == [1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["order.npy"]


def test_counting_in_parts_gives_the_counts_of_one_pass(monkeypatch, sample, tmp_path):
    """The result is the same for merges of any size."""
    monkeypatch.setattr(Stop, "install", lambda self: None)
    found = []
    for tokens in (1, 1 << 22):
        monkeypatch.setattr(token_order, "_TOKENS_A_MERGE", tokens)
        settings = load({"scheme": "prefix", "k": 1}, kind=order.OrderSettings)
        output = str(tmp_path / f"{tokens}.npy")
        assert (
            order.learn(LearnOrderOptions([str(sample)] * 3, output=output, order_tokens=9, quiet=True), settings)
            == Exit.SUCCESS
        )
        found.append(read_order(output).tokens.tolist())
    assert found[0] == found[1]
    assert len(found[0]) == 7


@pytest.fixture
def templates(tmp_path):
    """Sixty texts that share half of their words, and two that are near-duplicates."""
    shared = " ".join(f"frame{n}" for n in range(30))
    texts = [f"{shared} {' '.join(f'own{i}x{n}' for n in range(30))}" for i in range(60)]
    texts.append(texts[7] + " more")
    path = tmp_path / "templates.jsonl"
    path.write_text("".join(json.dumps({"id": f"t{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
    return path


@pytest.mark.parametrize("command", ["run", "batch"])
def test_a_run_without_an_order_learns_one_from_its_first_documents_and_says_so(neardup, templates, command):
    """It finds the pairs of a run in the order of hashes, and the summary names the order."""
    done = neardup(command, templates, "--scheme", "prefix")
    assert [json.loads(line)["newer"] for line in done.stdout.splitlines()] == ["t60"]
    assert b"learned from the first 61 documents" in done.stderr
    kept = neardup(command, templates, "--scheme", "prefix", "--keep", "window")
    assert [json.loads(line)["newer"] for line in kept.stdout.splitlines()] == ["t60"]
    assert b"indexes by the hashes of tokens" in kept.stderr


def test_a_learned_order_is_read_from_a_pipe_too(neardup, templates):
    """The run matches the documents that it read for learning like all others."""
    done = neardup("run", "--scheme", "prefix", "-", stdin=templates.read_bytes())
    assert [json.loads(line)["newer"] for line in done.stdout.splitlines()] == ["t60"]
    assert b"documents: 61\n" in done.stderr


def test_workers_refuse_to_start_without_an_order():
    """The sentence names the command that makes one."""
    with pytest.raises(ConfigError, match="make one with neardup learn-order"):
        load_stream({"scheme": "prefix", "window_seconds": 60.0})
    assert load_stream({"scheme": "prefix"}, window=False).scheme == "prefix"
