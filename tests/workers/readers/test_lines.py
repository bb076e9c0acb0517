"""Blocks become lines."""

from hypothesis import given
from hypothesis import strategies as st

from neardup_workers.outside.readers.lines import IDLE, Line, split_lines


def put_together(lines):
    """Numbers and whole lines, and the numbers of the lines that came in parts."""
    whole, parts = [], b""
    for line in lines:
        parts += line.raw
        if line.ended:
            whole.append((line.number, parts, line.is_part))
            parts = b""
    assert not parts
    return whole


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\0", b"\n")), max_size=20), st.integers(1, 12))
def test_lines_do_not_depend_on_the_blocks_they_come_in(blocks, bytes_max):
    """Each line has a number, and comes in parts exactly if it is longer than the bound."""
    content = b"".join(blocks)
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    found = put_together(split_lines([block for block in blocks if block], bytes_max))
    assert found == [(i + 1, raw, len(raw) > bytes_max) for i, raw in enumerate(expected)]


def test_a_part_is_never_longer_than_bound_and_block():
    """The reader holds no more than that of a line of any length."""
    blocks = (b"x" * 100 for _ in range(1000))
    assert max(len(line.raw) for line in split_lines(blocks, 50)) <= 150


def test_an_empty_block_is_passed_on_as_idle():
    """The part of a line before it waits for the rest."""
    assert list(split_lines([b"a\nb", b"", b"c\n"], 9)) == [Line(1, b"a"), IDLE, Line(2, b"bc")]


def test_none_begins_the_content_again():
    """The line before it ends, and the numbers restart."""
    assert list(split_lines([b"a\nb", None, b"c\n"], 9)) == [Line(1, b"a"), Line(2, b"b", end=b""), Line(1, b"c")]
