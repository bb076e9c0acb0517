"""A signer of a scheme that omits bands of small documents says that its recall is not kept."""

from __future__ import annotations

import logging

import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup import Config
from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan
from neardup_workers.outside.telemetry.observer import Silent
from neardup_workers.outside.topics.names import topic_names

DOCUMENTS = 1_200


@pytest.mark.parametrize(
    ("scheme", "words", "warned"),
    [("grouped", 4, 1), ("partial_minhash", 1, 1), ("grouped", 400, 0), ("one_permutation", 4, 0)],
)
def test_a_signer_warns_once_of_documents_that_are_too_small(
    scheme: str, words: int, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    """After a thousand of them; large documents and schemes with every band are silent."""
    config = Config(scheme=scheme)
    topics = topic_names("", config.signing_fingerprint, 1)
    cluster = MemoryCluster()
    for topic in (topics.documents, topics.dead, topics.signed):
        cluster.create(topic, 1)
    for number in range(DOCUMENTS):
        text = " ".join(f"{number * 7919 + word}" for word in range(words))
        cluster.append(topics.documents, 0, b'{"text": "%s"}' % text.encode(), str(number).encode())
    transport = MemoryTransport(cluster)
    consumer, producer = transport.consumer(topics.documents, "signers", "one"), transport.producer("one")
    plan = SignPlan(config, Fields(), topics, 1, skew_seconds=60.0, start="earliest")
    clock = lambda: cluster.now_seconds  # noqa: E731 - two clocks that stand still
    worker = SignWorker(WorkerMember(transport, consumer, producer, Silent(), clock), plan, clock)
    with caplog.at_level(logging.WARNING):
        assert sum(worker.turn(0.0, 100) for _ in range(60)) == DOCUMENTS
    said = [record.getMessage() for record in caplog.records if "too small for scheme" in record.getMessage()]
    assert len(said) == warned
    assert all(f"too small for scheme {scheme}, so the recall at the threshold is 0." in line for line in said)
