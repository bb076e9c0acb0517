"""Workers on topics over days, and what their log says when a broker refuses."""

from __future__ import annotations

import json
import re

from jsonschema import Draft202012Validator
from program import LINK_WORLD, TESTS, Program

_IDLE_WEEK = """
world = LinkWorld()
cluster, committed = world.memory, {}
cluster.session_seconds = 1e9
write = cluster.write_offsets
def noted(producer, topic, offsets, membership):
    committed.update({(topic.partition("-")[0], partition): cluster.now_seconds for partition in offsets})
    write(producer, topic, offsets, membership)
cluster.write_offsets = noted
world.arrive(("a", "a", 0), ("b", "b", 1))
world.link([], (0, 2))
world.turns()
world.linker.trim()
for hour in range(8 * 24):
    cluster.advance(3600.0)
    world.turns(1)
    world.linker.trim()
for (topic, partition), at in sorted(committed.items()):
    print(topic, partition, cluster.now_seconds - at < 86_400)
"""


def test_offsets_of_an_idle_linker_are_committed_each_day(program: Program) -> None:
    """Kafka drops offsets of topics that a group does not subscribe to after a week, although the group lives."""
    done = program.code(LINK_WORLD + _IDLE_WEEK, program.tree)
    expected = ["links 0 True", "signed 0 True", "verdicts 0 True"]
    assert done.stdout.decode().splitlines() == expected, done.stderr.decode()


_REFUSED = """
import logging
from shell_harness import Bench
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
bench = Bench()
bench.add(("a", "some text that is long enough to be signed"))
bench.cluster.record_bytes_max = 100
bench.run("sign", lambda: bench.metrics["sign"].value("transactions", "aborted") >= 3)
"""


def test_a_topic_that_refuses_records_is_named_with_the_error_of_the_broker(program: Program) -> None:
    """The limit of a topic was lowered: "transactions are aborted" says which topic, and why."""
    done = program.code(TESTS + _REFUSED, program.tree)
    (line,) = [line for line in done.stdout.decode().splitlines() if "transactions are aborted" in line]
    assert " for signed-" in line
    assert "over the limit of 100" in line


_OLD_TIMES = """
from neardup_workers.doing.stages.alignment import Alignment
from neardup_workers.outside.transport import protocol
from neardup_workers.outside.transport.protocol import Committed, Record
end = getattr(protocol, "LogEnd", lambda committed, written, age_seconds: committed)
now_ms = 1_700_000_000_000
alignment = Alignment(30_000, 60.0)
alignment.partitions = frozenset((0, 1))
for partition in (0, 1):
    alignment.start(partition, Committed(0, ""), 0.0)
alignment.add([Record(0, 0, now_ms, b"", b"x")], now_ms, 0.0)
for second in range(1, 200):
    alignment.add([Record(1, second, 1_000 + second, b"", b"x")], now_ms, float(second))
    alignment.see({0: 1, 1: second + 1}, {0: end(1, 1, 0.0), 1: end(10_000, 10_000, 0.0)}, float(second))
    step = alignment.take(10_000, 1 << 30, now_ms, float(second))
    if any(record.partition == 0 for record in step.records):
        print("signed after", second)
        break
"""


def test_a_partition_with_old_times_holds_back_the_others_for_the_longest_wait_only(program: Program) -> None:
    """The slow partition advances each second and is never done: ``align_wait_seconds_max`` released nothing."""
    done = program.code(_OLD_TIMES)
    assert done.stdout.decode().split() == ["signed", "after", "62"], done.stderr.decode()


_TOPICS_OF_VERDICTS = """
world = LinkWorld()
world.ranks = {"a": 1.5, "b": 2.5}
world.arrive(("a", "a", 0), ("b", "b", 1), ("c", "c", 2), ("!", "", 0), ("d", "a", 3), ("-c", "", 0))
world.link([("a", "b", 0.8), ("b", "c", 0.75)], (0, 6))
world.turns()
world.offsets["b"] = 1
world.arrive(("b", "b", 4), ("e", "e", 400))
world.link([], (6, 8))
world.turns()
for record in world.memory.records(world.topics.verdicts):
    for line in record.value.splitlines():
        print("verdicts", line.decode())
for record in world.memory.records(world.topics.clusters):
    if record.value is not None:
        print("clusters", record.value.decode())
"""


