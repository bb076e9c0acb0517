"""Everything that the deployment names exists: metrics, labels, settings, options, ports and paths."""

from __future__ import annotations

import re

import pytest
import typer
from deploy_files import (
    DEPLOY,
    DOCKERFILE,
    OPERATIONS,
    OTHERS,
    ROOT,
    TARGET_LABELS,
    alerts,
    bytes_of,
    compose_command,
    exported,
    expressions,
    grouping_labels,
    load,
    manifests,
    pods,
    recorded,
    selectors,
    services,
)

from neardup.kernel_folder import KERNELS
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.telemetry.health import Health, application
from neardup_workers.outside.telemetry.metrics import METRICS, Metrics
from neardup_workers.running.cli.app import app

WORKERS = {"signer": "sign", "matcher": "match", "linker": "link", "filter": "filter", "serve": "serve"}
# A view is scraped as a service, under the job of the service.
COMMANDS = {**WORKERS, "view": "serve"}
NEARDUP_FILES = [
    ROOT / "docker-compose.yml", DOCKERFILE, OPERATIONS,
    *sorted(DEPLOY.glob("kubernetes/*")), *sorted(DEPLOY.glob("helm/**/*.yaml")),
]  # fmt: skip
HEALTH_PORT = StreamSettings.model_fields["health_port"].default
SERVE_PORT = ServeSettings.model_fields["port"].default
PARTITION_VALUES = re.compile(r"\d+")


def parses(arguments):
    """Whether the command line accepts these arguments; the function runs no command."""
    command = typer.main.get_command(app)
    context = None
    words = list(arguments)
    while hasattr(command, "commands"):
        context = command.make_context("neardup", [], parent=context, resilient_parsing=True)
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"there is no command {name}"
    command.make_context("neardup", words, parent=context)
    return True


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_of_rules_and_dashboard_is_exported(expression):
    """Each name, with its suffix, belongs to a metric or to a recording rule."""
    found = list(selectors(expression))
    if "ALERTS" not in expression:
        assert found or "up{" in expression
    for selector in found:
        assert selector.name in {*exported(), *recorded(), *OTHERS}


@pytest.mark.parametrize("expression", expressions())
def test_every_label_of_rules_and_dashboard_exists_with_these_values(expression):
    """Each label belongs to the metric or the target; each listed value is a value of the metric."""
    known = {label for row in METRICS.values() for label in row.label.split(",") if label}
    assert grouping_labels(expression) <= {*known, *TARGET_LABELS, "le"}
    for selector in selectors(expression):
        row = exported().get(selector.name)
        for label, operator, value in selector.matchers:
            assert label in {*TARGET_LABELS, *(row.label.split(",") if row else ["partition"])}
            if row and label == row.label and operator in ("=", "!="):
                assert value in row.values or PARTITION_VALUES.fullmatch(value)


def test_every_metric_is_shown_or_watched():
    """Every metric is on the dashboard or in an alert, except the metric that names the worker."""
    named = {selector.name for expression in expressions() for selector in selectors(expression)}
    rows = {exported()[name].name for name in named if name in exported()}
    assert set(METRICS) - rows == {"worker"}


def test_prometheus_scrapes_the_jobs_that_rules_query():
    """Job names such as neardup-signer come from the names of services and from the pods' components."""
    jobs = {job["job_name"] for job in load(DEPLOY / "prometheus.yml")["scrape_configs"]} - {"prometheus"}
    assert jobs == {f"neardup-{name}" for name in WORKERS}
    components = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods().values()}
    assert set(COMMANDS) < components
    asked = [pair for expression in expressions() for pair in re.findall(r'\bjob(=~?)"([^"]*)"', expression)]
    assert asked
    for operator, value in asked:
        assert value in jobs if operator == "=" else all(re.fullmatch(value, job) for job in jobs)


@pytest.mark.parametrize("path", NEARDUP_FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path):
    """Every command refuses unknown settings, so a wrong variable would prevent its start."""
    names = set(re.findall(r"\bNEARDUP_[A-Z0-9_]*[A-Z0-9]\b", path.read_text()))
    settings = {f"NEARDUP_{field.upper()}" for field in (*StreamSettings.model_fields, *ServeSettings.model_fields)}
    assert names <= settings | {KERNELS, "NEARDUP_MADE"}  # the second one is of the build


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_the_settings_are_valid_together(where, monkeypatch, tmp_path):
    """A worker starts with all of these settings; the alerts use the same windows and limits."""
    if where == "compose":
        values = services()["matcher"]["environment"]
    else:
        (values,) = [d["data"] for _, d in manifests() if d["kind"] == "ConfigMap"]
    monkeypatch.chdir(tmp_path)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = load_stream({})
    assert settings.window_seconds is not None
    limit = re.search(r"neardup_table_documents\)\) > (\d+)", alerts()["NeardupTableNearlyFull"]["expr"])
    assert int(limit[1]) == 0.85 * settings.window_documents


