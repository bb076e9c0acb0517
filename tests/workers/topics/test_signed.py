"""The messages of ``signed``: any rows come back as they were, and what is no such message is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cases import Case, every_case
from verdict_oracle import said_of

from neardup import Signer
from neardup.pairs.batches import Batch, id_columns, removal_batch
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import Shard
from neardup.pairs.window_message import WireError
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT, JUDGED, REFUSAL, REMOVAL, is_document
from neardup.window.steps import step
from neardup_workers.outside.topics import signed
from neardup_workers.outside.topics.arrivals import NOT_JUDGED
from neardup_workers.outside.topics.shown import encode_shown
from neardup_workers.outside.topics.signed import (
    APART,
    TOGETHER,
    SignedRows,
    decode_signed,
    encode_signed,
    growth_row,
    join_signed,
)

FINGERPRINT = "0123456789abcdef" * 2


def rows_of(batch: Batch, rng: random.Random, *, ranks: bool, judged: float = 0.0) -> SignedRows:
    """The documents of a batch, some of them judged, with removals of earlier ids and refusals between them."""
    names = batch.ids_at(np.arange(batch.size))
    kinds: list[int] = []
    ids: list[bytes] = []
    for n, name in enumerate(names):
        kinds.append(int(JUDGED if rng.random() < judged else DOCUMENT))
        ids.append(name.encode())
        for kind, chance in ((REFUSAL, 0.1), (REMOVAL, 0.1)):
            if rng.random() < chance:
                kinds.append(int(kind))
                ids.append(rng.choice(names[: n + 1]).encode() if kind == REMOVAL else b"")
    n = len(kinds)
    values = np.array([rng.random() if ranks and rng.random() < 0.5 else NO_RANK for _ in range(n)])
    columns = id_columns(ids)
    shown = encode_shown([("wire", None, f"Title {n}") if ranks and n % 3 else (None,) * 3 for n in range(batch.size)])
    said = {
        n << 20: rng.choice((TOGETHER, APART)) + rng.choice(names).encode()
        for n, kind in enumerate(kinds)
        if kind == JUDGED
    }
    return SignedRows(
        np.array(kinds, np.uint8), np.arange(n) << 20, *columns, values, batch.times, batch.contents, batch.evidence,
        shown, judged=said or NOT_JUDGED,
    )  # fmt: skip


def columns_of(rows: SignedRows) -> list[np.ndarray]:
    return [*rows[:-4], *rows.evidence, *(rows.shown or ())]


@every_case
def test_rows_of_every_kind_come_back(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one message and in many, with and without ranks and sources: the same columns and judgements, and messages
    within their bounds. Arrivals have them, too."""
    rng = random.Random(5)
    config = case.config()
    batch = Signer(config).sign(case.stream(rng, 120, versions=0.1)).batch
    for ranks, bound in ((False, 1 << 20), (True, 3_000), (True, 1)):
        monkeypatch.setattr(signed, "BYTES_MAX", bound)
        rows = rows_of(batch, rng, ranks=ranks, judged=0.1 if ranks else 0.0)
        messages = list(encode_signed(rows, FINGERPRINT))
        parts = [decode_signed(message, FINGERPRINT, config.plan.width) for message in messages]
        for was, now in zip(columns_of(rows), columns_of(join_signed(parts)), strict=True):
            assert np.array_equal(was, now, equal_nan=was.dtype.kind == "f")
        assert rows.judged == join_signed(parts).judged == rows.arrivals().judged
        assert bool(rows.judged) == ranks
        said, held = said_of(rows.arrivals().shown, rows.size), is_document(rows.kinds)
        assert [said[i] for i in np.flatnonzero(held)] == said_of(rows.shown, batch.size)
        assert not any(said[i] for i in np.flatnonzero(~held))
        assert bound != 1 << 20 or len(messages) == 1
        assert bound > 1 or len(messages) == rows.size


