"""A hot bucket on a real broker: a matcher splits one message with thousands of pairs into small transactions."""

from __future__ import annotations

from kafka_world import World

from neardup import Document
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.topics.signed import position_of

DOCUMENTS = 80
PAIRS_MAX = 256
WORDS = [f"word{i:02}" for i in range(60)]


def near_copies() -> list[Document]:
    """Texts that differ in one word of sixty: each text pairs with all the others."""
    texts = [" ".join([*WORDS[:30], f"other{i:03}", *WORDS[31:]]) for i in range(DOCUMENTS)]
    return [Document(f"d{i:03}", text, 1_700_000_000.0 + i) for i, text in enumerate(texts)]


def test_a_hot_bucket_passes_in_small_steps_over_a_restart(bootstrap_servers: str) -> None:
    """Steps end inside the message. A matcher killed between two is restored there; readers see each pair once."""
    documents = near_copies()
    world = World(
        bootstrap_servers, shards=1, documents_partitions=1, limits={"step_pairs_max": PAIRS_MAX}, threshold=0.6
    )
    try:
        world.place(SIGN)
        world.load(documents)
        world.settle()
        assert len(world.records(world.topics.signed)) == 1
        expected = world.expected(documents)
        assert len(expected) > 5 * PAIRS_MAX
        match = world.place(MATCH)
        world.run(lambda: match.worker and match.worker.waiting_records(), "the matcher is inside the message")
        committed = match.consumer.committed(0)
        assert committed is not None
        row = decode_window(committed.metadata).row
        assert (committed.offset, 0 < row < DOCUMENTS) == (0, True)
        some = world.pairs()
        assert PAIRS_MAX <= len(some) < PAIRS_MAX + DOCUMENTS
        match.kill()
        world.run(lambda: match.worker and match.worker.running, "the matcher is restored")
        assert match.worker.tables[0].position >= position_of(0, row)
        world.settle()
        assert world.pairs() == expected
        assert match.aborted == 0
    finally:
        world.close()
