"""The watchdog ends a process that neither works nor fails."""

import pytest

from neardup_workers.outside.process.watchdog import Stall, Wait, Waits, Watchdog


@pytest.fixture
def ended():
    """The reasons that a watchdog gave, and its clock."""

    class Ended(list):
        seconds = 0.0

    return Ended()


def test_a_call_that_outlasts_its_limit_ends_the_process(ended):
    """The reason names the call and its limit."""
    dog = Watchdog(ended.append, lambda: ended.seconds)
    with dog.guard("a turn", 10):
        ended.seconds = 10.0
        dog.look()
        assert ended == []
        ended.seconds = 10.1
        dog.look()
    assert ended == ["a turn has not ended after 10 s"]


def test_what_has_ended_is_not_guarded_any_more(ended):
    """This includes a call that raised."""
    dog = Watchdog(ended.append, lambda: ended.seconds)
    with pytest.raises(ValueError, match="of the block"), dog.guard("a turn", 10):
        raise ValueError("of the block")
    ended.seconds = 1000.0
    dog.look()
    assert ended == []


@pytest.mark.parametrize(
    ("steps", "stalled"),
    [
        pytest.param([(5, 5), (5, 6), (5, 7), (5, 8)], 0, id="grows and stands"),
        pytest.param([(5, 5), (6, 6), (7, 7), (8, 8)], None, id="grows and follows"),
        pytest.param([(5, 9), (6, 9), (7, 9), (8, 9)], None, id="works off a backlog"),
        pytest.param([(5, 5), (5, 5), (5, 5), (5, 5)], None, id="is idle"),
        pytest.param([(5, 5), (5, 6), (6, 7), (6, 8)], None, id="advanced meanwhile"),
    ],
)
def test_a_stall_is_a_partition_that_grows_and_does_not_advance(steps, stalled):
    """The watchdog checks every 10 s and reports after 20 s."""
    stall = Stall(20)
    seen = [stall.look({0: position}, {0: end}, 10.0 * i) for i, (position, end) in enumerate(steps)]
    assert seen == [None, None, None, stalled]


def test_a_partition_that_was_away_begins_again():
    """All partitions begin again after an outage of the broker."""
    stall = Stall(20)
    stall.look({0: 5}, {0: 5}, 0.0)
    stall.look({}, {0: 6}, 10.0)
    assert stall.look({0: 5}, {0: 7}, 30.0) is None
    stall.forget()
    assert stall.look({0: 5}, {0: 8}, 100.0) is None


def test_what_waits_too_long_is_reported_the_second_time_as_such():
    """The first limit reports it as late, the second restarts the worker; the same time again ends the process."""
    waits = Waits(10, 30)
    assert waits.look({"a": 0, "b": 0}, {"c"}, 0.0) is None
    assert (waits.look({"a": 0}, {"c", "b"}, 11.0), waits.late) == (None, ("a",))
    assert waits.look({"a": 0}, {"c", "b"}, 30.5) == Wait("a", 30.5, again=False)
    waits.forget()
    assert (waits.look({}, set(), 40.0), waits.late) == (None, ())
    assert waits.look({"a": 0}, {"c"}, 50.0) is None
    assert waits.look({"a": 0}, {"c", "b"}, 81.0) == Wait("a", 31.0, again=True)


def test_what_began_meanwhile_waits_for_the_first_time_again():
    """The wait of a partition that returns counts from its return."""
    waits = Waits(10, 30)
    waits.look({"a": 0, "b": 0}, set(), 0.0)
    assert waits.look({"a": 0, "b": 0}, set(), 31.0) == Wait("a", 31.0, again=False)
    waits.forget()
    waits.look({"b": 0}, {"a"}, 40.0)
    assert waits.look({"a": 0}, {"b"}, 71.0) is None
    assert waits.look({"a": 0}, {"b"}, 102.0) == Wait("a", 31.0, again=False)


def test_what_makes_progress_does_not_wait():
    """A restore may take hours; its deadline counts from the last record that it has read."""
    waits = Waits(10, 30)
    assert [waits.look({"a": progress}, set(), 25.0 * progress) for progress in range(9)] == [None] * 9
    assert waits.look({"a": 8}, set(), 231.0) == Wait("a", 31.0, again=False)