@every_case
def test_a_shard_reads_the_documents_and_the_removals_of_a_message(case: Case) -> None:
    """A table finds in the rows of a message what it finds when documents and removals come one by one."""
    rng = random.Random(6)
    config = case.config()
    rows = rows_of(Signer(config).sign(case.stream(rng, 150, copies=0.4)).batch, rng, ranks=False)
    (message,) = encode_signed(rows, FINGERPRINT)
    batch, removals, places = decode_signed(message, FINGERPRINT, config.plan.width).stream()
    assert rows.kinds[places[removals]].tolist() == [REMOVAL] * int(removals.sum())
    whole, single = Matcher(config, shard=Shard(0, 2)), Matcher(config, shard=Shard(0, 2))
    with step(whole.table):
        found = [pair for part in whole.slices(batch, removals=removals) for pair in part.matches.pairs()]
    one_by_one = []
    for row in range(rows.size):
        part = rows.select(row, row + 1)
        with step(single.table):
            if part.kinds[0] == DOCUMENT:
                one_by_one += single.match(part.documents()).pairs()
            elif part.kinds[0] == REMOVAL:
                single.remove(part.ids.tobytes())
    assert found == one_by_one
    assert len(found) > 10
    assert whole.table.counts() == single.table.counts()


def test_a_document_takes_181_bytes_by_default() -> None:
    """Kind, place, time, content and sketch, and an id of 20 bytes; a message adds at most 200 bytes."""
    evidence = removal_batch([b"x" * 20] * 1_000, 126).evidence
    ids = id_columns([b"x" * 20] * 1_000)
    n = np.zeros(1_000, np.int64)
    contents = np.zeros((1_000, 2), np.uint64)
    rows = SignedRows(np.full(1_000, DOCUMENT, np.uint8), n, *ids, np.full(1_000, NO_RANK), n, contents, evidence)
    (message,) = encode_signed(rows, FINGERPRINT)
    assert 181_000 <= len(message) <= 181_200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-8], "truncated"),
        (lambda data: data[:10], "shorter than its header"),
        (lambda data: b"NDUP" + data[4:], "not of format NDUS"),
    ],
)
def test_what_is_no_message_is_refused(change: object, said: str) -> None:
    """Truncated data, another format: a sentence, and no array."""
    rows = rows_of(removal_batch([b"a", b"b"], 8), random.Random(1), ranks=False)
    (message,) = encode_signed(rows, FINGERPRINT)
    with pytest.raises(WireError, match=said):
        decode_signed(change(message), FINGERPRINT, 8)  # type: ignore[operator]
    with pytest.raises(WireError, match="different lengths"):
        decode_signed(message, FINGERPRINT, 4)
    with pytest.raises(WireError, match="cannot be read under"):
        decode_signed(message, FINGERPRINT[::-1], 8)
    strange = rows._replace(kinds=np.array([9] * rows.size, np.uint8), times=rows.times[:0], contents=rows.contents[:0])
    empty = removal_batch([], 8).evidence
    with pytest.raises(WireError, match="kind 9"):
        decode_signed(signed._encode(strange._replace(evidence=empty), FINGERPRINT), FINGERPRINT, 8)


def test_a_control_row_is_alone_in_its_message() -> None:
    """It has the two numbers of shards, no document, and no place in what a table reads; old readers refuse it."""
    (message,) = encode_signed(growth_row(2, 1 << 20, 8), FINGERPRINT)
    rows = decode_signed(message, FINGERPRINT, 8)
    assert rows.growth == (2, 1 << 20)
    assert rows.documents().size == rows.stream()[0].size == 0
    documents = rows_of(removal_batch([b"a", b"b"], 8), random.Random(1), ranks=False)
    assert documents.growth is None
    both = signed._encode(signed.join_signed([documents, rows]), FINGERPRINT)
    with pytest.raises(WireError, match="kind 3: update the program"):
        decode_signed(both, FINGERPRINT, 8)
