"""Documents of plain types, which are read in one compiled call: as the way for documents of any types reads them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from neardup import Config, Document, Matcher, Signer
from neardup.features.texts.reading import raw_texts_of
from neardup.pairs.pipeline import match_step, match_steps
from neardup.pairs.shards import stream_rows
from neardup.pairs.signing import PlainReader, held_documents
from neardup.pairs.values import admitted

TEXTS = ["plain", "", "\u0434\u0432\u0430", "n\u00e9", "\U0001f600 smile", "\ud800", "x" * 3000]
TIMES = [None, 1_767_225_600.25, -0.5, math.nan, 4e12]


def documents(count: int, **more: Any) -> list[Document]:
    return [Document(f"id {n}", TEXTS[n % len(TEXTS)], TIMES[n % len(TIMES)], **more) for n in range(count)]


def reader_of(separate: bool) -> PlainReader:
    return PlainReader(Config(collection_field="collection" if separate else None))


@pytest.mark.parametrize("count", [0, 1, 2, 500])
@pytest.mark.parametrize("separate", [False, True])
def test_plain_documents_are_read_as_any_are(count: int, separate: bool) -> None:
    """Ids, times and the places of texts are equal, with collections too."""
    given = documents(count) + documents(count, **({"collection": "news"} if separate else {}))
    sheet = reader_of(separate).read(given)
    assert sheet is not None
    ids, times, refused = admitted(given, separate=separate)
    assert not refused
    batch, documents_, held = sheet.batch, held_documents(sheet, 1000), raw_texts_of(given, 1000)
    assert (batch.ids.tolist(), batch.id_starts.tolist()) == (ids.data.tolist(), ids.starts.tolist())
    assert batch.times.tolist() == times.tolist()
    assert [column.tolist() for column in documents_.held.raw] == [column.tolist() for column in held.raw]
    assert documents_.held[1:3] == held[1:3]
    assert list(documents_) == given


def test_long_ids_have_room() -> None:
    """Ids of up to 1,024 bytes are read, however many there are; a longer one is not plain."""
    given = [Document(str(n).zfill(1024), "text") for n in range(300)]
    reader = reader_of(False)
    assert reader.read([Document("x" * 1025, "text")]) is None
    sheet = reader.read(given)
    assert sheet is not None
    assert sheet.batch.ids.tobytes().decode() == "".join(document.id for document in given)


def test_texts_that_are_read_again_have_the_room_of_what_was_given() -> None:
    """Next to one without a shingle: normalised they are shorter, and were written beyond that room."""
    sheet = PlainReader(Config()).read([Document("a", "one  two   three"), Document("b", "  ")])
    assert sheet is not None
    assert sheet.fewest == 0
    assert held_documents(sheet, 100).held.characters == 18


class _Text(str):
    """A string of another type."""

    __slots__ = ()


class _Named(Document):
    """A document of another type."""


@pytest.mark.parametrize(
    "odd",
    [
        Document("\u00e9", "text"), Document(_Text("a"), "text"), Document("a", _Text("text")), _Named("a", "text"),
        Document("a", "text", 5), Document("a", "text", np.float64(5)), Document("a", "text", True),  # type: ignore[arg-type]
        Document("a", "text", 1e30), Document("a", "text", math.inf), Document("a", None),  # type: ignore[arg-type]
        Document(7, "text"), Document("a", "text", collection="news"), ("a", "text"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_is_not_plain_is_read_otherwise(odd: Any) -> None:
    """Alone and behind plain ones; and the plain ones are signed as without it."""
    reader = reader_of(False)
    assert reader.read([odd]) is None
    assert reader.read([Document("b", "text"), odd]) is None
    if isinstance(odd, Document):
        signer, plain = Signer(Config()), [Document("b", "some text"), Document("c", "more text")]
        signed, alone = signer.sign([plain[0], odd, plain[1]]), signer.sign(plain).batch
        rows = [0, signed.batch.size - 1]
        assert signed.batch.fixed[rows].tolist() == alone.fixed.tolist()
        assert signed.batch.contents[rows].tolist() == alone.contents.tolist()


@pytest.mark.parametrize("odd", ["\u00e9", "a\x1fb", 5])
def test_a_collection_that_is_not_plain_is_read_otherwise(odd: Any) -> None:
    """What is not ASCII, holds the character that ends a collection, or is no string."""
    reader = reader_of(True)
    assert reader.read([Document("a", "text", collection="news")]) is not None
    around, room = np.zeros(3 << 12, np.uint8), slice(1 << 12, (1 << 12) + 1024)
    sheet = reader.read([Document("a", "text")])
    assert sheet is not None
    sheet.columns = sheet.columns._replace(ids=around[room])
    sheet.scratch = None
    reader.idle.append(sheet)
    assert reader.read([Document("a", "text", collection=odd)]) is None
    assert not around[: room.start].any(), "written before the ids"
    assert not around[room.stop :].any(), "written behind the ids"


def test_a_batch_stays_as_it_is_when_the_next_one_is_signed() -> None:
    """The columns of a batch are its own, and threads that share a signer have columns of their own."""
    signer = Signer(Config())
    given = [[Document(f"{n} {m}", f"text number {n} of {m}") for n in range(m)] for m in (1, 1, 3, 3, 200, 200)]
    apart = [[column.tolist() for column in Signer(Config()).sign(part).batch] for part in given]
    with ThreadPoolExecutor(4) as threads:
        signed = list(threads.map(signer.sign, given * 20))
    assert [[column.tolist() for column in one.batch] for one in signed] == apart * 20


@pytest.mark.parametrize("count", [1, 3])
def test_rows_that_a_signer_makes_are_those_of_the_batch(count: int) -> None:
    """Also where ids of another length follow, and where the times of the batch change, which then has none."""
    signer = Signer(Config())
    for length in (1, 400, 1500, 7):
        signed = signer.sign(
            [Document(f"{n}".zfill(length // 2), f"text {n} of {length}", 1.5 * n) for n in range(count)]
        )
        made, expected = signed.rows, stream_rows(signed.batch, Config())
        assert made is not None
        for one, other in zip(made.items, expected.items, strict=True):
            assert one[: len(other)].tolist() == other.tolist()
        assert made.batch.ids_at(np.arange(count)) == signed.batch.ids_at(np.arange(count))
        assert signed._replace(batch=signed.batch._replace(times=signed.batch.times + 1)).rows is None
        signer.fill_again(signed)


def test_rows_can_be_made_where_documents_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matcher reads them instead of making its own, as long as the batch is the same."""
    documents = [Document(f"{n}", f"a text {'é' * (n % 2)} of number {n // 3}") for n in range(9)]
    signed = Signer(Config()).sign(documents)
    assert signed.rows is None, "not all are ASCII"
    made = signed.with_rows(Config())
    assert made.rows is not None
    for one, other in zip(made.rows.items, stream_rows(signed.batch, Config()).items, strict=True):
        assert one.tolist() == other.tolist()
    assert made.with_rows(Config()) is made
    assert made._replace(batch=signed.batch._replace(times=signed.batch.times + 1)).rows is None
    expected, matcher = match_step(Matcher(Config()), signed.batch).pairs(), Matcher(Config())
    monkeypatch.setattr(matcher, "rows", None)
    assert [pair for part in match_steps(matcher, made.batch, made.rows) for pair in part.matches.pairs()] == expected


