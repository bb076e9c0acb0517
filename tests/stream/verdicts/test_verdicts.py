"""Verdicts: the kernel against the model, the steps, and the sequences that broke simpler rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python
from quick_parameters import examples
from verdict_model import Compared, Decision, Event, VerdictModel

from neardup.machine.kernels.hashing import GOLDEN, mix64
from neardup.stories.verdicts import records
from neardup.stories.verdicts.decisions import Decisions
from neardup.stories.verdicts.fields import new_verdicts
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.verdicts.records import STORY_BYTES
from neardup.stories.verdicts.row_columns import GONE, Found, VerdictLimits
from neardup.stories.verdicts.rule import DOCUMENT, REMOVAL, Arrivals
from neardup.window import NO_WINDOW

_mix64 = from_python(mix64)
WIDTH = 2  # of evidence, the fixed part
STATUSES = ("original", "duplicate", "unchanged", "removed", "refused", "update")


def hashed(value):
    """A number as a hash of 64 bits."""
    return _mix64(np.uint64(value + 1))


def run(decisions, events, first_place=0):
    """Decide events in one call; returns decisions in the words of the model."""
    numbers = {}
    count = decisions.end
    for i, event in enumerate(events):
        if event.time is not None:
            numbers[first_place + i] = count
            count += 1
    decisions.numbers.update(numbers)
    arrivals = Arrivals(
        np.arange(first_place, first_place + len(events)),
        np.array([DOCUMENT if event.time is not None else REMOVAL for event in events], np.uint8),
        np.array([hashed(event.id) for event in events], np.uint64),
        np.array([event.time or 0 for event in events], np.int64),
        np.array([hashed(event.content) for event in events], np.uint64),
        np.array([event.size for event in events], np.int64),
    )
    pairs = [(i, decisions.numbers.get(other, -1), s) for i, event in enumerate(events) for other, s in event.pairs]
    rows, others, similarities = zip(*pairs, strict=True) if pairs else ((), (), ())
    found = Found(np.array(rows, np.int64), np.array(others, np.int64), np.array(similarities, np.float32))
    decisions.contents.update(
        {decisions.numbers[first_place + i]: event.content for i, event in enumerate(events) if event.time is not None}
    )

    def compare(items, rows):
        asked = [
            (events[i].content, decisions.contents[row]) for i, row in zip(items.tolist(), rows.tolist(), strict=True)
        ]
        assert len(set(zip(items.tolist(), rows.tolist(), strict=True))) == len(asked)
        return np.array([decisions.compare(*pair) for pair in asked], np.float32).reshape(-1, 4)

    verdicts = decisions.decide(arrivals, found, compare if decisions.compare else None)
    places = {number: place for place, number in decisions.numbers.items()}
    out = []
    for i, status in enumerate(verdicts.statuses):
        named = verdicts.originals, verdicts.related, verdicts.previous, verdicts.matched, verdicts.against
        original, related, previous, matched, against = (int(column[i]) for column in named)
        out.append(
            Decision(
                STATUSES[status], int(verdicts.clusters[i]), None if original == -1 else places.get(original, GONE),
                float(verdicts.similarities[i]), None if related < 0 else related, None if previous < 0 else previous,
                None if matched < 0 else matched, bool(verdicts.equal[i]), bool(verdicts.late[i]),
                None if against < 0 else against, float(verdicts.said[i]), int(verdicts.new_numbers[i]),
                int(verdicts.signals[i]),
            )
        )  # fmt: skip
    return out


class Named(Decisions):
    """Decisions that know which number each place has."""

    def __init__(self, limits, compare=None):
        super().__init__(limits)
        self.limits = limits
        self.compare = compare
        self.numbers, self.contents = {}, {}


def compared_of(one, other):
    """Of two contents: some are no pair, and some of the pairs say something new, of the same story or of another."""
    kind = (one * other + one + other) % 7
    similarity = (-1.0, 0.75, -3.5, 0.5, -7.25, -1.0, -3.25)[kind]
    return Compared(similarity, kind / 8, kind % 3)


def decided(*events, window=100, lateness=50):
    """All events in one step."""
    decisions = Named(VerdictLimits(window, lateness, 1 << 20))
    decisions.begin()
    out = run(decisions, events)
    decisions.commit()
    return out


@st.composite
def schedules(draw):
    """Events whose pairs name any earlier document, with few ids, contents and times, so that they meet."""
    events = []
    for place in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 9)) == 0:
            events.append(Event(draw(st.integers(0, 5)), 0, None))
            continue
        others = draw(st.lists(st.integers(0, max(0, place - 1)), max_size=3, unique=True)) if place else []
        pairs = tuple((other, draw(st.sampled_from([0.5, 0.75, 1.0]))) for other in others)
        time = draw(st.integers(0, 40)) + place * draw(st.sampled_from([0, 5]))
        size = WIDTH + draw(st.sampled_from([0, 3, 9, 40]))
        events.append(Event(draw(st.integers(0, 5)), draw(st.integers(0, 4)), time, pairs, size))
    return events


@st.composite
def limits(draw):
    """A window, a lateness, and what ends stories."""
    window = draw(st.integers(5, 60))
    return VerdictLimits(
        window, draw(st.integers(0, 20)), draw(st.sampled_from([4, 1 << 20])), draw(st.sampled_from([30, 1 << 40])),
        WIDTH, draw(st.booleans()), window * draw(st.sampled_from([1, 3, 1000])),
        draw(st.sampled_from([0, 3 * STORY_BYTES, 1 << 40])), draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


def model_of(rules, compare=None):
    """The model with the same limits."""
    return VerdictModel(
        rules.window, rules.lateness, rules.by_content, compare, rules.story_age, rules.story_bytes, STORY_BYTES,
        novel=rules.novel, lasting=rules.lasting, rows_max=rules.rows, window_bytes=rules.bytes, width=WIDTH,
    )  # fmt: skip


@examples(250)
@given(schedules(), limits(), st.sampled_from([None, compared_of]), st.data())
def test_the_kernel_decides_as_the_model(events, rules, compare, data):
    """In any cut of the stream into calls and steps, with steps undone between; with and without comparisons, however
    far a call looks ahead."""
    model = model_of(rules, compare)
    expected = [model.decide(place, event) for place, event in enumerate(events)]
    decisions = Named(rules, compare)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neardup.stories.verdicts.decisions.AHEAD_MAX", data.draw(st.sampled_from([1, 3, 1 << 11])))
        while len(found) < len(events):
            count = data.draw(st.integers(1, len(events) - len(found)))
            if data.draw(st.booleans()):
                decisions.begin()
                run(decisions, events[len(found) : len(found) + data.draw(st.integers(1, 8))], len(found))
                decisions.undo()
            decisions.begin()
            half = data.draw(st.integers(0, count))
            for first, end in ((0, half), (half, count)):
                at = len(found)
                found += run(decisions, events[at : at + end - first], at)
            decisions.commit()
    # Of an original that has left the rows, the kernel says that it has.
    expected = [
        one._replace(original=GONE) if other.original == GONE and one.original is not None else one
        for one, other in zip(expected, found, strict=True)
    ]
    assert found == expected
    assert decisions.ignored == model.ignored


def restored(decisions, events, decided, first, ended):
    """New decisions, from what was decided of the events from ``first`` on, and the stories but those that ended."""
    again = Named(decisions.limits)
    columns = new_verdicts(len(decided))
    columns.statuses[:] = [STATUSES.index(one.status) for one in decided]
    columns.clusters[:] = [one.cluster for one in decided]
    columns.similarities[:] = [one.similarity if one.original is not None else 0 for one in decided]
    columns.matched[:] = [-1 if one.matched is None else one.matched for one in decided]
    columns.equal[:] = [one.equal for one in decided]
    columns.late[:] = [one.late for one in decided]
    arrivals = Arrivals(
        np.arange(first, first + len(events)),
        np.array([DOCUMENT if event.time is not None else REMOVAL for event in events], np.uint8),
        np.array([hashed(event.id) for event in events], np.uint64),
        np.array([event.time or 0 for event in events], np.int64),
        np.array([hashed(event.content) for event in events], np.uint64),
        np.array([event.size for event in events], np.int64),
    )
    row = sum(place < first for place in decisions.numbers)
    stories, _ = records.saved(decisions._columns, row)
    numbers = again.restore(arrivals, columns, decisions.stream_time, KeptStories(stories, {}, {}, ended))
    again.numbers.update({first + i: number for i, number in enumerate(numbers.tolist()) if number >= 0})
    return again


@examples(200)
@given(schedules(), limits(), st.data())
def test_decisions_restored_from_verdicts_go_on_as_the_ones_before(events, rules, data):
    """Events may restart at any arrival at or before the oldest stored row; earlier decisions make no difference."""
    decisions = Named(rules._replace(story_bytes=1 << 40))
    at = data.draw(st.integers(1, len(events)))
    decisions.begin()
    decided, ended = run(decisions, events[:at]), decisions.pending().ended
    decisions.commit()
    oldest = min((place for place, number in decisions.numbers.items() if number >= decisions.first), default=at)
    first = data.draw(st.integers(0, oldest))
    again = restored(decisions, events[first:at], decided[first:], first, ended)
    outcomes = []
    for each in (decisions, again):
        each.begin()
        outcomes.append(run(each, events[at:], at))
        each.commit()
    assert outcomes[0] == outcomes[1]


def statuses(decisions):
    """Of each decision: its status, and the place of its cluster."""
    return [(decision.status, decision.cluster) for decision in decisions]


def test_a_pair_with_a_document_that_was_never_decided_counts_for_nothing():
    """It is ignored, and counted."""
    decisions = Named(VerdictLimits(100, 50, 1 << 20))
    decisions.begin()
    assert statuses(run(decisions, [Event(1, 7, 0, ((99, 1.0),))])) == [("original", 0)]
    assert decisions.ignored == 1


def test_a_document_that_has_left_the_window_of_the_state_is_ignored():
    """Another table may still pair with it."""
    decisions = Named(VerdictLimits(100, 50, 1 << 20))
    decisions.begin()
    found = run(decisions, [Event(1, 7, 0), Event(2, 8, 151), Event(3, 9, 60, ((0, 0.9),))])
    assert statuses(found)[2] == ("original", 2)
    assert found[2].related is None
    assert decisions.ignored == 1


def test_a_document_near_an_unchanged_duplicate_is_related_to_its_cluster():
    """An unchanged version of a duplicate is no original: a document near only this version is kept."""
    found = decided(
        Event(1, 7, 0), Event(2, 8, 1, ((0, 0.8),)), Event(2, 8, 2, ((0, 0.8),)), Event(3, 9, 3, ((2, 0.8),))
    )
    assert statuses(found) == [("original", 0), ("duplicate", 0), ("unchanged", 0), ("original", 3)]
    assert (found[2].previous, found[2].original, found[3].related) == (1, 0, 0)


def test_a_pair_with_a_member_leads_to_the_original_and_both_are_compared():
    """C is near B, and B is a duplicate of A: C is a duplicate of A if their contents are similar."""
    events = Event(1, 7, 0), Event(2, 8, 1, ((0, 0.8),)), Event(3, 9, 2, ((1, 0.9),))
    for similarity, expected in ((0.75, ("duplicate", 0)), (-1.0, ("original", 2))):
        decisions = Named(VerdictLimits(100, 50, 1 << 20), lambda one, other, value=similarity: Compared(value))
        decisions.begin()
        found = run(decisions, events)
        assert statuses(found) == [("original", 0), ("duplicate", 0), expected]
    assert found[2].related == 0


def test_a_document_is_compared_with_the_64_originals_whose_members_are_nearest():
    """Of 70 clusters with one member near the document, the six least similar are not compared."""
    originals = [Event(i, i, 0) for i in range(70)]
    members = [Event(100 + i, 100 + i, 1, ((i, 0.9),)) for i in range(70)]
    last = Event(999, 999, 2, tuple((70 + i, 0.5 + i / 1000) for i in range(70)))
    asked = []

    def compare(one, other):
        asked.append(other)
        return Compared(-1.0)

    decisions = Named(VerdictLimits(100, 50, 1 << 20), compare)
    decisions.begin()
    assert run(decisions, [*originals, *members, last])[-1].status == "original"
    assert sorted(asked) == list(range(6, 70))


def test_a_flood_asks_for_its_comparisons_together():
    """500 documents, each near the one before: every one is compared once with the original."""
    asked = []

    def compare(one, other):
        asked.append((one, other))
        return Compared(0.75)

    decisions = Named(VerdictLimits(1000, 50, 1 << 20), compare)
    decisions.begin()
    found = run(decisions, [Event(i, i, i, ((i - 1, 0.9),) if i else ()) for i in range(500)])
    assert [one.cluster for one in found] == [0] * 500
    assert sorted(asked) == [(i, 0) for i in range(2, 500)]


def test_a_removed_original_hands_its_story_to_the_next_member():
    """The next near-copy is a duplicate of it, not a second original; so is one after the next member is removed."""
    events = (
        Event(1, 7, 0), Event(2, 8, 1, ((0, 0.8),)), Event(3, 9, 2, ((0, 0.8),)), Event(1, 0, None),
        Event(4, 10, 3, ((1, 0.9),)), Event(2, 8, 4), Event(2, 0, None), Event(5, 11, 5, ((2, 0.9),)),
        Event(3, 0, None), Event(4, 0, None), Event(5, 0, None), Event(6, 12, 6, ((2, 0.9),)),
    )  # fmt: skip
    found = decided(*events)
    documents = [one for one in found if one.status != "removed"]
    assert statuses(documents) == [
        ("original", 0), ("duplicate", 0), ("duplicate", 0), ("duplicate", 0), ("unchanged", 0), ("duplicate", 0),
        ("original", 11),
    ]  # fmt: skip
    assert [(one.original, one.matched) for one in documents[3:6]] == [(1, 1), (None, 1), (2, 2)]


def test_a_story_that_began_and_was_handed_over_in_a_step_is_undone():
    """The original is alone again, so that a later document finds it."""
    decisions = Named(VerdictLimits(100, 50, 1 << 20))
    decisions.begin()
    run(decisions, [Event(9, 3, 0), Event(1, 7, 0)])
    decisions.commit()
    decisions.begin()
    run(decisions, [Event(2, 8, 1, ((1, 0.8),)), Event(1, 0, None), Event(3, 8, 2)], 2)
    decisions.undo()
    decisions.begin()
    assert statuses(run(decisions, [Event(4, 9, 1, ((1, 0.8),))], 2)) == [("duplicate", 1)]


def test_many_stories_of_one_id_are_handed_to_as_many_heirs():
    """Each of them gets an entry of its own in the map of ids."""
    decisions = Named(VerdictLimits(1 << 20, 50, 1 << 20))
    decisions.begin()
    run(decisions, [Event(1, n, 0) for n in range(3_000)])
    run(decisions, [Event(10 + n, 10_000 + n, 1, ((n, 0.8),)) for n in range(3_000)], 3_000)
    run(decisions, [Event(1, 0, None)], 6_000)
    found = run(decisions, [Event(10_000 + n, 20_000 + n, 2, ((3_000 + n, 0.8),)) for n in range(3_000)], 6_001)
    assert statuses(found) == [("duplicate", n) for n in range(3_000)]
    decisions.commit()


def test_chains_do_not_form():
    """With A near B and B near C but not A near C, A and C are kept."""
    found = decided(Event(1, 7, 0), Event(2, 8, 1, ((0, 0.8),)), Event(3, 9, 2, ((1, 0.8),)))
    assert statuses(found) == [("original", 0), ("duplicate", 0), ("original", 2)]
    assert found[2].related == 0


def test_the_most_similar_original_wins_and_of_equal_ones_the_first():
    """The order of the pairs makes no difference."""
    originals = [Event(i, i, 0) for i in range(4)]
    found = decided(*originals, Event(9, 9, 1, ((3, 0.9), (2, 0.9), (1, 0.95), (0, 0.8))))
    assert found[4].original == 1
    found = decided(*originals, Event(9, 9, 1, ((3, 0.9), (2, 0.9), (0, 0.8))))
    assert found[4].original == 2


def test_records_that_are_equal_are_two_unless_a_pair_says_otherwise():
    """If equal contents may be two entities, the content has no influence."""
    decisions = Named(VerdictLimits(NO_WINDOW, 0, 1 << 20, by_content=False))
    decisions.begin()
    found = run(decisions, [Event(1, 7, 0), Event(2, 7, 1), Event(3, 7, 2, ((0, 0.9),))])
    assert statuses(found) == [("original", 0), ("original", 1), ("duplicate", 0)]


def test_memory_follows_the_window():
    """A row takes 81 bytes, and rows that have left the window are freed."""
    decisions = Decisions(VerdictLimits(1000, 0, 1 << 20))
    n, sizes = 5_000, []
    for first in range(0, 20 * n, n):
        numbers = np.arange(first, first + n, dtype=np.uint64)
        decisions.begin()
        columns = np.arange(first, first + n), np.zeros(n, np.uint8), numbers * GOLDEN, np.arange(first, first + n)
        none = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        contents = (numbers + np.uint64(1 << 40)) * GOLDEN
        decisions.decide(Arrivals(*columns, contents, np.zeros(n, np.int64)), none)
        decisions.commit()
        sizes.append(decisions.memory_bytes())
    assert sizes[-1][0] == 81 * 1001
    assert sizes[-1][1] <= sizes[2][1] * 2
    assert decisions.end - decisions.first == 1001


def test_a_removal_finds_the_stories_that_its_id_has_updated_among_many():
    """After the map of marks grew, a step was undone, and updates left their stories for newer ones."""
    decisions = Named(VerdictLimits(1 << 20, 50, 1 << 20, novel=True), lambda one, other: Compared(-3.5))
    originals = [Event(n, n, 0) for n in range(900)]
    updates = [Event(1_000 + n, 1_000 + n, 1, ((n, 0.5),)) for n in range(900)]
    newer = [Event(3_000 + n, 3_000 + n, 2, ((1, 0.5),)) for n in range(7)]  # the update by 1,001 is no content now
    places = 0
    for events in (originals, updates, newer):
        for ended in (decisions.undo, decisions.commit):
            decisions.begin()
            assert {one.status for one in run(decisions, events, places)} == {"update" if places else "original"}
            ended()
        places += len(events)
    decisions.begin()
    run(decisions, [Event(1_500, 0, None), Event(3_006, 0, None), Event(77_777, 0, None)], places)
    changes = decisions.pending()
    assert (sorted(changes.dropped_places.tolist()), changes.ended.tolist()) == ([900 + 500, 1_806], [])
