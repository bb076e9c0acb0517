"""A real Prometheus with the shipped rules scrapes real workers on a real Kafka."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest
import yaml
from deploy_files import DEPLOY, dashboard_expressions, exported, load, recorded, rules
from import_path import SOURCES
from kafka import KafkaProducer
from kafka_deployment import WAIT_SECONDS_MAX
from ports import free_port
from scraping import prometheus_in, running

NEARDUP = [sys.executable, "-m", "neardup"]
TEXT = "the quick brown fox jumps over the lazy dog while seven wizards boil their jugs of liquid in a quiet corner "
JOBS = {
    "neardup-signer": "sign", "neardup-matcher": "match", "neardup-linker": "link", "neardup-filter": "filter",
    "neardup-serve": "serve",
}  # fmt: skip

# Gauges of a member that stands by for another one; each role has one member here.
STANDBY = "neardup_standby_"


def wait_for(what, holds):
    """Poll until the result is true; return the result."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            found = holds()
            if found:
                return found
        time.sleep(0.3)
    raise AssertionError(f"{what}: not in {WAIT_SECONDS_MAX:g} s")


def wait_to_be(wanted, found):
    """Poll until the result is what is wanted. A scrape takes a moment; one that takes too long hides its worker."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline and found() != wanted:
        time.sleep(0.3)
    assert found() == wanted


def check(port, *documents):
    """Send documents to the service."""
    for document in documents:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/check", json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=60).close()


@pytest.fixture(scope="module")
def scraped(prometheus, bootstrap_servers, tmp_path_factory):
    """Topics, a worker of each role, documents with a pair and a bad one, and a Prometheus that has scraped all
    workers.
    """
    folder = tmp_path_factory.mktemp("scrape")
    first = free_port(count=1 + len(JOBS))
    server_port, *worker_ports = range(first, first + 1 + len(JOBS))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
    environment = {
        **kept,
        "PYTHONPATH": SOURCES,
        "NEARDUP_BOOTSTRAP_SERVERS": bootstrap_servers,
        "NEARDUP_TOPIC_PREFIX": f"scrape-{uuid.uuid4().hex[:8]}-",
        "NEARDUP_WINDOW_SECONDS": "86400",
        "NEARDUP_LATENESS_SECONDS": "3600",
        "NEARDUP_SHARDS": "2",
        "NEARDUP_VERDICTS": "true",
    }
    lines = [{"id": f"{i}", "text": TEXT * 3 + extra} for i, extra in enumerate(("", "", "indeed", "in truth"))]
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = load(DEPLOY / "prometheus.yml")
    config["global"].update(scrape_interval="1s", scrape_timeout="1s", evaluation_interval="1s")
    ports = {"prometheus": server_port, **dict(zip(JOBS, worker_ports, strict=True))}
    for job in config["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        job["static_configs"] = [{"targets": [f"127.0.0.1:{ports[job['job_name']]}"]}]
    (folder / "alerts.yml").write_text((DEPLOY / "alerts.yml").read_text())
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    options = {"cwd": folder, "env": environment}
    subprocess.run([*NEARDUP, "topics", "create"], check=True, capture_output=True, timeout=120, **options)
    with contextlib.ExitStack() as held:
        for (job, role), port in zip(JOBS.items(), worker_ports, strict=True):
            command = [*NEARDUP, role, "--from", "earliest", "--health-port", str(port)]
            if role == "serve":
                command = [*NEARDUP, role, "--state", str(folder / "state"), "--port", str(port)]
            held.enter_context(running(command, folder / f"{job}.log", **options))
        answers = held.enter_context(prometheus_in(folder, prometheus.server, server_port))
        wait_for("workers are ready", lambda: len(answers.ask("neardup_ready == 1")) == len(JOBS))
        load_command = [*NEARDUP, "load", "--quiet", str(folder / "in.jsonl")]
        subprocess.run(load_command, check=True, capture_output=True, timeout=120, **options)
        with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:  # load would refuse it here
            producer.send(f"{environment['NEARDUP_TOPIC_PREFIX']}documents", b'{"id": "bad"}').get(30)
        check(ports["neardup-serve"], lines[0], lines[2])  # a pair: without one there is no recall
        wait_for("the service has answered", lambda: answers.ask("neardup_service_requests_total > 0"))
        wait_for("the bad one is refused", lambda: answers.ask("neardup_refused_total > 0"))
        wait_for("pairs are scraped", lambda: answers.ask("neardup_pairs_total > 0"))
        wait_for("tables are reported", lambda: answers.ask("neardup_event_time_lag_seconds"))
        wait_for("what is kept is forwarded", lambda: answers.ask("neardup_documents_total{job='neardup-filter'} > 0"))
        wait_for("rules are evaluated", lambda: answers.ask("job:neardup_documents:rate5m > 0"))
        wait_for("duplicates are a fraction", lambda: answers.ask("job:neardup_duplicates:ratio1d >= 0"))
        yield answers


def test_all_workers_are_scraped(scraped):
    """up is 1 for all jobs, and each worker reports its role."""
    wait_to_be({*JOBS, "prometheus"}, lambda: {each["metric"]["job"] for each in scraped.ask("up == 1")})
    workers = "neardup_worker_info"
    wait_to_be(JOBS, lambda: {each["metric"]["job"]: each["metric"]["role"] for each in scraped.ask(workers)})


@pytest.mark.parametrize("job", JOBS)
def test_every_metric_of_the_table_arrives_under_its_name(scraped, job):
    """Prometheus has each series of the role with its label, including the series of assigned partitions."""
    wanted = {name: row for name, row in exported().items() if JOBS[job] in row.roles}
    if job == "neardup-serve":
        del wanted["neardup_lag_records"]  # of a view of a deployment only
    wanted = {name: row for name, row in wanted.items() if not (name.startswith(STANDBY) and row.kind == "gauge")}

    def found():
        """Each series, and whether it has the labels that the table gives it."""
        series = [each["metric"] for each in scraped.ask(f'{{job="{job}", __name__=~"neardup.+"}}')]
        labels = {each["__name__"]: each for each in series}
        return {
            name: {*wanted[name].label.split(",")} <= each.keys() if name in wanted else None
            for name, each in labels.items()
        }

    wait_to_be({name: bool(row.label) for name, row in wanted.items()}, found)


def test_the_numbers_equal_those_of_the_documents(scraped):
    """Four documents are signed, one without text is refused, one is a copy; pairs have two kinds of similarity."""

    def values(expression):
        return [each["value"][1] for each in scraped.ask(expression)]

    def refused():
        return [(each["metric"]["reason"], each["value"][1]) for each in scraped.ask("neardup_refused_total > 0")]

    wait_to_be(["4"], lambda: values("neardup_documents_total{job='neardup-signer'}"))
    wait_to_be([("no_text", "1")], refused)
    counted = '(neardup_pairs_total > 0) == ignoring(le) neardup_similarity_ratio_bucket{le="+Inf"}'
    wait_for("each pair has a similarity", lambda: scraped.ask(counted))


def test_every_rule_is_evaluated_without_error(scraped):
    """All rules are loaded and healthy, and their recorded series can be queried."""

    def health():
        loaded = [rule for group in scraped.get("/api/v1/rules")["groups"] for rule in group["rules"]]
        return len(loaded), {rule["health"] for rule in loaded}

    wait_to_be((len(rules()), {"ok"}), health)
    names = '{__name__=~".+:neardup.+"}'
    wait_to_be(recorded(), lambda: {each["metric"]["__name__"] for each in scraped.ask(names)})


def test_no_alert_fires_on_workers_that_work(scraped):
    """No worker is down, behind, slow or full."""
    assert scraped.ask('ALERTS{alertstate="firing"}') == []


@pytest.mark.parametrize("expression", dashboard_expressions())
def test_the_dashboard_gets_answers(scraped, expression):
    """Every panel has series; only panels of standbys and those that filter values above zero may be empty."""
    if "> 0" in expression or STANDBY in expression:
        scraped.ask(expression)
    else:
        wait_for(expression, lambda: scraped.ask(expression))
