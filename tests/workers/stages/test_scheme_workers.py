"""Every scheme as workers: a signer and matchers of two shards find what one process finds."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from quick_parameters import quick_first
from scheme_streams import ROWS, brought, usable
from shell_harness import Bench

from neardup import Deduplicator, Signer
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.process.exits import Exit


def test_every_scheme_is_among_them() -> None:
    """Other tests cover the default scheme and minhash."""
    tried = {settings.get("scheme", "one_permutation").partition(":")[0] for _, settings in ROWS.values()}
    assert tried | {"minhash"} == set(SCHEMES)


@pytest.mark.parametrize("name", quick_first([*ROWS], 10))
def test_workers_find_what_one_process_finds(name: str) -> None:
    """Every pair occurs once, over the wire and two shards; copies make pairs too.

    Of two contents that one process pairs once, each shard may find a pair: the second one is with a later copy.
    """
    stream, settings = ROWS[name]
    bench = Bench(**settings)
    documents = usable(stream(random.Random(1), 60, copies=0.1), bench.settings)
    for document in documents:
        bench.add((document.id, document.text), **brought(document), timestamp=document.timestamp)
    expected = sorted(tuple(sorted(pair[:2])) for pair in Deduplicator(bench.settings).process(documents))
    assert len(expected) > 10
    assert bench.sign(len(documents)) == Exit.SUCCESS
    assert bench.match(len(expected)) == Exit.SUCCESS
    assert bench.run("match", lambda: bench.has_taken_all("match")) == Exit.SUCCESS
    found = Counter(bench.pairs())
    assert set(found.values()) == {1}
    assert found.keys() >= set(expected)
    batch = Signer(bench.settings).sign(documents).batch
    content = dict(zip((document.id for document in documents), map(bytes, batch.contents), strict=True))
    pairs = Counter(frozenset(map(content.__getitem__, pair)) for pair in found)
    known = Counter(frozenset(map(content.__getitem__, pair)) for pair in expected)
    assert pairs.keys() == known.keys()
    assert all(count <= known[pair] + (len(pair) == 2) for pair, count in pairs.items())
