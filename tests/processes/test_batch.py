"""``neardup batch`` against the stream: the same pairs over a corpus at rest, in bounded memory, and windows kept."""

from __future__ import annotations

import random

import pytest
from cases import CASES

from stream import Deduplicator
from stream.pipeline import Signer
from workers.batch import Corpus
from workers.settings import Settings

SCHEMES = [
    "one_permutation chars", "one_permutation stopwords", "exact, minhash in 4 bytes", "containment", "buckets shared",
    "prefix chars", "prefix bag of tokens", "identical", "identical positions", "vectors cosine", "vectors dot",
    "vectors l1", "records exact", "records shingled", "grid", "partial_minhash chars", "grouped, exact",
]  # fmt: skip


def batched(folder, settings, documents, *, size=37, **options):
    """What a corpus of these documents gives: its counts, its pairs."""
    folder.mkdir(exist_ok=True)
    signer = Signer(settings)
    with Corpus(folder, settings, **options) as corpus:
        for first in range(0, len(documents), size):
            corpus.add(signer.sign(documents[first : first + size]).batch)
        counts = corpus.find()
        return counts, [pair for matches in corpus.matches() for pair in matches.pairs()]


def streamed(settings, documents, **options):
    """What the stream gives: its counts, its pairs."""
    stream = Deduplicator(settings, **options)
    found = stream.process(documents)
    return stream.counts(), found


@pytest.mark.parametrize("window", [None, 40.0])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_corpus_gives_what_the_stream_gives(name, window, tmp_path):
    """Pairs with their order, similarities and buckets, candidates too, with copies, versions and times in disorder."""
    case = CASES[name]
    settings = Settings(**{**case.settings, "bucket_candidates_max": 2**20, "sign_threads": 2},
                        window_seconds=window, lateness_seconds=1e6)  # fmt: skip
    for number in range(3):
        rng = random.Random(number)
        documents = case.stream(rng, 150, versions=0.2, jitter=None if number == 0 else 30.0)
        if number == 2:
            documents = [x._replace(timestamp=None) if n < 9 or n % 7 == 0 else x for n, x in enumerate(documents)]
        wanted_counts, wanted = streamed(settings, documents, candidates=number == 1)
        counts, found = batched(tmp_path / str(number), settings, documents, candidates=number == 1)
        assert sorted(found) == sorted(wanted)
        assert counts.copies == wanted_counts["copies"]
        assert counts.candidates == wanted_counts["candidates"]
        assert len(wanted) > 3
