"""Topics that were deleted and made again under the committed offsets: each role ends with a code and says which."""

from __future__ import annotations

import pytest
from shell_harness import TEXT, Bench

from neardup_workers.outside.process.exits import Exit, Failure


def _worked() -> Bench:
    bench = Bench(verdicts=True)
    bench.add(*((f"d{i}", f"{TEXT} {i}") for i in range(8)))
    for role in ("sign", "match", "link", "filter"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    return bench


@pytest.mark.parametrize(
    ("role", "topic"),
    [
        ("sign", "documents"), ("match", "signed"), ("link", "signed"), ("link", "links"), ("link", "verdicts"),
        ("filter", "verdicts"), ("filter", "documents"),
    ],
)  # fmt: skip
def test_a_role_whose_topic_was_made_again_ends_and_says_so(role: str, topic: str) -> None:
    """It restored or read without end, and nothing was said."""
    bench = _worked()
    name = getattr(bench.names.topics, topic)
    made = bench.cluster._topics.pop(name)
    bench.cluster.create(name, len(made.logs), made.configs)
    with pytest.raises(Failure, match=rf"{name}.* ends at 0, and .* has committed .*: the topic was made again") as end:
        bench.run(role, lambda: False)
    assert end.value.code == Exit.GAP
