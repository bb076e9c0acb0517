"""Signals: what is cut, what is finished, and what is said of that."""

import signal
import threading

import pytest

from neardup_workers.outside.process import stop as stopping
from neardup_workers.outside.process.stop import LEFT, Stop, Uncaught


def test_who_works_on_after_a_signal_says_so(monkeypatch):
    """Once; a second signal ends the work, and after the end of the reading the first one ends what follows."""
    monkeypatch.setattr(stopping, "SILENT_SECONDS", 0.01)
    said, line = threading.Event(), []
    stop = Stop(lambda text: (line.append(text), said.set()))
    stop.install()
    try:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal == signal.SIGINT
        assert said.wait(60)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        stop.release()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert line == [LEFT.format("what was read is")]


def test_who_has_ended_says_nothing_of_work_that_is_left(monkeypatch):
    """The line would come when what was read is answered."""
    monkeypatch.setattr(stopping, "SILENT_SECONDS", 3600.0)
    stop, before = Stop(pytest.fail), set(threading.enumerate())
    stop.install()
    try:
        signal.raise_signal(signal.SIGINT)
        [left] = set(threading.enumerate()) - before
    finally:
        stop.release()
    left.join(60)
    assert not left.is_alive()


def test_work_without_a_result_in_part_is_cut():
    """The signal is known; who takes no signal over is ended by the first one, too."""
    stop = Stop()
    stop.install()
    try:
        with pytest.raises(KeyboardInterrupt), stop.at_once():
            signal.raise_signal(signal.SIGINT)
    finally:
        stop.release()
    assert stop.signal == signal.SIGINT
    Uncaught().install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
