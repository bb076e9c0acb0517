"""All workers of a deployment have the settings in force, and the prefix is theirs; others end with a sentence."""

from __future__ import annotations

import orjson
import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench, settings_of
from topics_world import TopicsWorld

from neardup_workers.doing.stages.agreement import agree, agreed_of, check_agreed
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import Message, UnreachableError

_WAS = "but was 1000000000.0"


@pytest.mark.parametrize(
    ("role", "changes", "named"),
    [
        ("match", {"window_seconds": 100.0}, f"window_seconds is 100.0, {_WAS}"),
        ("link", {"window_seconds": 100.0}, f"window_seconds is 100.0, {_WAS}"),
        ("sign", {"lateness_seconds": 60.0}, "lateness_seconds is 60.0, but was 3600.0"),
        ("match", {"verdicts": False}, "verdicts is False, but was True"),
        ("match", {"pairs_max": 8}, "pairs_max is 8, but was None"),
        ("link", {"story_seconds_max": 5.0}, "story_seconds_max is 5.0, but was "),
        ("sign", {"representative": "longest"}, "representative is longest, but was first"),
        ("sign", {"fields": ("text=body",)}, "fields is "),
        ("filter", {"forward": ("original",)}, "forward is ['original'], but was ['original', 'update']"),
    ],
)
def test_a_worker_with_other_settings_than_its_deployment_ends_and_names_them(
    role: str, changes: dict[str, object], named: str
) -> None:
    """Also during a rolling restart, when the others of its role have not been restarted yet."""
    bench = Bench(verdicts=True)
    with pytest.raises(Failure, match=r"in the settings in force .* end all workers") as failed:
        bench.run(role, lambda: bench.stop.naps, **changes)
    assert failed.value.code == Exit.GENERATION
    assert named in str(failed.value)


def test_settings_that_decide_no_result_may_differ() -> None:
    """Those that OPERATIONS lists: of processes, of memory, of waits."""
    bench = Bench(verdicts=True)
    changes = {
        "standbys": 1, "memory_max": 64 << 20, "instance": "7", "allow_gap": True, "align_wait_seconds_max": 5.0,
        "sources_max": 5, "blocked": "list", "sign_threads": 1, "start": None, "health_port": 0,
    }  # fmt: skip
    check_agreed(MemoryTransport(bench.cluster), bench.settings.model_copy(update=changes))


def test_settings_change_when_all_workers_have_ended() -> None:
    """A member of a group refuses the change; then workers with the old settings are those that end."""
    bench = Bench(verdicts=True)
    transport, new = MemoryTransport(bench.cluster), bench.settings.model_copy(update={"window_seconds": 50.0})
    consumer = transport.consumer(bench.names.topics.links, bench.names.group("match"), "m")
    consumer.poll(0.0, 1)
    with pytest.raises(Failure, match=r"^window_seconds is 50.0, .*-match-.* have members: end all workers") as failed:
        agree(transport, new)
    assert failed.value.code == Exit.GENERATION
    transport.leave(bench.names.group("match"), "m")
    assert agree(transport, new) == f"window_seconds is 50.0, {_WAS}"
    assert agree(transport, new) == ""
    check_agreed(transport, new)
    with pytest.raises(Failure, match=r"^window_seconds is 1000000000.0, but was 50.0"):
        check_agreed(transport, bench.settings)


def test_a_worker_that_runs_ends_when_other_settings_are_put_in_force() -> None:
    """One that was asleep while all others had ended learns it before its next step."""
    bench = Bench()
    bench.add(("a", TEXT), ("b", TEXT))
    bench.sign(2)
    looks = []

    def change() -> bool:
        looks.append(0)
        if len(looks) == 5:
            other = Bench(window_seconds=5.0)
            topic = bench.names.topics.settings
            (record,) = other.cluster.records(topic)
            bench.cluster.append(topic, 0, record.value, record.key)
        return False

    with pytest.raises(Failure, match=r"^window_seconds is 1000000000.0, but was 5.0") as failed:
        bench.run("match", change)
    assert failed.value.code == Exit.GENERATION


@pytest.mark.parametrize("changes", [{}, {"threshold": 0.6}])
@pytest.mark.parametrize("role", ["sign", "match", "link", "filter"])
def test_a_second_deployment_with_the_prefix_of_the_first_ends_and_names_it(
    role: str, changes: dict[str, object]
) -> None:
    """With the settings of the first one, and with those of another generation."""
    bench = Bench(verdicts=True)
    second = settings_of(verdicts=True, group="second", **changes)
    _missing_topics(bench, second)
    with pytest.raises(Failure, match="belong to the deployment with group 'neardup', which made them") as failed:
        bench.run(role, lambda: bench.stop.naps, group="second", **changes)
    assert failed.value.code == Exit.TOPIC
    with pytest.raises(Failure, match="give it another topic_prefix, or group=neardup"):
        agree(MemoryTransport(bench.cluster), second)


