"""Codecs: lines to documents or reasons, pairs to lines."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.documents.document import REASONS, Document
from neardup.pairs.json_lines import DEPTH_MAX, Fields, decode_document, encode_matches
from neardup.pairs.pair_rule import Matches

# Characters that control a terminal or change the direction of text.
UNPRINTABLE = [
    *map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)])
]
# Of the test suite of JSON, what is no JSON and is read all the same: Python writes it.
CONSTANTS = ("n_number_NaN.json", "n_number_infinity.json", "n_number_minus_infinity.json")


def line(**values):
    return orjson.dumps({"id": "a", "text": "t", **values})


def test_a_line_with_id_text_and_timestamp_is_a_document():
    """Unknown names are ignored."""
    assert decode_document(line(timestamp=5, other=[1])) == Document("a", "t", 5.0)


def test_the_names_of_the_fields_can_be_chosen():
    """With chosen names, the default names are ignored."""
    fields = Fields("url", "body", "seen")
    assert decode_document(b'{"url":"u","body":"b","seen":1.5,"id":3}', fields) == Document("u", "b", 1.5)
    assert decode_document(line(), fields) == "no_id"
    assert decode_document(b'{"url":"u","text":"t"}', fields) == "no_text"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b'{"id":"a","text":NaN}', "text_type"),
        (b'{"id":"a","text":"t","x":nan}', "not_json"),
        (b'{"id":"a","text":"t"} {}', "several_values"),
        (b'{"id":"a","text":"\x00"}', "not_json"),
        (b"\xef\xbb\xbf", "not_json"),
        (b'{"id":"a","text":"\xff"}', "not_utf8"),
        (b'{"id":"a","text":"\xed\xa0\x80"}', "not_utf8"),
        (b"[]", "not_object"),
        (b"null", "not_object"),
        (b'"text"', "not_object"),
        (b'{"id":"a"}', "no_text"),
        (b'{"id":"a","text":null}', "text_type"),
        (b'{"id":"a","text":[7]}', "text_type"),
        (b'{"text":"t"}', "no_id"),
        (b'{"id":"","text":"t"}', "no_id"),
        (b'{"id":7.5,"text":"t"}', "id_type"),
        (b'{"id":true,"text":"t"}', "id_type"),
        (b'{"id":123456789012345678901234567890,"text":"t"}', "id_type"),
        (b'{"id":null,"text":"t"}', "no_id"),
        (b'{"id":"a","text":"t","timestamp":true}', "timestamp_type"),
        (b'{"id":"a","text":"t","timestamp":"soon"}', "timestamp_type"),
        (b'{"id":"a","text":"t","timestamp":[1]}', "timestamp_type"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(raw, reason):
    """Every reason is one that a user can look up."""
    assert decode_document(raw) == reason
    assert reason in REASONS


def test_an_id_may_be_a_whole_number_in_each_form_that_json_has():
    """7.0 is one too, as JSON Schema says, up to 63 bits."""
    ids = [decode_document(b'{"id":%s,"text":"t"}' % id_) for id_ in (b"7", b"7.0", b"-7e1", b"1e300")]
    assert [one if isinstance(one, str) else one.id for one in ids] == ["7", "7", "-70", "id_type"]


@pytest.mark.parametrize("deep", [b"[" * 100_000, b"[" * 2000 + b"]" * 2000, b'{"a":' * 2000])
def test_json_nested_too_deep_is_refused_whether_it_ends_or_not(deep):
    """Brackets inside of strings do not nest."""
    assert decode_document(deep) == "too_deep"
    assert decode_document(b'{"id":"a","text":"t","x":' + deep + b"}") == "too_deep"
    assert decode_document(line(text="[{" * 3000)) == Document("a", "[{" * 3000)
    assert decode_document(b'"' + b"[{" * 3000) == "not_json"


def test_nesting_up_to_the_limit_is_taken():
    """The object of the line is one level."""
    deep = b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1)
    assert decode_document(b'{"id":"a","text":"t","x":' + deep + b"}") == Document("a", "t")


def test_the_last_of_repeated_names_counts():
    """Most parsers do the same."""
    assert decode_document(b'{"id":"a","text":"t","id":"b"}') == Document("b", "t")


def test_a_lone_surrogate_matters_only_where_it_is_used():
    """In an unused field it does no harm; in the text it reaches the signer, which refuses it."""
    assert decode_document(b'{"id":"a","text":"t","x":"\\ud800"}') == Document("a", "t")
    assert decode_document(b'{"id":"a","text":"\\ud800"}') == Document("a", "\ud800")


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        (b"0", 0.0),
        (b"-1.5", -1.5),
        (b"null", None),
        (b'"1970-01-02"', 86400.0),
        (b'"1970-01-01T00:00:01Z"', 1.0),
        (b'"1970-01-01T01:00:00+01:00"', 0.0),
        (b'"1970-01-01 00:00:00.25"', 0.25),
        (b'"1700000000"', 1.7e9),
        (b'"1700000000.5"', 1_700_000_000.5),
        (b'"1.7e9"', 1.7e9),
        (b'"19700102"', 86400.0),
        (b'"Fri, 02 Jan 1970 00:00:01 GMT"', 86401.0),
        (b'"2 Jan 1970 01:00:00 +0100"', 86400.0),
        (b'"1970-01-01T24:00:00Z"', 86400.0),
        (b'"2016-12-31T23:59:60Z"', 1_483_228_800.0),
        (b"1e400", float("inf")),
        (b"9" * 5000, float("inf")),
        (b"12345678901234567890123", 12345678901234567890123.0),
    ],
)
def test_a_timestamp_is_a_number_or_a_date(stamp, seconds):
    """Without a zone it is UTC; what no double holds is infinite, and the signer refuses it."""
    assert decode_document(b'{"id":"a","text":"t","timestamp":' + stamp + b"}") == Document("a", "t", seconds)


@pytest.mark.parametrize(
    ("stamp", "unit"),
    [(b"1700000000000", "ms"), (b'"1712010112345"', "ms"), (b"1.7e15", "us"), (b"1700000000000000000", "ns")],
)
def test_a_time_in_a_smaller_unit_is_refused_until_the_unit_is_set(stamp, unit):
    """As seconds it would lie thousands of years ahead, and close every window."""
    raw = b'{"id":"a","text":"t","timestamp":' + stamp + b"}"
    assert decode_document(raw) == "timestamp_unit"
    found = decode_document(raw, Fields(timestamp_unit=unit))
    assert 1.69e9 < found.timestamp < 1.72e9


def test_pairs_are_compact_json_in_a_fixed_order():
    """Similarities have four digits."""
    times = np.zeros(2, np.int64)
    columns = {"older_times": times, "newer_times": times} if "older_times" in Matches._fields else {}
    matches = Matches(
        older=["a", 'q"\n'],
        newer=["b", "ü"],
        similarity=np.array([1 / 3, 1.0]),
        buckets=np.array([4, 18], np.int32),
        **columns,
    )
    assert encode_matches(matches).decode() == (
        '{"older":"a","newer":"b","similarity":0.3333,"buckets":4}\n'
        '{"older":"q\\"\\n","newer":"ü","similarity":1.0,"buckets":18}\n'
    )


@given(st.text(st.characters(codec="utf-8") | st.sampled_from(UNPRINTABLE), max_size=20))
def test_pairs_hold_no_character_that_a_terminal_obeys_and_every_id_is_read_back(id_):
    """C0, DEL, C1 and marks of direction are escapes of JSON; letters of every script stay as they are."""
    columns = {"similarity": np.array([1.0, 0.5]), "buckets": np.array([1, 2])}
    columns |= {"older_times": np.zeros(2, np.int64), "newer_times": np.zeros(2, np.int64)}
    older, newer = [f'{id_}",', f'{id_}","{id_}\\'], ["ü ع", id_]
    encoded = encode_matches(Matches(older=older, newer=newer, **columns))
    lines = [orjson.loads(line) for line in encoded.split(b"\n")[:-1]]
    assert [(line["older"], line["newer"]) for line in lines] == list(zip(older, newer, strict=True))
    assert not set(encoded.decode().replace("\n", "")) & set(UNPRINTABLE)
    assert "ü ع" in encoded.decode()


def test_the_json_test_suite_is_accepted_and_refused_as_it_says(real_data):
    """y_ is JSON as it stands and inside a document, n_ never is but for NaN and Infinity, and nothing crashes."""
    not_json = ("not_json", "several_values", "not_utf8", "too_deep")
    wrong, paths = [], sorted((real_data("jsontestsuite") / "test_parsing").glob("*.json"))
    for path in paths:
        raw = path.read_bytes()
        found = decode_document(raw)
        inside = decode_document(b'{"id":"a","text":"t","x":' + raw + b"}")
        is_right = {
            "y": found not in not_json and inside == Document("a", "t"),
            "n": (found in not_json and isinstance(inside, str)) or path.name in CONSTANTS,
            "i": isinstance(found, Document) or found in REASONS,
        }[path.name[0]]
        if not is_right:
            wrong.append((path.name, found, inside))
    assert wrong == []
    assert len(paths) > 300


def test_naughty_strings_come_through_unchanged(real_data):
    """They are unchanged as ids and as texts, escaped or not; the empty one is no id."""
    for text in json.loads((real_data("blns") / "blns.json").read_text(encoding="utf-8")):
        for raw in (orjson.dumps({"id": text, "text": text}), json.dumps({"id": text, "text": text}).encode()):
            assert decode_document(raw) == (Document(text, text) if text else "no_id")


KIND_LINES: list[tuple[str, str, object]] = [
    ("tokens", '{"id": "a", "tokens": ["x", 3, "x"]}', Document("a", tokens=["x", 3, "x"])),
    ("tokens", '{"id": "a", "tokens": {"x": 3, "y": 0.5}}', Document("a", tokens={"x": 3, "y": 0.5})),
    ("tokens", '{"id": "a", "tokens": [], "timestamp": 2}', Document("a", tokens=[], timestamp=2.0)),
    ("tokens", '{"id": "a", "text": "x"}', "no_tokens"),
    ("tokens", '{"id": "a", "tokens": "x"}', "tokens_type"),
    ("tokens", '{"id": "a", "tokens": [1.5]}', "tokens_type"),
    ("tokens", '{"id": "a", "tokens": [true]}', "tokens_type"),
    ("tokens", '{"id": "a", "tokens": {"x": "y"}}', "tokens_type"),
    ("vector", '{"id": "a", "vector": [1, 2.5]}', Document("a", vector=[1, 2.5])),
    ("vector", '{"id": "a", "vector": "AACAPw=="}', Document("a", vector=b"\x00\x00\x80?")),
    ("vector", '{"id": "a", "vector": "AACAP"}', "vector_base64"),
    ("vector", '{"id": "a", "vector": "A A="}', "vector_base64"),
    ("vector", '{"id": "a", "vector": "\\u00e4"}', "vector_base64"),
    ("vector", '{"id": "a"}', "no_vector"),
    ("vector", '{"id": "a", "vector": [1, "2"]}', "vector_type"),
    ("vector", '{"id": "a", "vector": null}', "vector_type"),
    ("record", '{"id": "a", "name": "x", "year": 1999, "more": [1], "no": null}',
     Document("a", fields={"name": "x", "year": "1999"})),
    ("record", '{"id": "a", "timestamp": 3}', Document("a", fields={}, timestamp=3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line", "expected"), KIND_LINES)
def test_a_line_brings_what_the_scheme_asks_for(kind: str, line: str, expected: object) -> None:
    """Elements of a set, ratings, a vector or the fields of a record, or the reason why not; nothing else is read."""
    assert decode_document(line.encode(), Fields(kind=kind)) == expected


def test_tokens_and_vectors_have_the_names_that_the_settings_give_them() -> None:
    """Like id, text and timestamp."""
    fields = Fields(tokens="basket", vector="v")
    line = b'{"id": "a", "basket": ["x"], "v": [1]}'
    assert decode_document(line, fields._replace(kind="tokens")) == Document("a", tokens=["x"])
    assert decode_document(line, fields._replace(kind="vector")) == Document("a", vector=[1])


@pytest.mark.parametrize(
    ("raw", "id_"),
    [
        (b'{"id":"a","text":"t","x":NaN,"y":[-Infinity]}', "a"),
        (b'{"id":18446744073709551615,"text":"t","x":NaN}', "18446744073709551615"),
        (b'{"id":"a","text":"t","timestamp":NaN}', "a"),
        (b'\xef\xbb\xbf{"id":7,"text":"t"}', "7"),
        (b'\x1e{"id":7,"text":"t"}', "7"),
    ],
)
def test_what_other_programs_add_to_json_costs_no_line(raw, id_):
    """NaN and Infinity, which Python writes, are null; a byte order mark stands where files were joined, a record
    separator in text sequences."""
    assert decode_document(raw) == Document(id_, "t")


def test_a_line_with_several_values_names_the_command_that_makes_lines_of_them():
    """None of them is read: a line is one document, and what follows would be lost in silence."""
    for line in (b'{"id":"a","text":"t"}{"id":"b","text":"t"}', b'{"id":"a","text":"t"} [1]'):
        assert decode_document(line) == "several_values"
        assert "jq -c" in REASONS["several_values"]
    assert decode_document(b'{"id":"a","text":"t"} }') == "not_json"
