"""Chunks are answered in the order of the input, and none behind an error."""

import pytest

from neardup_workers.doing.session.in_order import in_order


def test_chunks_are_answered_in_order():
    """Also where the input pauses (``None``)."""
    chunks = [*range(20), None, *range(20, 30)]
    found = list(in_order(chunks, lambda chunk: -chunk, 3, lambda chunk, signed: (chunk, signed.result())))
    assert found == [(n, (n, -n)) for n in range(30)]


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_answered_behind_an_error(threads):
    """What waits would be written behind a gap."""
    answered = []

    def answer(chunk, signed):
        if chunk == 5:
            raise OSError(28, "No space left on device")
        answered.append(chunk)

    with pytest.raises(OSError, match="No space"):
        list(in_order(range(50), abs, threads, answer))
    assert answered == [0, 1, 2, 3, 4]


def test_nothing_is_answered_once_the_caller_has_ended():
    """As after a second Ctrl-C."""
    answered = []
    chunks = in_order(range(50), abs, 2, lambda chunk, signed: answered.append(chunk))
    next(chunks)
    chunks.close()
    assert len(answered) <= 6  # those in progress