def test_what_is_given_back_is_filled_again() -> None:
    """By the next call of the same size; a text that is not ASCII, or is refused, takes columns of its own."""
    signer, texts = Signer(Config()), ["one text", "n\u00e9", "a"]
    given = [[Document(f"{n:03}", text)] for n, text in enumerate(texts)]
    apart = [[column.tolist() for column in Signer(Config()).sign(part).batch] for part in given]
    first = signer.sign(given[0])
    signer.fill_again(first)
    wide = signer.sign(given[1])
    assert [column.tolist() for column in wide.batch] == apart[1]
    again = signer.sign(given[0])
    signer.fill_again(again)
    last = signer.sign(given[2])
    assert last.batch is again.batch
    assert [column.tolist() for column in last.batch] == apart[2]
    assert signer.sign([Document("d", "")]).refusals
    assert [column.tolist() for column in wide.batch] == apart[1]


def test_what_is_never_given_back_leaves_nothing_behind() -> None:
    """A look is not filled again: no scratch is made for each, and what was signed keeps no long text."""
    signer = Signer(Config())
    kept = [signer.sign([Document("a", "some words of a text " * words)]) for words in (9, 9, 9, 9_999, 9)]
    assert len(signer._plain._scratch) == 1
    assert [signed.sheet is not None and signed.sheet.kept.value is None for signed in kept] == [
        False, False, False, True, False,
    ]  # fmt: skip
