"""`neardup topics plan`: what a change of settings means, by the fingerprints that workers compare."""

from __future__ import annotations

import pytest
from memory_cluster import MemoryCluster
from memory_transport import MemoryTransport

from neardup.errors import ConfigError
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import changed
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.outside.transport.protocol import Message
from neardup_workers.running.commands.topics.plan import Consequence, plan, steps_of

GIVEN = {"window_seconds": 100.0, "lateness_seconds": 60.0, "documents_partitions": 2}
BEFORE = StreamSettings(**GIVEN)  # type: ignore[arg-type]


def transport() -> MemoryTransport:
    """The topics of the settings, with some documents."""
    cluster = MemoryCluster()
    for each in topic_plans(BEFORE):
        cluster.create(each.name, each.partitions)
    producer = MemoryTransport(cluster).producer("load")
    producer.begin()
    for number in range(7):
        producer.send(Message("documents", number % 2, b"{}"))
    producer.flush()
    producer.commit()
    return MemoryTransport(cluster)


def steps(*changes: str) -> list[Consequence]:
    """The steps of changes."""
    after = StreamSettings(**changed(GIVEN, changes))
    return list(steps_of(transport(), BEFORE, after))


def test_each_class_of_settings_has_its_steps() -> None:
    """Worker, matching, topic and signing settings, alone and together."""
    assert steps() == []
    (restart,) = steps("memory_max=268435456")
    assert restart.means.startswith("In place")
    (replay,) = steps("min_similarity=0.9")
    assert replay.means.startswith("A replay")
    assert replay.commands[:2] == ("# end all workers, then:", "neardup topics create --min-similarity 0.9")
    others = StreamSettings(**GIVEN, fields=("text=a", "time=b"))  # type: ignore[arg-type]
    (together,) = steps_of(transport(), BEFORE, others)
    assert together.means.startswith("In force for all")
    assert together.commands[:2] == ("# end all workers, then:", "neardup topics create --set=fields=text=a,time=b")
    (topics,) = steps("documents_partitions=4")
    assert topics.commands == ("neardup topics create --grow --documents-partitions 4  # more, never fewer",)
    (kept,) = steps("retention_seconds=3600")
    assert all("--add-config retention.ms=3600000" in line for line in kept.commands)
    assert len(kept.commands) == 3  # documents, dead letters, candidates
    assert [step.means.partition(":")[0] for step in steps("retention_seconds=3600", "window_seconds=200")] == [
        "The topics", "A replay"
    ]  # fmt: skip
    both = steps("retention_seconds=3600", "memory_max=268435456")
    assert [step.means.partition(":")[0] for step in both] == ["The topics", "In place"]
    (more,) = steps("shards=16")
    assert more.means.startswith("In place: the running stream gets more shards. Leave the setting shards as it is")
    assert more.commands == ("neardup topics shards 16", "neardup topics describe")
    (unmade,) = list(steps_of(transport(), StreamSettings(**{**GIVEN, "verdicts": True}), BEFORE))
    assert unmade.means.startswith("In force")  # the topics of verdicts stay, and the workers must know
    assert steps("replication_factor=2") == []  # it counts for a new topic only


@pytest.mark.parametrize("change", ["threshold=0.7", "scheme=minhash", "shingles=words", "shards=4"])
def test_what_decides_keys_is_a_new_generation_with_its_cost(change: str) -> None:
    """The commands name the change, and the generation whose place the new filters take."""
    (step,) = steps(change)
    after = StreamSettings(**changed(GIVEN, [change]))
    assert names_of(after).generation in step.means
    assert "9 records of documents" in step.cost  # two end transactions
    assert step.commands[0].startswith("neardup topics create --")
    (filters,) = [line for line in steps(change, "verdicts=true")[0].commands if line.startswith("neardup filter")]
    assert f"--from {names_of(BEFORE).generation} --" in filters


def test_every_setting_of_the_library_falls_into_one_class() -> None:
    """The one of the fingerprint that it changes, and that of a restart if it changes none."""
    for change in ("k=7", "seed=3", "recall=0.9", "window_documents=50", "fold=none", "story_seconds_max=200"):
        after = StreamSettings(**changed(GIVEN, [change]))
        (step,) = steps(change)
        is_signed = after.signing_fingerprint != BEFORE.signing_fingerprint
        is_matched = after.matching_fingerprint != BEFORE.matching_fingerprint
        expected = "A new generation" if is_signed else "A replay" if is_matched else "In force"
        assert step.means.startswith(expected), change


def test_what_cannot_be_planned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another deployment, an unknown name, no value, unsafe topics."""
    with pytest.raises(ConfigError, match="name a deployment"):
        steps("topic_prefix=other.")
    with pytest.raises(ConfigError, match="unknown setting treshold in --set; did you mean threshold"):
        changed({}, ["treshold=0.7"])
    with pytest.raises(ConfigError, match="--set threshold gives no value"):
        changed({}, ["threshold"])
    with pytest.raises(ConfigError, match=r"partitions=2 must be 1 while lateness_seconds is 10"):
        plan(BEFORE, StreamSettings(**changed(GIVEN, ["lateness_seconds=10"])))


def test_the_plan_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes, steps, costs and commands; a change that means nothing says so."""
    monkeypatch.setattr("neardup_workers.running.commands.topics.plan.connect", lambda settings: transport())
    plan(BEFORE, StreamSettings(**changed(GIVEN, ["window_seconds=200"])))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "window_seconds: 100.0 -> 200.0"
    assert [lines.index(line) for line in lines if line.startswith(("1. A replay", "   Cost: ", "     neardup"))]
    plan(BEFORE, BEFORE)
    assert capsys.readouterr().out.startswith("nothing is to be done")
