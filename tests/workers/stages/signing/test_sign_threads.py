"""A signer that signs in another thread while it decodes publishes the same messages as a signer without threads."""

from __future__ import annotations

import random
from concurrent.futures import Executor, ThreadPoolExecutor
from unittest import mock

import pytest
from sign_world import SignWorld, plan_of

from neardup import Config, Signer
from neardup_workers.doing.stages.signer import sign_records
from neardup_workers.outside.transport.protocol import Record

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)
PLAN = plan_of(CONFIG)
SIGNER = Signer(CONFIG)
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("threads", [1, 3])
def test_documents_that_are_signed_in_threads_give_the_same_messages(threads: int) -> None:
    """Chunks that are signed during the decoding change neither messages nor counts, whatever thread ends first."""
    rng = random.Random(7)
    values = [b'{"text": ""}', b"no JSON", None, *(b'{"text": "the document number %d"}' % i for i in range(9))]
    records = [Record(0, i, NOW_MS, rng.choice("abcdefgh").encode(), rng.choice(values)) for i in range(120)]
    with mock.patch("neardup_workers.doing.stages.signer.CHUNK_DOCUMENTS", 3), ThreadPoolExecutor(threads) as pool:
        alone = sign_records(records, SIGNER, PLAN)
        together = sign_records(
            records, SIGNER, PLAN, start_signing=lambda documents: pool.submit(SIGNER.sign, documents).result
        )
    assert together == alone
    assert {"empty", "not_json"} <= together.report.refused.keys()
    assert min(together.report.counts["documents"], together.report.counts["removals"]) > 5


def test_a_worker_with_a_pool_publishes_what_a_worker_without_one_does() -> None:
    """The loop of a worker signs in a thread of its pool, and commits the same rows."""
    with ThreadPoolExecutor(1) as pool:
        alone, together = published(None), published(pool)
    assert together == alone
    assert len(together) > 1


def published(pool: Executor | None) -> list[bytes | None]:
    """The messages of ``signed`` that a worker makes of twenty documents."""
    world = SignWorld(PLAN)
    for number in range(20):
        world.document(str(number), number % 2)
    worker = world.worker(pool=pool)
    assert sum(worker.turn(0.0, 5) for _ in range(8)) == 20
    return [found.value for found in world.memory.records(PLAN.topics.signed)]
