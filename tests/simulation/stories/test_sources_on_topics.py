"""The ledger of sources on topics: a restart has it exactly, and the topic grows by what changes, not by verdicts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_links import LinkWorld

from neardup.pairs.window_message import WireError
from neardup.stories.sources.reports import Kept
from neardup_workers.doing.stages.verdicts import sources
from neardup_workers.doing.stages.verdicts.sources import read_sources
from neardup_workers.outside.transport.protocol import Record


def _arrive(world: LinkWorld, *rows: tuple[str, str, float], source: str = "") -> None:
    """Decide documents of a source, without pairs of a matcher."""
    before = len(world.positions) - 1
    world.sources.update((id_, source) for id_, _, _ in rows)
    world.arrive(*rows)
    world.link(done=(before, before + len(rows)))
    world.turns()


def _restart(world: LinkWorld) -> None:
    world.memory.advance(60.0)
    world.start("two")
    while not world.linker.running:
        world.linker.turn(0.0, 100)


def _ledger(world: LinkWorld) -> list[dict[str, Any]]:
    return list(world.linker.sources._ledger.every())


def _records(world: LinkWorld) -> list[Record]:
    return world.memory.records(world.topics.sources)


def _long_story(world: LinkWorld) -> LinkWorld:
    """Copies 50 seconds apart, so that the original has left the window; the first two are of one source."""
    for step, source in enumerate(("a", "a", "b", "b")):
        _arrive(world, (f"d{step}", "x", 50.0 * step), source=source)
        world.linker.trim()
    return world


@pytest.mark.parametrize("restarts", [False, True])
def test_a_copy_of_a_story_whose_original_has_left_counts_for_both_sources(restarts: bool) -> None:
    """The record of the story says who had it first, also when the change before was a copy of the same source."""
    world = _long_story(LinkWorld())
    if restarts:
        _restart(world)
    _arrive(world, ("e", "x", 160.0), source="c")
    found = {one["source"]: one for one in _ledger(world)}
    assert [found[name]["own"] for name in "abc"] == [1, 0, 0]
    assert found["a"]["later_in"] == [{"source": "b", "documents": 2}, {"source": "c", "documents": 1}]
    assert found["c"]["earlier_in"] == [{"source": "a", "documents": 1}]
    assert found["a"]["first_by_arrival"] == found["a"]["first_by_date"] == 1


@pytest.mark.parametrize("trims", [(), (0,), (1,), (2,), (0, 3), (1, 2)])
def test_a_restart_at_any_time_has_the_same_ledger(trims: tuple[int, ...]) -> None:
    """What the topic does not count is counted again: also of an original before the write, of a refusal, of a removal
    and of a story that ended."""
    world = LinkWorld()
    steps = [
        [("a", "x", 0.0), ("b", "y", 1.0), ("!", "", 0.0)], [("c", "x", 2.0), ("d", "z", 3.0)],
        [("e", "z", 4.0), ("-a", "", 0.0), ("f", "x", 5.0)], [("g", "x", 120.0), ("h", "y", 121.0)],
    ]  # fmt: skip
    for step, rows in enumerate(steps):
        _arrive(world, *rows, source=f"source {step % 2}")
        for _ in range(400):  # an hour, in which its session does not end
            world.memory.advance(9.0)
            world.turns(1)
        if step in trims:
            world.linker.trim()
    before = _ledger(world)
    assert sum(one["documents"] for one in before) == 9
    assert len({hour["hour"] for one in before for hour in one["hours"]}) == 4
    _restart(world)
    assert _ledger(world) == before
    world.linker.trim()
    _restart(world)
    assert _ledger(world) == before


def test_a_restart_has_an_original_that_left_the_window_after_the_last_write() -> None:
    """It was alone then, so the topic does not have its story; the window of the restart does."""
    world = LinkWorld()
    for number, (content, seconds) in enumerate((("x", 0.0), ("y", 1.0))):
        _arrive(world, (f"d{number}", content, seconds), source="a")
        world.linker.trim()
    _arrive(world, ("e", "x", 100.0), source="b")
    for name in "fg":  # the commit of the second knows that the originals have left
        _arrive(world, (name, name, 150.0), source="b")
    before = _ledger(world)
    assert before[0]["earlier_in"] == [{"source": "a", "documents": 1}]
    _restart(world)
    assert _ledger(world) == before


def test_the_topic_grows_by_what_changes_and_not_by_verdicts() -> None:
    """Ninety verdicts about documents of one source are an account, its hour, and the step; a story is a record once it
    has a second member, and again only if it changes."""
    world = LinkWorld()
    for number in range(9):
        _arrive(world, *((f"{number} {n}", f"{chr(97 + number)}{n}", float(number)) for n in range(10)), source="s")
    world.linker.trim()
    keys = [orjson.loads(record.key or b"")[0] for record in _records(world)]
    assert sorted(keys) == ["account", "account", "step"]
    for number, source in enumerate("stts"):
        _arrive(world, (f"copy {number}", "a0", 9.0), source=source)
        world.linker.trim()
    stories = [record.value for record in _records(world) if b"story" in (record.key or b"")]
    assert [orjson.loads(value or b"")["is_shared"] for value in stories] == [False, True]


def test_many_changed_stories_do_not_wait_for_a_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written with the verdicts that come next."""
    monkeypatch.setattr("neardup_workers.doing.stages.verdicts.sources._STORIES", 0)
    world = LinkWorld()
    for number in range(3):
        _arrive(world, (f"d{number}", "x", float(number)), source="s")
    assert read_sources(_records(world)).step == 2


