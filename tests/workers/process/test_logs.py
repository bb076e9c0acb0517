"""The lines of a worker's log."""

import io
import json
import logging
import sys
from datetime import datetime, timedelta

import pytest

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.logs import has_log, log_fatal, start_log
from neardup_workers.running.service.supervisor import _relay


@pytest.fixture
def log(monkeypatch):
    """Return the text that the log writes in a format while a function runs; then restore the handlers."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def written(log_format, act):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        root.handlers = []
        try:
            start_log(log_format, "neardup-sign-1")
            assert has_log()
            act()
        finally:
            root.handlers = handlers
            root.setLevel(level)
        return stream.getvalue()

    return written


def test_a_line_of_json_has_time_level_message_and_worker(log):
    """Each line is one object; whole numbers and names stay unchanged."""
    line = log("json", lambda: logging.getLogger("x").info("ready on %s", "documents é"))
    event = json.loads(line)
    assert list(event) == ["time", "level", "message", "worker"]
    assert event | {"time": ""} == {
        "time": "", "level": "info", "message": "ready on documents é", "worker": "neardup-sign-1"
    }  # fmt: skip
    assert event["time"].endswith("+00:00")


def test_a_traceback_stays_in_the_line_of_its_event(log):
    """Collectors of lines then keep event and traceback together."""
    line = log("json", lambda: log_fatal("it ends", ValueError("why")))
    assert line.count("\n") == 1
    assert json.loads(line)["traceback"].endswith("ValueError: why")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_a_terminal_obeys_is_escaped(log, log_format):
    """Names of topics and ids are foreign input."""
    text = log(log_format, lambda: logging.getLogger("x").warning("id %s", "\x9b2J\u202e"))
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "x9b2J" in text


def test_no_process_has_a_log_before_it_starts_one():
    """Commands that read files write sentences instead."""
    assert not has_log()


def test_the_supervisor_passes_json_on_and_names_other_lines(capsys):
    """The children include their names in the JSON."""
    _relay("sign-0", io.BytesIO(b'{"level":"info"}\nTraceback\n'))
    assert capsys.readouterr().err == '{"level":"info"}\nsign-0 | Traceback\n'


@pytest.mark.parametrize("role", ["sign", "match", "up"])
def test_a_fatal_line_is_json_where_the_log_is(neardup, role):
    """This also holds when the settings themselves are refused."""
    done = neardup(role, "--log-format", "json")
    event = json.loads(done.stderr)
    assert done.returncode == Exit.USAGE
    assert (event["level"], event["worker"]) == ("critical", role)
    assert event["message"].startswith("window_seconds is not set")
    assert datetime.fromisoformat(event["time"]).utcoffset() == timedelta(0)


def test_an_unknown_format_of_the_log_is_refused(neardup):
    """The message names the unknown format."""
    done = neardup("up", "--log-format", "xml", "--window-seconds", "1h")
    assert done.returncode == Exit.USAGE
    assert b"log_format" in done.stderr
