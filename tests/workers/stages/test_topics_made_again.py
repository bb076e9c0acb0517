"""Topics that were deleted and made again under the committed offsets: each role ends with a code and says which."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench

from neardup_workers.doing.stages.agreement import agree, check_kept, in_force
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.transport.kafka.transport import TopicDescription, TopicSpec
from neardup_workers.outside.transport.protocol import UnreachableError
from neardup_workers.running.commands.topics import making

READ = [
    ("sign", "documents"), ("match", "signed"), ("link", "signed"), ("link", "links"), ("link", "verdicts"),
    ("filter", "verdicts"), ("filter", "documents"),
]  # fmt: skip
AGAIN = r"{}.* was deleted and made again: .* offsets name other records now: .* begin a new generation"


def _worked() -> Bench:
    bench = Bench(verdicts=True)
    bench.add(*((f"d{i}", f"{TEXT} {i}") for i in range(8)))
    for role in ("sign", "match", "link", "filter"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    return bench


def _make_again(bench: Bench, topic: str, *, has_id: bool = True, is_filled: bool = False) -> str:
    """Make a topic again, with its old id if brokers give none, empty or as long as it was; returns its name."""
    name, topics = getattr(bench.names.topics, topic), bench.cluster._topics
    before = topics.pop(name)
    bench.cluster.create(name, len(before.logs), before.configs)
    topics[name].id = topics[name].id if has_id else before.id
    topics[name].logs = before.logs if is_filled else topics[name].logs
    return name


@pytest.mark.parametrize(("role", "topic"), READ)
def test_a_role_whose_topic_was_made_again_ends_and_says_so(role: str, topic: str) -> None:
    """It restored or read without end, and nothing was said. Here brokers give topics no ids."""
    bench = _worked()
    name = _make_again(bench, topic, has_id=False)
    with pytest.raises(Failure, match=rf"{name}.* ends at 0, and .* has committed .*: the topic was made again") as end:
        bench.run(role, lambda: False)
    assert end.value.code == Exit.GAP


@pytest.mark.parametrize("looks_before", [0, 5])
@pytest.mark.parametrize(("role", "topic"), [*READ, ("sign", "signed"), ("match", "links")])
def test_a_topic_that_was_made_again_and_filled_ends_its_roles(role: str, topic: str, looks_before: int) -> None:
    """Its offsets reach beyond the committed ones, so no offset shows it; before a worker starts, and while it runs."""
    bench, looks = _worked(), []

    def make_again() -> bool:
        looks.append(0)
        if len(looks) == looks_before:
            _make_again(bench, topic, is_filled=True)
        return False

    if not looks_before:
        _make_again(bench, topic, is_filled=True)
    with pytest.raises(Failure, match=AGAIN.format(getattr(bench.names.topics, topic))) as end:
        bench.run(role, make_again)
    assert end.value.code == Exit.GAP


def test_a_worker_that_reads_beyond_the_end_names_the_topic_and_no_gap() -> None:
    """What it reads is out of range before it looks at the ids."""
    bench, looks = _worked(), []

    def make_again() -> bool:
        looks.append(0)
        if len(looks) == 5:
            _make_again(bench, "documents")
        return False

    with pytest.raises(Failure, match=AGAIN.format("documents")):
        bench.run("sign", make_again)


def test_topics_that_an_administrator_makes_again_are_agreed_upon() -> None:
    """Those that somebody else has made are not; a worker that ran meanwhile keeps to those that it began with."""
    bench, looks = _worked(), []
    transport = MemoryTransport(bench.cluster)
    made = [_make_again(bench, topic) for topic in ("signed", "links")]
    with pytest.raises(Failure, match=AGAIN.format(made[0])) as end:
        agree(transport, bench.settings, made=made[1:])
    assert end.value.code == Exit.GAP
    assert agree(transport, bench.settings, made=made) == ""

    def make_again() -> bool:
        looks.append(0)
        if len(looks) == 5:
            agree(transport, bench.settings, made=[_make_again(bench, "documents", is_filled=True)])
        return False

    with pytest.raises(Failure, match=AGAIN.format("documents")):
        bench.run("sign", make_again)


def test_an_administrator_waits_for_the_ids_of_what_it_has_made() -> None:
    """The broker that answers may know the older topic, or none, for a moment."""
    bench, answers, naps = _worked(), [], []

    class Late(MemoryTransport):
        def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
            found = super().topic_ids(topics)
            answers.append(found)
            return {2: known, 3: {}}.get(len(answers), found)  # the first one is asked for the other topics

    known = MemoryTransport(bench.cluster).topic_ids([bench.names.topics.signed])
    made = [_make_again(bench, "signed", is_filled=True)]
    agree(Late(bench.cluster), bench.settings, naps.append, made=made)
    assert len(naps) == 2
    check_kept(MemoryTransport(bench.cluster), in_force(MemoryTransport(bench.cluster), bench.settings).topics)


def test_an_administrator_whose_broker_keeps_to_an_old_id_says_so_and_puts_nothing_in_force() -> None:
    """Each worker would have ended. A broker that gives no ids is not waited for."""
    bench, naps = _worked(), []

    class Old(MemoryTransport):
        def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
            return {**super().topic_ids(topics), **{topic: old[topic] for topic in topics if topic in old}}

    old = MemoryTransport(bench.cluster).topic_ids([bench.names.topics.signed])
    made, written = [_make_again(bench, "signed")], len(bench.cluster.records(bench.names.topics.settings))
    with pytest.raises(UnreachableError, match=rf"^the new id of {made[0]} was not known in 5 s: .* the command again"):
        agree(Old(bench.cluster), bench.settings, naps.append, made=made)
    assert len(bench.cluster.records(bench.names.topics.settings)) == written
    old, naps[:] = {made[0]: ""}, []
    agree(Old(bench.cluster), bench.settings, naps.append, made=made)
    check_kept(Old(bench.cluster), in_force(MemoryTransport(bench.cluster), bench.settings).topics)
    assert naps == []


def test_topics_create_goes_on_behind_a_run_that_made_topics_and_did_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with 8, or 15, and only a new generation was left; a topic whose records are lost still ends it."""
    bench = _worked()

    class Admin(MemoryTransport):
        def create_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
            new = [spec for spec in specs if spec.name not in bench.cluster._topics]
            for spec in new:
                bench.cluster.create(spec.name, spec.partitions, spec.configs)
            return [spec.name for spec in new]

        def describe(self, topic: str) -> TopicDescription:
            return TopicDescription(
                topic, self.partitions(topic), 1, {**self.configs(topic), "min.insync.replicas": "1"}
            )

        def nodes(self) -> int:
            return 1

    monkeypatch.setattr(making, "connect", lambda settings: Admin(bench.cluster))
    names = [bench.names.topics.signed, bench.names.topics.links]
    new, transport = bench.settings.model_copy(update={"pairs_max": 5}), MemoryTransport(bench.cluster)
    transport.consumer(names[1], bench.names.group("match"), "m").poll(0.0, 1)
    for name in names:
        del bench.cluster._topics[name]
    with pytest.raises(Failure, match=r"have members: end all workers"):
        making.create(new)
    transport.leave(bench.names.group("match"), "m")
    making.create(new)
    check_kept(transport, in_force(transport, new).topics)
    bench.cluster.append(names[0], 0, b"1", b"1", None)
    _make_again(bench, "documents")
    with pytest.raises(Failure, match=rf"^documents was made again, and {names[0]} .* begin a new generation") as end:
        making.create(new)
    assert end.value.code == Exit.LOST
