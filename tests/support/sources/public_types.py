"""A user of the library as the type checker sees it: every public name, with the type that it has.

The type checker reads this file with ``disallow_any_expr``: an expression of type ``Any`` is an error.
``test_public_types.py`` runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np

from neardup import (
    CapacityError,
    Column,
    Config,
    ConfigError,
    Deduplicator,
    Document,
    Explanation,
    Matcher,
    NeardupError,
    Neighbour,
    Pair,
    Refusal,
    Signer,
    Verdict,
    load_window,
    save_window,
    sign_table,
)
from neardup.pairs.batches import Batch
from neardup.pairs.pair_rule import Matches
from neardup.pairs.signing import Signed
from neardup.schemes.interface import Plan
from neardup.schemes.theory.tuning import Tuning
from neardup.stories.arrow.columns import column_of
from neardup.stories.arrow.signatures import batch_of_signatures
from neardup.stories.arrow.tables import ArrowStream, ArrowTable

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."


def use_a_configuration() -> Config:
    """Settings, the resolved values, and the fingerprints."""
    config = Config(threshold=0.7, recall=0.9, window_seconds=86_400, scheme="one_permutation", k=None)
    assert_type(config.threshold, float)
    assert_type(config.k, int | None)
    assert_type(config.languages, tuple[str, ...])
    assert_type(config.plan, Plan)
    assert_type(config.plan.width, int)
    assert_type(config.tuning, Tuning)
    assert_type(config.tuning.bands, int)
    assert_type(config.signing_fingerprint, str)
    assert_type(config.model_copy(update={"seed": 2}), Config)
    return config


def use_one_process(config: Config) -> list[Pair]:
    """Documents of every kind go in, pairs and refusals come out."""
    documents = [
        Document("a", TEXT, 1.0),
        Document(id="b", tokens=["x", 1]),
        Document("c", vector=[0.5, 1.0]),
        Document("d", fields={"name": "x"}),
        Document("e", tokens={"x": 4.5}),
        Document("f", vector=b"\x01"),
        Document("g", vector=np.zeros(2, np.float32)),
        Document("h", vector=np.zeros(2, np.uint8)),
    ]
    dedup = Deduplicator(config, candidates=True)
    pairs = dedup.process(iter(documents))
    assert_type(pairs, list[Pair])
    assert_type(dedup.probe(documents), list[Pair])
    assert_type(dedup.nearest(documents, 3), list[list[Neighbour]])
    explanation = dedup.explain("a", documents[0])
    assert_type(explanation, Explanation)
    assert_type(explanation.similarity, float | None)
    assert_type([passage.text for passage in explanation.passages], list[str])
    assert_type(dedup.remove("a"), int)
    assert_type(dedup.counts(), dict[str, int])
    assert_type(dedup.refusals, list[Refusal])
    for refusal in dedup.refusals:
        assert_type(refusal.position, int)
        assert_type(refusal.reason, str)
    for pair in pairs:
        assert_type(pair.older, str)
        assert_type(pair.similarity, float)
        assert_type(pair.buckets, int)
    return pairs


def use_the_verdicts(config: Config) -> list[Verdict]:
    """Decisions and their fields."""
    verdicts = Deduplicator(config).decide([Document("a", TEXT), Document("b", TEXT)])
    assert_type(verdicts, list[Verdict])
    for verdict in verdicts:
        assert_type(verdict.status, str)
        assert_type(verdict.duplicate_of, str | None)
        assert_type(verdict.similarity, float | None)
        assert_type(verdict.cluster, int | None)
    return verdicts


def use_the_columns(config: Config, strings: ArrowStream) -> Signed:
    """Documents that are columns."""
    texts = Column(np.zeros(1, np.uint8), np.zeros(2, np.int64))
    signed = Signer(config).sign_columns(texts, np.zeros(1, np.float64), texts)
    assert_type(signed, Signed)
    assert_type(column_of(strings), Column)
    return signed


def use_a_table(config: Config, table: ArrowStream) -> list[dict[str, object]]:
    """Rows of a data frame."""
    verdicts = Deduplicator(config).decide_table(table, id_field="key", timestamp_unit="ms")
    assert_type(verdicts, ArrowTable)
    assert_type(verdicts.num_rows, int)
    assert_type(Deduplicator(config).process_table(verdicts, text_field="id"), ArrowTable)
    signed = sign_table(table, config, id_field="key")
    assert_type(signed, ArrowTable)
    assert_type(batch_of_signatures(signed, config, id_field="key"), Batch)
    return verdicts.to_pylist()


def use_the_halves(config: Config) -> Matches:
    """A signer and a matcher, as workers use them."""
    signed = Signer(config).sign([Document("a", TEXT), Document("b", TEXT)])
    assert_type(signed, Signed)
    assert_type(signed.batch, Batch)
    assert_type(signed.refusals, list[Refusal])
    matcher = Matcher(config)
    matcher.table.begin()
    matches = matcher.match(signed.batch)
    matcher.table.commit()
    assert_type(matches.older, list[str])
    assert_type(matches.pairs(), list[Pair])
    return matches


def use_a_window(config: Config, path: Path) -> Deduplicator:
    """A window in a file, and the deduplicator that continues it."""
    save_window(Deduplicator(config), path)
    assert_type(load_window(path, config), Deduplicator)
    return load_window(path, config)


def use_the_errors() -> str:
    """Every error of the library is one kind."""
    try:
        Config(threshold=2.0)
    except ConfigError as error:
        known: NeardupError = error
        return str(known)
    except CapacityError as error:
        return str(error)
    return ""
