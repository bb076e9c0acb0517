"""The supervisor starts workers, restarts them, gives up if a restart cannot help, and ends in order."""

import io
import itertools
import signal
import sys
import threading

import pytest

from neardup_workers.outside.process.exits import Exit
from neardup_workers.running.service.supervisor import (
    FINAL,
    STOP_SECONDS_MAX,
    ChildSpec,
    Supervisor,
    arguments,
    child_specs,
    relay_rest,
    spawn,
)

SPECS = [
    ChildSpec("sign", "sign-0", ["s0"]),
    ChildSpec("sign", "sign-1", ["s1"]),
    ChildSpec("match", "match-0", ["m0"]),
]


class World:
    """Processes that end when the test decides, a clock that only naps advance, and a log of all events in order."""

    def __init__(self, specs=SPECS):
        self.seconds = 0.0
        self.signal = 0
        self.events = []
        self.ends = {}  # name -> exit code of a process that is due to end
        self.deaf = set()  # names of processes that ignore SIGTERM
        self.script = iter([])
        pids = itertools.count(100)
        self.supervisor = Supervisor(
            specs, lambda spec: _Process(self, spec.name, next(pids)), self, self.say, self.now
        )

    def now(self):
        return self.seconds

    def say(self, text):
        self.events.append(text)

    def sleep(self, seconds):
        self.seconds += seconds
        act = next(self.script, None)
        if act is not None:
            act()

    def nap(self, seconds):
        self.sleep(seconds)

    def started(self, name):
        return self.events.count(f"start {name}")


class _Process:
    def __init__(self, world, name, pid):
        self.world, self.name, self.pid, self.code = world, name, pid, None
        world.events.append(f"start {name}")

    def poll(self):
        if self.code is None and self.name in self.world.ends:
            self.code = self.world.ends.pop(self.name)
        return self.code

    def terminate(self):
        self.world.events.append(f"terminate {self.name}")
        if self.name not in self.world.deaf:
            self.code = 0

    def kill(self):
        self.world.events.append(f"kill {self.name}")
        self.code = -9


def test_signers_end_first_then_matchers():
    """No new record arrives while the matchers finish."""
    world = World()
    world.script = iter([None, lambda: setattr(world, "signal", signal.SIGTERM)])
    assert world.supervisor.run() == Exit.SUCCESS
    assert world.events == [
        "start sign-0", "start sign-1", "start match-0", "terminate sign-0", "terminate sign-1", "terminate match-0",
    ]  # fmt: skip


def test_a_dead_process_restarts_after_growing_waits():
    """The supervisor does not touch the other processes."""
    world = World()
    waits = []
    for deaths in range(1, 6):
        while world.started("match-0") < deaths:
            world.supervisor.look()
            world.seconds += 0.1
        world.ends["match-0"] = -9
        died = world.seconds
        while world.started("match-0") == deaths:
            assert world.supervisor.look() is None
            world.seconds += 0.1
        waits.append(world.seconds - died)
    assert waits == sorted(waits)
    assert world.started("sign-0") == world.started("sign-1") == 1
    assert world.events[3].startswith("match-0 ended with signal SIGKILL; restarting it in ")


def test_a_long_life_resets_the_wait_of_a_restart():
    """A process that dies once a day restarts at once."""
    world = World()
    waits = []
    for _ in range(5):
        world.supervisor.look()
        world.seconds += 3600.0
        world.ends["match-0"] = 1
        world.supervisor.look()
        waits.append(world.events[-1].rsplit(" ", 2)[1])
        world.seconds += 60.0
    assert len(set(waits)) == 1


@pytest.mark.parametrize("code", FINAL, ids=lambda code: code.name)
def test_an_error_that_no_restart_mends_ends_everything_with_its_code(code):
    """The message names the child."""
    world = World()
    world.script = iter([lambda: world.ends.update({"match-0": int(code)})])
    assert world.supervisor.run() == code
    assert world.started("match-0") == 1
    said = f"match-0 ended with code {int(code)} ({code.name.lower()}), which no restart can repair: stopping all"
    assert world.events[3:] == [said, "terminate sign-0", "terminate sign-1"]


def test_a_child_that_does_not_end_is_killed_by_its_id():
    """The kill comes after its time limit; the matchers stop after it."""
    world = World()
    world.deaf = {"sign-1"}
    world.script = iter([lambda: setattr(world, "signal", signal.SIGTERM)])
    world.supervisor.run()
    assert world.events[-3:] == [
        f"process 101 has not ended in {STOP_SECONDS_MAX:g} s: killing it", "kill sign-1", "terminate match-0",
    ]  # fmt: skip


def test_a_second_signal_kills_all_children_at_once():
    """The supervisor kills no other process."""

    def interrupt():
        raise KeyboardInterrupt

    world = World()
    world.script = iter([interrupt])
    with pytest.raises(KeyboardInterrupt):
        world.supervisor.run()
    assert world.events[-3:] == ["kill sign-0", "kill sign-1", "kill match-0"]


def test_children_get_instances_ports_and_the_settings_of_the_command_line():
    """The command line accepts each command."""
    specs = child_specs(
        {"sign": 2, "match": 1}, {"window_seconds": 5.0, "instance": "9", "start": "earliest"}, "x.toml", 9000
    )
    assert [spec.name for spec in specs] == ["sign-0", "sign-1", "match-0"]
    assert specs[2].command == [
        sys.executable, "-m", "neardup", "match", "--supervised", "--instance", "0", "--health-port", "9002",
        "--set=window_seconds=5.0", "--from=earliest", "--config", "x.toml",
    ]  # fmt: skip
    assert "1" in specs[1].command
    assert {
        spec.command[spec.command.index("--health-port") + 1]
        for spec in child_specs({"sign": 2, "match": 2}, {}, None, 0)
    } == {"0"}


def test_settings_go_to_children_as_they_came():
    """Switches, lists, and values that begin with a dash stay unchanged."""
    assert arguments({"line_ids": False, "strict": True, "languages": ("de", "en"), "replication_factor": -1}) == [
        "--set=line_ids=False", "--set=strict=True", "--set=languages=de,en", "--set=replication_factor=-1",
    ]  # fmt: skip


@pytest.mark.processes
def test_the_last_line_of_a_child_appears_although_it_is_relayed_late(monkeypatch):
    """It says why the child has ended, and the supervisor ends next."""
    shown, goes = io.StringIO(), threading.Event()

    class Late(io.StringIO):
        def write(self, text):
            goes.wait(60)
            return shown.write(text)

    monkeypatch.setattr(sys, "stderr", Late())
    with spawn(ChildSpec("sign", "sign-0", [sys.executable, "-S", "-c", "print('stopped')"])) as process:
        assert process.wait(60) == 0
        threading.Timer(0.05, goes.set).start()
        relay_rest()
        assert shown.getvalue() == "sign-0 | stopped\n"
