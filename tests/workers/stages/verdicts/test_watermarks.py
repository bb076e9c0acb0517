"""The progress of shards, and where a linker's step ends."""

from __future__ import annotations

from neardup_workers.doing.stages.verdicts.watermarks import Watermarks
from neardup_workers.outside.topics.links import NO_PROGRESS


def test_a_step_ends_with_a_matchers_step_that_brings_its_pairs_over_the_limit() -> None:
    """A flood is decided part by part, and each part goes on; without many pairs all that every shard passed is."""
    marks = Watermarks(2, 0, allow_gap=False)
    for n, end in enumerate([10, 20, 30]):
        marks.add(0, 2 * n, 50, end, NO_PROGRESS)
        marks.add(0, 2 * n + 1, 50, end - 10, end)
    assert marks.watermark(0) == marks.watermark() == 0  # the other shard has published nothing
    marks.add(1, 0, 60, 0, 25)
    assert [marks.watermark(most) for most in (0, 99, 150, 199, 200, 259, 260, 1 << 30)] == [
        10, 10, 20, 20, 25, 25, 25, 25
    ]  # fmt: skip
    marks.settle(10)
    marks.add(1, 1, 500, 0, 5)  # read again: nothing waits for it
    assert [marks.watermark(most) for most in (0, 99, 100, 160, 1 << 30)] == [20, 20, 25, 25, 25]
