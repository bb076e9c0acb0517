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


def test_a_partition_that_waits_too_long_is_reported_the_second_time_as_such():
    """The first limit reports it as late, the second restarts the worker; the same time again ends the process."""
    waits = Waits(10, 30)
    assert waits.look({1, 2}, {0}, 0.0) is None
    assert (waits.look({1}, {0, 2}, 11.0), waits.late) == (None, (1,))
    assert waits.look({1}, {0, 2}, 30.5) == Wait(1, 30.5, again=False)
    waits.forget()
    assert (waits.look(set(), set(), 40.0), waits.late) == (None, ())
    assert waits.look({1}, {0}, 50.0) is None
    assert waits.look({1}, {0, 2}, 81.0) == Wait(1, 31.0, again=True)


def test_a_partition_that_began_meanwhile_waits_for_the_first_time_again():
    """The wait of a partition that returns counts from its return."""
    waits = Waits(10, 30)
    waits.look({1, 2}, set(), 0.0)
    assert waits.look({1, 2}, set(), 31.0) == Wait(1, 31.0, again=False)
    waits.forget()
    waits.look({2}, {1}, 40.0)
    assert waits.look({1}, {2}, 71.0) is None
    assert waits.look({1}, {2}, 102.0) == Wait(1, 31.0, again=False)