def test_a_story_that_has_ended_leaves_the_topic() -> None:
    """By the removal of its members, and by the end of the window, also if a restart comes between."""
    world = LinkWorld()
    for number, content in enumerate("xxyy"):
        _arrive(world, (f"d{number}", content, float(number)), source="s")
    world.linker.trim()
    assert sum(one.kind == "story" for one in read_sources(_records(world)).parts) == 2
    _arrive(world, ("-d0", "", 0.0))
    _restart(world)
    world.linker.trim()
    assert sum(one.kind == "story" for one in read_sources(_records(world)).parts) == 2  # d1 has it now
    _arrive(world, ("-d1", "", 0.0))
    _restart(world)
    world.linker.trim()
    assert sum(one.kind == "story" for one in read_sources(_records(world)).parts) == 1
    _arrive(world, ("e", "z", 500.0), source="s")
    world.linker.trim()
    assert not any(one.kind == "story" for one in read_sources(_records(world)).parts)
    assert not world.linker.sources._shared


def test_stories_of_one_member_are_forgotten_with_their_originals() -> None:
    """Nothing can join them any more, so they count for no bound."""
    world = LinkWorld()
    for number in range(5):
        _arrive(world, (f"d{number}", f"{chr(97 + number)}", 200.0 * number), source="s")
    _restart(world)
    _arrive(world, ("e", "z", 1_000.0), ("f", "z", 1_000.0), source="s")
    _arrive(world, ("g", "y", 1_300.0), ("h", "z", 1_300.0), source="s")
    stories = world.linker.sources._ledger._stories
    assert len(stories) == 2
    assert not world.linker.sources._ledger.exceeded


def test_a_source_that_repeats_itself_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """By a gauge, by the report and, once, by the log."""
    world = LinkWorld()
    for number in range(10):
        _arrive(world, *((f"d{number}-{n}", "x", float(number)) for n in range(25)), source="spam.example")
        world.linker.trim()
    world.linker.observe()
    metrics, report = world.metrics, world.linker.sources.report()
    assert metrics.value("sources_repeating") == 1
    assert metrics.value("source_documents", "spam.example") == 250
    assert metrics.value("source_own_duplicates", "spam.example") == 249
    assert [(one["source"], one["repeated"]) for one in report["repeating"]] == [("spam.example", 249)]
    assert report["sources"][0]["documents"] == 250
    assert sum("spam.example" in record.message for record in caplog.records) == 1
    world.start("two").turn(0.0, 100)
    assert metrics.value("source_documents", "spam.example") == 0


@pytest.mark.parametrize("key", [b"no json", b'["account","s"]', b'["unheard of"]', b"7"])
def test_a_record_that_no_linker_wrote_is_refused_by_name(key: bytes) -> None:
    """Whatever stands in it."""
    with pytest.raises(WireError, match="no linker of this version wrote it"):
        read_sources([Record(0, 0, 0, key, b"{}")])


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_STORIES = st.tuples(*[_NAMES, *[st.integers(-(2**63), 2**63 - 1)] * 3] * 2).map(lambda one: (*one[:7], one[3] > 0))


@given(st.lists(st.tuples(st.integers(0, 2**62), _STORIES | st.none())), st.lists(st.tuples(_NAMES, _NAMES)))
def test_records_that_are_encoded_together_are_those_of_each(
    stories: list[tuple[int, tuple[Any, ...] | None]], pairs: list[tuple[str, str]]
) -> None:
    """Quotes and control characters in the names of sources, and stories and pairs that end."""
    parts = [Kept("pair", pair, (number,) if number else None) for number, pair in enumerate(pairs)]
    assert sources._encode_pairs(parts) == [sources.encode_part(one) for one in parts]
    each = [sources.encode_part(Kept("story", (place,), value)) for place, value in stories]
    assert sources._encode_stories(stories) == each
