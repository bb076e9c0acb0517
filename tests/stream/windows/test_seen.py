"""The filter of seen contents: its bound, its growth, and where in a log it goes on."""

from __future__ import annotations

import numpy as np

from neardup import Config, Document, Signer
from neardup.pairs.shards import StreamRows, stream_rows, table_limits
from neardup.schemes.rows import SCHEMES
from neardup.stories.windows.seen import Seen
from neardup.window import NO_TIME
from neardup.window.chains import COPIED
from neardup_workers.doing.stages.matching.cursors import SeenRows
from neardup_workers.doing.stages.matching.stretches import Stretch
from neardup_workers.outside.topics.signed import position_of

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=9_000.0)
LIMITS = table_limits(CONFIG, SCHEMES[CONFIG.scheme])


def rows_of(name: str, numbers: range, first: float, apart: float = 1.0) -> StreamRows:
    """Documents with these texts, so many seconds apart."""
    documents = [Document(f"{name}{n}", f"the text of number {n}", first + apart * i) for i, n in enumerate(numbers)]
    return stream_rows(Signer(CONFIG).sign(documents).batch, CONFIG)


def copied(rows: StreamRows) -> int:
    return int(np.count_nonzero(rows.items.kinds & COPIED))


def marked(seen: Seen, rows: StreamRows) -> int:
    seen.mark(rows.items, rows.removals)
    return copied(rows)


def test_a_filter_that_grows_knows_what_it_knew() -> None:
    """The larger array begins empty, and the older one is read until what it has is out of the window."""
    seen = Seen(LIMITS, lines=64)
    assert marked(seen, rows_of("a", range(400), 0.0)) == 0
    seen.grow(1 << 20)
    assert seen.memory_bytes == (64 + 256) * 64
    later = rows_of("b", range(400), 1_000.0)
    assert marked(seen, later) == 400
    assert marked(seen, rows_of("c", range(400), 2_000.0)) == 400
    marked(seen, rows_of("d", range(1_000, 1_750), 4_000.0, apart=60.0))
    assert marked(seen, rows_of("e", range(400), 50_000.0)) == 0
    assert seen.memory_bytes == 256 * 64, "the older array is dropped after a window"


def test_a_filter_has_a_bound_whatever_comes() -> None:
    """More contents than entries: it forgets, asks to grow, and grows within the bytes that it may have."""
    seen = Seen(LIMITS, lines=4)
    assert marked(seen, rows_of("a", range(300), 0.0)) == 0
    assert seen.is_small
    assert seen.memory_bytes == 4 * 64
    assert 0 < marked(seen, rows_of("b", range(299, -1, -1), 1_000.0)) <= 32
    seen.grow((4 + 8) * 64)
    assert seen.memory_bytes == (4 + 8) * 64
    assert not seen.is_small


def test_a_filter_forgets_what_a_removal_or_a_version_makes_unsure() -> None:
    """A document with the id of its copy is none, and neither is one whose copy is removed."""
    seen = Seen(LIMITS)
    assert marked(seen, rows_of("a", range(10), 0.0)) == 0
    assert marked(seen, rows_of("a", range(10), 100.0)) == 0
    gone = rows_of("a", range(5), 101.0)
    seen.mark(gone.items, np.ones(5, np.bool_))
    assert marked(seen, rows_of("b", range(10), 200.0)) == 5


def test_rows_before_the_position_of_a_filter_are_no_copies() -> None:
    """A cursor that goes back reads rows again that the filter has passed; one that leaves rows out empties it."""
    seen = SeenRows(CONFIG)

    def stretch(first: int, name: str) -> Stretch:
        rows, places = rows_of(name, range(10), float(first)), np.arange(10)
        return Stretch(rows, position_of(first) + places, position_of(first + 1), places, np.full(10, NO_TIME))

    seen.begin(position_of(0), int(NO_TIME))
    copies = []
    for first, name in ((0, "a"), (1, "b"), (0, "a"), (2, "c")):
        seen.mark(part := stretch(first, name))
        copies.append(copied(part.rows))
    seen.begin(position_of(5), int(NO_TIME))
    seen.mark(part := stretch(5, "d"))
    assert [*copies, copied(part.rows)] == [0, 10, 0, 10, 0]
