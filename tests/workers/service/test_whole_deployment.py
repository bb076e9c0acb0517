"""Workers of several roles on one cluster: what a topic refuses, limits that must agree, two generations."""

import json
import logging
import random
from types import SimpleNamespace

import pytest
from shell_harness import Bench, settings_of

from neardup_workers.doing.stages.alignment import Alignment
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.outside.transport.kafka.transport import TopicDescription
from neardup_workers.outside.transport.protocol import Committed, LogEnd, Record
from neardup_workers.running.commands.topics import making


def test_a_topic_that_refuses_records_is_named_with_the_error_of_the_broker(caplog):
    """The limit of a topic was lowered: "transactions are aborted" says which topic, and why."""
    bench = Bench()
    bench.add(("a", "some text that is long enough to be signed"))
    bench.cluster.record_bytes_max = 100
    with caplog.at_level(logging.WARNING):
        bench.run("sign", lambda: bench.metrics["sign"].value("transactions", "aborted") >= 3)
    lines = [line for line in caplog.messages if "transactions are aborted" in line]
    assert lines  # more than one if the bytes of the record differ, which has the time of its step
    assert all(" for signed-" in line and "over the limit of 100" in line for line in lines)


def test_a_partition_with_old_times_holds_back_the_others_for_the_longest_wait_only():
    """The slow partition advances each second and is never done: ``align_wait_seconds_max`` released nothing."""
    now_ms = 1_700_000_000_000
    alignment = Alignment(30_000, 60.0)
    alignment.partitions = frozenset((0, 1))
    for partition in (0, 1):
        alignment.start(partition, Committed(0, ""), 0.0)
    alignment.add([Record(0, 0, now_ms, b"", b"x")], now_ms, 0.0)
    signed = []
    for second in range(1, 200):
        alignment.add([Record(1, second, 1_000 + second, b"", b"x")], now_ms, float(second))
        alignment.see({0: 1, 1: second + 1}, {0: LogEnd(1, 1, 0.0), 1: LogEnd(10_000, 10_000, 0.0)}, float(second))
        step = alignment.take(10_000, 1 << 30, now_ms, float(second))
        signed += [second for record in step.records if record.partition == 0]
    assert signed == [62]


def test_a_document_that_a_filter_could_not_send_is_a_dead_letter():
    """The log took the packed message; every filter stopped at it, with code 6, and again after each restart."""
    bench = Bench(verdicts=True)
    bench.cluster.record_bytes_max = 2_000_000  # of a record that is not compressed
    bench.add(("small", "some text that is long enough to be signed"), ("large", "a text that packs well " * 50_000))
    line = json.dumps({"id": "headed", "text": "with much in its headers", "timestamp": 1}).encode()
    bench.cluster.append("documents", 0, line, headers=(("trace", bytes(1_000_000)),))
    metrics = bench.metrics["sign"]
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    assert metrics.value("documents") == 1
    letters = [json.loads(record.value) for record in bench.cluster.records(bench.names.topics.dead)]
    found = sorted((letter["reason"], letter["partition"], letter["offset"]) for letter in letters)
    assert found == [("message_too_large", 0, 1), ("message_too_large", 1, 0)]


def test_the_limits_of_the_topics_are_judged_together(monkeypatch, capsys):
    """``documents`` takes messages that ``documents.unique`` does not take: each limit alone was called safe."""
    settings = settings_of(verdicts=True)
    configs = {plan.name: {**plan.configs, "min.insync.replicas": "1"} for plan in topic_plans(settings)}
    configs["documents"]["max.message.bytes"] = "10000000"
    transport = SimpleNamespace(
        nodes=lambda: 1, describe=lambda name: TopicDescription(name, 2, 1, configs[name]), close=lambda: None,
        bounds=lambda name: {0: (0, 0)}, group_offsets=lambda group, name: {}, shares=lambda group: {},
    )  # fmt: skip
    transport.admin = transport
    monkeypatch.setattr(making, "connect", lambda settings: transport)
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(Failure):
        making.describe(settings)
    shown = " ".join(capsys.readouterr().out.split())
    assert "is more than the 1050000 of documents.unique: signers refuse documents of more than 1000000" in shown


def test_topics_create_says_that_a_topic_keeps_its_partitions(monkeypatch, capsys):
    """It said "was there" of a topic with other partitions than the settings name."""
    settings = settings_of(documents_partitions=8)
    plans = {plan.name: plan for plan in topic_plans(settings)}

    def describe(name):
        partitions = 3 if name.endswith("documents") else plans[name].partitions
        return TopicDescription(name, partitions, 3, {**plans[name].configs, "min.insync.replicas": "2"})

    transport = SimpleNamespace(
        nodes=lambda: 3, create_topics=lambda specs: [], describe=describe, close=lambda: None,
        bounds=lambda name, **given: {},
    )  # fmt: skip
    transport.admin = transport
    monkeypatch.setattr(making, "connect", lambda settings: transport)
    for name, answer in (("begun_again", set()), ("fail_if_lost", None), ("agree", "")):
        monkeypatch.setattr(making, name, lambda *given, answer=answer, **made: answer)
    making.create(settings)
    (documents, *others) = capsys.readouterr().out.splitlines()
    assert documents.startswith("documents: was there with 3 partitions, and keeps them; the settings say 8")
    assert [line for line in others if not line.endswith(": was there")] == []


def _decide(bench, documents):
    for role in ("sign", "match"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    bench.run("link", lambda: bench.metrics["link"].value("documents") >= documents)


def test_the_filter_of_a_new_generation_begins_where_the_old_one_stopped():
    """With ``earliest`` it forwarded every document a second time, with ``latest`` some never."""
    old, new = Bench(verdicts=True), Bench(verdicts=True, threshold=0.5)
    cluster = old.cluster
    for topic in ("signed", "links", "verdicts", "clusters", "originals", "sources"):
        name = getattr(new.names.topics, topic)
        cluster.create(name, new.cluster.partitions(name))
    new.cluster = cluster
    new.agree()
    chance = random.Random(5)
    texts = [" ".join("".join(chance.choices("abcdefghijklmnop", k=6)) for _ in range(20)) for _ in range(12)]
    documents = [(f"d{n}", text) for n, text in enumerate(texts)]
    first, second = documents[:6], documents[6:]

    def forwarded():
        return [record.key.decode() for record in cluster.records("documents.unique")]

    old.add(*first)
    for each in (old, new):
        _decide(each, 6)
    old.run("filter", lambda: old.has_taken_all("filter"))
    assert sorted(forwarded()) == sorted(dict(first))
    old.add(*second)
    for each in (old, new):
        _decide(each, 12)
    cluster.advance(3600.0)
    new.run("filter", lambda: new.has_taken_all("filter"), start=old.names.generation)
    assert sorted(forwarded()) == sorted(dict(documents))
    generations = [dict(record.headers).get("neardup-generation") for record in cluster.records("documents.unique")]
    assert [generations.count(each.names.generation.encode()) for each in (old, new)] == [6, 6]
