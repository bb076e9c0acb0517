"""Stories on topics: a linker compares contents as one process does, also of what has left the window."""

from __future__ import annotations

import pytest
from memory_transport import MemoryTransport
from sim_links import LinkWorld

from neardup.pairs.shards import Growth
from neardup.pairs.window_message import WireError
from neardup_workers.doing.stages.matching.windows import Window, encode_window
from neardup_workers.doing.stages.verdicts import evidence
from neardup_workers.doing.stages.verdicts.beginning.restore import Compacted, RecordsLostError
from neardup_workers.doing.stages.verdicts.originals import STEP_KEY, read_stories
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.transport.protocol import Committed, Message


def _restart(world: LinkWorld) -> None:
    world.memory.advance(60.0)
    world.start("two")


def _long_story(**plan: object) -> LinkWorld:
    """A story whose members are 50 seconds apart; its original has left the window of 100 seconds. Each member but the
    first is a copy of a near-duplicate, so a pair with one of them is no comparison with a content of the story."""
    world = LinkWorld(**plan)  # type: ignore[arg-type]
    for step, content in enumerate(("x", "x1", "x1", "x1")):
        world.arrive((f"d{step}", content, 50.0 * step))
        world.link([("d0", "d1", 0.9)] if step == 1 else [], (step, step + 1))
        world.turns()
        world.linker.trim()
    assert world.verdicts() == ["d0 original", "d1 duplicate d0", "d2 duplicate d0", "d3 duplicate d0"]
    return world


@pytest.mark.parametrize("restarts", [False, True])
def test_a_document_is_compared_with_an_original_that_has_left_the_window(restarts: bool) -> None:
    """A pair with a member leads to the story, and the evidence of its content decides."""
    world = _long_story()
    if restarts:
        _restart(world)
    world.arrive(("e", "x2", 160.0), ("f", "y", 160.0))
    world.link([("d3", "e", 0.9), ("d3", "f", 0.9)], (4, 6))
    assert world.turns().verdicts()[-2:] == ["e duplicate d0", "f original"]


@pytest.mark.parametrize("topic", ["originals", "sources"])
def test_a_linker_whose_kept_records_are_lost_says_so(topic: str) -> None:
    """The metadata of its offset names the step that a topic must show; the topic was made again, and is empty."""
    world = _long_story()
    name = getattr(world.topics, topic)
    assert world.memory.records(name)
    world.memory.create(name, 1, world.memory._topics.pop(name).configs)
    _restart(world)
    with pytest.raises(RecordsLostError, match=f"^{name} ends at 0 without step .* --allow-gap goes on without them"):
        world.turns()


@pytest.mark.parametrize("topic", ["originals", "sources"])
def test_a_linker_whose_kept_records_are_lost_in_part_says_so(topic: str) -> None:
    """Retention by time was on for a while: the last step is there, older records are not."""
    world = _long_story()
    name = getattr(world.topics, topic)
    world.memory.log(name, 0).trim(1)
    _restart(world)
    with pytest.raises(RecordsLostError, match=f"^{name} begins at 1: records before .* --allow-gap: later copies"):
        world.turns()


def test_a_linker_goes_on_without_lost_records_where_that_is_wanted() -> None:
    """Its verdicts go on; a document is compared with no content of the lost stories."""
    world = _long_story(allow_gap=True)
    for name in (world.topics.originals, world.topics.sources):
        world.memory.create(name, 1, world.memory._topics.pop(name).configs)
    _restart(world)
    world.arrive(("e", "x1", 160.0))
    world.link([], (4, 5))
    assert world.turns().verdicts()[-1].startswith("e ")


def test_a_restore_waits_while_a_transaction_is_open_where_records_are_missing() -> None:
    """Markers reach partitions one after the other: records that are written and not visible yet are not lost."""
    world = LinkWorld()
    name, transport = world.topics.originals, MemoryTransport(world.memory)
    producer = transport.producer("late")
    producer.begin()
    producer.send(Message(name, 0, b"9", b"step"))
    producer.flush()
    topic = Compacted(transport, world.plan, name, STEP_KEY, lambda read: read_stories(read, ""))
    restore = topic.extend(9)
    assert [next(restore) for _ in range(5)] == [False] * 5
    producer.commit()
    assert next(restore)  # the record
    assert next(restore, None) is None
    assert topic.kept().step == 9


