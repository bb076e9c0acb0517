"""The clock of arrivals: a jump of the machine's clock is not believed, and time goes on."""

import random

import pytest
from service_world import TEXT, opened

from neardup import Document
from neardup_workers.outside.process.clock import STEP_SECONDS_MAX, ArrivalClock
from neardup_workers.outside.settings.serve import ServeSettings

YEAR = 365 * 86_400.0
BEGIN = 1_700_000_000.0


class Machine:
    """A machine whose clock can be set; ``elapsed`` is the time since its boot."""

    def __init__(self):
        self.elapsed, self.offset = 1_000.0, BEGIN

    def wall(self):
        return self.elapsed + self.offset

    def clock(self, latest=None, kept=""):
        return ArrivalClock(latest, self.wall, lambda: self.elapsed, kept)


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 61.0, -61.0])
def test_a_clock_that_jumps_is_not_believed_until_it_is_back(caplog, jump):
    """Time goes on at the pace of the boot clock; each change is one line of the log."""
    machine = Machine()
    clock = machine.clock()
    before = clock()
    machine.offset += jump
    for seconds in (1.0, 100.0, 1_000.0):
        machine.elapsed += seconds
        assert clock() == pytest.approx(machine.elapsed - 1_000.0 + before)
        assert clock.jump_seconds == pytest.approx(jump)
    machine.offset -= jump
    assert clock() == pytest.approx(machine.wall())
    assert clock.jump_seconds == 0.0
    assert [record.message.split(" the window")[0] for record in caplog.records] == [
        f"the clock of this machine is {abs(jump):.0f} seconds {'ahead of' if jump > 0 else 'behind'}",
        "the clock of this machine agrees with",
    ]


def test_a_clock_that_is_set_by_seconds_is_believed(caplog):
    """Time never falls, and follows the machine's clock."""
    draw, machine = random.Random(1), Machine()
    clock = machine.clock()
    last = clock()
    for _ in range(500):
        machine.elapsed += draw.uniform(0, 100)
        machine.offset += draw.uniform(-1, 1) * STEP_SECONDS_MAX / 2
        present = clock()
        assert present >= last
        assert present == last or present == machine.wall()
        last = present
    assert not caplog.records


def test_the_next_process_goes_on_with_the_time_of_the_last(monkeypatch):
    """Unless the clock differs by what small steps may make, the machine has started again, or what was kept is
    damaged."""
    machine = Machine()
    kept = machine.clock().kept
    for jump, is_believed in ((90.0, True), (-90.0, True), (YEAR, False), (-YEAR, False)):
        machine.offset, machine.elapsed = BEGIN + jump, machine.elapsed + 600.0
        clock = machine.clock(None, kept)
        assert clock() == pytest.approx(machine.elapsed + BEGIN + jump * is_believed)
        assert bool(clock.jump_seconds) != is_believed
        kept = kept if is_believed else clock.kept
    for damaged in ("", "x", kept.split()[0], f"{kept} x"):
        assert machine.clock(None, damaged)() == pytest.approx(machine.wall())
    monkeypatch.setattr("neardup_workers.outside.process.clock.boot_id", lambda: "another")
    assert machine.clock(None, kept)() == pytest.approx(machine.wall())


@pytest.mark.parametrize("ahead", [True, False])
def test_a_clock_that_is_right_has_a_remedy_that_helps(caplog, ahead):
    """A start by events forgets what was kept: then a clock ahead of the window is believed, and one behind it is
    not."""
    machine = Machine()
    kept, latest = machine.clock().kept, machine.wall()
    machine.offset += YEAR if ahead else -YEAR
    assert machine.clock(latest, kept)() == pytest.approx(latest)
    [said] = [record.message for record in caplog.records]
    assert ("start the service with --clock event" in said, "in a new folder" in said) == (ahead, not ahead)
    assert machine.clock(latest)() == pytest.approx(machine.wall() if ahead else latest)


def test_a_window_that_a_wrong_clock_dated_still_loses_its_documents(tmp_path):
    """A clock that was a year ahead when the service started, then right: documents leave after the window, in the next
    process too."""
    machine, settings = Machine(), ServeSettings(threshold=0.7, window_seconds=1_000.0)
    machine.offset += YEAR
    latest = None
    for part in range(2):
        clock = machine.clock(latest)
        keeper = opened(tmp_path, settings, clock)
        for n in range(3):
            [answer] = keeper.check([Document(f"{part}-{n}", TEXT, None)])
            assert answer.verdict["status"] == ("duplicate" if n else "original")
        machine.offset = BEGIN
        machine.elapsed += 900.0
        [answer] = keeper.check([Document(f"{part}-copy", TEXT, None)])
        assert answer.verdict["status"] == "duplicate"
        latest = clock()
        keeper.log.close()
        machine.elapsed += 1.0
        keeper = opened(tmp_path, settings, clock := machine.clock(latest))
        machine.elapsed += 3_000.0
        [answer] = keeper.check([Document(f"{part}-later", TEXT + f" A new end {part}.", None)])
        assert keeper.matcher.table.documents == 1
        keeper.remove(f"{part}-later")
        latest = clock()
        keeper.log.close()


def test_a_year_ahead_for_one_check_empties_no_window(tmp_path):
    """Documents before and after it are copies of the first."""
    machine = Machine()
    keeper = opened(tmp_path, ServeSettings(threshold=0.7, window_seconds=172_800.0), machine.clock())
    for n in range(20):
        machine.offset = BEGIN + (YEAR if n == 5 else 0.0)
        machine.elapsed += 10.0
        [answer] = keeper.check([Document(str(n), TEXT, None)])
        assert answer.verdict["status"] == ("duplicate" if n else "original")
        assert answer.verdict["time"] == pytest.approx(BEGIN + machine.elapsed)
    keeper.log.close()