@pytest.mark.parametrize("name", ["topics", *COMMANDS])
def test_the_commands_of_the_compose_file_exist(name):
    """Each service runs an existing command with existing options."""
    arguments = compose_command(services()[name])
    assert parses(arguments)
    assert arguments[0] == COMMANDS.get(name, name)


@pytest.mark.parametrize("name", ["neardup-topics", *(f"neardup-{name}" for name in COMMANDS)])
def test_the_commands_of_the_manifests_exist(name):
    """Each workload runs an existing command with existing options."""
    (container,) = pods()[name]["spec"]["containers"]
    assert parses(container["args"])


def test_the_commands_of_the_operations_page_exist():
    """The test reads each line of an example that begins with neardup or runs neardup in a container."""
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", OPERATIONS.read_text(), re.S)
    lines = [line.split("#")[0].split("|")[0].replace("\\\n", " ") for block in blocks for line in block.splitlines()]
    commands = [match[1].split() for line in lines if (match := re.match(r"(?:\w+=\S+ )*neardup (.*)", line.strip()))]
    assert len(commands) >= 3
    assert all(parses([word.strip("'\"") for word in command]) for command in commands)


def test_every_port_is_the_port_of_the_health_server_or_of_the_service():
    """Scrape targets, probes, services and the image use the ports that workers and the service listen on."""
    ports = {
        sd["port"] for job in load(DEPLOY / "prometheus.yml")["scrape_configs"] for sd in job.get("dns_sd_configs", [])
    }
    for pod in pods().values():
        for container in pod["spec"]["containers"]:
            ports |= {port["containerPort"] for port in container.get("ports", [])}
    ports |= {port["port"] for _, d in manifests() if d["kind"] == "Service" for port in d["spec"]["ports"]}
    text = DOCKERFILE.read_text()
    exposed = re.search(r"EXPOSE (.+)", text)[1].split()
    ports |= {int(port) for port in (*exposed, re.search(r"or (\d+)\}/healthz", text)[1])}
    assert ports == {HEALTH_PORT, SERVE_PORT}


def test_every_requested_path_is_answered():
    """The application of the workers answers /healthz, /readyz and /metrics."""
    answer = application(Metrics("sign").registry, Health(60.0))
    asked = {"/metrics", *re.findall(r"/(?:healthz|readyz)\b", DOCKERFILE.read_text())}
    for pod in pods().values():
        for container in pod["spec"]["containers"]:
            asked |= {probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")}
    assert asked == {"/metrics", "/healthz", "/readyz"}
    for path in asked:
        statuses = []
        body = answer({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda status, *_, to=statuses: to.append(status))
        assert b"".join(body)
        assert not statuses[0].startswith("404")


def test_the_alert_on_memory_knows_the_limits_of_the_containers():
    """The alert fires at 85 % of a matcher's memory limit in the compose file and in the manifests."""
    (container,) = pods()["neardup-matcher"]["spec"]["containers"]
    limits = {
        bytes_of(container["resources"]["limits"]["memory"]),
        bytes_of(services()["matcher"]["deploy"]["resources"]["limits"]["memory"]),
    }
    number = re.search(r"> (\d+)", alerts()["NeardupMemoryNearlyFull"]["expr"])
    assert {int(limit * 0.85) for limit in limits} == {int(number[1])}


def test_the_operations_page_has_every_alert():
    """The page describes meaning and remedy of every alert by its name, and no other alert."""
    assert set(re.findall(r"\bNeardup[A-Z]\w+", OPERATIONS.read_text())) == set(alerts())


@pytest.mark.parametrize("name", alerts())
def test_every_runbook_has_commands_that_exist(name):
    """A section has commands that show the incident: their options exist, and their metrics are exported."""
    section = re.search(rf"^### {name}\n((?:(?!##).*\n)+)", OPERATIONS.read_text(), re.M)[1]
    commands = re.findall(r"^    (.+)$", section, re.M)
    assert commands
    for command in commands:
        program, *words = command.partition(" | ")[0].split()
        assert program in {"neardup", "curl", "df", "kafka-python"}
        assert program != "neardup" or parses(words)
        for metric in re.findall(r"neardup_\w+", command):
            assert any(known.startswith(metric) for known in exported())
        ports = re.findall(r"http://(?:WORKER|SERVICE):(\d+)", command)
        assert set(ports) <= {str(HEALTH_PORT), str(SERVE_PORT)}
