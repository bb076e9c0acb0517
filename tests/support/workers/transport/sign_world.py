"""Documents in memory, and signers by name."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
import orjson
from topics_world import TopicsWorld

from neardup import Config
from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan
from neardup_workers.outside.telemetry.observer import SILENT, Observer
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.topics.signed import decode_signed

GROUP = "signers"


def plan_of(config: Config, shards: int = 4, **changes: Any) -> SignPlan:
    """A plan of signers that begin at the earliest documents."""
    topics = topic_names("", generation(config.signing_fingerprint, shards))
    return SignPlan(config, Fields(), topics, 2, skew_seconds=60.0, start="earliest")._replace(**changes)


class SignWorld(TopicsWorld):
    """Topics with two partitions of documents, and signers by name."""

    def __init__(self, plan: SignPlan, broker: Mapping[str, Any] = {}) -> None:
        self.plan, self.topics = plan, plan.topics
        partitions = {self.topics.documents: 2, self.topics.dead: plan.dead_partitions, self.topics.signed: 1}
        super().__init__(partitions, **broker)

    def worker(
        self, name: str = "one", observer: Observer = SILENT, pool: Executor | None = None, **changes: Any
    ) -> SignWorker:
        member = self.member(self.topics.documents, GROUP, name, observer)
        return SignWorker(member, self.plan._replace(**changes), self.clock, pool)

    def document(self, name: str, partition: int = 0, text: str = "some words to be read") -> None:
        self.memory.append(self.topics.documents, partition, orjson.dumps({"text": text}), name.encode())

    def offsets(self) -> dict[int, int]:
        return self.committed(GROUP, self.topics.documents)

    def signed(self) -> list[str]:
        """The ids in ``signed``, sorted, with repetitions."""
        config = self.plan.config
        batches = [
            decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width).documents()
            for record in self.memory.records(self.topics.signed)
        ]
        return sorted(id_ for batch in batches for id_ in batch.ids_at(np.arange(batch.size)))
