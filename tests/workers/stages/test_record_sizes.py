"""The bytes that records take of the limit of a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neardup_workers.doing.stages.record_sizes import all_fit
from neardup_workers.outside.transport.protocol import sent_bytes

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=3).map(tuple)
RECORDS = st.lists(
    st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=30), HEADERS), min_size=1
)


@given(RECORDS)
def test_records_fit_if_the_longest_does(records):
    """The cheap bound decides only where it is right: at the length of the longest record, and one byte below."""
    longest = max(sent_bytes(*record) for record in records)
    assert all_fit(*zip(*records, strict=True), longest)
    assert all_fit(*zip(*records, strict=True), longest + 10_000)
    assert not all_fit(*zip(*records, strict=True), longest - 1)
