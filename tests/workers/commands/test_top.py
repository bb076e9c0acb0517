"""``--top K`` ranks the most similar documents of each document, in the commands ``run``, ``probe`` and ``batch``."""

from __future__ import annotations

import json

import orjson
import pytest
from command import forked, neardup  # noqa: F401 - fixtures

from neardup import Config, Deduplicator, Document
from neardup.pairs.signing import Signer
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.batch.corpus import Corpus

WORDS = [f"word{n}" for n in range(200)]


def story(first: int, changed: int) -> str:
    """Sixty words; the last ones are replaced."""
    return " ".join([*WORDS[first : first + 60 - changed], *WORDS[100 : 100 + changed]])


DOCUMENTS = {"a": story(0, 0), "b": story(0, 2), "c": story(0, 6), "d": story(0, 2), "e": "quite another text"}


@pytest.fixture
def news(tmp_path):
    """Five documents; b and d have equal contents."""
    path = tmp_path / "news.jsonl"
    path.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in DOCUMENTS.items()))
    return path


def nearest_of(done):
    """Each document with the ids of its neighbours, from the output of a command."""
    assert done.returncode == 0, done.stderr
    lines = [orjson.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        for neighbour in line["nearest"]:
            assert neighbour.keys() == {"id", "similarity", "probability"}
            assert 0 <= neighbour["probability"] <= 1
        similar = [neighbour["similarity"] for neighbour in line["nearest"]]
        assert similar == sorted(similar, reverse=True)
    return {line["id"]: [neighbour["id"] for neighbour in line["nearest"]] for line in lines}


def test_run_ranks_earlier_documents_and_batch_all(neardup, news):  # noqa: F811
    """Each document has its own line, even without a neighbour; equal contents count as one neighbour."""
    done = neardup("run", "--top", 2, "--threshold", "0.6", "--verify", "exact", news)
    assert nearest_of(done) == {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["b", "a"], "e": []}
    assert b"note: run looks back only" in done.stderr
    done = neardup("batch", "--top", 2, "--threshold", "0.6", "--verify", "exact", news)
    assert b"looks back" not in done.stderr
    batch = nearest_of(done)
    assert batch == {"a": ["d", "c"], "b": ["d", "a"], "c": ["d", "a"], "d": ["b", "a"], "e": []}


def test_probe_ranks_the_documents_of_an_index(neardup, news, tmp_path):  # noqa: F811
    """Best first, at most K of them."""
    query = tmp_path / "query.jsonl"
    query.write_text(json.dumps({"id": "q", "text": story(0, 0) + " more"}) + "\n")
    found = nearest_of(neardup("probe", "--index", news, "--top", 1, "--threshold", "0.6", "--verify", "exact", query))
    assert found == {"q": ["a"]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--candidates"], "--candidates is about pairs"),
        (["--overview"], "--overview is about pairs"),
        (["--scheme", "records"], "cannot rank"),
    ],
)
def test_options_that_mean_nothing_with_top_are_refused(neardup, news, options, sentence):  # noqa: F811
    """A ranking has neither candidates nor an overview of pairs; records have no similarity for a search."""
    done = neardup("run", "--top", 3, *options, news)
    assert done.returncode == 2
    assert sentence in done.stderr.decode()


@pytest.mark.parametrize("window", [None, 25.0])
def test_batch_names_the_newest_copy_that_lies_within_the_window(tmp_path, window):
    """Every document is compared with each content in its window, through any copy there, but never with a version of
    its own id.
    """
    texts = [story(0, 0), story(0, 2), story(0, 2), story(0, 4), story(0, 2), story(0, 0)]
    documents = [Document(f"d{n % 5}", text, 10.0 * n) for n, text in enumerate(texts)]
    settings = Settings(threshold=0.6, verify="exact", window_seconds=window)
    with Corpus(tmp_path, settings) as corpus:
        corpus.add(Signer(settings).sign(documents).batch)
        corpus.find()
        found = [neighbours for part in corpus.nearest(10) for neighbours in part.neighbours]
    scored = Deduplicator(Config(threshold=0.6, verify="exact"))
    scored.process([Document(text, text) for text in texts])
    for one, neighbours in zip(documents, found, strict=True):
        alike = {n.id: n.similarity for n in scored.nearest([Document("", one.text)], 10)[0]}
        newest = {
            other.text: other.id
            for other in documents
            if other.id != one.id and abs(other.timestamp - one.timestamp) <= (window or 1e9)
        }
        wanted = {newest[text]: pytest.approx(alike[text]) for text in newest}
        assert {n.id: n.similarity for n in neighbours} == wanted
