"""Every scheme as workers: a signer and matchers of two partitions find what one process finds."""

from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np
import pytest
from cases import CASES, PARTIAL, SKETCHED, long_stream, rating_stream, token_stream, url_stream
from shell_harness import Bench, settings_of

from stream import Deduplicator, Document
from stream.schemes import SCHEMES
from workers.process.exits import Exit

# Of the schemes of other things than sets each of their cases; and those of sets that have most of their own.
OTHERS = set(SCHEMES) - {*SKETCHED, *PARTIAL}
ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (case.stream, case.settings) for name, case in CASES.items() if case.settings.get("scheme") in OTHERS},
    **{scheme: (long_stream, {"scheme": scheme}) for scheme in ("permutation", *PARTIAL)},
    "exact": (long_stream, {"verify": "exact", "shingle_bytes": 4}),
    "urls": (url_stream, {"shingles": "urls", "threshold": 0.6, "recall": 0.8}),
    "tokens": (token_stream, {"shingles": "tokens", "verify": "exact"}),
    "stars": (rating_stream, {"shingles": "tokens", "ratings": "stars", "measure": "jaccard_bag"}),
    "containment": (long_stream, {"verify": "exact", "measure": "containment"}),
    "buckets shared": (long_stream, {"buckets_shared_min": 2}),
}


def usable(documents: list[Document], settings: dict[str, Any]) -> list[Document]:
    """Those that are not refused, with times that all differ."""
    dedup = Deduplicator(settings_of(**settings))
    dedup.process(documents)
    refused = {refusal.place for refusal in dedup.refusals}
    kept = [document for i, document in enumerate(documents) if i not in refused]
    return [document._replace(timestamp=1_600_000_000.0 + i) for i, document in enumerate(kept)]


def brought(document: Document) -> dict[str, Any]:
    """What a document brings beside id and text, as it stands in JSON."""
    if document.vector is not None:
        vector = np.asarray(document.vector)
        packed = vector.dtype == np.uint8  # bits
        return {"vector": base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist()}
    return {"tokens": document.tokens} if document.tokens else dict(document.fields or {})


def test_every_scheme_is_among_them() -> None:
    """The default and minhash have tests of their own."""
    tried = {settings.get("scheme", "one_permutation") for _, settings in ROWS.values()}
    assert tried | {"minhash"} == set(SCHEMES)


@pytest.mark.parametrize("name", ROWS)
def test_workers_find_what_one_process_finds(name: str) -> None:
    """Every pair once, over the wire and two partitions; copies as pairs of their own."""
    stream, settings = ROWS[name]
    documents = usable(stream(random.Random(1), 60, copies=0.1), settings)
    bench = Bench(**settings)
    for document in documents:
        bench.add((document.id, document.text), **brought(document), timestamp=document.timestamp)
    expected = sorted(tuple(sorted(pair[:2])) for pair in Deduplicator(bench.settings).process(documents))
    assert len(expected) > 10
    assert bench.sign(len(documents)) == Exit.SUCCESS
    assert bench.match(len(expected)) == Exit.SUCCESS
    assert bench.run("match", lambda: bench.has_taken_all("match")) == Exit.SUCCESS
    assert bench.pairs() == expected
