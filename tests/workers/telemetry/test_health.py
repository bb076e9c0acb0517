"""Health and metrics over HTTP."""

import urllib.error
import urllib.request

import pytest

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.telemetry.health import START_SECONDS_MAX, Health, HealthAnswer, application, serve
from neardup_workers.outside.telemetry.metrics import Metrics


class Clock:
    """A clock that the test moves."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


def ask(app, path):
    """Status and text of a path of a WSGI application."""
    seen = []
    body = b"".join(app({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda status, headers: seen.append(status)))
    return int(seen[0].split()[0]), body.decode()


def test_a_worker_is_alive_while_its_loop_turns_within_the_limit():
    """The limit applies from the first turn on."""
    clock = Clock()
    app = application(Metrics("sign").registry, health := Health(10, clock))
    health.beat(HealthAnswer(False, "restoring"))
    clock.seconds = 10.0
    assert ask(app, "/healthz")[0] == 200
    clock.seconds = 10.1
    assert ask(app, "/healthz") == (503, "the loop turned 10.1 s ago\n")
    health.beat(HealthAnswer(False, "restoring"))
    assert ask(app, "/healthz")[0] == 200


def test_a_start_has_a_limit_of_its_own():
    """Each start and restart waits for the broker, so its limit is longer than a turn's."""
    clock = Clock()
    app = application(Metrics("sign").registry, health := Health(10, clock))
    for begins in (0.0, 1000.0):
        clock.seconds = begins + START_SECONDS_MAX
        assert ask(app, "/healthz") == (200, "the start began 300.0 s ago\n")
        clock.seconds += 0.1
        assert ask(app, "/healthz")[0] == 503
        assert ask(app, "/readyz")[0] == 503
        health.beat(HealthAnswer(True, "partitions: 0"))
        assert ask(app, "/readyz")[0] == 200
        clock.seconds = 1000.0
        health.beat(HealthAnswer(False, "restarting"))
        health.start()


def test_a_worker_is_ready_when_it_says_so_and_alive():
    """A starting, restoring or hanging worker is not ready."""
    clock = Clock()
    app = application(Metrics("sign").registry, health := Health(10, clock))
    assert ask(app, "/readyz") == (503, "starting\n")
    health.beat(HealthAnswer(False, "restoring: [1]"))
    assert ask(app, "/readyz") == (503, "restoring: [1]\n")
    health.beat(HealthAnswer(True, "partitions: 0, 1"))
    assert ask(app, "/readyz") == (200, "partitions: 0, 1\n")
    clock.seconds = 10.1
    assert ask(app, "/readyz")[0] == 503


def test_a_worker_that_finds_pairs_has_its_recall_as_json():
    """Another one has no such path."""
    app = application(Metrics("match").registry, health := Health(10, Clock()))
    assert ask(app, "/recall") == (404, "there are /metrics, /healthz, /readyz\n")
    health.reports = {"recall": lambda: {"limits": {"value": None}}}
    assert ask(app, "/recall") == (200, '{"limits":{"value":null}}\n')
    assert ask(app, "/elsewhere") == (404, "there are /metrics, /healthz, /readyz, /recall\n")


def test_the_server_answers_on_a_free_port():
    """It answers with metrics as text and with probes; for unknown paths it lists the known ones."""
    metrics = Metrics("sign")
    metrics.count("documents", 3)
    port = serve("127.0.0.1", 0, metrics.registry, Health(10))

    def get(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.read().decode()

    assert "neardup_documents_total 3.0" in get("/metrics")
    assert "the start began" in get("/healthz")
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        get("/else")
    assert "/metrics, /healthz, /readyz" in caught.value.read().decode()
    caught.value.close()


def test_a_port_that_is_taken_is_a_failure_with_the_remedy():
    """One sentence names the option to change."""
    port = serve("127.0.0.1", 0, Metrics("sign").registry, Health(10))
    with pytest.raises(
        Failure, match=f"cannot serve health and metrics on 127.0.0.1:{port}: .*--health-port"
    ) as caught:
        serve("127.0.0.1", port, Metrics("sign").registry, Health(10))
    assert caught.value.code == Exit.USAGE
