"""Canaries in messages of ``signed``: they come back as they were, and readers of rows do not see them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from neardup import Config, Document, Signer
from neardup.pairs.window_message import WireError
from neardup_workers.doing.stages.canary_rows import CanaryRows, decode_canaries, encode_canaries, join_canaries
from neardup_workers.doing.stages.canary_writer import CanaryWriter
from neardup_workers.outside.topics.columns import encode_columns

CONFIGS = {"sketches": Config(), "exact": Config(verify="exact", threshold=0.7)}


def written(config: Config, count: int = 40) -> CanaryRows:
    """The canaries of a step, of every second document."""
    rng, writer = random.Random(1), CanaryWriter(config, 2)
    documents = [
        Document(f"d{n}", " ".join(f"w{rng.randrange(900)}" for _ in range(30 + n)), float(n)) for n in range(count)
    ]
    batch = Signer(config).sign(documents).batch
    writer.begin(1.0)
    writer.take(documents, np.arange(count), batch, np.arange(count) + 7)
    rows = writer.end()
    assert rows is not None
    return rows


def columns(rows: CanaryRows) -> list[np.ndarray]:
    originals, copies, similarities = rows.probes
    return [rows.places, *originals, *copies, similarities]


@pytest.mark.parametrize("name", CONFIGS)
def test_canaries_come_back(name: str) -> None:
    """With evidence of fixed width, and with sets of elements; joined as they were apart."""
    config = CONFIGS[name]
    rows, fingerprint = written(config), config.signing_fingerprint
    read = decode_canaries(encode_canaries(rows, fingerprint), fingerprint, config.plan.width)
    for was, now in zip(columns(rows), columns(read), strict=True):
        assert np.array_equal(was, now)
    n = len(rows.places)
    halves = join_canaries([rows.at(np.arange(n // 2)), rows.at(np.arange(n // 2, n))])
    assert all(np.array_equal(a, b) for a, b in zip(columns(rows), columns(halves), strict=True))


def test_what_are_no_canaries_is_refused() -> None:
    """Columns that do not fit each other, another width, another generation: a sentence, and no array."""
    config = CONFIGS["sketches"]
    fingerprint, width = config.signing_fingerprint, config.plan.width
    data = encode_canaries(written(config), fingerprint)
    with pytest.raises(WireError, match="different lengths"):
        decode_canaries(data, fingerprint, width + 1)
    with pytest.raises(WireError, match="cannot be read under"):
        decode_canaries(data, fingerprint[::-1], width)
    empty = [np.empty(0, np.uint8)] * 12
    short = np.frombuffer(encode_columns(b"NDUC", [np.zeros(1, np.int64), *empty[1:]], fingerprint), np.uint8)
    with pytest.raises(WireError, match="different lengths"):
        decode_canaries(short, fingerprint, width)


def test_a_step_that_is_aborted_leaves_no_original() -> None:
    """Its documents may come by another signer, and its canaries were never in the log."""
    config = CONFIGS["sketches"]
    document = [Document("a", "some words of a text", 1.0)]
    batch = Signer(config).sign(document).batch
    writer = CanaryWriter(config, 1)
    for place in (5, 6):
        writer.begin(1.0)
        writer.take(document, np.arange(1), batch, np.array([place]))
        rows = writer.end()
        assert rows is not None
        assert rows.places.tolist() == [place]
        writer.undo()


def test_a_removed_document_is_no_original() -> None:
    """Neither one of the step of its removal, nor one of an earlier step."""
    config, writer = CONFIGS["sketches"], CanaryWriter(CONFIGS["sketches"], 1)
    seen = []
    for step, removed in enumerate([b"b1", b"a0", b"c2"]):
        documents = [Document(f"{letter}{step}", f"some words of {letter}{step}", 1.0) for letter in "abc"]
        writer.begin(1.0)
        writer.take(documents, np.arange(3), Signer(config).sign(documents).batch, 10 * step + np.arange(3))
        writer.remove(removed)
        rows = writer.end()
        assert rows is not None
        seen.append(set(rows.places.tolist()))
    assert seen[0] <= {0, 1, 2}
    assert 0 not in seen[1] | seen[2]
    assert 22 not in seen[2]
