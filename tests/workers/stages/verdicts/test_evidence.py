"""The messages that a linker keeps to compare what they hold."""

from __future__ import annotations

import numpy as np
from match_world import CONFIG

from neardup.documents.document import Document
from neardup.pairs.signing import Signer
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.outside.topics.signed import position_of

WINDOW, ROWS = 20, 3  # messages in the window, and rows of each


def test_messages_that_have_left_the_window_are_dropped() -> None:
    """However long the stream is: at most as many as the window has are kept besides, and none of it is read again."""
    texts = [Document(str(n), f"words of the document {n} that are enough for it") for n in range(ROWS)]
    evidence = Signer(CONFIG).sign(texts).batch.evidence

    def read(offset: int) -> bytes:
        raise AssertionError(f"{offset} is read again")

    compared = Compared(CONFIG, read, 1 << 20)
    most = 0
    for message in range(50 * WINDOW):
        offset, first = 2 * message, ROWS * message  # markers of transactions are between
        numbers = np.arange(first, first + ROWS)
        compared.rows.add(numbers, position_of(offset) + np.arange(ROWS))
        compared.keep(offset, evidence, 100)
        left = max(0, first + ROWS - ROWS * WINDOW)
        compared.release(left)
        assert all(compared.parts(np.arange(left, first + ROWS)))
        most = max(most, len(compared._messages))
        assert compared._bytes == 100 * len(compared._messages)
    assert WINDOW <= most <= 2 * WINDOW + 1
