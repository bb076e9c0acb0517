"""The rows that a signer's step writes: one for each record, in order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neardup import Config, Signer
from neardup.pairs.json_lines import Fields
from neardup.stories.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.topics.places import (
    found_at,
    offsets_of,
    parse_place,
    parse_places,
    partitions_of,
    place_name,
)
from neardup_workers.outside.topics.signed import SignedRows, decode_signed
from neardup_workers.outside.transport.protocol import Record, RefusedBatch

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)
TOPICS = topic_names("", generation(CONFIG.signing_fingerprint, 4))
PLAN = SignPlan(CONFIG, Fields(), TOPICS, 1, 60.0, "earliest")
NOW_MS = 1_700_000_000_000


def record(partition: int, offset: int, value: object, key: str = "key") -> Record:
    data = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    return Record(partition, offset, NOW_MS + offset, key.encode(), data)


def read(value: bytes | None) -> SignedRows:
    return decode_signed(value or b"", CONFIG.signing_fingerprint, CONFIG.plan.width)


def step() -> list[Record]:
    """Two partitions in turns: documents, a refused one, a removal, a new version after it, a refused batch."""
    text = "some words that are to be read by all of them"
    return [
        record(1, 7, {"id": "a", "text": text}),
        record(0, 3, {"id": "b", "text": text + " twice"}),
        record(1, 9, b"{"),
        record(0, 4, None, "b"),
        record(0, 6, {"id": "b", "text": text + " again"}),
        Record(1, 14, NOW_MS, None, None, RefusedBatch(11, 70)),
    ]


def test_signed_has_a_row_for_each_record_in_its_order() -> None:
    """A row has kind, place, id, time and content; a refused batch has one row for each offset."""
    messages = [m for m in sign_records(step(), Signer(CONFIG), PLAN).messages if m.topic == TOPICS.signed]
    (message,) = messages
    rows = read(message.value)
    assert [place_name(place) for place in rows.places.tolist()] == [
        "1-7", "0-3", "1-9", "0-4", "0-6", "1-11", "1-12", "1-13", "1-14",
    ]  # fmt: skip
    assert rows.kinds.tolist() == [DOCUMENT, DOCUMENT, REFUSAL, REMOVAL, DOCUMENT, *[REFUSAL] * 4]
    names = [rows.ids[a:b].tobytes() for a, b in zip(rows.id_starts[:-1], rows.id_starts[1:], strict=True)]
    assert names == [b"a", b"b", b"", b"b", b"b", b"", b"", b"", b""]
    times = [(NOW_MS + offset) * 1000 for offset in (7, 3, 6)]
    assert rows.times.tolist() == times
    assert len({tuple(content) for content in rows.contents.tolist()}) == 3


@pytest.mark.parametrize(
    ("representative", "expected"),
    [("first", [None] * 4), ("longest", [9.0, 10.0, 17.0, 12.0]), ("stars", [2, None, 3.5, None])],
)
def test_rows_carry_the_rank_of_a_document(representative: str, expected: list[float | None]) -> None:
    """The length of its text, or the number in a field; a document without a finite number there has none."""
    written = [
        ("a", "some text", 2),
        ("b", "other text", "1e999"),
        ("c", "a text of its own", "3.5"),
        ("d", "another one.", {}),
    ]
    records = [record(0, i, {"id": id_, "text": text, "stars": stars}) for i, (id_, text, stars) in enumerate(written)]
    plan = PLAN._replace(representative=representative, fields=Fields(rank="stars"))
    messages = [m for m in sign_records(records, Signer(CONFIG), plan).messages if m.topic == TOPICS.signed]
    rows = read(messages[0].value)
    assert [None if np.isnan(rank) else rank for rank in rows.ranks.tolist()] == expected


@pytest.mark.parametrize("text", ["3-17", "0-0", f"4095-{2**47}"])
def test_a_place_is_read_back_from_its_text(text: str) -> None:
    """Partition and offset stay the same."""
    place = parse_place(text)
    assert place_name(place) == text
    places = np.array([place])
    assert (int(partitions_of(places)[0]), int(offsets_of(places)[0])) == tuple(map(int, text.split("-")))
    assert parse_places([text, "1-2", text]).tolist() == [place, parse_place("1-2"), place]


@pytest.mark.parametrize("text", ["", "3", "3-", "1-2-3", "1-a"])
def test_what_is_no_place_is_refused(text: str) -> None:
    """Alone, and between places."""
    for texts in ([text], ["1-2", text, "3-4"]):
        with pytest.raises(ValueError, match=r"invalid literal|of . places"):
            parse_places(texts)


def test_a_place_is_found_among_others_in_any_order() -> None:
    """What is not there has no index, also where there is nothing."""
    places, among = np.array([7, 3, 9, 1, 7]), np.array([9, 1, 7])
    assert found_at(places, among).tolist() == [2, -1, 0, 1, 2]
    assert found_at(places, among[:0]).tolist() == [-1] * 5


def test_many_rows_are_several_messages_in_order() -> None:
    """With ids of any length, no message comes near the limit of a broker."""
    records = [record(0, i, None, f"{i:06}" + "k" * 900) for i in range(3_000)]
    messages = sign_records(records, Signer(CONFIG), PLAN).messages
    values = [message.value or b"" for message in messages if message.topic == TOPICS.signed]
    assert len(values) > 5
    assert max(map(len, values)) < 600_000
    rows = [read(value) for value in values]
    assert np.concatenate([row.places for row in rows]).tolist() == list(range(3_000))
