"""The signer by columns: lines of the usual form lead to the same messages as lines that are decoded one by one."""

from __future__ import annotations

import json
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from neardup import Config, Signer
from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.readers.json.columns import decode_columns
from neardup_workers.outside.topics.messages import key_parts
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.transport.protocol import Record

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)
PLAN = SignPlan(CONFIG, Fields(), topic_names("", generation(CONFIG.signing_fingerprint, 4)), 2, 60.0, "earliest")
SIGNER = Signer(CONFIG)
APART = Config(**CONFIG.model_dump(exclude_defaults=True), collection_field="lang")
NAMED = PLAN._replace(config=APART, fields=Fields(source="by", collection="lang"))
NOW_MS = 1_700_000_000_000
# Values of records: of the usual form, unusual, refused.
VALUES = [
    b'{"id": "a", "text": "some words to be read", "timestamp": 1699999999.1234567}',
    b'{"text": "other words to be read", "timestamp": "2100-01-01T00:00:00Z"}',
    rb'{"id": "a", "text": "words with \"quotes\" \u00e9 and \ud83d\ude00", "more": [1]}',
    '{"id": "é", "text": "слова и ещё слова", "timestamp": 4000000000}'.encode(),
    b'{"id": "b", "text": "\xc3 words that are not UTF-8"}',
    b'{"id": "b", "text": ""}',
    b"{",
    b'{"id": "' + b"x" * 101 + b'", "text": "an id that is too long"}',
]


@given(
    st.lists(
        st.tuples(st.none() | st.sampled_from(VALUES), st.sampled_from([None, b"a", b"b", b"\xff"]),
                  st.sampled_from([-1, NOW_MS, NOW_MS, NOW_MS])),
        max_size=12,
    ),
    st.integers(1, 300),
)  # fmt: skip
def test_records_give_the_same_messages_by_columns_and_one_by_one(
    given_records: list[tuple[bytes | None, bytes | None, int]], chunk_bytes: int
) -> None:
    """Bands, dead letters and counts, however the records are divided into chunks."""
    records = [Record(0, i, time, key, value) for i, (value, key, time) in enumerate(given_records)]
    with mock.patch("neardup_workers.doing.stages.signer._CHUNK_BYTES", chunk_bytes):
        messages, report = sign_records(records, SIGNER, PLAN)
    with mock.patch("neardup_workers.doing.stages.signer.decode_columns", return_value=None):
        wanted, counts = sign_records(records, SIGNER, PLAN)
    assert sorted(messages) == sorted(wanted)
    invalid = VALUES[4] in [value for value, *_ in given_records]  # its time and its id are compared before its text
    if invalid:
        for name in ("clamped", "misnamed"):
            counts.counts[name] = report.counts[name]
    assert report == counts


# Values of further fields; and keys with and without a collection.
FIELDS = {
    "lang": [None, "de", "", 7, "d\x1fe", "é"],
    "by": [None, "www.Wire.example", 3],
    "url": [None, "https://www.b.example/1"],
    "title": [None, 'The "sea"', "Über", "t" * 501],
}
RECORDS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in FIELDS.items()})


@given(
    st.lists(
        st.tuples(st.none() | RECORDS, st.sampled_from([None, b"a", b"de\x1fa", b"\x1fa", b"7\x1fhttps://c.example/"])),
        max_size=8,
    )
)
def test_collections_and_sources_are_read_by_columns_and_one_by_one(
    rows: list[tuple[dict[str, object] | None, bytes | None]],
) -> None:
    """Ids, removals and contents within collections, sources, URLs and titles, and what is misnamed."""
    values = [None if one is None else json.dumps({**one, "text": "words to be read"}, ensure_ascii=False).encode()
              for one, _ in rows]  # fmt: skip
    records = [Record(0, i, NOW_MS, key, value) for i, ((_, key), value) in enumerate(zip(rows, values, strict=True))]
    signer = Signer(APART)
    by_one = [sign_records([record], signer, NAMED) for record in records]
    with mock.patch("neardup_workers.doing.stages.signer.decode_columns", return_value=None):
        assert [sign_records([record], signer, NAMED) for record in records] == by_one
        wanted = sign_records(records, signer, NAMED)
    assert sign_records(records, signer, NAMED) == wanted
    for (value, key), (messages, report) in zip(rows, by_one, strict=True):
        parts = None if key is None else key_parts(key)
        if value is None or not report.counts["documents"]:
            continue
        [data] = [message.value for message in messages if message.topic == PLAN.topics.signed]
        signed = decode_signed(data or b"", APART.signing_fingerprint, APART.plan.width)
        collection, id_ = signed.ids.tobytes().split(b"\x1f")
        assert (collection, id_) == (str(value["lang"] or "").encode(), parts and parts[1])
        assert report.counts["misnamed"] == ((collection, id_) != parts)


def test_lines_of_the_usual_form_are_not_decoded_one_by_one() -> None:
    """Otherwise a signer is slower by a tenth, and for texts of escapes alone by a half."""
    escaped = json.dumps({"id": "a", "text": "слова и ещё слова, 漢字, 😀" * 9}).encode()
    values = [*VALUES[:2], escaped]
    with mock.patch("neardup_workers.doing.stages.signer.decode_document", side_effect=AssertionError):
        _, report = sign_records([Record(0, i, NOW_MS, b"a", value) for i, value in enumerate(values)], SIGNER, PLAN)
    assert report.counts["documents"] == 3


def test_texts_of_escapes_are_signed_in_as_few_chunks_as_utf8() -> None:
    """A chunk costs a tenth of a millisecond, and escapes are three times as long."""
    calls = []
    for is_escaped in (False, True):
        value = json.dumps({"id": "a", "text": "слова" * 100}, ensure_ascii=is_escaped).encode()
        records = [Record(0, i, NOW_MS, None, value) for i in range(90)]
        with (
            mock.patch("neardup_workers.doing.stages.signer._CHUNK_BYTES", 10_000),
            mock.patch("neardup_workers.doing.stages.signer.decode_columns", wraps=decode_columns) as by_columns,
        ):
            sign_records(records, SIGNER, PLAN)
        calls.append(by_columns.call_count)
    assert calls[0] - 1 <= calls[1] <= calls[0] + 1
