"""A standby takes over on a real broker: the window is not read again, and nothing is lost or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kafka_world import World, stories

from neardup.workers.telemetry.observer import Silent
from neardup.workers.topics.names import MATCH, SIGN

DOCUMENTS = stories(160)
EARLIER, LATER = DOCUMENTS[:120], DOCUMENTS[120:]
STEP_DOCUMENTS = 6  # so that the log has many messages
SESSION_SECONDS = 3.0


class Counts(Silent):
    """Keeps what a matcher counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        self.counts[f"{name} {label}".strip()] += int(amount)


def test_a_standby_takes_over_without_reading_the_window_again(worlds: Callable[..., World]) -> None:
    """The owner is gone without leaving; its shards go to the member that has their tables."""
    world = worlds({"session_timeout_seconds": SESSION_SECONDS}, standbys=1)
    world.place(SIGN)
    owner, standby = world.place(MATCH, "owner"), world.place(MATCH, "standby")
    world.load(EARLIER)
    world.settle(STEP_DOCUMENTS)
    both = [owner.worker, standby.worker]
    world.run(
        lambda: all(len(one.tables) == len(one.standbys.ready) == 1 for one in both),
        "each runs one shard, and has the table of the other",
    )
    counts = Counts()
    standby.worker.observer = standby.worker.standbys._observer = counts
    owner.kill()  # the group keeps its place until its session ends
    world.places.remove(owner)
    world.load(LATER)
    world.settle()
    assert standby.worker.running == {0, 1}
    assert world.pairs() == world.expected(DOCUMENTS)
    assert (counts.counts["takeovers kept"], counts.counts["takeovers restored"]) == (1, 0)
    assert counts.counts["restored_documents"] + counts.counts["standby_documents"] <= len(LATER)
    owner.close()