def _missing_topics(bench: Bench, settings: StreamSettings) -> None:
    for name in (*names_of(settings).topics,):
        if name not in bench.cluster._topics:
            bench.cluster.create(name, 2 if "links" in name or "documents" in name else 1)


def test_two_generations_of_one_deployment_have_their_own_settings() -> None:
    """The owner is the same; what is in force for one is nothing to the other."""
    bench = Bench()
    transport, other = MemoryTransport(bench.cluster), settings_of(threshold=0.6, window_seconds=9.0)
    with pytest.raises(Failure, match=r"has no settings of generation .* run neardup topics create"):
        check_agreed(transport, other)
    assert agree(transport, other) == ""
    check_agreed(transport, other)
    check_agreed(transport, bench.settings)


def test_a_member_checks_once_before_what_it_was_given_begins() -> None:
    """A rebalance that gives it nothing needs no check; records that were polled are not lost if it fails."""
    world, checks, begun = TopicsWorld({"t": 2}), [], []
    member = world.member("t", "g", "one")

    def check(*, begins: bool) -> None:
        checks.append(begins)
        if len(checks) == 1:
            raise UnreachableError("a change is under way")

    member.check = check
    for looks in (1, 2, 2):
        member.poll(0.0, 1)
        member.begin(lambda partition: not begun.append(partition))
        assert checks == [True] * looks
    assert sorted(begun) == [0, 1]
    other = world.member("t", "g", "two")
    for _ in range(3):
        other.poll(0.0, 1)
        member.poll(0.0, 1)
        member.begin(lambda partition: not begun.append(partition))
    assert len(checks) == 2


@pytest.mark.parametrize("role", ["sign", "match", "link", "filter"])
def test_a_worker_that_joins_during_a_change_of_settings_publishes_nothing(role: str) -> None:
    """The change saw no member before the worker joined, and the worker's start saw the old settings."""
    bench = Bench(verdicts=True)
    bench.add(("a", TEXT), ("b", TEXT))
    changes = {"sign": (), "match": ("sign",), "link": ("sign", "match"), "filter": ("sign", "match", "link")}
    for before in changes[role]:
        bench.run(before, lambda before=before: bench.has_taken_all(before))
        bench.cluster.advance(60.0)
    changing = MemoryTransport(bench.cluster).producer("administrator")
    other = bench.settings.model_copy(update={"window_seconds": 5.0})
    value = orjson.dumps({"version": 1, **agreed_of(other)._asdict()})
    topic, connected = bench.names.topics.settings, []
    written = {name: bench.cluster.records(name) for name in bench.names.topics}

    def change() -> bool:
        connected.append(0)
        if len(connected) == 2:  # the start of the worker has looked, and its next turns join
            changing.begin()
            changing.send(Message(topic, 0, value, bench.names.generation.encode()))
            changing.flush()
        if len(connected) == 9:
            assert MemoryTransport(bench.cluster).members(bench.names.group(role))
            changing.commit()
        return False

    with pytest.raises(Failure, match=r"^window_seconds is 1000000000.0, but was 5.0"):
        bench.run(role, change)
    assert len(connected) < 12
    after = {name: bench.cluster.records(name) for name in bench.names.topics}
    assert {name for name in after if after[name] != written[name]} == {topic}


def test_a_change_that_meets_a_member_is_undone() -> None:
    """A worker may have joined after the change was begun: it is looked for behind the record, which is aborted."""
    bench = Bench(verdicts=True)
    bench.agree(pairs_max=5)
    transport, topic = MemoryTransport(bench.cluster), bench.names.topics.settings
    consumer = transport.consumer(bench.names.topics.links, bench.names.group("match"), "m")
    seen = []

    def members(group: str) -> int:
        if not seen:  # the worker joins in this moment
            seen.append(transport.bounds(topic, written=True)[0][1] - transport.bounds(topic)[0][1])
            consumer.poll(0.0, 1)
        return MemoryTransport.members(transport, group)

    transport.members = members
    with pytest.raises(Failure, match=r"have members: end all workers"):
        agree(transport, bench.settings)
    assert seen == [1]
    check_agreed(transport, bench.settings.model_copy(update={"pairs_max": 5}))


def test_what_was_written_is_awaited_before_it_is_compared() -> None:
    """The marker of a commit follows its answer: an open transaction hides the record for a while."""
    bench = Bench()
    transport, topic = MemoryTransport(bench.cluster), bench.names.topics.settings
    other = transport.producer("late")
    other.begin()
    other.send(Message(topic, 0, b"x", b"x"))
    other.flush()
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        other.abort()

    new = bench.settings.model_copy(update={"window_seconds": 50.0})
    assert agree(transport, new, sleep) == f"window_seconds is 50.0, {_WAS}"
    assert len(naps) == 1
