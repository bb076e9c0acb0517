"""What ends a process that neither works nor fails."""

import pytest

from workers.watchdog import Stall, Watchdog


@pytest.fixture
def ended():
    """Reasons that a watchdog gave, and the clock that it reads."""

    class Ended(list):
        seconds = 0.0

    return Ended()


def test_a_call_that_outlasts_its_limit_ends_the_process(ended):
    """With what it was and how long it was given."""
    dog = Watchdog(ended.append, lambda: ended.seconds)
    with dog.guard("a turn", 10):
        ended.seconds = 10.0
        dog.look()
        assert ended == []
        ended.seconds = 10.1
        dog.look()
    assert ended == ["a turn has not ended after 10 s"]


def test_what_has_ended_is_not_guarded_any_more(ended):
    """By an exception either."""
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
    """Looked at every 10 s, for longer than 20 s."""
    stall = Stall(20)
    seen = [stall.look({0: position}, {0: end}, 10.0 * i) for i, (position, end) in enumerate(steps)]
    assert seen == [None, None, None, stalled]


def test_a_partition_that_was_away_begins_anew():
    """And so do all after the broker was."""
    stall = Stall(20)
    stall.look({0: 5}, {0: 5}, 0.0)
    stall.look({}, {0: 6}, 10.0)
    assert stall.look({0: 5}, {0: 7}, 30.0) is None
    stall.forget()
    assert stall.look({0: 5}, {0: 8}, 100.0) is None
