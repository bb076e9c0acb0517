"""The benchmark of the service: what it sends is answered by both services."""

from __future__ import annotations

import pytest
from benchmarks.service import answers


@pytest.mark.processes
def test_the_service_is_timed_next_to_a_bare_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each durability and number of connections; every request is answered by 200."""
    monkeypatch.setattr(answers, "DURABILITIES", {"normal": answers.DURABILITIES["normal"]})
    rows = list(answers.run("smoke"))
    assert [row.name for row in rows] == [f"normal, {n} connection{'s' * (n > 1)}" for n in (1, 16, 64)]
    assert min(row.value or 0 for row in rows) > 0


def test_a_refused_document_ends_the_benchmark() -> None:
    """A response that is no 200 is an error, and one that has not ended is waited for."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    assert [answers._is_whole(bytearray(response)) for response in (head[:-2], head, head + b"{}")] == [
        False, False, True,
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="429"):
        answers._is_whole(bytearray(b"HTTP/1.1 429 Too Many Requests\r\n\r\n"))
