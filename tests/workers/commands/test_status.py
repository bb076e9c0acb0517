"""``neardup status`` names each incident by the right sentence. The incidents are injected into topics in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench, settings_of

from neardup.pairs.shards import Growth
from neardup_workers.doing.stages.verdicts.positions import SignedMetadata, encode_metadata
from neardup_workers.outside.options.running import StatusOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import MATCH, names_of
from neardup_workers.outside.transport.assignment import Offer
from neardup_workers.outside.transport.protocol import Committed, Message
from neardup_workers.running.commands.topics.shards import ShardState, shard_table, states_of
from neardup_workers.running.commands.topics.status import setting_problems, status


def minutes_ago(minutes: int) -> int:
    """A time in milliseconds, from now and not from the import of this module."""
    return int(time.time() * 1000) - 60_000 * minutes


def worked(**changes) -> Bench:
    """A deployment whose signer and matcher have worked off four documents, and have a member each."""
    bench = Bench(**changes)
    bench.cluster.session_seconds = 1e6
    add(bench)
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    bench.run("match", lambda: bench.has_taken_all("match"))
    _join(bench, "sign", bench.names.topics.documents)
    _join(bench, "match", bench.names.topics.links)
    return bench


def add(bench: Bench, timestamp_ms: int | None = None) -> None:
    for i in range(4):
        value = json.dumps({"id": f"d{i}", "text": f"{TEXT} {i}", "timestamp": 1_600_000_000}).encode()
        bench.cluster.append(bench.names.topics.documents, i % 2, value, b"d%d" % i, timestamp_ms)


def shown(bench: Bench, capsys, settings: StreamSettings | None = None) -> tuple[Exit, dict]:
    """The exit code, and what the command prints as JSON."""
    transport = MemoryTransport(bench.cluster, wait=lambda seconds: None)
    code = status(StatusOptions(as_json=True), transport, settings or bench.settings)
    return code, json.loads(capsys.readouterr().out)


def test_a_deployment_that_works_has_no_problem(capsys) -> None:
    """All is read, markers of transactions are no records, and a wish for more replicas is a remark."""
    bench = worked()
    code, found = shown(bench, capsys)
    assert code == Exit.SUCCESS
    assert [(role["role"], role["members"], role["lag_records"]) for role in found["roles"]] == [
        ("sign", 1, 0), ("match", 1, 0),
    ]  # fmt: skip
    assert all(role["last_output"] for role in found["roles"])
    assert (found["watermark"], found["held_back_by"]) == (None, None)
    assert {problem["code"] for problem in found["problems"]} <= {0}


def test_one_broker_is_one_note_for_all_topics(capsys) -> None:
    """What several topics have in common is said once, and so is what some of them have."""
    bench = worked(verdicts=True)
    _, found = shown(bench, capsys)
    said = [one["what"] for one in found["problems"] if "replication.factor=1" in one["what"]]
    assert [what.partition(":")[0] for what in said] == [f"all {len(bench.cluster._topics)} topics"]
    for topic in ("documents", "candidates"):
        _configure(bench, topic, cleanup_policy="compact")
    _, found = shown(bench, capsys)
    assert [one["what"].partition(" must")[0] for one in found["problems"] if "compact" in one["what"]] == [
        "documents, candidates: cleanup.policy=compact"
    ]


def test_describe_shows_where_each_shard_is() -> None:
    """A window has the messages from its beginning to the place of its shard; no place is named as such."""
    bench = worked()
    transport = MemoryTransport(bench.cluster)
    found = _states(transport, bench.settings)
    assert [one.shard for one in found] == [0, 1]
    assert {(one.window, one.time) for one in found} == {(1, None), (0, 1_600_000_000.0)}  # one has no document
    assert all(one.behind is not None and one.behind <= 1 for one in found)  # a marker of a transaction
    _end(bench, "sign")
    add(bench)
    _signed(bench)
    assert [one.behind for one in _states(transport, bench.settings)] == [one.behind + 2 for one in found]
    other = bench.settings.model_copy(update={"group": "other"})
    assert _states(transport, other)[1] == (1, None, None, None, None, ())
    assert len(shard_table(found).rows) == 2


def _states(transport: MemoryTransport, settings: StreamSettings) -> list[ShardState]:
    names = names_of(settings)
    return states_of(transport, settings, transport.group_offsets(names.group(MATCH), names.topics.links))


def test_the_oldest_unread_record_holds_everything_back(capsys) -> None:
    """The watermark is its time, in whichever topic it waits."""
    bench = worked()
    time_ms = minutes_ago(1)
    add(bench, time_ms)
    code, found = shown(bench, capsys)
    assert (code, found["held_back_by"]) == (Exit.SUCCESS, "sign")
    assert found["watermark"] == time_ms / 1000
    sign, _ = found["roles"]
    assert (sign["lag_records"], [one["records"] for one in sign["partitions"]]) == (4, [2, 2])
    assert 60 <= sign["lag_seconds"] < 120


def _remake(bench: Bench, topic: str, partitions: int = 2) -> None:
    made = bench.cluster._topics.pop(topic)
    bench.cluster.create(topic, partitions, made.configs)


def _configure(bench: Bench, topic: str, **configs: str) -> None:
    made = bench.cluster._topics[topic]
    made.configs = {**made.configs, **{name.replace("_", "."): value for name, value in configs.items()}}


def _end(bench: Bench, role: str) -> None:
    """End the members of a role, and let documents wait."""
    group = bench.cluster._groups[bench.names.group(role)]
    for member in list(group.members):
        group.leave(member)


def _join(bench: Bench, role: str, topic: str, count: int = 1) -> None:
    group, there = bench.names.group(role), bench.cluster.members(bench.names.group(role))
    for i in range(there, there + count):
        MemoryTransport(bench.cluster).consumer(topic, group, f"member-{i}").poll(0.0, 1)


def _signed(bench: Bench) -> None:
    bench.run("sign", lambda: bench.has_taken_all("sign"))


# Name -> what is done to the deployment, the exit code, and parts of what is wrong and what to do. {b} is the topic
# signed, {l} the topic links, and {g} the generation.
Incident = tuple[Callable[[Bench], object], Exit, str, str]
INCIDENTS: dict[str, Incident] = {
    "a topic is missing": (
        lambda bench: bench.cluster._topics.pop(bench.names.topics.candidates),
        Exit.TOPIC, "the topic candidates is missing", "make it with neardup topics create",
    ),
    "a topic is compacted": (
        lambda bench: _configure(bench, "documents", cleanup_policy="compact"),
        Exit.TOPIC, "documents: cleanup.policy=compact must be delete", "change cleanup.policy of the topic",
    ),
    "signed is deleted by size": (
        lambda bench: _configure(bench, bench.names.topics.signed, retention_bytes="1000"),
        Exit.TOPIC, "{b}: retention.bytes=1000 must be -1", "change retention.bytes of the topic",
    ),
    "links have partitions of another generation": (
        lambda bench: _remake(bench, bench.names.topics.links, 1),
        Exit.TOPIC, "{l}: partitions=1 must be at least 2", "change partitions of the topic",
    ),
    "all signers are gone": (
        lambda bench: (_end(bench, "sign"), add(bench)),
        Exit.STUCK, "no signer is a member of neardup-sign-{g}, and 4 records wait in documents",
        "start one with neardup sign",
    ),
    "all matchers are gone": (
        lambda bench: (_end(bench, "match"), _end(bench, "sign"), add(bench), _signed(bench)),
        Exit.STUCK, "no matcher is a member of neardup-match-{g}, and", "start one with neardup match",
    ),
    "signers are behind": (
        lambda bench: add(bench, minutes_ago(60)),
        Exit.STUCK, "signers are behind: partition 0 of documents has 2 unread records, the oldest from 20",
        "start more signers: 1 share 2 partitions",
    ),
    "retention was faster than the signers": (
        lambda bench: (add(bench), MemoryTransport(bench.cluster).trim("documents", {0: 3})),
        Exit.GAP, "offsets 2 to 3 of partition 0 of documents were deleted before a signer had read them",
        "a longer retention, then start the signer with --allow-gap",
    ),
    "the topic of documents was made again": (
        lambda bench: _remake(bench, "documents"),
        Exit.GAP, "partition 0 of documents ends at 0, and neardup-sign-{g} has committed 2", "delete the group",
    ),
    "the topic of documents was made again and filled": (
        lambda bench: (_remake(bench, "documents"), add(bench)),
        Exit.GAP, "documents was deleted and made again: what stood in it is lost", "begin a new generation",
    ),
    "two matchers have nothing to do": (
        lambda bench: _join(bench, "match", bench.names.topics.links, 3),
        Exit.SUCCESS, "2 of 4 matchers have no shard: there are 2", "end them, or keep them to take over",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_named_by_its_sentence(name: str, capsys) -> None:
    """What is wrong, what to do, and the exit code of a probe."""
    inject, expected, what, do = INCIDENTS[name]
    bench = worked()
    inject(bench)
    code, found = shown(bench, capsys)
    names = {"{b}": bench.names.topics.signed, "{l}": bench.names.topics.links, "{g}": bench.names.generation}
    for mark, text in names.items():
        what = what.replace(mark, text)
    assert any(what in one["what"] and do in one["do"] for one in found["problems"]), found["problems"]
    assert code == expected


def test_a_transaction_that_stays_open_is_a_problem(capsys) -> None:
    """What is written behind its first record is no lag: readers cannot see it. One that ends is none."""
    bench = worked()
    producer = MemoryTransport(bench.cluster).producer("hanging")
    producer.begin()
    producer.send(Message(bench.names.topics.documents, 1, b"{}"))
    producer.flush()
    add(bench)
    code, found = shown(bench, capsys)
    (said,) = [one["what"] for one in found["problems"] if one["code"] == Exit.STUCK]
    assert code == Exit.STUCK
    assert "is open at offset" in said
    assert "partition 1 of documents: the 3 offsets from there on cannot be read yet" in said
    producer.abort()
    assert not [one for one in shown(bench, capsys)[1]["problems"] if "is open" in one["what"]]


def test_shards_with_other_settings_of_matching_are_named(capsys) -> None:
    """A remark without verdicts; with them a problem, because the linker waits. Those in force are compared, too."""
    bench = worked()
    other = settings_of(window_seconds=5e8)
    code, found = shown(bench, capsys, other)
    (said,) = [one["what"] for one in found["problems"] if "other settings of matching" in one["what"]]
    assert said.startswith("shards [0, 1] were matched last")
    assert code == Exit.GENERATION
    (said,) = [one for one in found["problems"] if one["code"] == Exit.GENERATION]
    assert said["what"].startswith("window_seconds is 500000000.0, but was 1000000000.0 in the settings in force")
    assert said["do"].startswith("give all workers the same ones; to change them, end all workers")
    matched = MemoryTransport(bench.cluster).group_offsets(bench.names.group(MATCH), bench.names.topics.links)
    (problem,) = setting_problems(matched, settings_of(window_seconds=5e8, verdicts=True))
    assert problem.code == Exit.STUCK
    assert not list(setting_problems(matched, settings_of(verdicts=True)))


def test_a_prefix_of_another_deployment_is_named(capsys) -> None:
    """As its workers would end."""
    bench = worked()
    code, found = shown(bench, capsys, settings_of(group="second"))
    assert code == Exit.TOPIC
    assert any("belong to the deployment with group 'neardup'" in one["what"] for one in found["problems"])


def test_a_group_that_never_committed_is_named(capsys) -> None:
    """Its workers restore, or wait for --from, and a linker for links."""
    bench = Bench(verdicts=True)
    add(bench)
    _signed(bench)
    _join(bench, "match", bench.names.topics.links)
    _join(bench, "link", bench.names.topics.signed)
    code, found = shown(bench, capsys)
    assert code == Exit.STUCK
    said = {one["do"] for one in found["problems"] if "has members and has never committed" in one["what"]}
    assert said == {
        "see the log of the matcher: it restores, or needs --from earliest",
        "see the log of the linker: it waits for links, or needs --from earliest",
    }


def test_settings_of_another_generation_are_suspected(capsys) -> None:
    """The topics of the workers have another generation in their names."""
    bench = worked()
    other = bench.settings.model_copy(update={"shards": 3})
    code, found = shown(bench, capsys, other)
    assert code == Exit.TOPIC
    assert any("or give the settings of the workers" in one["do"] for one in found["problems"])


def test_the_screen_says_the_same_for_reading(capsys) -> None:
    """A line a role, then what is wrong and what to do."""
    bench = worked()
    _end(bench, "match")
    code = status(StatusOptions(), MemoryTransport(bench.cluster, wait=lambda seconds: None), bench.settings)
    out = capsys.readouterr().out
    assert code == Exit.STUCK
    assert f"generation {bench.names.generation}" in out
    assert "WRONG" in out
    assert "no matcher is a member" in out


def test_owners_and_standbys_of_shards_are_shown(capsys) -> None:
    """Two matchers stand by for each other; one alone has no standby, which is a remark."""
    bench = worked(standbys=1)
    group, links = bench.names.group("match"), bench.names.topics.links
    _, found = shown(bench, capsys)
    assert [(one["owner"], one["standbys"]) for one in found["shards"]] == [("member-0", [])] * 2
    assert [one["what"] for one in found["problems"] if "standbys" in one["what"]] == [
        "of 2 shards, 2 have fewer standbys than standbys=1: [0, 1]"
    ]
    members = [MemoryTransport(bench.cluster).consumer(links, group, f"member-{i}") for i in (0, 1)]
    for _ in range(6):
        for i, member in enumerate(members):
            member.offer(Offer(1, frozenset([i])))
            member.poll(0.0, 1)
    _, found = shown(bench, capsys)
    assert [(one["owner"], one["standbys"]) for one in found["shards"]] == [
        ("member-0", ["member-1"]), ("member-1", ["member-0"]),
    ]  # fmt: skip
    assert not any("standbys" in one["what"] for one in found["problems"])
    status(StatusOptions(), MemoryTransport(bench.cluster, wait=lambda seconds: None), bench.settings)
    assert "standbys" in capsys.readouterr().out


def test_owner_and_standby_of_the_linker_are_shown(capsys) -> None:
    """In the table of the shards; without a standby that is a remark, and without ``verdicts`` there is no linker."""
    bench = Bench(verdicts=True, standbys=1)
    group, signed = bench.names.group("link"), bench.names.topics.signed

    def follow(count: int) -> None:
        members = [MemoryTransport(bench.cluster).consumer(signed, group, f"linker-{i}") for i in range(count)]
        for _ in range(4):
            for i, member in enumerate(members):
                member.offer(Offer(1, frozenset([0] if i == 0 else [])))
                member.poll(0.0, 1)

    def remarks(found: dict) -> list[str]:
        return [one["what"] for one in found["problems"] if "the linker has fewer" in one["what"]]

    follow(1)
    _, found = shown(bench, capsys)
    assert (found["linker"]["owner"], found["linker"]["standbys"]) == ("linker-0", [])
    assert remarks(found) == ["the linker has fewer standbys than standbys=1"]
    follow(2)
    for _ in range(4):
        bench.cluster.append(signed, 0, b"")
    committed = Committed(3, encode_metadata(SignedMetadata(0, 3, 1, None, Growth(2), window=1)))
    bench.cluster.group(group, signed).offsets[0] = committed
    _, found = shown(bench, capsys)
    assert found["linker"] == {
        "shard": None, "window": 2, "behind": 1, "time": None, "owner": "linker-0", "standbys": ["linker-1"]
    }  # fmt: skip
    assert not remarks(found)
    status(StatusOptions(), MemoryTransport(bench.cluster, wait=lambda seconds: None), bench.settings)
    assert "linker-1" in capsys.readouterr().out
    assert shown(worked(), capsys)[1]["linker"] is None