def test_lines_of_verdicts_and_clusters_match_the_schemas_of_their_topics(program: Program) -> None:
    """``verdict.json`` and ``cluster.json`` describe files; each topic needs a schema of its own."""
    folder = program.tree / "docs" / "schemas"
    rows = re.findall(r"\((\w+\.json)\) \| (.*) \|", (folder / "README.md").read_text(encoding="utf-8"))
    done = program.code(LINK_WORLD + _TOPICS_OF_VERDICTS, program.tree)
    lines = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    assert {topic for topic, _ in lines} == {"verdicts", "clusters"}, done.stderr.decode()
    statuses = {json.loads(line).get("status") for topic, line in lines if topic == "verdicts"}
    assert statuses == {"original", "duplicate", "unchanged", "removed", "refused"}
    for topic, line in lines:
        (name,) = [name for name, of in rows if f"topic `{topic}`" in of]
        schema = json.loads((folder / name).read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(json.loads(line))


_TOO_LARGE = """
import json
from shell_harness import Bench
bench = Bench(verdicts=True)
bench.cluster.record_bytes_max = 2_000_000  # of a record that is not compressed
bench.add(("small", "some text that is long enough to be signed"), ("large", "a text that packs well " * 50_000))
line = json.dumps({"id": "headed", "text": "with much in its headers", "timestamp": 1}).encode()
bench.cluster.append("documents", 0, line, headers=(("trace", bytes(1_000_000)),))
metrics = bench.metrics["sign"]
bench.run("sign", lambda: bench.has_taken_all("sign"))
print(round(metrics.value("documents")))
for record in bench.cluster.records(bench.names.topics.dead):
    letter = json.loads(record.value)
    print(letter["reason"], letter["partition"], letter["offset"])
"""


def test_a_document_that_a_filter_could_not_send_is_a_dead_letter(program: Program) -> None:
    """The log took the packed message; every filter stopped at it, with code 6, and again after each restart."""
    done = program.code(TESTS + _TOO_LARGE, program.tree)
    expected = ["1", "message_too_large 0 1", "message_too_large 1 0"]
    found = done.stdout.decode().splitlines()
    assert sorted(found) == expected, done.stderr.decode()


_LIMITS = """
from types import SimpleNamespace
from shell_harness import settings_of
from neardup_workers.running.commands import topics
if hasattr(topics, "__path__"):
    from neardup_workers.running.commands.topics import making as topics
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.outside.transport.kafka.transport import TopicDescription
settings = settings_of(verdicts=True)
configs = {plan.name: {**plan.configs, "min.insync.replicas": "1"} for plan in topic_plans(settings)}
configs["documents"]["max.message.bytes"] = "10000000"
admin = SimpleNamespace(nodes=lambda: 1, describe=lambda name: TopicDescription(name, 2, 1, configs[name]))
topics.connect = lambda settings: SimpleNamespace(
    admin=admin, close=lambda: None, bounds=lambda name: {0: (0, 0)}, group_offsets=lambda group, name: {},
    shares=lambda group: {}, **vars(admin)
)
try:
    topics.describe(settings)
except Exception as error:
    print(error)
"""


def test_the_limits_of_the_topics_are_judged_together(program: Program) -> None:
    """``documents`` takes messages that ``documents.unique`` does not take: each limit alone was called safe."""
    done = program.code(TESTS + _LIMITS, program.tree, env={"COLUMNS": "1000"})
    shown = " ".join(done.stdout.decode().split())
    assert "is more than the 1050000 of documents.unique: signers refuse documents of more than 1000000" in shown, done


_CUTOVER = """
import random
from shell_harness import Bench

def decide(bench, documents):
    for role in ("sign", "match"):
        bench.run(role, lambda: bench.has_taken_all(role))
    bench.run("link", lambda: bench.metrics["link"].value("documents") >= documents)

def forwarded(bench):
    return [record.key.decode() for record in bench.cluster.records("documents.unique")]

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
old.add(*first)
for each in (old, new):
    decide(each, 6)
old.run("filter", lambda: old.has_taken_all("filter"))
print(sorted(forwarded(old)) == sorted(dict(first)))
old.add(*second)
for each in (old, new):
    decide(each, 12)
cluster.advance(3600.0)
new.run("filter", lambda: new.has_taken_all("filter"), start=old.names.generation)
found = forwarded(new)
print(len(found), len(set(found)), sorted(found) == sorted(dict(documents)))
generations = [dict(record.headers).get("neardup-generation") for record in cluster.records("documents.unique")]
print([generations.count(each.names.generation.encode()) for each in (old, new)])
"""


def test_the_filter_of_a_new_generation_begins_where_the_old_one_stopped(program: Program) -> None:
    """With ``earliest`` it forwarded every document a second time, with ``latest`` some never."""
    done = program.code(TESTS + _CUTOVER, program.tree)
    assert done.stdout.decode().splitlines() == ["True", "12 12 True", "[6, 6]"], done.stderr.decode()