def test_a_linker_decides_nothing_while_a_shard_has_other_settings() -> None:
    """It waits at its start and while it runs, and goes on where it was when the settings agree again."""
    world = LinkWorld()
    own, matchers = world.plan.config.matching_fingerprint, world.memory.group("matchers", world.topics.links).offsets

    def matched_with(fingerprint: str) -> None:
        matchers[0] = Committed(0, encode_window(Window(0, None, fingerprint, Growth(1))))

    matched_with("f" * 32)
    world.arrive(("a", "x", 0.0))
    world.link([], (0, 1))
    assert (world.turns().verdicts(), world.linker.ready) == ([], False)
    assert "shards [0] were matched last with ffffffff;" in world.linker.member.awaited
    matched_with(own)
    assert (world.turns().verdicts(), world.linker.ready) == (["a original"], True)
    matched_with("f" * 32)
    world.linker.trim()
    world.arrive(("b", "x", 1.0))
    world.link([], (1, 2))
    assert (world.turns().verdicts(), world.linker.ready) == (["a original"], False)
    matched_with(own)
    assert world.turns().verdicts() == ["a original", "b duplicate a"]


def test_originals_has_the_living_stories_and_their_contents() -> None:
    """A story alone has none; a correction adds a content; a removal leaves those of the next member alone, and the end
    of the window nothing."""
    world = LinkWorld()

    def stories() -> tuple[list[str], list[int]]:
        found = read_stories(world.memory.records(world.topics.originals), world.plan.config.signing_fingerprint)
        assert found.step == world.linker.state.arrivals - 1
        return list(found.kept.ids.values()), sorted(found.kept.evidence)

    steps = (("a", "x", 0.0), ("b", "x", 1.0), ("c", "y", 2.0), ("d", "y", 3.0), ("a", "x1", 4.0), ("-c", "", 0.0))
    wanted = [([], []), (["a"], [0]), None, (["a", "c"], [0, 2]), (["a", "c"], [0, 2, 4]), (["a", "d"], [0, 3, 4])]
    for n, (row, expected) in enumerate(zip(steps, wanted, strict=True)):
        world.arrive(row)
        world.link(done=(n, n + 1))
        world.turns()
        if expected is not None and n:
            assert stories() == expected
    world.arrive(("e", "z", 200.0))
    world.link(done=(6, 7))
    world.turns()
    assert stories() == ([], [])
    assert world.verdicts()[4] == "a update"


def test_a_message_that_is_no_longer_in_memory_is_read_again() -> None:
    """With room for one message the verdicts are the same: versions of an id are compared without a pair."""
    world = LinkWorld(messages_bytes_max=1)
    for n, row in enumerate((("a", "x", 0.0), ("b", "y", 1.0), ("a", "x1", 2.0), ("b", "y1", 3.0), ("b", "z", 4.0))):
        world.arrive(row)
        world.link(done=(n, n + 1))
    assert world.turns(8).verdicts() == ["a original", "b original", "a update", "b update", "b original"]


def test_evidence_that_no_record_can_hold_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a restart as after it; equal contents still count."""
    world = LinkWorld()
    monkeypatch.setattr(evidence, "EVIDENCE_BYTES_MAX", world.plan.config.plan.width - 1)
    for n, row in enumerate((("a", "x", 0.0), ("a", "x1", 1.0), ("b", "x", 2.0))):
        world.arrive(row)
        world.link(done=(n, n + 1))
    assert world.turns(8).verdicts() == ["a original", "a original", "b duplicate a"]
    assert world.metrics.value("uncompared_contents") == 1


def test_the_log_is_kept_for_the_window_of_the_linker() -> None:
    """Its metadata names the message in which the window begins; a restart reads from there."""
    world = _long_story()
    committed = world.memory.offsets("linkers", world.topics.signed)[0]
    assert 0 < decode_signed_metadata(committed).window < committed.offset


def test_a_record_of_another_generation_is_refused_by_name() -> None:
    """The topic belongs to one generation."""
    world = LinkWorld()
    for n, name in enumerate("ab"):
        world.arrive((name, "x", float(n)))
        world.link(done=(n, n + 1))
    world.turns()
    with pytest.raises(WireError, match="'story 0-0' of originals begins 4e44554f"):
        read_stories(world.memory.records(world.topics.originals), "00" * 16)
