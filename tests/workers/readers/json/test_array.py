"""JSON arrays become lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup_workers.outside.readers.json.array import array_lines
from neardup_workers.outside.readers.lines import IDLE, Line

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(['"', "\\", '\\"', "[{", "}],", "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def blocks_of(content, size):
    return [content[at : at + size] for at in range(0, len(content), size)]


@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_the_lines_are_the_elements_for_any_blocks(values, size, indent, ascii_only):
    """The layout does not matter; brackets, quotes and backslashes inside strings do not count."""
    content = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    lines = list(array_lines(blocks_of(content, size), 1 << 20))
    assert [json.loads(line.raw) for line in lines] == values
    assert [line.number for line in lines] == list(range(1, len(values) + 1))
    assert not any(b"\n" in line.raw or line.reason for line in lines)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=4),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.sampled_from(["\n", "", " \r\n"]),
)
def test_objects_one_after_the_other_are_lines_for_any_blocks(values, size, indent, between):
    """As jq writes them."""
    content = between.join(json.dumps(value, indent=indent) for value in values).encode() + between.encode()
    lines = list(array_lines(blocks_of(content, size), 1 << 20))
    assert [json.loads(line.raw) for line in lines] == values
    assert [line.number for line in lines] == list(range(1, len(values) + 1))


@given(st.lists(st.text(max_size=60), max_size=5), st.integers(1, 30), st.integers(1, 30))
def test_an_element_that_is_too_long_comes_in_parts_and_the_next_is_read(texts, size, bytes_max):
    """The parts, joined, are the element."""
    content = json.dumps(texts).encode()
    whole, parts = [], b""
    for line in array_lines(blocks_of(content, size), bytes_max):
        parts += line.raw
        if line.ended:
            whole.append((json.loads(parts), line.is_part))
            parts = b""
    assert [text for text, _ in whole] == texts
    for text, is_part in whole:
        assert is_part or len(json.dumps(text)) <= bytes_max + size


@pytest.mark.parametrize(
    ("content", "elements"),
    [
        (b'[{"a": 1}, {"b"', [b'{"a": 1}']),
        (b'[{"a": 1}, {"b": 2}', [b'{"a": 1}']),
        (b'[{"a": 1}] trailing', [b'{"a": 1}']),
        (b'[{"a": 1}}, {"b": 2}]', [b'{"a": 1}']),
        (b'"a"', []),
        (b'{"a": 1}\n{"b"', [b'{"a": 1}']),
        (b'{"a": 1}]', [b'{"a": 1}']),
        (b'[{"a": 1}, ', [b'{"a": 1}']),
    ],
)
def test_an_array_that_is_damaged_says_so_at_its_end(content, elements):
    """The whole elements before the damage are read; later ones are not."""
    *lines, last = array_lines([content], 99)
    assert [line.raw for line in lines] == elements
    assert last.reason == "array_damaged"


def test_an_element_that_is_no_json_is_one_line_and_an_empty_block_is_idle():
    """The parser of documents refuses the element; the later elements are read."""
    lines = list(array_lines([b"[nonsense, ", b"", b"2]"], 99))
    assert lines == [IDLE, Line(1, b"nonsense"), Line(2, b"2")] or lines == [Line(1, b"nonsense"), IDLE, Line(2, b"2")]
