"""Signals on topics: a linker joins a story by the evidence that signers wrote, and names the signal."""

from __future__ import annotations

from sim_cluster import LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Scenario

from neardup import Config
from neardup_workers.outside.topics.verdicts import parse_run

SCHEME = "signals:title=0.6,vector=0.9,dimension=4,picture=0.85,record=0.8,fields=model,price:9,keys=model"
FIRST = "The ferry to the island leaves at seven and returns before noon, unless fog holds it in the port."
OTHER = "A minister resigned on Friday after reports of a loan; the premier named her successor at once."
SENT = [
    (FIRST, {"title": "Ferry stays in port", "vector": [1, 2, 3, 4], "model": "MDR-1"}),
    (OTHER, {"title": "Ferry stays in the port"}),
    (OTHER[::-1], {"vector": [2, 4, 6, 8.5]}),
    (FIRST[::-1], {"model": "MDR-1", "price": 99}),
    (FIRST + "!", {"title": "Ferry stays in port"}),
]


def test_verdicts_on_topics_name_the_signal() -> None:
    """Of four shards and one linker; what joins by a signal is kept, and the near text is dropped."""
    settings = {"scheme": SCHEME, "threshold": 0.6, "window_seconds": 3600.0}
    cluster = Cluster(Scenario(Config(**settings), Habits(skew_seconds=1e5), linkers=1, shards=4))
    for role in (SIGNERS, MATCHERS, LINKERS):
        cluster.add(role)
    with cluster.limits():
        for number, (text, signals) in enumerate(SENT):
            cluster.feed.document(str(number), text, keyed=False, **signals)
        cluster.settle()
    lines = [line for record in cluster.memory.records(cluster.topics.verdicts) for line in parse_run(record.value)]
    assert [(line["status"], line.get("signal")) for line in lines] == [
        ("original", None), ("update", "title"), ("update", "vector"), ("update", "record"), ("duplicate", None),
    ]  # fmt: skip
